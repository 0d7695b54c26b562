"""The log and its handles."""

from __future__ import annotations

import atexit
import weakref
from typing import TYPE_CHECKING, Any

from . import _decklog
from ._lists import Lists
from .errors import ClosedError, ForkedError

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from types import TracebackType
    from typing import Literal, Self, TypeVar

    from . import records
    from ._decklog import Ack, ArrowStream

    F = TypeVar("F", bound=Callable[..., Any])

Record = "Mapping[str, Any] | records.Record | Any"
Kind = (
    "Literal['conversation_turns', 'tool_calls', 'code_edit_proposals', 'conversations',"
    " 'messages', 'events', 'inbox', 'history', 'thought_records', 'rollups']"
)

_OPEN: weakref.WeakSet[Any] = weakref.WeakSet()
"""The captures that may have records in their queues."""


@atexit.register
def _drain() -> None:
    for it in list(_OPEN):
        try:
            it.close()
        except (ClosedError, ForkedError):
            pass


def open(
    path: str | os.PathLike[str],
    *,
    durability: Literal["process", "disk"] = "process",
    read_only: bool = False,
    create: bool = True,
    lock_timeout: float | None = None,
) -> Log:
    """Opens the log in a directory, which is created if there is none.

    durability: When a record is acknowledged: `process`, when the operating system has it, so that
        it survives a kill of the process; `disk`, when it is on disk, so that it survives a power
        cut.
    read_only: Whether recording is refused.
    create: Whether a log is created if there is none.
    lock_timeout: How long to wait for another process that writes, in seconds. Default: 10.

    Raises `NotAStoreError` for a directory with other files.

    >>> import decklog, tempfile
    >>> log = decklog.open(tempfile.mkdtemp() + "/log")
    >>> log.record({"kind": "events", "event_type": "worker.spawned"})
    Ack(seq=1, status='added', id=1)
    >>> log.close()
    """
    return Log(
        path,
        durability=durability,
        read_only=read_only,
        create=create,
        lock_timeout=lock_timeout,
    )


