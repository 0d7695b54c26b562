// Generated from the declarations of the records and queries. To change it, see CONTRIBUTING.md.

/** A time: epoch milliseconds, a `Date`, or a text: RFC 3339, or a UTC day. */
export type Time = number | bigint | Date | string;

/** The name of a kind of records. */
export type Kind =
  | 'conversation_turns'
  | 'tool_calls'
  | 'code_edit_proposals'
  | 'conversations'
  | 'messages'
  | 'events'
  | 'inbox'
  | 'history'
  | 'thought_records'
  | 'rollups';

// Records as reads return them. Field names are those of the files.

/** A turn of a conversation. */
export interface ConversationTurn {
  /** Unique id. A UUID. */
  id: string;
  /** The turn that this one answers or follows. A UUID. */
  parent_id?: string | null;
  /** The provider's or client's message that the turn belongs to. A UUID. */
  message_id: string;
  /** The conversation or thread of the turn. A UUID. */
  thread_id?: string | null;
  /** The author of the turn. */
  kind: 'user' | 'assistant' | 'system' | 'sysinfo' | 'tool';
  /** Creation time. In epoch milliseconds. */
  created_at: number;
  /** The text, stored byte for byte. */
  content: string;
}

/** A tool call and, once it has one, its outcome. Returned by reads. */
export interface ToolCall {
  /** The model request that asked for the call. A UUID. */
  request_id: string;
  /** The vendor's id of the call, unique within the request. */
  call_id: string;
  /** The turn that made the call. A UUID. */
  parent_id: string;
  /** The vendor of the tool or model, such as `anthropic`. */
  vendor: string;
  /** The tool's name. */
  tool_name: string;
  /** The start time. In epoch milliseconds. */
  started_at: number;
  /**
   * SHA-256 of the arguments as canonical JSON. This or `arguments_json` is required. If both are
   * given, they must match.
   */
  args_sha256: string;
  /** The arguments, stored byte for byte. */
  arguments_json?: any | null;
  /** The end time. In epoch milliseconds. */
  ended_at?: number | null;
  /** Latency, in milliseconds. */
  latency_ms?: number | null;
  /** The error class, such as `timeout`. Failed calls only. */
  error_kind?: string | null;
  /** The error message. Failed calls only. */
  error_msg?: string | null;
  /** The tool's output, stored byte for byte. */
  outcome_json?: any | null;
  /** The status, from the latest step. */
  status: 'requested' | 'completed' | 'failed';
}

/** A proposed edit and its decisions. */
export interface CodeEditProposal {
  /** The request that proposes the edit. A UUID. */
  request_id: string;
  /** Creation time. In epoch milliseconds. */
  created_at: number;
  /** Confidence of the agent, from 0 to 1. */
  confidence?: number | null;
  /** The edits, stored byte for byte. */
  diffs_json: any;
  /** Time of the decision, in epoch milliseconds. In epoch milliseconds. */
  decided_at?: number | null;
  /** Time it was applied, in epoch milliseconds. In epoch milliseconds. */
  applied_at?: number | null;
  /** The commit that applied it. */
  commit_hash?: string | null;
  /** The status. */
  status: 'pending' | 'approved' | 'denied' | 'applied' | 'reverted';
}

/** A conversation. Reads return it with the totals of its messages. */
export interface Conversation {
  /** Unique id. A UUID. */
  id: string;
  /** The workspace or directory. */
  workspace?: string | null;
  /** The project. */
  project?: string | null;
  /** The client, such as `cli`. */
  client: string;
  /** The user's id. */
  user_id?: string | null;
  /** The client's session id. */
  session_id?: string | null;
  /**
   * The parent conversation: for a sub-agent, that of the agent that started it. It need not be in
   * the log. A UUID.
   */
  parent_id?: string | null;
  /** The program that ran the conversation, such as `claude-code` or `codex`. */
  agent?: string | null;
  /** The provider's id of the tool call that started the conversation. */
  parent_call_id?: string | null;
  /** The title, in one line. */
  title?: string | null;
  /** The status. */
  status: 'active' | 'completed' | 'error';
  /** Creation time. In RFC 3339. */
  created_at: string;
  /** Time of the last change. Reads return the latest message's time if that is later. In RFC 3339. */
  updated_at: string;
  /** The last error message. */
  last_error?: string | null;
  /** Computed from the messages. */
  message_count: number;
  /** Computed from the messages. */
  total_tokens_in: number;
  /** Computed from the messages. */
  total_tokens_out: number;
  /** Computed from the messages. */
  total_latency_ms: number;
  /** Computed from the messages. */
  total_cost_usd?: number | null;
  /** Computed from the messages. */
  error_count: number;
  /** Computed from the messages. */
  failure_count: number;
  /** Computed from the messages. */
  models_used: string[];
  /** Computed from the messages. */
  configs_used: string[];
}

