#!/usr/bin/env python3
"""Makes the data set of the fleet: 3 stores with the records of 30 days, 1,000,000 in all.

    generate.py DIR [--records N] [--seed N] [--decklog PROGRAM]

Writes DIR/one, DIR/two and DIR/three through `decklog record`, and DIR/union, which has the records
of all three (`decklog replay`). The same seed gives the same records.
"""
import argparse
import datetime
import os
import pathlib
import random
import subprocess
import time

FIRST_DAY = datetime.datetime(2025, 11, 28, tzinfo=datetime.timezone.utc)
DAYS = 30
DAY_MS = 86_400_000
FIRST_MS = int(FIRST_DAY.timestamp()) * 1000
STORES = ["one", "two", "three"]

MODELS = ["large-4", "large-4", "large-4", "small-1", "small-1", "code-7b", "phi-4", None]
CONFIGS = ["D3", "D3", "T1", "S2", None]
MODES = ["single", "single", "critique", "debate", "cascade", None]
TASKS = ["code", "code", "debug", "explain", "review", "plan", None]
CLIENTS = ["cli", "cli", "vscode", "web", "api"]
ERRORS = ["Timeout", "RateLimited", "Overloaded", "BadRequest", None]
TOOLS = ["read_file", "read_file", "edit_file", "run_tests", "search", "shell"]
VENDORS = ["anthropic", "openai", "local"]
WORDS = (
    "the build fails on the second host because a lock file is left behind after the first run "
    "so read the error first then look at who removes it and add a test that shows the fault "
    "naïve café „quoted“ 中文 ok"
).split()
EVENTS = ["llm_call.completed", "tool_call.started", "tool_call.completed", "tool_call.failed", "reply.sent"]


