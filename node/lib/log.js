'use strict';
// The log.

const path = require('node:path');
const { fileURLToPath } = require('node:url');
const ack = require('./ack.js');
const { Capture, nativeOf } = require('./capture.js');
const {
  count, defined, flag, id, integer, kindOf, milliseconds, options: known, optionalText, text, time,
} = require('./checked.js');
const { Conversation } = require('./conversation.js');
const { Life, awaited, invalid, native } = require('./errors.js');
const { Inbox, Thoughts } = require('./inbox.js');
const { METHODS, list } = require('./lists.js');
const { Queue } = require('./queue.js');
const { Run, current } = require('./run.js');
const { decorated } = require('./tool.js');
const { addon, parsed, withFields, withValue, written } = require('./wire.js');

/** Each run, and the log that it belongs to. */
const LOG_OF = new WeakMap();

/** A log that is open. Made by `open`. */
class Log {
  #native;
  #queue;
  #run;
  #life = new Life();

  constructor(where, options = {}) {
    const { durability = 'process', readOnly = false, create = true, lockTimeoutMs } = known(
      options, 'durability', 'readOnly', 'create', 'lockTimeoutMs',
    );
    if (where === '') throw invalid('path', 'it is empty: give the directory of the log');
    const given = [
      path.resolve(where instanceof URL ? fileURLToPath(where) : text('path', where)),
      text('durability', durability),
      flag('readOnly', readOnly),
      flag('create', create),
      milliseconds('lockTimeoutMs', lockTimeoutMs),
    ];
    this.#native = native(() => new addon.Log(...given));
  }

  get path() {
    return native(() => this.#native.path);
  }

  /** Records what is queued. From then on, nothing of the log may be used. */
  #end() {
    this.#queue?.close();
    this.#life.isClosed = true;
    this.#run = undefined;
  }

