-- Conversations with a message, by UTC day. The figures of `decklog stats active`.
--
-- day                   the UTC day
-- conversations         distinct conversations with a message of that day, in any role
SELECT
    m.day AS day,
    COUNT(DISTINCT m.conversation_id) AS conversations
FROM messages m
-- WHERE m.day >= '2025-12-21'
GROUP BY m.day
ORDER BY day;
