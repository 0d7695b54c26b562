#!/usr/bin/env python3
"""Prints the views of an engine over shipped objects, from `decklog schema --json`.

    prologues.py ENGINE FORMAT LOCATION [--decklog PROGRAM] [--kind KIND]...

ENGINE is duckdb, clickhouse, spark or datafusion, FORMAT jsonl or parquet. For sqlite, LOCATION is
the files, separated by commas. For each kind there is a
view of its lines, which only the engine's own SQL can read, and over it the view of its current
records, in SQL that all four have in common.
"""
import argparse
import json
import subprocess
import textwrap

class Engine:
    """What is particular to an engine. The rest is common."""

    create = "CREATE OR REPLACE VIEW {name} AS"
    quote = '"'
    # SQL types of the columns of views.
    types = {"text": "VARCHAR", "uuid": "VARCHAR", "texts": "VARCHAR", "json": "VARCHAR", "object": "VARCHAR",
             "integer": "BIGINT", "number": "DOUBLE", "boolean": "BOOLEAN", "epoch_ms": "TIMESTAMP",
             "rfc3339": "TIMESTAMP", "day": "DATE"}
    # Names that need quotes.
    reserved = {"at"}

    def __init__(self, format, location):
        self.format, self.location = format, location.rstrip("/")

    def name(self, name):
        return f"{self.quote}{name}{self.quote}" if name in self.reserved else name

    def objects(self, kind):
        end = "jsonl.zst" if self.format == "jsonl" else "parquet"
        return f"{self.location}/kind={kind}/*/*/*.{end}"

    def head(self):
        return ""


class DuckDB(Engine):
    # The types of JSON as it stands in a line.
    raw = {"text": "VARCHAR", "uuid": "VARCHAR", "texts": "JSON", "json": "JSON", "object": "JSON",
           "integer": "BIGINT", "number": "DOUBLE", "boolean": "BOOLEAN", "epoch_ms": "BIGINT",
           "rfc3339": "VARCHAR", "day": "DATE"}

    def head(self):
        return """-- Views for DuckDB, tried with 2.0.1 and 1.5.5, over {format} objects.
-- For s3:// run INSTALL httpfs, LOAD httpfs and CREATE SECRET first.
-- A query with a condition on day opens only the files of these days; it lists all files. A pattern
-- without a file is an error before 2.0, so each view lists the files of all kinds and opens those
-- of its own. hive_partitioning is off, as conversation_turns have a field named kind.
SET TimeZone = 'UTC';
""".format(format=self.format)

    def lines(self, kind, fields):
        file = "filename"
        of_path = [f"regexp_extract({file}, '/store=([^/]+)/', 1) AS store_id",
                   f"CAST(regexp_extract({file}, '/day=([^/]+)/', 1) AS DATE) AS day"]
        if self.format == "jsonl":
            given = {"seq": "integer", "at": "epoch_ms", "op": "text", **fields}
            columns = listed([f"{self.name(n)}: '{self.raw[t]}'" for n, t in given.items()], " " * 8)
            source = f"""read_json('{self.objects('*')}', format = 'newline_delimited', compression = 'zstd',
    ignore_errors = true, filename = true, hive_partitioning = false,
    maximum_object_size = 16777216, columns = {{
{columns}
    }})"""
            how = {"epoch_ms": "make_timestamp_ms({})",
                   "rfc3339": "CAST(TRY_CAST(upper({}) AS TIMESTAMPTZ) AS TIMESTAMP)",
                   "json": "CAST({} AS VARCHAR)", "texts": "CAST({} AS VARCHAR)", "object": "CAST({} AS VARCHAR)"}
        else:
            kinds = {"epoch_ms": "TIMESTAMPTZ", "rfc3339": "TIMESTAMPTZ"}
            given = {"seq": "integer", "at": "epoch_ms", "op": "text", **fields}
            types = {n: kinds.get(t, self.types[t]) for n, t in given.items()}
            columns = ",\n".join(
                f"        '{n}': {{name: '{n}', type: '{t}', default_value: NULL}}" for n, t in types.items())
            source = f"""read_parquet('{self.objects('*')}',
    filename = true, hive_partitioning = false,
    schema = MAP {{
{columns}
    }})"""
            how = {"epoch_ms": "CAST({} AS TIMESTAMP)", "rfc3339": "CAST({} AS TIMESTAMP)"}
        # A pattern without a file is an error before DuckDB 2.0. So the pattern is that of all
        # kinds, and DuckDB opens only the files whose names pass the filter.
        source = f"{source}\nWHERE {file} LIKE '%/kind={kind}/%' AND seq IS NOT NULL"
        return select(self, of_path, fields, how, source)


