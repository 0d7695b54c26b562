"""A conversation while it is recorded. Requests to models repeat its history: each message is
recorded once."""

from __future__ import annotations

import datetime
import uuid
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ._said import TOOL_ERROR, Call, Said, derived
from .errors import Error

if TYPE_CHECKING:
    from ._queue import Queue

CALLS_READ_MAX = 100
"""How many calls with the same id are read to find that of a conversation."""


@dataclass
class Heard:
    """The place of an answer: after the messages of its request."""

    anchor: str
    """The answer before it, or the conversation."""
    parent: str | None
    """The turn before it."""


class Talk:
    """A conversation: its messages, turns and tool calls."""

    def __init__(self, queue: Queue, fields: dict[str, Any], name: str) -> None:
        self.id: str = fields["id"]
        self.latest: str | None = None
        """The turn recorded last."""
        self.failed: Any = None
        """The error recorded last, if no answer came since."""
        self._queue = queue
        self._fields = fields
        self._name = name
        self._has_begun = False
        self._is_in_log = False
        self._known: set[str] = set()
        self._by_message_id: dict[str, str] = {}
        self._by_digest: dict[str, str] = {}
        self._calls: dict[str, str] = {}
        """The turn that asked for each call."""
        self._vendors: dict[str, str] = {}
        """The vendor of the model of each turn with calls."""
        self._open: dict[tuple[str, str], Call] = {}
        """The calls without an outcome, each by its turn and its id."""
        self._running: set[tuple[str, str]] = set()
        """Those of them whose tools run."""

    def read(self) -> None:
        """Reads what the log has of it, if another process or an earlier handler recorded it."""
        try:
            if self._queue.log.get_conversation(self.id) is None:
                return
            self._has_begun = self._is_in_log = True
            for message in self._queue.log.messages(conversation_id=self.id):
                self._known.add(message.id)
                self.latest = message.id
                found = message.inference_metadata
                found = found.get(self._name) if isinstance(found, dict) else None
                name = found.get("message_id") if isinstance(found, dict) else None
                if isinstance(name, str):
                    self._by_message_id[name] = message.id
        except Error as error:
            self._queue.lose(error)

    # Messages.

    def hear(self, messages: list[Said], at: int) -> Heard:
        """Records the messages of a request that are new. Returns the place of its answer."""
        self._begin(messages, at)
        place = Heard(self.id, None)
        seen: Counter[str] = Counter()
        history = self._history(messages)
        for index, said in enumerate(messages):
            digest = said.digest()
            id = said.key(place.anchor, seen[digest])
            seen[digest] += 1
            known = self._find(said, id, digest, is_history=index < history)
            if known is None:
                self._note(said, id, digest)
                self._put(id, place.parent, said, at, {})
                if said.role == "assistant":
                    self._request(id, said.calls, at, self._name)
                if said.result is not None:
                    self._answered(said, at)
            id = known or id
            place.parent = id
            if said.role == "assistant":
                place.anchor = id
                seen.clear()
        return place

    def _history(self, messages: list[Said]) -> int:
        """The number of messages up to the last answer that is known."""
        for index in range(len(messages), 0, -1):
            said = messages[index - 1]
            if said.role == "assistant" and self._find(said, "", said.digest(), is_history=True):
                return index
        return 0

    def _find(self, said: Said, id: str, digest: str, *, is_history: bool) -> str | None:
        if id in self._known:
            return id
        known = self._by_message_id.get(said.message_id) if said.message_id else None
        # The beginning of a history may be left out. What remains has other ids then.
        if known is None and (is_history or said.role == "assistant") and said.result is None:
            known = self._by_digest.get(digest)
        if known is None and is_history and said.result is not None:
            turn = self._calls.get(said.result.call_id)
            id = derived(turn, f"result:{said.result.call_id}") if turn else ""
            known = id if id in self._known else None
        return known

    def _note(self, said: Said, id: str, digest: str) -> None:
        self._known.add(id)
        self._by_digest[digest] = id
        if said.message_id:
            self._by_message_id[said.message_id] = id

    def answer(self, said: Said, place: Heard, at: int, run: str, facts: dict[str, Any]) -> str:
        """Records an answer, with what is known besides its content. Returns its id."""
        digest = said.digest()
        id = said.key(place.anchor, 0)
        if id in self._known or facts.get("error") is not None:
            # Another request got the same answer, or none.
            id = derived(place.anchor, f"run:{run}")
        vendor = facts.pop("vendor", self._name)
        if facts.get("error") is None:
            self._note(said, id, digest)
            self.failed = None
        self._known.add(id)
        self._put(id, place.parent, said, at, facts)
        self._request(id, said.calls, at, vendor)
        return id

    def part(self, said: Said, answer: str, nth: int, at: int) -> None:
        """Records a further answer to the same request."""
        id = derived(answer, f"part:{nth}")
        self._put(id, answer, said, at, {"part_of": answer})

    def fail(self, message: str, kind: str, at: int, run: str) -> None:
        """Records that the run failed, and not because of the model."""
        self._begin([], at)
        facts = {"error": message, "error_type": kind, "metadata": {"run_id": run}}
        said = Said("system", texts=[message])
        self._put(derived(self.id, f"failed:{run}"), self.latest, said, at, facts)

    def _begin(self, messages: list[Said], at: int) -> None:
        if self._has_begun:
            return
        fields = dict(self._fields)
        if "title" not in fields:
            titles = (it.title() for it in messages if it.role == "user")
            title = next((it for it in titles if it), None)
            if title is not None:
                fields["title"] = title
        fields["created_at"] = rfc3339(at)
        # If it is refused, its messages would be rejected.
        self._has_begun = self._queue.put(fields, "conversations")

    def _put(self, id: str, parent: str | None, said: Said, at: int, facts: dict[str, Any]) -> None:
        facts = dict(facts)
        named = facts.pop("metadata", {})
        if said.message_id:
            named["message_id"] = said.message_id
        metadata = facts.pop("inference_metadata", {})
        if named:
            metadata[self._name] = named
        message = {
            "id": id,
            "conversation_id": self.id,
            "timestamp": rfc3339(at),
            **said.message(),
            **facts,
        }
        if metadata:
            message["inference_metadata"] = metadata
        turn = {
            "id": id,
            "message_id": facts.get("part_of") or id,
            "thread_id": self.id,
            "created_at": at,
            **said.turn(),
        }
        if parent is not None:
            turn["parent_id"] = parent
        self._queue.put(message, "messages")
        self._queue.put(turn, "conversation_turns")
        self.latest = id

    # Tool calls.

    def _request(self, turn: str, calls: list[Call], at: int, vendor: str) -> None:
        for call in calls:
            self._vendors[turn] = vendor
            self._put_call(turn, call, at)

    def _put_call(self, turn: str, call: Call, at: int) -> None:
        vendor = self._vendors.get(turn, self._name)
        self._calls[call.id] = turn
        self._open[turn, call.id] = call
        self._queue.put(requested(turn, call, at, vendor), "tool_calls")

    def call(self, call: Call, at: int, within: str) -> str:
        """Records that a tool began. Returns the turn that asked for it.

        A call without an id gets that of the request which it seems to answer.
        """
        call.id = call.id or self._asked(call)
        turn = self._calls.get(call.id) or self._logged_call(call)
        if turn is None:
            # No model asked for it.
            turn = self.latest or self._bare_turn(within, at)
            call.id = call.id or f"call_{uuid.uuid4().hex}"
        self._put_call(turn, call, at)
        self._running.add((turn, call.id))
        return turn

    def _asked(self, call: Call) -> str:
        waiting = {
            id: it
            for (turn, id), it in self._open.items()
            if it.name == call.name and (turn, id) not in self._running
        }
        same = (id for id, it in waiting.items() if it.args == call.args)
        return next(same, next(iter(waiting), "") if len(waiting) == 1 else "")

    def _logged_call(self, call: Call) -> str | None:
        if not self._is_in_log:
            return None
        name = None if call.id else call.name
        try:
            for it in self._queue.log.tool_calls(
                call_id=call.id or None, tool_name=name, limit=CALLS_READ_MAX
            ):
                is_it = call.id or (it.status == "requested" and it.arguments_json == call.args)
                if is_it and it.parent_id in self._known:
                    call.id = it.call_id
                    self._vendors[it.request_id] = it.vendor
                    return it.request_id
        except Error as error:
            self._queue.lose(error)
        return None

    def _bare_turn(self, content: str, at: int) -> str:
        id = derived(self.id, "run")
        turn = {"id": id, "thread_id": self.id, "kind": "sysinfo", "content": content}
        self._queue.put({**turn, "created_at": at}, "conversation_turns")
        self.latest = id
        return id

    def ended(self, turn: str, call_id: str, at: int, outcome: dict[str, Any]) -> None:
        """Records the outcome of a call."""
        if (turn, call_id) not in self._open:
            # It has an outcome, and the first one stands.
            return
        del self._open[turn, call_id]
        self._running.discard((turn, call_id))
        done = {"request_id": turn, "call_id": call_id, "ended_at": at, **outcome}
        self._queue.put(done, "tool_calls")

    def paused(self, turn: str, call_id: str) -> None:
        """Notes that a tool was interrupted. It will run again."""
        self._running.discard((turn, call_id))

    def result(self, said: Said, turn: str, at: int) -> None:
        """Records the result that the model will get."""
        id = said.key(turn, 0)
        if id in self._known or not self._has_begun:
            return
        self._note(said, id, said.digest())
        self._put(id, turn, said, at, {})

    def late(self, said: Said, at: int) -> None:
        """Records a result, unless it is known, which no model is told."""
        turn = self._calls.get(said.result.call_id) if said.result else None
        if turn is not None:
            self.result(said, turn, at)
            self._answered(said, at)

    def _answered(self, said: Said, at: int) -> None:
        # No tool ran, for instance because there is none of this name.
        result = said.result
        if result is None:
            return
        turn = self._calls.get(result.call_id)
        if turn is not None:
            outcome = outcome_of(result.text, result.is_failed)
            self.ended(turn, result.call_id, at, outcome)


def outcome_of(text: Any, is_failed: bool) -> dict[str, Any]:
    """The outcome of a call whose result is this text."""
    outcome: dict[str, Any] = {"op": "completed", "outcome_json": text}
    if is_failed:
        outcome.update(op="failed", error_kind=TOOL_ERROR, error_msg=str(text))
    return outcome


def requested(turn: str, call: Call, at: int, vendor: str) -> dict[str, Any]:
    """The request of a call."""
    return {
        "op": "requested",
        "request_id": turn,
        "call_id": call.id,
        "parent_id": turn,
        "vendor": vendor,
        "tool_name": call.name or "unknown",
        "arguments_json": {} if call.args is None else call.args,
        "started_at": at,
    }


def rfc3339(at: int) -> str:
    """A time in epoch milliseconds as text."""
    when = datetime.datetime.fromtimestamp(at / 1000, datetime.timezone.utc)
    return when.isoformat(timespec="milliseconds").replace("+00:00", "Z")
