-- Latency of answers by orchestration mode. The figures of `decklog stats latency`.
--
-- orchestration_mode    the mode; NULL for messages without one
-- requests              answers, without further parts of an answer, and messages in other roles
--                       with an error
-- latency_count         messages in the role assistant with a latency
-- latency_ms_avg        their average, in milliseconds
-- latency_ms_p50, latency_ms_p95, latency_ms_p99
--                       the latency that this percentage of them does not exceed. The figures here
--                       are exact; those of `decklog stats` are within 1 %.
WITH counted AS (
    SELECT
        m.orchestration_mode AS orchestration_mode,
        CASE WHEN m.role = 'assistant' AND m.part_of IS NULL THEN 1
             WHEN m.role <> 'assistant' AND m.error IS NOT NULL THEN 1
             ELSE 0 END AS is_request,
        CASE WHEN m.role = 'assistant' AND m.latency_ms >= 0 THEN m.latency_ms END AS latency
    FROM messages m
    -- WHERE m.day >= '2025-12-21'
),
placed AS (
    SELECT
        c.orchestration_mode AS orchestration_mode,
        c.is_request AS is_request,
        c.latency AS latency,
        ROW_NUMBER() OVER (
            PARTITION BY c.orchestration_mode, CASE WHEN c.latency IS NULL THEN 0 ELSE 1 END
            ORDER BY c.latency
        ) AS place,
        COUNT(c.latency) OVER (PARTITION BY c.orchestration_mode) AS answers
    FROM counted c
)
SELECT
    orchestration_mode,
    requests,
    latency_count,
    latency_ms_avg,
    latency_ms_p50,
    latency_ms_p95,
    latency_ms_p99
FROM (
    SELECT
        p.orchestration_mode AS orchestration_mode,
        COUNT(*) AS messages,
        SUM(p.is_request) AS requests,
        COUNT(p.latency) AS latency_count,
        AVG(p.latency) AS latency_ms_avg,
        MIN(CASE WHEN p.place * 100 >= p.answers * 50 THEN p.latency END) AS latency_ms_p50,
        MIN(CASE WHEN p.place * 100 >= p.answers * 95 THEN p.latency END) AS latency_ms_p95,
        MIN(CASE WHEN p.place * 100 >= p.answers * 99 THEN p.latency END) AS latency_ms_p99
    FROM placed p
    GROUP BY p.orchestration_mode
) g
WHERE requests > 0 OR latency_count > 0
ORDER BY requests DESC, messages DESC, orchestration_mode NULLS FIRST;
