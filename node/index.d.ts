import type {
  CodeEditProposal,
  Conversation,
  ConversationMessage,
  ConversationTurn,
  Event,
  HistoryEntry,
  InboxTask,
  Kind,
  Lists,
  MessagesArguments,
  NewConversation,
  NewConversationMessage,
  NewConversationTurn,
  NewRecords,
  RecordList,
  TasksArguments,
  ThoughtRecord,
  ThoughtRecordsArguments,
  Time,
  ToolCall,
} from './records.js';

export type * from './records.js';

/** The author of a turn. */
export type TurnKind = ConversationTurn['kind'];

/** A record that says its kind. */
export type RecordInput =
  | { [K in Exclude<Kind, 'conversation_turns'>]: NewRecords[K] & { kind: K } }[Exclude<Kind, 'conversation_turns'>]
  | NewConversationTurn
  | (Omit<NewConversationTurn, 'kind'> & { kind: 'conversation_turns'; turn_kind: TurnKind });

/** What the log says of a recorded fact. */
export interface Ack {
  /** The sequence number of its line. */
  readonly seq: number;
  /** Whether it was added, or the log had it. */
  readonly status: 'added' | 'unchanged';
  /** The id of the record, given, made for it or assigned. None for a tool call. */
  readonly id: string | number | undefined;
  /** Of a message: its position in the conversation. */
  readonly sequence: number | undefined;
  /** Something that was probably not meant. */
  readonly warning: string | undefined;
}

/** How to open a log. */
export interface OpenOptions {
  /**
   * When a record is acknowledged: `process`, when the operating system has it, so that it survives a
   * kill of the process; `disk`, when it is on disk, so that it survives a power cut.
   * Default: `process`.
   */
  durability?: 'process' | 'disk' | undefined;
  /** Whether recording is refused. Default: false. */
  readOnly?: boolean | undefined;
  /** Whether a log is created if there is none. Default: true. */
  create?: boolean | undefined;
  /** How long to wait for another process that writes. Default: 10,000. */
  lockTimeoutMs?: number | undefined;
}

/**
 * Opens the log in a directory, which is created if there is none.
 *
 * Throws `NotAStoreError` for a directory with other files.
 */
export function open(path: string | URL, options?: OpenOptions): Log;

export interface KindOption<K extends Kind> {
  /** The kind of the record, or of all of them. */
  kind: K;
}

export interface CallOptions {
  /** The vendor's id of the call. Default: a new one. */
  callId?: string | undefined;
}

export interface AsOf {
  /** As it was at this time. */
  as_of?: Time | null | undefined;
}

/** A line that contains a text. */
export interface SearchMatch {
  seq: number;
  kind: Kind;
  key: string;
  /** The record's own time, in epoch milliseconds. */
  at: number;
  field: string;
  snippet: string;
  conversation_id?: string;
}

export interface SearchOptions {
  kind?: Kind | undefined;
  since?: Time | undefined;
  until?: Time | undefined;
  /** Maximum number of matches. Default: 100. */
  limit?: number | undefined;
}

/** A log that is open. Made by `open`. */
export interface Log extends Lists, Disposable, AsyncDisposable {}
export class Log {
  private constructor();
  /** Its directory. */
  readonly path: string;

