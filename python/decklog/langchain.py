"""Runs of LangChain and LangGraph as conversations.

Needs `langchain-core`.

>>> import decklog, tempfile
>>> from decklog.langchain import CallbackHandler
>>> from langchain_core.language_models.fake_chat_models import FakeListChatModel
>>> log = decklog.open(tempfile.mkdtemp() + "/log")
>>> handler = CallbackHandler(log)
>>> model = FakeListChatModel(responses=["12 lines."])
>>> answer = model.invoke("How long is main.rs?", {"callbacks": [handler]})
>>> handler.flush()
>>> talk = next(log.conversations())
>>> [(it.role, it.content) for it in log.messages(conversation_id=talk.id)]
[('user', 'How long is main.rs?'), ('assistant', '12 lines.')]
"""

from __future__ import annotations

import functools
import logging
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

try:
    from langchain_core.callbacks import BaseCallbackHandler
except ImportError as error:
    raise ImportError(f"{error}: decklog.langchain needs langchain-core") from error

from ._langchain_messages import last_results, result_text, said, tool_message
from ._langchain_run import (
    CANCELLED,
    NAME,
    Run,
    calls_in,
    facts_of,
    is_interrupt,
    kind_of,
    now,
    root_of,
    spoken_in,
    text_of,
)
from ._queue import Queue
from ._said import Call, Said, named
from ._talk import Talk, outcome_of

if TYPE_CHECKING:
    import os
    from collections.abc import Callable
    from uuid import UUID

    from langchain_core.messages import BaseMessage
    from langchain_core.outputs import LLMResult

    from ._handles import Capture
    from ._log import Log

__all__ = ["CallbackHandler"]

logger = logging.getLogger(__name__)

ABANDONED = "abandoned"
"""The error class of a tool whose end was not told."""
NAMES = ("conversation_id", "session_id", "thread_id")
"""What names a conversation in the metadata of a run, the first first."""
TALKS_MAX = 256
"""How many conversations that other runs may continue are kept in memory."""


def _quiet(method: Callable[..., None]) -> Callable[..., None]:
    """A method that runs alone, and does not raise into the chain."""

    @functools.wraps(method)
    def called(self: CallbackHandler, *args: Any, **kwargs: Any) -> None:
        try:
            with self._lock:
                method(self, *args, **kwargs)
        except Exception as error:
            self._tell(error)

    return called


