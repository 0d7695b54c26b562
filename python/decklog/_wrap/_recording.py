"""Records requests and their answers. Nothing here raises an error to the caller or waits."""

from __future__ import annotations

import logging
import os
import threading
import time
import uuid
import weakref
from typing import TYPE_CHECKING, Any

# At exit nothing can be imported: recording needs these.
from .. import _plain as _plain
from .._log import open
from ..errors import ForkedError
from ._places import Place, Recent, conversation_id, with_system
from ._said import NAME_BYTES_MAX, Answer, Asked, Call, Said, is_json, joined, key_after

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Literal, TypeAlias

    from .._handles import Capture
    from .._log import Log

    OnError: TypeAlias = Callable[[Exception, str, str], object]
    _Kind: TypeAlias = Literal["conversation_turns", "messages", "tool_calls"]

_TITLE_CHARS_MAX = 80

CANCELLED = "cancelled"
"""The `error_type` of an answer whose stream was closed early."""

TOOL_ERROR = "tool_error"
"""The error class of a tool call that failed."""

_logger = logging.getLogger("decklog")

_RECORDERS: weakref.WeakSet[Recorder] = weakref.WeakSet()


def _after_fork() -> None:
    for it in list(_RECORDERS):
        it.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class Recorder:
    """Records what a client and its copies send and receive."""

    def __init__(
        self,
        vendor: str,
        capture: Capture | None,
        log: Log | None,
        conversation: str | None,
        on_error: OnError | None,
    ) -> None:
        self.vendor = vendor
        self.lost = 0
        """The number of failures to record."""
        self._on_error = on_error
        self._log = log
        self._path = None if log is None or capture is not None else log.path
        self._capture = capture
        # An object that is dropped while the lock is held may record that it was cancelled.
        self._lock = threading.RLock()
        self._places = Recent()
        self._calls = Recent()
        self._given: Place | None = None
        self._session: str | None = None
        if capture is None and log is not None:
            self._capture = log.capture(on_error=self._on_lost())
        if conversation is not None:
            id = conversation_id(conversation)
            self._session = None if id == conversation else conversation
            self._given = Place(id, "", "", "")
            if log is not None:
                self._recall(log, id)
        _RECORDERS.add(self)

    # Failures.

    def safely(self, what: Callable[..., Any], /, *given: Any) -> Any:
        """What a function returns; `None` if it raises, which is reported."""
        try:
            return what(*given)
        except Exception as error:
            self.failed_to_record(error, "", "")
            return None

    def _on_lost(self) -> OnError:
        # The thread that writes must not keep the client alive.
        of = weakref.ref(self)

        def on_lost(error: Exception, kind: str, key: str) -> None:
            if (recorder := of()) is not None:
                recorder.failed_to_record(error, kind, key)
            else:
                _logger.warning("%s %s was not recorded: %s", kind, key, error)

        return on_lost

    def failed_to_record(self, error: Exception, kind: str, key: str) -> None:
        """Counts a failure, and reports it: the first one of the client as a warning."""
        try:
            self.lost += 1
            if self.lost == 1:
                _logger.warning(
                    "a request was not recorded: %s: %s. Later failures are not reported here",
                    f"{kind} {key}".strip() or type(error).__name__,
                    error,
                )
            if self._on_error is not None:
                self._on_error(error, kind, key)
        except Exception:
            _logger.debug("on_error raised", exc_info=True)

    def _put(self, kind: _Kind, record: Mapping[str, Any]) -> None:
        try:
            self._queue().record(record, kind=kind)
        except Exception as error:
            self.failed_to_record(error, kind, str(record.get("id") or record.get("call_id") or ""))

    def _queue(self) -> Capture:
        if self._capture is None and self._path is not None:
            self._log = open(self._path)
            self._capture = self._log.capture(on_error=self._on_lost())
        if self._capture is None:
            raise ForkedError(
                "the capture was made before the process was forked: wrap a client in the child"
            )
        return self._capture

    def after_fork(self) -> None:
        """Drops what a child that was forked may not use. It opens the log at its first request."""
        self._lock = threading.RLock()
        self._log = self._capture = None

    # What the log has.

    def _recall(self, log: Log, id: str) -> None:
        """Finds the place at the end of a conversation that the log has."""
        place = Place(id, "", "", "")
        for it in log.messages(conversation_id=id):
            fields = {
                "content": it.content,
                "tool_call_id": it.tool_call_id,
                "tool_result": it.tool_result,
            }
            if it.role == "system":
                if it.error is None:
                    place = place._replace(systems=with_system(place.systems, it.content))
                continue
            if it.error is not None or it.part_of is not None:
                continue
            place = place._replace(turn=it.id, key=key_after(place.key, it.role, fields))
            if it.role == "assistant":
                self._remember(place, fields)
                if it.tool_call_id is not None:
                    for call in log.tool_calls(parent_id=it.id, status="requested"):
                        self._calls.put(f"{id} {call.call_id}", (call.request_id, call.call_id))
        self._given = place._replace(key="")

    def _remember(self, place: Place, fields: Mapping[str, Any]) -> None:
        self._places.put(place.key, place)
        if self._given is not None:
            # The history of a later request may begin after the start of the conversation.
            self._places.put(key_after("answer", "assistant", fields), place)

    # Requests.

    def asked(self, asked: Asked) -> Exchange:
        """Records what is new in a request."""
        with self._lock:
            systems = [it for it in asked.said if it.role == "system"]
            said = [it for it in asked.said if it.role != "system"]
            place, new = self._place(asked, said)
            if not place.conversation:
                place = place._replace(conversation=str(uuid.uuid4()))
            if not place.turn:
                self._start(place.conversation, said)
            for it in systems:
                known, place = (
                    place.systems,
                    place._replace(systems=with_system(place.systems, joined(it.texts))),
                )
                if known != place.systems:
                    place = self._say(place, it)
            for it in new:
                place = self._say(place, it)
            if self._given is not None:
                self._given = place._replace(key="")
            return Exchange(self, place, asked)

    def _place(self, asked: Asked, said: list[Said]) -> tuple[Place, list[Said]]:
        """Where a request goes on, and which of its messages are new there."""
        fields = [it.fields() for it in said]
        start = self._given or Place("", "", "", "")
        if asked.after and (known := self._places.get(f"response {asked.after}")) is not None:
            start = known
        key = start.key
        places: list[Place | None] = []
        for it, its in zip(said, fields):
            key = key_after(key, it.role, its)
            places.append(self._places.get(key))
        if self._given is not None and start is self._given and not any(places):
            places = [
                self._places.get(key_after("answer", "assistant", its))
                if it.role == "assistant"
                else None
                for it, its in zip(said, fields)
            ]
        for at in range(len(places) - 1, -1, -1):
            known = places[at]
            if known is not None:
                return known, said[at + 1 :]
        return start, said

    def _start(self, id: str, said: Iterable[Said]) -> None:
        conversation = {"id": id, "client": "api"}
        prompts = (joined(it.texts)[:1000].split() for it in said if it.role == "user")
        if title := " ".join(next(prompts, [])):
            is_long = len(title) > _TITLE_CHARS_MAX
            conversation["title"] = title[: _TITLE_CHARS_MAX - 1] + "…" if is_long else title
        if self._session is not None:
            conversation["session_id"] = self._session
        try:
            # Nothing is recorded if the log has it.
            self._queue().request(conversation)
        except Exception as error:
            self.failed_to_record(error, "conversations", id)

    # Messages.

    def _say(
        self,
        place: Place,
        said: Said,
        fields: Mapping[str, Any] | None = None,
        *,
        part_of: str | None = None,
    ) -> Place:
        """Records a message with its turn, its calls or its result. Returns the place after it."""
        id = str(uuid.uuid4())
        turn = {
            "id": id,
            "kind": said.role,
            "content": said.content(),
            "thread_id": place.conversation,
        }
        turn["message_id"] = part_of or id
        if place.turn:
            turn["parent_id"] = place.turn
        self._put("conversation_turns", turn)
        its = said.fields()
        message = {
            "id": id,
            "conversation_id": place.conversation,
            "role": said.role,
            **its,
            **(fields or {}),
        }
        if part_of is not None:
            message["part_of"] = part_of
        if said.is_failure:
            message["error_type"] = TOOL_ERROR
        for name in ("tool_name", "tool_call_id", "model_used", "error_type"):
            if (
                not message.get(name)
                or len(message[name].encode("utf-8", "replace")) > NAME_BYTES_MAX
            ):
                message.pop(name, None)
        args = message.get("tool_args")
        if isinstance(args, str) and not is_json(args):
            del message["tool_args"]
        self._put("messages", message)
        for nth, call in enumerate(said.calls):
            is_whole = not isinstance(call.args, str) or is_json(call.args)
            if is_whole or message.get("error_type") != CANCELLED:
                self._call(place, id, nth, call)
        if said.answers is not None:
            self._result(place, said, its["tool_result"])
        place = place._replace(turn=id)
        return (
            place
            if said.role == "system"
            else place._replace(key=key_after(place.key, said.role, its))
        )

    def _call(self, place: Place, turn: str, nth: int, call: Call) -> None:
        call_id = call.id or f"{turn}:{nth}"
        requested = {
            "op": "requested",
            "request_id": turn,
            "call_id": call_id,
            "parent_id": turn,
            "vendor": self.vendor,
            "tool_name": call.name or "unknown",
            "arguments_json": call.args,
        }
        self._put("tool_calls", requested)
        self._calls.put(f"{place.conversation} {call_id}", (turn, call_id))
        if call.status != "requested":
            self._done(
                place, call_id, call.outcome, str(call.outcome) if call.status == "failed" else None
            )

    def _result(self, place: Place, said: Said, result: str) -> None:
        self._done(place, said.answers or "", result, result if said.is_failure else None)

    def _done(self, place: Place, call_id: str, outcome: Any, error: str | None) -> None:
        # A result that is sent again changes nothing: a call has one outcome.
        turn, call_id = self._calls.pop(f"{place.conversation} {call_id}", (None, ""))
        if turn is None:
            return
        done = {"op": "completed", "request_id": turn, "call_id": call_id, "outcome_json": outcome}
        if error is not None:
            done |= {"op": "failed", "error_kind": TOOL_ERROR, "error_msg": error}
        self._put("tool_calls", done)

    # Answers.

    def answered(self, exchange: Exchange, answer: Answer, error: tuple[str, str] | None) -> None:
        """Records the answer to a request, or as much of it as was received before an error."""
        error = error or answer.error
        with self._lock:
            after = exchange.place
            fields: dict[str, Any] = {
                "model_used": answer.model or exchange.model,
                "latency_ms": round((time.monotonic() - exchange.started) * 1000),
                **answer.tokens,
            }
            if answer.metadata:
                fields["inference_metadata"] = answer.metadata
            if error is not None:
                fields |= {"error_type": error[0], "error": error[1]}
                # The same request again is another attempt.
                self._places.put(after.key, after)
            first = ""
            for said in answer.choices or [Said("assistant")]:
                said.role = "assistant"
                model = {"model_used": fields["model_used"]}
                place = self._say(after, said, model if first else fields, part_of=first or None)
                if error is None or joined(said.texts) or said.calls:
                    self._remember(place, said.fields())
                if not first:
                    first = place.turn
                    if self._given is not None:
                        self._given = place._replace(key="")
                    if answer.id and answer.error is None:
                        self._places.put(f"response {answer.id}", place)
                    if exchange.talk:
                        self._places.put(f"response {exchange.talk}", place)


