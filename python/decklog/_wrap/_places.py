"""Where conversations go on."""

from __future__ import annotations

import hashlib
import uuid
from collections import OrderedDict
from typing import Any, NamedTuple

_NAMESPACE = uuid.UUID("9e2e0448-885d-554a-ae4d-caca47215e7c")
"""The namespace of derived ids."""

REMEMBERED_MAX = 4096
"""Maximum number of answers, and of calls without an outcome, that a client remembers. A request that
continues a forgotten answer starts a new conversation."""

_SYSTEMS_MAX = 64
"""Maximum number of system messages of a conversation that are remembered."""


class Place(NamedTuple):
    """Where a conversation goes on."""

    conversation: str
    turn: str
    key: str
    systems: str
    """The hashes of the system messages that the conversation has."""


class Recent(OrderedDict[str, Any]):
    """The latest entries, up to a maximum."""

    def put(self, key: str, value: Any) -> None:
        """Adds an entry, or makes it the latest one."""
        self[key] = value
        self.move_to_end(key)
        while len(self) > REMEMBERED_MAX:
            self.popitem(last=False)


def with_system(systems: str, content: str) -> str:
    """The hashes of system messages, with that of one more."""
    digest = hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    known = systems.split()
    return systems if digest in known else " ".join([*known, digest][-_SYSTEMS_MAX:])


def conversation_id(name: str) -> str:
    """The id of a conversation: the name itself if it is a UUID."""
    try:
        return str(uuid.UUID(name))
    except ValueError:
        return str(uuid.uuid5(_NAMESPACE, f"wrap:conversation:{name}"))
