"""What was said, as a turn and a message: in the form in which importers record it."""

from __future__ import annotations

import hashlib
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import Literal

NAMESPACE = uuid.UUID("9e2e0448-885d-554a-ae4d-caca47215e7c")
"""The namespace of derived ids, as of importers."""
TITLE_CHARS_MAX = 120
TOOL_ERROR = "tool_error"
"""The error class of a tool whose failure has no other."""


@dataclass
class Call:
    """A tool call that a model asked for."""

    id: str
    name: str
    args: Any


@dataclass
class Result:
    """The result of a tool, as the model gets it."""

    call_id: str
    text: str
    is_failed: bool = False


@dataclass
class Said:
    """A message."""

    role: Literal["system", "user", "assistant", "tool"]
    texts: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    result: Result | None = None
    others: list[str] = field(default_factory=list)
    """Types of contents without a place of their own, such as images."""
    message_id: str | None = None
    """The id that its program gave it."""
    tool_name: str | None = None

    def digest(self) -> str:
        """The same for the same words."""
        said = hashlib.sha256()
        parts = [self.role, *(text.strip() for text in self.texts), *self.others]
        for call in self.calls:
            parts += ["call", call.id, call.name]
        for part in parts:
            data = part.encode("utf-8", "replace")
            said.update(len(data).to_bytes(8, "little"))
            said.update(data)
        return said.hexdigest()

    def key(self, anchor: str, nth: int) -> str:
        """Its id in a conversation. `anchor` is the answer before it; `nth` counts those with the
        same words since then."""
        if self.result is not None:
            return derived(anchor, f"result:{self.result.call_id}")
        return derived(anchor, f"{self.digest()}:{nth}")

    def turn(self) -> dict[str, Any]:
        """The kind and the content of its turn."""
        texts = [*self.texts, *(f"[tool_use {it.name} {it.id}]" for it in self.calls)]
        if self.result is not None:
            texts.append(self.result.text)
        kind = self.role
        if self.reasoning and not (texts or self.others):
            return {"kind": "sysinfo", "content": "[reasoning]"}
        return {"kind": kind, "content": self._joined(texts)}

    def message(self) -> dict[str, Any]:
        """The fields of its message. The first call has fields of its own."""
        fields: dict[str, Any] = {"role": self.role}
        texts = list(self.texts)
        if self.calls:
            first, *rest = self.calls
            texts += [f"[tool_use {it.name} {it.id}]" for it in rest]
            fields.update(tool_name=first.name, tool_call_id=first.id, tool_args=first.args)
        if self.result is not None:
            fields.update(tool_call_id=self.result.call_id, tool_result=self.result.text)
            if self.tool_name:
                fields["tool_name"] = self.tool_name
            if self.result.is_failed:
                fields["error_type"] = TOOL_ERROR
        is_bare = not self.calls and self.result is None
        fields["content"] = self._joined(texts) if texts or is_bare else ""
        if self.reasoning:
            fields["reasoning"] = "\n\n".join(self.reasoning)
        return fields

    def _joined(self, texts: list[str]) -> str:
        found = "\n\n".join(text for text in texts if text)
        return found or "\n\n".join(f"[{it}]" for it in dict.fromkeys(self.others))

    def title(self) -> str | None:
        """The title of a conversation that begins with this prompt."""
        words = " ".join(" ".join(self.texts)[: 10 * TITLE_CHARS_MAX].split())
        if len(words) > TITLE_CHARS_MAX:
            words = words[: TITLE_CHARS_MAX - 1] + "…"
        return words or None


def named(scope: str, name: str) -> str:
    """The id of what has this name: itself if it is a UUID."""
    try:
        return str(uuid.UUID(name))
    except ValueError:
        return str(uuid.uuid5(NAMESPACE, f"{scope}:{name}"))


def derived(before: str, name: str) -> str:
    """An id that follows from another one."""
    return str(uuid.uuid5(uuid.UUID(before), name))
