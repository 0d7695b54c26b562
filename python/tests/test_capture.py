"""Recording without waiting, also from asyncio."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

import decklog
import pytest

if TYPE_CHECKING:
    from pathlib import Path


def test_what_is_captured_is_in_the_log_after_a_flush(log: decklog.Log) -> None:
    with log.capture() as capture:
        talk = capture.record({"kind": "conversations", "client": "api"})
        message = {"kind": "messages", "conversation_id": talk, "role": "user", "content": "hi"}
        id = capture.record(message)
        capture.flush()
        assert [it.id for it in log.messages()] == [id]
        assert capture.stats()["written"] == 2
        capture.request({"id": talk, "client": "api"}, [{**message, "content": "again"}])
    assert [it.content for it in log.messages()] == ["hi", "again"]
    with pytest.raises(decklog.ClosedError):
        capture.record({"kind": "events", "event_type": "a.b"})


def test_errors_of_the_writing_thread_are_told(log: decklog.Log) -> None:
    told: list[tuple[str, str, str]] = []
    capture = log.capture(on_error=lambda error, kind, key: told.append((str(error), kind, key)))
    with pytest.raises(decklog.InvalidInputError):
        capture.record({"kind": "events", "event_type": 5})
    capture.record({"kind": "events", "event_type": "a.b", "parent_id": 99})
    with pytest.raises(decklog.LifecycleError, match="log the parent first"):
        capture.flush()
    [(error, kind, _)] = told
    assert (kind, "log the parent first" in error) == ("events", True)
    assert isinstance(capture.last_error(), decklog.LifecycleError)
    assert capture.stats()["rejected"] == 1
    capture.close()


def test_a_full_queue_refuses(log: decklog.Log) -> None:
    entered, go_on = threading.Event(), threading.Event()

    def wait(*_: object) -> None:
        entered.set()
        go_on.wait(30)

    capture = log.capture(queue_records_max=1, on_error=wait)
    capture.record({"kind": "events", "event_type": "a.b", "parent_id": 99})
    # The writing thread is inside the function, and holds the only place.
    assert entered.wait(30)
    with pytest.raises(decklog.QueueFullError):
        for _ in range(3):
            capture.record({"kind": "events", "event_type": "a.b"})
    go_on.set()
    capture.close()


def test_the_queue_is_written_at_exit(path: Path) -> None:
    program = f"""
import decklog
capture = decklog.open({str(path)!r}).capture()
for n in range(5000):
    capture.record({{"kind": "events", "event_type": "a.b", "payload": n}})
"""
    subprocess.run([sys.executable, "-c", program], check=True)
    with decklog.open(path) as log:
        assert [it.payload for it in log.events()] == list(range(5000))


def test_the_event_loop_goes_on_while_the_log_waits(log: decklog.Log) -> None:
    async def ticks(until: asyncio.Event) -> int:
        count = 0
        while not until.is_set():
            await asyncio.sleep(0.001)
            count += 1
        return count

    async def main() -> int:
        ended = asyncio.Event()
        ticking = asyncio.create_task(ticks(ended))
        records = [{"event_type": "a.b", "payload": "x" * 1000} for _ in range(30_000)]
        acks = await log.record_batch_async(records, kind="events")
        assert len(acks) == 30_000
        assert (await log.record_async({"kind": "events", "event_type": "c.d"})).id == 30_001
        with log.capture() as capture:
            capture.record({"kind": "events", "event_type": "e.f"})
            await capture.flush_async()
        async with log.tool_call("t") as call:
            call.done(1)
        ended.set()
        return await ticking

    assert asyncio.run(main()) >= 3


def test_tools_that_are_awaited_keep_their_run(log: decklog.Log) -> None:
    @log.tool
    async def fetch(url: str) -> str:
        await asyncio.sleep(0.01)
        if url == "bad":
            raise OSError("unreachable")
        return url.upper()

    async def agent(name: str) -> str:
        with log.run(name) as run:
            log.turn("user", name)
            await fetch(name)
            return run.thread_id

    async def main() -> None:
        await asyncio.gather(agent("a"), agent("b"))
        with pytest.raises(OSError):
            await fetch("bad")
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(fetch("slow"), 0.001)

    asyncio.run(main())
    calls = {it.arguments_json["url"]: it for it in log.tool_calls()}
    assert {name: it.vendor for name, it in calls.items() if len(name) == 1} == {"a": "a", "b": "b"}
    assert (calls["a"].outcome_json, calls["bad"].error_kind) == ("A", "OSError")
    assert calls["slow"].error_kind == "CancelledError"


def test_no_call_holds_the_interpreter_while_it_waits(path: Path) -> None:
    """A thread waits for the lock that another process holds, and this one counts."""
    holder = f"""
import decklog, sys, fcntl, time
lock = open({str(path / "LOCK")!r}, "r+")
fcntl.flock(lock, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.readline()
"""
    fcntl = pytest.importorskip("fcntl")
    assert fcntl
    with decklog.open(path) as log:
        log.log_event("a.b")
        with subprocess.Popen(
            [sys.executable, "-c", holder], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as process:
            assert process.stdout is not None and process.stdin is not None
            process.stdout.readline()
            thread = threading.Thread(target=lambda: log.log_event("c.d"))
            thread.start()
            time.sleep(0.05)
            began, count = time.monotonic(), 0
            while time.monotonic() - began < 0.2:
                count += 1
            waited = thread.is_alive()
            process.stdin.write(b"\n")
            process.stdin.flush()
            thread.join(20)
        assert waited and count > 1000
        assert [it.event_type for it in log.events()] == ["a.b", "c.d"]
