"""What is said in runs of LangChain and LangGraph is in the log, once, and nothing else is."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("langchain_core")

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.language_models.fake_chat_models import (
    FakeMessagesListChatModel,
    GenericFakeChatModel,
)
from langchain_core.language_models.fake import FakeListLLM
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.messages.ai import UsageMetadata
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool

import decklog
from decklog.langchain import CallbackHandler


@pytest.fixture
def log(tmp_path: Path) -> Iterator[decklog.Log]:
    with decklog.open(tmp_path / "log") as opened:
        yield opened


@pytest.fixture
def handler(log: decklog.Log) -> Iterator[CallbackHandler]:
    made = CallbackHandler(log)
    yield made
    made.flush()
    assert made.lost == 0
    made.close()


def usage(tokens_in: int, tokens_out: int, **more: Any) -> UsageMetadata:
    total = tokens_in + tokens_out
    return UsageMetadata(
        input_tokens=tokens_in, output_tokens=tokens_out, total_tokens=total, **more
    )


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
    made = Model(responses=[*answers], errors=errors or {}, asked=[])
    return made


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


def test_a_chain_is_a_conversation(log: decklog.Log, handler: CallbackHandler) -> None:
    prompt = ChatPromptTemplate([("system", "You are brief."), ("user", "How long is {it}?")])
    details = {"cache_read": 40, "cache_creation": 10}
    answer = AIMessage(
        [{"type": "thinking", "thinking": "I count."}, {"type": "text", "text": "12 lines."}],
        usage_metadata=usage(
            120, 15, input_token_details=details, output_token_details={"reasoning": 5}
        ),
        response_metadata={"model_name": "small-1-2026", "finish_reason": "stop"},
    )
    (prompt | model(answer)).invoke({"it": "main.rs"}, {"callbacks": [handler]})
    talk = talk_of(log, handler)
    assert (talk.title, talk.status, talk.client) == ("How long is main.rs?", "active", "api")
    assert said(log, talk) == [
        ("system", "You are brief."),
        ("user", "How long is main.rs?"),
        ("assistant", "12 lines."),
    ]
    last = [*log.messages(conversation_id=talk.id)][-1]
    assert last.model_used == "small-1-2026"
    assert (last.tokens_in, last.tokens_out, last.tokens_reasoning) == (120, 15, 5)
    assert (last.tokens_cache_read, last.tokens_cache_write) == (40, 10)
    assert last.latency_ms is not None and last.latency_ms >= 0
    assert last.reasoning == "I count."
    assert last.inference_metadata["response"]["finish_reason"] == "stop"
    assert last.inference_metadata["usage"]["total_tokens"] == 135
    turns = [*log.turns()]
    assert [it.kind for it in turns] == ["system", "user", "assistant"]
    assert [it.parent_id for it in turns] == [None, turns[0].id, turns[1].id]


def test_the_root_run_is_the_conversation(log: decklog.Log, handler: CallbackHandler) -> None:
    chain = RunnableLambda(lambda text: model(AIMessage("hi")).invoke(text))
    config: Any = {"callbacks": [handler]}
    chain.invoke("hello", config)
    chain.invoke("hello", config)
    model(AIMessage("hi")).batch(["one", "two"], config)
    handler.flush()
    assert [it.title for it in log.conversations(order="asc")] == ["hello", "hello", "one", "two"]


def agent(*answers: BaseMessage, **more: Any) -> Any:
    agents = pytest.importorskip("langchain.agents")
    errors = more.pop("errors", None)
    made = model(*answers, errors=errors)
    tools = more.pop("tools", [get_weather])
    return agents.create_agent(made, tools, system_prompt="You are brief.", **more)


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
    assert (talk.agent, talk.total_tokens_in, talk.total_tokens_out) == ("weather", 260, 15)
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
        (2, "assistant: I look it up.\n\n[tool_use get_weather call_1]"
            "\n\n[tool_use get_weather call_2]"),
    ]
    assert drawn[4:] == [
        (3, "get_weather completed"),
        (3, "get_weather completed"),
        (2, "assistant: Sunny in both."),
    ]


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


def test_a_stream_is_recorded_when_it_ends(log: decklog.Log, handler: CallbackHandler) -> None:
    made = GenericFakeChatModel(messages=iter([AIMessage("one two three")]))
    pieces = [it.content for it in made.stream("count", {"callbacks": [handler]})]
    assert len(pieces) > 3
    assert said(log, talk_of(log, handler)) == [("user", "count"), ("assistant", "one two three")]


def test_a_stream_that_is_not_read_to_the_end(log: decklog.Log, handler: CallbackHandler) -> None:
    made = GenericFakeChatModel(messages=iter([AIMessage("one two three")]))
    stream: Any = made.stream("count", {"callbacks": [handler]})
    next(stream)
    stream.close()
    talk = talk_of(log, handler)
    assert said(log, talk) == [("user", "count"), ("assistant", "one")]
    assert [*log.messages(conversation_id=talk.id)][-1].error_type == "cancelled"


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


def test_a_model_that_fails_and_one_that_answers_then(
    log: decklog.Log, handler: CallbackHandler
) -> None:
    made = model(AIMessage("12 lines."), errors={0: TimeoutError("too slow")})
    fallback = made.with_retry(stop_after_attempt=2, wait_exponential_jitter=False)
    fallback.invoke("How long?", {"callbacks": [handler]})
    talk = talk_of(log, handler)
    messages = [*log.messages(conversation_id=talk.id)]
    # The prompt is the same, and recorded once.
    assert [it.role for it in messages] == ["user", "assistant", "assistant"]
    assert (messages[1].error, messages[1].error_type) == ("too slow", "TimeoutError")
    assert messages[2].content == "12 lines."
    assert talk.status == "active"
    assert {it.parent_id for it in log.turns(kind="assistant")} == {messages[0].id}


def test_a_model_that_fails(log: decklog.Log, handler: CallbackHandler) -> None:
    prompt = ChatPromptTemplate([("user", "How long is {it}?")])
    made = model(AIMessage("never"), errors={0: RuntimeError("overloaded")})
    with pytest.raises(RuntimeError):
        (prompt | made).invoke({"it": "main.rs"}, {"callbacks": [handler]})
    talk = talk_of(log, handler)
    assert (talk.status, talk.last_error, talk.error_count) == ("error", "overloaded", 1)
    assert len(said(log, talk)) == 2


def test_a_chain_that_fails_after_the_model(log: decklog.Log, handler: CallbackHandler) -> None:
    def parse(_: BaseMessage) -> None:
        raise KeyError("no field")

    with pytest.raises(KeyError):
        (model(AIMessage("{}")) | RunnableLambda(parse)).invoke("q", {"callbacks": [handler]})
    talk = talk_of(log, handler)
    last = [*log.messages(conversation_id=talk.id)][-1]
    assert (talk.status, last.role, last.error_type) == ("error", "system", "KeyError")


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
        yield ChatGenerationChunk(message=AIMessageChunk("One"))
        await asyncio.sleep(30)
        yield ChatGenerationChunk(message=AIMessageChunk("late"))


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


def test_a_history_whose_beginning_is_left_out(
    log: decklog.Log, handler: CallbackHandler
) -> None:
    config: Any = {"callbacks": [handler], "metadata": {"session_id": "chat-1"}}
    made = model(*(AIMessage(f"answer {nth}") for nth in range(6)))
    history: list[BaseMessage] = []
    for nth in range(4):
        history.append(HumanMessage("go on"))
        # Without ids, as of a program that keeps only the texts.
        given = [SystemMessage("You are brief."), *history[-3:]]
        answer = made.invoke(given, config)
        history.append(AIMessage(answer.content))
    talk = talk_of(log, handler)
    expected = [("system", "You are brief.")]
    for nth in range(4):
        expected += [("user", "go on"), ("assistant", f"answer {nth}")]
    assert said(log, talk) == expected


def test_a_history_from_elsewhere_is_recorded_once(
    log: decklog.Log, handler: CallbackHandler
) -> None:
    made = model(AIMessage("third"), AIMessage("fourth"))
    call = asks("get_weather", {"city": "Paris"}, "call_1")
    history: list[BaseMessage] = [HumanMessage("first"), call]
    history += [ToolMessage("sunny", tool_call_id="call_1"), AIMessage("second")]
    config: Any = {"callbacks": [handler], "metadata": {"session_id": "chat-1"}}
    made.invoke([*history, HumanMessage("more")], config)
    made.invoke([*history, HumanMessage("more"), AIMessage("third"), HumanMessage("more")], config)
    talk = talk_of(log, handler)
    assert [it[1] for it in said(log, talk)] == [
        "first", "-> get_weather", "sunny", "second", "more", "third", "more", "fourth",
    ]
    [recorded] = log.tool_calls()
    assert (recorded.status, recorded.outcome_json) == ("completed", "sunny")


def test_an_agent_within_a_tool_is_a_conversation_below(
    log: decklog.Log, handler: CallbackHandler
) -> None:
    inner = agent(asks("get_weather", {"city": "Paris"}, "call_1"), AIMessage("Sunny."))

    @tool
    def ask_expert(question: str) -> str:
        """Asks an expert."""
        return str(inner.invoke({"messages": [("user", question)]})["messages"][-1].content)

    outer = agent(
        asks("ask_expert", {"question": "Paris?"}, "call_1"), AIMessage("It is."), tools=[ask_expert]
    )
    outer.invoke({"messages": [("user", "Weather?")]}, {"callbacks": [handler]})
    handler.flush()
    above, below = log.conversations(order="asc")
    if above.parent_id:
        above, below = below, above
    assert (below.parent_id, below.parent_call_id, below.agent) == (above.id, "call_1", "ask_expert")
    assert [it[1] for it in said(log, above)][1:] == ["Weather?", "-> ask_expert", "Sunny.", "It is."]
    assert [it[1] for it in said(log, below)][1:] == [
        "Paris?", "-> get_weather", "sunny in Paris", "Sunny.",
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
        asks("deploy", {"to": "prod"}, "call_1"), AIMessage("Done."), tools=[deploy], checkpointer=memory
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
        "You are brief.", "Deploy", "-> deploy", "deployed to prod: yes", "Done.",
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


def test_a_model_of_texts_and_several_answers(log: decklog.Log, handler: CallbackHandler) -> None:
    class Two(Model):
        def _generate(self, *args: Any, **kwargs: Any) -> ChatResult:
            answers = [ChatGeneration(message=AIMessage(it)) for it in ("12.", "Twelve.")]
            tokens = {"prompt_tokens": 5, "completion_tokens": 4, "total_tokens": 9}
            output = {"token_usage": tokens, "model_name": "small-1"}
            return ChatResult(generations=answers, llm_output=output)

    FakeListLLM(responses=["12 lines."]).invoke("How long?", {"callbacks": [handler]})
    talk = talk_of(log, handler)
    assert said(log, talk) == [("user", "How long?"), ("assistant", "12 lines.")]
    Two(responses=[]).invoke("How many?", {"callbacks": [handler]})
    handler.flush()
    [talk] = [it for it in log.conversations() if it.title == "How many?"]
    [_, first, second] = log.messages(conversation_id=talk.id)
    assert (first.content, second.content, second.part_of) == ("12.", "Twelve.", first.id)
    assert (talk.total_tokens_in, talk.total_tokens_out) == (5, 4)
    assert talk.models_used == ["small-1"]


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


def test_content_that_is_no_text(log: decklog.Log, handler: CallbackHandler) -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}
    asked = HumanMessage([{"type": "text", "text": "What is it?"}, image])
    config: Any = {"callbacks": [handler]}
    model(AIMessage("A cat.")).invoke([asked, HumanMessage([image])], config)
    found = said(log, talk_of(log, handler))
    assert found == [("user", "What is it?"), ("user", "[image_url]"), ("assistant", "A cat.")]


def test_a_log_that_is_closed_does_not_stop_the_chain(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "decklog.langchain")
    handler = CallbackHandler(tmp_path / "log")
    handler.close()
    made = model(AIMessage("12 lines."))
    assert made.invoke("How long?", {"callbacks": [handler]}).content == "12 lines."
    assert handler.lost > 0
    assert len([it for it in caplog.records if it.name == "decklog.langchain"]) == 1


def test_fields_of_the_conversation(log: decklog.Log) -> None:
    handler = CallbackHandler(log, client="web", agent="counter", project="shop", title="A title")
    config: Any = {"callbacks": [handler], "metadata": {"user_id": "u-1", "session_id": "s-1"}}
    model(AIMessage("hi")).invoke("hello", config)
    talk = talk_of(log, handler)
    assert (talk.client, talk.agent, talk.project) == ("web", "counter", "shop")
    assert (talk.title, talk.session_id) == ("A title", "s-1")
    assert talk.user_id is not None
    handler.close()
