-- Requests by model and configuration. The figures of
-- `decklog stats models --since DAY`, over the whole log.
--
-- model_used, config_used  the model and the configuration; NULL for messages without one
-- requests              answers, without further parts of an answer, and messages in other roles
--                       with an error
-- latency_count, latency_ms_avg
--                       messages in the role assistant with a latency, and its average
-- tokens_in, tokens_out prompt and answer tokens of messages in the role assistant
-- cost_usd              their cost in US dollars; NULL if none of them has a cost
-- context_utilization_avg  their average used fraction of the context window
-- errors                messages with an error, in any role
-- error_rate            failed requests divided by requests; NULL if there were no requests
SELECT
    model_used,
    config_used,
    answered + unanswered AS requests,
    latency_count,
    latency_ms_avg,
    tokens_in,
    tokens_out,
    cost_usd,
    context_utilization_avg,
    answer_errors + unanswered AS errors,
    CASE WHEN answered + unanswered = 0 THEN NULL
         WHEN answer_errors < answered
         THEN 1e0 * (answer_errors + unanswered) / (answered + unanswered)
         ELSE 1e0 END AS error_rate
FROM (
    SELECT
        m.model_used AS model_used,
        m.config_used AS config_used,
        COUNT(*) AS messages,
        SUM(CASE WHEN m.role = 'assistant' AND m.part_of IS NULL THEN 1 ELSE 0 END) AS answered,
        SUM(CASE WHEN m.role = 'assistant' AND m.error IS NOT NULL THEN 1 ELSE 0 END) AS answer_errors,
        SUM(CASE WHEN m.role <> 'assistant' AND m.error IS NOT NULL THEN 1 ELSE 0 END) AS unanswered,
        COUNT(CASE WHEN m.role = 'assistant' AND m.latency_ms >= 0 THEN m.latency_ms END) AS latency_count,
        AVG(CASE WHEN m.role = 'assistant' AND m.latency_ms >= 0 THEN m.latency_ms END) AS latency_ms_avg,
        SUM(CASE WHEN m.role = 'assistant' AND m.tokens_in > 0
                 THEN m.tokens_in ELSE 0 END) AS tokens_in,
        SUM(CASE WHEN m.role = 'assistant' AND m.tokens_out > 0
                 THEN m.tokens_out ELSE 0 END) AS tokens_out,
        COUNT(CASE WHEN m.role = 'assistant' AND m.cost_usd >= 0 THEN m.cost_usd END) AS cost_count,
        SUM(CASE WHEN m.role = 'assistant' AND m.cost_usd >= 0 THEN m.cost_usd END) AS cost_usd,
        COUNT(CASE WHEN m.role = 'assistant' AND m.context_utilization BETWEEN 0 AND 1
                   THEN m.context_utilization END) AS context_utilization_count,
        AVG(CASE WHEN m.role = 'assistant' AND m.context_utilization BETWEEN 0 AND 1
                 THEN m.context_utilization END) AS context_utilization_avg
    FROM messages m
    -- The last seven days:
    -- WHERE m.day >= '2025-12-21'
    GROUP BY m.model_used, m.config_used
) g
WHERE answered > 0 OR unanswered > 0 OR answer_errors > 0 OR tokens_in > 0 OR tokens_out > 0
   OR cost_count > 0 OR latency_count > 0 OR context_utilization_count > 0
ORDER BY answered + unanswered DESC, messages DESC, model_used NULLS FIRST, config_used NULLS FIRST;
