# Generated from the declarations of the records. To change it, see CONTRIBUTING.md.
"""The records of a log. Field names are those of the files.

A record that you make may leave out fields that the log fills in, such as `id`. Their types
are those of records that were read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, cast

from ._record import Record

if TYPE_CHECKING:
    from typing import TypeAlias

    from ._types import RecordLike as RecordLike

    Kind: TypeAlias = Literal[
        "conversation_turns",
        "tool_calls",
        "code_edit_proposals",
        "conversations",
        "messages",
        "events",
        "inbox",
        "history",
        "thought_records",
        "rollups",
    ]
    """A kind of record."""


@dataclass(kw_only=True, repr=False)
class ConversationTurn(Record):
    """A turn of a conversation."""

    _decklog: ClassVar = ("conversation_turns", None, None)

    kind: Literal["user", "assistant", "system", "sysinfo", "tool"]
    """The author of the turn."""
    content: str
    """The text, stored byte for byte."""
    id: str = cast("str", None)
    """Unique id. A UUID. Default: a new UUID."""
    parent_id: str | None = None
    """The turn that this one answers or follows. A UUID."""
    message_id: str = cast("str", None)
    """The provider's or client's message that the turn belongs to. A UUID. Default: `id`."""
    thread_id: str | None = None
    """The conversation or thread of the turn. A UUID."""
    created_at: int = cast("int", None)
    """Creation time. In epoch milliseconds. Default: now."""


@dataclass(kw_only=True, repr=False)
class ToolCall(Record):
    """A tool call and, once it has one, its outcome. Returned by reads."""

    _decklog: ClassVar = ("tool_calls", None, None)

    request_id: str
    """The model request that asked for the call. A UUID."""
    call_id: str
    """The vendor's id of the call, unique within the request."""
    parent_id: str
    """The turn that made the call. A UUID."""
    vendor: str
    """The vendor of the tool or model, such as `anthropic`."""
    tool_name: str
    """The tool's name."""
    started_at: int = cast("int", None)
    """The start time. In epoch milliseconds. Default: now."""
    args_sha256: str = cast("str", None)
    """SHA-256 of the arguments as canonical JSON. This or `arguments_json` is required. If both are
    given, they must match. Default: computed from `arguments_json`."""
    arguments_json: Any = None
    """The arguments, stored byte for byte."""
    ended_at: int | None = None
    """The end time. In epoch milliseconds."""
    latency_ms: int | None = None
    """Latency, in milliseconds."""
    error_kind: str | None = None
    """The error class, such as `timeout`. Failed calls only."""
    error_msg: str | None = None
    """The error message. Failed calls only."""
    outcome_json: Any = None
    """The tool's output, stored byte for byte."""
    status: Literal["requested", "completed", "failed"] = cast("Literal['requested', 'completed', 'failed']", None)
    """The status, from the latest step."""


@dataclass(kw_only=True, repr=False)
class ToolCallReq(Record):
    """The request of a tool call."""

    _decklog: ClassVar = ("tool_calls", "requested", None)

    request_id: str
    """The model request that asked for the call. A UUID."""
    call_id: str
    """The vendor's id of the call, unique within the request."""
    parent_id: str
    """The turn that made the call. A UUID."""
    vendor: str
    """The vendor of the tool or model, such as `anthropic`."""
    tool_name: str
    """The tool's name."""
    started_at: int = cast("int", None)
    """The start time. In epoch milliseconds. Default: now."""
    args_sha256: str = cast("str", None)
    """SHA-256 of the arguments as canonical JSON. This or `arguments_json` is required. If both are
    given, they must match. Default: computed from `arguments_json`."""
    arguments_json: Any = None
    """The arguments, stored byte for byte."""


@dataclass(kw_only=True, repr=False)
class ToolCallDone(Record):
    """The outcome of a tool call."""

    _decklog: ClassVar = ("tool_calls", None, "status")

    request_id: str
    """The model request that asked for the call. A UUID."""
    call_id: str
    """The call's id within the request."""
    status: Literal["completed", "failed"]
    """The outcome status."""
    ended_at: int = cast("int", None)
    """The end time. In epoch milliseconds. Default: now."""
    latency_ms: int = cast("int", None)
    """Latency, in milliseconds. Default: from its start to its end."""
    error_kind: str | None = None
    """The error class, such as `timeout`. Failed calls only."""
    error_msg: str | None = None
    """The error message. Failed calls only."""
    outcome_json: Any = None
    """The tool's output, stored byte for byte."""


