"""What a program records is what it reads."""

from __future__ import annotations

import datetime
import enum
import json
import threading
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import decklog
import pytest

if TYPE_CHECKING:
    from pathlib import Path

REQUEST = "67e55044-10b1-426f-9247-bb680e5fe0c8"


def test_a_dict_of_each_kind_is_recorded_and_read(log: decklog.Log) -> None:
    conversation = log.record({"kind": "conversations", "client": "api"}).id
    assert isinstance(conversation, str)
    records: list[dict[str, Any]] = [
        {"kind": "user", "content": "hi"},
        {
            "kind": "tool_calls",
            "op": "requested",
            "request_id": REQUEST,
            "call_id": "c1",
            "parent_id": REQUEST,
            "vendor": "v",
            "tool_name": "t",
            "arguments_json": {"path": "a", "n": [1, 2.5, None, True]},
        },
        {"kind": "code_edit_proposals", "request_id": REQUEST, "diffs_json": [{"path": "a"}]},
        {"kind": "messages", "conversation_id": conversation, "role": "user", "content": "hi"},
        {"kind": "events", "event_type": "a.b", "payload": {"ü": "\u2028"}},
        {"kind": "inbox", "update_id": 5, "payload": {"x": 1}},
        {"kind": "history", "chat_id": 7, "role": "user", "text": "hi"},
        {
            "kind": "thought_records",
            "type": "plan",
            "task_id": "t",
            "agent_id": "a",
            "content": "c",
        },
    ]
    acks = [log.record(record) for record in records]
    assert [ack.status for ack in acks] == ["added"] * len(records)
    assert [ack.seq for ack in acks] == list(range(2, 10))
    assert acks[3].sequence == 1
    assert isinstance(acks[4].id, int)

    assert [it.content for it in log.turns()] == ["hi"]
    [call] = log.tool_calls()
    assert call.arguments_json == {"path": "a", "n": [1, 2.5, None, True]}
    assert (call.status, call.outcome_json) == ("requested", None)
    assert [it.diffs_json for it in log.proposals()] == [[{"path": "a"}]]
    assert [it.id for it in log.conversations()] == [conversation]
    assert [it.content for it in log.messages(conversation_id=conversation)] == ["hi"]
    assert [it.payload for it in log.events()] == [{"ü": "\u2028"}]
    assert [it.payload for it in log.tasks()] == [{"x": 1}]
    assert [it.text for it in log.history_entries(chat_id=7)] == ["hi"]
    assert [it.content for it in log.thought_records()] == ["c"]
    assert [it.messages for it in log.rollups()] == [1]
    [task], [entry], [thought] = log.tasks(), log.history_entries(chat_id=7), log.thought_records()
    assert (log.get_task(task.id), log.inbox.get(task.id)) == (task, task)
    assert log.get_history_entry(entry.id) == entry
    assert (log.get_thought(thought.id), log.thoughts.get(thought.id)) == (thought, thought)
    assert (log.get_task(99), log.get_history_entry(99), log.get_thought("none")) == (None,) * 3


def test_records_of_the_package_are_recorded_with_their_op(log: decklog.Log) -> None:
    log.record(
        decklog.ToolCallReq(
            request_id=REQUEST,
            call_id="c",
            parent_id=REQUEST,
            vendor="v",
            tool_name="t",
            arguments_json={},
        )
    )
    done = decklog.ToolCallDone(
        request_id=REQUEST, call_id="c", status="failed", error_kind="timeout", error_msg="30 s"
    )
    assert log.record(done).status == "added"
    call = log.get_tool_call(REQUEST, "c")
    assert call is not None
    assert (call.status, call.error_kind, call.error_msg) == ("failed", "timeout", "30 s")

    log.record(decklog.CodeEditProposal(request_id=REQUEST, diffs_json="*** Begin Patch\n"))
    log.record(decklog.ProposalStep(request_id=REQUEST, status="approved"))
    proposal = log.get_proposal(REQUEST)
    assert proposal is not None
    assert (proposal.status, proposal.diffs_json) == ("approved", "*** Begin Patch\n")


def test_a_record_that_was_read_is_recorded_again_unchanged(log: decklog.Log) -> None:
    talk = log.conversation(title="t", workspace="/w")
    talk.assistant("yo", tokens_out=3, model_used="m")
    log.turn("user", "hi")
    log.log_event("a.b", {"n": 1})
    seen: list[Any] = [*log.turns(), *log.messages(), *log.events()]
    assert [log.record(it).status for it in seen] == ["unchanged"] * 3


