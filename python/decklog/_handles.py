"""Handles of a log: conversations, the inbox, thoughts, and recording without waiting."""

from __future__ import annotations

import atexit
import weakref
from typing import TYPE_CHECKING, Any

from .errors import ClosedError, ForkedError, InvalidInputError, NotFoundError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import Literal, TypeAlias

    from typing_extensions import Self

    from . import _decklog, records
    from ._decklog import Ack
    from ._log import Log
    from ._types import RecordLike
    from .records import Kind

    Role: TypeAlias = Literal["system", "user", "assistant", "tool"]

OPEN: weakref.WeakSet[Any] = weakref.WeakSet()
"""The captures that may have records in their queues."""


BEFORE_DRAIN: list[Callable[[], object]] = []
"""Called at exit, before the captures are closed: what queues the rest of what is going on."""


@atexit.register
def _drain() -> None:
    for end in BEFORE_DRAIN:
        try:
            end()
        except Exception:
            import logging

            logging.getLogger("decklog").warning("not all was recorded at exit", exc_info=True)
    for it in list(OPEN):
        try:
            it.close()
        except (ClosedError, ForkedError):
            pass


class Conversation:
    """A conversation in the log. Made by `Log.conversation`."""

    __slots__ = ("_log", "_id")

    def __init__(self, log: Log, id: str) -> None:
        self._log = log
        self._id = id

    @property
    def id(self) -> str:
        """Its id."""
        return self._id

    def message(
        self, role: Role, content: Any, /, **fields: Any
    ) -> Ack:
        """Records the next message.

        content: A text, or the blocks of a vendor's message.
        fields: Further fields, such as `tokens_in`: see `decklog.ConversationMessage`.
        """
        message = {"conversation_id": self._id, "role": role, "content": content, **fields}
        return self._log.record(message, kind="messages")

    def user(self, content: Any, /, **fields: Any) -> Ack:
        """Records a message of the user."""
        return self.message("user", content, **fields)

    def assistant(self, content: Any, /, **fields: Any) -> Ack:
        """Records an answer of the model."""
        return self.message("assistant", content, **fields)

    def system(self, content: Any, /, **fields: Any) -> Ack:
        """Records a message of the system."""
        return self.message("system", content, **fields)

    def tool(self, content: Any, /, **fields: Any) -> Ack:
        """Records the output of a tool."""
        return self.message("tool", content, **fields)

    def get(self) -> records.Conversation:
        """The conversation as it is now, with the totals of its messages."""
        found = self._log.get_conversation(self._id)
        if found is None:
            raise NotFoundError(f"the log has no conversation {self._id}")
        return found

    def update(self, **fields: Any) -> records.Conversation:
        """Changes fields of the conversation, and returns it as it is then. `None` clears a field.

        >>> log.conversation().update(title="Lengths").title
        'Lengths'
        """
        changed: records.Conversation = self._log._update_conversation(self._id, **fields)
        return changed

    def messages(self, **arguments: Any) -> Iterator[records.ConversationMessage]:
        """Its messages, in order. Takes the arguments of `Log.messages`."""
        return self._log.messages(conversation_id=self._id, **arguments)

    def __repr__(self) -> str:
        return f"Conversation(id={self._id!r})"


def claimed(task: records.InboxTask | None) -> records.InboxTask:
    """A task, for what takes one."""
    if task is None:
        raise InvalidInputError(
            "task is None: give what `claim` returned, which is None if nothing is queued",
            field="task",
        )
    return task


