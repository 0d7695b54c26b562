"""The engines: each reads the objects of DIR/shipped, or tables that were loaded from them."""
import json
import pathlib
import subprocess
import sys

import prologues

HERE = pathlib.Path(__file__).resolve().parent
STORES = ["one", "two", "three"]


class Engine:
    formats = ["jsonl", "parquet"]

    def __init__(self, dir, format, decklog):
        self.dir, self.format, self.decklog = pathlib.Path(dir).resolve(), format, decklog
        self.location = str(self.dir / "shipped" / format)

    def prologue(self, name, **options):
        engine = prologues.ENGINES[name](self.format, self.location, **options)
        return prologues.prologue(engine, prologues.schema(self.decklog))

    def form(self, report, sql):
        """The query, where the engine needs another form of it."""
        return sql

    def setup(self):
        raise NotImplementedError

    def query(self, sql):
        """The rows, as a list of tuples."""
        raise NotImplementedError

    def close(self):
        pass


def statements(script):
    """The statements of a prologue: each ends with a semicolon at the end of a line."""
    return [part.strip() for part in script.split(";\n") if part.strip()]


class DuckDB(Engine):
    def version(self):
        import duckdb

        return duckdb.__version__

    def setup(self):
        import duckdb

        self.connection = duckdb.connect()
        self.connection.execute("SET threads = 1")
        for part in statements(self.prologue("duckdb")):
            self.connection.execute(part)

    def query(self, sql):
        return self.connection.execute(sql).fetchall()

    def close(self):
        if hasattr(self, "connection"):
            self.connection.close()


class ClickHouse(Engine):
    def version(self):
        return self.query("SELECT version()")[0][0]

    def setup(self):
        from chdb.session import Session

        self.session = Session()
        self.session.query("SET max_threads = 1")
        for part in statements(self.prologue("clickhouse")):
            self.session.query(part)

    def query(self, sql):
        answer = self.session.query(sql, "JSONCompactEachRow")
        return [json.loads(line) for line in str(answer).splitlines() if line]

    def close(self):
        if hasattr(self, "session"):
            self.session.close()


ALL = {"duckdb": DuckDB, "clickhouse": ClickHouse}
