"""What the classes of records have in common."""

from __future__ import annotations

from typing import Any


class Record:
    """A record. Compares and prints by its fields."""

    def to_dict(self) -> dict[str, Any]:
        """The fields that are set, by the names that the files use.

        >>> from decklog import Event
        >>> Event(event_type="worker.spawned").to_dict()
        {'event_type': 'worker.spawned'}
        """
        return {name: value for name, value in self.__dict__.items() if value is not None}

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in self.to_dict().items())
        return f"{type(self).__name__}({fields})"
