'use strict';
// Records requests and their answers. Nothing here throws an error to the caller or waits.

const { createHash, randomUUID } = require('node:crypto');
const { described } = require('../outcome.js');
const { NAME_BYTES_MAX, Said, isJson, joined, keyAfter } = require('./said.js');

/** The namespace of derived ids. */
const NAMESPACE = '9e2e0448-885d-554a-ae4d-caca47215e7c';
/**
 * Maximum number of answers, and of calls without an outcome, that a client remembers. A request that
 * continues a forgotten answer starts a new conversation.
 */
const REMEMBERED_MAX = 4096;
/** Maximum number of system messages of a conversation that are remembered. */
const SYSTEMS_MAX = 64;
const TITLE_LENGTH_MAX = 80;
/** The `error_type` of an answer whose stream was closed early. */
const CANCELLED = 'cancelled';
/** The error class of a tool call that failed. */
const TOOL_ERROR = 'tool_error';

/** The latest entries. */
class Recent extends Map {
  put(key, value) {
    this.delete(key);
    this.set(key, value);
    if (this.size > REMEMBERED_MAX) this.delete(this.keys().next().value);
  }
}

/** Where a conversation goes on. `systems`: hashes of the system messages that it has. */
const NOWHERE = Object.freeze({ conversation: '', turn: '', key: '', systems: '' });

/** Records what a client and its copies send and receive. */
class Recorder {
  #onError;
  #capture;
  #places = new Recent();
  #calls = new Recent();
  #given;
  #session;
  #lost = 0;

  constructor({ capture, log, conversation, onError }) {
    this.#onError = onError;
    const of = new WeakRef(this);
    // The capture must not keep the client alive.
    this.#capture = capture ?? log.capture({ onError: (...lost) => of.deref()?.failed(...lost) });
    if (conversation === undefined) return;
    const id = conversationId(conversation);
    this.#session = id === conversation ? undefined : conversation;
    this.#given = { ...NOWHERE, conversation: id };
    if (log !== undefined) this.#recall(log, id);
  }

  // Failures.

  /** What a function returns; `undefined` if it throws, which is reported. */
  safely(work) {
    try {
      return work();
    } catch (error) {
      this.failed(error, '', '');
      return undefined;
    }
  }

  /** Counts a failure, and reports it: the first one of the client as a warning. */
  failed(error, kind, key) {
    try {
      this.#lost += 1;
      if (this.#lost === 1) {
        const what = `${kind} ${key}`.trim() || error?.name;
        process.emitWarning(
          `a request was not recorded: ${what}: ${error?.message}. Later failures are not reported here`,
          'DecklogWarning',
        );
      }
      this.#onError?.(error, kind, key);
    } catch {
      // An error of the function that is told changes nothing.
    }
  }

