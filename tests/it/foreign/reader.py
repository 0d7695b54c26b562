"""A reader of stores, made from data-layout.md alone and with nothing of decklog's.

reader.py DECKLOG STORE: reads the store, and says where decklog finds something else.
"""
import hashlib
import json
import os
import re
import subprocess
import sys
import uuid
import zlib
from datetime import datetime, timezone
from json.decoder import scanstring

# Of each kind and op, its fields in order, by what they hold. U: UUID. S: string. I: integer of 64
# bits with a sign. N: one without. F: number. B: boolean. P: payload. L: array of strings.
# T: RFC 3339. A: integer, equal to `at`. D: day. X: hashes of 64 bits. E: object of numbers.
# C: a short name. W: array of pairs of numbers. J: object. Others: one of these words. After it: `!` it stands first,
# behind the envelope; `?` may be missing or null; `~` may be missing; `+` the record's own time.
ROLE, STATUS = "system/user/assistant/tool", "active/completed/error"
REQUEST = "request_id:U! call_id:S! parent_id:U! vendor:S! tool_name:S! started_at:A?+ args_sha256:S arguments_json:P?"
OUTCOME = "request_id:U! call_id:S! parent_id:U? ended_at:A?+ latency_ms:I error_kind:S? error_msg:S? outcome_json:P?"
TURN = "id:U! parent_id:U!? message_id:U! thread_id:U!? kind:user/assistant/system/sysinfo/tool created_at:A?+ content:S"
PENDING = "request_id:U! created_at:A?+ confidence:F? diffs_json:P"
DECIDED = "request_id:U! decided_at:A?+ applied_at:I? commit_hash:S?"
APPLIED = "request_id:U! decided_at:I? applied_at:A?+ commit_hash:S?"
REVERTED = "request_id:U! decided_at:I? applied_at:I? commit_hash:S?"
CONVERSATION = ("id:U! workspace:S!? project:S!? client:C! user_id:S!? session_id:S!? parent_id:U!?"
                f" parent_call_id:S? agent:S? title:S? status:{STATUS}~ created_at:T%s updated_at:T%s last_error:S?")
MESSAGE = (f"id:U! conversation_id:U! sequence:I! timestamp:T+ role:{ROLE} source:user/model/system/tool"
           " content_type:text/code/markdown/json~ model_used:S? config_used:S? orchestration_mode:S?"
           " task_type:S? git_branch:S? tokens_in:I? tokens_out:I?"
           " tokens_cache_write:I? tokens_cache_write_1h:I? tokens_cache_read:I? tokens_reasoning:I? latency_ms:I? context_utilization:F? cost_usd:F? handoff_steps:I?"
           " compression_applied:B? error_type:S? error:S? tool_name:S? tool_call_id:S? models_in_chain:L? part_of:U?"
           " content:S reasoning:S? tool_args:P? tool_result:S? inference_metadata:P?")
TASK = "id:I! attempts:I%s error:S?"
ROLLUP = ("day:D! model_used:S!? config_used:S!? orchestration_mode:S!? task_type:S!? part:N!~ through_seq:N"
          " messages:N requests:N tokens_in:N tokens_out:N"
          " tokens_cache_write:N~ tokens_cache_write_1h:N~ tokens_cache_read:N~ tokens_reasoning:N~ cost_nano_usd:N~ cost_count:N~ latency_ms_sum:N latency_count:N latency_sketch:W"
          " context_utilization_sum:F context_utilization_count:N compressed:N errors:N errors_by_type:E~"
          " conversations:N active_conversations:N others:J~ message_hashes:X~ conversation_hashes:X~")
