#!/usr/bin/env python3
"""Runs every report of sql/ on every engine, and compares it with `decklog stats` on the union.

    compare.py DIR [--engine NAME]... [--report NAME]... [--format jsonl|parquet] [--decklog PROGRAM]

DIR is what generate.py wrote. Prints a line for each engine and report, and exits with 1 if an
answer differs. Quantiles may differ by 2 %.
"""
import argparse
import collections
import datetime
import decimal
import json
import pathlib
import subprocess
import sys
import time
import traceback
import uuid

import engines
import s3

HERE = pathlib.Path(__file__).resolve().parent
SQL = HERE.parent.parent / "sql"
ALL_ROWS = "100000"

# Questions about current records that no report asks, in SQL for every engine.
STATES = {
    "state of conversations": """SELECT status, COUNT(*), SUM(message_count), SUM(total_tokens_in), SUM(total_tokens_out),
        SUM(total_latency_ms), COUNT(last_error), COUNT(DISTINCT updated_at) FROM conversations GROUP BY status""",
    "state of turns": """SELECT kind, COUNT(*), COUNT(parent_id), COUNT(DISTINCT thread_id),
        SUM(CASE WHEN content LIKE '%lock%' THEN 1 ELSE 0 END) FROM conversation_turns GROUP BY kind""",
    "state of calls": """SELECT status, tool_name, COUNT(*), SUM(latency_ms), COUNT(ended_at), COUNT(error_kind), COUNT(outcome_json),
        COUNT(DISTINCT args_sha256) FROM tool_calls GROUP BY status, tool_name""",
    "state of proposals": """SELECT status, COUNT(*), SUM(confidence), COUNT(decided_at), COUNT(applied_at), COUNT(commit_hash)
        FROM code_edit_proposals GROUP BY status""",
    "state of inbox": """SELECT status, COUNT(*), SUM(attempts), COUNT(locked_at), COUNT(error), COUNT(payload), SUM(message_date), SUM(update_id)
        FROM inbox GROUP BY status""",
    "state of events": "SELECT event_type, COUNT(*), COUNT(parent_id), COUNT(payload), MAX(id) FROM events GROUP BY event_type",
}


def plain(value):
    """A value as every engine gives it."""
    if isinstance(value, decimal.Decimal):
        value = float(value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, float) and value != value:
        return None
    if isinstance(value, datetime.datetime):
        value = value.replace(tzinfo=value.tzinfo or datetime.timezone.utc)
        return int(value.timestamp() * 1000 + 0.5)
    if isinstance(value, (datetime.date, uuid.UUID)):
        return str(value)
    return value


def are_equal(a, b, tolerance):
    if isinstance(a, str) or isinstance(b, str) or a is None or b is None:
        return a == b
    return abs(a - b) <= tolerance * max(abs(a), abs(b))