/** A message of a conversation. */
export interface ConversationMessage {
  /** Unique id. A UUID. */
  id: string;
  /** The conversation, which must be in the log. A UUID. */
  conversation_id: string;
  /**
   * Position in the conversation, from 0. If absent: one more than the greatest, or 1 in a
   * conversation without messages. Always present in reads.
   */
  sequence?: number | null;
  /** Time of the message. In RFC 3339. */
  timestamp: string;
  /** The role of the author. */
  role: 'system' | 'user' | 'assistant' | 'tool';
  /** The source of the message. */
  source: 'user' | 'model' | 'system' | 'tool';
  /** The format of the content. */
  content_type: 'text' | 'code' | 'markdown' | 'json';
  /** The model that answered. */
  model_used?: string | null;
  /** The gateway configuration used for the answer. */
  config_used?: string | null;
  /** The orchestration mode, such as `cascade`. */
  orchestration_mode?: string | null;
  /**
   * The task type. Default for an answer or an error: that of the last message in the role `user`
   * before it.
   */
  task_type?: string | null;
  /** The branch of the repository in which the agent worked. */
  git_branch?: string | null;
  /** Prompt tokens, including cached ones. */
  tokens_in?: number | null;
  /** Answer tokens, including reasoning. */
  tokens_out?: number | null;
  /** The part of `tokens_in` written to the provider's cache. */
  tokens_cache_write?: number | null;
  /**
   * The part of `tokens_cache_write` that the provider keeps for one hour. It keeps the rest for
   * five minutes.
   */
  tokens_cache_write_1h?: number | null;
  /** The part of `tokens_in` read from the provider's cache. */
  tokens_cache_read?: number | null;
  /** The part of `tokens_out` used for reasoning. */
  tokens_reasoning?: number | null;
  /** Latency of the answer, in milliseconds. */
  latency_ms?: number | null;
  /** Used fraction of the context window, from 0 to 1. */
  context_utilization?: number | null;
  /** Cost of the answer, in US dollars. */
  cost_usd?: number | null;
  /** Number of handoffs between models. */
  handoff_steps?: number | null;
  /** Whether the context was compressed before the request. */
  compression_applied?: boolean | null;
  /**
   * The error class, such as `timeout`. Without an `error`: that of a failed tool result, which is
   * no error of the conversation.
   */
  error_type?: string | null;
  /**
   * The error message. Sets the conversation's `last_error`, and its status to `error`, until an
   * answer without an error follows.
   */
  error?: string | null;
  /** The tool of the call or the result. */
  tool_name?: string | null;
  /** The provider's id of the call that is made or answered; of several calls, that of the first. */
  tool_call_id?: string | null;
  /** The models that took part, in order. */
  models_in_chain?: string[] | null;
  /**
   * In a further part of an answer: the message that represents the request. A part does not count
   * as a request; its tokens are added to those of the request. A UUID.
   */
  part_of?: string | null;
  /** The text, stored byte for byte, without the model's reasoning. */
  content: string;
  /** The model's reasoning, as far as the provider shows it. */
  reasoning?: string | null;
  /** The tool's arguments, stored byte for byte. */
  tool_args?: any | null;
  /** The tool's output. */
  tool_result?: string | null;
  /**
   * Metadata of the gateway or provider about the answer, such as an `InferenceMetadata` or a usage
   * object, stored in full. Fields that the message does not set are filled in from an
   * `InferenceMetadata`.
   */
  inference_metadata?: any | null;
}

/** An event of a supervisor or an agent. */
export interface Event {
  /** Id, from 1. 0 assigns the next one. */
  id: number;
  /** The parent event, which must be in the log. */
  parent_id?: number | null;
  /** The type: a dotted name, such as `worker.spawned`. */
  event_type: string;
  /** The event time, in epoch milliseconds. In epoch milliseconds. */
  created_at: number;
  /** The payload, stored byte for byte. */
  payload?: any | null;
}

/** A task of the inbox. */
export interface InboxTask {
  /** Id, from 1. 0 assigns the next one. */
  id: number;
  /** The sender's number for the task, such as Telegram's. */
  update_id: number;
  /** Time of queuing, in epoch milliseconds. In epoch milliseconds. */
  created_at: number;
  /** The chat of the message, if the task is a chat message. */
  chat_id?: number | null;
  /**
   * The message's time, as given by the sender: Telegram's is in epoch seconds. Required with a
   * `chat_id`.
   */
  message_date?: number | null;
  /** The message's text, stored byte for byte. Required with a `chat_id`. */
  text?: string | null;
  /** The data of the task, with or without a text, stored byte for byte. */
  payload?: any | null;
  /** Number of claims. */
  attempts?: number | null;
  /** While `in_progress`: time of the claim, in epoch milliseconds. In epoch milliseconds. */
  locked_at?: number | null;
  /** The error of the latest failure. */
  error?: string | null;
  /** The status. */
  status: 'queued' | 'in_progress' | 'done' | 'failed';
  /**
   * Time of the last status change, in epoch milliseconds. Not stored: read from the last line.
   * Ignored in input. In epoch milliseconds.
   */
  updated_at: number;
}