KINDS = {
    "conversation_turns": dict.fromkeys(("asserted", "retracted"), TURN),
    "tool_calls": {"requested": REQUEST, "retracted": REQUEST, "completed": OUTCOME, "failed": OUTCOME},
    "code_edit_proposals": {"pending": PENDING, "retracted": PENDING, "approved": DECIDED,
                            "denied": DECIDED, "applied": APPLIED, "reverted": REVERTED},
    "conversations": {"created": CONVERSATION % ("+", ""), "updated": CONVERSATION % ("", "+")},
    "messages": {"added": MESSAGE},
    "events": {"logged": "id:I! parent_id:I!? event_type:S! created_at:A+ payload:P?"},
    "inbox": {"queued": "id:I! update_id:I! created_at:A?+ chat_id:I? message_date:I? text:S? payload:P?", "in_progress": TASK % " locked_at:A?+",
              "done": TASK % "", "failed": TASK % "", "again": TASK % ""},
    "history": {"added": f"id:I! chat_id:I! role:{ROLE} created_at:A+ text:S"},
    "thought_records": {"recorded": "id:S! task_id:S! prev_hash:S!~ hash:S!~ type:plan/analysis/decision/reflection"
                                    " agent_id:S timestamp:T+ content:S"},
    "rollups": {"rolled": ROLLUP},
}
# Kinds of one op, or whose ops all have the same fields: their `at` is looked at in good lines only.
PLAIN = ("conversations", "messages", "events", "history", "thought_records", "rollups")
DEFAULTS = {"status": "active", "content_type": "text", "prev_hash": "", "hash": ""}
ZEROS = "0" * 64


def fields(kind, op):
    for field in KINDS[kind][op].split():
        name, rest = field.split(":")
        yield name, rest.rstrip("!?~+"), rest[len(rest.rstrip("!?~+")):]


class Number(str):
    """As it is spelled."""


DECODER = json.JSONDecoder(parse_int=Number, parse_float=Number, parse_constant=int)
BLANKS = re.compile(r"[ \t\n\r]*")


def members(text):
    """The members of an object: name, value, and the value as it is spelled."""
    found, at = [], BLANKS.match(text, 0).end()
    if text[at:at + 1] != "{":
        raise ValueError("no object")
    at = BLANKS.match(text, at + 1).end()
    while text[at] != "}":
        name, at = scanstring(text, at + 1) if text[at] == '"' else [][0]
        at = BLANKS.match(text, at).end()
        if text[at] != ":":
            raise ValueError("no colon")
        start = BLANKS.match(text, at + 1).end()
        value, end = DECODER.raw_decode(text, start)
        found.append((name, value, text[start:end]))
        at = BLANKS.match(text, end).end()
        if text[at] == ",":
            at = BLANKS.match(text, at + 1).end()
            if text[at] != '"':
                raise ValueError("no name")
        elif text[at] != "}":
            raise ValueError("no comma")
    if BLANKS.match(text, at + 1).end() != len(text):
        raise ValueError("more follows")
    return found


def instant(text):
    """Epoch milliseconds of an RFC 3339 text; without an offset it is in UTC."""
    parts = re.fullmatch(r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d):(\d\d)(?:\.(\d+))?([Zz]|[+-]\d\d:\d\d)?", text, re.A)
    day, minute, second, fraction, zone = parts.groups()
    if len(text) > 64 or int(second) > 60:
        raise ValueError(text)
    whole = datetime.fromisoformat(f"{day}T{minute}:00{zone if zone and zone not in 'Zz' else '+00:00'}")
    return (int(whole.timestamp()) + int(second)) * 1000 + int((fraction or "0").ljust(3, "0")[:3])


def fits(type, value, raw):
    if type in "IAN":
        least, most = (0, 2**64) if type == "N" else (-2**63, 2**63)
        if not re.fullmatch(r"-?\d+", raw) or raw == "-0" or not least <= int(raw) < most:
            raise ValueError(raw)
        return int(raw)
    if type == "F":
        number = float(value) if isinstance(value, Number) else float("inf")
        if number in (float("inf"), float("-inf")):
            raise ValueError(raw)
        return number
    if type in "BLPEWJ":
        of = {"B": bool, "L": list, "W": list, "E": dict, "J": (dict, list)}.get(type, object)
        if not isinstance(value, of) or type == "P" and raw == "null":
            raise ValueError(raw)
        if type == "P":
            (value if raw[0] == '"' else raw).encode()
        elif type == "L":
            return [fits("S", part, "") for part in value]
        elif type in "EW":
            for part in value.values() if type == "E" else sum(value, []):
                fits("N", part, part)
        if type == "P" and raw[0] not in '[{"':
            # A number, `true` or `false`; a number that no double holds is a text.
            scalar = json.loads(raw)
            return raw if len(raw) > 64 or scalar in (float("inf"), float("-inf")) else scalar
        return value if type == "B" else json.loads(raw) if raw[0] in '[{"' else raw
    if isinstance(value, Number) or not isinstance(value, str):
        raise ValueError(raw)
    value.encode()  # No lone surrogate.
    if type == "T":
        instant(value)
    elif type == "U":
        if not re.fullmatch(r"[0-9a-fA-F]{8}(-?)[0-9a-fA-F]{4}(\1[0-9a-fA-F]{4}){2}\1[0-9a-fA-F]{12}", value):
            raise ValueError(raw)
        return str(uuid.UUID(value))
    elif type == "D":
        datetime.strptime(value, "%Y-%m-%d")
    elif type == "X":
        if not re.fullmatch("([0-9a-f]{16})*", value):
            raise ValueError(raw)
    elif type == "C":
        if not re.fullmatch(r"[A-Za-z0-9._-]{1,32}", value):
            raise ValueError(raw)
    elif type == ROLE and value == "developer":
        return "system"
    elif type != "S" and value not in type.split("/"):
        raise ValueError(raw)
    return value