class ClickHouse(Engine):
    types = {**Engine.types, "epoch_ms": "DateTime64(3, 'UTC')", "rfc3339": "DateTime64(3, 'UTC')"}
    raw = {"text": "String", "uuid": "String", "texts": "String", "json": "String", "object": "String",
           "integer": "Int64", "number": "Float64", "boolean": "Bool", "epoch_ms": "Int64", "rfc3339": "String",
           "day": "Date32"}

    def __init__(self, format, location, function=None, options=""):
        super().__init__(format, location)
        self.function = function or ("s3" if location.startswith(("s3://", "http")) else "file")
        self.options = options

    def head(self):
        return """-- Views for ClickHouse, tried with 26.9 (chdb 4.4.0), over {format} objects.
-- Over S3: s3('https://BUCKET.s3.amazonaws.com/PREFIX/kind=…', KEY, SECRET, …) in place of file().
-- A server reads files only below its user_files_path. A pattern without a file gives no rows, and
-- a query with a condition on day opens only the files of these days.
-- use_hive_partitioning is off, as conversation_turns have a field named kind. A payload that is a
-- JSON string is read without its quotes.
SET join_use_nulls = 1;
""".format(format=self.format)

    def lines(self, kind, fields):
        of_path = ["extract(_path, '/store=([^/]+)/') AS store_id",
                   "toDate32(extract(_path, '/day=([^/]+)/')) AS day"]
        raw, how = dict(self.raw), {"epoch_ms": "fromUnixTimestamp64Milli({}, 'UTC')",
                                    "rfc3339": "parseDateTime64BestEffortOrNull(upper({}), 3, 'UTC')"}
        if self.format == "parquet":
            raw.update(epoch_ms="DateTime64(3, ''UTC'')", rfc3339="DateTime64(3, ''UTC'')")
            how = {}
        given = {"seq": "integer", "at": "epoch_ms", "op": "text", **fields}
        columns = [
            f"{self.name(n)} {raw[t]}" if n in ("seq", "at", "op") else f"{self.name(n)} Nullable({raw[t]})"
            for n, t in given.items()]
        form = "'JSONEachRow'" if self.format == "jsonl" else "'Parquet'"
        compression = ", 'zstd'" if self.format == "jsonl" else ""
        source = f"""{self.function}('{self.objects(kind)}'{self.options}, {form}, '
{listed(columns, " " * 8)}
    '{compression})
WHERE seq > 0"""
        return select(self, of_path, fields, how, source) + "\n" + self.settings()

    def settings(self):
        return ("SETTINGS use_hive_partitioning = 0, input_format_parquet_allow_missing_columns = 1,\n"
                "    input_format_json_read_objects_as_strings = 1, input_format_json_read_arrays_as_strings = 1,\n"
                "    input_format_allow_errors_ratio = 1")


class Files(Engine):
    """An engine that reads Parquet as a table of files, with the day and the store from the path."""

    def lines(self, kind, fields):
        return select(self, ["store AS store_id", "day"], fields, {}, f"{kind}_files{self.only(kind)}")

    def only(self, kind):
        return ""

    def columns(self, fields, partitions):
        given = {"seq": "integer", "at": "epoch_ms", "op": "text", **fields}
        columns = [f"{self.name(n)} {self.types[t]}" for n, t in given.items() if n != "day"]
        return listed([*columns, *partitions], "    ")