@dataclass
class Spawned:
    kind: str
    event_type: str
    payload: dict[str, Any]


class Colour(enum.Enum):
    RED = "red"


def test_values_of_other_classes_are_recorded_by_their_form_in_json(log: decklog.Log) -> None:
    at = datetime.datetime(2026, 7, 28, 12, tzinfo=datetime.timezone.utc)
    payload = {
        "id": uuid.UUID(REQUEST),
        "at": at,
        "day": at.date(),
        "colour": Colour.RED,
        "tuple": (1, 2),
        "set": {3},
        "big": 2**80,
        5: "key",
        None: "none",
        "nested": Spawned("events", "c.d", {}),
    }
    log.record(Spawned("events", "a.b", payload))
    log.record({"kind": "events", "event_type": "c.d", "created_at": at})
    first, second = log.events()
    assert first.payload == {
        "id": REQUEST,
        "at": "2026-07-28T12:00:00Z",
        "day": "2026-07-28",
        "colour": "red",
        "tuple": [1, 2],
        "set": [3],
        "big": 2**80,
        "5": "key",
        "null": "none",
        "nested": {"kind": "events", "event_type": "c.d", "payload": {}},
    }
    assert second.created_at == 1785240000000


def test_a_pydantic_model_is_a_record(log: decklog.Log) -> None:
    pydantic = pytest.importorskip("pydantic")
    Model = pydantic.create_model("Model", kind=(str, ...), event_type=(str, ...), payload=(Any, None))
    log.record(Model(kind="events", event_type="a.b", payload={"x": uuid.UUID(REQUEST)}))
    assert next(log.events()).payload == {"x": REQUEST}


@pytest.mark.parametrize(
    ("record", "field", "said"),
    [
        ({"kind": "events", "event_type": 5}, "event_type", "event_type is 5"),
        ({"kind": "events", "event_typ": "a.b"}, "event_typ", "unknown field"),
        ({"kind": "events"}, "event_type", "missing"),
        ({"kind": "poems"}, None, "unknown kind"),
        ({"kind": "events", "event_type": "\ud800"}, "event_type", "surrogate"),
        ({"kind": "events", "event_type": "a.b", "payload": float("nan")}, "payload", "finite"),
        ({"kind": "events", "event_type": "a.b", "payload": [float("inf")]}, "payload", "inf"),
        ({"kind": "events", "event_type": "a.b", "payload": {"x": object()}}, "payload", "object"),
        ({"kind": "events", "event_type": "a.b", "payload": b"x"}, "payload", "bytes"),
        ({"kind": "events", "event_type": "a.b", "payload": {(1,): 2}}, "payload", "key"),
        (
            {"kind": "events", "event_type": "a.b", "created_at": datetime.datetime(2026, 1, 1)},
            "created_at",
            "time zone",
        ),
        ({5: 6}, "record", "no text"),
        (object(), None, "no fields"),
    ],
)
def test_an_invalid_record_is_refused_with_its_field(
    log: decklog.Log, record: Any, field: str | None, said: str
) -> None:
    with pytest.raises(decklog.InvalidInputError, match=said) as raised:
        log.record(record)
    assert raised.value.kind == "invalid_input"
    assert raised.value.field == field
    assert list(log.events()) == []


def test_a_value_that_contains_itself_is_refused(log: decklog.Log) -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(decklog.InvalidInputError, match="levels deep"):
        log.log_event("a.b", endless)


def test_errors_have_their_class_and_say_where(log: decklog.Log, path: Path) -> None:
    with pytest.raises(decklog.NotFoundError) as missing:
        log.record(decklog.ToolCallDone(request_id=REQUEST, call_id="c", status="completed"))
    assert "c" in str(missing.value.key)
    assert isinstance(missing.value, LookupError)
    log.record({"kind": "user", "id": REQUEST, "content": "hi", "created_at": 1})
    event = {"kind": "events", "id": 1, "event_type": "a.b", "created_at": 1}
    log.record(event)
    with pytest.raises(decklog.ConflictError):
        log.record({**event, "event_type": "c.d"})
    with pytest.raises(decklog.NotAStoreError) as none:
        decklog.open(path / "absent", create=False)
    assert none.value.path is not None
    with pytest.raises(decklog.ReadOnlyError):
        decklog.open(path, read_only=True).log_event("a.b")
    with pytest.raises(decklog.InvalidInputError, match="process or disk"):
        decklog.open(path, durability="paper")  # type: ignore[arg-type]