def record_of(kind, found):
    """What the members say, or nothing."""
    first = {}
    for name, value, raw in found:
        first.setdefault(name, (value, raw))
    names = [name for name, _, _ in found]
    whole = lambda name: fits("I", *first[name]) if name in first and first[name][1] != "null" else None
    try:
        seq = whole("seq")
        if seq is not None and seq < 0:
            return None
        op = first.get("op", (None, "null"))[0]
        if op is None:
            op = {"tool_calls": "", "inbox": "queued"}.get(kind, next(iter(KINDS[kind])))
        if kind == "inbox" and op == "queued" and "attempts" in first:
            op = "again"
        record, own = {}, None
        at = whole("at") if kind not in PLAIN else None
        for name, type, flags in fields(kind, op):
            if names.count(name) > 1:
                return None
            if name not in first and set(flags) & set("?~") or "?" in flags and first[name][1] == "null":
                if type == "A":
                    record[name] = own = at
                elif name in DEFAULTS:
                    record[name] = DEFAULTS[name]
                continue
            record[name] = fits(type, *first[name])
            if "+" in flags:
                own = instant(record[name]) if type == "T" else record[name]
        if kind == "rollups":
            own = int(datetime.strptime(record["day"], "%Y-%m-%d").replace(tzinfo=timezone.utc).timestamp()) * 1000
        own = at if own is None else own
        repeated = ("seq",) if kind in PLAIN else ("seq", "at", "op")
        if own is None or any(names.count(name) > 1 for name in repeated):
            return None
        return seq, own, "queued" if op == "again" else op, record
    except (ValueError, KeyError, AttributeError, TypeError):
        return None


def judge(kind, line):
    """The class of a line without its LF, and (seq, at, op, record) or nothing. A class of its own is
    "counts", what is good or altered as the reader likes."""
    sealed = line[-18:] == b',"crc":"%08x"}' % zlib.crc32(line[:-18])
    try:
        text = line.decode(errors="surrogateescape")  # No string of a record may have any of that.
        found = members(text)
    except (ValueError, IndexError, RecursionError):
        return "damaged", None
    said = record_of(kind, found)
    if not sealed:
        return "altered", said if said and said[0] else None
    if said is None:
        return "damaged", None
    seq, at, op, record = said
    form = "again" if op == "queued" and "attempts" in record else op
    head, known = [("seq", str(seq)), ("at", str(at)), ("op", f'"{op}"')], ["seq", "at", "op"]
    for name, type, flags in fields(kind, form):
        known += [name] if name in record else []
        if "!" in flags and name in record:
            head.append((name, f'"{record[name]}"' if type in "UD" else None))
    spelled = [f"{json.dumps(name)}:{raw}" for name, _, raw in found]
    heads = all(its == name and want in (None, raw) for (name, want), (its, _, raw) in zip(head, found))
    if not seq or not heads or not text.startswith("{" + ",".join(spelled[:len(head)])):
        return "altered", said if seq else None
    names = [name for name, _, _ in found]
    whole = all(name in record for name, _, flags in fields(kind, form) if "?" not in flags and kind != "rollups")
    canonical = whole and names[:len(known)] == known and len(set(names)) == len(names)
    canonical = canonical and text == "{" + ",".join(spelled) + "}"
    return "good" if canonical else "counts", said


