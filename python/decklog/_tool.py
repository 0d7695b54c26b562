"""Functions whose calls are recorded as tool calls."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any

from .errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ._log import Log
    from ._run import ToolCallScope


def decorated(log: Log, function: Callable[..., Any], name: str | None) -> Callable[..., Any]:
    """The function with its calls recorded."""
    tool_name = str(name or getattr(function, "__name__", type(function).__name__))
    signature = inspect.signature(function)

    def requested(args: tuple[Any, ...], kwargs: dict[str, Any]) -> ToolCallScope:
        try:
            arguments = dict(signature.bind(*args, **kwargs).arguments)
        except TypeError:
            # The call below raises the same.
            arguments = {"args": args, "kwargs": kwargs}
        for own in ("self", "cls"):
            arguments.pop(own, None)
        try:
            return log.tool_call(tool_name, arguments)
        except InvalidInputError:
            shown = {name: _shown(value) for name, value in arguments.items()}
            return log.tool_call(tool_name, shown)

    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def awaited(*args: Any, **kwargs: Any) -> Any:
            with requested(args, kwargs) as call:
                returned = await function(*args, **kwargs)
                _done(call, returned)
            return returned

        return awaited

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        with requested(args, kwargs) as call:
            returned = function(*args, **kwargs)
            _done(call, returned)
        return returned

    return called


def _done(call: ToolCallScope, returned: Any) -> None:
    try:
        call.done(returned)
    except InvalidInputError:
        call.done(repr(returned))


def _shown(value: Any) -> Any:
    if isinstance(value, (str, int, bool)) or value is None:
        return value
    return repr(value)