@dataclass(kw_only=True, repr=False)
class CodeEditProposal(Record):
    """A proposed edit and its decisions."""

    _decklog: ClassVar = ("code_edit_proposals", None, None)

    request_id: str
    """The request that proposes the edit. A UUID."""
    diffs_json: Any
    """The edits, stored byte for byte."""
    created_at: int = cast("int", None)
    """Creation time. In epoch milliseconds. Default: now."""
    confidence: float | None = None
    """Confidence of the agent, from 0 to 1."""
    decided_at: int | None = None
    """Time of the decision, in epoch milliseconds. In epoch milliseconds."""
    applied_at: int | None = None
    """Time it was applied, in epoch milliseconds. In epoch milliseconds."""
    commit_hash: str | None = None
    """The commit that applied it."""
    status: Literal["pending", "approved", "denied", "applied", "reverted"] = cast("Literal['pending', 'approved', 'denied', 'applied', 'reverted']", None)
    """The status."""


@dataclass(kw_only=True, repr=False)
class ProposalStep(Record):
    """A step of a proposed edit: its approval, denial, application or reversal."""

    _decklog: ClassVar = ("code_edit_proposals", None, "status")

    request_id: str
    """The proposal. A UUID."""
    status: Literal["pending", "approved", "denied", "applied", "reverted"]
    """The new status."""
    decided_at: int | None = None
    """Time of the decision, if made in an earlier step. The log fills it in. In epoch
    milliseconds."""
    applied_at: int | None = None
    """Time it was applied, if in an earlier step. The log fills it in. In epoch milliseconds."""
    commit_hash: str | None = None
    """The commit that applied it. In a reverting step, the log fills it in."""
    at: int = cast("int", None)
    """Time of the step, in epoch milliseconds. In epoch milliseconds."""


@dataclass(kw_only=True, repr=False)
class Conversation(Record):
    """A conversation. Reads return it with the totals of its messages."""

    _decklog: ClassVar = ("conversations", None, None)

    client: str
    """The client, such as `cli`."""
    id: str = cast("str", None)
    """Unique id. A UUID. Default: a new UUID."""
    workspace: str | None = None
    """The workspace or directory."""
    project: str | None = None
    """The project."""
    user_id: str | None = None
    """The user's id."""
    session_id: str | None = None
    """The client's session id."""
    parent_id: str | None = None
    """The parent conversation: for a sub-agent, that of the agent that started it. It need not be
    in the log. A UUID."""
    agent: str | None = None
    """The program that ran the conversation, such as `claude-code` or `codex`."""
    parent_call_id: str | None = None
    """The provider's id of the tool call that started the conversation."""
    title: str | None = None
    """The title, in one line."""
    status: Literal["active", "completed", "error"] = cast("Literal['active', 'completed', 'error']", None)
    """The status. Default: active."""
    created_at: str = cast("str", None)
    """Creation time. In RFC 3339. Default: now."""
    updated_at: str = cast("str", None)
    """Time of the last change. Reads return the latest message's time if that is later. In RFC
    3339. Default: `created_at`, or now for a change."""
    last_error: str | None = None
    """The last error message."""
    message_count: int = cast("int", None)
    """Computed from the messages."""
    total_tokens_in: int = cast("int", None)
    """Computed from the messages."""
    total_tokens_out: int = cast("int", None)
    """Computed from the messages."""
    total_latency_ms: int = cast("int", None)
    """Computed from the messages."""
    total_cost_usd: float | None = None
    """Computed from the messages."""
    error_count: int = cast("int", None)
    """Computed from the messages."""
    failure_count: int = cast("int", None)
    """Computed from the messages."""
    models_used: list[str] = cast("list[str]", None)
    """Computed from the messages."""
    configs_used: list[str] = cast("list[str]", None)
    """Computed from the messages."""