/** A message of a chat. */
export interface HistoryEntry {
  /** Id, from 1. 0 assigns the next one. */
  id: number;
  /** Chat id. */
  chat_id: number;
  /** The author's role. */
  role: 'system' | 'user' | 'assistant' | 'tool';
  /** Time, in epoch milliseconds. In epoch milliseconds. */
  created_at: number;
  /** Text, stored byte for byte. */
  text: string;
}

/** A thought, chained to the one before it by its hash. */
export interface ThoughtRecord {
  /** Unique id. A UUID unless the caller sets it. */
  id: string;
  /** The task whose chain it is in; never empty. */
  task_id: string;
  /** The hash of the previous record in the chain, or `GENESIS_HASH`. If empty, the log fills it in. */
  prev_hash: string;
  /** The hash of this record. If empty, the log fills it in. */
  hash: string;
  /** The type of the thought. */
  type: 'plan' | 'analysis' | 'decision' | 'reflection';
  /** The agent's id; never empty, and not part of the hash. */
  agent_id: string;
  /** Time of the thought. In RFC 3339. */
  timestamp: string;
  /** The text, stored byte for byte. */
  content: string;
}

/** The sums over a day's messages of one model, configuration, mode and task type. */
export interface Rollup {
  /** The UTC day, by the messages' own time. A UTC day, such as 2026-07-28. */
  day: string;
  /** The model that answered. */
  model_used?: string | null;
  /** The gateway configuration used for the answer. */
  config_used?: string | null;
  /** The orchestration mode. */
  orchestration_mode?: string | null;
  /** The task type. */
  task_type?: string | null;
  /**
   * Number of this part of the group and day, from 0. There are several if one line cannot hold the
   * ids of all messages, or if several logs were merged. The group's totals are the sum of all
   * parts.
   */
  part?: number | null;
  /**
   * Sequence number up to which the group's messages of the day were counted when this was written.
   * If `message_hashes` is empty, this rollup counts exactly these.
   */
  through_seq: number;
  /** Number of messages, in any role. */
  messages: number;
  /** Number of messages in the role `assistant` that are no further part of an answer. */
  requests: number;
  /** Sum of `tokens_in`. */
  tokens_in: number;
  /** Sum of `tokens_out`. */
  tokens_out: number;
  /** Sum of `tokens_cache_write`. */
  tokens_cache_write?: number | null;
  /** Sum of `tokens_cache_write_1h`. */
  tokens_cache_write_1h?: number | null;
  /** Sum of `tokens_cache_read`. */
  tokens_cache_read?: number | null;
  /** Sum of `tokens_reasoning`. */
  tokens_reasoning?: number | null;
  /** Sum of `cost_usd`, each rounded to billionths of a US dollar. */
  cost_nano_usd?: number | null;
  /** Number of messages with a cost. */
  cost_count?: number | null;
  /** Sum of `latency_ms`. */
  latency_ms_sum: number;
  /** Number of messages with a latency. */
  latency_count: number;
  /** Distribution of the latencies, in milliseconds. */
  latency_sketch: Record<string, any>;
  /** Sum of `context_utilization`. */
  context_utilization_sum: number;
  /** Number of messages with a context utilization. */
  context_utilization_count: number;
  /** Number of messages with a compressed context. */
  compressed: number;
  /** Number of messages with an `error`. */
  errors: number;
  /**
   * Number of errors by `error_type`. Only the first 1000 types, by sequence number, are counted;
   * errors of other types or without a type count in `errors` only.
   */
  errors_by_type: Record<string, any>;
  /** Number of distinct conversations of the messages. */
  conversations: number;
  /**
   * Number of distinct conversations with a message of the day in any group; the same in all
   * rollups of a day.
   */
  active_conversations: number;
  /**
   * The part of these sums from messages in roles other than `assistant`. The rest is from the
   * `requests`.
   */
  others?: Record<string, any> | null;
  /**
   * Hashes of the ids of the counted messages. These are never counted again, whether they are in
   * the log or not. `Store::rollups`(crate::Store::rollups) leaves this empty.
   */
  message_hashes?: string | null;
  /** The same for the ids of their conversations. */
  conversation_hashes?: string | null;
}

// Records as they are recorded. The log fills in what is left out.

/** A turn of a conversation, to be recorded. */
export interface NewConversationTurn {
  /** Unique id. A UUID. Default: a new UUID. */
  id?: string | null | undefined;
  /** The turn that this one answers or follows. A UUID. */
  parent_id?: string | null | undefined;
  /** The provider's or client's message that the turn belongs to. A UUID. Default: `id`. */
  message_id?: string | null | undefined;
  /** The conversation or thread of the turn. A UUID. */
  thread_id?: string | null | undefined;
  /** The author of the turn. */
  kind: 'user' | 'assistant' | 'system' | 'sysinfo' | 'tool';
  /** Creation time. Default: now. */
  created_at?: Time | null | undefined;
  /** The text, stored byte for byte. */
  content: string;
}

