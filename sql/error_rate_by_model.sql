-- Errors and failed requests by model. The figures of `decklog stats models --group model`.
--
-- model_used            the model; NULL for messages without one
-- requests              answers, without further parts of an answer, and messages in other roles
--                       with an error
-- errors                messages with an error, in any role
-- failed_requests       the requests that failed: several parts of one answer may have an error
-- error_rate            failed_requests divided by requests; NULL if there were no requests
SELECT
    model_used,
    requests,
    errors,
    failed_requests,
    CASE WHEN requests > 0 THEN 1e0 * failed_requests / requests END AS error_rate
FROM (
    SELECT
        model_used,
        messages,
        answered + unanswered AS requests,
        answer_errors + unanswered AS errors,
        CASE WHEN answer_errors < answered THEN answer_errors
             ELSE answered END + unanswered AS failed_requests
    FROM (
        SELECT
            m.model_used AS model_used,
            COUNT(*) AS messages,
            SUM(CASE WHEN m.role = 'assistant' AND m.part_of IS NULL THEN 1 ELSE 0 END) AS answered,
            SUM(CASE WHEN m.role = 'assistant' AND m.error IS NOT NULL THEN 1 ELSE 0 END) AS answer_errors,
            SUM(CASE WHEN m.role <> 'assistant' AND m.error IS NOT NULL THEN 1 ELSE 0 END) AS unanswered
        FROM messages m
        -- WHERE m.day >= '2025-12-21'
        GROUP BY m.model_used
    ) g
) r
WHERE requests > 0 OR errors > 0
ORDER BY requests DESC, messages DESC, model_used NULLS FIRST;
