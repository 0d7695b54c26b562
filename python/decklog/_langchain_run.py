"""A run of LangChain, and what is known about its answer."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ._langchain_messages import old_usage, said, tokens
from ._said import Said

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from ._talk import Heard, Talk

NAME = "langchain"
CANCELLED = "cancelled"
"""The error class of what was cancelled."""


@dataclass
class Run:
    """A run of a chain, a model or a tool."""

    parent: Run | None
    talk: Talk
    """The conversation of the runs within it."""
    name: str = ""
    began: float = field(default_factory=time.perf_counter)
    place: Heard | None = None
    """Of a model: where its answer belongs."""
    model: str | None = None
    vendor: str = NAME
    turn: str = ""
    """Of a tool: the turn that asked for the call."""
    call_id: str = ""
    within: Talk | None = None
    """Of a tool: the conversation that it belongs to."""

    def latency_ms(self) -> int:
        """How long it took until now."""
        return round((time.perf_counter() - self.began) * 1000)


def facts_of(run: Run, run_id: UUID, first: Any, response: Any) -> dict[str, Any]:
    """What is known about an answer besides its content: the fields of its message."""
    message = getattr(first, "message", None)
    about = dict(getattr(message, "response_metadata", None) or {})
    output = getattr(response, "llm_output", None) or {}
    usage = getattr(message, "usage_metadata", None) or old_usage(output)
    model = about.get("model_name") or about.get("model") or output.get("model_name")
    facts: dict[str, Any] = {
        "latency_ms": run.latency_ms(),
        "vendor": run.vendor,
        "metadata": {"run_id": str(run_id)},
        **tokens(usage),
    }
    model = model or run.model
    if model:
        facts["model_used"] = str(model)
    more = {"usage": usage, "response": about or getattr(first, "generation_info", None)}
    facts["inference_metadata"] = {name: it for name, it in more.items() if it}
    return facts


def now() -> int:
    """The time, in epoch milliseconds."""
    return time.time_ns() // 1_000_000


def root_of(run: Run) -> Run:
    """The outermost run."""
    while run.parent is not None:
        run = run.parent
    return run


def calls_in(generation: Any) -> Sequence[Any]:
    """The tool calls of an answer."""
    return getattr(getattr(generation, "message", None), "tool_calls", None) or ()


def spoken_in(generation: Any) -> Said:
    """What an answer says."""
    if generation is None:
        return Said("assistant")
    message = getattr(generation, "message", None)
    found = Said("assistant", texts=[generation.text]) if message is None else said(message)
    found.role = "assistant"
    return found


def kind_of(error: BaseException) -> str:
    """The class of an error."""
    is_cancelled = isinstance(error, (asyncio.CancelledError, GeneratorExit, KeyboardInterrupt))
    return CANCELLED if is_cancelled else type(error).__name__


def is_interrupt(error: BaseException) -> bool:
    """Whether a graph was interrupted, for instance to ask a person, and will go on."""
    return any(it.__name__ == "GraphBubbleUp" for it in type(error).__mro__)


def text_of(error: BaseException) -> str:
    """The message of an error."""
    try:
        return str(error) or type(error).__name__
    except Exception:
        return type(error).__name__