def quoted(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def rfc3339(ms):
    """The time as text, fast."""
    day, ms = divmod(ms - FIRST_MS, DAY_MS)
    s, ms = divmod(ms, 1000)
    return f"{DAY_TEXTS[day]}T{s // 3600:02}:{s // 60 % 60:02}:{s % 60:02}.{ms:03}Z"


DAY_TEXTS = {
    n: (FIRST_DAY + datetime.timedelta(days=n)).strftime("%Y-%m-%d") for n in range(-60, DAYS + 60)
}


class Store:
    """The records of one store, in the order in which they are written."""

    def __init__(self, nth, seed):
        self.random = random.Random(seed * 1000 + nth)
        self.lines = []
        # The ids that logs assign are unique in the union as well.
        self.event = self.task = (nth + 1) * 100_000_000
        self.update = (nth + 1) * 1_000_000_000
        self.tasks_of_thoughts = [f"task-{nth}-{n}" for n in range(200)]
        self.conversations = []
        texts = []
        for _ in range(500):
            words = self.random.choices(WORDS, k=self.random.randrange(3, 60))
            texts.append(quoted(" ".join(words)))
        texts.append(quoted('line one\nline "two"\n\\ end'))
        self.texts = texts

    def uuid(self):
        h = f"{self.random.getrandbits(128):032x}"
        return f"{h[:8]}-{h[8:12]}-4{h[13:16]}-a{h[17:20]}-{h[20:]}"

    def text(self):
        return self.texts[int(self.random.random() * len(self.texts))]

    def any(self, items):
        return items[int(self.random.random() * len(items))]

    def is_one_of(self, many):
        return self.random.random() * many < 1

    def fill(self, count):
        """Writes this many records, day after day."""
        for day in range(DAYS):
            until = count * (day + 1) // DAYS
            start = FIRST_MS + day * DAY_MS
            # The busiest hours are from 8 to 18 UTC.
            while len(self.lines) < until:
                at = start + int(self.random.triangular(0, DAY_MS - 3_700_000, DAY_MS * 13 // 24))
                self.conversation(at)
                if self.is_one_of(3):
                    self.run(at)
                if self.is_one_of(2):
                    self.inbox(at)
                if self.is_one_of(3):
                    self.thought(at)
                if self.conversations and self.is_one_of(6):
                    self.later(day, start)
        del self.lines[count:]

    def conversation(self, at):
        any, lines, is_one_of = self.any, self.lines, self.is_one_of
        id = self.uuid()
        fields = f'"kind":"conversations","id":"{id}","workspace":"/home/dev/w{any(range(12))}","project":"p{any(range(12))}","client":"{any(CLIENTS)}"'
        if not is_one_of(4):
            fields += f',"user_id":"user-{any(range(40))}","session_id":"s-{id[:8]}"'
        if self.conversations and is_one_of(10):
            fields += f',"parent_id":"{self.conversations[-1][0]}"'
        if not is_one_of(5):
            fields += f',"title":{quoted("Task " + id[:4] + ", " + any(TOOLS))}'
        created = rfc3339(at)
        lines.append(
            f'{{{fields},"status":"active","created_at":"{created}","updated_at":"{created}"}}'
        )
        self.conversations.append((id, fields, created))
        if len(self.conversations) > 400:
            del self.conversations[:200]
        model, config, mode, task = any(MODELS), any(CONFIGS), any(MODES), any(TASKS)
        thread, parent, sequence = self.uuid(), None, 0
        for _ in range(1 + int(self.random.random() * 4)):
            if is_one_of(5):
                model, mode = any(MODELS), any(MODES)
            parent = self.turn("user", at, thread, parent)
            sequence = self.exchange(id, at, sequence, model, config, mode, task)
            at += 1500
            parent = self.turn("assistant", at, thread, parent)
            for _ in range(int(self.random.random() * 4)):
                at += 700
                request = self.call(at, parent)
                if is_one_of(4):
                    self.proposal(at, request)
            at += 20_000

    def message(self, conversation, sequence, at, role, more):
        id = self.uuid()
        self.lines.append(
            f'{{"kind":"messages","id":"{id}","conversation_id":"{conversation}","sequence":{sequence},"timestamp":"{rfc3339(at)}","role":"{role}"{more},"content":{self.text()}}}'
        )
        return id

    def exchange(self, conversation, at, sequence, model, config, mode, task):
        """A question, its answer, and what else comes with them."""
        any, is_one_of, random = self.any, self.is_one_of, self.random.random
        asked = f',"task_type":"{task}"' if task else ""
        self.message(conversation, sequence + 1, at, "user", asked)
        if is_one_of(40):
            # The request failed, and nobody answered.
            kind = any(ERRORS)
            more = ',"error":"no answer from the model"'
            more += f',"error_type":"{kind}"' if kind else ""
            more += f',"model_used":"{model}"' if model and not is_one_of(3) else ""
            self.message(conversation, sequence + 2, at + 900, "system", more)
            return sequence + 2
        shared = f',"model_used":"{model}"' if model else ""
        shared += f',"config_used":"{config}"' if config else ""
        shared += f',"orchestration_mode":"{mode}"' if mode else ""
        more = shared
        if not is_one_of(20):
            tokens_in, tokens_out = int(100 + random() * 30_000), int(random() * 2000)
            more += f',"tokens_in":{tokens_in},"tokens_out":{tokens_out}'
            if is_one_of(2):
                more += f',"tokens_cache_read":{tokens_in // 2},"tokens_cache_write":{tokens_in // 10},"tokens_reasoning":{tokens_out // 3}'
        if not is_one_of(15):
            more += f',"latency_ms":{int(self.random.lognormvariate(7.3, 0.9))}'
        if not is_one_of(4):
            more += f',"context_utilization":{int(random() * 10_000) / 10_000}'
        if is_one_of(3):
            more += f',"cost_usd":{int(random() * 100_000) / 1_000_000}'
        if is_one_of(2):
            more += ',"compression_applied":' + ("true" if is_one_of(3) else "false")
        if mode in ("debate", "cascade"):
            more += f',"handoff_steps":{any([1, 2, 3])},"models_in_chain":["{model or "small-1"}","code-7b"]'
        if is_one_of(50):
            more += f',"error":"cut off","error_type":"{any(["Timeout", "Overloaded"])}"'
        if is_one_of(100):
            more += f',"inference_metadata":{{"model_latencies":{{"a b":{any(range(900))}}},"nested":[1,"x",null]}}'
        id = self.message(conversation, sequence + 2, at + 900, "assistant", more)
        sequence += 2
        if is_one_of(6):
            more = shared + f',"part_of":"{id}"'
            more += f',"tokens_out":{int(random() * 500)}' if is_one_of(2) else ""
            more += f',"latency_ms":{int(random() * 3000)}' if is_one_of(4) else ""
            more += ',"compression_applied":true' if is_one_of(10) else ""
            more += ',"error":"cut off"' if is_one_of(60) else ""
            # Some parts come on the next day.
            late = DAY_MS if is_one_of(50) else 300
            self.message(conversation, sequence + 1, at + 900 + late, "assistant", more)
            sequence += 1
        if is_one_of(5):
            more = f',"tool_name":"{any(TOOLS)}","tool_call_id":"call_{any(range(9))}","tool_result":{self.text()}'
            more += ',"error_type":"NotFound"' if is_one_of(8) else ""
            more += f',"tokens_in":{any(range(300))}' if is_one_of(8) else ""
            more += ',"tool_args":{"path":"a \\"b\\".txt","depth":1.50}' if is_one_of(3) else ""
            self.message(conversation, sequence + 1, at + 1300, "tool", more)
            sequence += 1
        return sequence

    def turn(self, kind, at, thread, parent):
        id = self.uuid()
        fields = f'"kind":"conversation_turns","turn_kind":"{kind}","id":"{id}","message_id":"{id}","thread_id":"{thread}"'
        if parent:
            fields += f',"parent_id":"{parent}"'
        fields += f',"created_at":{at},"content":'
        self.lines.append("{" + fields + self.text() + "}")
        if self.is_one_of(40):
            # The same turn with another text; or the turn is taken back.
            self.lines.append("{" + fields + self.text()[:-1] + ' again"}')
        if self.is_one_of(50):
            self.lines.append('{"op":"retracted",' + fields + '"gone"}')
            if self.is_one_of(4):
                self.lines.append("{" + fields + self.text()[:-1] + ' once more"}')
        return id

    def call(self, at, parent):
        any, lines, is_one_of = self.any, self.lines, self.is_one_of
        request, call = self.uuid(), f"call_{any(range(1000))}"
        key = f'"kind":"tool_calls","request_id":"{request}","call_id":"{call}"'
        asked = f'{key},"parent_id":"{parent}","vendor":"{any(VENDORS)}","tool_name":"{any(TOOLS)}","started_at":{at},"arguments_json":{{"path":"src/f{any(range(90))}.rs","lines":[1,{any(range(90))}]}}}}'
        lines.append('{"op":"requested",' + asked)
        chance = self.random.random()
        latency = int(self.random.lognormvariate(4, 1))
        # Some end after midnight.
        latency += DAY_MS if is_one_of(100) else 0
        ended = f'{key},"ended_at":{at + latency},"latency_ms":{latency}'
        if chance < 0.86:
            lines.append(f'{{"op":"completed",{ended},"outcome_json":{{"lines":{any(range(900))}}}}}')
        elif chance < 0.95:
            lines.append(f'{{"op":"failed",{ended},"error_kind":"NotFound","error_msg":{self.text()}}}')
        if is_one_of(60):
            lines.append('{"op":"retracted",' + asked)
            if is_one_of(2):
                lines.append('{"op":"requested",' + asked)
        return request

    def proposal(self, at, request):
        lines, chance = self.lines, self.random.random()
        key = f'"kind":"code_edit_proposals","request_id":"{request}"'
        fields = f'{key},"created_at":{at + 5},"confidence":{int(self.random.random() * 100) / 100},"diffs_json":[{{"file":"a.rs","+":{self.text()}}}]}}'
        lines.append("{" + fields)
        if chance < 0.15:
            return
        if chance < 0.20:
            lines.append('{"op":"retracted",' + fields)
            return
        if chance < 0.35:
            lines.append(f'{{"op":"denied",{key},"decided_at":{at + 900}}}')
            return
        lines.append(f'{{"op":"approved",{key},"decided_at":{at + 900}}}')
        if chance < 0.50:
            return
        lines.append(f'{{"op":"applied",{key},"commit_hash":"{request[:7]}","applied_at":{at + 2000}}}')
        if chance > 0.92:
            lines.append(f'{{"op":"reverted",{key},"at":{at + DAY_MS}}}')

    def log(self, parent, at, event, payload):
        self.event += 1
        above = f'"parent_id":{parent},' if parent else ""
        self.lines.append(
            f'{{"kind":"events","id":{self.event},{above}"event_type":"{event}","created_at":{at}{payload}}}'
        )
        return self.event

    def run(self, at):
        """The tree of an agent's run."""
        random = self.random.random
        root = self.log(None, at, "agent.started", f',"payload":{{"agent":"coder-{self.any(range(5))}"}}')
        for _ in range(1 + int(random() * 3)):
            turn = self.log(root, at + 10, "turn.started", "")
            above = turn
            for _ in range(int(random() * 4)):
                at += 50
                below = self.log(above, at, self.any(EVENTS), f',"payload":{self.text()}' if self.is_one_of(5) else "")
                above = below if self.is_one_of(3) else above
            usage = f',"payload":{{"model_name":"large-4","input_tokens":{self.any(range(9000))},"output_tokens":{self.any(range(900))}}}'
            self.log(turn, at + 60, "turn.completed", usage)
        self.log(root, at + 90, "agent.failed" if self.is_one_of(12) else "agent.completed", "")

    def inbox(self, at):
        lines, is_one_of = self.lines, self.is_one_of
        self.task += 1
        self.update += 1
        body = f'"payload":{{"do":"deploy","n":{self.any(range(99))}}}'
        if is_one_of(2):
            body = f'"chat_id":-100{self.any(range(20))},"message_date":{at // 1000},"text":{self.text()}'
        lines.append(f'{{"kind":"inbox","id":{self.task},"update_id":{self.update},"created_at":{at},{body}}}')
        step = f'{{"kind":"inbox","id":{self.task},"op":'
        if is_one_of(8):
            return
        lines.append(f'{step}"in_progress","at":{at + 100}}}')
        if is_one_of(12):
            return
        if is_one_of(6):
            lines.append(f'{step}"queued","at":{at + 5000},"error":"host is down"}}')
            if is_one_of(3):
                return
            lines.append(f'{step}"in_progress","at":{at + 9000}}}')
        if is_one_of(9):
            lines.append(f'{step}"failed","at":{at + 9500},"error":"no such host"}}')
        else:
            lines.append(f'{step}"done","at":{at + 9500}}}')

    def thought(self, at):
        kind = self.any(["plan", "analysis", "decision", "reflection"])
        task = self.any(self.tasks_of_thoughts)
        self.lines.append(
            f'{{"kind":"thought_records","id":"{self.uuid()}","type":"{kind}","task_id":"{task}","agent_id":"coder","content":{self.text()},"timestamp":"{rfc3339(at)}"}}'
        )

    def later(self, day, start):
        """A conversation of before is changed, or a record of a past day comes late."""
        id, fields, created = self.any(self.conversations)
        at = start + int(self.random.random() * DAY_MS)
        at = max(at, FIRST_MS + 1) if rfc3339(at) > created else None
        if at and self.is_one_of(2):
            status = self.any(["active", "completed", "completed", "error"])
            failed = ',"last_error":"stopped"' if status == "error" else ""
            self.lines.append(
                f'{{{fields},"status":"{status}","created_at":"{created}","updated_at":"{rfc3339(at)}"{failed}}}'
            )
        else:
            past = start - self.any(range(max(day, 1))) * DAY_MS + 3_600_000
            self.exchange(id, past, 1000 + len(self.lines), self.any(MODELS), "D3", None, None)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("dir", type=pathlib.Path)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--decklog", default="decklog")
    args = parser.parse_args()
    args.dir.mkdir(parents=True, exist_ok=True)
    # Without a key, user ids are not hashed, so nothing is written outside the directory.
    environment = {**os.environ, "DECKLOG_USER_ID_KEY": str(args.dir / "user-id.key")}

    def decklog(store, *rest, **more):
        command = [args.decklog, "--store", args.dir / store, *rest]
        subprocess.run(command, check=True, env=environment, **more)

    for nth, name in enumerate(STORES):
        began = time.monotonic()
        store = Store(nth, args.seed)
        store.fill(args.records // len(STORES) + (nth < args.records % len(STORES)))
        lines = ("\n".join(store.lines) + "\n").encode()
        made = time.monotonic()
        decklog(name, "record", input=lines)
        ended = time.monotonic()
        print(f"{name}: {len(store.lines)} records made in {made - began:.1f} s, recorded in {ended - made:.1f} s", flush=True)
    began = time.monotonic()
    for name in STORES:
        decklog(name, "replay", args.dir / name, "--into", args.dir / "union", stdout=subprocess.DEVNULL)
    print(f"union: {time.monotonic() - began:.1f} s")


if __name__ == "__main__":
    main()