/** The request of a tool call. */
export interface ToolCallReq {
  op: 'requested';
  /** The model request that asked for the call. A UUID. */
  request_id: string;
  /** The vendor's id of the call, unique within the request. */
  call_id: string;
  /** The turn that made the call. A UUID. */
  parent_id: string;
  /** The vendor of the tool or model, such as `anthropic`. */
  vendor: string;
  /** The tool's name. */
  tool_name: string;
  /** The start time. Default: now. */
  started_at?: Time | null | undefined;
  /**
   * SHA-256 of the arguments as canonical JSON. This or `arguments_json` is required. If both are
   * given, they must match. Default: computed from `arguments_json`.
   */
  args_sha256?: string | null | undefined;
  /** The arguments, stored byte for byte. */
  arguments_json?: unknown | null | undefined;
}

/** The outcome of a tool call. */
export interface ToolCallDone {
  /** The model request that asked for the call. A UUID. */
  request_id: string;
  /** The call's id within the request. */
  call_id: string;
  /** The end time. Default: now. */
  ended_at?: Time | null | undefined;
  /** Latency, in milliseconds. Default: from its start to its end. */
  latency_ms?: number | bigint | null | undefined;
  /** The error class, such as `timeout`. Failed calls only. */
  error_kind?: string | null | undefined;
  /** The error message. Failed calls only. */
  error_msg?: string | null | undefined;
  /** The tool's output, stored byte for byte. */
  outcome_json?: unknown | null | undefined;
  /** The outcome status. */
  op: 'completed' | 'failed';
}

/** A proposed edit and its decisions, to be recorded. */
export interface NewCodeEditProposal {
  /** The request that proposes the edit. A UUID. */
  request_id: string;
  /** Creation time. Default: now. */
  created_at?: Time | null | undefined;
  /** Confidence of the agent, from 0 to 1. */
  confidence?: number | null | undefined;
  /** The edits, stored byte for byte. */
  diffs_json: unknown;
  /** Time of the decision, in epoch milliseconds. */
  decided_at?: Time | null | undefined;
  /** Time it was applied, in epoch milliseconds. */
  applied_at?: Time | null | undefined;
  /** The commit that applied it. */
  commit_hash?: string | null | undefined;
  /** The status. */
  status?: 'pending' | 'approved' | 'denied' | 'applied' | 'reverted' | null | undefined;
}

/** A step of a proposed edit: its approval, denial, application or reversal. */
export interface ProposalStep {
  /** The proposal. A UUID. */
  request_id: string;
  /** Time of the decision, if made in an earlier step. The log fills it in. */
  decided_at?: Time | null | undefined;
  /** Time it was applied, if in an earlier step. The log fills it in. */
  applied_at?: Time | null | undefined;
  /** The commit that applied it. In a reverting step, the log fills it in. */
  commit_hash?: string | null | undefined;
  /** The new status. */
  op: 'pending' | 'approved' | 'denied' | 'applied' | 'reverted';
  /** Time of the step, in epoch milliseconds. */
  at?: Time | null | undefined;
}

/** A conversation, to be recorded. */
export interface NewConversation {
  /** Unique id. A UUID. Default: a new UUID. */
  id?: string | null | undefined;
  /** The workspace or directory. */
  workspace?: string | null | undefined;
  /** The project. */
  project?: string | null | undefined;
  /** The client, such as `cli`. */
  client: string;
  /** The user's id. */
  user_id?: string | null | undefined;
  /** The client's session id. */
  session_id?: string | null | undefined;
  /**
   * The parent conversation: for a sub-agent, that of the agent that started it. It need not be in
   * the log. A UUID.
   */
  parent_id?: string | null | undefined;
  /** The program that ran the conversation, such as `claude-code` or `codex`. */
  agent?: string | null | undefined;
  /** The provider's id of the tool call that started the conversation. */
  parent_call_id?: string | null | undefined;
  /** The title, in one line. */
  title?: string | null | undefined;
  /** The status. Default: active. */
  status?: 'active' | 'completed' | 'error' | null | undefined;
  /** Creation time. Default: now. */
  created_at?: string | Date | null | undefined;
  /**
   * Time of the last change. Reads return the latest message's time if that is later. Default:
   * `created_at`, or now for a change.
   */
  updated_at?: string | Date | null | undefined;
  /** The last error message. */
  last_error?: string | null | undefined;
}