  /** Records a fact. */
  record(record: RecordInput): Ack;
  record<K extends Kind>(record: NewRecords[K], options: KindOption<K>): Ack;
  /**
   * As `record`, on another thread. Records are recorded in order, and those that are given while
   * others are written are written together.
   */
  recordAsync(record: RecordInput): Promise<Ack>;
  recordAsync<K extends Kind>(record: NewRecords[K], options: KindOption<K>): Promise<Ack>;
  /**
   * Records facts in order, much faster than one by one. Each is accepted or rejected on its own.
   * Throws `BatchError` if any was rejected; the others are recorded. If the iterable throws, what it
   * gave before is recorded, and the same is thrown. Records are written while later ones are read: if
   * they are made of what the log has, make a list of it first.
   */
  recordBatch(records: Iterable<RecordInput>): Ack[];
  recordBatch<K extends Kind>(records: Iterable<NewRecords[K]>, options: KindOption<K>): Ack[];
  /** As `recordBatch`, on another thread. It and `recordAsync` are in order only if the first is awaited. */
  recordBatchAsync(records: Iterable<RecordInput>): Promise<Ack[]>;
  recordBatchAsync<K extends Kind>(records: Iterable<NewRecords[K]>, options: KindOption<K>): Promise<Ack[]>;
  /** Records all of them or, if one is rejected, none. */
  recordAll(records: Iterable<RecordInput>): Ack[];
  recordAll<K extends Kind>(records: Iterable<NewRecords[K]>, options: KindOption<K>): Ack[];
  /** As `recordAll`, on another thread. It and `recordAsync` are in order only if the first is awaited. */
  recordAllAsync(records: Iterable<RecordInput>): Promise<Ack[]>;
  recordAllAsync<K extends Kind>(records: Iterable<NewRecords[K]>, options: KindOption<K>): Promise<Ack[]>;
  /** Records an event. Returns its id. */
  logEvent(eventType: string, payload?: unknown, options?: { parent_id?: number | undefined }): number;

  /**
   * A run of an agent: its turns and tool calls, in a thread of their own.
   *
   * @param vendor The vendor of the model or the tools, such as `anthropic`. Default: `javascript`.
   */
  run(vendor?: string, options?: RunOptions): Run;
  /** Records a turn of the current run. */
  turn(kind: TurnKind, content: string): Turn;
  /**
   * Records the request of a tool call, which belongs to the latest turn of the current run.
   *
   * With a function, calls it and records what it returns, or what it throws as a failure. Returns or
   * throws the same, whether or not the log takes it. A thenable is awaited once, and a promise of its
   * value is returned.
   */
  toolCall(name: string, args?: unknown, options?: CallOptions): ToolCallHandle;
  toolCall<T>(name: string, args: unknown, work: (call: ToolCallHandle) => T, options?: CallOptions): T;
  /**
   * A function whose calls are recorded as tool calls: of a generator function, asynchronous or not,
   * with what was yielded when the generator is exhausted, closed or failed.
   */
  tool<F extends (...args: any[]) => any>(work: F): F;
  tool<F extends (...args: any[]) => any>(name: string, work: F): F;
  /** A conversation and its messages. It is recorded, unless the log has one with this id. */
  conversation(fields?: string | Partial<NewConversation>): ConversationHandle;
  /** The tasks, each held by one worker at a time. */
  readonly inbox: Inbox;
  /** The chained thoughts. */
  readonly thoughts: Thoughts;
  /** Records without waiting: a thread writes what is queued, in order. It is closed at exit. */
  capture(options?: CaptureOptions): Capture;

  /** The turn with this id; `undefined` if there is none, or it is retracted. */
  getTurn(id: string, options?: AsOf): ConversationTurn | undefined;
  /** The tool call of a request; `undefined` if there is none, or it is retracted. */
  getToolCall(requestId: string, callId: string, options?: AsOf): ToolCall | undefined;
  /** The edit that a request proposed; `undefined` if there is none, or it is retracted. */
  getProposal(requestId: string, options?: AsOf): CodeEditProposal | undefined;
  /** The conversation with this id, with the totals of its messages. */
  getConversation(id: string): Conversation | undefined;
  getMessage(id: string): ConversationMessage | undefined;
  getEvent(id: number): Event | undefined;
  getTask(id: number): InboxTask | undefined;
  getHistoryEntry(id: number): HistoryEntry | undefined;
  getThought(id: string): ThoughtRecord | undefined;
  /** The last messages of a chat, oldest first. */
  history(chatId: number, options?: { limit?: number | undefined }): HistoryEntry[];
  /** The lines that contain a text, latest day first. Case is ignored. */
  search(text: string, options?: SearchOptions): SearchMatch[];
  /** As `search`, on another thread. */
  searchAsync(text: string, options?: SearchOptions): Promise<SearchMatch[]>;
  /** An event and those below it, each with its depth; `undefined` if there is none. */
  eventTree(id: number): (Event & { depth: number; duration_ms?: number })[] | undefined;
  /** A conversation and those below it; `undefined` if there is none. */
  sessionTree(id: string): Record<string, any>[] | undefined;
  /** Retracts a turn or a proposal, from a time on. Default: now. */
  retract(kind: 'conversation_turns' | 'code_edit_proposals', id: string, options?: { at?: Time }): Ack;
  /** Retracts a tool call, from a time on. Default: now. */
  retract(kind: 'tool_calls', requestId: string, callId: string, options?: { at?: Time }): Ack;
  /** Returns when what was recorded is on disk. */
  sync(): void;
  syncAsync(): Promise<void>;
  /**
   * Closes it. What was given to `recordAsync` is recorded before. Later calls throw `ClosedError`, also
   * those of its runs, turns, calls, inboxes and lists.
   */
  close(): void;
  closeAsync(): Promise<void>;
}