@dataclass(kw_only=True, repr=False)
class ConversationMessage(Record):
    """A message of a conversation."""

    _decklog: ClassVar = ("messages", None, None)

    conversation_id: str
    """The conversation, which must be in the log. A UUID."""
    role: Literal["system", "user", "assistant", "tool"]
    """The role of the author."""
    content: str
    """The text, stored byte for byte, without the model's reasoning."""
    id: str = cast("str", None)
    """Unique id. A UUID. Default: a new UUID."""
    sequence: int | None = None
    """Position in the conversation, from 0. If absent: one more than the greatest, or 1 in a
    conversation without messages. Always present in reads."""
    timestamp: str = cast("str", None)
    """Time of the message. In RFC 3339. Default: now."""
    source: Literal["user", "model", "system", "tool"] = cast("Literal['user', 'model', 'system', 'tool']", None)
    """The source of the message. Default: the one of its role."""
    content_type: Literal["text", "code", "markdown", "json"] = cast("Literal['text', 'code', 'markdown', 'json']", None)
    """The format of the content. Default: `json` if the content is an array of blocks, otherwise
    `text`."""
    model_used: str | None = None
    """The model that answered."""
    config_used: str | None = None
    """The gateway configuration used for the answer."""
    orchestration_mode: str | None = None
    """The orchestration mode, such as `cascade`."""
    task_type: str | None = None
    """The task type. Default for an answer or an error: that of the last message in the role `user`
    before it."""
    git_branch: str | None = None
    """The branch of the repository in which the agent worked."""
    tokens_in: int | None = None
    """Prompt tokens, including cached ones."""
    tokens_out: int | None = None
    """Answer tokens, including reasoning."""
    tokens_cache_write: int | None = None
    """The part of `tokens_in` written to the provider's cache."""
    tokens_cache_write_1h: int | None = None
    """The part of `tokens_cache_write` that the provider keeps for one hour. It keeps the rest for
    five minutes."""
    tokens_cache_read: int | None = None
    """The part of `tokens_in` read from the provider's cache."""
    tokens_reasoning: int | None = None
    """The part of `tokens_out` used for reasoning."""
    latency_ms: int | None = None
    """Latency of the answer, in milliseconds."""
    context_utilization: float | None = None
    """Used fraction of the context window, from 0 to 1."""
    cost_usd: float | None = None
    """Cost of the answer, in US dollars."""
    handoff_steps: int | None = None
    """Number of handoffs between models."""
    compression_applied: bool | None = None
    """Whether the context was compressed before the request."""
    error_type: str | None = None
    """The error class, such as `timeout`. Without an `error`: that of a failed tool result, which
    is no error of the conversation."""
    error: str | None = None
    """The error message. Sets the conversation's `last_error`, and its status to `error`, until an
    answer without an error follows."""
    tool_name: str | None = None
    """The tool of the call or the result."""
    tool_call_id: str | None = None
    """The provider's id of the call that is made or answered; of several calls, that of the
    first."""
    models_in_chain: list[str] | None = None
    """The models that took part, in order."""
    part_of: str | None = None
    """In a further part of an answer: the message that represents the request. A part does not
    count as a request; its tokens are added to those of the request. A UUID."""
    reasoning: str | None = None
    """The model's reasoning, as far as the provider shows it."""
    tool_args: Any = None
    """The tool's arguments, stored byte for byte."""
    tool_result: str | None = None
    """The tool's output."""
    inference_metadata: Any = None
    """Metadata of the gateway or provider about the answer, such as an `InferenceMetadata` or a
    usage object, stored in full. Fields that the message does not set are filled in from an
    `InferenceMetadata`."""


@dataclass(kw_only=True, repr=False)
class Event(Record):
    """An event of a supervisor or an agent."""

    _decklog: ClassVar = ("events", None, None)

    event_type: str
    """The type: a dotted name, such as `worker.spawned`."""
    id: int = cast("int", None)
    """Id, from 1. 0 assigns the next one. Default: the next one."""
    parent_id: int | None = None
    """The parent event, which must be in the log."""
    created_at: int = cast("int", None)
    """The event time, in epoch milliseconds. In epoch milliseconds. Default: now."""
    payload: Any = None
    """The payload, stored byte for byte."""


@dataclass(kw_only=True, repr=False)
class InboxTask(Record):
    """A task of the inbox."""

    _decklog: ClassVar = ("inbox", None, None)

    update_id: int
    """The sender's number for the task, such as Telegram's."""
    id: int = cast("int", None)
    """Id, from 1. 0 assigns the next one. Default: the next one."""
    created_at: int = cast("int", None)
    """Time of queuing, in epoch milliseconds. In epoch milliseconds. Default: now."""
    chat_id: int | None = None
    """The chat of the message, if the task is a chat message."""
    message_date: int | None = None
    """The message's time, as given by the sender: Telegram's is in epoch seconds. Required with a
    `chat_id`."""
    text: str | None = None
    """The message's text, stored byte for byte. Required with a `chat_id`."""
    payload: Any = None
    """The data of the task, with or without a text, stored byte for byte."""
    attempts: int | None = None
    """Number of claims."""
    locked_at: int | None = None
    """While `in_progress`: time of the claim, in epoch milliseconds. In epoch milliseconds."""
    error: str | None = None
    """The error of the latest failure."""
    status: Literal["queued", "in_progress", "done", "failed"] = cast("Literal['queued', 'in_progress', 'done', 'failed']", None)
    """The status."""
    updated_at: int = cast("int", None)
    """Time of the last status change, in epoch milliseconds. Not stored: read from the last line.
    Ignored in input. In epoch milliseconds."""


@dataclass(kw_only=True, repr=False)
class HistoryEntry(Record):
    """A message of a chat."""

    _decklog: ClassVar = ("history", None, None)

    chat_id: int
    """Chat id."""
    role: Literal["system", "user", "assistant", "tool"]
    """The author's role."""
    text: str
    """Text, stored byte for byte."""
    id: int = cast("int", None)
    """Id, from 1. 0 assigns the next one. Default: the next one."""
    created_at: int = cast("int", None)
    """Time, in epoch milliseconds. In epoch milliseconds. Default: now."""


