"""The engines: each reads the objects of DIR/shipped, or tables, through `decklog sql-views`."""
import datetime
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time

import s3

STORES = ["one", "two", "three"]


class Engine:
    formats = ["jsonl", "parquet"]

    # Whether it reads objects from S3 here.
    reads_s3 = False

    # The folder of sql/ with reports of its own, which answer as those of the same name.
    own_reports = None

    def __init__(self, dir, format, decklog, server=None):
        self.dir, self.format, self.decklog = pathlib.Path(dir).resolve(), format, decklog
        self.location = str(self.dir / "shipped" / format)
        self.server = server
        if server:
            self.location = f"s3://{s3.BUCKET}/{format}"

    def stores(self):
        return [self.dir / name for name in STORES if (self.dir / name).exists()]

    def views(self, engine, *locations):
        """The statements of the views."""
        format = [] if "tables" in self.formats else ["--format", self.format]
        command = [self.decklog, "sql-views", engine, *locations, *format]
        script = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        # Each ends with a semicolon at the end of a line.
        return [part.strip() for part in script.split(";\n") if part.strip()]

    def setup(self):
        raise NotImplementedError

    def query(self, sql):
        """The rows, as a list of tuples."""
        raise NotImplementedError

    def close(self):
        pass


def instant(value):
    """A time that came as text, in UTC."""
    if isinstance(value, str) and re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)?", value):
        return datetime.datetime.fromisoformat(value)
    return value


class DuckDB(Engine):
    reads_s3 = True

    def version(self):
        import duckdb

        return duckdb.__version__

    def setup(self):
        import duckdb

        self.connection = duckdb.connect()
        self.connection.execute("SET threads = 1")
        if self.server:
            for part in s3.httpfs():
                self.connection.execute(part)
            self.connection.execute(
                f"CREATE SECRET (TYPE s3, KEY_ID '{s3.KEY}', SECRET '{s3.SECRET}', REGION 'us-east-1',"
                f" ENDPOINT '{self.server.host}', URL_STYLE 'path', USE_SSL false)")
        for part in self.views("duckdb", self.location):
            self.connection.execute(part)

    def query(self, sql):
        return self.connection.execute(sql).fetchall()

    def close(self):
        if hasattr(self, "connection"):
            self.connection.close()


class ClickHouse(Engine):
    reads_s3 = True

    def version(self):
        return self.query("SELECT version()")[0][0]

    def setup(self):
        from chdb.session import Session

        self.session = Session()
        self.session.query("SET max_threads = 1")
        location = f"{self.server.url}/{s3.BUCKET}/{self.format}" if self.server else self.location
        for part in self.views("clickhouse", location):
            # The keys come after the URL.
            self.session.query(re.sub(r"\bs3\('[^']*'", rf"\g<0>, '{s3.KEY}', '{s3.SECRET}'", part))

    def query(self, sql):
        answer = self.session.query(sql, "JSONCompactEachRow")
        rows = [json.loads(line) for line in str(answer).splitlines() if line]
        return [[instant(value) for value in row] for row in rows]

    def close(self):
        if hasattr(self, "session"):
            self.session.close()


class DataFusion(Engine):
    # Over JSON it cannot read payloads as text, and a damaged line is an error.
    formats = ["parquet"]
    reads_s3 = True

    def version(self):
        import datafusion

        return datafusion.__version__

    def setup(self):
        from datafusion import SessionConfig, SessionContext

        self.context = SessionContext(SessionConfig().with_target_partitions(1))
        if self.server:
            from datafusion.object_store import AmazonS3

            store = AmazonS3(bucket_name=s3.BUCKET, endpoint=self.server.url, region="us-east-1", access_key_id=s3.KEY,
                             secret_access_key=s3.SECRET, allow_http=True)
            self.context.register_object_store(f"s3://{s3.BUCKET}/", store, None)
        for part in self.views("datafusion", self.location):
            self.context.sql(part).collect()

    def query(self, sql):
        return [tuple(row.values()) for batch in self.context.sql(sql).collect() for row in batch.to_pylist()]