  #put(kind, record) {
    try {
      this.#capture.record(record, { kind });
    } catch (error) {
      this.failed(error, kind, String(record.id ?? record.call_id ?? ''));
    }
  }

  /** Finds the place at the end of a conversation that the log has. */
  #recall(log, id) {
    let place = { ...NOWHERE, conversation: id };
    for (const it of log.messages({ conversation_id: id })) {
      const said = it.error === undefined || it.error === null;
      if (it.role === 'system') {
        if (said) place = { ...place, systems: withSystem(place.systems, it.content) };
        continue;
      }
      if (!said || it.part_of) continue;
      place = { ...place, turn: it.id, key: keyAfter(place.key, it.role, it) };
      if (it.role !== 'assistant') continue;
      this.#remember(place, it);
      if (!it.tool_call_id) continue;
      for (const call of log.toolCalls({ parent_id: it.id, status: 'requested' })) {
        this.#calls.put(`${id} ${call.call_id}`, [call.request_id, call.call_id]);
      }
    }
    this.#given = { ...place, key: '' };
  }

  #remember(place, fields) {
    this.#places.put(place.key, place);
    // The history of a later request may begin after the start of the conversation.
    if (this.#given !== undefined) this.#places.put(keyAfter('answer', 'assistant', fields), place);
  }

  // Requests.

  /** Records what is new in a request. */
  asked(asked, vendor) {
    const systems = asked.said.filter((it) => it.role === 'system');
    const said = asked.said.filter((it) => it.role !== 'system');
    let [place, added] = this.#place(asked, said);
    if (place.conversation === '') place = { ...place, conversation: randomUUID() };
    if (place.turn === '') this.#start(place.conversation, said);
    for (const it of systems) {
      const known = place.systems;
      place = { ...place, systems: withSystem(known, joined(it.texts)) };
      if (known !== place.systems) place = this.#say(place, it, vendor);
    }
    for (const it of added) place = this.#say(place, it, vendor);
    if (this.#given !== undefined) this.#given = { ...place, key: '' };
    return new Exchange(this, place, asked, vendor);
  }

  /** Where a request goes on, and which of its messages are new there. */
  #place(asked, said) {
    const fields = said.map((it) => it.fields());
    const start = (asked.after && this.#places.get(`response ${asked.after}`)) || this.#given || NOWHERE;
    let key = start.key;
    let places = said.map((it, at) => {
      key = keyAfter(key, it.role, fields[at]);
      return this.#places.get(key);
    });
    if (this.#given !== undefined && start === this.#given && !places.some(Boolean)) {
      places = said.map((it, at) =>
        it.role === 'assistant' ? this.#places.get(keyAfter('answer', 'assistant', fields[at])) : undefined,
      );
    }
    const at = places.findLastIndex(Boolean);
    return at < 0 ? [start, said] : [places[at], said.slice(at + 1)];
  }

  #start(id, said) {
    const conversation = { id, client: 'api' };
    const prompt = said.find((it) => it.role === 'user');
    const words = prompt === undefined ? [] : joined(prompt.texts).slice(0, 1000).toWellFormed().split(/\s+/);
    const letters = [...words.filter(Boolean).join(' ')];
    if (letters.length > 0) {
      const isLong = letters.length > TITLE_LENGTH_MAX;
      conversation.title = isLong ? `${letters.slice(0, TITLE_LENGTH_MAX - 1).join('')}…` : letters.join('');
    }
    if (this.#session !== undefined) conversation.session_id = this.#session;
    try {
      // Nothing is recorded if the log has it.
      this.#capture.request(conversation);
    } catch (error) {
      this.failed(error, 'conversations', id);
    }
  }

  // Messages.

  /** Records a message with its turn, its calls or its result. Returns the place after it. */
  #say(place, said, vendor, fields = {}, partOf = undefined) {
    const id = randomUUID();
    const turn = { id, kind: said.role, content: said.content(), thread_id: place.conversation };
    turn.message_id = partOf ?? id;
    if (place.turn !== '') turn.parent_id = place.turn;
    this.#put('conversation_turns', turn);
    const its = said.fields();
    const message = { id, conversation_id: place.conversation, role: said.role, ...its, ...fields };
    if (partOf !== undefined) message.part_of = partOf;
    if (said.isFailure) message.error_type = TOOL_ERROR;
    for (const name of ['tool_name', 'tool_call_id', 'model_used', 'error_type']) {
      if (!message[name] || Buffer.byteLength(message[name]) > NAME_BYTES_MAX) delete message[name];
    }
    if (typeof message.tool_args === 'string' && !isJson(message.tool_args)) delete message.tool_args;
    this.#put('messages', message);
    for (const [nth, call] of said.calls.entries()) {
      const isWhole = typeof call.args !== 'string' || isJson(call.args);
      if (isWhole || message.error_type !== CANCELLED) this.#call(place, id, nth, call, vendor);
    }
    if (said.answers !== undefined) {
      const result = its.tool_result;
      this.#done(place, said.answers, result, said.isFailure ? result : undefined);
    }
    const after = { ...place, turn: id };
    return said.role === 'system' ? after : { ...after, key: keyAfter(place.key, said.role, its) };
  }

  #call(place, turn, nth, call, vendor) {
    const callId = call.id || `${turn}:${nth}`;
    this.#put('tool_calls', {
      op: 'requested',
      request_id: turn,
      call_id: callId,
      parent_id: turn,
      vendor,
      tool_name: call.name || 'unknown',
      arguments_json: call.args,
    });
    this.#calls.put(`${place.conversation} ${callId}`, [turn, callId]);
    if (call.status === 'requested') return;
    const isFailure = call.status === 'failed';
    this.#done(place, callId, call.outcome, isFailure ? JSON.stringify(call.outcome) ?? '' : undefined);
  }

  #done(place, id, outcome, error) {
    const key = `${place.conversation} ${id}`;
    const known = this.#calls.get(key);
    // A result that is sent again changes nothing: a call has one outcome.
    if (known === undefined) return;
    this.#calls.delete(key);
    const [turn, callId] = known;
    const done = { op: 'completed', request_id: turn, call_id: callId, outcome_json: outcome };
    if (error !== undefined) Object.assign(done, { op: 'failed', error_kind: TOOL_ERROR, error_msg: error });
    this.#put('tool_calls', done);
  }

  // Answers.

  /** Records the answer to a request, or as much of it as was received before an error. */
  answered(exchange, answer, thrown) {
    const error = thrown ?? answer.error;
    const after = exchange.place;
    const fields = {
      model_used: answer.model || exchange.model,
      latency_ms: Math.round(performance.now() - exchange.started),
      ...answer.tokens,
    };
    if (Object.keys(answer.metadata).length > 0) fields.inference_metadata = answer.metadata;
    if (error !== undefined) {
      fields.error_type = error.kind;
      fields.error = error.message;
      // The same request again is another attempt.
      this.#places.put(after.key, after);
    }
    let first;
    for (const said of answer.choices.length > 0 ? answer.choices : [new Said('assistant')]) {
      said.role = 'assistant';
      const its = first === undefined ? fields : { model_used: fields.model_used };
      const place = this.#say(after, said, exchange.vendor, its, first);
      if (error === undefined || joined(said.texts) !== '' || said.calls.length > 0) {
        this.#remember(place, said.fields());
      }
      if (first !== undefined) continue;
      first = place.turn;
      if (this.#given !== undefined) this.#given = { ...place, key: '' };
      if (answer.id !== '' && answer.error === undefined) this.#places.put(`response ${answer.id}`, place);
      if (exchange.talk !== '') this.#places.put(`response ${exchange.talk}`, place);
    }
  }
}

