"""Any value as one that JSON has, and that a line of the log can hold."""

from __future__ import annotations

from typing import Any

from ._plain import plain
from .errors import ClosedError, ForkedError, LockedError, PoisonedError, ReadOnlyError, StoreIOError

DEPTH_MAX = 32
"""Deeper values are shown as text."""
REPR_CHARS_MAX = 10_000
"""The rest of a longer `repr` is left out."""
NOT_RECORDED = (ClosedError, ForkedError, LockedError, PoisonedError, ReadOnlyError, StoreIOError)
"""What is no fault of the value."""

_INT_BITS_MAX = 10_000
_DEPTH_OF_LINES = 60
_CHARS_MAX = 1_000_000
"""So many characters fit, however they are escaped."""
_LINE_BYTES_MAX = (16 << 20) - (64 << 10)


def shown(value: Any, depth: int = 0) -> Any:
    """A value without what has no form in JSON: that is shown as the text of its `repr`.

    >>> shown({"at": 1.5, "lock": object, "not a number": float("nan")})
    {'at': 1.5, 'lock': "<class 'object'>", 'not a number': 'nan'}
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if value.bit_length() <= _INT_BITS_MAX else as_repr(value)
    if isinstance(value, str):
        return text(value)
    if isinstance(value, float):
        is_finite = value - value == 0
        return value if is_finite else repr(value)
    if isinstance(value, type) or depth >= DEPTH_MAX:
        return as_repr(value)
    try:
        if isinstance(value, dict):
            return {_name(name): shown(it, depth + 1) for name, it in value.items()}
        if isinstance(value, (list, tuple)):
            return [shown(it, depth + 1) for it in value]
        return shown(plain(value, "value"), depth + 1)
    except Exception:
        return as_repr(value)


def _name(name: Any) -> str:
    if isinstance(name, str):
        return text(name)
    try:
        return _cut(str(name))
    except Exception:
        return as_repr(name)


def text(value: str) -> str:
    """A text without lone surrogates, which UTF-8 does not have."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return value.encode("utf-8", "backslashreplace").decode()
    return value


def as_repr(value: Any) -> str:
    """The `repr` of a value, which may fail."""
    try:
        found = repr(value)
    except Exception:
        found = f"<{type(value).__qualname__}>"
    return _cut(found)


def message_of(error: BaseException | None) -> str:
    """The text of an exception, whose `str` may fail."""
    try:
        found = str(error)
    except Exception:
        return as_repr(error)
    return _cut(found)


def _cut(found: str) -> str:
    if len(found) > REPR_CHARS_MAX:
        found = found[:REPR_CHARS_MAX] + "…"
    return text(found)


def fits(value: Any) -> bool:
    """Whether a line can hold a value: it is neither too long nor nested too deep."""
    left = _CHARS_MAX
    todo: list[tuple[Any, int]] = [(value, 1)]
    while todo and left >= 0:
        it, depth = todo.pop()
        if it is None or isinstance(it, (bool, float)):
            continue
        if isinstance(it, str):
            left -= len(it)
        elif isinstance(it, int):
            left -= it.bit_length() // 3
        elif isinstance(it, (dict, list, tuple)):
            left -= 30 * len(it)
            if depth > _DEPTH_OF_LINES:
                return False
            if left < 0:
                break
            if isinstance(it, dict):
                todo += ((name, depth) for name in it if isinstance(name, str))
            todo += ((item, depth + 1) for item in (it.values() if isinstance(it, dict) else it))
        else:
            # Its size is known when it is converted.
            left = -1
    return left >= 0 or _is_short(value)


def _is_short(value: Any) -> bool:
    import json

    try:
        found = json.dumps(value, ensure_ascii=False, default=lambda it: plain(it, "value"))
    except Exception:
        # Recording it says what is wrong.
        return True
    if len(found) <= _CHARS_MAX:
        return True
    if len(found) > _LINE_BYTES_MAX:
        return False
    # A payload is a text of JSON in JSON.
    found = json.dumps(found, ensure_ascii=False)
    return len(found.encode("utf-8", "surrogatepass")) <= _LINE_BYTES_MAX


def shortened(value: Any) -> Any:
    """A value that a line can hold: texts that are too long are cut, and the rest is shown."""
    if isinstance(value, dict):
        # Arguments keep their names.
        found = {_name(name): _short(it) for name, it in value.items()}
        return found if fits(found) else as_repr(found)
    return _short(value)


def _short(value: Any) -> Any:
    if isinstance(value, str):
        if len(value) <= _CHARS_MAX:
            return text(value)
        return f"{text(value[:REPR_CHARS_MAX])}… ({len(value)} characters)"
    found = shown(value)
    if fits(found):
        return found
    return f"{as_repr(value)} (it is too large for the log)"


def warn(what: str, error: BaseException) -> None:
    """Tells of a failure to record, which must not be a failure of the program."""
    try:
        import logging

        message = f"{type(error).__name__}: {message_of(error)}"
        logging.getLogger("decklog").warning("%s: %s", what, message)
    except Exception:
        pass
