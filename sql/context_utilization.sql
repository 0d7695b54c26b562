-- Use of the context window by model. The figures of `decklog stats context`.
--
-- model_used                 the model; NULL for messages without one
-- context_utilization_count  messages in the role assistant with a value
-- context_utilization_avg    the average used fraction of the context window, from 0 to 1
SELECT
    model_used,
    context_utilization_count,
    context_utilization_avg
FROM (
    SELECT
        m.model_used AS model_used,
        COUNT(*) AS messages,
        SUM(CASE WHEN m.role = 'assistant' AND m.part_of IS NULL THEN 1
                 WHEN m.role <> 'assistant' AND m.error IS NOT NULL THEN 1
                 ELSE 0 END) AS requests,
        COUNT(CASE WHEN m.role = 'assistant' AND m.context_utilization BETWEEN 0 AND 1
                   THEN m.context_utilization END) AS context_utilization_count,
        AVG(CASE WHEN m.role = 'assistant' AND m.context_utilization BETWEEN 0 AND 1
                 THEN m.context_utilization END) AS context_utilization_avg
    FROM messages m
    -- WHERE m.day >= '2025-12-21'
    GROUP BY m.model_used
) g
WHERE context_utilization_count > 0
ORDER BY requests DESC, messages DESC, model_used NULLS FIRST;
