"""Several processes and threads on one log, forks, and kills."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import decklog
import pytest

if TYPE_CHECKING:
    from pathlib import Path

RECORDS = int(os.environ.get("DECKLOG_TEST_RECORDS", "2000"))

AGENT = '''
import sys
import decklog

log = decklog.open(sys.argv[1])


@log.tool
def read_file(path):
    """A tool: every call of it is recorded."""
    if path == "absent.txt":
        raise FileNotFoundError(path)
    return f"the content of {path}"


def answer(question):
    """A model that asks for two files, one of which is absent."""
    log.turn("user", question)
    log.turn("assistant", "I will read the files.")
    found = []
    for path in ("a.txt", "absent.txt"):
        try:
            found.append(read_file(path))
        except FileNotFoundError:
            found.append("missing")
    return log.turn("assistant", f"I found {found}.")


number = 0
while True:
    number += 1
    answer(f"question {number}")
    print(number, flush=True)
'''


def test_an_agent_that_is_killed_finds_everything(path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", AGENT, str(path)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    for line in process.stdout:
        if int(line) >= 50:
            break
    process.send_signal(signal.SIGKILL if hasattr(signal, "SIGKILL") else signal.SIGTERM)
    rest = process.stdout.read().split()
    process.stdout.close()
    process.wait()
    told = int(rest[-1]) if rest else int(line)
    with decklog.open(path) as log:
        questions = [it.content for it in log.turns(kind="user")]
        assert questions[:told] == [f"question {n}" for n in range(1, told + 1)]
        assert told <= len(questions) <= told + 1
        calls = list(log.tool_calls(order="asc"))[: 2 * told]
        assert [it.status for it in calls] == ["completed", "failed"] * told
        assert calls[1].error_kind == "FileNotFoundError"


def write(path: str, name: str, count: int) -> None:
    with decklog.open(path) as log:
        for number in range(count // 2):
            log.log_event(f"p{name}.single", number)
        batch = [{"event_type": f"p{name}.batch", "payload": n} for n in range(count // 2)]
        for start in range(0, len(batch), 100):
            log.record_batch(batch[start : start + 100], kind="events")


@pytest.mark.parametrize("method", multiprocessing.get_all_start_methods())
def test_processes_write_one_log(path: Path, method: str) -> None:
    context = multiprocessing.get_context(method)
    workers = [
        context.Process(target=write, args=(str(path), str(name), RECORDS)) for name in range(4)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0] * 4
    with decklog.open(path) as log:
        events = list(log.events())
    assert len(events) == 4 * (RECORDS // 2) * 2
    assert [it.id for it in events] == list(range(1, len(events) + 1))
    for name in range(4):
        for how in ("single", "batch"):
            numbers = [it.payload for it in events if it.event_type == f"p{name}.{how}"]
            assert numbers == list(range(RECORDS // 2)), "in the order in which they were recorded"


def test_threads_share_a_log(log: decklog.Log) -> None:
    def work(name: int) -> None:
        for number in range(500):
            log.log_event(f"t{name}.x", number)
            if number % 100 == 0:
                assert sum(1 for _ in log.events(event_type=f"t{name}.x")) == number + 1

    threads = [threading.Thread(target=work, args=(name,)) for name in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for name in range(8):
        numbers = [it.payload for it in log.events(event_type=f"t{name}.x")]
        assert numbers == list(range(500))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_is_refused_and_opens_its_own(log: decklog.Log, path: Path) -> None:
    capture = log.capture()
    run, events, call = log.run(), log.events(), log.tool_call("t")
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            for refused in (
                lambda: log.log_event("a.b"),
                lambda: capture.record({"kind": "events", "event_type": "a.b"}),
                lambda: run.user("hi"),
                lambda: next(events),
                lambda: call.done(),
                lambda: log.inbox.claim(),
                log.close,
                capture.close,
            ):
                with pytest.raises(decklog.ForkedError, match="open it again"):
                    refused()
            # Dropping the parent's handles does nothing to them.
            del run, events, call, capture
            with decklog.open(path) as own:
                own.log_event("from.child")
            status = 0
        finally:
            os._exit(status)
    _, ended = os.waitpid(pid, 0)
    assert ended == 0
    call.done(1)
    capture.record({"kind": "events", "event_type": "from.parent"})
    capture.close()
    assert [it.event_type for it in log.events()] == ["from.child", "from.parent"]
    assert [it.outcome_json for it in log.tool_calls()] == [1]