export interface RunOptions {
  /** Continues a thread that the log has. */
  threadId?: string | undefined;
  /** Records messages too, in this conversation. */
  conversation?: NewConversation | undefined;
  /** Queues everything and never waits. */
  through?: Capture | undefined;
}

/** A run of an agent. Made by `Log.run`. */
export class Run {
  private constructor();
  /** The id of its thread. */
  readonly threadId: string;
  /** Records a turn, which follows the one before it. */
  turn(kind: TurnKind, content: string): Turn;
  /** Records what the user says. */
  user(content: string): Turn;
  /** Records what the model answers. */
  assistant(content: string): Turn;
  /** As `Log.toolCall`. Without a turn, an empty one of the assistant is recorded first. */
  toolCall(name: string, args?: unknown, options?: CallOptions): ToolCallHandle;
  toolCall<T>(name: string, args: unknown, work: (call: ToolCallHandle) => T, options?: CallOptions): T;
  /** Calls a function, within which this is the run of `log.turn`, `log.toolCall` and `log.tool`. */
  within<T>(work: () => T): T;
}

/** A turn that was recorded. */
export interface Turn {
  /** Its id, which is also the `request_id` and the `parent_id` of its tool calls. */
  readonly id: string;
  toolCall(name: string, args?: unknown, options?: CallOptions): ToolCallHandle;
  toolCall<T>(name: string, args: unknown, work: (call: ToolCallHandle) => T, options?: CallOptions): T;
}

/**
 * A tool call that was requested. Its outcome is recorded once. A call that is dropped without one is
 * recorded as failed, with the `error_kind` `abandoned`.
 */
export interface ToolCallHandle extends Disposable {
  readonly callId: string;
  /** The turn that it belongs to. */
  readonly turnId: string;
  /** Whether the outcome is recorded. */
  readonly isEnded: boolean;
  /**
   * Records what the tool returned, and how long it took. Throws `InvalidInputError` for an outcome
   * that has no form in JSON, or is too long: the call may still have another one.
   */
  done(outcome?: unknown): void;
  /** Records that the tool failed, and how long it took. */
  failed(errorKind: string, errorMsg?: string): void;
}

type MessageFields = Partial<Omit<NewConversationMessage, 'conversation_id' | 'role' | 'content'>>;

/** A conversation in the log. Made by `Log.conversation`. */
declare class ConversationHandle {
  private constructor();
  readonly id: string;
  /** Records the next message. `content`: a text, or the blocks of a vendor's message. */
  message(role: ConversationMessage['role'], content: unknown, fields?: MessageFields): Ack;
  user(content: unknown, fields?: MessageFields): Ack;
  assistant(content: unknown, fields?: MessageFields): Ack;
  system(content: unknown, fields?: MessageFields): Ack;
  tool(content: unknown, fields?: MessageFields): Ack;
  /** The conversation as it is now, with the totals of its messages. */
  get(): Conversation;
  /**
   * Changes fields of the conversation, and returns it as it is then. Those that are `undefined`
   * stay, and `null` clears one.
   */
  update(fields: Partial<NewConversation>): Conversation;
  /** Its messages, in order. */
  messages(given?: Omit<MessagesArguments, 'conversation_id'>): RecordList<ConversationMessage>;
}
export { ConversationHandle };

