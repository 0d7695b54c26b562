-- Views for DuckDB, tried with 2.0.1 and 1.5.5, over parquet objects.
-- For s3:// run INSTALL httpfs, LOAD httpfs and CREATE SECRET first.
-- A query with a condition on day opens only the files of these days; it lists all files. A pattern
-- without a file is an error before 2.0, so each view lists the files of all kinds and opens those
-- of its own. hive_partitioning is off, as conversation_turns have a field named kind.
SET TimeZone = 'UTC';

CREATE OR REPLACE VIEW messages_lines AS
SELECT
    regexp_extract(filename, '/store=([^/]+)/', 1) AS store_id,
    CAST(regexp_extract(filename, '/day=([^/]+)/', 1) AS DATE) AS day, seq,
    CAST("at" AS TIMESTAMP) AS line_at, op, id, conversation_id, sequence,
    CAST("at" AS TIMESTAMP) AS timestamp, role, source, content_type, model_used, config_used,
    orchestration_mode, task_type, tokens_in, tokens_out, tokens_cache_write, tokens_cache_read,
    tokens_reasoning, latency_ms, context_utilization, cost_usd, handoff_steps, compression_applied,
    error_type, error, tool_name, tool_call_id, models_in_chain, part_of, content, reasoning,
    tool_args, tool_result, inference_metadata
FROM read_parquet('s3://bucket/log/kind=*/*/*/*.parquet',
    filename = true, hive_partitioning = false,
    schema = MAP {
        'seq': {name: 'seq', type: 'BIGINT', default_value: NULL},
        'at': {name: 'at', type: 'TIMESTAMPTZ', default_value: NULL},
        'op': {name: 'op', type: 'VARCHAR', default_value: NULL},
        'id': {name: 'id', type: 'VARCHAR', default_value: NULL},
        'conversation_id': {name: 'conversation_id', type: 'VARCHAR', default_value: NULL},
        'sequence': {name: 'sequence', type: 'BIGINT', default_value: NULL},
        'timestamp': {name: 'timestamp', type: 'TIMESTAMPTZ', default_value: NULL},
        'role': {name: 'role', type: 'VARCHAR', default_value: NULL},
        'source': {name: 'source', type: 'VARCHAR', default_value: NULL},
        'content_type': {name: 'content_type', type: 'VARCHAR', default_value: NULL},
        'model_used': {name: 'model_used', type: 'VARCHAR', default_value: NULL},
        'config_used': {name: 'config_used', type: 'VARCHAR', default_value: NULL},
        'orchestration_mode': {name: 'orchestration_mode', type: 'VARCHAR', default_value: NULL},
        'task_type': {name: 'task_type', type: 'VARCHAR', default_value: NULL},
        'tokens_in': {name: 'tokens_in', type: 'BIGINT', default_value: NULL},
        'tokens_out': {name: 'tokens_out', type: 'BIGINT', default_value: NULL},
        'tokens_cache_write': {name: 'tokens_cache_write', type: 'BIGINT', default_value: NULL},
        'tokens_cache_read': {name: 'tokens_cache_read', type: 'BIGINT', default_value: NULL},
        'tokens_reasoning': {name: 'tokens_reasoning', type: 'BIGINT', default_value: NULL},
        'latency_ms': {name: 'latency_ms', type: 'BIGINT', default_value: NULL},
        'context_utilization': {name: 'context_utilization', type: 'DOUBLE', default_value: NULL},
        'cost_usd': {name: 'cost_usd', type: 'DOUBLE', default_value: NULL},
        'handoff_steps': {name: 'handoff_steps', type: 'BIGINT', default_value: NULL},
        'compression_applied': {name: 'compression_applied', type: 'BOOLEAN', default_value: NULL},
        'error_type': {name: 'error_type', type: 'VARCHAR', default_value: NULL},
        'error': {name: 'error', type: 'VARCHAR', default_value: NULL},
        'tool_name': {name: 'tool_name', type: 'VARCHAR', default_value: NULL},
        'tool_call_id': {name: 'tool_call_id', type: 'VARCHAR', default_value: NULL},
        'models_in_chain': {name: 'models_in_chain', type: 'VARCHAR', default_value: NULL},
        'part_of': {name: 'part_of', type: 'VARCHAR', default_value: NULL},
        'content': {name: 'content', type: 'VARCHAR', default_value: NULL},
        'reasoning': {name: 'reasoning', type: 'VARCHAR', default_value: NULL},
        'tool_args': {name: 'tool_args', type: 'VARCHAR', default_value: NULL},
        'tool_result': {name: 'tool_result', type: 'VARCHAR', default_value: NULL},
        'inference_metadata': {name: 'inference_metadata', type: 'VARCHAR', default_value: NULL}
    })
