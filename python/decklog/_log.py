"""The log and its handles."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import _decklog
from ._handles import OPEN, Capture, Conversation, Inbox, Thoughts
from ._lists import Lists
from ._run import Run, ToolCallScope, Turn, current_run

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Mapping
    from typing import Literal, TypeVar, overload

    from typing_extensions import Self

    from . import records
    from ._decklog import Ack, ArrowStream
    from ._run import TurnKind
    from ._types import Id, RecordLike, Time
    from .errors import Error
    from .records import Kind

    F = TypeVar("F", bound=Callable[..., Any] | classmethod[Any, Any, Any])


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

    def close(self) -> None:
        """Syncs the log to disk and closes it. Raises what failed. Later calls raise `ClosedError`."""
        self._default = None
        super().close()

    def record_batch(
        self, records: Iterable[RecordLike], /, *, kind: Kind | None = None
    ) -> list[Ack]:
        """Records facts in order, much faster than one by one.

        Each is accepted or rejected on its own. Raises `BatchError` if any was rejected; the others
        are recorded. An exception of the iterator is raised once the records before it are recorded.
        Records are written while later ones are read: if they are made of what the log has, make a
        list of it first.

        >>> log.record_batch([{"event_type": "a.b"}, {"event_type": "c.d"}], kind="events")
        [Ack(seq=1, status='added', id=1), Ack(seq=2, status='added', id=2)]
        """
        results, failed = self._record_batch(records, kind=kind)
        if failed:
            from .errors import BatchError

            raise BatchError(results, failed)
        return results

    async def record_async(self, record: RecordLike, /, *, kind: Kind | None = None) -> Ack:
        """As `record`, on another thread: the event loop goes on meanwhile."""
        import asyncio

        return await asyncio.to_thread(self.record, record, kind=kind)

    async def record_batch_async(
        self, records: Iterable[RecordLike], /, *, kind: Kind | None = None
    ) -> list[Ack]:
        """As `record_batch`, on another thread: the event loop goes on meanwhile."""
        import asyncio

        return await asyncio.to_thread(self.record_batch, records, kind=kind)

    # The loop of an agent.

    def run(
        self,
        vendor: str = "python",
        *,
        thread_id: Id | None = None,
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
        thread = None if thread_id is None else str(thread_id)
        native = self._run(vendor, thread_id=thread, conversation=conversation, through=capture)
        return Run(self, native)

    def _current(self) -> Run:
        current = current_run(self)
        if current is not None:
            return current
        if self._default is None:
            # Threads that record at the same time share one.
            vars(self).setdefault("_default", self.run())
        assert self._default is not None
        return self._default

    def turn(self, kind: TurnKind, content: str, /) -> Turn:
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

    if TYPE_CHECKING:

        @overload
        def tool(self, function: F, /) -> F: ...
        @overload
        def tool(self, /, *, name: str | None = None) -> Callable[[F], F]: ...

    def tool(self, function: Any = None, /, *, name: str | None = None) -> Any:
        """Decorates a function: each call of it is recorded as a tool call.

        What it returns is recorded as JSON or, if it has no such form, as the text of its `repr`. A
        generator is recorded when it ends or is closed, with what it yielded. What the log cannot hold
        is shortened. Failures to record an outcome are warnings of the logger `decklog`: they are no
        failures of the function.

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
        id: Id | None = None,
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
                record["id"] = str(id)
            id = str(self.record(record, kind="conversations").id)
        return Conversation(self, str(id))

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
        on_error: Callable[[Error, str, str], object] | None = None,
    ) -> Capture:
        """Records without waiting: a thread writes what is queued, in order.

        queue_records_max: How many records may wait. Default: 10,000.
        queue_bytes_max: How many bytes of text may wait. Default: 64 MiB.
        when_full: What a call does while the queue is full: `refuse` raises `QueueFullError` at
            once; `wait` waits.
        drain_timeout: How long to wait for another process that writes when it is closed, in
            seconds. Default: 30.
        on_error: Called on the writing thread with the exception, the kind and the key of each
            record that was queued and then lost. If it refers to the capture, the capture lives until
            it is closed.

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
        OPEN.add(capture)
        return capture

    # Reading.

    def get_turn(self, id: Id, /, *, as_of: Time | None = None) -> records.ConversationTurn | None:
        """The turn with this id; `None` if there is none, or it is retracted.

        as_of: As it was at this time.
        """
        return self._get("conversation_turns", id, as_of=as_of)

    def get_tool_call(
        self, request_id: Id, call_id: str, /, *, as_of: Time | None = None
    ) -> records.ToolCall | None:
        """The tool call of a request; `None` if there is none, or it is retracted."""
        return self._get("tool_calls", request_id, call_id, as_of=as_of)

    def get_proposal(
        self, request_id: Id, /, *, as_of: Time | None = None
    ) -> records.CodeEditProposal | None:
        """The edit that a request proposed; `None` if there is none, or it is retracted."""
        return self._get("code_edit_proposals", request_id, as_of=as_of)

    def get_conversation(self, id: Id, /) -> records.Conversation | None:
        """The conversation with this id, with the totals of its messages."""
        return self._get("conversations", id)

    def get_message(self, id: Id, /) -> records.ConversationMessage | None:
        """The message with this id."""
        return self._get("messages", id)

    def get_event(self, id: int, /) -> records.Event | None:
        """The event with this id."""
        return self._get("events", id)

    def get_task(self, id: int, /) -> records.InboxTask | None:
        """The task with this id."""
        return self._get("inbox", id)

    def get_history_entry(self, id: int, /) -> records.HistoryEntry | None:
        """The entry of the history with this id."""
        return self._get("history", id)

    def get_thought(self, id: str, /) -> records.ThoughtRecord | None:
        """The thought with this id."""
        return self._get("thought_records", id)

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
        since: Time | None = None,
        until: Time | None = None,
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
        since: Time | None = None,
        until: Time | None = None,
        columns: Iterable[str] | None = None,
    ) -> ArrowStream:
        """The current records of a kind as an Arrow stream, oldest first.

        Polars, DuckDB, pandas and pyarrow take it: `polars.DataFrame(log.to_arrow("tool_calls"))`,
        `pyarrow.table(...)`, `pandas.DataFrame.from_arrow(...)`. Times are timestamps, JSON is text.
        The stream is read once.

        columns: Only these, in this order. Default: all.
        """
        if isinstance(columns, str):
            from .errors import InvalidInputError

            raise InvalidInputError(
                f"columns is the text {columns!r}: give a list, such as [{columns!r}]", field="columns"
            )
        names = None if columns is None else list(columns)
        return self._arrow(kind, since=since, until=until, columns=names)

    def retract(
        self,
        kind: Literal["conversation_turns", "tool_calls", "code_edit_proposals"],
        id: Id,
        call_id: str = "",
        /,
        *,
        at: Time | None = None,
    ) -> Ack:
        """Retracts a turn, a tool call or a proposal, from a time on.

        at: The time. Default: now.

        >>> turn = log.turn("user", "a mistake")
        >>> log.retract("conversation_turns", turn.id).status
        'added'
        >>> log.get_turn(turn.id) is None
        True
        """
        return self._retract(kind, id, call_id, at)