class Spark(Engine):
    """A master and two workers on loopback, which are ended with the test."""

    # Its text files cannot be zstd without Hadoop's native library.
    formats = ["parquet"]

    def version(self):
        return self.session.version

    def setup(self):
        import pyspark
        from pyspark.sql import SparkSession

        home = pathlib.Path(pyspark.__file__).parent
        work = self.dir / "spark"
        work.mkdir(exist_ok=True)
        environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_HOME": str(home),
                       "PYSPARK_PYTHON": sys.executable, "SPARK_WORKER_DIR": str(work)}
        run = [str(home / "bin" / "spark-class")]
        port = free_port()
        master = f"spark://127.0.0.1:{port}"
        deploy = "org.apache.spark.deploy"
        options = ["--host", "127.0.0.1", "--webui-port", "0"]
        self.children = []

        def start(name, *arguments):
            log = open(work / f"{name}.log", "wb")
            self.children.append(subprocess.Popen([*run, *arguments], env=environment, stdout=log, stderr=log))

        start("master", f"{deploy}.master.Master", "--port", str(port), *options)
        for nth in (1, 2):
            start(f"worker-{nth}", f"{deploy}.worker.Worker", "--cores", "1", "--memory", "1g", *options, master)
        os.environ.update(SPARK_LOCAL_IP="127.0.0.1", PYSPARK_PYTHON=sys.executable)
        builder = SparkSession.builder.master(master).appName("fleet")
        for name, value in {"spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1",
                            "spark.sql.shuffle.partitions": "4", "spark.executor.memory": "1g", "spark.cores.max": "2",
                            "spark.sql.warehouse.dir": str(work / "warehouse"), "spark.log.level": "OFF",
                            "spark.ui.showConsoleProgress": "false"}.items():
            builder = builder.config(name, value)
        self.session = builder.getOrCreate()
        for part in self.views("spark", self.location):
            self.session.sql(part)

    def query(self, sql):
        return [tuple(row) for row in self.session.sql(sql).collect()]

    def close(self):
        if hasattr(self, "session"):
            self.session.stop()
        for child in getattr(self, "children", []):
            child.terminate()
        for child in getattr(self, "children", []):
            child.wait(30)


class SQLite(Engine):
    """One file a store, attached and united in views."""

    formats = ["tables"]

    def version(self):
        return sqlite3.sqlite_version

    def setup(self):
        folder = self.dir / "sqlite"
        folder.mkdir()
        files = [folder / f"{store.name}.sqlite" for store in self.stores()]
        for store, file in zip(self.stores(), files):
            command = [self.decklog, "--store", store, "export", "sqlite", file]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        self.connection = sqlite3.connect(":memory:")
        for part in self.views("sqlite", *files):
            self.connection.execute(part)

    def query(self, sql):
        rows = self.connection.execute(sql).fetchall()
        return [[instant(value) for value in row] for row in rows]

    def close(self):
        if hasattr(self, "connection"):
            self.connection.close()


class Own(Engine):
    """`decklog sql` on the union. It reads the log itself, without a prologue."""

    formats = ["log"]

    def version(self):
        words = subprocess.run([self.decklog, "--version"], capture_output=True, text=True, check=True).stdout
        return words.split()[1]

    def setup(self):
        pass

    def query(self, sql):
        command = [self.decklog, "--store", self.dir / "union", "sql", "--json"]
        run = subprocess.run(command, input=sql.encode(), capture_output=True)
        if run.returncode != 0:
            raise RuntimeError(run.stderr.decode())
        rows = map(json.loads, run.stdout.splitlines())
        return [[instant(value) for value in row.values()] for row in rows]


class PostgreSQL(Engine):
    """The server of $FLEET_POSTGRES, a URL; without it, one on loopback that is ended with the test."""

    formats = ["tables"]
    programs = "/usr/lib/postgresql/*/bin"
    own_reports = "postgresql"

    def version(self):
        return self.query("SHOW server_version")[0][0].split()[0]

    def setup(self):
        import psycopg

        url = os.environ.get("FLEET_POSTGRES") or self.start()
        for store in self.stores():
            command = [self.decklog, "--store", store, "ship", url]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        self.connection = psycopg.connect(url, autocommit=True)
        for part in self.views("postgresql"):
            self.connection.execute(part)

    def start(self):
        """Starts a server in a temporary directory; not as root, which it refuses."""
        bin = pathlib.Path(sorted(pathlib.Path("/").glob(self.programs[1:]))[-1])
        self.home = pathlib.Path(tempfile.mkdtemp(prefix="fleet-postgres-"))
        as_user = []
        if os.geteuid() == 0:
            shutil.chown(self.home, "postgres")
            as_user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups"]
        data, port = self.home / "data", free_port()
        quiet = {"stdout": subprocess.DEVNULL, "cwd": self.home}
        subprocess.run([*as_user, bin / "initdb", "-D", data, "-U", "fleet", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8"], check=True, **quiet)
        options = ["-c", "listen_addresses=127.0.0.1", "-p", str(port), "-k", self.home, "-c", "fsync=off"]
        with open(self.home / "log", "wb") as log:
            self.process = subprocess.Popen([*as_user, bin / "postgres", "-D", data, *options], stdout=log, stderr=log, cwd=self.home)
        for _ in range(300):
            if subprocess.run([bin / "pg_isready", "-h", "127.0.0.1", "-p", str(port), "-q"]).returncode == 0:
                break
            time.sleep(0.1)
        return f"postgresql://fleet@127.0.0.1:{port}/postgres"

    def query(self, sql):
        return self.connection.execute(sql).fetchall()

    def close(self):
        if hasattr(self, "connection"):
            self.connection.close()
        if hasattr(self, "process"):
            # As a fast shutdown: without waiting for clients.
            self.process.send_signal(signal.SIGINT)
            self.process.wait(30)
            shutil.rmtree(self.home)


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


ALL = {"duckdb": DuckDB, "clickhouse": ClickHouse, "datafusion": DataFusion, "decklog": Own, "sqlite": SQLite, "postgresql": PostgreSQL, "spark": Spark}
