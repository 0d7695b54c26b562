#!/usr/bin/env python3
"""Makes a small store whose lines no writer of decklog would write in this order.

    edges.py DIR [--decklog PROGRAM]

The rules of data-layout.md say what is current: DIR/one and DIR/union are the same store, which
compare.py then asks as it asks the fleet.
"""
import argparse
import json
import pathlib
import shutil
import subprocess
import zlib
from datetime import datetime, timezone

DAY = 1_764_547_200_000  # 2025-12-01
ID = "{:08x}-0000-4000-8000-000000000000"


class Writer:
    def __init__(self, store, fields):
        self.store, self.fields, self.seq = store, fields, 0

    def line(self, kind, op, at, /, **given):
        """Appends a line, with its fields in the order of the schema."""
        self.seq += 1
        ordered = {name: given[name] for name in self.fields[kind] if name in given}
        assert ordered.keys() == given.keys(), given.keys() - ordered.keys()
        text = json.dumps({"seq": self.seq, "at": at, "op": op, **ordered}, ensure_ascii=False, separators=(",", ":"))[:-1]
        line = f'{text},"crc":"{zlib.crc32(text.encode()):08x}"}}\n'
        day = datetime.fromtimestamp(at // 1000, timezone.utc).strftime("%Y-%m-%d")
        path = self.store / day / f"{kind}.0001.jsonl"
        path.parent.mkdir(exist_ok=True)
        with open(path, "a", encoding="utf-8") as file:
            file.write(line)


def turns(w):
    def turn(n, op, at, content):
        w.line("conversation_turns", op, at, id=ID.format(n), message_id=ID.format(n), kind="user", created_at=at, content=content)

    turn(1, "asserted", DAY, "first lock")
    turn(1, "retracted", DAY + 1, "first lock")
    turn(1, "asserted", DAY - 5, "earlier by its time, later by seq")
    turn(2, "asserted", DAY, "lock")
    turn(2, "retracted", DAY + 86_400_000, "lock")
    turn(3, "retracted", DAY, "never asserted")
    turn(4, "asserted", DAY, "lock")
    turn(4, "asserted", DAY, "no more")


def calls(w):
    def request(n, op="requested", tool="a", at=DAY):
        w.line("tool_calls", op, at, request_id=ID.format(n), call_id="c", parent_id=ID.format(99), vendor="v", tool_name=tool,
               started_at=at, args_sha256=f"{n:064x}", arguments_json={"n": n})

    def outcome(n, op, latency, at=DAY + 10):
        more = {"error_kind": "Bad"} if op == "failed" else {}
        w.line("tool_calls", op, at, request_id=ID.format(n), call_id="c", parent_id=ID.format(99), ended_at=at, latency_ms=latency,
               outcome_json="text", **more)

    outcome(11, "completed", 1)  # before its request
    request(11)
    request(12)
    outcome(12, "failed", 2)
    outcome(12, "completed", 4)  # the first outcome stands
    request(13)
    outcome(13, "completed", 8)
    request(13, "retracted", at=DAY + 20)
    request(13, tool="b", at=DAY + 86_400_000)
    outcome(13, "failed", 16)
    request(14)
    outcome(14, "completed", 32)
    request(14, "retracted")
    outcome(15, "completed", 64)  # without a request
    request(16, tool="a")
    request(16, tool="b")
    request(17, at=DAY + 5)
    request(17, "retracted", at=DAY)  # earlier by its time, later by seq


def proposals(w):
    def pending(n, op="pending", confidence=0.25):
        w.line("code_edit_proposals", op, DAY, request_id=ID.format(n), created_at=DAY, confidence=confidence, diffs_json=[n])

    def step(n, op, **more):
        w.line("code_edit_proposals", op, DAY + 9, request_id=ID.format(n), decided_at=DAY + 9, **more)

    pending(21)
    step(21, "approved")
    step(21, "applied", applied_at=DAY + 9, commit_hash="abc")
    pending(22)
    step(22, "denied")
    step(22, "approved")  # the last step stands
    step(23, "approved")  # without a proposal
    step(24, "denied")
    pending(24)  # after its step
    pending(25)
    step(25, "approved")
    pending(25, confidence=0.5)
    pending(26)
    pending(26, "retracted")
    pending(27)
    step(27, "reverted", applied_at=DAY + 9, commit_hash="abc")


def inbox(w):
    def queue(n, update, **more):
        w.line("inbox", "queued", DAY, id=n, update_id=update, created_at=DAY, payload={"n": n}, **more)

    def step(n, op, attempts, **more):
        w.line("inbox", op, DAY + 9, id=n, attempts=attempts, **more)

    queue(1, 101)
    step(1, "in_progress", 1, locked_at=DAY + 9)
    step(1, "queued", 1, error="down")
    queue(2, 102)
    step(2, "in_progress", 1, locked_at=DAY + 9)
    queue(2, 103)  # the id is taken: ignored
    step(3, "in_progress", 4, locked_at=DAY + 9)
    queue(3, 104, chat_id=5, message_date=7, text="t")  # after its step
    step(4, "done", 1)  # without a task
    queue(5, 105)


def conversations(w):
    def conversation(n, op="created", at=DAY, **more):
        times = {"created_at": rfc3339(DAY), "updated_at": rfc3339(at)}
        w.line("conversations", op, at, id=ID.format(n), client="cli", **{**times, **more})

    sequences = iter(range(1, 1000))

    def message(n, role, timestamp=None, at=DAY + 50, sequence=None, id=None, **more):
        sequence = sequence or next(sequences)
        w.line("messages", "added", at, id=id or ID.format(1000 + w.seq), conversation_id=ID.format(n), sequence=sequence,
               timestamp=timestamp or rfc3339(at), role=role, source="user", content="x", **more)

    conversation(31, title="t", status="active")
    conversation(31, "updated", DAY + 900_000, status="completed")  # without a title
    message(31, "user", at=DAY + 950_000, tokens_in=5, tokens_out=-7, latency_ms=-1)
    conversation(32, status="active")
    message(32, "system", error="no", model_used="m")
    conversation(33, status="active")
    message(33, "system", error="no")
    message(33, "assistant", model_used="m", tokens_in=10, latency_ms=100, context_utilization=0.5)
    conversation(34, status="active")
    message(34, "system", error="no")
    conversation(34, "updated", DAY + 1, status="completed")  # after the error
    conversation(35, status="error", last_error="old")
    message(35, "assistant", model_used="m", tokens_in=-3, latency_ms=-5, context_utilization=1.5, cost_usd=-1.0)
    conversation(36, status="active")
    message(36, "assistant", sequence=50, error="later by sequence", part_of=ID.format(77))
    message(36, "assistant", sequence=49, model_used="m", compression_applied=True)
    conversation(37, "updated", DAY + 2)  # without a status, and never created
    conversation(38, status="error", last_error="kept")
    message(38, "user")
    message(38, "tool", error_type="NotFound", tool_result="r")
    conversation(40, at=DAY, created_at="2025-12-01t02:00:00+02:00", updated_at="2025-12-01t00:00:00z")
    conversation(39, status="active")
    conversation(39, at=DAY, status="completed")  # created twice
    message(39, "user", id=ID.format(500), sequence=900, tokens_in=1)
    message(39, "user", id=ID.format(500), sequence=901, tokens_in=100)  # the first stands
    # Spellings of times; the day is that of the instant.
    message(39, "user", "2025-12-02T01:00:00+02:00", DAY + 82_800_000)
    message(39, "user", "2025-12-01t10:00:60z", DAY + 36_060_000)
    message(39, "user", "2025-12-01 10:00:00.123456Z", DAY + 36_000_123)


def events(w):
    def event(id, parent, type, at=DAY):
        above = {"parent_id": parent} if parent else {}
        w.line("events", "logged", at, id=id, **above, event_type=type, created_at=at, payload="text")

    event(1, None, "agent.started")
    event(3, 2, "llm_call.completed")
    event(2, 1, "turn.started")  # after its child
    event(2, 1, "turn.completed")  # the id is taken: ignored
    event(4, 1, "agent.completed", DAY + 86_400_000)
    event(5, None, "process.started")


def rfc3339(ms):
    return datetime.fromtimestamp(ms / 1000, timezone.utc).strftime("%Y-%m-%dT%H:%M:%S") + f".{ms % 1000:03}Z"


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("dir", type=pathlib.Path)
    parser.add_argument("--decklog", default="decklog")
    args = parser.parse_args()
    store = args.dir / "one"
    subprocess.run([args.decklog, "--store", store, "record"], input=b"", check=True, stdout=subprocess.DEVNULL)
    out = subprocess.run([args.decklog, "schema", "--json"], check=True, capture_output=True).stdout
    kinds = map(json.loads, out.splitlines())
    writer = Writer(store, {kind["kind"]: [field["name"] for field in kind["fields"]] for kind in kinds})
    for write in (turns, calls, proposals, inbox, conversations, events):
        write(writer)
    shutil.copytree(store, args.dir / "union")


if __name__ == "__main__":
    main()