def whole_lines(kind, line):
    """The good lines that a damaged one begins with, glued to each other or to blanks."""
    found = []
    while True:
        line = line.lstrip(b"\0 \t\r\xef\xbb\xbf")
        end = re.search(rb',"crc":"[0-9a-f]{8}"}', line)
        while end and judge(kind, line[:end.end()])[0] not in ("good", "counts"):
            end = re.compile(rb',"crc":"[0-9a-f]{8}"}').search(line, end.end())
        if not end:
            return found
        found.append((line[:end.end()], judge(kind, line[:end.end()])[1]))
        line = line[end.end():]
        line = line[1:] if line[:1] != b"{" else line


class Line:
    def __init__(self, kind, file, offset, raw, said):
        self.kind, self.file, self.offset, self.raw = kind, file, offset, raw
        self.seq, self.at, self.op, self.record = said

    def key(self):
        names = {"tool_calls": ("request_id", "call_id"), "code_edit_proposals": ("request_id",), "rollups": ("day",)}
        return tuple(self.record[name] for name in names.get(self.kind, ("id",)))


def segments(store):
    for day in sorted(os.listdir(store)):
        if re.fullmatch(r"\d{4}-\d\d-\d\d", day):
            found = (re.fullmatch(r"([a-z_]+)\.(\d{4}|[1-9]\d{4,})\.jsonl", name) for name in os.listdir(f"{store}/{day}"))
            known = [(list(KINDS).index(m[1]), int(m[2])) for m in found if m and m[1] in KINDS]
            yield from ((day, list(KINDS)[kind], number) for kind, number in sorted(known))


def name_of(day, kind, number):
    return f"{day}/{kind}.{number:04}.jsonl"


def read_bytes(path):
    try:
        with open(path, "rb") as file:
            return file.read()
    except (FileNotFoundError, IsADirectoryError):
        return b""


def read_segment(store, day, kind, number):
    """Its lines that count, and (offset, class) of what is wrong."""
    file, lines, wrong, offset, doubtful = name_of(day, kind, number), [], [], 0, []
    *whole, torn = read_bytes(f"{store}/{file}").split(b"\n")
    for raw in whole:
        verdict, said = judge(kind, raw)
        if said:
            line = Line(kind, file, offset, raw, said)
            lines.append(line)
            if verdict == "altered":
                doubtful.append(line)
        elif verdict == "damaged":
            lines += [Line(kind, file, offset, *found) for found in whole_lines(kind, raw)]
        if verdict != "good":
            wrong.append((file, offset, verdict))
        offset += len(raw) + 1
    for line in doubtful:
        at = lines.index(line)
        before = lines[at - 1].seq if at else 0
        after = next((later.seq for later in lines[at + 1:] if later not in doubtful), 2**64)
        if not before < line.seq < after:
            line.seq = before + 1
    return lines, wrong + ([(file, offset, "torn")] if torn else [])


def read(store):
    lines, wrong, numbers = [], [], set()
    for segment in segments(store):
        found, bad = read_segment(store, *segment)
        for line in found:  # A copy of a line counts once.
            if (line.seq, line.kind, *line.key()) not in numbers:
                numbers.add((line.seq, line.kind, *line.key()))
                lines.append(line)
        wrong += bad
    return sorted(lines, key=lambda line: line.seq), wrong


# What the lines say together.

ASSERTED = ("asserted", "requested", "pending", "created", "updated", "rolled", "retracted")
ONCE = ("added", "logged", "recorded")


def standing(lines, kind):
    """Of each key: the line of which the record stands, the first line, and the outcome or step."""
    keys = {}
    for line in (line for line in lines if line.kind == kind):
        one = keys.setdefault(line.key(), {"record": None, "first": None, "later": None})
        if line.op in ASSERTED:
            one["record"], one["first"] = line, one["first"] or line
        elif line.op in ONCE or "update_id" in line.record:
            one["record"] = one["record"] or line
        elif kind != "tool_calls" or not one["later"]:
            one["later"] = line
    found = [one for one in keys.values() if one["record"] and one["record"].op != "retracted"]
    return sorted(found, key=lambda one: (one["record"].at, one["record"].seq))


