'use strict';
// Records that are recorded on another thread. They are recorded in order: while some are written,
// the next ones are collected.

const ack = require('./ack.js');
const errors = require('./errors.js');
const { atExit } = require('./exit.js');
const { Writer, written } = require('./wire.js');

class Queue {
  #native;
  #forget;
  #isSending = false;
  /** The batch that another thread records, or will. */
  #sent;
  #writer;
  #waiting;

  constructor(native) {
    this.#native = native;
    this.#reset();
    this.#forget = atExit(this);
  }

  #reset() {
    this.#writer = new Writer();
    this.#waiting = [];
  }

  add(record, kind) {
    return new Promise((resolve, reject) => {
      // Not yet in the batch: a getter may record meanwhile.
      written(
        (writer) => writer.record(record, kind),
        (bytes, length) => this.#writer.append(bytes, length),
      );
      this.#waiting.push(resolve, reject);
      if (this.#isSending) return;
      this.#isSending = true;
      queueMicrotask(() => this.#send());
    });
  }

  /** Takes what was collected as a batch; `undefined` if there is nothing, or the log is closed. */
  #take() {
    if (this.#waiting.length === 0) return undefined;
    const writer = this.#writer;
    const waiting = this.#waiting;
    this.#reset();
    try {
      return { waiting, native: this.#native.queued(writer.bytes, writer.at) };
    } catch (error) {
      rejected(waiting, error);
      return undefined;
    }
  }

  async #send() {
    for (let batch = this.#take(); batch !== undefined; batch = this.#take()) {
      this.#sent = batch;
      try {
        settle(batch.waiting, await batch.native.recordAsync());
      } catch (error) {
        rejected(batch.waiting, error);
      }
      this.#sent = undefined;
    }
    this.#isSending = false;
  }

  /** Returns when all is recorded, in order: the batch that was sent comes first. */
  drain() {
    for (const batch of [this.#sent, this.#take()]) {
      if (batch === undefined) continue;
      try {
        settle(batch.waiting, batch.native.record());
      } catch (error) {
        rejected(batch.waiting, error);
      }
    }
  }

  close() {
    this.#forget();
    this.drain();
  }
}

function settle(waiting, json) {
  ack.ofAnswers(json).forEach((answer, at) => waiting[2 * at + (answer instanceof Error ? 1 : 0)](answer));
}

function rejected(waiting, error) {
  const made = errors.of(error);
  for (let at = 1; at < waiting.length; at += 2) waiting[at](made);
}

module.exports = { Queue };
