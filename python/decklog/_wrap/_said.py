"""What is said in a request and its answer, in one form for all vendors.

Values are read from dicts and from the objects of the SDKs alike, and never changed. A list that can
be read only once is left to the SDK.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

Role = Literal["system", "user", "assistant", "tool"]

NAME_BYTES_MAX = 1024
"""Names that are longer are left out."""


def get(value: Any, *path: str) -> Any:
    """A member of a dict or an object, or of a member of it; `None` if there is none."""
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)
    return value


def text(value: Any) -> str:
    """The value if it is a text; otherwise an empty one."""
    return value if isinstance(value, str) else ""


def listed(value: Any) -> Sequence[Any]:
    """The value if it is a list; otherwise an empty one."""
    return value if isinstance(value, (list, tuple)) else ()


def number(value: Any) -> int:
    """The value if it is a count; otherwise 0."""
    return max(value, 0) if isinstance(value, int) else 0


def plain(value: Any) -> Any:
    """The value as JSON has it. Members that were not set are left out."""
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json", exclude_none=True, warnings=False)
    if isinstance(value, Mapping):
        return {str(name): plain(it) for name, it in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(it) for it in value]
    if value is None or isinstance(value, (str, int, float)):
        return value
    return repr(value)


def shown(value: Any) -> str:
    """A text as it is, another value as JSON."""
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(plain(value), ensure_ascii=False)


def is_json(value: str) -> bool:
    """Whether a text is JSON."""
    try:
        json.loads(value)
    except ValueError:
        return False
    return True


def joined(texts: Sequence[str]) -> str:
    """Texts as one."""
    return "\n\n".join(it for it in texts if it)


@dataclass(slots=True)
class Call:
    """A tool call that a model asked for."""

    id: str
    name: str
    args: Any
    """A text with JSON, or a value."""
    outcome: Any = None
    """What the vendor's own tool returned."""
    status: Literal["requested", "completed", "failed"] = "requested"


@dataclass(slots=True)
class Said:
    """A message, or one of the tool results that a message has."""

    role: Role
    texts: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    answers: str | None = None
    """The call whose result this is."""
    is_failure: bool = False
    """Whether the tool failed."""
    others: list[str] = field(default_factory=list)
    """The types of parts that are not stored, such as images."""

    def content(self) -> str:
        """The content of the turn."""
        calls = [f"[tool_use {it.name} {it.id}]" for it in self.calls]
        return joined([*self.texts, *calls]) or self._types()

    def fields(self) -> dict[str, Any]:
        """The fields of the message that say what was said."""
        if self.answers is not None:
            result = joined(self.texts) or self._types()
            return {"content": "", "tool_call_id": self.answers, "tool_result": result}
        calls = [f"[tool_use {it.name} {it.id}]" for it in self.calls[1:]]
        fields: dict[str, Any] = {"content": joined([*self.texts, *calls])}
        if self.calls:
            first = self.calls[0]
            fields |= {"tool_name": first.name, "tool_call_id": first.id, "tool_args": first.args}
        elif not fields["content"]:
            fields["content"] = self._types()
        if reasoning := joined(self.reasoning):
            fields["reasoning"] = reasoning
        return fields

    def _types(self) -> str:
        return joined([f"[{it}]" for it in dict.fromkeys(self.others)])


def key_after(before: str, role: str, fields: Mapping[str, Any]) -> str:
    """The key of a message after another one. It depends on what was said alone, so that the same
    history has the same keys in each request."""
    said = hashlib.sha256(before.encode())
    for name in ("content", "tool_call_id", "tool_result"):
        part = str(fields.get(name) or "").strip().encode("utf-8", "surrogatepass")
        said.update(b"%d:" % len(part))
        said.update(part)
    said.update(role.encode())
    return said.hexdigest()


def tokens(
    total: int, out: int, *, read: int = 0, write: int = 0, write_1h: int = 0, reasoning: int = 0
) -> dict[str, int]:
    """The token fields of an answer. `total` includes the cached ones. A part that is 0 is left out."""
    write = min(write, total)
    parts = {
        "tokens_cache_write": write,
        "tokens_cache_write_1h": min(write_1h, write),
        "tokens_cache_read": min(read, total - write),
        "tokens_reasoning": min(reasoning, out),
    }
    counts = {"tokens_in": total, "tokens_out": out}
    return counts | {name: count for name, count in parts.items() if count > 0}


@dataclass(slots=True)
class Asked:
    """A request to a model."""

    what: str
    """The kind of the request, by which its answer is read."""
    said: list[Said]
    model: str = ""
    after: str = ""
    """The id of the response that it continues."""


@dataclass(slots=True)
class Answer:
    """The answer of a model."""

    choices: list[Said] = field(default_factory=list)
    model: str = ""
    tokens: dict[str, int] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)
    id: str = ""
    error: tuple[str, str] | None = None
    """The type and the message of an error that the answer reports."""


class Assembler(Protocol):
    """Puts an answer together from the chunks of a stream."""

    def add(self, chunk: Any, /) -> None:
        """Adds a chunk."""

    def answer(self) -> Answer:
        """The answer as far as it was received."""
        ...

    def is_complete(self) -> bool:
        """Whether the answer is whole. Some close a stream before its very end."""
        ...


class Vendor(Protocol):
    """How a vendor writes requests and answers."""

    @property
    def name(self) -> str:
        """The vendor of the calls."""
        ...

    def asked(self, path: str, body: Any, /) -> Asked | None:
        """The request to a path of the API; `None` if it is no request to a model."""

    def answered(self, what: str, response: Any, /) -> Answer:
        """The answer in a response."""
        ...

    def assembler(self, what: str, /) -> Assembler:
        """What puts the answer of a stream together."""
        ...