def listed(lines):
    """Each kind's records, as `decklog <list> --json` shows them."""
    found = {"turns": [one["record"].record for one in standing(lines, "conversation_turns")]}
    found["calls"] = calls = []
    for one in standing(lines, "tool_calls"):
        outcome = {**one["later"].record} if one["later"] else {}
        outcome.pop("parent_id", None)
        calls.append(one["record"].record | {"status": one["later"].op if one["later"] else "requested"} | outcome)
    found["proposals"] = []
    for one in standing(lines, "code_edit_proposals"):
        step = one["later"]
        status = {"status": step.op, **step.record} if step else {"status": "pending"}
        found["proposals"].append(one["record"].record | status)
    messages = [one["record"] for one in standing(lines, "messages")]
    found["conversations"] = []
    for one in sorted(standing(lines, "conversations"), key=lambda one: (one["first"].at, one["first"].seq)):
        said = {"status": "active"} | one["record"].record
        mine = [m for m in messages if m.record["conversation_id"] == said["id"]]
        says = [m for m in mine if "error" in m.record or m.record["role"] == "assistant"]
        last = max(says, key=lambda m: (m.record["sequence"], m.seq), default=None)
        if last and last.seq > one["record"].seq:
            said.pop("last_error", None)
            if "error" in last.record:
                said |= {"status": "error", "last_error": last.record["error"]}
            elif said["status"] == "error":
                said["status"] = "active"
        latest = max(mine, key=lambda m: m.at, default=None)
        if latest and latest.at > instant(said["updated_at"]):
            said["updated_at"] = latest.at
        total = lambda name: sum(max(m.record.get(name, 0), 0) for m in mine)
        names = ("workspace", "project", "user_id", "session_id")
        found["conversations"].append(dict.fromkeys(names) | said | {
            "message_count": len(mine), "total_tokens_in": total("tokens_in"),
            "total_tokens_out": total("tokens_out"), "total_latency_ms": total("latency_ms"),
            "error_count": sum("error" in m.record for m in mine),
            "failure_count": sum(not m.record.keys().isdisjoint(("error", "error_type")) for m in mine)})
        costs = [m.record["cost_usd"] for m in mine if m.record.get("cost_usd", -1) >= 0]
        if costs:
            nanos = sum(int(cost * 1e9 + 0.5) for cost in costs)
            found["conversations"][-1]["total_cost_usd"] = nanos / 1e9
    shown = lambda kind: [one["record"].record for one in standing(lines, kind)]
    for said in found["conversations"]:
        mine = [m.record for m in messages if m.record["conversation_id"] == said["id"]]
        found[f"messages {said['id']}"] = sorted(mine, key=lambda m: m["sequence"])
    found["events"] = sorted(shown("events"), key=lambda event: event["id"])
    found["inbox"] = []
    for one in sorted(standing(lines, "inbox"), key=lambda one: one["record"].key()):
        step = one["later"]
        attempts = {"attempts": 0} | (step.record if step else {})
        found["inbox"].append(one["record"].record | {
            "status": step.op if step else "queued", "updated_at": (step or one["record"]).at} | attempts)
    entries = sorted(shown("history"), key=lambda entry: entry["id"])
    for chat in {entry["chat_id"] for entry in entries}:
        found[f"history --limit 100000 -- {chat}"] = [entry for entry in entries if entry["chat_id"] == chat]
    thoughts = sorted((one["record"] for one in standing(lines, "thought_records")), key=lambda line: line.seq)
    found["thoughts"] = [line.record for line in thoughts]
    return found


