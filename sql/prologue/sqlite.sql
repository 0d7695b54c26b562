-- Views for SQLite, tried with 3.40.1, over files of `decklog export sqlite`, one a store. The tables
-- of a file have the names and the columns of the views: for one file this is not needed. SQLite
-- attaches 10 files at most, unless it was built for more.

ATTACH '/data/97180a72-13a5-43ab-bf78-80a772b4e197.sqlite' AS store_0;

ATTACH '/data/cbebe79f-356c-4619-98a3-32fc5afa2b9f.sqlite' AS store_1;

CREATE TEMP VIEW messages AS
SELECT
    store_id, seq, day, id, conversation_id, sequence, timestamp, role, source, content_type,
    model_used, config_used, orchestration_mode, task_type, tokens_in, tokens_out,
    tokens_cache_write, tokens_cache_read, tokens_reasoning, latency_ms, context_utilization,
    cost_usd, handoff_steps, compression_applied, error_type, error, tool_name, tool_call_id,
    models_in_chain, part_of, content, reasoning, tool_args, tool_result, inference_metadata
FROM store_0.messages
UNION ALL
SELECT
    store_id, seq, day, id, conversation_id, sequence, timestamp, role, source, content_type,
    model_used, config_used, orchestration_mode, task_type, tokens_in, tokens_out,
    tokens_cache_write, tokens_cache_read, tokens_reasoning, latency_ms, context_utilization,
    cost_usd, handoff_steps, compression_applied, error_type, error, tool_name, tool_call_id,
    models_in_chain, part_of, content, reasoning, tool_args, tool_result, inference_metadata
FROM store_1.messages;

CREATE TEMP VIEW conversations AS
SELECT
    store_id, seq, day, id, workspace, project, client, user_id, session_id, parent_id,
    parent_call_id, title, status, created_at, updated_at, last_error, message_count,
    total_tokens_in, total_tokens_out, total_latency_ms
FROM store_0.conversations
UNION ALL
SELECT
    store_id, seq, day, id, workspace, project, client, user_id, session_id, parent_id,
    parent_call_id, title, status, created_at, updated_at, last_error, message_count,
    total_tokens_in, total_tokens_out, total_latency_ms
FROM store_1.conversations;

CREATE TEMP VIEW tool_calls AS
SELECT
    store_id, seq, day, request_id, call_id, parent_id, vendor, tool_name, started_at, args_sha256,
    arguments_json, ended_at, latency_ms, error_kind, error_msg, outcome_json, status
FROM store_0.tool_calls
UNION ALL
SELECT
    store_id, seq, day, request_id, call_id, parent_id, vendor, tool_name, started_at, args_sha256,
    arguments_json, ended_at, latency_ms, error_kind, error_msg, outcome_json, status
FROM store_1.tool_calls;

CREATE TEMP VIEW code_edit_proposals AS
SELECT
    store_id, seq, day, request_id, created_at, confidence, diffs_json, decided_at, applied_at,
    commit_hash, status
FROM store_0.code_edit_proposals
UNION ALL
SELECT
    store_id, seq, day, request_id, created_at, confidence, diffs_json, decided_at, applied_at,
    commit_hash, status
FROM store_1.code_edit_proposals;

CREATE TEMP VIEW events AS
SELECT
    store_id, seq, day, id, parent_id, event_type, created_at, payload
FROM store_0.events
UNION ALL
SELECT
    store_id, seq, day, id, parent_id, event_type, created_at, payload
FROM store_1.events;

CREATE TEMP VIEW inbox AS
SELECT
    store_id, seq, day, id, update_id, created_at, chat_id, message_date, text, payload, attempts,
    locked_at, error, status, updated_at
FROM store_0.inbox
UNION ALL
SELECT
    store_id, seq, day, id, update_id, created_at, chat_id, message_date, text, payload, attempts,
    locked_at, error, status, updated_at
FROM store_1.inbox;

CREATE TEMP VIEW conversation_turns AS
SELECT
    store_id, seq, day, id, parent_id, message_id, thread_id, kind, created_at, content
FROM store_0.conversation_turns
UNION ALL
SELECT
    store_id, seq, day, id, parent_id, message_id, thread_id, kind, created_at, content
FROM store_1.conversation_turns;
