'use strict';
// The loop of an agent: runs, turns and tool calls.

const { AsyncLocalStorage } = require('node:async_hooks');
const { randomUUID } = require('node:crypto');
const { native } = require('./errors.js');
const { ended, failed } = require('./outcome.js');
const { text, withValue } = require('./wire.js');

const CURRENT = new AsyncLocalStorage();

/** A run of an agent. Made by `Log.run`. */
class Run {
  #native;
  #turn;

  constructor(made) {
    this.#native = made;
  }

  get threadId() {
    return this.#native.threadId;
  }

  turn(kind, content) {
    const made = native(() => this.#native.turn(text('kind', kind), text('content', content)));
    this.#turn = new Turn(made);
    return this.#turn;
  }

  user(content) {
    return this.turn('user', content);
  }

  assistant(content) {
    return this.turn('assistant', content);
  }

  toolCall(name, args, ...rest) {
    const turn = this.#turn ?? this.assistant('');
    return turn.toolCall(name, args, ...rest);
  }

  /** Calls a function, within which this is the run of `log.turn`, `log.toolCall` and `log.tool`. */
  within(work) {
    return CURRENT.run(this, work);
  }
}

/** The run that the code is within. */
const current = () => CURRENT.getStore();

/** A turn that was recorded. */
class Turn {
  #native;

  constructor(made) {
    this.#native = made;
  }

  get id() {
    return this.#native.id;
  }

  toolCall(name, args, ...rest) {
    const work = rest.find((it) => typeof it === 'function');
    const options = rest.find((it) => typeof it === 'object' && it !== null);
    const callId = options?.callId ?? `call_${randomUUID().replaceAll('-', '')}`;
    const made = withValue('arguments_json', args ?? {}, (bytes, length) =>
      this.#native.call(text('callId', callId), text('name', name), bytes, length),
    );
    const call = new ToolCall(made, callId);
    return work === undefined ? call : observed(call, work);
  }
}

/** A tool call that was requested. Its outcome is recorded once. */
class ToolCall {
  #native;
  #callId;

  constructor(made, callId) {
    this.#native = made;
    this.#callId = callId;
  }

  get callId() {
    return this.#callId;
  }

  get turnId() {
    return this.#native.turnId;
  }

  get isEnded() {
    return this.#native.isEnded;
  }

  done(outcome) {
    withValue('outcome_json', outcome ?? undefined, (bytes, length) => this.#native.done(bytes, length));
  }

  failed(errorKind, errorMsg = '') {
    native(() => this.#native.failed(text('errorKind', errorKind), text('errorMsg', errorMsg)));
  }

  /** At the end of a `using` block: `abandoned`, unless it has an outcome. */
  [Symbol.dispose]() {
    if (!this.isEnded) this.failed('abandoned');
  }
}

/** Calls a function, and records what comes of it. */
function observed(call, work) {
  let returned;
  try {
    returned = work(call);
  } catch (error) {
    failed(call, error);
    throw error;
  }
  if (typeof returned?.then !== 'function') {
    ended(call, returned);
    return returned;
  }
  return returned.then(
    (value) => {
      ended(call, value);
      return value;
    },
    (error) => {
      failed(call, error);
      throw error;
    },
  );
}

module.exports = { Run, current, observed };
