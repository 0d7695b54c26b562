'use strict';
// The log.

const path = require('node:path');
const { fileURLToPath } = require('node:url');
const ack = require('./ack.js');
const { Capture, nativeOf } = require('./capture.js');
const { Conversation } = require('./conversation.js');
const { awaited, invalid, native } = require('./errors.js');
const { Inbox, Thoughts } = require('./inbox.js');
const { METHODS, list } = require('./lists.js');
const { Queue } = require('./queue.js');
const { Run, current } = require('./run.js');
const { decorated } = require('./tool.js');
const { addon, id, integer, optionalText, parsed, text, time, withValue, written } = require('./wire.js');

/** Each run, and the log that it belongs to. */
const LOG_OF = new WeakMap();

/** A log that is open. Made by `open`. */
class Log {
  #native;
  #queue;
  #run;

  constructor(where, options = {}) {
    const { durability = 'process', readOnly = false, create = true, lockTimeoutMs } = options;
    const given = where instanceof URL ? fileURLToPath(where) : text('path', where);
    this.#native = native(
      () => new addon.Log(path.resolve(given), text('durability', durability), readOnly, create, lockTimeoutMs),
    );
  }

  get path() {
    return native(() => this.#native.path);
  }

  close() {
    this.#queue?.drain();
    native(() => this.#native.close());
  }

  async closeAsync() {
    this.#queue?.drain();
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
      (writer) => writer.record(record, options?.kind),
      (bytes, length, view) => ack.ofView(view, this.#native.record(bytes, length)),
    );
  }

  recordAsync(record, options) {
    this.#queue ??= new Queue(this.#native);
    return this.#queue.add(record, options?.kind);
  }

  recordBatch(records, options) {
    const unsent = [];
    const json = written(batch(records, options?.kind, unsent), (bytes, length) =>
      this.#native.recordBatch(bytes, length, false),
    );
    return ack.ofBatch(json, unsent);
  }

  async recordBatchAsync(records, options) {
    const unsent = [];
    const sent = written(batch(records, options?.kind, unsent), (bytes, length) =>
      this.#native.recordBatchAsync(bytes, length, false),
    );
    return ack.ofBatch(await awaited(() => sent), unsent);
  }

  recordAll(records, options) {
    const json = written(batch(records, options?.kind), (bytes, length) =>
      this.#native.recordBatch(bytes, length, true),
    );
    return JSON.parse(json).map(ack.ofArray);
  }

  async recordAllAsync(records, options) {
    const sent = written(batch(records, options?.kind), (bytes, length) =>
      this.#native.recordBatchAsync(bytes, length, true),
    );
    return JSON.parse(await awaited(() => sent)).map(ack.ofArray);
  }

  logEvent(eventType, payload, options) {
    const parent = options?.parent_id;
    const parentId = parent === undefined || parent === null ? undefined : integer('parent_id', parent);
    const type = text('event_type', eventType);
    return parsed(
      withValue('payload', payload, (bytes, length) => this.#native.logEvent(type, parentId, bytes, length)),
    );
  }

  // The loop of an agent.

  run(vendor = 'javascript', options = {}) {
    const { threadId, conversation, through } = options;
    const thread = optionalText('threadId', threadId);
    const capture = through === undefined ? undefined : nativeOf(through);
    const made = written(
      (writer) => conversation && writer.fields(conversation),
      (bytes, length) => this.#native.run(text('vendor', vendor), thread, capture, bytes, length),
    );
    const run = new Run(made);
    LOG_OF.set(run, this);
    return run;
  }

  #current() {
    const run = current();
    if (run !== undefined && LOG_OF.get(run) === this) return run;
    this.#run ??= this.run();
    return this.#run;
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
    const found = known ? given.id : this.record({ client: 'api', ...given }, { kind: 'conversations' }).id;
    return new Conversation(this, found);
  }

  get inbox() {
    return new Inbox(this, (attempts) => native(() => this.#native.inbox(attempts)));
  }

  get thoughts() {
    return new Thoughts(this, native(() => this.#native.thoughts()));
  }

  capture(options) {
    return new Capture(this.#native, options);
  }

  // Reading.

  #get(kind, key, callId, options) {
    const json = native(() => this.#native.get(kind, id(key), callId, time('as_of', options?.as_of)));
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
    const given = { chat_id: chatId, order: 'desc', limit: options?.limit ?? 100 };
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
    const at = time('at', rest[0]?.at);
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
    return list(log.#native, kind, given);
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

/** Writes the number of records, then the records. If `unsent` is given, invalid ones are put there. */
function batch(records, kind, unsent) {
  return (writer) => {
    const place = writer.counted();
    let count = 0;
    for (const record of records) {
      if (unsent === undefined) writer.record(record, kind);
      else {
        const error = writer.tryRecord(record, kind);
        unsent.push(error);
        if (error !== undefined) continue;
      }
      count++;
    }
    writer.view.setUint32(place, count, true);
  };
}

function search(words, options = {}) {
  const { kind, since, until, limit } = options;
  if (limit !== undefined && !(Number.isSafeInteger(limit) && limit >= 0 && limit < 2 ** 32)) {
    throw invalid('limit', `${limit} is no number of records`);
  }
  return [text('text', words), optionalText('kind', kind), time('since', since), time('until', until), limit];
}

const open = (where, options) => new Log(where, options);

/** The SHA-256 of arguments, as the log computes it. */
const argsSha256 = (args) =>
  withValue('arguments', args, (bytes, length) => addon.argsSha256(bytes, length));

module.exports = { Log, argsSha256, open, version: addon.version() };
