-- Requests by task type. The figures of `decklog stats tasks`.
--
-- task_type             the task type; NULL for messages without one
-- requests              answers, without further parts of an answer, and messages in other roles
--                       with an error
-- share                 the part of all requests, from 0 to 1
SELECT
    task_type,
    requests,
    1e0 * requests / SUM(requests) OVER () AS share
FROM (
    SELECT
        m.task_type AS task_type,
        COUNT(*) AS messages,
        SUM(CASE WHEN m.role = 'assistant' AND m.part_of IS NULL THEN 1
                 WHEN m.role <> 'assistant' AND m.error IS NOT NULL THEN 1
                 ELSE 0 END) AS requests
    FROM messages m
    -- WHERE m.day >= '2025-12-21'
    GROUP BY m.task_type
) g
WHERE requests > 0
ORDER BY requests DESC, messages DESC, task_type NULLS FIRST;
