"""Loads the current records into SQLite files, one a store, and into PostgreSQL.

Stands for `decklog export sqlite` and `decklog ship postgres://`: tables named as the kinds, with
seq, all fields and the derived columns; in PostgreSQL also store_id and day.
"""
import pathlib
import sqlite3
import tempfile

import prologues

DERIVED = {
    "conversations": {"message_count": "integer", "total_tokens_in": "integer", "total_tokens_out": "integer", "total_latency_ms": "integer"},
    "tool_calls": {"status": "text"},
    "code_edit_proposals": {"status": "text"},
    "inbox": {"status": "text", "updated_at": "epoch_ms"},
}


def columns(kind, fields):
    return {"seq": "integer", **{n: t for n, t in fields.items() if n != "day"}, **DERIVED.get(kind, {})}


def views(shipped, kinds):
    """The views over shipped objects, in DuckDB."""
    import duckdb

    connection = duckdb.connect()
    connection.execute("SET threads = 1")
    for part in prologues.prologue(prologues.DuckDB("parquet", str(shipped)), kinds).split(";\n"):
        if part.strip():
            connection.execute(part)
    return connection


def to_sqlite(shipped, to, kinds):
    """Files TO/<store id>.sqlite; times as epoch milliseconds, or as RFC 3339 texts."""
    types = {"integer": "INTEGER", "epoch_ms": "INTEGER", "number": "REAL", "boolean": "BOOLEAN"}
    how = {"epoch_ms": "epoch_ms({})", "rfc3339": "strftime({}, '%Y-%m-%dT%H:%M:%S.%gZ')"}
    source = views(shipped, kinds)
    to.mkdir(parents=True, exist_ok=True)
    files = {}
    for kind, fields in kinds.items():
        named = columns(kind, fields)
        listed = ", ".join(how.get(type, "{}").format(f'"{name}"') for name, type in named.items())
        answer = source.execute(f"SELECT store_id, {listed} FROM {kind}")
        while rows := answer.fetchmany(10_000):
            by_store = {}
            for store, *row in rows:
                by_store.setdefault(store, []).append(row)
            for store, rows in by_store.items():
                if store not in files:
                    (to / f"{store}.sqlite").unlink(missing_ok=True)
                    files[store] = sqlite3.connect(to / f"{store}.sqlite")
                    files[store].execute("PRAGMA synchronous = off")
                    for name, its in kinds.items():
                        table = ", ".join(f'"{c}" {types.get(t, "TEXT")}' for c, t in columns(name, its).items())
                        files[store].execute(f"CREATE TABLE {name} ({table})")
                    # The query that reads a run by parent.
                    files[store].execute("CREATE INDEX events_parent ON events (parent_id)")
                marks = ", ".join("?" * len(named))
                files[store].executemany(f"INSERT INTO {kind} VALUES ({marks})", rows)
    for file in files.values():
        file.commit()
        file.close()
    return sorted(to / f"{store}.sqlite" for store in files)


def to_postgres(shipped, url, kinds):
    import psycopg

    types = {"uuid": "uuid", "text": "text", "integer": "bigint", "number": "double precision", "boolean": "boolean", "epoch_ms": "timestamptz",
             "rfc3339": "timestamptz", "json": "jsonb", "texts": "jsonb", "object": "jsonb", "day": "date"}
    source = views(shipped, kinds)
    with psycopg.connect(url) as connection, tempfile.TemporaryDirectory() as temporary:
        file = pathlib.Path(temporary) / "rows.csv"
        for kind, fields in kinds.items():
            named = {"store_id": "uuid", "day": "day", **columns(kind, fields)}
            table = ", ".join(f'"{name}" {types[type]}' for name, type in named.items())
            connection.execute(f"DROP TABLE IF EXISTS {kind}")
            connection.execute(f"CREATE TABLE {kind} ({table})")
            listed = ", ".join(f'"{name}"' for name in named)
            source.execute("SET TimeZone = 'UTC'")
            times = ", ".join(
                f'"{n}" AT TIME ZONE \'UTC\' AS "{n}"' if t in ("epoch_ms", "rfc3339") else f'"{n}"' for n, t in named.items())
            source.execute(f"COPY (SELECT {times} FROM {kind}) TO '{file}' (FORMAT csv, HEADER false, NULLSTR '\\N')")
            with connection.cursor().copy(f"COPY {kind} ({listed}) FROM STDIN (FORMAT csv, NULL '\\N')") as copy:
                with open(file, "rb") as rows:
                    while chunk := rows.read(1 << 20):
                        copy.write(chunk)
        connection.execute("CREATE INDEX ON events (store_id, parent_id)")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("ANALYZE")
