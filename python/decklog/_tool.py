"""Functions whose calls are recorded as tool calls."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any

from ._shown import NOT_RECORDED, as_repr, fits, shortened, shown, warn
from .errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Generator

    from ._log import Log
    from ._run import ToolCallScope

ITEMS_MAX = 1000
"""How many items of a generator its outcome has. Further ones are counted."""


def decorated(log: Log, function: Any, name: str | None) -> Any:
    """The function with its calls recorded."""
    if isinstance(function, (staticmethod, classmethod)):
        inner = _Tool(log, function.__func__, name, isinstance(function, classmethod))
        return type(function)(inner.recorded())
    if isinstance(function, type):
        raise InvalidInputError(
            f"the class {function.__qualname__} cannot be a tool: decorate a function or a method",
            field="function",
        )
    if not callable(function):
        raise InvalidInputError(
            f"{as_repr(function)} cannot be a tool: decorate a function. A name is given with name=",
            field="function",
        )
    return _Tool(log, function, name, _is_method(function)).recorded()


def _is_method(function: Any) -> bool:
    """Whether a function is defined in the body of a class."""
    within = getattr(function, "__qualname__", "").rpartition(".")[0]
    return inspect.isfunction(function) and within != "" and not within.endswith("<locals>")


class _Tool:
    """A function whose calls are recorded."""

    def __init__(self, log: Log, function: Any, name: str | None, is_method: bool) -> None:
        self._log = log
        self._function = function
        self._name = str(name or getattr(function, "__name__", type(function).__name__))
        self._signature: inspect.Signature | None
        try:
            self._signature = inspect.signature(function)
        except (TypeError, ValueError):
            # Some functions of C have none.
            self._signature = None
        first = next(iter(self._signature.parameters), "") if self._signature else ""
        self._own = first if is_method and first in ("self", "cls") else None

    def requested(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> ToolCallScope:
        """Records the request of a call. Arguments that the log refuses are recorded as text."""
        arguments: dict[str, Any] = {"args": args, "kwargs": kwargs}
        if self._signature is not None:
            try:
                arguments = dict(self._signature.bind(*args, **kwargs).arguments)
            except TypeError:
                # The call of the function raises the same.
                pass
        if self._own is not None:
            arguments.pop(self._own, None)
        if not fits(arguments):
            arguments = shortened(arguments)
        try:
            return self._log.tool_call(self._name, arguments)
        except NOT_RECORDED:
            raise
        except Exception:
            return self._log.tool_call(self._name, shortened(shown(arguments)))

    def recorded(self) -> Callable[..., Any]:
        """The function that is called instead."""
        call = getattr(type(self._function), "__call__", None)

        def of(is_kind: Callable[[Any], bool]) -> bool:
            return is_kind(self._function) or is_kind(call)

        if of(inspect.isasyncgenfunction):
            made = self._generated_async()
        elif of(inspect.isgeneratorfunction):
            made = self._generated()
        elif of(inspect.iscoroutinefunction):
            made = self._awaited()
        else:
            made = self._called()
        return functools.wraps(self._function)(made)

    def _called(self) -> Callable[..., Any]:
        def called(*args: Any, **kwargs: Any) -> Any:
            with self.requested(args, kwargs) as call:
                returned = self._function(*args, **kwargs)
                _done(call, returned)
            return returned

        return called

    def _awaited(self) -> Callable[..., Any]:
        async def awaited(*args: Any, **kwargs: Any) -> Any:
            with self.requested(args, kwargs) as call:
                returned = await self._function(*args, **kwargs)
                _done(call, returned)
            return returned

        return awaited

    def _generated(self) -> Callable[..., Any]:
        def generated(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
            with self.requested(args, kwargs) as call:
                items = _Items()
                try:
                    returned = yield from _Seen(self._function(*args, **kwargs), items)
                except GeneratorExit:
                    _done(call, items.outcome(None))
                    raise
                _done(call, items.outcome(returned))
            return returned

        return generated

    def _generated_async(self) -> Callable[..., Any]:
        async def generated(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
            with self.requested(args, kwargs) as call:
                items = _Items()
                inner = self._function(*args, **kwargs)
                step = inner.__anext__()
                while True:
                    try:
                        item = items.seen(await step)
                    except StopAsyncIteration:
                        break
                    try:
                        sent = yield item
                    except GeneratorExit:
                        await inner.aclose()
                        _done(call, items.outcome(None))
                        raise
                    except BaseException as error:
                        step = inner.athrow(error)
                    else:
                        step = inner.asend(sent)
                _done(call, items.outcome(None))

        return generated


class _Items:
    """What a generator yielded."""

    def __init__(self) -> None:
        self._items: list[Any] = []
        self._more = 0

    def seen(self, item: Any) -> Any:
        """Notes an item as it is now. Returns it."""
        if len(self._items) < ITEMS_MAX:
            self._items.append(shown(item))
        else:
            self._more += 1
        return item

    def outcome(self, returned: Any) -> Any:
        """The outcome of a generator that ended."""
        items = [*self._items, f"… {self._more} more"] if self._more else self._items
        return items if returned is None else {"yielded": items, "returned": returned}


class _Seen:
    """A generator whose items are noted."""

    def __init__(self, inner: Any, items: _Items) -> None:
        self._inner = inner
        self._items = items

    def __iter__(self) -> _Seen:
        return self

    def __next__(self) -> Any:
        return self._items.seen(next(self._inner))

    def send(self, value: Any) -> Any:
        return self._items.seen(self._inner.send(value))

    def throw(self, kind: Any, error: Any = None, _: Any = None) -> Any:
        return self._items.seen(self._inner.throw(kind if error is None else error))

    def close(self) -> None:
        self._inner.close()


def _done(call: ToolCallScope, returned: Any) -> None:
    """Records what a tool returned. What goes wrong is no failure of the tool."""
    try:
        outcome = returned if fits(returned) else shortened(returned)
        try:
            call.done(outcome)
        except NOT_RECORDED:
            raise
        except Exception:
            if call._native.is_ended:
                raise
            call.done(shortened(shown(outcome)))
    except Exception as error:
        warn("the outcome of a tool was not recorded", error)
