"""A writer of stores, made from data-layout.md alone and with nothing of decklog's.

writer.py write STORE SEED TIMES HOW    appends lines; HOW is what is done with HEAD: keep, remove
writer.py spoil STORE SEED              changes lines of segments that take lines
writer.py tamper STORE SEED             changes a line of a seals.jsonl or of removals.jsonl
"""
import fcntl
import hashlib
import json
import os
import random
import struct
import sys
import time
import uuid
import zlib
from datetime import datetime, timezone

from reader import KINDS, ZEROS, Line, fields, hash_of, judge, members, name_of, read, read_bytes, segments


def head_is_in_order(bytes):
    return len(bytes) == 1600 and bytes[:8] == b"DLHEAD01"


class Writer:
    """Holds the lock from `with` on; `keeps` says whether it keeps HEAD or removes it."""

    def __init__(self, store, keeps):
        self.store, self.head, self.keeps = store, f"{store}/HEAD", keeps

    def holder(self):
        bytes = read_bytes(self.head)
        return struct.unpack("<200Q", bytes)[3] if head_is_in_order(bytes) else None

    def is_locked_file(self):
        try:
            return os.stat(f"{self.store}/LOCK").st_ino == os.fstat(self.lock).st_ino
        except FileNotFoundError:
            return False

    def __enter__(self):
        while True:
            self.lock = os.open(f"{self.store}/LOCK", os.O_RDWR | os.O_CREAT, 0o600)
            fcntl.flock(self.lock, fcntl.LOCK_EX)
            in_doubt = self.holder() != 0
            if in_doubt:
                time.sleep(0.025)
            if self.is_locked_file():
                break
            os.close(self.lock)
        if in_doubt and self.holder() != 0:
            self.end_last_lines()
        if not head_is_in_order(read_bytes(self.head)):
            self.keeps = False
        if self.keeps:
            self.words = open(self.head, "r+b", buffering=0)
            self.store_word(3, os.getpid())
        elif os.path.exists(self.head):
            os.remove(self.head)
        self.lines, self.changed = read(self.store)[0], {}
        self.seq = max([line.seq for line in self.lines] + [self.word(2) if self.keeps and self.word(2) < 2**63 else 0])
        for raw in read_bytes(f"{self.store}/removals.jsonl").split(b"\n")[:-1]:
            self.seq = max(self.seq, json.loads(raw)["marks"]["seq"])
        return self

    def __exit__(self, *_):
        if self.keeps:
            for segment, length in self.changed.items():
                self.note(segment, length)
            if self.changed:
                self.store_word(2, self.seq)
                self.store_word(1, self.word(1) + len(self.changed))
            self.store_word(3, 0)
            self.words.close()
        os.close(self.lock)

    def word(self, number):
        return struct.unpack("<Q", os.pread(self.words.fileno(), 8, 8 * number))[0]

    def store_word(self, number, value):
        os.pwrite(self.words.fileno(), struct.pack("<Q", value), 8 * number)

    def note(self, segment, length):
        day, kind, number = segment
        days = (datetime.fromisoformat(day) - datetime(1970, 1, 1)).days
        name = days << 40 | list(KINDS).index(kind) << 32 | number
        places = [(self.word(8 + 3 * i), self.word(10 + 3 * i), 8 + 3 * i) for i in range(64)]
        place = next((at for its, _, at in places if its == name), None) or next((at for its, _, at in places if not its), None)
        if place is None:
            _, commit, place = min(places, key=lambda one: one[1])
            self.store_word(4, max(commit, self.word(4)))
        commit = self.word(1) + 1 + list(self.changed).index(segment)
        for at, value in enumerate((name, length, commit)):
            self.store_word(place + at, value)

    def end_last_lines(self):
        for segment in segments(self.store):
            path = f"{self.store}/{name_of(*segment)}"
            last = read_bytes(path).split(b"\n")[-1]
            if last and judge(segment[1], last)[1]:
                with open(path, "ab") as file:
                    file.write(b"\n")

    def append(self, kind, op, record, at):
        """Appends a line; `record` has its fields in order."""
        self.seq += 1
        members = {"seq": self.seq, "at": at, "op": op, **record}
        spelled = (f"{json.dumps(name)}:{value if isinstance(value, Raw) else compact(value)}" for name, value in members.items())
        line = ("{" + ",".join(spelled)).encode()
        line += b',"crc":"%08x"}' % zlib.crc32(line)
        day = datetime.fromtimestamp(at / 1000, timezone.utc).strftime("%Y-%m-%d")
        number = max((number for its, kinds, number in segments(self.store) if (its, kinds) == (day, kind)), default=1)
        path = f"{self.store}/{name_of(day, kind, number)}"
        if os.path.exists(path) and not os.stat(path).st_mode & 0o222:
            number += 1
            path = f"{self.store}/{name_of(day, kind, number)}"
        os.makedirs(f"{self.store}/{day}", mode=0o700, exist_ok=True)
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        torn = os.fstat(file).st_size and not read_bytes(path).endswith(b"\n")
        os.write(file, (b"\n" if torn else b"") + line + b"\n")
        self.changed[day, kind, number] = os.fstat(file).st_size
        os.close(file)
        verdict, said = judge(kind, line)
        assert verdict == "good", line
        self.lines.append(Line(kind, name_of(day, kind, number), 0, line, said))


