from collections.abc import Callable, Iterable, Iterator
from os import PathLike
from pathlib import Path
from typing import Any, Literal, final, overload

from typing_extensions import Self

from . import records
from ._types import Id, RecordLike, Time
from .errors import Error

__version__: str

def args_sha256(arguments: Any, /) -> str:
    """The SHA-256 of arguments as canonical JSON (RFC 8785), in hexadecimal."""

@final
class Ack:
    """What the log says of a recorded fact."""

    def __new__(
        cls,
        seq: int,
        status: Literal["added", "unchanged"],
        id: str | int | None = None,
        sequence: int | None = None,
        warning: str | None = None,
    ) -> Self: ...
    @property
    def seq(self) -> int:
        """The sequence number of the line that has it."""
    @property
    def status(self) -> Literal["added", "unchanged"]:
        """Whether that line is new."""
    @property
    def id(self) -> str | int | None:
        """The id of the record. `None` for a tool call and a step of a task."""
    @property
    def sequence(self) -> int | None:
        """The position of a message in its conversation."""
    @property
    def warning(self) -> str | None:
        """A probable mistake in the record, which was accepted."""

@final
class ArrowStream:
    """Records as an Arrow stream, which is read once. Made by `Log.to_arrow`."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any: ...
    def __arrow_c_schema__(self) -> Any: ...

@final
class Records:
    def __iter__(self) -> Self: ...
    def __next__(self) -> Any: ...

@final
class Receiver:
    def traces(self, request: bytes) -> tuple[int, int, list[str]]: ...
    def logs(self, request: bytes) -> tuple[int, int, list[str]]: ...

@final
class Run:
    @property
    def thread_id(self) -> str: ...
    def turn(self, kind: str, content: str, /) -> Turn: ...

@final
class Turn:
    @property
    def id(self) -> str: ...
    def call(self, call_id: str, tool_name: str, arguments: Any, /) -> Call: ...

@final
class Call:
    @property
    def call_id(self) -> str: ...
    @property
    def turn_id(self) -> str: ...
    @property
    def is_ended(self) -> bool: ...
    def done(self, outcome: Any = None, /) -> None: ...
    def failed(self, error_kind: str, error_msg: str = "", /) -> None: ...

@final
class Capture:
    def record(self, record: Any, /, *, kind: str | None = None) -> str | None: ...
    def request(self, conversation: Any, messages: Iterable[Any], /) -> None: ...
    def flush(self) -> None: ...
    def close(self) -> None: ...
    def stats(self) -> dict[str, int]: ...
    def last_error(self) -> Exception | None: ...

@final
class Inbox:
    def enqueue(self, update_id: int, payload: Any = None) -> records.InboxTask: ...
    def enqueue_message(
        self, update_id: int, chat_id: int, text: str, date: int
    ) -> records.InboxTask: ...
    def claim(self) -> records.InboxTask | None: ...
    def done(self, task: records.InboxTask) -> None: ...
    def fail(self, task: records.InboxTask, error: str) -> None: ...
    def retry(self, task: records.InboxTask, error: str) -> Literal["queued", "failed"]: ...
    def release_stale(self, timeout: float) -> list[records.InboxTask]: ...
    def counts(self) -> dict[str, int]: ...
    def telegram_offset(self) -> int: ...

@final
class Thoughts:
    def create(
        self,
        thought_type: str,
        *,
        task_id: str,
        agent_id: str,
        content: str,
        id: str | None = None,
        timestamp: str | None = None,
    ) -> records.ThoughtRecord: ...
    def verify_chain(self, task_id: str) -> dict[str, Any]: ...

class Log:
    def __new__(
        cls,
        path: str | PathLike[str],
        *,
        durability: str = "process",
        read_only: bool = False,
        create: bool = True,
        lock_timeout: float | None = None,
    ) -> Self: ...
    @property
    def path(self) -> Path:
        """The directory of the log."""
    def close(self) -> None:
        """Syncs the log to disk and closes it. Raises what failed. Later calls raise `ClosedError`."""
    def sync(self) -> None:
        """Returns when all that was recorded is on disk."""
    def record(self, record: RecordLike, /, *, kind: str | None = None) -> Ack:
        """Records a fact: a dict, a record of this package, a dataclass or a pydantic model."""
    def record_all(
        self, records: Iterable[RecordLike], /, *, kind: str | None = None
    ) -> list[Ack]:
        """Records all of these facts in order or, if one is rejected, none of them."""
    def log_event(
        self, event_type: str, payload: Any = None, *, parent_id: int | None = None
    ) -> int:
        """Records an event and returns its id."""
    def event_tree(self, id: int) -> list[dict[str, Any]] | None:
        """An event and all events under it, with depths, and durations of spans."""
    def session_tree(self, id: Id) -> list[dict[str, Any]] | None:
        """The items of a conversation or a thread, with depths and durations."""
    def _record_batch(
        self, records: Iterable[Any], /, *, kind: str | None = None
    ) -> tuple[list[Any], int]: ...
    def _list(self, kind: str, /, **arguments: Any) -> Iterator[Any]: ...
    @overload
    def _get(
        self, kind: Literal["conversation_turns"], id: Id, call_id: str = "", as_of: Time | None = None
    ) -> records.ConversationTurn | None: ...
    @overload
    def _get(
        self, kind: Literal["tool_calls"], id: Id, call_id: str = "", as_of: Time | None = None
    ) -> records.ToolCall | None: ...
    @overload
    def _get(
        self, kind: Literal["code_edit_proposals"], id: Id, call_id: str = "", as_of: Time | None = None
    ) -> records.CodeEditProposal | None: ...
    @overload
    def _get(
        self, kind: Literal["conversations"], id: Id, call_id: str = "", as_of: Time | None = None
    ) -> records.Conversation | None: ...
    @overload
    def _get(
        self, kind: Literal["messages"], id: Id, call_id: str = "", as_of: Time | None = None
    ) -> records.ConversationMessage | None: ...
    @overload
    def _get(
        self, kind: Literal["events"], id: str | int, call_id: str = "", as_of: Time | None = None
    ) -> records.Event | None: ...
    @overload
    def _get(
        self, kind: Literal["inbox"], id: str | int, call_id: str = "", as_of: Time | None = None
    ) -> records.InboxTask | None: ...
    @overload
    def _get(
        self, kind: Literal["history"], id: str | int, call_id: str = "", as_of: Time | None = None
    ) -> records.HistoryEntry | None: ...
    @overload
    def _get(
        self, kind: Literal["thought_records"], id: Id, call_id: str = "", as_of: Time | None = None
    ) -> records.ThoughtRecord | None: ...
    def _update_conversation(self, id: str, /, **fields: Any) -> Any: ...
    def _retract(self, kind: str, id: Any, call_id: str = "", at: Time | None = None) -> Ack: ...
    def _search(
        self,
        text: str,
        *,
        kind: str | None = None,
        since: Time | None = None,
        until: Time | None = None,
        limit: int | None = None,
    ) -> list[dict[str, Any]]: ...
    def _run(
        self,
        vendor: str,
        *,
        thread_id: str | None = None,
        conversation: Any = None,
        through: Capture | None = None,
    ) -> Run: ...
    def _capture(
        self,
        *,
        queue_records_max: int | None = None,
        queue_bytes_max: int | None = None,
        when_full: str = "refuse",
        drain_timeout: float | None = None,
        on_error: Callable[[Error, str, str], object] | None = None,
    ) -> Capture: ...
    def _inbox(self, attempts_max: int | None = None) -> Inbox: ...
    def _thoughts(self) -> Thoughts: ...
    def _receiver(self) -> Receiver: ...
    def _arrow(
        self,
        kind: str,
        *,
        since: Time | None = None,
        until: Time | None = None,
        columns: list[str] | None = None,
    ) -> ArrowStream: ...
