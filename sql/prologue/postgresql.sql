-- Views for PostgreSQL, tried with 15.18, over the tables of `decklog ship postgres://…`. A table has
-- the columns of its view except the day. The views hide the tables from this session. A condition
-- on the time of the records (timestamp, started_at or created_at) reads only the partitions of
-- these days; one on day reads all.
SET TimeZone = 'UTC';

CREATE OR REPLACE TEMP VIEW messages AS
SELECT *, CAST(timestamp AT TIME ZONE 'UTC' AS date) AS day
FROM public.messages;

CREATE OR REPLACE TEMP VIEW conversations AS
SELECT *, CAST(created_at AT TIME ZONE 'UTC' AS date) AS day
FROM public.conversations;

CREATE OR REPLACE TEMP VIEW tool_calls AS
SELECT *, CAST(started_at AT TIME ZONE 'UTC' AS date) AS day
FROM public.tool_calls;

CREATE OR REPLACE TEMP VIEW code_edit_proposals AS
SELECT *, CAST(created_at AT TIME ZONE 'UTC' AS date) AS day
FROM public.code_edit_proposals;

CREATE OR REPLACE TEMP VIEW events AS
SELECT *, CAST(created_at AT TIME ZONE 'UTC' AS date) AS day
FROM public.events;

CREATE OR REPLACE TEMP VIEW inbox AS
SELECT *, CAST(created_at AT TIME ZONE 'UTC' AS date) AS day
FROM public.inbox;

CREATE OR REPLACE TEMP VIEW conversation_turns AS
SELECT *, CAST(created_at AT TIME ZONE 'UTC' AS date) AS day
FROM public.conversation_turns;
