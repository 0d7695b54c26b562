"""Loads the current records into SQLite files, one a store, and into PostgreSQL, with the tables of
`decklog export sqlite` and `decklog ship postgres://…`, for a decklog that has not got them.
"""
import pathlib
import sqlite3
import tempfile

import prologues


def columns(kind, fields):
    """The columns after store_id and seq."""
    named = {n: t for n, t in fields.items() if n != "day"}
    return {**named, **prologues.DERIVED.get(kind, {})}


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
    """Files TO/<store id>.sqlite, with times as texts in UTC."""
    types = {"integer": "INTEGER", "epoch_ms": "TIMESTAMP", "rfc3339": "TIMESTAMP", "number": "REAL", "boolean": "BOOLEAN"}
    time = "strftime({}, '%Y-%m-%d %H:%M:%S.%g')"
    how = {"epoch_ms": time, "rfc3339": time}
    source = views(shipped, kinds)
    files = {}
    for kind, fields in kinds.items():
        named = {"store_id": "text", "seq": "integer", "day": "day", **columns(kind, fields)}
        listed = ", ".join(how.get(type, "CAST({} AS VARCHAR)" if type == "day" else "{}").format(f'"{name}"') for name, type in named.items())
        answer = source.execute(f"SELECT {listed} FROM {kind}")
        while rows := answer.fetchmany(10_000):
            by_store = {}
            for row in rows:
                by_store.setdefault(row[0], []).append(row)
            for store, rows in by_store.items():
                if store not in files:
                    files[store] = sqlite3.connect(to / f"{store}.sqlite")
                    files[store].execute("PRAGMA synchronous = off")
                    for name, its in kinds.items():
                        its = {"store_id": "text", "seq": "integer", "day": "day", **columns(name, its)}
                        table = ", ".join(f'"{c}" {types.get(t, "TEXT")}' for c, t in its.items())
                        files[store].execute(f"CREATE TABLE {name} ({table})")
                    files[store].execute("CREATE INDEX events_parent ON events (parent_id)")
                marks = ", ".join("?" * len(named))
                files[store].executemany(f"INSERT INTO {kind} VALUES ({marks})", rows)
    for file in files.values():
        file.commit()
        file.close()


def to_postgres(shipped, url, kinds):
    import psycopg

    types = {"uuid": "uuid", "text": "text", "integer": "bigint", "number": "double precision", "boolean": "boolean", "epoch_ms": "timestamptz",
             "rfc3339": "timestamptz", "json": "jsonb", "texts": "jsonb", "object": "jsonb", "day": "date"}
    source = views(shipped, kinds)
    with psycopg.connect(url) as connection, tempfile.TemporaryDirectory() as temporary:
        file = pathlib.Path(temporary) / "rows.csv"
        for kind, fields in kinds.items():
            if kind == "rollups":
                continue
            named = {"store_id": "uuid", "seq": "integer", **columns(kind, fields)}
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