class CallbackHandler(BaseCallbackHandler):
    """Records what is said in runs of chains and agents: messages, models, tokens, latencies, tool
    calls with their outcomes, and errors. It does not wait for the log, and does not raise.

    log: The log, or the directory of one, which the handler opens and `close` closes.
    conversation_id: The conversation of all runs. Default: that of the run's metadata, in
        `conversation_id`, `session_id` or `thread_id`, as of LangGraph; else one for each run.
    client: The client of new conversations.
    capture: A capture of the log, which the caller closes. Default: one of the handler.
    fields: Further fields of new conversations, such as `agent`: see `decklog.Conversation`.

    Give it in the `callbacks` of the run, not of the model or a tool: it knows then what belongs
    together. The same handler may serve many runs at the same time, in threads or tasks. A model
    that is called within a tool is a conversation of its own, below the call.

    >>> from langchain_core.language_models.fake_chat_models import FakeListChatModel
    >>> handler = CallbackHandler(log, agent="counter")
    >>> model = FakeListChatModel(responses=["12 lines."])
    >>> config = {"callbacks": [handler], "metadata": {"session_id": "chat-1"}}
    >>> answer = model.invoke("How long is main.rs?", config)
    >>> handler.flush()
    >>> [(it.agent, it.title) for it in log.conversations(session_id="chat-1")]
    [('counter', 'How long is main.rs?')]
    """

    # No call waits, so tasks need no thread for it.
    run_inline = True

    def __init__(
        self,
        log: Log | str | os.PathLike[str],
        *,
        conversation_id: str | None = None,
        client: str = "api",
        capture: Capture | None = None,
        **fields: Any,
    ) -> None:
        super().__init__()
        self._conversation_id = conversation_id
        self._fields = {"client": client, **fields}
        self._lock = threading.RLock()
        self._runs: dict[UUID, Run] = {}
        self._talks: OrderedDict[str, Talk] = OrderedDict()
        self._is_told = False
        self._queue = Queue(log, capture, self._tell)

    @property
    def lost(self) -> int:
        """The number of records that were lost. The first loss is logged as a warning."""
        return self._queue.lost

    def flush(self) -> None:
        """Returns when all records are in the log or lost."""
        self._queue.flush()

    def close(self) -> None:
        """Writes what is queued. Later runs are not recorded."""
        self._queue.close()

    def _tell(self, error: Exception) -> None:
        if not self._is_told:
            self._is_told = True
            logger.warning("a part of a run was not recorded: %s", error, exc_info=error)

    def __deepcopy__(self, _: object) -> CallbackHandler:
        # Configurations of runs are copied. The handler is what they share.
        return self

    # What belongs together.

    def _begin(
        self,
        run_id: UUID,
        parent_run_id: UUID | None,
        metadata: dict[str, Any] | None,
        name: str | None = None,
    ) -> Run:
        parent = self._runs.get(parent_run_id) if parent_run_id else None
        if parent is None:
            talk = self._talk(run_id, metadata or {})
        else:
            talk = parent.talk
        run = self._runs[run_id] = Run(parent, talk, name or "")
        return run

    def _talk(self, run_id: UUID, metadata: dict[str, Any]) -> Talk:
        fields = dict(self._fields)
        names = (metadata.get(name) for name in NAMES)
        given = self._conversation_id or next((it for it in names if it), None)
        for field_, name in (("agent", "lc_agent_name"), ("user_id", "user_id")):
            if metadata.get(name) and field_ not in fields:
                fields[field_] = str(metadata[name])
        if given is None:
            return Talk(self._queue, {"id": str(run_id), **fields}, NAME)
        fields.setdefault("session_id", str(given))
        id = named(f"{NAME}:session", str(given))
        talk = self._talks.get(id)
        if talk is None:
            talk = self._talks[id] = Talk(self._queue, {"id": id, **fields}, NAME)
            talk.read()
            if len(self._talks) > TALKS_MAX:
                self._talks.popitem(last=False)
        self._talks.move_to_end(id)
        return talk

    def _end(self, run_id: UUID) -> Run | None:
        return self._runs.pop(run_id, None)

    # Chains.

    @_quiet
    def on_chain_start(
        self,
        serialized: dict[str, Any],
        inputs: Any,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        metadata: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """A chain or an agent began."""
        self._begin(run_id, parent_run_id, metadata, kwargs.get("name"))

    @_quiet
    def on_chain_end(self, outputs: Any, *, run_id: UUID, **kwargs: Any) -> None:
        """A chain ended."""
        run = self._end(run_id)
        if run is not None and run.parent is None:
            for it in last_results(outputs):
                run.talk.late(it, now())
            self._end_below(run, None)

    @_quiet
    def on_chain_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """A chain failed."""
        run = self._end(run_id)
        if run is None or run.parent is not None:
            return
        self._end_below(run, error)
        # A consumer that read enough is no error either.
        if is_interrupt(error) or isinstance(error, GeneratorExit):
            return
        told = run.talk.failed
        if told is error or (told is not None and kind_of(told) == kind_of(error) == CANCELLED):
            return
        run.talk.fail(text_of(error), kind_of(error), now(), str(run_id))

    def _end_below(self, root: Run, error: BaseException | None) -> None:
        """Ends the runs whose end was not told, such as those of tools that were cancelled."""
        below = [id for id, run in self._runs.items() if root_of(run) is root]
        for id in below:
            run = self._runs.pop(id)
            if run.within is not None:
                kind = ABANDONED if error is None else kind_of(error)
                failed = {"op": "failed", "error_kind": kind, "latency_ms": run.latency_ms()}
                run.within.ended(run.turn, run.call_id, now(), failed)

    # Models.

    @_quiet
    def on_chat_model_start(
        self,
        serialized: dict[str, Any],
        messages: list[list[BaseMessage]],
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        metadata: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """A chat model was asked."""
        heard = [said(it) for request in messages for it in request]
        self._asked(heard, run_id, parent_run_id, metadata, kwargs)

    @_quiet
    def on_llm_start(
        self,
        serialized: dict[str, Any],
        prompts: list[str],
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        metadata: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """A model that completes texts was asked."""
        heard = [Said("user", texts=[prompt]) for prompt in prompts]
        self._asked(heard, run_id, parent_run_id, metadata, kwargs)

    def _asked(
        self,
        heard: list[Said],
        run_id: UUID,
        parent_run_id: UUID | None,
        metadata: dict[str, Any] | None,
        kwargs: dict[str, Any],
    ) -> None:
        metadata = metadata or {}
        run = self._begin(run_id, parent_run_id, metadata, kwargs.get("name"))
        asked = kwargs.get("invocation_params") or {}
        model = metadata.get("ls_model_name") or asked.get("model") or asked.get("model_name")
        run.model = str(model) if model else None
        run.vendor = str(metadata.get("ls_provider") or NAME)
        run.place = run.talk.hear(heard, now())

    @_quiet
    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **kwargs: Any) -> None:
        """A model answered."""
        run = self._end(run_id)
        if run is None or run.place is None:
            return
        found = [it for its in response.generations for it in its]
        first, others = found[0] if found else None, found[1:]
        facts = facts_of(run, run_id, first, response)
        answer = run.talk.answer(spoken_in(first), run.place, now(), str(run_id), facts)
        for nth, generation in enumerate(others):
            run.talk.part(spoken_in(generation), answer, nth, now())

    @_quiet
    def on_llm_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """A model failed, or its answer was not read to the end."""
        run = self._end(run_id)
        if run is None or run.place is None:
            return
        response = kwargs.get("response")
        generations = response.generations if response is not None else []
        first = next((it for its in generations for it in its), None)
        # What the model said before, but not what the provider answered instead.
        is_said = first is not None and bool(first.text or calls_in(first))
        facts = facts_of(run, run_id, first if is_said else None, response)
        facts.update(error=text_of(error), error_type=kind_of(error))
        what = spoken_in(first) if is_said else Said("assistant")
        run.talk.answer(what, run.place, now(), str(run_id), facts)
        run.talk.failed = error

    # Tools.

    @_quiet
    def on_tool_start(
        self,
        serialized: dict[str, Any],
        input_str: str,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        metadata: dict[str, Any] | None = None,
        inputs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """A tool began."""
        name = (serialized or {}).get("name") or kwargs.get("name") or "unknown"
        run = self._begin(run_id, parent_run_id, metadata, name)
        call = Call(
            # Not told before LangChain 1.
            id=kwargs.get("tool_call_id") or "",
            name=name,
            args=input_str if inputs is None else inputs,
        )
        within = run.talk
        first = root_of(run).name or name
        run.turn = within.call(call, now(), first)
        run.call_id, run.within = call.id, within
        fields = {**self._fields, "id": str(run_id), "parent_id": within.id}
        run.talk = Talk(self._queue, {**fields, "parent_call_id": call.id, "agent": name}, NAME)

    @_quiet
    def on_tool_end(self, output: Any, *, run_id: UUID, **kwargs: Any) -> None:
        """A tool returned."""
        run = self._end(run_id)
        if run is None or run.within is None:
            return
        message, at = tool_message(output), now()
        if message is None:
            outcome = outcome_of(output, False)
        else:
            outcome = outcome_of(result_text(message), message.status == "error")
        outcome["latency_ms"] = run.latency_ms()
        run.within.ended(run.turn, run.call_id, at, outcome)
        if message is not None and message.tool_call_id == run.call_id:
            run.within.result(said(message), run.turn, at)

    @_quiet
    def on_tool_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """A tool failed."""
        run = self._end(run_id)
        if run is None or run.within is None:
            return
        if is_interrupt(error):
            run.within.paused(run.turn, run.call_id)
            return
        failed = {
            "op": "failed",
            "error_kind": kind_of(error),
            "error_msg": text_of(error),
            "latency_ms": run.latency_ms(),
        }
        run.within.ended(run.turn, run.call_id, now(), failed)
