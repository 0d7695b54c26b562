"""Messages of LangChain as what was said."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

from ._said import Call, Result, Said
from ._shown import shown

if TYPE_CHECKING:
    from typing import Literal

    Role = Literal["system", "user", "assistant", "tool"]

ROLES: dict[str, Role] = {
    "ai": "assistant",
    "assistant": "assistant",
    "developer": "system",
    "model": "assistant",
    "system": "system",
    "tool": "tool",
}
TEXTS = ("text", "input_text", "output_text")
CALLS = ("tool_call", "tool_use", "function_call", "tool_call_chunk", "input_json_delta")
"""Blocks of calls, which messages have in `tool_calls` too."""


def said(message: BaseMessage) -> Said:
    """What a message says."""
    found = Said(_role(message), message_id=message.id)
    _content(message.content, found)
    if isinstance(message, AIMessage):
        thought = message.additional_kwargs.get("reasoning_content")
        if isinstance(thought, str) and thought and not found.reasoning:
            found.reasoning.append(thought)
        found.calls = [*_calls(message)]
    if isinstance(message, (ToolMessage, FunctionMessage)):
        found.tool_name = message.name
        found.result = Result(
            call_id=getattr(message, "tool_call_id", None) or message.name or "unknown",
            text=result_text(message),
            is_failed=getattr(message, "status", None) == "error",
        )
        found.texts, found.others = [], []
    return found


def _role(message: BaseMessage) -> Role:
    if isinstance(message, SystemMessage):
        return "system"
    if isinstance(message, HumanMessage):
        return "user"
    if isinstance(message, AIMessage):
        return "assistant"
    if isinstance(message, (ToolMessage, FunctionMessage)):
        return "tool"
    if isinstance(message, ChatMessage):
        return ROLES.get(message.role, "user")
    return ROLES.get(message.type, "user")


def _content(content: Any, to: Said) -> None:
    for block in [content] if isinstance(content, str) else content:
        if isinstance(block, str):
            if block:
                to.texts.append(block)
            continue
        kind = block.get("type") or "block"
        if kind in TEXTS:
            if block.get("text"):
                to.texts.append(block["text"])
        elif kind in ("thinking", "reasoning", "reasoning_content"):
            to.reasoning += _thoughts(block)
        elif kind not in CALLS:
            to.others.append(kind)


def _thoughts(block: dict[str, Any]) -> list[str]:
    """The texts of a block of reasoning, which differs by provider."""
    for name in ("thinking", "reasoning", "text"):
        if isinstance(block.get(name), str):
            return [block[name]] if block[name] else []
    parts = block.get("summary") or block.get("reasoning_content") or []
    if isinstance(parts, dict):
        parts = [parts]
    texts = (it.get("text") for it in parts if isinstance(it, dict))
    return [text for text in texts if isinstance(text, str) and text]


def _calls(message: AIMessage) -> list[Call]:
    # The model's calls without an id get one that is the same each time.
    calls = [(it.get("id"), it["name"], it["args"]) for it in message.tool_calls]
    calls += [
        (it.get("id"), it.get("name") or "unknown", it.get("args") or "")  # type: ignore[misc]
        for it in message.invalid_tool_calls
    ]
    return [
        Call(id or f"{message.id or 'call'}:{nth}", name, args)
        for nth, (id, name, args) in enumerate(calls)
    ]


def result_text(message: BaseMessage) -> str:
    """The text of a tool's result; its JSON, if it has other content."""
    content = message.content
    if isinstance(content, str):
        return content
    found = Said("tool")
    _content(content, found)
    if found.others or not found.texts:
        return json.dumps(shown(content), ensure_ascii=False)
    return "\n\n".join(found.texts)


def tool_message(output: Any) -> ToolMessage | None:
    """The message in what a tool returned."""
    if isinstance(output, ToolMessage):
        return output
    # A `Command` of LangGraph.
    update = getattr(output, "update", None)
    messages = update.get("messages") if isinstance(update, dict) else None
    if isinstance(messages, list):
        return next((it for it in messages if isinstance(it, ToolMessage)), None)
    return None


def last_results(state: Any) -> list[Said]:
    """The results of tools at the end of the state of a graph, which no model was told."""
    messages = state.get("messages") if isinstance(state, dict) else None
    found: list[Said] = []
    for message in reversed(messages if isinstance(messages, list) else []):
        if not isinstance(message, ToolMessage):
            break
        found.insert(0, said(message))
    return found


def tokens(usage: Any) -> dict[str, int]:
    """The tokens of an answer. No part is larger than its sum."""
    if not isinstance(usage, dict):
        return {}
    given = usage.get("input_token_details") or {}
    made = usage.get("output_token_details") or {}
    in_, out = _count(usage, "input_tokens"), _count(usage, "output_tokens")
    hour = _count(given, "ephemeral_1h_input_tokens")
    # Anthropic's are counted by their lifetime or together.
    by_lifetime = hour + _count(given, "ephemeral_5m_input_tokens")
    write = min(max(_count(given, "cache_creation"), by_lifetime), in_)
    parts = {
        "tokens_cache_write": write,
        "tokens_cache_write_1h": min(hour, write),
        "tokens_cache_read": min(_count(given, "cache_read"), in_ - write),
        "tokens_reasoning": min(_count(made, "reasoning"), out),
    }
    found = {"tokens_in": in_, "tokens_out": out}
    return found | {name: count for name, count in parts.items() if count}


def _count(counts: dict[str, Any], name: str) -> int:
    count = counts.get(name)
    return max(int(count), 0) if isinstance(count, (int, float)) else 0


def old_usage(output: Any) -> dict[str, Any] | None:
    """The tokens as models without `usage_metadata` report them."""
    usage = output.get("token_usage") or output.get("usage") if isinstance(output, dict) else None
    if not isinstance(usage, dict):
        return None
    names = {"input_tokens": "prompt_tokens", "output_tokens": "completion_tokens"}
    found = {name: usage.get(name, usage.get(old)) for name, old in names.items()}
    return found if any(it is not None for it in found.values()) else None
