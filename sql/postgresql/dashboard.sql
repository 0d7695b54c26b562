-- The dashboard of the latest UTC day from the table daily_totals: the figures of dashboard.sql,
-- without reading messages. The quantile is within 2 %. Removed messages count as long as their
-- rollups are kept.
--
-- metric                the name of the metric, as in `decklog stats dashboard --json`
-- name                  in by_model, by_config and by_task_type the model, configuration or task
--                       type; otherwise empty
-- value                 the number; NULL for a rate or an average without data
WITH today AS (
    SELECT
        t.*,
        -- The part of messages in roles other than assistant.
        COALESCE(CAST(t.others ->> 'errors' AS bigint), 0) AS unanswered,
        t.requests + COALESCE(CAST(t.others ->> 'errors' AS bigint), 0) AS all_requests
    FROM daily_totals t
    WHERE t.day = (SELECT MAX(l.day) FROM daily_totals l WHERE l.messages > 0)
),
sums AS (
    SELECT
        (SELECT SUM(s.conversations)
         FROM (SELECT MAX(t.active_conversations) AS conversations FROM today t GROUP BY t.store_id) s
        ) AS conversations,
        SUM(t.messages) AS messages,
        SUM(t.tokens_in) AS tokens_in,
        SUM(t.tokens_out) AS tokens_out,
        SUM(t.latency_ms_sum - COALESCE(CAST(t.others ->> 'latency_ms_sum' AS bigint), 0)) AS latency_ms,
        SUM(t.latency_count - COALESCE(CAST(t.others ->> 'latency_count' AS bigint), 0)) AS latencies,
        SUM(t.context_utilization_sum
            - COALESCE(CAST(t.others ->> 'context_utilization_sum' AS float8), 0)) AS utilization,
        SUM(t.context_utilization_count
            - COALESCE(CAST(t.others ->> 'context_utilization_count' AS bigint), 0)) AS utilizations,
        SUM(t.compressed - COALESCE(CAST(t.others ->> 'compressed' AS bigint), 0)) AS compressed,
        SUM(t.requests) AS answered,
        SUM(t.errors - t.unanswered) AS answer_errors,
        SUM(t.unanswered) AS unanswered
    FROM today t
),
-- The number of answers in each bucket of latency: bucket b has those above 1.02^(b - 2) and up to
-- 1.02^(b - 1) milliseconds, and bucket 0 the zeros.
buckets AS (
    SELECT b.bucket AS bucket, SUM(b.answers) AS answers
    FROM (
        SELECT CAST(p.pair ->> 0 AS integer) AS bucket, CAST(p.pair ->> 1 AS bigint) AS answers
        FROM today t, LATERAL jsonb_array_elements(t.latency_sketch) AS p (pair)
        UNION ALL
        SELECT CAST(p.pair ->> 0 AS integer), -CAST(p.pair ->> 1 AS bigint)
        FROM today t, LATERAL jsonb_array_elements(t.others -> 'latency_sketch') AS p (pair)
    ) b
    GROUP BY b.bucket
),
placed AS (
    SELECT
        b.bucket AS bucket,
        SUM(b.answers) OVER (ORDER BY b.bucket) AS place,
        SUM(b.answers) OVER () AS answers
    FROM buckets b
)
SELECT 'conversations_today' AS metric, '' AS name, 1e0 * s.conversations AS value FROM sums s
UNION ALL
SELECT 'messages_today', '', 1e0 * s.messages FROM sums s
UNION ALL
SELECT 'tokens_today', '', 1e0 * (s.tokens_in + s.tokens_out) FROM sums s
UNION ALL
SELECT 'tokens_in_today', '', 1e0 * s.tokens_in FROM sums s
UNION ALL
SELECT 'tokens_out_today', '', 1e0 * s.tokens_out FROM sums s
UNION ALL
SELECT 'avg_latency_ms', '', 1e0 * s.latency_ms / NULLIF(s.latencies, 0) FROM sums s
UNION ALL
SELECT 'p95_latency_ms', '',
    MIN(CASE WHEN p.bucket = 0 THEN 0 ELSE 1.02 ^ (p.bucket - 1) / 1.01 END)
FROM placed p
WHERE p.place * 100 >= p.answers * 95 AND p.answers > 0
UNION ALL
SELECT 'error_rate', '', CASE WHEN s.answered + s.unanswered = 0 THEN NULL
    WHEN s.answer_errors < s.answered
    THEN 1e0 * (s.answer_errors + s.unanswered) / (s.answered + s.unanswered)
    ELSE 1e0 END FROM sums s
UNION ALL
SELECT 'avg_context_utilization', '', 1e0 * s.utilization / NULLIF(s.utilizations, 0) FROM sums s
UNION ALL
SELECT 'compression_rate', '', CASE WHEN s.answered = 0 THEN NULL
    WHEN s.compressed > s.answered THEN 1e0
    ELSE 1e0 * s.compressed / s.answered END FROM sums s
UNION ALL
SELECT d.metric, d.name, 1e0 * SUM(t.all_requests)
FROM today t, LATERAL (VALUES
    ('by_model', t.model_used),
    ('by_config', t.config_used),
    ('by_task_type', t.task_type)
) AS d (metric, name)
WHERE d.name IS NOT NULL
GROUP BY d.metric, d.name
HAVING SUM(t.all_requests) > 0
ORDER BY metric, value DESC, name;