class Log(_decklog.Log, Lists):
    """A log that is open. Made by `decklog.open`.

    Threads may share it. A child that was forked may not use it: it opens the log again.
    """

    _default: Run | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def record_batch(
        self, records: Iterable[Record], /, *, kind: Kind | None = None
    ) -> list[Ack]:
        """Records facts in order, much faster than one by one.

        Each is accepted or rejected on its own. Raises `BatchError` if any was rejected; the others
        are recorded.

        >>> log.record_batch([{"event_type": "a.b"}, {"event_type": "c.d"}], kind="events")
        [Ack(seq=1, status='added', id=1), Ack(seq=2, status='added', id=2)]
        """
        results, failed = self._record_batch(records, kind=kind)
        if failed:
            from .errors import BatchError

            raise BatchError(results, failed)
        return results

    async def record_async(self, record: Record, /, *, kind: Kind | None = None) -> Ack:
        """As `record`, on another thread: the event loop goes on meanwhile."""
        import asyncio

        return await asyncio.to_thread(self.record, record, kind=kind)

    async def record_batch_async(
        self, records: Iterable[Record], /, *, kind: Kind | None = None
    ) -> list[Ack]:
        """As `record_batch`, on another thread: the event loop goes on meanwhile."""
        import asyncio

        return await asyncio.to_thread(self.record_batch, records, kind=kind)

    # The loop of an agent.

    def run(
        self,
        vendor: str = "python",
        *,
        thread_id: str | None = None,
        conversation: Mapping[str, Any] | records.Conversation | None = None,
        through: Capture | None = None,
    ) -> Run:
        """A run of an agent: its turns and tool calls, in a thread of their own.

        vendor: The vendor of the model or the tools, such as `anthropic`.
        thread_id: Continues a thread that the log has.
        conversation: Records messages too, in this conversation.
        through: Queues everything and never waits.

        Within `with log.run(...)`, it is the run of `log.turn`, `log.tool_call` and `log.tool`.

        >>> with log.run("anthropic") as run:
        ...     turn = run.assistant("I will look.")
        ...     turn.tool_call("count_lines", {"path": "main.rs"}).done(12)
        """
        capture = None if through is None else through._native
        native = self._run(vendor, thread_id=thread_id, conversation=conversation, through=capture)
        return Run(self, native)

    def _current(self) -> Run:
        current = _current_run()
        if current is not None and current._log is self:
            return current
        if self._default is None:
            self._default = self.run()
        return self._default

    def turn(
        self,
        kind: Literal["user", "assistant", "system", "sysinfo", "tool"],
        content: str,
        /,
    ) -> Turn:
        """Records a turn of the current run.

        >>> log.turn("user", "How long is main.rs?").id == next(log.turns()).id
        True
        """
        return self._current().turn(kind, content)

    def tool_call(
        self, tool_name: str, arguments: Any = None, /, *, call_id: str | None = None
    ) -> ToolCallScope:
        """Records the request of a tool call, which belongs to the latest turn of the current run.

        At the end of a `with` block the outcome is recorded, unless it was. An exception is a
        failure.

        >>> with log.tool_call("Bash", {"command": "ls"}) as call:
        ...     call.done({"stdout": "a.txt"})
        >>> [(it.status, it.outcome_json) for it in log.tool_calls()]
        [('completed', {'stdout': 'a.txt'})]
        """
        return self._current().tool_call(tool_name, arguments, call_id=call_id)

    def tool(self, function: F | None = None, /, *, name: str | None = None) -> Any:
        """Decorates a function: each call of it is recorded as a tool call.

        What it returns is recorded as JSON or, if it has no such form, as the text of its `repr`.

        >>> @log.tool
        ... def double(number):
        ...     return number * 2
        >>> double(4)
        8
        >>> [(it.tool_name, it.arguments_json, it.outcome_json) for it in log.tool_calls()]
        [('double', {'number': 4}, 8)]
        """
        from ._tool import decorated

        if function is None:
            return lambda function: decorated(self, function, name)
        return decorated(self, function, name)

    def conversation(
        self,
        id: str | None = None,
        /,
        *,
        client: str = "api",
        **fields: Any,
    ) -> Conversation:
        """A conversation and its messages. It is recorded, unless the log has one with this id.

        client: What the user talks through: `vscode`, `web`, `api`, `cli` or another name.
        fields: Further fields, such as `title`: see `decklog.Conversation`.

        >>> talk = log.conversation(title="Lengths")
        >>> talk.user("How long is main.rs?").sequence
        1
        >>> talk.assistant("12 lines.", model_used="small-1", tokens_out=4).sequence
        2
        >>> talk.get().total_tokens_out
        4
        """
        if id is None or self.get_conversation(id) is None:
            record = {"client": client, **fields}
            if id is not None:
                record["id"] = id
            id = str(self.record(record, kind="conversations").id)
        return Conversation(self, id)

    @property
    def inbox(self) -> Inbox:
        """The tasks, each held by one worker at a time.

        >>> task = log.inbox.enqueue(7001, {"text": "deploy"})
        >>> task = log.inbox.claim()
        >>> task.payload
        {'text': 'deploy'}
        >>> log.inbox.done(task)
        """
        return Inbox(self, None)

    @property
    def thoughts(self) -> Thoughts:
        """The chained thoughts.

        >>> plan = log.thoughts.create("plan", task_id="t1", agent_id="a1", content="Read first.")
        >>> log.thoughts.verify_chain("t1")["is_intact"]
        True
        """
        return Thoughts(self)

    def capture(
        self,
        *,
        queue_records_max: int | None = None,
        queue_bytes_max: int | None = None,
        when_full: Literal["refuse", "wait"] = "refuse",
        drain_timeout: float | None = None,
        on_error: Callable[[Exception, str, str], object] | None = None,
    ) -> Capture:
        """Records without waiting: a thread writes what is queued, in order.

        queue_records_max: How many records may wait. Default: 10,000.
        queue_bytes_max: How many bytes of text may wait. Default: 64 MiB.
        when_full: What a call does while the queue is full: `refuse` raises `QueueFullError` at
            once; `wait` waits.
        drain_timeout: How long to wait for another process that writes when it is closed, in
            seconds. Default: 30.
        on_error: Called on the writing thread with the exception, the kind and the key of each
            record that was queued and then lost.

        It is closed at exit, which writes what is queued.

        >>> with log.capture() as capture:
        ...     _ = capture.record({"kind": "events", "event_type": "a.b"})
        >>> next(log.events()).event_type
        'a.b'
        """
        native = self._capture(
            queue_records_max=queue_records_max,
            queue_bytes_max=queue_bytes_max,
            when_full=when_full,
            drain_timeout=drain_timeout,
            on_error=on_error,
        )
        capture = Capture(native)
        _OPEN.add(capture)
        return capture

    # Reading.

    def get_turn(self, id: str, /, *, as_of: int | None = None) -> records.ConversationTurn | None:
        """The turn with this id; `None` if there is none, or it is retracted.

        as_of: As it was at this time, in epoch milliseconds.
        """
        return self._get("conversation_turns", id, as_of=as_of)

    def get_tool_call(
        self, request_id: str, call_id: str, /, *, as_of: int | None = None
    ) -> records.ToolCall | None:
        """The tool call of a request; `None` if there is none, or it is retracted."""
        return self._get("tool_calls", request_id, call_id, as_of=as_of)

    def get_proposal(
        self, request_id: str, /, *, as_of: int | None = None
    ) -> records.CodeEditProposal | None:
        """The edit that a request proposed; `None` if there is none, or it is retracted."""
        return self._get("code_edit_proposals", request_id, as_of=as_of)

    def get_conversation(self, id: str, /) -> records.Conversation | None:
        """The conversation with this id, with the totals of its messages."""
        return self._get("conversations", id)

    def get_message(self, id: str, /) -> records.ConversationMessage | None:
        """The message with this id."""
        return self._get("messages", id)

    def get_event(self, id: int, /) -> records.Event | None:
        """The event with this id."""
        return self._get("events", id)

    def history(self, chat_id: int, /, *, limit: int = 100) -> list[records.HistoryEntry]:
        """The last messages of a chat, oldest first."""
        newest = self.history_entries(chat_id=chat_id, order="desc", limit=limit)
        return list(newest)[::-1]

    def search(
        self,
        text: str,
        /,
        *,
        kind: Kind | None = None,
        since: int | str | None = None,
        until: int | str | None = None,
        limit: int = 100,
    ) -> list[dict[str, Any]]:
        """The lines that contain a text, latest day first. Case is ignored.

        Each match has `seq`, `kind`, `key`, `at`, `field`, `snippet` and, for a message,
        `conversation_id`.

        >>> log.turn("user", "How long is main.rs?") and None
        >>> [match["field"] for match in log.search("MAIN.RS")]
        ['/content']
        """
        return self._search(text, kind=kind, since=since, until=until, limit=limit)

    def to_arrow(
        self,
        kind: Kind,
        /,
        *,
        since: int | str | None = None,
        until: int | str | None = None,
        columns: Iterable[str] | None = None,
    ) -> ArrowStream:
        """The current records of a kind as an Arrow stream, oldest first.

        Polars, DuckDB, pandas and pyarrow take it: `polars.DataFrame(log.to_arrow("tool_calls"))`,
        `pyarrow.table(...)`, `pandas.DataFrame.from_arrow(...)`. Times are timestamps, JSON is text.
        The stream is read once.

        columns: Only these, in this order. Default: all.
        """
        names = None if columns is None else list(columns)
        return self._arrow(kind, since=since, until=until, columns=names)

    def retract(
        self,
        kind: Literal["conversation_turns", "tool_calls", "code_edit_proposals"],
        id: str,
        call_id: str = "",
        /,
        *,
        at: int | None = None,
    ) -> Ack:
        """Retracts a turn, a tool call or a proposal, from a time on.

        at: The time, in epoch milliseconds. Default: now.

        >>> turn = log.turn("user", "a mistake")
        >>> log.retract("conversation_turns", turn.id).status
        'added'
        >>> log.get_turn(turn.id) is None
        True
        """
        return self._retract(kind, id, call_id, at)