/** Tasks, each held by one worker at a time. Made by `Log.inbox`. */
export class Inbox {
  private constructor();
  /** The inbox with a limit of attempts. After the last one, a task fails instead of being queued. */
  attemptsMax(attempts: number): Inbox;
  /** Queues a task. If the `updateId` is known, returns the task that is there. */
  enqueue(updateId: number | bigint, payload?: unknown): InboxTask;
  /** Queues a message of a chat. `date` is stored as the sender gives it. */
  enqueueMessage(
    updateId: number | bigint,
    message: { chat_id: number | bigint; text: string; date: number | bigint },
  ): InboxTask;
  /** Takes the oldest task that is queued; `undefined` if there is none. */
  claim(): InboxTask | undefined;
  /** Records that a claimed task is completed. */
  done(task: InboxTask): void;
  /** Records that a claimed task failed for good. */
  fail(task: InboxTask, error: string): void;
  /** Gives a claimed task back. Returns its status: `failed` after the last attempt. */
  retry(task: InboxTask, error: string): 'queued' | 'failed';
  /** Gives back the tasks that were claimed more than this number of milliseconds ago. */
  releaseStale(timeoutMs: number): InboxTask[];
  /** The number of tasks by status. */
  counts(): Record<InboxTask['status'], number>;
  /** The greatest `update_id` plus 1, or 0: the next update to ask Telegram for. */
  telegramOffset(): number;
  get(id: number): InboxTask | undefined;
  list(given?: TasksArguments): RecordList<InboxTask>;
}

/** Chained thoughts. Made by `Log.thoughts`. */
export class Thoughts {
  private constructor();
  /** Appends a thought to the chain of its task. */
  create(
    type: ThoughtRecord['type'],
    thought: {
      task_id: string;
      agent_id: string;
      content: string;
      /** Default: a new UUID. */
      id?: string | undefined;
      /** Default: now. */
      timestamp?: Time | undefined;
    },
  ): ThoughtRecord;
  get(id: string): ThoughtRecord | undefined;
  /** The thoughts of a task, or of all, in the order in which they were recorded. */
  list(taskId?: string, given?: ThoughtRecordsArguments): ThoughtRecord[];
  /** Recomputes the hashes of a task's chain. */
  verifyChain(taskId: string): { isIntact: boolean; task_id: string; records: number; head: string | null; broken: any };
}

export interface CaptureOptions {
  /** How many records may wait. Default: 10,000. */
  queueRecordsMax?: number | undefined;
  /** How many bytes of text may wait. Default: 64 MiB. */
  queueBytesMax?: number | undefined;
  /**
   * What a call does while the queue is full: `refuse` throws `QueueFullError` at once; `wait` blocks.
   * Default: `refuse`.
   */
  whenFull?: 'refuse' | 'wait' | undefined;
  /** How long to wait for another process that writes when it is closed. Default: 30,000. */
  drainTimeoutMs?: number | undefined;
  /** Called with the error, the kind and the key of each record that was queued and then lost. */
  onError?: ((error: DecklogError, kind: Kind, key: string) => void) | undefined;
}

export interface CaptureStats {
  queued: number;
  accepted: number;
  written: number;
  unchanged: number;
  refused: number;
  rejected: number;
  failed: number;
  lockRetries: number;
}