WHERE filename LIKE '%/kind=messages/%' AND seq IS NOT NULL;

CREATE OR REPLACE VIEW messages AS
SELECT
    store_id, seq, day, id, conversation_id, sequence, timestamp, role, source, content_type,
    model_used, config_used, orchestration_mode, task_type, tokens_in, tokens_out,
    tokens_cache_write, tokens_cache_read, tokens_reasoning, latency_ms, context_utilization,
    cost_usd, handoff_steps, compression_applied, error_type, error, tool_name, tool_call_id,
    models_in_chain, part_of, content, reasoning, tool_args, tool_result, inference_metadata
FROM (
    SELECT *, ROW_NUMBER() OVER (PARTITION BY store_id, day, id ORDER BY seq) AS place
    FROM messages_lines
) AS l
WHERE place = 1;

CREATE OR REPLACE VIEW conversations_lines AS
SELECT
    regexp_extract(filename, '/store=([^/]+)/', 1) AS store_id,
    CAST(regexp_extract(filename, '/day=([^/]+)/', 1) AS DATE) AS day, seq,
    CAST("at" AS TIMESTAMP) AS line_at, op, id, workspace, project, client, user_id, session_id,
    parent_id, parent_call_id, title, status, CAST(created_at AS TIMESTAMP) AS created_at,
    CAST(updated_at AS TIMESTAMP) AS updated_at, last_error
FROM read_parquet('s3://bucket/log/kind=*/*/*/*.parquet',
    filename = true, hive_partitioning = false,
    schema = MAP {
        'seq': {name: 'seq', type: 'BIGINT', default_value: NULL},
        'at': {name: 'at', type: 'TIMESTAMPTZ', default_value: NULL},
        'op': {name: 'op', type: 'VARCHAR', default_value: NULL},
        'id': {name: 'id', type: 'VARCHAR', default_value: NULL},
        'workspace': {name: 'workspace', type: 'VARCHAR', default_value: NULL},
        'project': {name: 'project', type: 'VARCHAR', default_value: NULL},
        'client': {name: 'client', type: 'VARCHAR', default_value: NULL},
        'user_id': {name: 'user_id', type: 'VARCHAR', default_value: NULL},
        'session_id': {name: 'session_id', type: 'VARCHAR', default_value: NULL},
        'parent_id': {name: 'parent_id', type: 'VARCHAR', default_value: NULL},
        'parent_call_id': {name: 'parent_call_id', type: 'VARCHAR', default_value: NULL},
        'title': {name: 'title', type: 'VARCHAR', default_value: NULL},
        'status': {name: 'status', type: 'VARCHAR', default_value: NULL},
        'created_at': {name: 'created_at', type: 'TIMESTAMPTZ', default_value: NULL},
        'updated_at': {name: 'updated_at', type: 'TIMESTAMPTZ', default_value: NULL},
        'last_error': {name: 'last_error', type: 'VARCHAR', default_value: NULL}
    })
WHERE filename LIKE '%/kind=conversations/%' AND seq IS NOT NULL;

