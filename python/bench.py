"""Compares the package with sqlite3 of the standard library, on records of 1 KB.

`python python/bench.py [RECORDS] [ROUNDS]`. The sides take turns; the medians are printed. SQLite has
WAL, synchronous NORMAL, a primary key, and an index for each list that the log has: by parent, by
type and by time. DECKLOG_BENCH_TINY=1 only tries that all of it runs.
"""

from __future__ import annotations

import json
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path
from typing import Any

# The package that is installed, and not the sources beside this file.
HERE = Path(__file__).resolve().parent
sys.path = [it for it in sys.path if Path(it).resolve() != HERE]

import decklog  # noqa: E402

TINY = os.environ.get("DECKLOG_BENCH_TINY") == "1"
RECORDS = 200 if TINY else int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
ROUNDS = 1 if TINY else int(sys.argv[2]) if len(sys.argv) > 2 else 5
BATCH = 1000
TEXT = ("The quick brown fox jumps over the lazy dog. " * 30)[:800]


def turns() -> list[dict[str, Any]]:
    return [
        {"kind": "user", "id": str(uuid.uuid4()), "content": TEXT, "thread_id": str(uuid.uuid4())}
        for _ in range(RECORDS)
    ]


def events() -> list[dict[str, Any]]:
    return [
        {"kind": "events", "event_type": "worker.spawned", "payload": {"text": TEXT, "n": n}}
        for n in range(RECORDS)
    ]


def rate(work: Any) -> float:
    began = time.perf_counter()
    work()
    return RECORDS / (time.perf_counter() - began)


def to_log(directory: Path, records: list[dict[str, Any]], batch: int) -> float:
    with decklog.open(directory / "log") as log:

        def single() -> None:
            record = log.record
            for it in records:
                record(it)

        def batches() -> None:
            for start in range(0, len(records), batch):
                log.record_batch(records[start : start + batch])

        return rate(single if batch == 1 else batches)


def to_sqlite(directory: Path, records: list[dict[str, Any]], batch: int) -> float:
    connection = sqlite3.connect(directory / "log.db", isolation_level=None)
    connection.executescript(
        "pragma journal_mode = wal; pragma synchronous = normal;"
        "create table turns (id text primary key, thread_id text, kind text, content text,"
        " created_at integer);"
        "create index turns_thread on turns (thread_id, created_at);"
        "create index turns_time on turns (created_at);"
        "create table events (id integer primary key, parent_id integer, event_type text,"
        " payload text, created_at integer);"
        "create index events_parent on events (parent_id);"
        "create index events_type on events (event_type);"
    )

    def insert(it: dict[str, Any]) -> None:
        now = int(time.time() * 1000)
        if it["kind"] == "events":
            row = (None, it["event_type"], json.dumps(it["payload"]), now)
            connection.execute(
                "insert into events (parent_id, event_type, payload, created_at) values (?, ?, ?, ?)",
                row,
            )
        else:
            row = (it["id"], it["thread_id"], it["kind"], it["content"], now)
            connection.execute("insert into turns values (?, ?, ?, ?, ?)", row)

    def work() -> None:
        for start in range(0, len(records), batch):
            connection.execute("begin")
            for it in records[start : start + batch]:
                insert(it)
            connection.execute("commit")

    found = rate(work)
    connection.close()
    return found


def import_ms() -> float:
    program = (
        "import time; began = time.perf_counter(); import decklog;"
        " print((time.perf_counter() - began) * 1000)"
    )
    # From a directory without the sources.
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True, text=True, cwd="/"
    )
    return float(ran.stdout)


def main() -> None:
    print(f"{RECORDS} records of 1 KB, medians of {ROUNDS} rounds")
    for name, make in (("turns", turns), ("events", events)):
        for batch in (1, BATCH):
            rates: dict[str, list[float]] = {"decklog": [], "sqlite3": []}
            for _ in range(ROUNDS):
                for side, write in (("decklog", to_log), ("sqlite3", to_sqlite)):
                    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as directory:
                        rates[side].append(write(Path(directory), make(), batch))
            ours, theirs = (statistics.median(rates[side]) for side in ("decklog", "sqlite3"))
            how = "one by one" if batch == 1 else f"{batch} at a time"
            print(f"{name}, {how}: {ours:,.0f}/s, sqlite3 {theirs:,.0f}/s, ratio {ours / theirs:.1f}")
    imports = [import_ms() for _ in range(1 if TINY else 21)]
    print(f"import decklog: {statistics.median(imports):.1f} ms")


if __name__ == "__main__":
    main()