class Expected:
    """The answers of decklog."""

    def __init__(self, decklog, store):
        self.command = [decklog, "--store", store]

    def lines(self, *args):
        run = subprocess.run([*self.command, *args, "--json"], check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        return [json.loads(line) for line in run.stdout.splitlines()]

    def rows(self, *args):
        [report] = self.lines("stats", *args, "--limit", ALL_ROWS)
        return report["rows"]

    def of(self, report):
        return getattr(self, report.replace(" ", "_"))()

    def usage(self, group, column):
        sums = "messages requests tokens_in tokens_out tokens_input tokens_cache_write tokens_cache_write_1h tokens_cache_read tokens_reasoning cost_usd"
        rows = self.rows("usage", "--group", group, "--bucket", "all")
        return 1, [[row.get(name) for name in [column, *sums.split()]] for row in rows]

    def tokens_by_model(self):
        return self.usage("model", "model_used")

    def tokens_by_config(self):
        return self.usage("config", "config_used")

    def latency_by_mode(self):
        rows = []
        for row in self.rows("latency"):
            ms = row["latency_ms"]
            rows.append([row.get("orchestration_mode"), row["requests"], ms["count"], *[ms.get(n) for n in ("avg", "p50", "p95", "p99")]])
        return 1, rows

    def error_rate_by_model(self):
        rows = self.rows("models", "--group", "model", "--since", "1970-01-01")
        rows = [row for row in rows if row["requests"] or row["errors"]]
        rate = lambda row: row.get("error_rate")
        return 1, [
            [row.get("model_used"), row["requests"], row["errors"], rate(row) and round(rate(row) * row["requests"]) or 0, rate(row)]
            for row in rows
        ]

    def task_types(self):
        return 1, [[row.get("task_type"), row["requests"], row["share"]] for row in self.rows("tasks")]

    def context_utilization(self):
        return 1, [[row.get("model_used"), row["count"], row["avg"]] for row in self.rows("context")]

    def compression(self):
        return 1, [[row.get("model_used"), row["requests"], row["compressed"], row.get("rate")] for row in self.rows("compression")]

    def daily_active_conversations(self):
        return 1, [[row["bucket"], row["conversations"]] for row in self.rows("active")]

    def model_config(self):
        rows = []
        for row in self.rows("models", "--since", "1970-01-01"):
            ms = row["latency_ms"]
            more = ("tokens_in", "tokens_out", "cost_usd", "context_utilization_avg", "errors", "error_rate")
            rows.append([row.get("model_used"), row.get("config_used"), row["requests"], ms["count"], ms.get("avg"), *[row.get(n) for n in more]])
        return 2, rows

    def dashboard(self):
        day = self.rows("active")[-1]["bucket"]
        [metrics] = self.lines("stats", "dashboard", "--since", day)
        rows = []
        for metric, value in metrics.items():
            if isinstance(value, dict):
                rows += [[metric, name, number] for name, number in value.items()]
            else:
                rows.append([metric, "", value])
        return 2, rows

    def run_tree(self):
        roots = [e for e in self.lines("events", "--limit", "10000000") if e["event_type"] == "agent.started" and "parent_id" not in e]
        root = max(roots, key=lambda e: (e["created_at"], e["id"]))
        tree = self.lines("tree", str(root["id"]))
        return 0, [[e["depth"], e["id"], e.get("parent_id"), e["event_type"], e["created_at"]] for e in tree]

    def grouped(self, command, keys, *sums):
        """Rows of current records by these fields, with the count of each group and these sums."""
        groups = collections.defaultdict(list)
        for record in self.lines(command, "--limit", "10000000"):
            groups[tuple(record.get(key) for key in keys)].append(record)
        return len(keys), [[*key, len(group), *[sum(group) for sum in sums]] for key, group in groups.items()]

    def state_of_conversations(self):
        names = ["message_count", "total_tokens_in", "total_tokens_out", "total_latency_ms"]
        instant = lambda text: int(datetime.datetime.fromisoformat(text.upper()).timestamp() * 1000 + 0.5)
        updated = lambda group: len({instant(record["updated_at"]) for record in group})
        return self.grouped("conversations", ["status"], *map(total, names), count("last_error"), updated)

    def state_of_turns(self):
        lock = lambda group: sum("lock" in record["content"] for record in group)
        return self.grouped("turns", ["kind"], count("parent_id"), distinct("thread_id"), lock)

    def state_of_calls(self):
        counts = map(count, ["ended_at", "error_kind", "outcome_json"])
        return self.grouped("calls", ["status", "tool_name"], total("latency_ms"), *counts, distinct("args_sha256"))

    def state_of_proposals(self):
        counts = map(count, ["decided_at", "applied_at", "commit_hash"])
        return self.grouped("proposals", ["status"], total("confidence"), *counts)

    def state_of_inbox(self):
        counts = map(count, ["locked_at", "error", "payload"])
        return self.grouped("inbox", ["status"], total("attempts"), *counts, total("message_date"), total("update_id"))

    def state_of_events(self):
        greatest = lambda group: max(record["id"] for record in group)
        return self.grouped("events", ["event_type"], count("parent_id"), count("payload"), greatest)


def total(name):
    def sum_of(group):
        numbers = [record[name] for record in group if record.get(name) is not None]
        return sum(numbers) if numbers else None

    return sum_of


def count(name):
    return lambda group: sum(record.get(name) is not None for record in group)


def distinct(name):
    return lambda group: len({record[name] for record in group if record.get(name) is not None})


def differences(report, keys, expected, found):
    """What differs, as text; the order counts where rows have no key."""
    found = [[plain(value) for value in row] for row in found]
    expected = [[plain(value) for value in row] for row in expected]
    if report == "run_tree":
        # The union has the events under its own store id.
        found = [[row[0], *row[2:]] for row in found]
    if keys:
        found, expected = sorted(found, key=repr), sorted(expected, key=repr)
        found_keys, expected_keys = [[row[:keys] for row in rows] for rows in (found, expected)]
        if found_keys != expected_keys:
            return f"rows {found_keys[:9]}, expected {expected_keys[:9]}"
    if len(found) != len(expected):
        return f"{len(found)} rows, expected {len(expected)}"
    for row, right in zip(found, expected):
        for nth, (a, b) in enumerate(zip(row, right, strict=True)):
            is_quantile = report == "latency_by_mode" and nth > 3 or row[0] == "p95_latency_ms"
            if not are_equal(a, b, 0.02 if is_quantile else 1e-9):
                return f"column {nth + 1} of {row}, expected {right}"
    return None


def statement(path):
    return path.read_text().rstrip().removesuffix(";")


def compare(name, engine, questions, expected):
    """Asks an engine everything. Returns the number of answers that differ."""
    if engine.own_reports:
        for path in sorted((SQL / engine.own_reports).glob("*.sql")):
            if path.stem in questions:
                own = f"{engine.own_reports}/{path.stem}"
                questions = questions | {own: statement(path)}
                expected = expected | {own: expected[path.stem]}
    width = max(map(len, questions))
    failures = 0
    began = time.monotonic()
    try:
        engine.setup()
        place = ", s3" if engine.server else ""
        label = f"{name} {engine.version()}, {engine.format}{place}"
        print(f"{label:<38} {'set-up':<{width}} {'':<5} {time.monotonic() - began:8.2f}", flush=True)
        for report, sql in questions.items():
            began = time.monotonic()
            try:
                different = differences(report, *expected[report], engine.query(sql))
            except Exception as error:
                different = f"{type(error).__name__}: {str(error)[:900]}"
            seconds = time.monotonic() - began
            failures += different is not None
            print(f"{label:<38} {report:<{width}} {'no' if different else 'equal':<5} {seconds:8.2f}", flush=True)
            if different:
                print(f"    {different}")
    except Exception:
        failures += 1
        print(f"{name}, {engine.format}: no set-up")
        traceback.print_exc(file=sys.stdout)
    finally:
        engine.close()
    return failures


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("dir", type=pathlib.Path)
    parser.add_argument("--engine", action="append", choices=engines.ALL)
    parser.add_argument("--report", action="append")
    parser.add_argument("--format", choices=["jsonl", "parquet"], action="append")
    parser.add_argument("--s3", action="store_true", help="read the objects from an S3 server on loopback")
    parser.add_argument("--decklog", default="decklog")
    args = parser.parse_args()
    questions = {path.stem: statement(path) for path in sorted(SQL.glob("*.sql"))} | STATES
    if args.report:
        questions = {name: sql for name, sql in questions.items() if name in args.report}
    asked = Expected(args.decklog, args.dir / "union")
    expected = {name: asked.of(name) for name in questions}
    server = s3.Server(engines.free_port()) if args.s3 else None
    failures = 0
    try:
        if server:
            server.upload(args.dir / "shipped")
        for name in args.engine or engines.ALL:
            kind = engines.ALL[name]
            for format in kind.formats:
                if args.format and format not in (*args.format, "tables", "log") or server and not kind.reads_s3:
                    continue
                failures += compare(name, kind(args.dir, format, args.decklog, server), questions, expected)
    finally:
        if server:
            server.stop()
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