CREATE OR REPLACE VIEW conversations AS
SELECT c.store_id AS store_id, c.seq AS seq, CAST(c.created_at AS DATE) AS day, c.id AS id,
    c.workspace AS workspace, c.project AS project, c.client AS client, c.user_id AS user_id,
    c.session_id AS session_id, c.parent_id AS parent_id, c.parent_call_id AS parent_call_id,
    c.title AS title, c.created_at AS created_at,
    CASE WHEN m.verdict_seq > c.seq AND m.verdict_error IS NOT NULL THEN 'error'
         WHEN m.verdict_seq > c.seq AND c.status = 'error' THEN 'active'
         ELSE COALESCE(c.status, 'active') END AS status,
    CASE WHEN m.verdict_seq > c.seq THEN m.verdict_error ELSE c.last_error END AS last_error,
    CASE WHEN m.last_at > c.updated_at THEN m.last_at ELSE c.updated_at END AS updated_at,
    COALESCE(m.message_count, 0) AS message_count,
    COALESCE(m.total_tokens_in, 0) AS total_tokens_in,
    COALESCE(m.total_tokens_out, 0) AS total_tokens_out,
    COALESCE(m.total_latency_ms, 0) AS total_latency_ms
FROM (
    SELECT *,
        ROW_NUMBER() OVER (PARTITION BY store_id, id ORDER BY seq DESC) AS from_last
    FROM conversations_lines
) AS c
LEFT JOIN (
    SELECT n.store_id AS store_id, n.conversation_id AS conversation_id,
        COUNT(*) AS message_count,
        SUM(CASE WHEN n.tokens_in > 0 THEN n.tokens_in ELSE 0 END) AS total_tokens_in,
        SUM(CASE WHEN n.tokens_out > 0 THEN n.tokens_out ELSE 0 END) AS total_tokens_out,
        SUM(CASE WHEN n.latency_ms > 0 THEN n.latency_ms ELSE 0 END) AS total_latency_ms,
        MAX(n.timestamp) AS last_at,
        MAX(CASE WHEN n.is_verdict = 1 AND n.from_last = 1 THEN n.seq END) AS verdict_seq,
        MAX(CASE WHEN n.is_verdict = 1 AND n.from_last = 1 THEN n.error END) AS verdict_error
    FROM (
        SELECT *, ROW_NUMBER() OVER (
            PARTITION BY store_id, conversation_id, is_verdict ORDER BY sequence DESC, seq DESC
        ) AS from_last
        FROM (
            SELECT store_id, seq, conversation_id, sequence, timestamp,
                tokens_in, tokens_out, latency_ms, error,
                CASE WHEN error IS NOT NULL OR role = 'assistant' THEN 1 ELSE 0 END AS is_verdict
            FROM messages
        ) AS o
    ) AS n
    GROUP BY n.store_id, n.conversation_id
) AS m ON m.store_id = c.store_id AND m.conversation_id = c.id
WHERE c.from_last = 1;

CREATE OR REPLACE VIEW tool_calls_lines AS
SELECT
    regexp_extract(filename, '/store=([^/]+)/', 1) AS store_id,
    CAST(regexp_extract(filename, '/day=([^/]+)/', 1) AS DATE) AS day, seq,
    CAST("at" AS TIMESTAMP) AS line_at, op, request_id, call_id, parent_id, vendor, tool_name,
    CAST(started_at AS TIMESTAMP) AS started_at, args_sha256, arguments_json,
    CAST(ended_at AS TIMESTAMP) AS ended_at, latency_ms, error_kind, error_msg, outcome_json
