"""Requests and answers of Anthropic: Messages."""

from __future__ import annotations

from typing import Any

from ._said import (
    Answer,
    Asked,
    Assembler,
    Call,
    Said,
    get,
    joined,
    listed,
    number,
    plain,
    shown,
    text,
    tokens,
)


class Anthropic:
    """How Anthropic writes requests and answers."""

    name = "anthropic"

    def asked(self, path: str, body: Any, /) -> Asked | None:
        """The request to a path of the API; `None` if it is no request to a model."""
        if not path.endswith("/v1/messages"):
            return None
        said = []
        system = Said("system")
        _add_blocks(system, get(body, "system"))
        if joined(system.texts):
            said.append(system)
        for message in listed(get(body, "messages")):
            said += _message(message)
        return Asked("messages", said, text(get(body, "model")))

    def answered(self, what: str, response: Any, /) -> Answer:
        """The answer in a response."""
        return _answer(
            response, get(response, "content"), get(response, "stop_reason"), get(response, "usage")
        )

    def assembler(self, what: str, /) -> Assembler:
        """What puts the answer of a stream together."""
        return _Stream()


def _message(message: Any) -> list[Said]:
    """A message. Each tool result in it becomes a message of its own, before the rest."""
    if get(message, "role") in ("assistant", "system"):
        said = Said(get(message, "role"))
        _add_blocks(said, get(message, "content"))
        return [said]
    content = get(message, "content")
    found = []
    rest = Said("user")
    for block in [content] if isinstance(content, str) else listed(content):
        if get(block, "type") == "tool_result":
            found.append(_result(block))
        else:
            _add_blocks(rest, [block])
    return [*found, rest] if joined(rest.texts) or rest.others or not found else found


def _result(block: Any) -> Said:
    said = Said(
        "tool", answers=text(get(block, "tool_use_id")), is_failure=get(block, "is_error") is True
    )
    _add_blocks(said, get(block, "content"))
    return said


def _add_blocks(said: Said, content: Any) -> None:
    if isinstance(content, str):
        said.texts.append(content)
    for block in listed(content):
        kind = text(get(block, "type"))
        if isinstance(block, str):
            said.texts.append(block)
        elif kind == "text":
            said.texts.append(text(get(block, "text")))
        elif kind == "thinking":
            said.reasoning.append(text(get(block, "thinking")))
        elif kind.endswith("tool_use"):
            given = get(block, "input")
            args = given if isinstance(given, str) else plain(given)
            said.calls.append(Call(text(get(block, "id")), text(get(block, "name")), args or {}))
        elif kind.endswith("tool_result") and said.role == "assistant":
            _add_outcome(said, block)
        elif kind:
            said.others.append(kind)


def _add_outcome(said: Said, block: Any) -> None:
    """Adds the outcome of a tool that the vendor ran."""
    for call in said.calls:
        if call.id == get(block, "tool_use_id"):
            call.outcome = plain(get(block, "content"))
            is_failure = get(block, "is_error") is True
            is_failure = is_failure or text(get(block, "content", "type")).endswith("_error")
            call.status = "failed" if is_failure else "completed"


def _answer(response: Any, content: Any, reason: Any, usage: Any) -> Answer:
    said = Said("assistant")
    _add_blocks(said, content)
    answer = Answer([said], text(get(response, "model")), id=text(get(response, "id")))
    if get(usage, "input_tokens") is not None:
        read = number(get(usage, "cache_read_input_tokens"))
        write = number(get(usage, "cache_creation_input_tokens"))
        answer.tokens = tokens(
            number(get(usage, "input_tokens")) + read + write,
            number(get(usage, "output_tokens")),
            read=read,
            write=write,
            write_1h=number(get(usage, "cache_creation", "ephemeral_1h_input_tokens")),
            reasoning=number(get(usage, "output_tokens_details", "thinking_tokens")),
        )
        answer.metadata["usage"] = plain(usage)
    if text(reason):
        answer.metadata["finish_reason"] = reason
    if answer.id:
        answer.metadata["response_id"] = answer.id
    return answer


class _Stream:
    """The events of a message."""

    def __init__(self) -> None:
        self._start: dict[str, Any] = {}
        self._usage: dict[str, Any] = {}
        self._reason: Any = None
        self._blocks: dict[int, dict[str, Any]] = {}
        self._pieces: dict[int, list[str]] = {}

    def add(self, event: Any, /) -> None:
        """Adds an event."""
        kind = get(event, "type")
        at = number(get(event, "index"))
        if kind == "message_start":
            message = get(event, "message")
            self._start = {name: get(message, name) for name in ("id", "model")}
            self._count(get(message, "usage"))
        elif kind == "content_block_start":
            self._blocks[at] = plain(get(event, "content_block"))
        elif kind == "content_block_delta":
            delta = get(event, "delta")
            piece = (text(get(delta, name)) for name in ("text", "partial_json", "thinking"))
            self._pieces.setdefault(at, []).append(next(filter(None, piece), ""))
        elif kind == "message_delta":
            self._reason = get(event, "delta", "stop_reason")
            self._count(get(event, "usage"))

    def _count(self, usage: Any) -> None:
        # Later counts are totals, too.
        self._usage |= {name: it for name, it in (plain(usage) or {}).items() if it is not None}

    def is_complete(self) -> bool:
        """Whether the answer is whole."""
        return bool(text(self._reason))

    def answer(self) -> Answer:
        """The answer as far as it was received."""
        blocks = [self._block(at) for at in sorted(self._blocks)]
        return _answer(self._start, blocks, self._reason, self._usage)

    def _block(self, at: int) -> dict[str, Any]:
        block = dict(self._blocks[at])
        pieces = "".join(self._pieces.get(at, ()))
        name = {"text": "text", "thinking": "thinking"}.get(shown(block.get("type")))
        if name is not None:
            block[name] = text(block.get(name)) + pieces
        elif pieces:
            block["input"] = pieces
        return block