class Exchange:
    """A request that was recorded, and whose answer is recorded once."""

    __slots__ = ("_is_ended", "_recorder", "model", "place", "started", "talk", "what")

    def __init__(self, recorder: Recorder, place: Place, asked: Asked) -> None:
        self._recorder = recorder
        self._is_ended = False
        self.place = place
        self.what = asked.what
        self.model = asked.model
        self.talk = asked.after if asked.after.startswith("conv") else ""
        self.started = time.monotonic()

    @property
    def is_ended(self) -> bool:
        """Whether the answer is recorded."""
        return self._is_ended

    def ended(self, answer: Callable[[], Answer], error: BaseException | None = None) -> None:
        """Records the answer, and the error if there is one. Later calls do nothing."""
        if not self._is_ended:
            self._is_ended = True
            self._recorder.safely(self._record, answer, error)

    def _record(self, answer: Callable[[], Answer], error: BaseException | None) -> None:
        it = answer()
        failure = None
        if error is not None:
            failure = _failure(error)
            for name in ("status_code", "request_id", "code", "type"):
                if isinstance(value := getattr(error, name, None), (str, int)):
                    it.metadata[name] = value
        self._recorder.answered(self, it, failure)


def _failure(error: BaseException) -> tuple[str, str]:
    """The type and the message of an error. What is no error of the request cancelled it."""
    if not isinstance(error, Exception):
        return CANCELLED, f"the caller cancelled the request: {type(error).__name__}"
    kind = type(error).__name__
    return kind, str(error) or kind
