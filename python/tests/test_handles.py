"""Handles that are closed, dropped or forked while others use them."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import decklog
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def ran(program: str, *arguments: object) -> str:
    """Runs a program that may not hang."""
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.run(
        command, check=True, capture_output=True, text=True, timeout=60
    ).stdout


def test_a_log_is_closed_while_threads_use_it(path: Path) -> None:
    program = """
import sys, threading, decklog
for _ in range(20):
    log = decklog.open(sys.argv[1])
    capture = log.capture(on_error=lambda *told: None)
    def use():
        try:
            while True:
                log.path
                capture.stats()
                capture.record({"kind": "events", "event_type": "a.b", "parent_id": 999999})
        except decklog.ClosedError:
            pass
        except (decklog.LifecycleError, decklog.QueueFullError):
            use()
    threads = [threading.Thread(target=use) for _ in range(3)]
    for thread in threads: thread.start()
    capture.close()
    log.close()
    for thread in threads: thread.join()
print("ended")
"""
    assert ran(program, path) == "ended\n"


def test_a_capture_is_written_at_exit_also_if_a_run_uses_it(path: Path) -> None:
    program = """
import sys, threading, time, decklog
log = decklog.open(sys.argv[1])
capture = log.capture()
ready = threading.Event()
def work():
    run = log.run(through=capture)
    for number in range(5000):
        run.user(f"{number} " + "x" * 1000)
    ready.set()
    time.sleep(1000)
threading.Thread(target=work, daemon=True).start()
ready.wait()
"""
    ran(program, path)
    with decklog.open(path) as log:
        assert sum(1 for _ in log.turns()) == 5000


def test_the_last_handle_of_a_capture_is_dropped_while_errors_are_told(path: Path) -> None:
    program = """
import sys, decklog
log = decklog.open(sys.argv[1])
told = []
capture = log.capture(on_error=lambda *error: told.append(error))
run = log.run(through=capture)
capture.record({"kind": "events", "event_type": "a.b", "parent_id": 99})
run.user("hi")
capture.close()
del run, capture
print(len(told), sum(1 for _ in log.turns()))
"""
    assert ran(program, path) == "1 1\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_child_that_is_forked_beside_a_call_is_refused_and_does_not_hang(path: Path) -> None:
    program = """
import os, sys, threading, decklog
log = decklog.open(sys.argv[1])
for _ in range(20):
    capture = log.capture()
    for number in range(2000):
        capture.record({"kind": "events", "event_type": "a.b", "payload": "x" * 500})
    thread = threading.Thread(target=capture.close)
    thread.start()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            for use in (capture.stats, lambda: log.log_event("c.d"), capture.close, log.close):
                try:
                    use()
                except decklog.ForkedError:
                    continue
                os._exit(2)
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(pid, 0)[1] == 0
    thread.join()
print(sum(1 for _ in log.events()))
"""
    assert ran(program, path) == "40000\n"


def test_an_error_of_the_queue_is_raised_once(log: decklog.Log) -> None:
    with log.capture() as capture:
        capture.record({"kind": "events", "event_type": "a.b", "parent_id": 99})
        with pytest.raises(decklog.LifecycleError):
            capture.flush()
        capture.flush()
        capture.flush()


def test_every_handle_of_a_closed_log_is_closed(path: Path) -> None:
    log = decklog.open(path)
    log.turn("user", "hi")
    run = log.run()
    turn, events, inbox, thoughts = run.user("hi"), log.events(), log.inbox, log.thoughts
    log.close()
    uses: list[Callable[[], Any]] = [
        lambda: log.turn("user", "hi"),
        lambda: log.tool_call("t"),
        lambda: run.user("hi"),
        lambda: turn.tool_call("t"),
        lambda: next(iter(events)),
        lambda: inbox.enqueue(1),
        lambda: thoughts.create("plan", task_id="t", agent_id="a", content="c"),
    ]
    for use in uses:
        with pytest.raises(decklog.ClosedError):
            use()
    with decklog.open(path) as again:
        assert sum(1 for _ in again.turns()) == 2


def test_a_batch_ends_at_the_first_failure_of_the_log(path: Path) -> None:
    decklog.open(path).close()
    taken = 0

    def endless() -> Any:
        nonlocal taken
        while True:
            taken += 1
            yield {"event_type": "a.b"}

    with decklog.open(path, read_only=True) as log, pytest.raises(decklog.ReadOnlyError):
        log.record_batch(endless(), kind="events")
    assert taken < 5000


def test_an_interrupt_in_a_batch_is_no_rejection(log: decklog.Log) -> None:
    class Model:
        def model_dump(self, **_: Any) -> dict[str, Any]:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        log.record_batch([{"event_type": "a.b"}, Model()], kind="events")
    assert [it.event_type for it in log.events()] == ["a.b"]


def test_a_dict_that_changes_while_it_is_read_is_no_panic(log: decklog.Log) -> None:
    payload: dict[Any, Any] = {}

    class Model:
        def model_dump(self, **_: Any) -> dict[str, Any]:
            payload[len(payload)] = 1
            return {}

    payload["model"] = Model()
    payload["more"] = 2
    log.log_event("a.b", payload)
    assert next(log.events()).payload == {"model": {}, "more": 2}


def test_texts_of_a_call_are_stored_as_in_a_record(log: decklog.Log) -> None:
    log.tool_call("t", "plain").done("plain")
    call = next(log.tool_calls())
    assert (call.arguments_json, call.outcome_json) == ("plain", "plain")
    assert call.args_sha256 == decklog.args_sha256("plain")


def test_values_are_nested_as_deep_as_the_log_takes_them(log: decklog.Log) -> None:
    def nested(levels: int) -> Any:
        value: Any = 1
        for _ in range(levels):
            value = [value]
        return value

    log.log_event("a.b", nested(63))
    with pytest.raises(decklog.InvalidInputError, match="63 levels"):
        log.log_event("a.b", nested(64))


def test_arrays_of_texts_have_a_maximum_size(log: decklog.Log) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    text = "x" * (15 << 20)
    for _ in range(20):
        log.log_event("a.b", {"text": text})
    stream = log.to_arrow("events", columns=["payload"])
    rows = [batch.num_rows for batch in pyarrow.RecordBatchReader.from_stream(stream)]
    assert (len(rows), sum(rows)) == (2, 20)


def test_waiting_for_the_log_does_not_stop_other_threads(log: decklog.Log) -> None:
    ticks, ended = 0, threading.Event()

    def tick() -> None:
        nonlocal ticks
        while not ended.is_set():
            time.sleep(0.001)
            ticks += 1

    thread = threading.Thread(target=tick)
    thread.start()
    log.record_batch(({"event_type": "a.b", "payload": "x" * 900} for _ in range(60_000)), kind="events")
    ended.set()
    thread.join()
    assert ticks > 10