def hash_of(thought):
    said = {name: thought[name] for name in ("content", "id", "prev_hash", "task_id", "timestamp", "type")}
    return hashlib.sha256(json.dumps(said, sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode()).hexdigest()


# Seals and removals.

def merkle_root(hashes):
    if len(hashes) < 2:
        return hashes[0] if hashes else hashlib.sha256()
    half = 1 << (len(hashes) - 1).bit_length() - 1
    return hashlib.sha256(b"\1" + b"".join(merkle_root(part).digest() for part in (hashes[:half], hashes[half:])))


def check_seals(store):
    """What is wrong, and the last seal."""
    wrong, seals, before, gone = set(), [], ZEROS, set()
    number = 0
    for raw in read_bytes(f"{store}/removals.jsonl").split(b"\n")[:-1]:
        if raw[-18:] != b',"crc":"%08x"}' % zlib.crc32(raw[:-18]):
            wrong.add("chain")
            continue
        removal = json.loads(raw)
        if (removal["seq"], removal["prev"]) != (number + 1, before):
            wrong.add("chain")
        number, before = removal["seq"], hashlib.sha256(raw).hexdigest()
        for seal in removal.get("seals", []):
            seals.append(json.dumps(seal, separators=(",", ":")).encode())
            gone.add(seal["seal"])
    for day in sorted(os.listdir(store)):
        whole = read_bytes(f"{store}/{day}/seals.jsonl").split(b"\n")[:-1] if os.path.isdir(f"{store}/{day}") else []
        seals += whole
    good = []
    for raw in set(seals):  # One of a removed segment may stand in both places.
        covered = raw[:raw.index(b',"hash"')]
        if json.loads(raw)["hash"] == hashlib.sha256(covered).hexdigest():
            good.append(json.loads(raw))
        else:
            wrong.add("chain")
    good.sort(key=lambda seal: seal["seal"])
    before, number, last = ZEROS, 0, {}
    for seal in good:
        number += 1
        if (seal["seal"], seal["prev"]) != (number, before):
            wrong.add("chain")
        before, number = seal["hash"], seal["seal"]
        gone.update(seal.get("replaces", []))
        last[seal["file"]] = seal
    for seal in (seal for seal in last.values() if seal["seal"] not in gone):
        lines = read_bytes(f"{store}/{seal['file']}").split(b"\n")
        if not os.path.exists(f"{store}/{seal['file']}"):
            wrong.add("missing")
        elif hashlib.sha256(b"\n".join(lines)).hexdigest() != seal["sha256"] or len(lines) != seal["lines"] + 1 \
                or merkle_root([hashlib.sha256(b"\0" + line) for line in lines[:-1]]).hexdigest() != seal["merkle_root"]:
            wrong.add("changed")
    return wrong, good[-1] if good else None


# Comparing.

def decklog(program, store, *words):
    output = subprocess.run([program, "--store", store, "--json", *words], capture_output=True, check=False)
    return [json.loads(line) for line in output.stdout.split(b"\n")[:-1]], output


def unfolded(value):
    """A payload that is JSON, whether it is stored nested or as a text."""
    if isinstance(value, dict):
        return {name: unfolded(part) for name, part in value.items()}
    try:
        return json.loads(value) if isinstance(value, str) and value[:1] in ("{", "[") else value
    except ValueError:
        return value


def same(what, mine, its):
    if mine != its:
        both = [f"{len(mine)} and {len(its)}"] if isinstance(mine, list) else [f"{mine} and {its}"]
        if isinstance(mine, list):
            both += [f"  this: {a}\n  that: {b}" for a, b in zip(mine + [None], its + [None]) if a != b][:3]
        sys.exit("\n".join([f"{what} differ:", *both]))


def agree(program, store):
    lines, wrong = read(store)
    verdict, _ = decklog(program, store, "verify", "--deep")
    damage = [found for found in verdict if found.get("finding") == "damage"]
    its = {(d["file"], d["offset"], d["class"]) for d in damage if d["class"] in ("altered", "damaged", "torn")}
    either = {(file, offset, "altered") for file, offset, verdict in wrong if verdict == "counts"}
    same("damaged lines", sorted(one for one in wrong if one[2] != "counts"), sorted(its - either))
    bad, last = check_seals(store)
    of_seals = {d["class"] for d in damage if d["file"] != "decklog.json"} & {"chain", "missing", "changed"}
    same("what is wrong with the seals", sorted(bad), sorted(of_seals))
    same("the last seals", last and {name: last[name] for name in ("seal", "hash")},
         (verdict[-1]["head"] or None) and {name: verdict[-1]["head"][name] for name in ("seal", "hash")} if last else None)
    output = decklog(program, store, "tail", "--limit", "1000000")[1].stdout.split(b"\n")[:-1]
    same("lines", [f'{{"file":"{line.file}",'.encode() + line.raw[1:] for line in lines], output)
    for command, records in listed(lines).items():
        ordered = ["--order", "asc"] if command in ("calls", "proposals", "conversations") else []
        its = decklog(program, store, *command.split(), *ordered)[0]
        if command == "conversations":
            its = [{name: part for name, part in one.items() if name not in ("models_used", "configs_used")} for one in its]
            for one in records + its:
                one["updated_at"] = one["updated_at"] if isinstance(one["updated_at"], int) else instant(one["updated_at"])
        same(command, [unfolded(one) for one in records], [unfolded(one) for one in its])
    print(f"{len(lines)} lines, {len(wrong)} damaged, {last['seal'] if last else 0} seals: the same")


if __name__ == "__main__":
    agree(*sys.argv[1:])
