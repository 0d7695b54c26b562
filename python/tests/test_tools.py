"""A tool does what it did before, whatever the log makes of it."""

from __future__ import annotations

import asyncio
import builtins
import functools
import inspect
import threading
import time
from typing import TYPE_CHECKING, Any

import decklog
import pytest

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

LONG = "x" * (17 << 20)


class NoDump:
    def model_dump(self, **_: Any) -> Any:
        raise RuntimeError("no dump")


class NoRepr:
    def __repr__(self) -> str:
        raise RuntimeError("no repr")


class NoStr(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no str")


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def endless() -> Any:
    value: list[Any] = []
    value.append(value)
    return value


def last(log: decklog.Log) -> decklog.ToolCall:
    found = next(log.tool_calls(order="desc", limit=1))
    # The next call begins in a later millisecond.
    time.sleep(0.002)
    return found


@pytest.mark.parametrize("levels", [58, 62, 63, 64, 65, 70, 3000])
def test_a_result_that_is_nested_too_deep_reaches_the_caller(log: decklog.Log, levels: int) -> None:
    value = nested(levels)
    assert log.tool(lambda: value)() is value
    assert last(log).status == "completed"
    assert last(log).outcome_json is not None


@pytest.mark.parametrize(
    "value",
    [LONG, {"a": [LONG]}, {"a": '"' * (9 << 20)}, [LONG[: 1 << 20]] * 20, list(range(3_000_000))],
    ids=["text", "in a dict", "escaped", "many", "numbers"],
)
def test_a_result_that_is_too_long_for_a_line_reaches_the_caller(
    log: decklog.Log, value: Any
) -> None:
    assert log.tool(lambda: value)() is value
    call = last(log)
    assert call.status == "completed"
    text = str(call.outcome_json)
    assert 100 < len(text) < 200_000
    assert "characters)" in text or "too large" in text or text.endswith("…")


def test_a_result_that_a_line_can_hold_is_recorded_whole(log: decklog.Log) -> None:
    value = {"a": ["y" * (5 << 20), nested(40)], "n": list(range(100_000))}
    assert log.tool(lambda: value)() is value
    assert last(log).outcome_json == value


@pytest.mark.parametrize(
    "given",
    [LONG, {"a": LONG}, nested(70), endless(), 10**5000, NoDump()],
    ids=["long", "long in a dict", "deep", "endless", "huge", "no dump"],
)
def test_arguments_that_the_log_refuses_do_not_keep_the_tool_from_running(
    log: decklog.Log, given: Any
) -> None:
    @log.tool
    def kept(path: str, it: Any) -> Any:
        return (path, it)

    assert kept("a", given)[1] is given
    call = last(log)
    assert call.arguments_json["path"] == "a"
    assert len(str(call.arguments_json["it"])) < 200_000


def test_values_whose_conversion_fails_do_not_break_the_tool(log: decklog.Log) -> None:
    for value in (NoDump(), NoRepr(), endless(), "\ud800", {"\ud800": NoRepr()}, {NoStr(): 1}):
        assert log.tool(lambda it: it)(value) is value
        assert last(log).status == "completed"
        assert last(log).outcome_json


def test_the_exception_of_a_call_is_not_replaced(log: decklog.Log) -> None:
    with pytest.raises(NoStr):
        with log.tool_call("t"):
            raise NoStr
    assert (last(log).error_kind, last(log).error_msg) == ("NoStr", "NoStr()")
    with pytest.raises(ValueError, match="bad"):
        with log.tool_call("t"):
            raise ValueError("bad \udcff")
    assert last(log).error_msg == "bad \\udcff"
    with pytest.raises(ValueError):
        with log.tool_call("t"):
            raise ValueError(LONG)
    assert last(log).status == "failed"


def test_the_exception_of_a_call_goes_on_if_the_log_was_closed(
    log: decklog.Log, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken:
        is_ended = False

        def failed(self, *_: Any) -> None:
            raise decklog.ClosedError("closed")

        done = failed

    scope = log.tool_call("t")
    scope.done()
    scope._native = Broken()  # type: ignore[assignment]
    with pytest.raises(KeyError, match="its own"):
        with scope:
            raise KeyError("its own")
    [record] = caplog.records
    assert (record.name, "closed" in record.getMessage()) == ("decklog", True)


def test_a_generator_is_recorded_until_it_ends(log: decklog.Log) -> None:
    @log.tool
    def count(number: int) -> Any:
        for at in range(number):
            if at == 5:
                raise ValueError("five")
            yield at
        return "end"

    assert inspect.isgeneratorfunction(count)
    assert list(count(3)) == [0, 1, 2]
    assert last(log).outcome_json == {"yielded": [0, 1, 2], "returned": "end"}
    with pytest.raises(ValueError, match="five"):
        list(count(9))
    assert (last(log).status, last(log).error_msg) == ("failed", "five")
    items = count(4)
    next(items)
    assert last(log).status == "requested"
    items.close()
    assert (last(log).status, last(log).outcome_json) == ("completed", [0])


def test_a_generator_gets_what_is_sent_and_thrown(log: decklog.Log) -> None:
    @log.tool
    def echo() -> Any:
        got = yield "first"
        try:
            yield got
        except KeyError as error:
            yield str(error)

    items = echo()
    assert (next(items), items.send("sent"), items.throw(KeyError("k"))) == ("first", "sent", "'k'")
    assert list(items) == []
    assert last(log).outcome_json == ["first", "sent", "'k'"]


def test_a_long_generator_is_recorded_in_part(log: decklog.Log) -> None:
    assert sum(log.tool(lambda: (yield from range(5000)))()) == sum(range(5000))
    assert last(log).outcome_json[-2:] == [999, "… 4000 more"]


def test_an_async_generator_is_recorded_until_it_ends(log: decklog.Log) -> None:
    ended = []

    @log.tool
    async def count(number: int) -> AsyncIterator[int]:
        try:
            for at in range(number):
                if at == 5:
                    raise ValueError("five")
                yield at
        finally:
            ended.append(number)

    async def main() -> None:
        assert inspect.isasyncgenfunction(count)
        assert [it async for it in count(3)] == [0, 1, 2]
        assert last(log).outcome_json == [0, 1, 2]
        with pytest.raises(ValueError, match="five"):
            [it async for it in count(9)]
        assert (last(log).status, last(log).error_msg) == ("failed", "five")
        items: Any = count(4)
        assert await items.__anext__() == 0
        await items.aclose()
        assert (last(log).status, last(log).outcome_json) == ("completed", [0])

    asyncio.run(main())
    assert ended == [3, 9, 4]


def test_methods_of_each_kind_are_tools(log: decklog.Log) -> None:
    class Tools:
        @log.tool
        def method(self, it: int) -> int:
            return it

        @log.tool
        @classmethod
        def of_class(cls, it: int) -> Any:
            return cls, it

        @log.tool
        @staticmethod
        def static(it: int) -> int:
            return it

        @staticmethod
        @log.tool
        def inner(it: int) -> int:
            return it

    assert Tools().method(1) == 1
    assert Tools.of_class(2) == (Tools, 2)  # type: ignore[call-arg]
    assert (Tools.static(3), Tools().static(4), Tools().inner(5)) == (3, 4, 5)
    calls = log.tool_calls(order="asc")
    assert [it.arguments_json for it in calls] == [{"it": number} for number in range(1, 6)]


def test_an_argument_named_self_is_recorded(log: decklog.Log) -> None:
    assert log.tool(lambda self, cls: self)(1, 2) == 1
    assert last(log).arguments_json == {"self": 1, "cls": 2}


def test_callables_of_each_kind_are_tools(log: decklog.Log) -> None:
    class Async:
        async def __call__(self, it: int) -> int:
            return it

    assert log.tool(max)(1, 2) == 2
    has_signature = getattr(max, "__text_signature__", None) is not None
    assert has_signature or last(log).arguments_json == {"args": [1, 2], "kwargs": {}}
    assert log.tool(functools.partial(pow, 2))(3) == 8
    assert last(log).outcome_json == 8
    assert asyncio.run(log.tool(Async())(7)) == 7  # type: ignore[arg-type]
    assert (last(log).tool_name, last(log).outcome_json) == ("Async", 7)


@pytest.mark.parametrize("it", [builtins.dict, decklog.Event, "name", 5])
def test_what_is_no_function_is_refused_as_a_tool(log: decklog.Log, it: Any) -> None:
    with pytest.raises(decklog.InvalidInputError, match="cannot be a tool"):
        log.tool(it)


# Runs.


def test_a_run_can_be_entered_by_two_tasks_at_once(log: decklog.Log) -> None:
    run = log.run()

    async def worker(number: int) -> None:
        with run:
            await asyncio.sleep(0.01 * number)
            log.turn("user", str(number))
        log.turn("user", "outside")

    async def main() -> None:
        await asyncio.gather(worker(1), worker(2))

    asyncio.run(main())
    assert [it.content for it in log.turns(thread_id=run.thread_id)] == ["1", "2"]


def test_runs_of_two_logs_may_be_nested(log: decklog.Log, tmp_path: Any) -> None:
    with decklog.open(tmp_path / "other") as other:
        with log.run() as outer, other.run() as inner:
            log.turn("user", "one")
            other.turn("user", "two")
            with log.run():
                log.turn("user", "three")
            log.turn("user", "four")
        assert [it.content for it in log.turns(thread_id=outer.thread_id)] == ["one", "four"]
        assert [it.content for it in other.turns()] == ["two"]
        assert next(other.turns()).thread_id == inner.thread_id


def test_runs_may_be_left_in_another_order_or_context(log: decklog.Log) -> None:
    first, second = log.run(), log.run()
    first.__enter__()
    second.__enter__()
    first.__exit__()
    log.turn("user", "one")
    thread = threading.Thread(target=second.__exit__)
    thread.start()
    thread.join()
    log.turn("user", "two")
    second.__exit__()
    log.turn("user", "three")
    assert [it.content for it in log.turns(thread_id=second.thread_id)] == ["one", "two"]
    assert list(log.turns(thread_id=first.thread_id)) == []


def test_threads_share_the_default_run(log: decklog.Log) -> None:
    barrier = threading.Barrier(8)

    def work() -> None:
        barrier.wait()
        log.turn("user", "x")

    threads = [threading.Thread(target=work) for _ in range(8)]
    for it in threads:
        it.start()
    for it in threads:
        it.join()
    assert len({it.thread_id for it in log.turns()}) == 1
