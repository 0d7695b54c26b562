"""The log that LLM agents keep, in plain JSONL files.

>>> import decklog, tempfile
>>> with decklog.open(tempfile.mkdtemp() + "/log") as log:
...     turn = log.turn("user", "How long is main.rs?")
...     with log.tool_call("count_lines", {"path": "main.rs"}) as call:
...         call.done(12)
...     [(it.tool_name, it.status, it.outcome_json) for it in log.tool_calls()]
[('count_lines', 'completed', 12)]
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._decklog import Ack, ArrowStream, __version__, args_sha256
from ._handles import Capture, Inbox, Thoughts
from ._handles import Conversation as ConversationHandle
from ._log import Log
from ._log import open as open
from ._run import Run, ToolCallScope, Turn
from .errors import (
    BatchError,
    ClosedError,
    ConflictError,
    DamagedError,
    Error,
    ForkedError,
    InvalidInputError,
    LifecycleError,
    LockedError,
    NetworkFileSystemError,
    NewerFormatError,
    NotAStoreError,
    NotFoundError,
    PoisonedError,
    QueueFullError,
    ReadOnlyError,
    RemoteError,
    StoreIOError,
    UserIdKeyError,
)

if TYPE_CHECKING:
    from ._wrap import wrap
    from .records import (
        CodeEditProposal,
        Conversation,
        ConversationMessage,
        ConversationTurn,
        Event,
        HistoryEntry,
        InboxTask,
        ProposalStep,
        Record,
        Rollup,
        ThoughtRecord,
        ToolCall,
        ToolCallDone,
        ToolCallReq,
    )

_RECORDS = (
    "CodeEditProposal",
    "Conversation",
    "ConversationMessage",
    "ConversationTurn",
    "Event",
    "HistoryEntry",
    "InboxTask",
    "ProposalStep",
    "Record",
    "Rollup",
    "ThoughtRecord",
    "ToolCall",
    "ToolCallDone",
    "ToolCallReq",
)


def __getattr__(name: str) -> Any:
    # Loaded when used: the program that imports the package starts sooner.
    if name in _RECORDS:
        from . import records

        value: Any = getattr(records, name)
    elif name == "wrap":
        from ._wrap import wrap

        value = wrap
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "open"])


__all__ = [
    "Ack",
    "ArrowStream",
    "BatchError",
    "Capture",
    "ClosedError",
    "CodeEditProposal",
    "ConflictError",
    "Conversation",
    "ConversationHandle",
    "ConversationMessage",
    "ConversationTurn",
    "DamagedError",
    "Error",
    "Event",
    "ForkedError",
    "HistoryEntry",
    "Inbox",
    "InboxTask",
    "InvalidInputError",
    "LifecycleError",
    "LockedError",
    "Log",
    "NetworkFileSystemError",
    "NewerFormatError",
    "NotAStoreError",
    "NotFoundError",
    "PoisonedError",
    "ProposalStep",
    "QueueFullError",
    "ReadOnlyError",
    "Record",
    "RemoteError",
    "Rollup",
    "Run",
    "StoreIOError",
    "ThoughtRecord",
    "Thoughts",
    "ToolCall",
    "ToolCallDone",
    "ToolCallReq",
    "ToolCallScope",
    "Turn",
    "UserIdKeyError",
    "__version__",
    "args_sha256",
    "wrap",
]
# `open` is left out: a star import must not replace Python's own.
