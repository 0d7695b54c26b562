-- Views for DuckDB, tried with 2.0.1 and 1.5.5, over jsonl objects.
-- For s3:// run INSTALL httpfs, LOAD httpfs and CREATE SECRET first.
-- A query with a condition on day opens only the files of these days; it lists all files. A pattern
-- without a file is an error before 2.0, so each view lists the files of all kinds and opens those
-- of its own. hive_partitioning is off, as conversation_turns have a field named kind.
SET TimeZone = 'UTC';

CREATE OR REPLACE VIEW messages_lines AS
SELECT
    regexp_extract(filename, '/store=([^/]+)/', 1) AS store_id,
    CAST(regexp_extract(filename, '/day=([^/]+)/', 1) AS DATE) AS day, seq,
    make_timestamp_ms("at") AS line_at, op, id, conversation_id, sequence,
    make_timestamp_ms("at") AS timestamp, role, source, content_type, model_used, config_used,
    orchestration_mode, task_type, tokens_in, tokens_out, tokens_cache_write, tokens_cache_read,
    tokens_reasoning, latency_ms, context_utilization, cost_usd, handoff_steps, compression_applied,
    error_type, error, tool_name, tool_call_id, CAST(models_in_chain AS VARCHAR) AS models_in_chain,
    part_of, content, reasoning, CAST(tool_args AS VARCHAR) AS tool_args, tool_result,
    CAST(inference_metadata AS VARCHAR) AS inference_metadata
