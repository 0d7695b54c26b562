-- Views for SQLite, tried with 3.40.1, over the files of `decklog export sqlite`, one a store.
-- SQLite attaches 10 files at most, unless it was built for more.

ATTACH '/data/97180a72-13a5-43ab-bf78-80a772b4e197.sqlite' AS store_0;

ATTACH '/data/cbebe79f-356c-4619-98a3-32fc5afa2b9f.sqlite' AS store_1;

CREATE TEMP VIEW messages AS
SELECT '97180a72-13a5-43ab-bf78-80a772b4e197' AS store_id, date(timestamp) AS day, * FROM store_0.messages
UNION ALL
SELECT 'cbebe79f-356c-4619-98a3-32fc5afa2b9f' AS store_id, date(timestamp) AS day, * FROM store_1.messages;

CREATE TEMP VIEW conversations AS
SELECT '97180a72-13a5-43ab-bf78-80a772b4e197' AS store_id, date(created_at) AS day, * FROM store_0.conversations
UNION ALL
SELECT 'cbebe79f-356c-4619-98a3-32fc5afa2b9f' AS store_id, date(created_at) AS day, * FROM store_1.conversations;

CREATE TEMP VIEW tool_calls AS
SELECT '97180a72-13a5-43ab-bf78-80a772b4e197' AS store_id, date(started_at / 1000, 'unixepoch') AS day, * FROM store_0.tool_calls
UNION ALL
SELECT 'cbebe79f-356c-4619-98a3-32fc5afa2b9f' AS store_id, date(started_at / 1000, 'unixepoch') AS day, * FROM store_1.tool_calls;

CREATE TEMP VIEW code_edit_proposals AS
SELECT '97180a72-13a5-43ab-bf78-80a772b4e197' AS store_id, date(created_at / 1000, 'unixepoch') AS day, * FROM store_0.code_edit_proposals
UNION ALL
SELECT 'cbebe79f-356c-4619-98a3-32fc5afa2b9f' AS store_id, date(created_at / 1000, 'unixepoch') AS day, * FROM store_1.code_edit_proposals;

CREATE TEMP VIEW events AS
SELECT '97180a72-13a5-43ab-bf78-80a772b4e197' AS store_id, date(created_at / 1000, 'unixepoch') AS day, * FROM store_0.events
UNION ALL
SELECT 'cbebe79f-356c-4619-98a3-32fc5afa2b9f' AS store_id, date(created_at / 1000, 'unixepoch') AS day, * FROM store_1.events;

CREATE TEMP VIEW inbox AS
SELECT '97180a72-13a5-43ab-bf78-80a772b4e197' AS store_id, date(created_at / 1000, 'unixepoch') AS day, * FROM store_0.inbox
UNION ALL
SELECT 'cbebe79f-356c-4619-98a3-32fc5afa2b9f' AS store_id, date(created_at / 1000, 'unixepoch') AS day, * FROM store_1.inbox;

CREATE TEMP VIEW conversation_turns AS
SELECT '97180a72-13a5-43ab-bf78-80a772b4e197' AS store_id, date(created_at / 1000, 'unixepoch') AS day, * FROM store_0.conversation_turns
UNION ALL
SELECT 'cbebe79f-356c-4619-98a3-32fc5afa2b9f' AS store_id, date(created_at / 1000, 'unixepoch') AS day, * FROM store_1.conversation_turns;
