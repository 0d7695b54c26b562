"""Models, tools and agents of the tests of the LangChain handler."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

pytest.importorskip("langchain_core")

import langchain_core.version
from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.language_models.fake_chat_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.tools import tool

import decklog
from decklog.langchain import CallbackHandler


def usage(tokens_in: int, tokens_out: int, **more: Any) -> Any:
    counts = {"input_tokens": tokens_in, "output_tokens": tokens_out}
    return {**counts, "total_tokens": tokens_in + tokens_out, **more}


class Model(FakeMessagesListChatModel):
    """Gives its answers one after the other; one that is an exception is raised."""

    errors: dict[int, Any] = {}
    asked: list[list[BaseMessage]] = []

    def bind_tools(self, tools: Any, **_: Any) -> Any:
        return self

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        self.asked.append(messages)
        nth = len(self.asked) - 1
        if nth in self.errors:
            raise self.errors[nth]
        return super()._generate(messages, *args, **kwargs)


def model(*answers: BaseMessage, errors: dict[int, Any] | None = None) -> Model:
    return Model(responses=[*answers], errors=errors or {}, asked=[])


def asks(name: str, args: dict[str, Any], id: str, text: str = "") -> AIMessage:
    call = {"name": name, "args": args, "id": id, "type": "tool_call"}
    return AIMessage(text, tool_calls=[call], usage_metadata=usage(100, 10))


@tool
def get_weather(city: str) -> str:
    """The weather of a city."""
    if city == "Nowhere":
        raise ValueError("there is no such city")
    return f"sunny in {city}"


@tool
async def wait_for(seconds: float) -> str:
    """Waits."""
    await asyncio.sleep(seconds)
    return "done"


def talk_of(log: decklog.Log, handler: CallbackHandler) -> decklog.Conversation:
    handler.flush()
    [talk] = log.conversations()
    return talk


def said(log: decklog.Log, talk: decklog.Conversation) -> list[tuple[str, str]]:
    messages = log.messages(conversation_id=talk.id)
    return [(it.role, it.content or it.tool_result or f"-> {it.tool_name}") for it in messages]


def tree(log: decklog.Log, id: str) -> list[tuple[int, str]]:
    nodes: Any = log.session_tree(id)
    drawn = []
    for node in nodes:
        if "turn" in node:
            drawn.append((node["depth"], f"{node['turn']['kind']}: {node['turn']['content']}"))
        elif "call" in node:
            drawn.append((node["depth"], f"{node['call']['tool_name']} {node['call']['status']}"))
        else:
            drawn.append((node["depth"], f"conversation {node['conversation']['title']}"))
    return drawn


def is_before_1() -> bool:
    return langchain_core.version.VERSION.startswith("0.")


def agent(*answers: BaseMessage, **more: Any) -> Any:
    made, tools = model(*answers), more.pop("tools", [get_weather])
    if is_before_1():
        prebuilt = pytest.importorskip("langgraph.prebuilt")
        return prebuilt.create_react_agent(made, tools, prompt="You are brief.", **more)
    agents = pytest.importorskip("langchain.agents")
    return agents.create_agent(made, tools, system_prompt="You are brief.", **more)


class Slow(BaseChatModel):
    """Answers too late."""

    @property
    def _llm_type(self) -> str:
        return "slow"

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=AIMessage("late"))])

    async def _astream(self, *args: Any, **kwargs: Any) -> AsyncIterator[ChatGenerationChunk]:
        yield ChatGenerationChunk(message=AIMessageChunk(content="One"))
        await asyncio.sleep(30)
        yield ChatGenerationChunk(message=AIMessageChunk(content="late"))
