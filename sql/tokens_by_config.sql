-- Messages and tokens by configuration, in any role. The figures of
-- `decklog stats usage --group config --bucket all`.
--
-- config_used           the configuration; NULL for messages without one
-- messages              messages in any role
-- requests              answers, without further parts of an answer, and messages in other roles
--                       with an error
-- tokens_in             prompt tokens, including those written to a cache or read from one
-- tokens_out            tokens of answers, including reasoning
-- tokens_input          the part of tokens_in that was neither written to a cache nor read from one
-- tokens_cache_write    the part of tokens_in that was written to a cache
-- tokens_cache_write_1h  the part of tokens_cache_write that is kept for one hour
-- tokens_cache_read     the part of tokens_in that was read from a cache
-- tokens_reasoning      the part of tokens_out used for reasoning
-- cost_usd              cost in US dollars; NULL if no message has a cost
SELECT
    config_used,
    messages,
    requests,
    tokens_in,
    tokens_out,
    CASE WHEN tokens_in > tokens_cache_write + tokens_cache_read
         THEN tokens_in - tokens_cache_write - tokens_cache_read ELSE 0 END AS tokens_input,
    tokens_cache_write,
    tokens_cache_write_1h,
    tokens_cache_read,
    tokens_reasoning,
    cost_usd
FROM (
    SELECT
        m.config_used AS config_used,
        COUNT(*) AS messages,
        SUM(CASE WHEN m.role = 'assistant' AND m.part_of IS NULL THEN 1
                 WHEN m.role <> 'assistant' AND m.error IS NOT NULL THEN 1
                 ELSE 0 END) AS requests,
        SUM(CASE WHEN m.tokens_in > 0 THEN m.tokens_in ELSE 0 END) AS tokens_in,
        SUM(CASE WHEN m.tokens_out > 0 THEN m.tokens_out ELSE 0 END) AS tokens_out,
        SUM(CASE WHEN m.tokens_cache_write > 0
                 THEN m.tokens_cache_write ELSE 0 END) AS tokens_cache_write,
        SUM(CASE WHEN m.tokens_cache_write_1h > 0
                 THEN m.tokens_cache_write_1h ELSE 0 END) AS tokens_cache_write_1h,
        SUM(CASE WHEN m.tokens_cache_read > 0
                 THEN m.tokens_cache_read ELSE 0 END) AS tokens_cache_read,
        SUM(CASE WHEN m.tokens_reasoning > 0 THEN m.tokens_reasoning ELSE 0 END) AS tokens_reasoning,
        SUM(CASE WHEN m.cost_usd >= 0 THEN m.cost_usd END) AS cost_usd
    FROM messages m
    -- WHERE m.day >= '2025-12-21'
    GROUP BY m.config_used
) g
ORDER BY requests DESC, messages DESC, config_used NULLS FIRST;