class Spark(Files):
    create = "CREATE OR REPLACE TEMPORARY VIEW {name} AS"
    quote = "`"
    types = {**Engine.types, "text": "STRING", "uuid": "STRING", "texts": "STRING", "json": "STRING", "object": "STRING"}

    def head(self):
        return """-- Views for Spark, tried with 4.3.0 (4.1 or later for the recursion of run_tree.sql), over parquet
-- objects. Without Hadoop's native library, Spark cannot read text that is compressed with zstd.
-- For s3a:// it needs the package hadoop-aws of its Hadoop version; this was not tried.
-- A path without a file is an error. So the path is that of all kinds, and the kind is a column of
-- it. Turns have a field named kind: their path is that of their kind, and their views are the last,
-- so that a log without turns has all other views. A view keeps the list of files it was made with:
-- run this again, or REFRESH TABLE, to see later ones.
SET spark.sql.session.timeZone = UTC;
"""

    def source(self, kind, fields):
        partitions, path = ["kind STRING", "day DATE", "store STRING"], self.location
        if "kind" in fields:
            partitions, path = partitions[1:], f"{path}/kind={kind}"
        return f"""CREATE OR REPLACE TEMPORARY VIEW {kind}_files (
{self.columns(fields, partitions)}
) USING parquet OPTIONS (path '{path}')"""

    def only(self, kind):
        return "" if kind == "conversation_turns" else f"\nWHERE kind = '{kind}'"


class DataFusion(Files):
    # Without its precision, a time is in nanoseconds, and ends in 2262.
    types = {**Engine.types, "epoch_ms": "TIMESTAMP(3)", "rfc3339": "TIMESTAMP(3)"}

    def head(self):
        return """-- Views for DataFusion, tried with 55.0.0, over parquet objects. It reads JSON objects too, but a
-- payload that is an object cannot be read as text, and a damaged line is an error.
-- For s3:// register an object store with the bucket first. A location without a file gives no
-- rows, and a query with a condition on day opens only the files of these days.
"""

    def source(self, kind, fields):
        return f"""CREATE EXTERNAL TABLE {kind}_files (
{self.columns(fields, ["day DATE", "store VARCHAR"])}
) STORED AS PARQUET PARTITIONED BY (day, store) LOCATION '{self.location}/kind={kind}/'"""


def listed(columns, indent):
    """Columns, as many in a line as fit."""
    glued = ", ".join(column.replace(" ", "\0") for column in columns)
    return textwrap.fill(glued, 100, initial_indent=indent, subsequent_indent=indent,
                         break_long_words=False, break_on_hyphens=False).replace("\0", " ")


def select(engine, of_path, fields, how, source):
    """The lines as typed columns."""
    columns = [*of_path, "seq", f"{how.get('epoch_ms', '{}').format(engine.name('at'))} AS line_at", "op"]
    for name, type in fields.items():
        if name == "day":
            continue
        # A record's own time is `at`, whatever its spelling.
        is_own = (type, name) == ("rfc3339", "timestamp")
        expression = how.get("epoch_ms" if is_own else type, "{}").format(engine.name("at" if is_own else name))
        columns.append(expression if expression == name else f"{expression} AS {engine.name(name)}")
    return f"SELECT\n{listed(columns, '    ')}\nFROM {source}"


# The current records of each kind, over its lines. Common to all engines.


def last(key, fields, ops, gone=None):
    """The last line of each key by seq, unless it is a retraction."""
    key = ", ".join(["store_id", *key])
    also = f" AND op <> '{gone}'" if gone else ""
    return f"""SELECT{columns_of(fields)}
FROM (
    SELECT *, ROW_NUMBER() OVER (PARTITION BY {key} ORDER BY seq DESC) AS place
    FROM {{lines}}
) AS l
WHERE place = 1{also}"""


def first(key, fields):
    """The first line of each key by seq. The day is part of the key, so that a query of some days
    reads only these days."""
    key = ", ".join(["store_id", "day", *key])
    return f"""SELECT{columns_of(fields)}
FROM (
    SELECT *, ROW_NUMBER() OVER (PARTITION BY {key} ORDER BY seq) AS place
    FROM {{lines}}
) AS l
WHERE place = 1"""


def columns_of(fields):
    return "\n" + listed(["store_id", "seq", "day", *[name for name in fields if name != "day"]], "    ")


def picked(fields, where):
    columns = [f"MAX(CASE WHEN {where} THEN l.{name} END) AS {name}" for name in fields]
    return ",\n        ".join(columns)