/** A message of a conversation, to be recorded. */
export interface NewConversationMessage {
  /** Unique id. A UUID. Default: a new UUID. */
  id?: string | null | undefined;
  /** The conversation, which must be in the log. A UUID. */
  conversation_id: string;
  /**
   * Position in the conversation, from 0. If absent: one more than the greatest, or 1 in a
   * conversation without messages. Always present in reads.
   */
  sequence?: number | bigint | null | undefined;
  /** Time of the message. Default: now. */
  timestamp?: string | Date | null | undefined;
  /** The role of the author. */
  role: 'system' | 'user' | 'assistant' | 'tool';
  /** The source of the message. Default: the one of its role. */
  source?: 'user' | 'model' | 'system' | 'tool' | null | undefined;
  /**
   * The format of the content. Default: `json` if the content is an array of blocks, otherwise
   * `text`.
   */
  content_type?: 'text' | 'code' | 'markdown' | 'json' | null | undefined;
  /** The model that answered. */
  model_used?: string | null | undefined;
  /** The gateway configuration used for the answer. */
  config_used?: string | null | undefined;
  /** The orchestration mode, such as `cascade`. */
  orchestration_mode?: string | null | undefined;
  /**
   * The task type. Default for an answer or an error: that of the last message in the role `user`
   * before it.
   */
  task_type?: string | null | undefined;
  /** The branch of the repository in which the agent worked. */
  git_branch?: string | null | undefined;
  /** Prompt tokens, including cached ones. */
  tokens_in?: number | bigint | null | undefined;
  /** Answer tokens, including reasoning. */
  tokens_out?: number | bigint | null | undefined;
  /** The part of `tokens_in` written to the provider's cache. */
  tokens_cache_write?: number | bigint | null | undefined;
  /**
   * The part of `tokens_cache_write` that the provider keeps for one hour. It keeps the rest for
   * five minutes.
   */
  tokens_cache_write_1h?: number | bigint | null | undefined;
  /** The part of `tokens_in` read from the provider's cache. */
  tokens_cache_read?: number | bigint | null | undefined;
  /** The part of `tokens_out` used for reasoning. */
  tokens_reasoning?: number | bigint | null | undefined;
  /** Latency of the answer, in milliseconds. */
  latency_ms?: number | bigint | null | undefined;
  /** Used fraction of the context window, from 0 to 1. */
  context_utilization?: number | null | undefined;
  /** Cost of the answer, in US dollars. */
  cost_usd?: number | null | undefined;
  /** Number of handoffs between models. */
  handoff_steps?: number | bigint | null | undefined;
  /** Whether the context was compressed before the request. */
  compression_applied?: boolean | null | undefined;
  /**
   * The error class, such as `timeout`. Without an `error`: that of a failed tool result, which is
   * no error of the conversation.
   */
  error_type?: string | null | undefined;
  /**
   * The error message. Sets the conversation's `last_error`, and its status to `error`, until an
   * answer without an error follows.
   */
  error?: string | null | undefined;
  /** The tool of the call or the result. */
  tool_name?: string | null | undefined;
  /** The provider's id of the call that is made or answered; of several calls, that of the first. */
  tool_call_id?: string | null | undefined;
  /** The models that took part, in order. */
  models_in_chain?: readonly string[] | null | undefined;
  /**
   * In a further part of an answer: the message that represents the request. A part does not count
   * as a request; its tokens are added to those of the request. A UUID.
   */
  part_of?: string | null | undefined;
  /** The text, stored byte for byte, without the model's reasoning. */
  content: string;
  /** The model's reasoning, as far as the provider shows it. */
  reasoning?: string | null | undefined;
  /** The tool's arguments, stored byte for byte. */
  tool_args?: unknown | null | undefined;
  /** The tool's output. */
  tool_result?: string | null | undefined;
  /**
   * Metadata of the gateway or provider about the answer, such as an `InferenceMetadata` or a usage
   * object, stored in full. Fields that the message does not set are filled in from an
   * `InferenceMetadata`.
   */
  inference_metadata?: unknown | null | undefined;
}

/** An event of a supervisor or an agent, to be recorded. */
export interface NewEvent {
  /** Id, from 1. 0 assigns the next one. Default: the next one. */
  id?: number | bigint | null | undefined;
  /** The parent event, which must be in the log. */
  parent_id?: number | bigint | null | undefined;
  /** The type: a dotted name, such as `worker.spawned`. */
  event_type: string;
  /** The event time, in epoch milliseconds. Default: now. */
  created_at?: Time | null | undefined;
  /** The payload, stored byte for byte. */
  payload?: unknown | null | undefined;
}

/** A task of the inbox, to be recorded. */
export interface NewInboxTask {
  /** Id, from 1. 0 assigns the next one. Default: the next one. */
  id?: number | bigint | null | undefined;
  /** The sender's number for the task, such as Telegram's. */
  update_id: number | bigint;
  /** Time of queuing, in epoch milliseconds. Default: now. */
  created_at?: Time | null | undefined;
  /** The chat of the message, if the task is a chat message. */
  chat_id?: number | bigint | null | undefined;
  /**
   * The message's time, as given by the sender: Telegram's is in epoch seconds. Required with a
   * `chat_id`.
   */
  message_date?: number | bigint | null | undefined;
  /** The message's text, stored byte for byte. Required with a `chat_id`. */
  text?: string | null | undefined;
  /** The data of the task, with or without a text, stored byte for byte. */
  payload?: unknown | null | undefined;
  /** Number of claims. */
  attempts?: number | bigint | null | undefined;
  /** While `in_progress`: time of the claim, in epoch milliseconds. */
  locked_at?: Time | null | undefined;
  /** The error of the latest failure. */
  error?: string | null | undefined;
  /** The status. */
  status?: 'queued' | 'in_progress' | 'done' | 'failed' | null | undefined;
  /**
   * Time of the last status change, in epoch milliseconds. Not stored: read from the last line.
   * Ignored in input.
   */
  updated_at?: Time | null | undefined;
}

