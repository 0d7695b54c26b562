"""Any value as one that JSON has."""

from __future__ import annotations

from typing import Any

from ._plain import plain

DEPTH_MAX = 32
"""Deeper values are shown as text."""
REPR_CHARS_MAX = 10_000
"""The rest of a longer `repr` is left out."""


def shown(value: Any, depth: int = 0) -> Any:
    """A value without what has no form in JSON: that is shown as the text of its `repr`.

    >>> shown({"at": 1.5, "lock": object, "not a number": float("nan")})
    {'at': 1.5, 'lock': "<class 'object'>", 'not a number': 'nan'}
    """
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, str):
        return text(value)
    if isinstance(value, float):
        is_finite = value - value == 0
        return value if is_finite else repr(value)
    if isinstance(value, type) or depth >= DEPTH_MAX:
        return as_repr(value)
    try:
        if isinstance(value, dict):
            return {text(str(name)): shown(it, depth + 1) for name, it in value.items()}
        if isinstance(value, (list, tuple)):
            return [shown(it, depth + 1) for it in value]
        return shown(plain(value, "value"), depth + 1)
    except Exception:
        return as_repr(value)


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
    if len(found) > REPR_CHARS_MAX:
        found = found[:REPR_CHARS_MAX] + "…"
    return text(found)
