"""Values of other classes as values that JSON has."""

from __future__ import annotations

import sys
from typing import Any

from .errors import InvalidInputError

ITEMS_MAX = 8 << 20
"""A line of 16 MiB holds no more."""

NUMBERS = frozenset(
    """
    active_conversations applied_at at attempts chat_id compressed confidence
    context_utilization context_utilization_count context_utilization_sum conversations
    cost_count cost_nano_usd cost_usd created_at decided_at ended_at error_count errors
    failure_count handoff_steps id latency_count latency_ms latency_ms_sum locked_at
    message_count message_date messages parent_id part requests sequence started_at
    through_seq tokens_cache_read tokens_cache_write tokens_cache_write_1h tokens_in
    tokens_out tokens_reasoning total_cost_usd total_latency_ms total_tokens_in
    total_tokens_out update_id updated_at
    """.split()
)
"""The fields of numbers."""


def plain(value: Any, field: str) -> Any:
    """A value as a text, a number, a boolean, a list or a dict."""
    as_dict = _fields(value)
    if as_dict is not None:
        return as_dict
    kind = type(value)
    for module, name, convert in _CLASSES:
        # A value of a class has its module loaded.
        of = getattr(sys.modules.get(module), name, None)
        if of is not None and isinstance(value, of):
            return convert(value, field)
    if hasattr(kind, "__fspath__"):
        return _path(value, field)
    if isinstance(value, (set, frozenset)):
        return sorted(value, key=repr)
    if isinstance(value, (bytes, bytearray, memoryview)):
        raise InvalidInputError(
            f"{field}: a value of type {kind.__name__} has no form in JSON: decode it first",
            field=field,
        )
    if hasattr(kind, "_value2member_map_"):
        return value.value
    if hasattr(value, "keys") and hasattr(value, "__getitem__"):
        return {name: value[name] for name in value.keys()}
    if hasattr(kind, "tolist") and hasattr(value, "dtype"):
        return _array(value, field)
    if hasattr(value, "__iter__") and hasattr(value, "__len__"):
        _check_length(value, field)
        return list(value)
    if hasattr(kind, "__index__"):
        return int(kind.__index__(value))
    raise InvalidInputError(
        f"{field}: a value of type {kind.__qualname__} has no form in JSON:"
        " give text, numbers, lists and dicts",
        field=field,
    )


def fields(record: Any) -> dict[str, Any]:
    """The fields of a record that is an object."""
    found = _fields(record)
    if found is None and hasattr(record, "keys") and hasattr(record, "__getitem__"):
        found = {name: record[name] for name in record.keys()}
    if found is None:
        raise InvalidInputError(
            f"a record of type {type(record).__qualname__} has no fields:"
            " give a dict, a dataclass or a pydantic model"
        )
    return found


def _fields(value: Any) -> dict[str, Any] | None:
    kind = type(value)
    if hasattr(kind, "_decklog"):
        return dict(value.to_dict())
    if hasattr(kind, "__dataclass_fields__"):
        return {name: getattr(value, name) for name in kind.__dataclass_fields__}
    # pydantic, and the models of the SDKs of OpenAI and Anthropic.
    if hasattr(kind, "model_dump"):
        return dict(value.model_dump(mode="json"))
    if hasattr(kind, "_asdict"):
        return dict(value._asdict())
    return None


def _datetime(value: Any, field: str) -> Any:
    if value != value:
        # pandas.NaT
        return None
    offset = value.utcoffset()
    if offset is None:
        raise InvalidInputError(
            f"{field}: {value!r} has no time zone: give datetime.now(timezone.utc), for example",
            field=field,
        )
    if offset.microseconds or offset.seconds % 60:
        # RFC 3339 has minutes at most.
        value = value.astimezone(sys.modules["datetime"].timezone.utc)
    return _iso(value, field).replace("+00:00", "Z")


def _iso(value: Any, _: str) -> str:
    return str(value.isoformat())


def _text(value: Any, _: str) -> str:
    return str(value)


def _path(value: Any, field: str) -> Any:
    """A path as text."""
    path = value.__fspath__()
    return path if isinstance(path, str) else plain(path, field)


def _decimal(value: Any, field: str) -> Any:
    if field in NUMBERS:
        if value.is_finite() and value == value.to_integral_value():
            return int(value)
        number = float(value)
        if type(value)(repr(number)) == value:
            return number
    return str(value)


def _array(value: Any, field: str) -> Any:
    """An array or a number of numpy, or of what has the same methods."""
    if getattr(value.dtype, "kind", "") in ("m", "M") and not hasattr(value.dtype, "tz"):
        raise InvalidInputError(
            f"{field}: a {value.dtype} has no time zone: give datetime.now(timezone.utc), for example",
            field=field,
        )
    size = getattr(value, "size", 0)
    if isinstance(size, int) and size > ITEMS_MAX:
        raise _too_many(size, field)
    found = value.tolist()
    # A longdouble stays what it is.
    return float(found) if type(found) is type(value) else found


def _check_length(value: Any, field: str) -> None:
    try:
        length = len(value)
    except OverflowError:
        length = sys.maxsize
    if length > ITEMS_MAX:
        raise _too_many(length, field)


def _too_many(length: int, field: str) -> InvalidInputError:
    return InvalidInputError(
        f"{field}: {length} items do not fit into a line, of 16 MiB: give a part of them", field=field
    )


_CLASSES = (
    ("datetime", "datetime", _datetime),
    ("datetime", "date", _iso),
    ("datetime", "time", _iso),
    ("uuid", "UUID", _text),
    ("decimal", "Decimal", _decimal),
)