/** A message of a chat, to be recorded. */
export interface NewHistoryEntry {
  /** Id, from 1. 0 assigns the next one. Default: the next one. */
  id?: number | bigint | null | undefined;
  /** Chat id. */
  chat_id: number | bigint;
  /** The author's role. */
  role: 'system' | 'user' | 'assistant' | 'tool';
  /** Time, in epoch milliseconds. Default: now. */
  created_at?: Time | null | undefined;
  /** Text, stored byte for byte. */
  text: string;
}

/** A thought, chained to the one before it by its hash, to be recorded. */
export interface NewThoughtRecord {
  /** Unique id. A UUID unless the caller sets it. Default: a new UUID. */
  id?: string | null | undefined;
  /** The task whose chain it is in; never empty. */
  task_id: string;
  /**
   * The hash of the previous record in the chain, or `GENESIS_HASH`. If empty, the log fills it in.
   * Default: the hash of the previous thought.
   */
  prev_hash?: string | null | undefined;
  /** The hash of this record. If empty, the log fills it in. Default: computed. */
  hash?: string | null | undefined;
  /** The type of the thought. */
  type: 'plan' | 'analysis' | 'decision' | 'reflection';
  /** The agent's id; never empty, and not part of the hash. */
  agent_id: string;
  /** Time of the thought. Default: now. */
  timestamp?: string | Date | null | undefined;
  /** The text, stored byte for byte. */
  content: string;
}

/** The sums over a day's messages of one model, configuration, mode and task type, to be recorded. */
export interface NewRollup {
  /** The UTC day, by the messages' own time. A UTC day, such as 2026-07-28. */
  day: string;
  /** The model that answered. */
  model_used?: string | null | undefined;
  /** The gateway configuration used for the answer. */
  config_used?: string | null | undefined;
  /** The orchestration mode. */
  orchestration_mode?: string | null | undefined;
  /** The task type. */
  task_type?: string | null | undefined;
  /**
   * Number of this part of the group and day, from 0. There are several if one line cannot hold the
   * ids of all messages, or if several logs were merged. The group's totals are the sum of all
   * parts.
   */
  part?: number | bigint | null | undefined;
  /**
   * Sequence number up to which the group's messages of the day were counted when this was written.
   * If `message_hashes` is empty, this rollup counts exactly these.
   */
  through_seq: number | bigint;
  /** Number of messages, in any role. */
  messages: number | bigint;
  /** Number of messages in the role `assistant` that are no further part of an answer. */
  requests: number | bigint;
  /** Sum of `tokens_in`. */
  tokens_in: number | bigint;
  /** Sum of `tokens_out`. */
  tokens_out: number | bigint;
  /** Sum of `tokens_cache_write`. */
  tokens_cache_write?: number | bigint | null | undefined;
  /** Sum of `tokens_cache_write_1h`. */
  tokens_cache_write_1h?: number | bigint | null | undefined;
  /** Sum of `tokens_cache_read`. */
  tokens_cache_read?: number | bigint | null | undefined;
  /** Sum of `tokens_reasoning`. */
  tokens_reasoning?: number | bigint | null | undefined;
  /** Sum of `cost_usd`, each rounded to billionths of a US dollar. */
  cost_nano_usd?: number | bigint | null | undefined;
  /** Number of messages with a cost. */
  cost_count?: number | bigint | null | undefined;
  /** Sum of `latency_ms`. */
  latency_ms_sum: number | bigint;
  /** Number of messages with a latency. */
  latency_count: number | bigint;
  /** Distribution of the latencies, in milliseconds. */
  latency_sketch: Readonly<Record<string, unknown>>;
  /** Sum of `context_utilization`. */
  context_utilization_sum: number;
  /** Number of messages with a context utilization. */
  context_utilization_count: number | bigint;
  /** Number of messages with a compressed context. */
  compressed: number | bigint;
  /** Number of messages with an `error`. */
  errors: number | bigint;
  /**
   * Number of errors by `error_type`. Only the first 1000 types, by sequence number, are counted;
   * errors of other types or without a type count in `errors` only.
   */
  errors_by_type: Readonly<Record<string, unknown>>;
  /** Number of distinct conversations of the messages. */
  conversations: number | bigint;
  /**
   * Number of distinct conversations with a message of the day in any group; the same in all
   * rollups of a day.
   */
  active_conversations: number | bigint;
  /**
   * The part of these sums from messages in roles other than `assistant`. The rest is from the
   * `requests`.
   */
  others?: Readonly<Record<string, unknown>> | null | undefined;
  /**
   * Hashes of the ids of the counted messages. These are never counted again, whether they are in
   * the log or not. `Store::rollups`(crate::Store::rollups) leaves this empty.
   */
  message_hashes?: string | null | undefined;
  /** The same for the ids of their conversations. */
  conversation_hashes?: string | null | undefined;
}