FROM read_parquet('s3://bucket/log/kind=*/*/*/*.parquet',
    filename = true, hive_partitioning = false,
    schema = MAP {
        'seq': {name: 'seq', type: 'BIGINT', default_value: NULL},
        'at': {name: 'at', type: 'TIMESTAMPTZ', default_value: NULL},
        'op': {name: 'op', type: 'VARCHAR', default_value: NULL},
        'request_id': {name: 'request_id', type: 'VARCHAR', default_value: NULL},
        'call_id': {name: 'call_id', type: 'VARCHAR', default_value: NULL},
        'parent_id': {name: 'parent_id', type: 'VARCHAR', default_value: NULL},
        'vendor': {name: 'vendor', type: 'VARCHAR', default_value: NULL},
        'tool_name': {name: 'tool_name', type: 'VARCHAR', default_value: NULL},
        'started_at': {name: 'started_at', type: 'TIMESTAMPTZ', default_value: NULL},
        'args_sha256': {name: 'args_sha256', type: 'VARCHAR', default_value: NULL},
        'arguments_json': {name: 'arguments_json', type: 'VARCHAR', default_value: NULL},
        'ended_at': {name: 'ended_at', type: 'TIMESTAMPTZ', default_value: NULL},
        'latency_ms': {name: 'latency_ms', type: 'BIGINT', default_value: NULL},
        'error_kind': {name: 'error_kind', type: 'VARCHAR', default_value: NULL},
        'error_msg': {name: 'error_msg', type: 'VARCHAR', default_value: NULL},
        'outcome_json': {name: 'outcome_json', type: 'VARCHAR', default_value: NULL}
    })
WHERE filename LIKE '%/kind=tool_calls/%' AND seq IS NOT NULL;

CREATE OR REPLACE VIEW tool_calls AS
SELECT store_id, seq, day, request_id, call_id,
    parent_id, vendor, tool_name, started_at, args_sha256, arguments_json,
    ended_at, latency_ms, outcome_json, error_kind, error_msg,
    COALESCE(outcome_op, 'requested') AS status
FROM (
    SELECT l.store_id AS store_id, l.request_id AS request_id, l.call_id AS call_id,
    MAX(CASE WHEN l.is_outcome = 0 AND l.from_last = 1 THEN l.seq END) AS seq,
        MAX(CASE WHEN l.is_outcome = 0 AND l.from_last = 1 THEN l.day END) AS day,
    MAX(CASE WHEN l.is_outcome = 0 AND l.from_last = 1 THEN l.op END) AS request_op,
    MAX(CASE WHEN l.is_outcome = 0 AND l.from_last = 1 THEN l.parent_id END) AS parent_id,
        MAX(CASE WHEN l.is_outcome = 0 AND l.from_last = 1 THEN l.vendor END) AS vendor,
        MAX(CASE WHEN l.is_outcome = 0 AND l.from_last = 1 THEN l.tool_name END) AS tool_name,
        MAX(CASE WHEN l.is_outcome = 0 AND l.from_last = 1 THEN l.started_at END) AS started_at,
        MAX(CASE WHEN l.is_outcome = 0 AND l.from_last = 1 THEN l.args_sha256 END) AS args_sha256,
        MAX(CASE WHEN l.is_outcome = 0 AND l.from_last = 1 THEN l.arguments_json END) AS arguments_json,
    MAX(CASE WHEN l.is_outcome = 1 AND l.from_first = 1 THEN l.op END) AS outcome_op,
    MAX(CASE WHEN l.is_outcome = 1 AND l.from_first = 1 THEN l.ended_at END) AS ended_at,
        MAX(CASE WHEN l.is_outcome = 1 AND l.from_first = 1 THEN l.latency_ms END) AS latency_ms,
        MAX(CASE WHEN l.is_outcome = 1 AND l.from_first = 1 THEN l.outcome_json END) AS outcome_json,
        MAX(CASE WHEN l.is_outcome = 1 AND l.from_first = 1 THEN l.error_kind END) AS error_kind,
        MAX(CASE WHEN l.is_outcome = 1 AND l.from_first = 1 THEN l.error_msg END) AS error_msg
    FROM (
        SELECT *,
            ROW_NUMBER() OVER (
                PARTITION BY store_id, request_id, call_id, is_outcome ORDER BY seq
            ) AS from_first,
            ROW_NUMBER() OVER (
                PARTITION BY store_id, request_id, call_id, is_outcome ORDER BY seq DESC
            ) AS from_last
        FROM (
            SELECT *, CASE WHEN op IN ('completed', 'failed') THEN 1 ELSE 0 END AS is_outcome
            FROM tool_calls_lines
        ) AS o
    ) AS l
    GROUP BY l.store_id, l.request_id, l.call_id
) AS c
WHERE request_op = 'requested';