@dataclass(kw_only=True, repr=False)
class ThoughtRecord(Record):
    """A thought, chained to the one before it by its hash."""

    _decklog: ClassVar = ("thought_records", None, None)

    task_id: str
    """The task whose chain it is in; never empty."""
    type: Literal["plan", "analysis", "decision", "reflection"]
    """The type of the thought."""
    agent_id: str
    """The agent's id; never empty, and not part of the hash."""
    content: str
    """The text, stored byte for byte."""
    id: str = cast("str", None)
    """Unique id. A UUID unless the caller sets it. Default: a new UUID."""
    prev_hash: str = cast("str", None)
    """The hash of the previous record in the chain, or `GENESIS_HASH`. If empty, the log fills it
    in. Default: the hash of the previous thought."""
    hash: str = cast("str", None)
    """The hash of this record. If empty, the log fills it in. Default: computed."""
    timestamp: str = cast("str", None)
    """Time of the thought. In RFC 3339. Default: now."""


@dataclass(kw_only=True, repr=False)
class Rollup(Record):
    """The sums over a day's messages of one model, configuration, mode and task type."""

    _decklog: ClassVar = ("rollups", None, None)

    day: str
    """The UTC day, by the messages' own time. A UTC day, such as 2026-07-28."""
    through_seq: int
    """Sequence number up to which the group's messages of the day were counted when this was
    written. If `message_hashes` is empty, this rollup counts exactly these."""
    messages: int
    """Number of messages, in any role."""
    requests: int
    """Number of messages in the role `assistant` that are no further part of an answer."""
    tokens_in: int
    """Sum of `tokens_in`."""
    tokens_out: int
    """Sum of `tokens_out`."""
    latency_ms_sum: int
    """Sum of `latency_ms`."""
    latency_count: int
    """Number of messages with a latency."""
    latency_sketch: dict[str, Any]
    """Distribution of the latencies, in milliseconds."""
    context_utilization_sum: float
    """Sum of `context_utilization`."""
    context_utilization_count: int
    """Number of messages with a context utilization."""
    compressed: int
    """Number of messages with a compressed context."""
    errors: int
    """Number of messages with an `error`."""
    errors_by_type: dict[str, Any]
    """Number of errors by `error_type`. Only the first 1000 types, by sequence number, are counted;
    errors of other types or without a type count in `errors` only."""
    conversations: int
    """Number of distinct conversations of the messages."""
    active_conversations: int
    """Number of distinct conversations with a message of the day in any group; the same in all
    rollups of a day."""
    model_used: str | None = None
    """The model that answered."""
    config_used: str | None = None
    """The gateway configuration used for the answer."""
    orchestration_mode: str | None = None
    """The orchestration mode."""
    task_type: str | None = None
    """The task type."""
    part: int | None = None
    """Number of this part of the group and day, from 0. There are several if one line cannot hold
    the ids of all messages, or if several logs were merged. The group's totals are the sum of all
    parts."""
    tokens_cache_write: int | None = None
    """Sum of `tokens_cache_write`."""
    tokens_cache_write_1h: int | None = None
    """Sum of `tokens_cache_write_1h`."""
    tokens_cache_read: int | None = None
    """Sum of `tokens_cache_read`."""
    tokens_reasoning: int | None = None
    """Sum of `tokens_reasoning`."""
    cost_nano_usd: int | None = None
    """Sum of `cost_usd`, each rounded to billionths of a US dollar."""
    cost_count: int | None = None
    """Number of messages with a cost."""
    others: dict[str, Any] | None = None
    """The part of these sums from messages in roles other than `assistant`. The rest is from the
    `requests`."""
    message_hashes: str | None = None
    """Hashes of the ids of the counted messages. These are never counted again, whether they are in
    the log or not. `Store::rollups`(crate::Store::rollups) leaves this empty."""
    conversation_hashes: str | None = None
    """The same for the ids of their conversations."""


BY_KIND: dict[str, type[Record]] = {
    "conversation_turns": ConversationTurn,
    "tool_calls": ToolCall,
    "code_edit_proposals": CodeEditProposal,
    "conversations": Conversation,
    "messages": ConversationMessage,
    "events": Event,
    "inbox": InboxTask,
    "history": HistoryEntry,
    "thought_records": ThoughtRecord,
    "rollups": Rollup,
}
"""The class of the records of each kind."""

__all__ = [
    "BY_KIND",
    "Record",
    "CodeEditProposal",
    "Conversation",
    "ConversationMessage",
    "ConversationTurn",
    "Event",
    "HistoryEntry",
    "InboxTask",
    "ProposalStep",
    "Rollup",
    "ThoughtRecord",
    "ToolCall",
    "ToolCallDone",
    "ToolCallReq",
]