/** What is read of each kind. */
export interface Records {
  conversation_turns: ConversationTurn;
  tool_calls: ToolCall;
  code_edit_proposals: CodeEditProposal;
  conversations: Conversation;
  messages: ConversationMessage;
  events: Event;
  inbox: InboxTask;
  history: HistoryEntry;
  thought_records: ThoughtRecord;
  rollups: Rollup;
}

/** What is recorded of each kind. */
export interface NewRecords {
  conversation_turns: NewConversationTurn;
  tool_calls: ToolCallReq | ToolCallDone;
  code_edit_proposals: NewCodeEditProposal | ProposalStep;
  conversations: NewConversation;
  messages: NewConversationMessage;
  events: NewEvent;
  inbox: NewInboxTask;
  history: NewHistoryEntry;
  thought_records: NewThoughtRecord;
  rollups: NewRollup;
}

/** Which of the turns that are not retracted to list, and in what order. */
export interface TurnsArguments {
  /** Only turns of this message. */
  message_id?: string | null | undefined;
  /** Only turns that follow this one. */
  parent_id?: string | null | undefined;
  /** Only turns of this thread. */
  thread_id?: string | null | undefined;
  /** Only turns of this kind. */
  kind?: 'user' | 'assistant' | 'system' | 'sysinfo' | 'tool' | null | undefined;
  /** Only turns created at this time or later. */
  since?: Time | null | undefined;
  /** Only turns created before this time. */
  until?: Time | null | undefined;
  /** By `created_at`. Default: oldest first (`asc`). */
  order?: 'asc' | 'desc' | null | undefined;
  /** Maximum number of records. Default: all. */
  limit?: number | bigint | null | undefined;
  /** The log as of this time. */
  as_of?: Time | null | undefined;
}

/** Which of the tool calls that are not retracted to list, and in what order. */
export interface ToolCallsArguments {
  /** Only calls of this model request. */
  request_id?: string | null | undefined;
  /** Only calls with this id, of any request. */
  call_id?: string | null | undefined;
  /** Only calls of this turn. */
  parent_id?: string | null | undefined;
  /** Only calls with this status. */
  status?: 'requested' | 'completed' | 'failed' | null | undefined;
  /** Only calls of this vendor. */
  vendor?: string | null | undefined;
  /** Only calls of this tool. */
  tool_name?: string | null | undefined;
  /** Only calls started at this time or later. */
  since?: Time | null | undefined;
  /** Only calls started before this time. */
  until?: Time | null | undefined;
  /** By `started_at`. Default: newest first (`desc`). */
  order?: 'asc' | 'desc' | null | undefined;
  /** Maximum number of records. Default: all. */
  limit?: number | bigint | null | undefined;
  /** The log as of this time. */
  as_of?: Time | null | undefined;
}

/** Which of the proposed edits that are not retracted to list, and in what order. */
export interface ProposalsArguments {
  /** Only proposals with this status. */
  status?: 'pending' | 'approved' | 'denied' | 'applied' | 'reverted' | null | undefined;
  /** Only proposals created at this time or later. */
  since?: Time | null | undefined;
  /** Only proposals created before this time. */
  until?: Time | null | undefined;
  /** By `created_at`. Default: newest first (`desc`). */
  order?: 'asc' | 'desc' | null | undefined;
  /** Maximum number of records. Default: all. */
  limit?: number | bigint | null | undefined;
  /** The log as of this time. */
  as_of?: Time | null | undefined;
}

/** Which of the conversations to list, and in what order. */
export interface ConversationsArguments {
  /** Only conversations of this workspace or of a directory below it. */
  workspace?: string | null | undefined;
  /** Only conversations of this project. */
  project?: string | null | undefined;
  /** Only conversations of this client. */
  client?: string | null | undefined;
  /** Only conversations of this user: the original id, or its hash. */
  user_id?: string | null | undefined;
  /** Only conversations of this session. */
  session_id?: string | null | undefined;
  /** Only conversations with this `parent_id`, such as those of sub-agents. */
  parent_id?: string | null | undefined;
  /** Only conversations of this agent, such as `claude-code`. */
  agent?: string | null | undefined;
  /** Only conversations with this status. */
  status?: 'active' | 'completed' | 'error' | null | undefined;
  /** What to sort by, in descending order unless `order` is `asc`. Default: `newest`. */
  sort?: 'newest' | 'cost' | 'tokens' | 'duration' | 'failures' | null | undefined;
  /** Only conversations created at this time or later. */
  since?: Time | null | undefined;
  /** Only conversations created before this time. */
  until?: Time | null | undefined;
  /** By `created_at`, or by what `sort` names. Default: newest first (`desc`). */
  order?: 'asc' | 'desc' | null | undefined;
  /** Maximum number of records. Default: all. */
  limit?: number | bigint | null | undefined;
}