/** Records without waiting. Made by `Log.capture`. */
export interface Capture extends Disposable, AsyncDisposable {}
export class Capture {
  private constructor();
  /**
   * Queues a record, and returns at once. Returns its id, unless the log assigns it.
   *
   * Throws `InvalidInputError` for a record that is invalid by itself, and `QueueFullError`. Later
   * errors, such as a conflict, are those of `flush`, `lastError` and `onError`.
   */
  record(record: RecordInput): string | undefined;
  record<K extends Kind>(record: NewRecords[K], options: KindOption<K>): string | undefined;
  /** Queues a conversation, unless the log has its id, and messages of it: all, or none. */
  request(conversation: NewConversation, messages?: Iterable<NewConversationMessage>): void;
  /**
   * Resolves when all that was queued is acknowledged or rejected. Rejects with the error of the last
   * record that was lost, once.
   */
  flush(): Promise<void>;
  /** As `flush`, but blocks. */
  flushSync(): void;
  /** The number of records by result. */
  stats(): CaptureStats;
  /** The error of the last record that was queued and then lost. */
  lastError(): DecklogError | undefined;
  /** Writes what is queued. Later calls throw `ClosedError`. */
  close(): void;
  closeAsync(): Promise<void>;
}

/** The SHA-256 of arguments, as the log computes it. */
export function argsSha256(args: unknown): string;

/** The version of this package. */
export const version: string;

/** The kinds of errors, which do not change. */
export type ErrorKind =
  | 'io'
  | 'invalid_input'
  | 'not_found'
  | 'lifecycle'
  | 'conflict'
  | 'locked'
  | 'poisoned'
  | 'damaged'
  | 'newer_format'
  | 'not_a_store'
  | 'read_only'
  | 'network_file_system'
  | 'user_id_key'
  | 'queue_full'
  | 'remote'
  | 'closed'
  | 'batch'
  | 'fault';

/** An error of the log. Its text says what happened, where, and what to do. */
export class DecklogError extends Error {
  /** A short stable word, such as `conflict`. */
  readonly kind: ErrorKind;
  /** The kind in the form of the codes of Node, such as `DECKLOG_CONFLICT`. */
  readonly code: string;
  /** The field or argument that is invalid. */
  readonly field: string | undefined;
  /** The file or directory concerned. */
  readonly path: string | undefined;
  /** The record concerned: its kind and its id. */
  readonly key: string | undefined;
  /** The byte offset in `path`. */
  readonly offset: number | undefined;
}
/** The operating system refused an operation. */
export class StoreIOError extends DecklogError {}
/** A record or an argument is invalid. Nothing was written. */
export class InvalidInputError extends DecklogError {}
/** The record that this one belongs to is not in the log, or was retracted. Nothing was written. */
export class NotFoundError extends DecklogError {}
/** The step is not possible in the present state of the record. Nothing was written. */
export class LifecycleError extends DecklogError {}
/** The log has another fact for this key. The first one is kept, and nothing was written. */
export class ConflictError extends DecklogError {}
/** Another process held the log's write lock for longer than the timeout. */
export class LockedError extends DecklogError {}
/** An earlier write failed. Open the log again to recover. */
export class PoisonedError extends DecklogError {}
/** Bytes of the log were changed or damaged. */
export class DamagedError extends DecklogError {}
/** The log was written by a newer version, in a format that this one does not know. */
export class NewerFormatError extends DecklogError {}
/** The path is not a log, and cannot become one. */
export class NotAStoreError extends DecklogError {}
/** The log was opened read-only. */
export class ReadOnlyError extends DecklogError {}
/** The log is on a network file system, where locks are not reliable. */
export class NetworkFileSystemError extends DecklogError {}
/** The key with which user ids are hashed is missing, or is another one. Nothing was written. */
export class UserIdKeyError extends DecklogError {}
/** The queue of a capture is full. The record was not queued. */
export class QueueFullError extends DecklogError {}
/** An object store or a database cannot be reached, or refused an operation. */
export class RemoteError extends DecklogError {}
/** The log was closed. */
export class ClosedError extends DecklogError {}
/** Some records of a batch were rejected. The others were recorded. */
export class BatchError extends DecklogError {
  /** For each record, in order, its `Ack` or the error. */
  readonly results: (Ack | DecklogError)[];
}

export { decklogMiddleware, wrap, type WrapOptions } from './wrap.js';