class Raw(str):
    """JSON as it is to stand in a line."""


def compact(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def text(rng):
    return "".join(rng.choice(["a", " ", '"', "\\", "\n", "\t", "\x01", "\x7f", "é", "\u2028", "𝄞", "/"]) for _ in range(rng.randrange(8)))


def payload(rng):
    value = rng.choice([{text(rng): [1, text(rng)]}, [0.5, None], text(rng)])
    return value if isinstance(value, str) else Raw(rng.choice([compact, json.dumps])(value))


def some(rng, **fields):
    """The optional ones in part."""
    return {name: value for name, value in fields.items() if rng.random() < 0.5}


def random_line(writer, rng):
    at = 1_766_832_000_000 + rng.randrange(172_800_000)
    uid = lambda: str(uuid.UUID(int=rng.getrandbits(128)))
    moment = datetime.fromtimestamp(at // 1000, timezone.utc).strftime("%Y-%m-%dT%H:%M:%S")
    moment += f".{at % 1000:03}" + rng.choice(["Z", "+00:00", "999Z"])
    of_key = lambda known: [line for line in writer.lines if known and line.kind == kind and line.key() == known.key()]
    old = lambda kind, *ops: rng.choice([line for line in writer.lines if line.kind == kind and line.op in ops] or [None])
    kind = rng.choice(list(KINDS)[:-1])
    next_id = lambda name: 1 + max((line.record.get(name, 0) for line in writer.lines if line.kind == kind), default=0)
    if kind == "conversation_turns":
        known = old(kind, "asserted") if rng.random() < 0.3 else None
        record = {"id": known.record["id"] if known else uid(), **some(rng, parent_id=uid()),
                  "message_id": uid(), **some(rng, thread_id=uid()),
                  "kind": rng.choice(["user", "sysinfo"]), "created_at": at, "content": text(rng)}
        op = rng.choice(["asserted", "retracted"]) if known else "asserted"
    elif kind == "tool_calls":
        known = old(kind, "requested")
        if known and rng.random() < 0.5:
            op = rng.choice(["completed", "failed"])
            record = {name: known.record[name] for name in ("request_id", "call_id", "parent_id")}
            record |= {"ended_at": at, "latency_ms": rng.randrange(99)}
            errors = some(rng, error_kind=text(rng), error_msg=text(rng))
            record |= errors if op == "failed" else {}
            record |= some(rng, outcome_json=payload(rng))
        else:
            op, sha = "requested", hashlib.sha256(b"{}").hexdigest()
            record = {"request_id": uid(), "call_id": f"c{rng.randrange(99)}", "parent_id": uid(),
                      "vendor": "v" + text(rng), "tool_name": "t", "started_at": at, "args_sha256": sha,
                      **some(rng, arguments_json=payload(rng))}
    elif kind == "code_edit_proposals":
        known = old(kind, "pending")
        steps = of_key(known)
        following = {"pending": "approved", "approved": "applied", "applied": "reverted"}
        op = following.get(steps[-1].op) if steps else None
        at = max([at] + [line.at for line in steps])
        record = {"request_id": known.record["request_id"] if op else uid()}
        before = steps[-1].record if op else {}
        if op:
            record |= {"decided_at": before.get("decided_at", at)}
            record |= {"applied_at": before.get("applied_at", at)} if op != "approved" else {}
        else:
            op, record = "pending", record | {"created_at": at, **some(rng, confidence=rng.random())}
            record["diffs_json"] = payload(rng)
    elif kind == "conversations":
        op = "created"
        record = {"id": uid(), **some(rng, workspace="w" + text(rng), project="p"), "client": "cli", **some(rng, session_id="s"),
                  "status": rng.choice(["active", "completed"]), "created_at": moment, "updated_at": moment}
    elif kind == "messages":
        known = old("conversations", "created")
        if not known:
            return
        mine = [line.record["sequence"] for line in writer.lines
                if line.kind == kind and line.record["conversation_id"] == known.record["id"]]
        op, record = "added", {
            "id": uid(), "conversation_id": known.record["id"], "sequence": max(mine, default=0) + 1, "timestamp": moment,
            "role": rng.choice(["user", "assistant"]), "source": "user", "content_type": "text",
            **some(rng, model_used="m", tokens_in=rng.randrange(99), tokens_out=rng.randrange(99), latency_ms=5,
                   context_utilization=0.25, compression_applied=True, error="e" + text(rng),
                   models_in_chain=["m", text(rng)]),
            "content": text(rng),
            **some(rng, tool_args=payload(rng), tool_result=text(rng), inference_metadata=payload(rng))}
    elif kind == "events":
        new = next_id("id")
        op, record = "logged", {"id": new, **(some(rng, parent_id=new - 1) if new > 1 else {}), "event_type": "a.b",
                                "created_at": at, **some(rng, payload=payload(rng))}
    elif kind == "inbox":
        known = old(kind, "queued")
        steps = of_key(known)
        attempts = max((line.record.get("attempts", 0) for line in steps), default=0)
        if steps and steps[-1].op == "queued":
            op, record = "in_progress", {"id": known.record["id"], "attempts": attempts + 1, "locked_at": at}
        elif steps and steps[-1].op == "in_progress":
            op, record = rng.choice([("done", {}), ("failed", {"error": text(rng)}), ("queued", {"error": "again"})])
            record = {"id": known.record["id"], "attempts": attempts, **record}
        else:
            # A message of a chat has a text and a date.
            message = {"chat_id": rng.randrange(-2, 2), "message_date": rng.randrange(9**9), "text": text(rng)}
            op, record = "queued", {"id": next_id("id"), "update_id": next_id("update_id"), "created_at": at,
                                    **rng.choice([message, some(rng, text=message["text"])]),
                                    **some(rng, payload=payload(rng))}
    elif kind == "history":
        op, record = "added", {"id": next_id("id"), "chat_id": rng.randrange(-2, 2), "role": "user",
                               "created_at": at, "text": text(rng)}
    else:
        record = {"id": uid(), "task_id": rng.choice("ab"), "timestamp": moment, "content": text(rng),
                  "type": rng.choice(["plan", "decision"])}
        before = [line.record["hash"] for line in writer.lines
                  if line.kind == kind and line.record["task_id"] == record["task_id"]]
        record["prev_hash"] = before[-1] if before else ZEROS
        op, record = "recorded", record | {"hash": hash_of(record), "agent_id": "a"}
        record = {name: record[name] for name, _, _ in fields(kind, op)}
    writer.append(kind, op, record, at)


def write(store, seed, count, how):
    rng = random.Random(int(seed))
    for _ in range(int(count)):
        with Writer(store, how == "keep") as writer:
            for _ in range(rng.randrange(1, 9)):
                random_line(writer, rng)


# Damage.

def stamped(line):
    return line + b',"crc":"%08x"}' % zlib.crc32(line)


def spoiled(rng, raw):
    """A line, changed: mostly with a checksum that holds."""
    try:
        found = [(json.dumps(name), value) for name, _, value in members(raw.decode())]
    except (ValueError, IndexError):
        return raw
    at, there = rng.randrange(len(found) - 1), rng.randrange(len(found) - 1)
    name, value = found[at]
    how = rng.randrange(12)
    if how == 0:
        found[at], found[there] = found[there], found[at]
    elif how == 1:
        found.insert(there, found[max(at, 3)])  # The envelope twice: see data-layout.md.
    elif how == 2 and name not in ('"decided_at"', '"applied_at"', '"op"'):  # See data-layout.md.
        del found[at]
    elif how == 3:
        found.insert(at, ('"unknown"', rng.choice(["null", '{"a":[]}', '"\\ud800"', "1e999"])))
    elif how in (4, 5):
        found[at] = (name, rng.choice(["-1", "1.0", "true", "[]", '""', '"\\ud800"', "99999999999999999999", "{}", '"x"', value.upper(),
                                       " " + value, value + "\t", '"\\u0041"', "-0", "01", "NaN"]))
    elif how == 6:
        byte = rng.randrange(len(raw))
        return raw[:byte] + bytes([rng.choice(b'x"\0\r{}')]) + raw[byte + 1:]
    elif how == 7:
        return rng.choice([raw[:rng.randrange(len(raw))], b"\0\0" + raw, raw + b"\0", raw + b" \r", raw + raw[:9], b"\xef\xbb\xbf" + raw, b"", b"{}"])
    line = ("{" + ",".join(f"{name}:{value}" for name, value in found[:-1])).encode()
    return stamped(line) if how != 8 else line + b"}"


def spoil(store, seed):
    """Changes some lines, no two of which stand next to each other, and tears one."""
    rng = random.Random(int(seed))
    for segment in list(segments(store)):
        path = f"{store}/{name_of(*segment)}"
        if not os.stat(path).st_mode & 0o222:
            continue
        lines = read_bytes(path).split(b"\n")
        for at in range(rng.randrange(3), len(lines) - 1, 2 + rng.randrange(3)):
            lines[at] = spoiled(rng, lines[at])
        with open(path, "wb") as file:
            file.write(b"\n".join(lines[:-1]) + rng.choice([b"\n", b"\n{", b""]))


def tamper(store, seed):
    """Changes a line of the seals or the removals, or takes it away."""
    rng = random.Random(int(seed))
    paths = [f"{store}/{day}/seals.jsonl" for day in os.listdir(store)] + [f"{store}/removals.jsonl"]
    path = rng.choice(sorted(path for path in paths if os.path.exists(path)))
    lines = read_bytes(path).split(b"\n")
    at = rng.randrange(len(lines) - 1)
    digit = rng.choice([place for place, byte in enumerate(lines[at]) if byte in b"0123456789"])
    other = b"%d" % ((lines[at][digit] - 47) % 10)
    lines[at:at + 1] = [] if rng.random() < 0.3 else [lines[at][:digit] + other + lines[at][digit + 1:]]
    os.chmod(path, 0o600)
    with open(path, "wb") as file:
        file.write(b"\n".join(lines))


if __name__ == "__main__":
    {"write": write, "spoil": spoil, "tamper": tamper}[sys.argv[1]](*sys.argv[2:])