/** Which of the messages to list, and in what order. */
export interface MessagesArguments {
  /** Only messages of this conversation. */
  conversation_id?: string | null | undefined;
  /** Only messages with this sequence or a later one. */
  from_sequence?: number | bigint | null | undefined;
  /** Only messages with an earlier sequence. */
  until_sequence?: number | bigint | null | undefined;
  /** Only messages in this role. */
  role?: 'system' | 'user' | 'assistant' | 'tool' | null | undefined;
  /** Only messages that this model (`model_used`) answered. */
  model_used?: string | null | undefined;
  /** Only messages answered under this configuration (`config_used`). */
  config_used?: string | null | undefined;
  /** Only messages with an error (`true`), or without one (`false`). */
  error?: boolean | null | undefined;
  /** Only messages of this time or later. */
  since?: Time | null | undefined;
  /** Only messages before this time. */
  until?: Time | null | undefined;
  /** By sequence within a conversation, else by time. Default: oldest first (`asc`). */
  order?: 'asc' | 'desc' | null | undefined;
  /** Maximum number of records. Default: all. */
  limit?: number | bigint | null | undefined;
}

/** Which of the events to list, and in what order. */
export interface EventsArguments {
  /** Only the children of this event. */
  parent_id?: number | bigint | null | undefined;
  /** Only events of this type, such as `worker.spawned`. */
  event_type?: string | null | undefined;
  /** Only events without a parent. */
  roots?: boolean | null | undefined;
  /** Only events of this time or later. */
  since?: Time | null | undefined;
  /** Only events before this time. */
  until?: Time | null | undefined;
  /** By id. Default: oldest first (`asc`). */
  order?: 'asc' | 'desc' | null | undefined;
  /** Maximum number of records. Default: all. */
  limit?: number | bigint | null | undefined;
}

/** Which of the tasks of the inbox to list, and in what order. */
export interface TasksArguments {
  /** Only tasks with this status. */
  status?: 'queued' | 'in_progress' | 'done' | 'failed' | null | undefined;
  /** Only tasks queued at this time or later (`created_at`). */
  since?: Time | null | undefined;
  /** Only tasks queued before this time. */
  until?: Time | null | undefined;
  /** By id. Default: oldest first (`asc`). */
  order?: 'asc' | 'desc' | null | undefined;
  /** Maximum number of records. Default: all. */
  limit?: number | bigint | null | undefined;
}

/** Which of the messages of chats to list, and in what order. */
export interface HistoryEntriesArguments {
  /** Only entries of this chat. */
  chat_id?: number | bigint | null | undefined;
  /** Only entries of this time or later. */
  since?: Time | null | undefined;
  /** Only entries before this time. */
  until?: Time | null | undefined;
  /** By id. Default: oldest first (`asc`). */
  order?: 'asc' | 'desc' | null | undefined;
  /** Maximum number of records. Default: all. */
  limit?: number | bigint | null | undefined;
}

/** Which of the thoughts to list, and in what order. */
export interface ThoughtRecordsArguments {
  /** Only thoughts of this task. */
  task_id?: string | null | undefined;
  /** Only thoughts with this `prev_hash`: 64 zeros for the first of each chain. */
  prev_hash?: string | null | undefined;
  /** Only thoughts of this time or later. */
  since?: Time | null | undefined;
  /** Only thoughts before this time. */
  until?: Time | null | undefined;
  /** By the order in which they were recorded. Default: oldest first (`asc`). */
  order?: 'asc' | 'desc' | null | undefined;
  /** Maximum number of records. Default: all. */
  limit?: number | bigint | null | undefined;
}

/** Which of the daily sums of messages to list, and in what order. */
export interface RollupsArguments {
  /** Only this day and later ones. */
  since?: string | null | undefined;
  /** Only days before this one. */
  until?: string | null | undefined;
}

/**
 * Records of a list, read page by page while they are iterated over, by `for` or, on another
 * thread, by `for await`.
 */
export interface RecordList<T> extends Iterable<T>, AsyncIterable<T> {
  /** All of them. */
  toArray(): T[];
  /** The first one; `undefined` if there is none. */
  first(): T | undefined;
}

/** The lists of a log. */
export interface Lists {
  /** Lists the turns that are not retracted. */
  turns(given?: TurnsArguments): RecordList<ConversationTurn>;
  /** Lists the tool calls that are not retracted. */
  toolCalls(given?: ToolCallsArguments): RecordList<ToolCall>;
  /** Lists the proposed edits that are not retracted. */
  proposals(given?: ProposalsArguments): RecordList<CodeEditProposal>;
  /** Lists the conversations. */
  conversations(given?: ConversationsArguments): RecordList<Conversation>;
  /** Lists the messages. */
  messages(given?: MessagesArguments): RecordList<ConversationMessage>;
  /** Lists the events. */
  events(given?: EventsArguments): RecordList<Event>;
  /** Lists the tasks of the inbox. */
  tasks(given?: TasksArguments): RecordList<InboxTask>;
  /** Lists the messages of chats. */
  historyEntries(given?: HistoryEntriesArguments): RecordList<HistoryEntry>;
  /** Lists the thoughts. */
  thoughtRecords(given?: ThoughtRecordsArguments): RecordList<ThoughtRecord>;
  /** Lists the daily sums of messages. */
  rollups(given?: RollupsArguments): RecordList<Rollup>;
}