CREATE OR REPLACE VIEW code_edit_proposals_lines AS
SELECT
    regexp_extract(filename, '/store=([^/]+)/', 1) AS store_id,
    CAST(regexp_extract(filename, '/day=([^/]+)/', 1) AS DATE) AS day, seq,
    CAST("at" AS TIMESTAMP) AS line_at, op, request_id, CAST(created_at AS TIMESTAMP) AS created_at,
    confidence, diffs_json, CAST(decided_at AS TIMESTAMP) AS decided_at,
    CAST(applied_at AS TIMESTAMP) AS applied_at, commit_hash
FROM read_parquet('s3://bucket/log/kind=*/*/*/*.parquet',
    filename = true, hive_partitioning = false,
    schema = MAP {
        'seq': {name: 'seq', type: 'BIGINT', default_value: NULL},
        'at': {name: 'at', type: 'TIMESTAMPTZ', default_value: NULL},
        'op': {name: 'op', type: 'VARCHAR', default_value: NULL},
        'request_id': {name: 'request_id', type: 'VARCHAR', default_value: NULL},
        'created_at': {name: 'created_at', type: 'TIMESTAMPTZ', default_value: NULL},
        'confidence': {name: 'confidence', type: 'DOUBLE', default_value: NULL},
        'diffs_json': {name: 'diffs_json', type: 'VARCHAR', default_value: NULL},
        'decided_at': {name: 'decided_at', type: 'TIMESTAMPTZ', default_value: NULL},
        'applied_at': {name: 'applied_at', type: 'TIMESTAMPTZ', default_value: NULL},
        'commit_hash': {name: 'commit_hash', type: 'VARCHAR', default_value: NULL}
    })
WHERE filename LIKE '%/kind=code_edit_proposals/%' AND seq IS NOT NULL;

CREATE OR REPLACE VIEW code_edit_proposals AS
SELECT store_id, seq, day, request_id,
    created_at, confidence, diffs_json,
    decided_at, applied_at, commit_hash,
    COALESCE(step_op, 'pending') AS status
FROM (
    SELECT l.store_id AS store_id, l.request_id AS request_id,
    MAX(CASE WHEN l.is_step = 0 AND l.from_last = 1 THEN l.seq END) AS seq,
        MAX(CASE WHEN l.is_step = 0 AND l.from_last = 1 THEN l.day END) AS day,
    MAX(CASE WHEN l.is_step = 0 AND l.from_last = 1 THEN l.op END) AS asserted_op,
    MAX(CASE WHEN l.is_step = 0 AND l.from_last = 1 THEN l.created_at END) AS created_at,
        MAX(CASE WHEN l.is_step = 0 AND l.from_last = 1 THEN l.confidence END) AS confidence,
        MAX(CASE WHEN l.is_step = 0 AND l.from_last = 1 THEN l.diffs_json END) AS diffs_json,
    MAX(CASE WHEN l.is_step = 1 AND l.from_last = 1 THEN l.op END) AS step_op,
    MAX(CASE WHEN l.is_step = 1 AND l.from_last = 1 THEN l.decided_at END) AS decided_at,
        MAX(CASE WHEN l.is_step = 1 AND l.from_last = 1 THEN l.applied_at END) AS applied_at,
        MAX(CASE WHEN l.is_step = 1 AND l.from_last = 1 THEN l.commit_hash END) AS commit_hash
    FROM (
        SELECT *,
            ROW_NUMBER() OVER (PARTITION BY store_id, request_id, is_step ORDER BY seq DESC) AS from_last
        FROM (
            SELECT *, CASE WHEN op IN ('pending', 'retracted') THEN 0 ELSE 1 END AS is_step
            FROM code_edit_proposals_lines
        ) AS o
    ) AS l
    GROUP BY l.store_id, l.request_id
) AS c
WHERE asserted_op = 'pending';