/** A request that was recorded, and whose answer is recorded once. */
class Exchange {
  #recorder;
  #isEnded = false;

  constructor(recorder, place, asked, vendor) {
    this.#recorder = recorder;
    this.place = place;
    this.vendor = vendor;
    this.what = asked.what;
    this.model = asked.model;
    this.talk = asked.after.startsWith('conv') ? asked.after : '';
    this.started = performance.now();
  }

  /** Whether the answer is recorded. */
  get isEnded() {
    return this.#isEnded;
  }

  /** Records the answer, and the error if there is one. Later calls do nothing. */
  ended(answer, error) {
    if (this.#isEnded) return;
    this.#isEnded = true;
    this.#recorder.safely(() => {
      const it = answer();
      for (const name of ['status', 'request_id', 'requestID', 'code', 'type', 'statusCode']) {
        const value = error?.[name];
        if (typeof value === 'string' || Number.isSafeInteger(value)) it.metadata[NAMES[name] ?? name] = value;
      }
      this.#recorder.answered(this, it, error === undefined ? undefined : failure(error));
    });
  }
}

/** The names of these in the records of all languages. */
const NAMES = { status: 'status_code', statusCode: 'status_code', requestID: 'request_id' };

/** What an answer is recorded with that was cancelled. */
class Cancelled {}

/** The type and the message of an error. */
function failure(error) {
  const name = error?.constructor?.name;
  if (error instanceof Cancelled || name === 'APIUserAbortError' || error?.name === 'AbortError') {
    return { kind: CANCELLED, message: 'the caller cancelled the request' };
  }
  const { kind, message } = described(error);
  // The SDKs leave the name of their errors as `Error`.
  const known = kind === 'Error' && name ? name : kind;
  return { kind: known, message: message || known };
}

/** The hashes of system messages, with that of one more. */
function withSystem(systems, content) {
  const digest = createHash('sha256').update(content).digest('hex').slice(0, 16);
  const known = systems.split(' ').filter(Boolean);
  return known.includes(digest) ? systems : [...known, digest].slice(-SYSTEMS_MAX).join(' ');
}

/** The id of a conversation: the name itself if it is a UUID. */
function conversationId(name) {
  if (/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(name)) return name.toLowerCase();
  const hash = createHash('sha1').update(Buffer.from(NAMESPACE.replaceAll('-', ''), 'hex'));
  const bytes = hash.update(`wrap:conversation:${name}`).digest().subarray(0, 16);
  bytes[6] = (bytes[6] & 0x0f) | 0x50;
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  return bytes.toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
}

module.exports = { Cancelled, Recorder };
