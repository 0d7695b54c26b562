'use strict';
// Tasks, each held by one worker at a time, and chained thoughts.

const { native } = require('./errors.js');
const { integer, optionalText, parsed, text, time, withValue } = require('./wire.js');

/** Made by `Log.inbox`. */
class Inbox {
  #log;
  #open;
  #native;

  constructor(log, open, attempts) {
    this.#log = log;
    this.#open = open;
    this.#native = open(attempts);
  }

  attemptsMax(attempts) {
    return new Inbox(this.#log, this.#open, attempts);
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
    withValue('task', task, (bytes, length) => this.#native.done(bytes, length));
  }

  fail(task, error) {
    const reason = text('error', error);
    withValue('task', task, (bytes, length) => this.#native.fail(bytes, length, reason));
  }

  retry(task, error) {
    const reason = text('error', error);
    return withValue('task', task, (bytes, length) => this.#native.retry(bytes, length, reason));
  }

  releaseStale(timeoutMs) {
    return parsed(native(() => this.#native.releaseStale(timeoutMs)));
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
  #native;

  constructor(log, made) {
    this.#log = log;
    this.#native = made;
  }

  create(type, thought) {
    const given = [
      text('type', type),
      text('task_id', thought.task_id),
      text('agent_id', thought.agent_id),
      text('content', thought.content),
      optionalText('id', thought.id),
      time('timestamp', thought.timestamp),
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
