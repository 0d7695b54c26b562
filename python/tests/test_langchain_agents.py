"""Agents of LangChain and LangGraph: their tools, threads and interrupts are in the log."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
import weakref
from collections.abc import AsyncIterator
from typing import Any

import pytest

pytest.importorskip("langchain_core")

from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langchain_support import (
    Slow,
    agent,
    asks,
    get_weather,
    is_before_1,
    model,
    said,
    talk_of,
    tree,
    usage,
    wait_for,
)

import decklog
from decklog.langchain import CallbackHandler


def test_an_agent_that_calls_tools(log: decklog.Log, handler: CallbackHandler) -> None:
    calls = asks("get_weather", {"city": "Paris"}, "call_1", "I look it up.")
    calls.tool_calls.append(
        {"name": "get_weather", "args": {"city": "Rome"}, "id": "call_2", "type": "tool_call"}
    )
    final = AIMessage("Sunny in both.", usage_metadata=usage(160, 5))
    question = {"messages": [("user", "How is the weather?")]}
    result = agent(calls, final, name="weather").invoke(question, {"callbacks": [handler]})
    talk = talk_of(log, handler)
    found = said(log, talk)
    assert found[:2] == [("system", "You are brief."), ("user", "How is the weather?")]
    assert found[2] == ("assistant", "I look it up.\n\n[tool_use get_weather call_2]")
    assert sorted(found[3:5]) == [("tool", "sunny in Paris"), ("tool", "sunny in Rome")]
    assert found[5:] == [("assistant", "Sunny in both.")]
    # The state of the agent has the same, without the system's.
    assert len(result["messages"]) == len(found) - 1
    assert (talk.total_tokens_in, talk.total_tokens_out) == (260, 15)
    assert talk.agent == (None if is_before_1() else "weather")
    asking = [*log.messages(conversation_id=talk.id)][2]
    assert (asking.tool_name, asking.tool_call_id) == ("get_weather", "call_1")
    assert asking.tool_args == {"city": "Paris"}
    for call in log.tool_calls():
        assert (call.parent_id, call.request_id, call.status) == (asking.id, asking.id, "completed")
        assert call.outcome_json == f"sunny in {call.arguments_json['city']}"
        assert call.latency_ms is not None and call.ended_at is not None
    drawn = tree(log, talk.id)
    assert drawn[:4] == [
        (0, "conversation How is the weather?"),
        (1, "system: You are brief."),
        (1, "user: How is the weather?"),
        (
            2,
            "assistant: I look it up.\n\n[tool_use get_weather call_1]"
            "\n\n[tool_use get_weather call_2]",
        ),
    ]
    assert drawn[4:] == [
        (3, "get_weather completed"),
        (3, "get_weather completed"),
        (2, "assistant: Sunny in both."),
    ]


@pytest.mark.skipif(
    sys.version_info < (3, 11), reason="LangChain does not pass on the callbacks of async agents"
)
def test_an_agent_with_async_tasks(log: decklog.Log, handler: CallbackHandler) -> None:
    async def ask(nth: int) -> None:
        wait = asks("wait_for", {"seconds": 0.01}, "call_1")
        made = agent(wait, AIMessage(f"answer {nth}"), tools=[wait_for])
        await made.ainvoke({"messages": [("user", f"question {nth}")]}, {"callbacks": [handler]})

    async def all_of_them() -> None:
        await asyncio.gather(*(ask(nth) for nth in range(8)))

    asyncio.run(all_of_them())
    handler.flush()
    talks = [*log.conversations()]
    assert len(talks) == 8
    for talk in talks:
        assert talk.title is not None
        nth = talk.title.split()[-1]
        assert said(log, talk) == [
            ("system", "You are brief."),
            ("user", f"question {nth}"),
            ("assistant", "-> wait_for"),
            ("tool", "done"),
            ("assistant", f"answer {nth}"),
        ]
    assert {it.status for it in log.tool_calls()} == {"completed"}
    assert all((it.latency_ms or 0) >= 10 for it in log.tool_calls())


@pytest.mark.skipif(
    sys.version_info < (3, 11), reason="LangChain does not pass on the callbacks of async agents"
)
def test_an_async_stream_of_an_agent(log: decklog.Log, handler: CallbackHandler) -> None:
    async def ask() -> int:
        made = agent(asks("get_weather", {"city": "Paris"}, "call_1"), AIMessage("Sunny."))
        question = {"messages": [("user", "Weather?")]}
        config = {"callbacks": [handler]}
        stream: AsyncIterator[Any] = made.astream(question, config, stream_mode="messages")
        return len([it async for it in stream])

    assert asyncio.run(ask()) >= 2
    assert said(log, talk_of(log, handler)) == [
        ("system", "You are brief."),
        ("user", "Weather?"),
        ("assistant", "-> get_weather"),
        ("tool", "sunny in Paris"),
        ("assistant", "Sunny."),
    ]


@pytest.mark.skipif(is_before_1(), reason="the agent shows each failure to the model")
def test_a_tool_that_fails(log: decklog.Log, handler: CallbackHandler) -> None:
    made = agent(asks("get_weather", {"city": "Nowhere"}, "call_1"))
    with pytest.raises(ValueError, match="no such city"):
        made.invoke({"messages": [("user", "Weather?")]}, {"callbacks": [handler]})
    talk = talk_of(log, handler)
    [call] = log.tool_calls()
    assert (call.status, call.error_kind) == ("failed", "ValueError")
    assert call.error_msg == "there is no such city"
    # The run failed with it.
    assert (talk.status, talk.last_error) == ("error", "there is no such city")
    assert said(log, talk)[-1] == ("system", "there is no such city")


def test_a_tool_whose_failure_the_model_sees(log: decklog.Log, handler: CallbackHandler) -> None:
    prebuilt = pytest.importorskip("langgraph.prebuilt")
    node = prebuilt.ToolNode([get_weather], handle_tool_errors=True)
    graphs = pytest.importorskip("langgraph.graph")
    builder = graphs.StateGraph(graphs.MessagesState)
    made = model(asks("get_weather", {"city": "Nowhere"}, "call_1"), AIMessage("No such city."))
    builder.add_node("model", lambda state: {"messages": [made.invoke(state["messages"])]})
    builder.add_node("tools", node)
    builder.add_edge("__start__", "model")
    builder.add_conditional_edges("model", prebuilt.tools_condition)
    builder.add_edge("tools", "model")
    builder.compile().invoke({"messages": [("user", "Weather?")]}, {"callbacks": [handler]})
    talk = talk_of(log, handler)
    assert talk.status == "active"
    [call] = log.tool_calls()
    assert (call.status, call.error_kind) == ("failed", "ValueError")
    messages = [*log.messages(conversation_id=talk.id)]
    assert [it.role for it in messages] == ["user", "assistant", "tool", "assistant"]
    assert messages[2].error_type == "tool_error"
    assert "there is no such city" in str(messages[2].tool_result)


def test_a_tool_that_there_is_not(log: decklog.Log, handler: CallbackHandler) -> None:
    made = agent(asks("get_time", {}, "call_1"), AIMessage("I cannot."))
    made.invoke({"messages": [("user", "Time?")]}, {"callbacks": [handler]})
    talk_of(log, handler)
    [call] = log.tool_calls()
    assert (call.tool_name, call.status, call.error_kind) == ("get_time", "failed", "tool_error")


def test_a_task_that_is_cancelled(log: decklog.Log, handler: CallbackHandler) -> None:
    async def ask(made: Any, question: Any) -> None:
        task = asyncio.ensure_future(made(question, {"callbacks": [handler]}))
        await asyncio.sleep(0.3)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.sleep(0.1)

    async def read(question: str, config: Any) -> None:
        async for _ in Slow().astream(question, config):
            pass

    asyncio.run(ask(read, "Stream"))
    talk = talk_of(log, handler)
    [_, answer] = log.messages(conversation_id=talk.id)
    assert (answer.content, answer.error_type) == ("One", "cancelled")
    waiting = agent(asks("wait_for", {"seconds": 30}, "call_1"), tools=[wait_for])
    asyncio.run(ask(waiting.ainvoke, {"messages": [("user", "Wait")]}))
    handler.flush()
    [call] = log.tool_calls()
    assert (call.status, call.error_kind) == ("failed", "cancelled")
    assert not handler._runs


def test_a_thread_of_langgraph_is_one_conversation(
    log: decklog.Log, handler: CallbackHandler
) -> None:
    memory = pytest.importorskip("langgraph.checkpoint.memory").InMemorySaver()
    answers = [asks("get_weather", {"city": "Paris"}, "call_1"), AIMessage("Sunny.")]
    made = agent(*answers, AIMessage("Yes."), AIMessage("Yes."), checkpointer=memory)
    config = {"configurable": {"thread_id": "thread-1"}, "callbacks": [handler]}
    for question in ("Weather?", "Really?"):
        made.invoke({"messages": [("user", question)]}, config)
    # Another process continues it.
    handler.flush()
    other = CallbackHandler(log)
    made.invoke({"messages": [("user", "Really?")]}, {**config, "callbacks": [other]})
    other.close()
    talk = talk_of(log, handler)
    assert talk.session_id == "thread-1"
    assert said(log, talk) == [
        ("system", "You are brief."),
        ("user", "Weather?"),
        ("assistant", "-> get_weather"),
        ("tool", "sunny in Paris"),
        ("assistant", "Sunny."),
        ("user", "Really?"),
        ("assistant", "Yes."),
        ("user", "Really?"),
        ("assistant", "Yes."),
    ]
    assert other.lost == 0


def test_an_agent_within_a_tool_is_a_conversation_below(
    log: decklog.Log, handler: CallbackHandler
) -> None:
    inner = agent(asks("get_weather", {"city": "Paris"}, "call_1"), AIMessage("Sunny."))

    @tool
    def ask_expert(question: str) -> str:
        """Asks an expert."""
        return str(inner.invoke({"messages": [("user", question)]})["messages"][-1].content)

    outer = agent(
        asks("ask_expert", {"question": "Paris?"}, "call_1"),
        AIMessage("It is."),
        tools=[ask_expert],
    )
    outer.invoke({"messages": [("user", "Weather?")]}, {"callbacks": [handler]})
    handler.flush()
    above, below = log.conversations(order="asc")
    if above.parent_id:
        above, below = below, above
    assert (below.parent_id, below.parent_call_id, below.agent) == (
        above.id,
        "call_1",
        "ask_expert",
    )
    assert [it[1] for it in said(log, above)][1:] == [
        "Weather?",
        "-> ask_expert",
        "Sunny.",
        "It is.",
    ]
    assert [it[1] for it in said(log, below)][1:] == [
        "Paris?",
        "-> get_weather",
        "sunny in Paris",
        "Sunny.",
    ]
    assert (4, "conversation Paris?") in tree(log, above.id)


def test_an_interrupt_is_no_error_and_the_call_goes_on(log: decklog.Log) -> None:
    types = pytest.importorskip("langgraph.types")
    memory = pytest.importorskip("langgraph.checkpoint.memory").InMemorySaver()

    @tool
    def deploy(to: str) -> str:
        """Deploys, if a person agrees."""
        return f"deployed to {to}: {types.interrupt('ok?')}"

    made = agent(
        asks("deploy", {"to": "prod"}, "call_1"),
        AIMessage("Done."),
        tools=[deploy],
        checkpointer=memory,
    )
    config: Any = {"configurable": {"thread_id": "t"}}
    first = CallbackHandler(log)
    made.invoke({"messages": [("user", "Deploy")]}, {**config, "callbacks": [first]})
    first.close()
    [talk] = log.conversations()
    assert talk.status == "active"
    [call] = log.tool_calls()
    assert call.status == "requested"
    second = CallbackHandler(log)
    made.invoke(types.Command(resume="yes"), {**config, "callbacks": [second]})
    second.close()
    [call] = log.tool_calls()
    assert (call.status, call.outcome_json) == ("completed", "deployed to prod: yes")
    assert [it[1] for it in said(log, talk)] == [
        "You are brief.",
        "Deploy",
        "-> deploy",
        "deployed to prod: yes",
        "Done.",
    ]
    assert (first.lost, second.lost) == (0, 0)


def test_a_tool_alone(log: decklog.Log, handler: CallbackHandler) -> None:
    get_weather.invoke({"city": "Paris"}, {"callbacks": [handler]})
    handler.flush()
    [call] = log.tool_calls()
    assert (call.arguments_json, call.outcome_json) == ({"city": "Paris"}, "sunny in Paris")
    [turn] = log.turns()
    assert (turn.id, turn.kind) == (call.parent_id, "sysinfo")
    assert not [*log.conversations()]


def test_values_without_a_form_in_json(log: decklog.Log, handler: CallbackHandler) -> None:
    @tool
    def open_door(name: str) -> Any:
        """Opens a door."""
        return threading.Lock

    open_door.invoke({"name": "\udc80"}, {"callbacks": [handler]})
    handler.flush()
    [call] = log.tool_calls()
    assert call.arguments_json == {"name": "\\udc80"}
    assert "allocate_lock" in str(call.outcome_json) or "lock" in str(call.outcome_json)


def test_a_result_that_no_model_is_told(log: decklog.Log, handler: CallbackHandler) -> None:
    @tool(return_direct=True)
    def answer_directly(text: str) -> str:
        """Answers."""
        return f"directly: {text}"

    made = agent(asks("answer_directly", {"text": "hi"}, "call_1"), tools=[answer_directly])
    made.invoke({"messages": [("user", "Say hi")]}, {"callbacks": [handler]})
    talk = talk_of(log, handler)
    assert [it[1] for it in said(log, talk)][2:] == ["-> answer_directly", "directly: hi"]
    if is_before_1():
        return
    answers = asks("Length", {"lines": 12}, "call_1")
    schema = {"title": "Length", "type": "object", "properties": {"lines": {"type": "integer"}}}
    strategy = pytest.importorskip("langchain.agents.structured_output").ToolStrategy(schema)
    made = agent(answers, tools=[], response_format=strategy)
    made.invoke({"messages": [("user", "How long?")]}, {"callbacks": [handler]})
    handler.flush()
    [call] = log.tool_calls(tool_name="Length")
    assert call.status == "completed"


def test_a_handler_for_each_run(log: decklog.Log) -> None:
    memory = pytest.importorskip("langgraph.checkpoint.memory").InMemorySaver()
    made = agent(*(AIMessage(f"answer {nth}") for nth in range(5)), checkpointer=memory)
    handlers = []
    for nth in range(5):
        handler = CallbackHandler(log)
        handlers.append(weakref.ref(handler))
        config: Any = {"configurable": {"thread_id": "t"}, "callbacks": [handler]}
        made.invoke({"messages": [("user", f"question {nth}")]}, config)
        # It is dropped without a `close`, which records what is queued.
        del handler, config
        gc.collect()
    assert [it() for it in handlers] == [None] * 5
    [talk] = log.conversations()
    assert talk.title == "question 0"
    found = [it[1] for it in said(log, talk)][1:]
    assert found == [it for nth in range(5) for it in (f"question {nth}", f"answer {nth}")]
