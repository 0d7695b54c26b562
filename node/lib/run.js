'use strict';
// The loop of an agent: runs, turns and tool calls.

const { AsyncLocalStorage } = require('node:async_hooks');
const { randomUUID } = require('node:crypto');
const { options: known, text } = require('./checked.js');
const { invalid, native } = require('./errors.js');
const { atExit } = require('./exit.js');
const { observed } = require('./outcome.js');
const { withValue } = require('./wire.js');

/** The run that the code is within, and the ones around it. */
const CURRENT = new AsyncLocalStorage();

/** A run of an agent. Made by `Log.run`. */
class Run {
  #native;
  #life;
  #turn;

  constructor(made, life) {
    this.#native = made;
    this.#life = life;
  }

  get threadId() {
    return this.#native.threadId;
  }

  turn(kind, content) {
    this.#life.check();
    const made = native(() => this.#native.turn(text('kind', kind), text('content', content)));
    this.#turn = new Turn(made, this.#life);
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
    return CURRENT.run({ run: this, around: CURRENT.getStore() }, work);
  }
}

/** The nearest run that the code is within and that a function accepts. */
function current(isOurs) {
  let it = CURRENT.getStore();
  while (it !== undefined && !isOurs(it.run)) it = it.around;
  return it?.run;
}

/** A turn that was recorded. */
class Turn {
  #native;
  #life;

  constructor(made, life) {
    this.#native = made;
    this.#life = life;
  }

  get id() {
    return this.#native.id;
  }

  toolCall(name, args, ...rest) {
    this.#life.check();
    const work = rest.find((it) => typeof it === 'function');
    const wrong = rest.find((it) => typeof it !== 'function' && typeof it !== 'object' && it !== undefined);
    if (wrong !== undefined) throw invalid('toolCall', `${JSON.stringify(wrong)} is neither a function nor { callId }`);
    const options = known(rest.find((it) => typeof it === 'object'), 'callId');
    const callId = options.callId ?? `call_${randomUUID().replaceAll('-', '')}`;
    const made = withValue('arguments_json', args ?? {}, (bytes, length) =>
      this.#native.call(text('callId', callId), text('name', name), bytes, length),
    );
    const call = new ToolCall(made, callId, this.#life);
    return work === undefined ? call : observed(call, work);
  }
}

/** A tool call that was requested. Its outcome is recorded once. */
class ToolCall {
  #native;
  #callId;
  #life;
  #forget;

  constructor(made, callId, life) {
    this.#native = made;
    this.#callId = callId;
    this.#life = life;
    this.#forget = atExit(this, true);
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
    this.#life.check();
    withValue('outcome_json', outcome ?? undefined, (bytes, length) => this.#native.done(bytes, length));
    this.#forget();
  }

  failed(errorKind, errorMsg = '') {
    this.#life.check();
    native(() => this.#native.failed(text('errorKind', errorKind), text('errorMsg', errorMsg)));
    this.#forget();
  }

  /** At exit. */
  drain() {
    this[Symbol.dispose]();
  }

  /** At the end of a `using` block: `abandoned`, unless it has an outcome. */
  [Symbol.dispose]() {
    if (!this.isEnded && !this.#life.isClosed) this.failed('abandoned');
  }
}

module.exports = { Run, current };