  close() {
    this.#end();
    native(() => this.#native.close());
  }

  async closeAsync() {
    this.#end();
    await awaited(() => this.#native.closeAsync());
  }

  [Symbol.dispose]() {
    this.close();
  }

  async [Symbol.asyncDispose]() {
    await this.closeAsync();
  }

  record(record, options) {
    return written(
      (writer) => writer.record(record, kindOf(options)),
      (bytes, length, view) => ack.ofView(view, this.#native.record(bytes, length)),
    );
  }

  recordAsync(record, options) {
    this.#queue ??= new Queue(this.#native);
    return this.#queue.add(record, kindOf(options));
  }

  recordBatch(records, options) {
    const given = new Batch(records, kindOf(options));
    const batch = native(() => this.#native.batch());
    const json = written(
      (writer) => given.write(writer, (bytes, length) => {
        this.#life.check();
        return native(() => batch.add(bytes, length));
      }),
      (bytes, length) => {
        batch.add(bytes, length);
        return batch.end();
      },
    );
    return given.results(json);
  }

  async recordBatchAsync(records, options) {
    const given = new Batch(records, kindOf(options));
    const sent = written((writer) => given.write(writer), (bytes, length) =>
      this.#native.recordBatchAsync(bytes, length),
    );
    return given.results(await awaited(() => sent));
  }

  recordAll(records, options) {
    const json = written((writer) => new Batch(records, kindOf(options)).writeAll(writer), (bytes, length) =>
      this.#native.recordAll(bytes, length),
    );
    return ack.ofAnswers(json);
  }

  async recordAllAsync(records, options) {
    const sent = written((writer) => new Batch(records, kindOf(options)).writeAll(writer), (bytes, length) =>
      this.#native.recordAllAsync(bytes, length),
    );
    return ack.ofAnswers(await awaited(() => sent));
  }

  logEvent(eventType, payload, options) {
    const parent = known(options, 'parent_id').parent_id;
    const parentId = parent === undefined || parent === null ? undefined : integer('parent_id', parent);
    const type = text('event_type', eventType);
    return parsed(
      withValue('payload', payload, (bytes, length) => this.#native.logEvent(type, parentId, bytes, length)),
    );
  }

  // The loop of an agent.

  run(vendor = 'javascript', options = {}) {
    const { threadId, conversation, through } = known(options, 'threadId', 'conversation', 'through');
    const thread = optionalText('threadId', threadId);
    const capture = through === undefined ? undefined : nativeOf(through);
    const made = written(
      (writer) => conversation && writer.fields(conversation),
      (bytes, length) => this.#native.run(text('vendor', vendor), thread, capture, bytes, length),
    );
    const run = new Run(made, this.#life);
    LOG_OF.set(run, this);
    return run;
  }

  #current() {
    this.#life.check();
    return current((run) => LOG_OF.get(run) === this) ?? (this.#run ??= this.run());
  }

  turn(kind, content) {
    return this.#current().turn(kind, content);
  }

  toolCall(name, args, ...rest) {
    return this.#current().toolCall(name, args, ...rest);
  }

  tool(...given) {
    const name = typeof given[0] === 'string' ? given.shift() : undefined;
    return decorated(() => this.#current(), name, given[0]);
  }

  conversation(fields = {}) {
    const given = typeof fields === 'string' ? { id: fields } : fields;
    const known = given.id !== undefined && this.getConversation(given.id) !== undefined;
    const found = known ? given.id : this.record({ client: 'api', ...defined(given) }, { kind: 'conversations' }).id;
    return new Conversation(this, found, (changed) =>
      parsed(withFields(changed, (bytes, length) => this.#native.updateConversation(found, bytes, length))),
    );
  }

  get inbox() {
    return new Inbox(this, (attempts) => native(() => this.#native.inbox(attempts)), this.#life);
  }

  get thoughts() {
    return new Thoughts(this, native(() => this.#native.thoughts()), this.#life);
  }

  capture(options) {
    return new Capture(this.#native, options);
  }

  // Reading.

  #get(kind, key, callId, options) {
    const json = native(() => this.#native.get(kind, id(key), callId, time('as_of', known(options, 'as_of').as_of)));
    return parsed(json) ?? undefined;
  }

  getTurn(key, options) {
    return this.#get('conversation_turns', key, '', options);
  }

  getToolCall(requestId, callId, options) {
    return this.#get('tool_calls', requestId, text('call_id', callId), options);
  }

  getProposal(requestId, options) {
    return this.#get('code_edit_proposals', requestId, '', options);
  }

  getConversation(key) {
    return this.#get('conversations', key, '');
  }

  getMessage(key) {
    return this.#get('messages', key, '');
  }

  getEvent(key) {
    return this.#get('events', key, '');
  }

  getTask(key) {
    return this.#get('inbox', key, '');
  }

  getHistoryEntry(key) {
    return this.#get('history', key, '');
  }

  getThought(key) {
    return this.#get('thought_records', key, '');
  }

  history(chatId, options) {
    const given = { chat_id: chatId, order: 'desc', limit: known(options, 'limit').limit ?? 100 };
    return this.historyEntries(given).toArray().reverse();
  }

  search(words, options) {
    return parsed(native(() => this.#native.search(...search(words, options))));
  }

  async searchAsync(words, options) {
    return parsed(await awaited(() => this.#native.searchAsync(...search(words, options))));
  }

  eventTree(key) {
    return parsed(native(() => this.#native.eventTree(integer('id', key)))) ?? undefined;
  }

  sessionTree(key) {
    return parsed(native(() => this.#native.sessionTree(text('id', key)))) ?? undefined;
  }

  retract(kind, key, ...rest) {
    const callId = typeof rest[0] === 'string' ? text('call_id', rest.shift()) : '';
    const at = time('at', known(rest[0], 'at').at);
    return ack.ofArray(parsed(native(() => this.#native.retract(text('kind', kind), id(key), callId, at))));
  }

  sync() {
    native(() => this.#native.sync());
  }

  async syncAsync() {
    await awaited(() => this.#native.syncAsync());
  }

  /** The native handle, for lists. */
  static list(log, kind, given) {
    return list(log.#native, kind, given, log.#life);
  }

  /** A receiver of OTLP requests. */
  static receiver(log) {
    return native(() => log.#native.receiver());
  }
}

for (const [method, kind] of Object.entries(METHODS)) {
  Object.defineProperty(Log.prototype, method, {
    value: { [method](given) { return Log.list(this, kind, given); } }[method],
    configurable: true,
    writable: true,
  });
}

/** Number of records of a batch that are handed over at a time. */
const PART = 64;

/** Records of a batch. */
class Batch {
  #records;
  #kind;
  /** For each record, the error for which it is not sent. */
  #unsent = [];
  /** What the iteration raised. */
  #raised = [];

  constructor(records, kind) {
    this.#records = records;
    this.#kind = kind;
  }

  writeAll(writer) {
    for (const record of this.#records) writer.record(record, this.#kind);
  }

  /**
   * As `writeAll`, without those that are invalid, and up to where the iteration raises. `send` hands
   * over what is written so far, and returns whether more is of use.
   */
  write(writer, send) {
    try {
      for (const record of this.#records) {
        this.#unsent.push(writer.tryRecord(record, this.#kind));
        if (send === undefined || this.#unsent.length % PART > 0) continue;
        const isTaken = send(writer.bytes, writer.at);
        writer.at = 0;
        if (!isTaken) break;
      }
    } catch (error) {
      this.#raised.push(error);
    }
  }

  /** Of what the log answered. */
  results(json) {
    if (this.#raised.length > 0) throw this.#raised[0];
    return ack.ofBatch(json, this.#unsent);
  }
}

function search(words, options = {}) {
  const { kind, since, until, limit } = known(options, 'kind', 'since', 'until', 'limit');
  return [
    text('text', words),
    optionalText('kind', kind),
    time('since', since),
    time('until', until),
    count('limit', limit),
  ];
}

const open = (where, options) => new Log(where, options);

/** The SHA-256 of arguments, as the log computes it. */
const argsSha256 = (args) =>
  withValue('arguments', args, (bytes, length) => addon.argsSha256(bytes, length));

module.exports = { Log, argsSha256, open, version: addon.version() };