CREATE OR REPLACE VIEW events_lines AS
SELECT
    regexp_extract(filename, '/store=([^/]+)/', 1) AS store_id,
    CAST(regexp_extract(filename, '/day=([^/]+)/', 1) AS DATE) AS day, seq,
    CAST("at" AS TIMESTAMP) AS line_at, op, id, parent_id, event_type,
    CAST(created_at AS TIMESTAMP) AS created_at, payload
FROM read_parquet('s3://bucket/log/kind=*/*/*/*.parquet',
    filename = true, hive_partitioning = false,
    schema = MAP {
        'seq': {name: 'seq', type: 'BIGINT', default_value: NULL},
        'at': {name: 'at', type: 'TIMESTAMPTZ', default_value: NULL},
        'op': {name: 'op', type: 'VARCHAR', default_value: NULL},
        'id': {name: 'id', type: 'BIGINT', default_value: NULL},
        'parent_id': {name: 'parent_id', type: 'BIGINT', default_value: NULL},
        'event_type': {name: 'event_type', type: 'VARCHAR', default_value: NULL},
        'created_at': {name: 'created_at', type: 'TIMESTAMPTZ', default_value: NULL},
        'payload': {name: 'payload', type: 'VARCHAR', default_value: NULL}
    })
WHERE filename LIKE '%/kind=events/%' AND seq IS NOT NULL;

CREATE OR REPLACE VIEW events AS
SELECT
    store_id, seq, day, id, parent_id, event_type, created_at, payload
FROM (
    SELECT *, ROW_NUMBER() OVER (PARTITION BY store_id, day, id ORDER BY seq) AS place
    FROM events_lines
) AS l
WHERE place = 1;

CREATE OR REPLACE VIEW inbox_lines AS
SELECT
    regexp_extract(filename, '/store=([^/]+)/', 1) AS store_id,
    CAST(regexp_extract(filename, '/day=([^/]+)/', 1) AS DATE) AS day, seq,
    CAST("at" AS TIMESTAMP) AS line_at, op, id, update_id,
    CAST(created_at AS TIMESTAMP) AS created_at, chat_id, message_date, text, payload, attempts,
    CAST(locked_at AS TIMESTAMP) AS locked_at, error
FROM read_parquet('s3://bucket/log/kind=*/*/*/*.parquet',
    filename = true, hive_partitioning = false,
    schema = MAP {
        'seq': {name: 'seq', type: 'BIGINT', default_value: NULL},
        'at': {name: 'at', type: 'TIMESTAMPTZ', default_value: NULL},
        'op': {name: 'op', type: 'VARCHAR', default_value: NULL},
        'id': {name: 'id', type: 'BIGINT', default_value: NULL},
        'update_id': {name: 'update_id', type: 'BIGINT', default_value: NULL},
        'created_at': {name: 'created_at', type: 'TIMESTAMPTZ', default_value: NULL},
        'chat_id': {name: 'chat_id', type: 'BIGINT', default_value: NULL},
        'message_date': {name: 'message_date', type: 'BIGINT', default_value: NULL},
        'text': {name: 'text', type: 'VARCHAR', default_value: NULL},
        'payload': {name: 'payload', type: 'VARCHAR', default_value: NULL},
        'attempts': {name: 'attempts', type: 'BIGINT', default_value: NULL},
        'locked_at': {name: 'locked_at', type: 'TIMESTAMPTZ', default_value: NULL},
        'error': {name: 'error', type: 'VARCHAR', default_value: NULL}
    })
WHERE filename LIKE '%/kind=inbox/%' AND seq IS NOT NULL;

CREATE OR REPLACE VIEW inbox AS
SELECT store_id, seq, day, id,
    update_id, created_at, chat_id, message_date, text, payload,
    COALESCE(attempts, 0) AS attempts, locked_at, error,
    COALESCE(step_op, 'queued') AS status, COALESCE(step_at, created_at) AS updated_at