def test_a_closed_log_refuses_everything(path: Path) -> None:
    log = decklog.open(path)
    run = log.run()
    events = log.events()
    log.close()
    log.close()
    with pytest.raises(decklog.ClosedError):
        log.log_event("a.b")
    for use in (lambda: run.user("hi"), lambda: next(events)):
        with pytest.raises(decklog.ClosedError):
            use()


def test_a_batch_keeps_what_is_valid_and_says_what_is_not(log: decklog.Log) -> None:
    records = [{"event_type": "a.b"}, {"event_type": 5}, {"event_type": "no"}, {"event_type": "c.d"}]
    with pytest.raises(decklog.BatchError, match="2 of 4") as raised:
        log.record_batch(records, kind="events")
    kinds = [type(it).__name__ for it in raised.value.results]
    assert kinds == ["Ack", "InvalidInputError", "InvalidInputError", "Ack"]
    assert [it.event_type for it in log.events()] == ["a.b", "c.d"]
    with pytest.raises(decklog.InvalidInputError):
        log.record_all(records, kind="events")
    assert len(list(log.events())) == 2
    assert [ack.id for ack in log.record_batch(iter(records[:1]), kind="events")] == [3]


def test_a_long_batch_is_in_order_and_its_answers_too(log: decklog.Log) -> None:
    records = [{"event_type": "a.b" if n % 7 else 5, "payload": n} for n in range(3000)]
    with pytest.raises(decklog.BatchError, match="429 of 3000") as raised:
        log.record_batch(records, kind="events")
    valid = [n for n in range(3000) if n % 7]
    assert [it.payload for it in log.events()] == valid
    results = raised.value.results
    assert [n for n, it in enumerate(results) if isinstance(it, decklog.Ack)] == valid
    ids = [it.id for it in results if isinstance(it, decklog.Ack)]
    assert ids == list(range(1, len(valid) + 1))

    def broken() -> Any:
        yield from ({"event_type": "c.d"} for _ in range(1000))
        raise OSError("the source ended")

    with pytest.raises(OSError, match="source"):
        log.record_batch(broken(), kind="events")
    assert len(list(log.events(event_type="c.d"))) == 1000

    def refused() -> Any:
        yield {"event_type": "e.f"}
        log.record({"kind": "events"})

    with pytest.raises(decklog.InvalidInputError, match="event_type"):
        log.record_batch(refused(), kind="events")
    assert len(list(log.events(event_type="e.f"))) == 1
    with pytest.raises(decklog.BatchError, match="300 of 300"):
        log.record_batch([{}] * 300, kind="events")
    assert log.record_batch([]) == []


