"""No call leaks memory or references. DECKLOG_TEST_CALLS=1000000 for the full size."""

from __future__ import annotations

import gc
import os
import sys
from typing import TYPE_CHECKING

import decklog
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CALLS = int(os.environ.get("DECKLOG_TEST_CALLS", "20000"))
# What a call may leave behind: a tenth of the smallest object of Python.
BYTES_PER_CALL_MAX = 5
# The allocators keep this much, once.
BYTES_ONCE_MAX = 4 << 20


def rss() -> int:
    with open("/proc/self/statm", encoding="ascii") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def grown(
    work: Callable[[], object], calls: int, settle: Callable[[], object] = gc.collect
) -> tuple[int, int]:
    """By how many bytes and objects the process grows over these calls, after as many of them."""
    for _ in range(calls):
        work()
    settle()
    gc.collect()
    before, objects = rss(), len(gc.get_objects())
    for _ in range(calls):
        work()
    settle()
    gc.collect()
    return rss() - before, len(gc.get_objects()) - objects


def thread_name(task: str) -> str:
    try:
        with open(f"/proc/self/task/{task}/comm", encoding="utf-8") as comm:
            return comm.read()
    except FileNotFoundError:
        return "ended"


@pytest.mark.skipif(sys.platform != "linux", reason="the size of a process is read from /proc")
@pytest.mark.parametrize(
    "what", ["unchanged", "invalid", "list", "get", "capture", "arguments", "tree", "iterator"]
)
def test_a_call_leaves_nothing_behind(log: decklog.Log, what: str) -> None:
    turn = log.turn("user", "hello " * 100)
    known = next(log.turns())
    log.log_event("a.b", {"n": list(range(20))})
    capture = log.capture(when_full="wait", queue_records_max=100)
    record = known.to_dict()

    def invalid() -> None:
        try:
            log.record({"kind": "events", "event_type": 5})
        except decklog.InvalidInputError:
            pass

    work: dict[str, Callable[[], object]] = {
        "unchanged": lambda: log.record(record, kind="conversation_turns"),
        "invalid": invalid,
        "list": lambda: list(log.events()),
        "get": lambda: log.get_turn(turn.id),
        "capture": lambda: capture.record(known),
        "arguments": lambda: decklog.args_sha256({"path": ["a", 1.5, None, {"b": True}]}),
        "tree": lambda: log.event_tree(1),
        "iterator": lambda: log.turns(order="desc"),
    }
    bytes_more, objects_more = grown(work[what], CALLS, capture.flush)
    capture.close()
    assert objects_more < 50
    assert bytes_more < BYTES_ONCE_MAX + CALLS * BYTES_PER_CALL_MAX


@pytest.mark.skipif(sys.platform != "linux", reason="the size of a process is read from /proc")
def test_opening_and_closing_leaves_nothing_behind(path: Path) -> None:
    def work() -> None:
        with decklog.open(path) as log, log.capture() as capture:
            capture.record({"kind": "events", "event_type": "a.b"})

    bytes_more, objects_more = grown(work, 100)
    threads = [thread_name(task) for task in os.listdir("/proc/self/task")]
    assert len([name for name in threads if name.startswith("decklog")]) < 4
    assert len(os.listdir("/proc/self/fd")) < 40
    assert objects_more < 50
    assert bytes_more < BYTES_ONCE_MAX + (2 << 20)


def test_references_are_given_back(log: decklog.Log) -> None:
    text, payload = "a text of some length", {"x": 1}
    before = sys.getrefcount(text), sys.getrefcount(payload)
    for _ in range(100):
        log.record({"kind": "events", "event_type": "a.b", "payload": payload})
        log.turn("user", text)
        log.tool_call("t", payload).done(payload)
    assert (sys.getrefcount(text), sys.getrefcount(payload)) == before