def tool_calls(fields):
    outcome = ["ended_at", "latency_ms", "outcome_json", "error_kind", "error_msg"]
    request = [name for name in fields if name not in outcome and name not in ("request_id", "call_id")]
    return f"""SELECT store_id, seq, day, request_id, call_id,
{listed(request, "    ")},
    ended_at, latency_ms, outcome_json, error_kind, error_msg,
    COALESCE(outcome_op, 'requested') AS status
FROM (
    SELECT l.store_id AS store_id, l.request_id AS request_id, l.call_id AS call_id,
    {picked(["seq", "day"], "l.is_outcome = 0 AND l.from_last = 1")},
    MAX(CASE WHEN l.is_outcome = 0 AND l.from_last = 1 THEN l.op END) AS request_op,
    {picked(request, "l.is_outcome = 0 AND l.from_last = 1")},
    MAX(CASE WHEN l.is_outcome = 1 AND l.from_first = 1 THEN l.op END) AS outcome_op,
    {picked(outcome, "l.is_outcome = 1 AND l.from_first = 1")}
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
            FROM {{lines}}
        ) AS o
    ) AS l
    GROUP BY l.store_id, l.request_id, l.call_id
) AS c
WHERE request_op = 'requested'"""


def proposals(fields):
    steps = ["decided_at", "applied_at", "commit_hash"]
    asserted = [name for name in fields if name not in steps and name != "request_id"]
    return f"""SELECT store_id, seq, day, request_id,
    {", ".join(asserted)},
    {", ".join(steps)},
    COALESCE(step_op, 'pending') AS status
FROM (
    SELECT l.store_id AS store_id, l.request_id AS request_id,
    {picked(["seq", "day"], "l.is_step = 0 AND l.from_last = 1")},
    MAX(CASE WHEN l.is_step = 0 AND l.from_last = 1 THEN l.op END) AS asserted_op,
    {picked(asserted, "l.is_step = 0 AND l.from_last = 1")},
    MAX(CASE WHEN l.is_step = 1 AND l.from_last = 1 THEN l.op END) AS step_op,
    {picked(steps, "l.is_step = 1 AND l.from_last = 1")}
    FROM (
        SELECT *,
            ROW_NUMBER() OVER (PARTITION BY store_id, request_id, is_step ORDER BY seq DESC) AS from_last
        FROM (
            SELECT *, CASE WHEN op IN ('pending', 'retracted') THEN 0 ELSE 1 END AS is_step
            FROM {{lines}}
        ) AS o
    ) AS l
    GROUP BY l.store_id, l.request_id
) AS c
WHERE asserted_op = 'pending'"""


def inbox(fields):
    steps = ["attempts", "locked_at", "error"]
    queued = [name for name in fields if name not in steps and name != "id"]
    return f"""SELECT store_id, seq, day, id,
    {", ".join(queued)},
    COALESCE(attempts, 0) AS attempts, locked_at, error,
    COALESCE(step_op, 'queued') AS status, COALESCE(step_at, created_at) AS updated_at
FROM (
    SELECT l.store_id AS store_id, l.id AS id,
    {picked(["seq", "day"], "l.is_step = 0 AND l.from_first = 1")},
    {picked(queued, "l.is_step = 0 AND l.from_first = 1")},
    MAX(CASE WHEN l.is_step = 1 AND l.from_last = 1 THEN l.op END) AS step_op,
    MAX(CASE WHEN l.is_step = 1 AND l.from_last = 1 THEN l.line_at END) AS step_at,
    {picked(steps, "l.is_step = 1 AND l.from_last = 1")}
    FROM (
        SELECT *,
            ROW_NUMBER() OVER (PARTITION BY store_id, id, is_step ORDER BY seq) AS from_first,
            ROW_NUMBER() OVER (PARTITION BY store_id, id, is_step ORDER BY seq DESC) AS from_last
        FROM (SELECT *, CASE WHEN update_id IS NULL THEN 1 ELSE 0 END AS is_step FROM {{lines}}) AS o
    ) AS l
    GROUP BY l.store_id, l.id
) AS c
WHERE update_id IS NOT NULL"""


def conversations(fields):
    plain = [n for n in fields if n not in ("id", "status", "updated_at", "last_error")]
    return f"""SELECT c.store_id AS store_id, c.seq AS seq, CAST(c.created_at AS DATE) AS day, c.id AS id,
{listed([f"c.{name} AS {name}" for name in plain], "    ")},
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
    FROM {{lines}}
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
WHERE c.from_last = 1"""


def current(kind, fields):
    match kind:
        case "conversation_turns":
            return last(["id"], fields, None, "retracted")
        case "tool_calls":
            return tool_calls(fields)
        case "code_edit_proposals":
            return proposals(fields)
        case "conversations":
            return conversations(fields)
        case "inbox":
            return inbox(fields)
        case "rollups":
            key = ["day", "model_used", "config_used", "orchestration_mode", "task_type", "part"]
            return last(key, fields, None)
        case _:
            return first(["id"], fields)