FROM (
    SELECT l.store_id AS store_id, l.id AS id,
    MAX(CASE WHEN l.is_step = 0 AND l.from_first = 1 THEN l.seq END) AS seq,
        MAX(CASE WHEN l.is_step = 0 AND l.from_first = 1 THEN l.day END) AS day,
    MAX(CASE WHEN l.is_step = 0 AND l.from_first = 1 THEN l.update_id END) AS update_id,
        MAX(CASE WHEN l.is_step = 0 AND l.from_first = 1 THEN l.created_at END) AS created_at,
        MAX(CASE WHEN l.is_step = 0 AND l.from_first = 1 THEN l.chat_id END) AS chat_id,
        MAX(CASE WHEN l.is_step = 0 AND l.from_first = 1 THEN l.message_date END) AS message_date,
        MAX(CASE WHEN l.is_step = 0 AND l.from_first = 1 THEN l.text END) AS text,
        MAX(CASE WHEN l.is_step = 0 AND l.from_first = 1 THEN l.payload END) AS payload,
    MAX(CASE WHEN l.is_step = 1 AND l.from_last = 1 THEN l.op END) AS step_op,
    MAX(CASE WHEN l.is_step = 1 AND l.from_last = 1 THEN l.line_at END) AS step_at,
    MAX(CASE WHEN l.is_step = 1 AND l.from_last = 1 THEN l.attempts END) AS attempts,
        MAX(CASE WHEN l.is_step = 1 AND l.from_last = 1 THEN l.locked_at END) AS locked_at,
        MAX(CASE WHEN l.is_step = 1 AND l.from_last = 1 THEN l.error END) AS error
    FROM (
        SELECT *,
            ROW_NUMBER() OVER (PARTITION BY store_id, id, is_step ORDER BY seq) AS from_first,
            ROW_NUMBER() OVER (PARTITION BY store_id, id, is_step ORDER BY seq DESC) AS from_last
        FROM (SELECT *, CASE WHEN update_id IS NULL THEN 1 ELSE 0 END AS is_step FROM inbox_lines) AS o
    ) AS l
    GROUP BY l.store_id, l.id
) AS c
WHERE update_id IS NOT NULL;

CREATE OR REPLACE VIEW conversation_turns_lines AS
SELECT
    regexp_extract(filename, '/store=([^/]+)/', 1) AS store_id,
    CAST(regexp_extract(filename, '/day=([^/]+)/', 1) AS DATE) AS day, seq,
    CAST("at" AS TIMESTAMP) AS line_at, op, id, parent_id, message_id, thread_id, kind,
    CAST(created_at AS TIMESTAMP) AS created_at, content
FROM read_parquet('s3://bucket/log/kind=*/*/*/*.parquet',
    filename = true, hive_partitioning = false,
    schema = MAP {
        'seq': {name: 'seq', type: 'BIGINT', default_value: NULL},
        'at': {name: 'at', type: 'TIMESTAMPTZ', default_value: NULL},
        'op': {name: 'op', type: 'VARCHAR', default_value: NULL},
        'id': {name: 'id', type: 'VARCHAR', default_value: NULL},
        'parent_id': {name: 'parent_id', type: 'VARCHAR', default_value: NULL},
        'message_id': {name: 'message_id', type: 'VARCHAR', default_value: NULL},
        'thread_id': {name: 'thread_id', type: 'VARCHAR', default_value: NULL},
        'kind': {name: 'kind', type: 'VARCHAR', default_value: NULL},
        'created_at': {name: 'created_at', type: 'TIMESTAMPTZ', default_value: NULL},
        'content': {name: 'content', type: 'VARCHAR', default_value: NULL}
    })
WHERE filename LIKE '%/kind=conversation_turns/%' AND seq IS NOT NULL;

CREATE OR REPLACE VIEW conversation_turns AS
SELECT
    store_id, seq, day, id, parent_id, message_id, thread_id, kind, created_at, content
FROM (
    SELECT *, ROW_NUMBER() OVER (PARTITION BY store_id, id ORDER BY seq DESC) AS place
    FROM conversation_turns_lines
) AS l
WHERE place = 1 AND op <> 'retracted';