_RUN: Any = None


def _current_run() -> Run | None:
    return None if _RUN is None else _RUN.get()


class Run:
    """A run of an agent. Made by `Log.run`."""

    def __init__(self, log: Log, native: _decklog.Run) -> None:
        self._log = log
        self._native = native
        self._turn: Turn | None = None
        self._tokens: list[Any] = []

    @property
    def thread_id(self) -> str:
        """The id of its thread."""
        return self._native.thread_id

    def turn(
        self,
        kind: Literal["user", "assistant", "system", "sysinfo", "tool"],
        content: str,
        /,
    ) -> Turn:
        """Records a turn, which follows the one before it."""
        self._turn = Turn(self._native.turn(kind, content))
        return self._turn

    def user(self, content: str, /) -> Turn:
        """Records what the user says."""
        return self.turn("user", content)

    def assistant(self, content: str, /) -> Turn:
        """Records what the model answers."""
        return self.turn("assistant", content)

    def tool_call(
        self, tool_name: str, arguments: Any = None, /, *, call_id: str | None = None
    ) -> ToolCallScope:
        """Records the request of a tool call of the latest turn.

        Without a turn, an empty one of the assistant is recorded first.
        """
        turn = self._turn or self.assistant("")
        return turn.tool_call(tool_name, arguments, call_id=call_id)

    def __enter__(self) -> Self:
        global _RUN
        if _RUN is None:
            from contextvars import ContextVar

            _RUN = ContextVar("decklog run", default=None)
        self._tokens.append(_RUN.set(self))
        return self

    def __exit__(self, *_: object) -> None:
        _RUN.reset(self._tokens.pop())

    def __repr__(self) -> str:
        return repr(self._native)


