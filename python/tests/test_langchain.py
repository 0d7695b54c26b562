"""What is said in chains and by models of LangChain is in the log, once, and nothing else is."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("langchain_core")

from langchain_core.language_models.fake import FakeListLLM
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda
from langchain_support import Model, asks, model, said, talk_of, usage

import decklog
from decklog.langchain import CallbackHandler


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
    def answer(text: str) -> Any:
        return model(AIMessage("hi")).invoke(text)

    chain = RunnableLambda(answer)
    config: Any = {"callbacks": [handler]}
    chain.invoke("hello", config)
    chain.invoke("hello", config)
    model(AIMessage("hi")).batch(["one", "two"], config)
    handler.flush()
    assert [it.title for it in log.conversations(order="asc")] == ["hello", "hello", "one", "two"]


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


def test_a_history_whose_beginning_is_left_out(log: decklog.Log, handler: CallbackHandler) -> None:
    config: Any = {"callbacks": [handler], "metadata": {"session_id": "chat-1"}}
    made = model(*(AIMessage(f"answer {nth}") for nth in range(6)))
    history: list[BaseMessage] = []
    for _ in range(4):
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
        "first",
        "-> get_weather",
        "sunny",
        "second",
        "more",
        "third",
        "more",
        "fourth",
    ]
    [recorded] = log.tool_calls()
    assert (recorded.status, recorded.outcome_json) == ("completed", "sunny")


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
