-- The dashboard of the latest UTC day in the log. The figures of
-- `decklog stats dashboard --since DAY --until NEXT-DAY --json`.
--
-- metric                the name of the metric, as in that JSON
-- name                  in by_model, by_config and by_task_type the model, configuration or task
--                       type; otherwise empty
-- value                 the number; NULL for a rate or an average without data
WITH today AS (
    SELECT
        m.conversation_id AS conversation_id,
        m.model_used AS model_used,
        m.config_used AS config_used,
        m.task_type AS task_type,
        CASE WHEN m.tokens_in > 0 THEN m.tokens_in ELSE 0 END AS tokens_in,
        CASE WHEN m.tokens_out > 0 THEN m.tokens_out ELSE 0 END AS tokens_out,
        CASE WHEN m.role = 'assistant' AND m.latency_ms >= 0 THEN m.latency_ms END AS latency_ms,
        CASE WHEN m.role = 'assistant' AND m.context_utilization BETWEEN 0 AND 1
             THEN m.context_utilization END AS context_utilization,
        CASE WHEN m.role = 'assistant' AND m.compression_applied THEN 1 ELSE 0 END AS is_compressed,
        CASE WHEN m.role = 'assistant' AND m.part_of IS NULL THEN 1 ELSE 0 END AS is_answered,
        CASE WHEN m.role = 'assistant' AND m.error IS NOT NULL THEN 1 ELSE 0 END AS is_failed_answer,
        CASE WHEN m.role <> 'assistant' AND m.error IS NOT NULL THEN 1 ELSE 0 END AS is_unanswered,
        CASE WHEN m.role = 'assistant' AND m.part_of IS NULL THEN 1
             WHEN m.role <> 'assistant' AND m.error IS NOT NULL THEN 1
             ELSE 0 END AS is_request
    FROM messages m
    WHERE m.day = (SELECT MAX(l.day) FROM messages l)
),
sums AS (
    SELECT
        COUNT(DISTINCT t.conversation_id) AS conversations,
        COUNT(*) AS messages,
        COALESCE(SUM(t.tokens_in), 0) AS tokens_in,
        COALESCE(SUM(t.tokens_out), 0) AS tokens_out,
        AVG(t.latency_ms) AS latency_ms_avg,
        AVG(t.context_utilization) AS context_utilization_avg,
        COALESCE(SUM(t.is_compressed), 0) AS compressed,
        COALESCE(SUM(t.is_answered), 0) AS answered,
        COALESCE(SUM(t.is_failed_answer), 0) AS answer_errors,
        COALESCE(SUM(t.is_unanswered), 0) AS unanswered
    FROM today t
),
placed AS (
    SELECT
        t.latency_ms AS latency_ms,
        ROW_NUMBER() OVER (ORDER BY t.latency_ms) AS place,
        COUNT(*) OVER () AS answers
    FROM today t
    WHERE t.latency_ms IS NOT NULL
)
SELECT 'conversations_today' AS metric, '' AS name, 1e0 * s.conversations AS value FROM sums s
UNION ALL
SELECT 'messages_today' AS metric, '' AS name, 1e0 * s.messages AS value FROM sums s
UNION ALL
SELECT 'tokens_today' AS metric, '' AS name, 1e0 * (s.tokens_in + s.tokens_out) AS value FROM sums s
UNION ALL
SELECT 'tokens_in_today' AS metric, '' AS name, 1e0 * s.tokens_in AS value FROM sums s
UNION ALL
SELECT 'tokens_out_today' AS metric, '' AS name, 1e0 * s.tokens_out AS value FROM sums s
UNION ALL
SELECT 'avg_latency_ms' AS metric, '' AS name, 1e0 * s.latency_ms_avg AS value FROM sums s
UNION ALL
SELECT 'p95_latency_ms' AS metric, '' AS name,
    1e0 * MIN(CASE WHEN p.place * 100 >= p.answers * 95 THEN p.latency_ms END) AS value
FROM placed p
UNION ALL
SELECT 'error_rate' AS metric, '' AS name, CASE WHEN s.answered + s.unanswered = 0 THEN NULL
    WHEN s.answer_errors < s.answered
    THEN 1e0 * (s.answer_errors + s.unanswered) / (s.answered + s.unanswered)
    ELSE 1e0 END AS value FROM sums s
UNION ALL
SELECT 'avg_context_utilization' AS metric, '' AS name, 1e0 * s.context_utilization_avg AS value
FROM sums s
UNION ALL
SELECT 'compression_rate' AS metric, '' AS name, CASE WHEN s.answered = 0 THEN NULL
    WHEN s.compressed > s.answered THEN 1e0
    ELSE 1e0 * s.compressed / s.answered END AS value FROM sums s
UNION ALL
SELECT 'by_model' AS metric, d.model_used AS name, 1e0 * SUM(d.is_request) AS value
FROM today d
WHERE d.model_used IS NOT NULL
GROUP BY d.model_used
HAVING SUM(d.is_request) > 0
UNION ALL
SELECT 'by_config' AS metric, d.config_used AS name, 1e0 * SUM(d.is_request) AS value
FROM today d
WHERE d.config_used IS NOT NULL
GROUP BY d.config_used
HAVING SUM(d.is_request) > 0
UNION ALL
SELECT 'by_task_type' AS metric, d.task_type AS name, 1e0 * SUM(d.is_request) AS value
FROM today d
WHERE d.task_type IS NOT NULL
GROUP BY d.task_type
HAVING SUM(d.is_request) > 0
ORDER BY metric, value DESC, name;