def test_changes_of_a_conversation_from_two_threads_keep_both(path: Path) -> None:
    with decklog.open(path) as one, decklog.open(path) as two:
        id = one.conversation(client="web").id

        def change(log: decklog.Log, field: str) -> None:
            talk = log.conversation(id=id)
            for n in range(200):
                changed = talk.update(**{field: f"{field} {n}"})
                assert getattr(changed, field) == f"{field} {n}"

        threads = [
            threading.Thread(target=change, args=(one, "title")),
            threading.Thread(target=change, args=(two, "project")),
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        talk = one.conversation(id=id)
        now = talk.get()
        assert (now.title, now.project, now.client) == ("title 199", "project 199", "web")
        assert talk.update(title=None).title is None
        assert talk.get().project == "project 199"
        for field, value in (("id", REQUEST), ("nothing", 1), ("title", 5), ("op", "x")):
            with pytest.raises(decklog.InvalidInputError, match=field):
                talk.update(**{field: value})
        assert talk.get().project == "project 199"
        log = two
        assert [it.requests for it in log.rollups(since="2026-01-01", until="2026-01-02")] == []
        for wrong in ({"since": "soon"}, {"until": 5}):
            with pytest.raises(decklog.InvalidInputError, match=next(iter(wrong))):
                log.rollups(**wrong)  # type: ignore[arg-type]


def test_mistakes_are_errors_that_name_the_argument(log: decklog.Log) -> None:
    anything: Any = {"role": "user", "content": "hi"}
    for field, work in (
        ("content", lambda: log.turn("user", anything)),
        ("task", lambda: log.inbox.done(log.inbox.claim())),  # type: ignore[arg-type]
        ("id", lambda: log.conversation("ticket-7")),
        ("id", lambda: log.get_event("first")),  # type: ignore[arg-type]
        ("since", lambda: log.events(since="2026")),
    ):
        with pytest.raises(decklog.InvalidInputError) as raised:
            work()
        assert raised.value.field == field
        assert field in str(raised.value)
    assert "UUID" in str(pytest.raises(decklog.Error, log.conversation, "ticket-7").value)


def test_a_log_that_is_closed_ends_a_batch(path: Path) -> None:
    log = decklog.open(path)

    def closing() -> Any:
        for n in range(2000):
            if n == 1000:
                log.close()
            yield {"event_type": "a.b"}

    with pytest.raises(decklog.ClosedError):
        log.record_batch(closing(), kind="events")
    with decklog.open(path) as log:
        # 64, and then 250 at a time.
        assert len(list(log.events())) == 1064


def test_lists_filter_order_and_limit(log: decklog.Log) -> None:
    log.record_batch(
        [{"event_type": f"a.{i % 3}", "created_at": 1_000_000_000_000 + i} for i in range(2500)],
        kind="events",
    )
    assert len(list(log.events())) == 2500
    assert len(list(log.events(event_type="a.1"))) == 833
    newest = log.events(order="desc", limit=3)
    assert [it.id for it in newest] == [2500, 2499, 2498]
    since = log.events(since=1_000_000_002_490, until="2001-09-09T01:46:42.493Z")
    assert [it.id for it in since] == [2491, 2492, 2493]
    assert list(log.events(limit=0)) == []
    assert list(log.events(since=datetime.datetime.now(datetime.timezone.utc))) == []
    for wrong in ({"order": "up"}, {"limit": -1}, {"since": "soon"}, {"limit": "3"}):
        with pytest.raises(decklog.InvalidInputError, match=next(iter(wrong))):
            log.events(**wrong)  # type: ignore[arg-type]


def test_the_log_as_of_a_time(log: decklog.Log) -> None:
    turn = {"kind": "user", "id": REQUEST, "content": "one", "created_at": 100_000_000_000_0}
    log.record(turn)
    log.retract("conversation_turns", REQUEST, at=100_000_000_000_9)
    assert log.get_turn(REQUEST) is None
    then = log.get_turn(REQUEST, as_of=100_000_000_000_5)
    assert then is not None and then.content == "one"
    assert [it.content for it in log.turns(as_of=100_000_000_000_5)] == ["one"]
    assert list(log.turns()) == []


def test_an_exception_in_a_call_is_its_failure(log: decklog.Log) -> None:
    with pytest.raises(RuntimeError, match="no disk"):
        with log.tool_call("Bash", {"command": "ls"}):
            raise RuntimeError("no disk")
    with log.tool_call("Bash", {"command": "ls"}) as call:
        call.failed("exit", "code 2")
    with log.tool_call("Bash"):
        pass
    del call
    log.tool_call("Bash")
    told = [(it.status, it.error_kind, it.error_msg) for it in log.tool_calls(order="asc")]
    assert told[:3] == [
        ("failed", "RuntimeError", "no disk"),
        ("failed", "exit", "code 2"),
        ("completed", None, None),
    ]
    assert told[3][:2] == ("failed", "abandoned")


def test_an_outcome_is_recorded_once(log: decklog.Log) -> None:
    with log.tool_call("Bash") as call:
        call.done(1)
        with pytest.raises(decklog.LifecycleError, match="once"):
            call.done(2)
    assert [it.outcome_json for it in log.tool_calls()] == [1]


@pytest.mark.parametrize(
    "outcome", ["text", "12", 12, "true", True, 1.5, [], {"a": None}, "", "two\nlines", '"q"', None]
)
def test_an_outcome_is_read_as_it_was_given(log: decklog.Log, outcome: Any) -> None:
    log.tool_call("t").done(outcome)
    log.log_event("a.b", outcome)
    log.record({"kind": "events", "event_type": "a.b", "payload": outcome})
    assert [it.outcome_json for it in log.tool_calls()] == [outcome]
    assert [it.payload for it in log.events()] == [outcome] * 2


def test_tools_are_recorded_and_behave_as_before(log: decklog.Log) -> None:
    @log.tool
    def half(number: int, *, exact: bool = False) -> float:
        """Halves."""
        if exact and number % 2:
            raise ValueError("odd")
        return number / 2

    @log.tool(name="other")
    def opaque(it: object) -> object:
        return it

    assert (half(3), half.__doc__) == (1.5, "Halves.")
    with pytest.raises(ValueError, match="odd"):
        half(3, exact=True)
    with pytest.raises(TypeError):
        half()  # type: ignore[call-arg]
    it = object()
    assert opaque(it) is it
    calls = list(log.tool_calls(order="asc"))
    assert [call.tool_name for call in calls] == ["half", "half", "half", "other"]
    assert calls[0].arguments_json == {"number": 3}
    assert calls[1].arguments_json == {"number": 3, "exact": True}
    assert [call.status for call in calls] == ["completed", "failed", "failed", "completed"]
    assert calls[3].outcome_json == repr(it)


def test_a_run_is_a_thread_of_its_own(log: decklog.Log) -> None:
    with log.run("anthropic") as run:
        asked = log.turn("user", "one")
        answered = log.turn("assistant", "two")
        with log.run("openai") as inner:
            log.turn("user", "three")
        log.tool_call("t").done()
    log.turn("user", "four")
    assert [it.content for it in log.turns(thread_id=run.thread_id)] == ["one", "two"]
    assert [it.content for it in log.turns(thread_id=inner.thread_id)] == ["three"]
    [call] = log.tool_calls()
    assert (call.vendor, call.parent_id) == ("anthropic", answered.id)
    answer = log.get_turn(answered.id)
    assert answer is not None and answer.parent_id == asked.id
    again = log.run(thread_id=run.thread_id).user("five")
    turn = log.get_turn(again.id)
    assert turn is not None and turn.parent_id == answered.id


def test_a_run_in_a_conversation_records_messages(log: decklog.Log) -> None:
    run = log.run(conversation={"client": "cli", "title": "t"})
    run.user("hi")
    [conversation] = log.conversations()
    assert conversation.id == run.thread_id
    assert [it.content for it in log.messages(conversation_id=conversation.id)] == ["hi"]


def test_tasks_are_claimed_once(log: decklog.Log, path: Path) -> None:
    inbox = log.inbox.attempts_max(2)
    assert inbox.enqueue(1, "text").id == inbox.enqueue(1, "other").id
    inbox.enqueue_message(2, chat_id=3, text="hi", date=4)
    with decklog.open(path) as other:
        first, second = log.inbox.claim(), other.inbox.claim()
        assert first is not None and second is not None
        assert (first.id, second.id, other.inbox.claim()) == (1, 2, None)
    inbox.done(first)
    assert inbox.retry(second, "no answer") == "queued"
    second = inbox.claim()
    assert second is not None
    assert inbox.retry(second, "no answer") == "failed"
    assert inbox.counts() == {"queued": 0, "in_progress": 0, "done": 1, "failed": 1}
    assert [it.error for it in inbox.list(status="failed")] == ["no answer"]
    with pytest.raises(decklog.LifecycleError):
        inbox.done(second)
    assert log.inbox.telegram_offset() == 3
    assert inbox.release_stale(0) == []


def test_the_hash_of_a_thought_is_that_of_the_test_vector(log: decklog.Log) -> None:
    thought = log.thoughts.create(
        "plan",
        task_id="t1",
        agent_id="a1",
        content="hello",
        id="r1",
        timestamp="2026-04-17T00:00:00Z",
    )
    assert thought.hash == "6a2f9597f563d5515cfa69891a51806d0f93bfbe222997d3ba37c365ceee3f1a"
    second = log.thoughts.create("decision", task_id="t1", agent_id="a1", content="")
    assert second.prev_hash == thought.hash
    assert log.thoughts.get("r1") == thought
    assert log.thoughts.list("t1") == [thought, second]
    check = log.thoughts.verify_chain("t1")
    assert (check["is_intact"], check["records"], check["head"]) == (True, 2, second.hash)


def test_files_are_those_of_every_other_program(log: decklog.Log, path: Path) -> None:
    log.log_event("a.b", {"n": 1})
    [file] = path.glob("*/events.*.jsonl")
    line = json.loads(file.read_text(encoding="utf-8"))
    assert (line["event_type"], line["payload"]) == ("a.b", {"n": 1})
    assert log.path == path


def test_secrets_are_redacted(log: decklog.Log) -> None:
    log.turn("user", "export OPENAI_API_KEY=sk-proj-Zk3vQ9xT7LmB2nWp8RfY4dHs6JcGuA1e")
    assert "Zk3vQ9" not in next(log.turns()).content
