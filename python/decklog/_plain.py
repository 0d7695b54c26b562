"""Values of other classes as values that JSON has."""

from __future__ import annotations

from typing import Any

from .errors import InvalidInputError


def plain(value: Any, field: str) -> Any:
    """A value as a text, a number, a boolean, a list or a dict."""
    as_dict = _fields(value)
    if as_dict is not None:
        return as_dict
    kind = type(value)
    module = kind.__module__
    if module == "datetime":
        if getattr(value, "tzinfo", True) is None and hasattr(value, "hour"):
            raise InvalidInputError(
                f"{field}: {value!r} has no time zone: give datetime.now(timezone.utc), for example",
                field=field,
            )
        if hasattr(value, "isoformat"):
            return value.isoformat().replace("+00:00", "Z")
    if module in ("uuid", "pathlib", "decimal") or hasattr(value, "__fspath__"):
        return str(value)
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
    if hasattr(value, "__iter__") and hasattr(value, "__len__"):
        return list(value)
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