class Inbox:
    """Tasks, each held by one worker at a time. Made by `Log.inbox`."""

    __slots__ = ("_log", "_native")

    def __init__(self, log: Log, attempts_max: int | None) -> None:
        self._log = log
        self._native = log._inbox(attempts_max)

    def attempts_max(self, attempts: int, /) -> Inbox:
        """The inbox with a limit of attempts. After the last one, a task fails instead of being
        queued again."""
        return Inbox(self._log, attempts)

    def enqueue(self, update_id: int, payload: Any = None, /) -> records.InboxTask:
        """Queues a task. If the `update_id` is known, returns the task that is there."""
        return self._native.enqueue(update_id, payload)

    def enqueue_message(
        self, update_id: int, /, *, chat_id: int, text: str, date: int
    ) -> records.InboxTask:
        """Queues a message of a chat. `date` is stored as the sender gives it."""
        return self._native.enqueue_message(update_id, chat_id, text, date)

    def claim(self) -> records.InboxTask | None:
        """Takes the oldest task that is queued; `None` if there is none."""
        return self._native.claim()

    def done(self, task: records.InboxTask, /) -> None:
        """Records that a claimed task is completed."""
        self._native.done(claimed(task))

    def fail(self, task: records.InboxTask, error: str, /) -> None:
        """Records that a claimed task failed for good."""
        self._native.fail(claimed(task), error)

    def retry(self, task: records.InboxTask, error: str, /) -> Literal["queued", "failed"]:
        """Gives a claimed task back. Returns its status: `failed` after the last attempt."""
        return self._native.retry(claimed(task), error)

    def release_stale(self, timeout: float, /) -> list[records.InboxTask]:
        """Gives back the tasks that were claimed more than this number of seconds ago."""
        return self._native.release_stale(timeout)

    def counts(self) -> dict[str, int]:
        """The number of tasks by status."""
        return self._native.counts()

    def telegram_offset(self) -> int:
        """The greatest `update_id` plus 1, or 0: the next update to ask Telegram for."""
        return self._native.telegram_offset()

    def get(self, id: int, /) -> records.InboxTask | None:
        """The task with this id."""
        return self._log.get_task(id)

    def list(self, **arguments: Any) -> Iterator[records.InboxTask]:
        """The tasks. Takes the arguments of `Log.tasks`."""
        return self._log.tasks(**arguments)


class Thoughts:
    """Chained thoughts. Made by `Log.thoughts`."""

    __slots__ = ("_log", "_native")

    def __init__(self, log: Log) -> None:
        self._log = log
        self._native = log._thoughts()

    def create(
        self,
        type: Literal["plan", "analysis", "decision", "reflection"],
        /,
        *,
        task_id: str,
        agent_id: str,
        content: str,
        id: str | None = None,
        timestamp: str | None = None,
    ) -> records.ThoughtRecord:
        """Appends a thought to the chain of its task.

        id: Default: a new UUID.
        timestamp: In RFC 3339. Default: now.
        """
        return self._native.create(
            type,
            task_id=task_id,
            agent_id=agent_id,
            content=content,
            id=id,
            timestamp=timestamp,
        )

    def get(self, id: str, /) -> records.ThoughtRecord | None:
        """The thought with this id."""
        return self._log.get_thought(id)

    def list(
        self, task_id: str | None = None, /, *, limit: int | None = None
    ) -> list[records.ThoughtRecord]:
        """The thoughts of a task, or of all, in the order in which they were recorded."""
        return [*self._log.thought_records(task_id=task_id, limit=limit)]

    def verify_chain(self, task_id: str, /) -> dict[str, Any]:
        """Recomputes the hashes of a task's chain.

        The result has `is_intact`, `records`, `head` and, if the chain is broken, `broken`.
        """
        return self._native.verify_chain(task_id)


class Capture:
    """Records without waiting. Made by `Log.capture`."""

    def __init__(self, native: _decklog.Capture) -> None:
        self._native = native

    def record(self, record: RecordLike, /, *, kind: Kind | None = None) -> str | None:
        """Queues a record, and returns at once. Returns its id, unless the log assigns it.

        Raises `InvalidInputError` for a record that is invalid by itself, and `QueueFullError`. Later
        errors, such as a conflict, are those of `flush`, `last_error` and `on_error`.
        """
        return self._native.record(record, kind=kind)

    def request(
        self,
        conversation: Mapping[str, Any] | records.Conversation,
        messages: Iterable[Mapping[str, Any] | records.ConversationMessage] = (),
        /,
    ) -> None:
        """Queues a conversation, unless the log has its id, and messages of it: all, or none."""
        self._native.request(conversation, messages)

    def flush(self) -> None:
        """Returns when all that was queued is acknowledged or rejected.

        Raises the error of the last record that was lost, once.
        """
        self._native.flush()

    async def flush_async(self) -> None:
        """As `flush`, on another thread: the event loop goes on meanwhile."""
        import asyncio

        await asyncio.to_thread(self._native.flush)

    def stats(self) -> dict[str, int]:
        """The number of records by result: `queued`, `accepted`, `written`, `unchanged`, `refused`,
        `rejected`, `failed`."""
        return self._native.stats()

    def last_error(self) -> Exception | None:
        """The error of the last record that was queued and then lost."""
        return self._native.last_error()

    def close(self) -> None:
        """Writes what is queued. Later calls raise `ClosedError`."""
        OPEN.discard(self)
        self._native.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
