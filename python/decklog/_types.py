"""Types of arguments. Read by type checkers only."""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Mapping
from typing import Any, ClassVar, Protocol, Union

from typing_extensions import TypeAlias

from ._record import Record


class Dataclass(Protocol):
    """An object of a dataclass."""

    __dataclass_fields__: ClassVar[dict[str, Any]]


class SupportsModelDump(Protocol):
    """A model of pydantic, or of an SDK."""

    def model_dump(self, *, mode: str = ...) -> dict[str, Any]: ...


class SupportsAsDict(Protocol):
    """A named tuple."""

    def _asdict(self) -> dict[str, Any]: ...


RecordLike: TypeAlias = Union[
    Mapping[str, Any], Record, Dataclass, SupportsModelDump, SupportsAsDict
]
"""What can be recorded: a dict, a record, a dataclass, a pydantic model or a named tuple."""

Id: TypeAlias = Union[str, uuid.UUID]
"""An id."""

Time: TypeAlias = Union[int, str, datetime.date]
"""A time: epoch milliseconds, RFC 3339, a UTC day, or a datetime with a time zone."""