ENGINES = {"duckdb": DuckDB, "clickhouse": ClickHouse, "spark": Spark, "datafusion": DataFusion}
# Conversations are over messages.
ORDER = ["messages", "conversations", "tool_calls", "code_edit_proposals", "events", "inbox", "history",
         "thought_records", "rollups", "conversation_turns"]


def schema(decklog):
    out = subprocess.run([decklog, "schema", "--json"], check=True, capture_output=True).stdout
    kinds = map(json.loads, out.splitlines())
    return {kind["kind"]: {f["name"]: f["type"] for f in kind["fields"]} for kind in kinds}


def prologue(engine, kinds, only=None):
    parts = [engine.head()]
    for kind in ORDER:
        if only and kind not in only:
            continue
        fields = kinds[kind]
        if hasattr(engine, "source"):
            parts.append(engine.source(kind, fields) + ";\n")
        for name, query in [(f"{kind}_lines", engine.lines(kind, fields)),
                            (kind, current(kind, fields).replace("{lines}", f"{kind}_lines"))]:
            parts.append(engine.create.format(name=name) + "\n" + query + ";\n")
    return "\n".join(parts)


# What the tables of SQLite and PostgreSQL have after the fields.
DERIVED = {
    "conversations": {"message_count": "integer", "total_tokens_in": "integer", "total_tokens_out": "integer",
                      "total_latency_ms": "integer"},
    "tool_calls": {"status": "text"},
    "code_edit_proposals": {"status": "text"},
    "inbox": {"status": "text", "updated_at": "epoch_ms"},
}


def time_of(kind):
    """The field with a record's own time."""
    return {"messages": "timestamp", "thought_records": "timestamp", "tool_calls": "started_at"}.get(kind, "created_at")


def sqlite(files, kinds, only=None):
    """The views over several files of `decklog export sqlite`."""
    parts = ["""-- Views for SQLite, tried with 3.40.1, over files of `decklog export sqlite`, one a store. The tables
-- of a file have the names and the columns of the views: for one file this is not needed. SQLite
-- attaches 10 files at most, unless it was built for more.
"""]
    quoted = [file.replace("'", "''") for file in files]
    parts += [f"ATTACH '{file}' AS store_{nth};\n" for nth, file in enumerate(quoted)]
    for kind in ORDER:
        if only and kind not in only:
            continue
        names = [name for name in [*kinds[kind], *DERIVED.get(kind, {})] if name != "day"]
        columns = listed(["store_id", "seq", "day", *names], "    ")
        selects = [f"SELECT\n{columns}\nFROM store_{nth}.{kind}" for nth in range(len(files))]
        parts.append(f"CREATE TEMP VIEW {kind} AS\n" + "\nUNION ALL\n".join(selects) + ";\n")
    return "\n".join(parts)


def postgresql(kinds, only=None):
    """The views over the tables of `decklog ship postgres://…`."""
    parts = ["""-- Views for PostgreSQL, tried with 15.18, over the tables of `decklog ship postgres://…`. A table has
-- the columns of its view except the day. The views hide the tables from this session. A condition
-- on the time of the records (timestamp, started_at or created_at) reads only the partitions of
-- these days; one on day reads all.
SET TimeZone = 'UTC';
"""]
    for kind in ORDER:
        # The sums of days are in daily_totals.
        if kind == "rollups" or only and kind not in only:
            continue
        day = f"CAST({time_of(kind)} AT TIME ZONE 'UTC' AS date) AS day"
        parts.append(f"CREATE OR REPLACE TEMP VIEW {kind} AS\nSELECT *, {day}\nFROM public.{kind};\n")
    return "\n".join(parts)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("engine", choices=[*ENGINES, "sqlite", "postgresql"])
    parser.add_argument("format", choices=["jsonl", "parquet", "tables"])
    parser.add_argument("location")
    parser.add_argument("--decklog", default="decklog")
    parser.add_argument("--kind", action="append")
    args = parser.parse_args()
    kinds = schema(args.decklog)
    match args.engine:
        case "sqlite":
            print(sqlite(args.location.split(","), kinds, args.kind), end="")
        case "postgresql":
            print(postgresql(kinds, args.kind), end="")
        case name:
            print(prologue(ENGINES[name](args.format, args.location), kinds, args.kind), end="")