FROM read_json('/data/log/kind=*/*/*/*.jsonl.zst', format = 'newline_delimited', compression = 'zstd',
    ignore_errors = true, filename = true, hive_partitioning = false,
    maximum_object_size = 16777216, columns = {
        seq: 'BIGINT', "at": 'BIGINT', op: 'VARCHAR', id: 'VARCHAR', conversation_id: 'VARCHAR',
        sequence: 'BIGINT', timestamp: 'VARCHAR', role: 'VARCHAR', source: 'VARCHAR',
        content_type: 'VARCHAR', model_used: 'VARCHAR', config_used: 'VARCHAR',
        orchestration_mode: 'VARCHAR', task_type: 'VARCHAR', tokens_in: 'BIGINT',
        tokens_out: 'BIGINT', tokens_cache_write: 'BIGINT', tokens_cache_read: 'BIGINT',
        tokens_reasoning: 'BIGINT', latency_ms: 'BIGINT', context_utilization: 'DOUBLE',
        cost_usd: 'DOUBLE', handoff_steps: 'BIGINT', compression_applied: 'BOOLEAN',
        error_type: 'VARCHAR', error: 'VARCHAR', tool_name: 'VARCHAR', tool_call_id: 'VARCHAR',
        models_in_chain: 'JSON', part_of: 'VARCHAR', content: 'VARCHAR', reasoning: 'VARCHAR',
        tool_args: 'JSON', tool_result: 'VARCHAR', inference_metadata: 'JSON'
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
    make_timestamp_ms("at") AS line_at, op, id, workspace, project, client, user_id, session_id,
    parent_id, parent_call_id, title, status,
    CAST(TRY_CAST(upper(created_at) AS TIMESTAMPTZ) AS TIMESTAMP) AS created_at,
    CAST(TRY_CAST(upper(updated_at) AS TIMESTAMPTZ) AS TIMESTAMP) AS updated_at, last_error
FROM read_json('/data/log/kind=*/*/*/*.jsonl.zst', format = 'newline_delimited', compression = 'zstd',
    ignore_errors = true, filename = true, hive_partitioning = false,
    maximum_object_size = 16777216, columns = {
        seq: 'BIGINT', "at": 'BIGINT', op: 'VARCHAR', id: 'VARCHAR', workspace: 'VARCHAR',
        project: 'VARCHAR', client: 'VARCHAR', user_id: 'VARCHAR', session_id: 'VARCHAR',
        parent_id: 'VARCHAR', parent_call_id: 'VARCHAR', title: 'VARCHAR', status: 'VARCHAR',
        created_at: 'VARCHAR', updated_at: 'VARCHAR', last_error: 'VARCHAR'
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
    make_timestamp_ms("at") AS line_at, op, request_id, call_id, parent_id, vendor, tool_name,
    make_timestamp_ms(started_at) AS started_at, args_sha256,
    CAST(arguments_json AS VARCHAR) AS arguments_json, make_timestamp_ms(ended_at) AS ended_at,
    latency_ms, error_kind, error_msg, CAST(outcome_json AS VARCHAR) AS outcome_json
FROM read_json('/data/log/kind=*/*/*/*.jsonl.zst', format = 'newline_delimited', compression = 'zstd',
    ignore_errors = true, filename = true, hive_partitioning = false,
    maximum_object_size = 16777216, columns = {
        seq: 'BIGINT', "at": 'BIGINT', op: 'VARCHAR', request_id: 'VARCHAR', call_id: 'VARCHAR',
        parent_id: 'VARCHAR', vendor: 'VARCHAR', tool_name: 'VARCHAR', started_at: 'BIGINT',
        args_sha256: 'VARCHAR', arguments_json: 'JSON', ended_at: 'BIGINT', latency_ms: 'BIGINT',
        error_kind: 'VARCHAR', error_msg: 'VARCHAR', outcome_json: 'JSON'
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
    make_timestamp_ms("at") AS line_at, op, request_id, make_timestamp_ms(created_at) AS created_at,
    confidence, CAST(diffs_json AS VARCHAR) AS diffs_json,
    make_timestamp_ms(decided_at) AS decided_at, make_timestamp_ms(applied_at) AS applied_at,
    commit_hash
FROM read_json('/data/log/kind=*/*/*/*.jsonl.zst', format = 'newline_delimited', compression = 'zstd',
    ignore_errors = true, filename = true, hive_partitioning = false,
    maximum_object_size = 16777216, columns = {
        seq: 'BIGINT', "at": 'BIGINT', op: 'VARCHAR', request_id: 'VARCHAR', created_at: 'BIGINT',
        confidence: 'DOUBLE', diffs_json: 'JSON', decided_at: 'BIGINT', applied_at: 'BIGINT',
        commit_hash: 'VARCHAR'
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
    make_timestamp_ms("at") AS line_at, op, id, parent_id, event_type,
    make_timestamp_ms(created_at) AS created_at, CAST(payload AS VARCHAR) AS payload
FROM read_json('/data/log/kind=*/*/*/*.jsonl.zst', format = 'newline_delimited', compression = 'zstd',
    ignore_errors = true, filename = true, hive_partitioning = false,
    maximum_object_size = 16777216, columns = {
        seq: 'BIGINT', "at": 'BIGINT', op: 'VARCHAR', id: 'BIGINT', parent_id: 'BIGINT',
        event_type: 'VARCHAR', created_at: 'BIGINT', payload: 'JSON'
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
    make_timestamp_ms("at") AS line_at, op, id, update_id,
    make_timestamp_ms(created_at) AS created_at, chat_id, message_date, text,
    CAST(payload AS VARCHAR) AS payload, attempts, make_timestamp_ms(locked_at) AS locked_at, error
FROM read_json('/data/log/kind=*/*/*/*.jsonl.zst', format = 'newline_delimited', compression = 'zstd',
    ignore_errors = true, filename = true, hive_partitioning = false,
    maximum_object_size = 16777216, columns = {
        seq: 'BIGINT', "at": 'BIGINT', op: 'VARCHAR', id: 'BIGINT', update_id: 'BIGINT',
        created_at: 'BIGINT', chat_id: 'BIGINT', message_date: 'BIGINT', text: 'VARCHAR',
        payload: 'JSON', attempts: 'BIGINT', locked_at: 'BIGINT', error: 'VARCHAR'
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
    make_timestamp_ms("at") AS line_at, op, id, parent_id, message_id, thread_id, kind,
    make_timestamp_ms(created_at) AS created_at, content
FROM read_json('/data/log/kind=*/*/*/*.jsonl.zst', format = 'newline_delimited', compression = 'zstd',
    ignore_errors = true, filename = true, hive_partitioning = false,
    maximum_object_size = 16777216, columns = {
        seq: 'BIGINT', "at": 'BIGINT', op: 'VARCHAR', id: 'VARCHAR', parent_id: 'VARCHAR',
        message_id: 'VARCHAR', thread_id: 'VARCHAR', kind: 'VARCHAR', created_at: 'BIGINT',
        content: 'VARCHAR'
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