class Turn:
    """A turn that was recorded. Made by `Log.turn` and `Run.turn`."""

    __slots__ = ("_native",)

    def __init__(self, native: _decklog.Turn) -> None:
        self._native = native

    @property
    def id(self) -> str:
        """Its id, which is also the `request_id` and the `parent_id` of its tool calls."""
        return self._native.id

    def tool_call(
        self, tool_name: str, arguments: Any = None, /, *, call_id: str | None = None
    ) -> ToolCallScope:
        """Records the request of a tool call.

        arguments: What has a form in JSON.
        call_id: The vendor's id of the call. Default: a new one.
        """
        if call_id is None:
            import uuid

            call_id = f"call_{uuid.uuid4().hex}"
        given = {} if arguments is None else arguments
        return ToolCallScope(self._native.call(call_id, tool_name, given))

    def __repr__(self) -> str:
        return repr(self._native)


class ToolCallScope:
    """A tool call that was requested. Made by `Log.tool_call`.

    Its outcome is recorded once: by `done`, by `failed`, or at the end of a `with` block. A call
    that is dropped without an outcome is recorded as failed, with the `error_kind` `abandoned`.
    """

    __slots__ = ("_native",)

    def __init__(self, native: _decklog.Call) -> None:
        self._native = native

    @property
    def call_id(self) -> str:
        """Its id."""
        return self._native.call_id

    @property
    def turn_id(self) -> str:
        """The turn that it belongs to."""
        return self._native.turn_id

    def done(self, outcome: Any = None, /) -> None:
        """Records what the tool returned, and how long it took."""
        self._native.done(outcome)

    def failed(self, error_kind: str, error_msg: str = "", /) -> None:
        """Records that the tool failed, and how long it took."""
        self._native.failed(error_kind, error_msg)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        _: TracebackType | None,
    ) -> None:
        if self._native.is_ended:
            return
        if kind is None:
            self.done()
        else:
            self.failed(kind.__name__, str(error))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.__exit__(kind, error, traceback)


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
        self, role: Literal["system", "user", "assistant", "tool"], content: Any, /, **fields: Any
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
            from .errors import NotFoundError

            raise NotFoundError(f"the log has no conversation {self._id}")
        return found

    def update(self, **fields: Any) -> Ack:
        """Changes fields of the conversation.

        >>> talk = log.conversation()
        >>> talk.update(title="Lengths").status
        'added'
        >>> talk.get().title
        'Lengths'
        """
        now = self.get().to_dict()
        del now["updated_at"]
        return self._log.record({"op": "updated", **now, **fields}, kind="conversations")

    def messages(self, **arguments: Any) -> Iterator[records.ConversationMessage]:
        """Its messages, in order. Takes the arguments of `Log.messages`."""
        return self._log.messages(conversation_id=self._id, **arguments)

    def __repr__(self) -> str:
        return f"Conversation(id={self._id!r})"


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
        self._native.done(task)

    def fail(self, task: records.InboxTask, error: str, /) -> None:
        """Records that a claimed task failed for good."""
        self._native.fail(task, error)

    def retry(self, task: records.InboxTask, error: str, /) -> Literal["queued", "failed"]:
        """Gives a claimed task back. Returns its status: `failed` after the last attempt."""
        return self._native.retry(task, error)

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
        return self._log._get("inbox", id)

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
        return self._log._get("thought_records", id)

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

    def record(self, record: Record, /, *, kind: Kind | None = None) -> str | None:
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
        _OPEN.discard(self)
        self._native.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
