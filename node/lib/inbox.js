'use strict';
// Tasks, each held by one worker at a time, and chained thoughts.

const { count, integer, milliseconds, options, optionalText, text, timestamp } = require('./checked.js');
const { invalid, native } = require('./errors.js');
const { parsed, withValue } = require('./wire.js');

/** A task, for what takes one. */
function claimed(task) {
  if (typeof task === 'object' && task !== null) return task;
  throw invalid('task', `it is ${task}: give what claim() returned, which is undefined if nothing is queued`);
}

/** Made by `Log.inbox`. */
class Inbox {
  #log;
  #open;
  #life;
  #made;

  constructor(log, open, life, attempts) {
    this.#log = log;
    this.#open = open;
    this.#life = life;
    this.#made = open(attempts);
  }

  get #native() {
    this.#life.check();
    return this.#made;
  }

  attemptsMax(attempts) {
    if (count('attempts', attempts) === undefined) throw invalid('attempts', 'give a number of attempts');
    return new Inbox(this.#log, this.#open, this.#life, attempts);
  }

  enqueue(updateId, payload) {
    const id = integer('update_id', updateId);
    return parsed(withValue('payload', payload, (bytes, length) => this.#native.enqueue(id, bytes, length)));
  }

  enqueueMessage(updateId, message) {
    const given = [
      integer('update_id', updateId),
      integer('chat_id', message.chat_id),
      text('text', message.text),
      integer('date', message.date),
    ];
    return parsed(native(() => this.#native.enqueueMessage(...given)));
  }

  claim() {
    return parsed(native(() => this.#native.claim())) ?? undefined;
  }

  done(task) {
    withValue('task', claimed(task), (bytes, length) => this.#native.done(bytes, length));
  }

  fail(task, error) {
    const reason = text('error', error);
    withValue('task', claimed(task), (bytes, length) => this.#native.fail(bytes, length, reason));
  }

  retry(task, error) {
    const reason = text('error', error);
    return withValue('task', claimed(task), (bytes, length) => this.#native.retry(bytes, length, reason));
  }

  releaseStale(timeoutMs) {
    const timeout = milliseconds('timeoutMs', timeoutMs);
    if (timeout === undefined) throw invalid('timeoutMs', 'give a number of milliseconds');
    return parsed(native(() => this.#native.releaseStale(timeout)));
  }

  counts() {
    return parsed(native(() => this.#native.counts()));
  }

  telegramOffset() {
    return parsed(native(() => this.#native.telegramOffset()));
  }

  get(id) {
    return this.#log.getTask(id);
  }

  list(given) {
    return this.#log.tasks(given);
  }
}

/** Made by `Log.thoughts`. */
class Thoughts {
  #log;
  #life;
  #made;

  constructor(log, made, life) {
    this.#log = log;
    this.#life = life;
    this.#made = made;
  }

  get #native() {
    this.#life.check();
    return this.#made;
  }

  create(type, thought) {
    options(thought, 'task_id', 'agent_id', 'content', 'id', 'timestamp');
    const given = [
      text('type', type),
      text('task_id', thought.task_id),
      text('agent_id', thought.agent_id),
      text('content', thought.content),
      optionalText('id', thought.id),
      timestamp('timestamp', thought.timestamp),
    ];
    return parsed(native(() => this.#native.create(...given)));
  }

  get(id) {
    return this.#log.getThought(id);
  }

  list(taskId, given) {
    return this.#log.thoughtRecords({ task_id: taskId, ...given }).toArray();
  }

  verifyChain(taskId) {
    const [isIntact, check] = parsed(native(() => this.#native.verifyChain(text('task_id', taskId))));
    return { ...check, isIntact };
  }
}

module.exports = { Inbox, Thoughts };
