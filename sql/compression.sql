-- Compression of contexts by model. The figures of `decklog stats compression`.
--
-- model_used            the model; NULL for messages without one
-- answers               messages in the role assistant, without further parts of an answer
-- compressed            messages in the role assistant with a compressed context, and further parts
-- compression_rate      compressed divided by answers, at most 1; NULL if there were no answers
SELECT
    model_used,
    answers,
    compressed,
    CASE WHEN answers = 0 THEN NULL
         WHEN compressed > answers THEN 1e0
         ELSE 1e0 * compressed / answers END AS compression_rate
FROM (
    SELECT
        m.model_used AS model_used,
        COUNT(*) AS messages,
        SUM(CASE WHEN m.role = 'assistant' AND m.part_of IS NULL THEN 1 ELSE 0 END) AS answers,
        SUM(CASE WHEN m.role <> 'assistant' AND m.error IS NOT NULL THEN 1 ELSE 0 END) AS unanswered,
        SUM(CASE WHEN m.role = 'assistant' AND m.compression_applied THEN 1 ELSE 0 END) AS compressed
    FROM messages m
    -- WHERE m.day >= '2025-12-21'
    GROUP BY m.model_used
) g
WHERE answers > 0 OR unanswered > 0 OR compressed > 0
ORDER BY answers + unanswered DESC, messages DESC, model_used NULLS FIRST;
