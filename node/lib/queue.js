'use strict';
// Records that are recorded on another thread. They are recorded in order: while some are written,
// the next ones are collected.

const ack = require('./ack.js');
const errors = require('./errors.js');
const { atExit } = require('./exit.js');
const { Writer } = require('./wire.js');

class Queue {
  constructor(native) {
    this.native = native;
    this.isSending = false;
    this.reset(new Writer());
    atExit(this);
  }

  reset(writer) {
    this.writer = writer;
    writer.at = 0;
    writer.counted();
    this.waiting = [];
  }

  add(record, kind) {
    return new Promise((resolve, reject) => {
      const error = this.writer.tryRecord(record, kind);
      if (error !== undefined) {
        reject(error);
        return;
      }
      this.waiting.push(resolve, reject);
      if (this.isSending) return;
      this.isSending = true;
      queueMicrotask(() => this.send());
    });
  }

  take() {
    const { writer, waiting } = this;
    writer.view.setUint32(0, waiting.length / 2, true);
    this.reset(new Writer());
    return { writer, waiting };
  }

  async send() {
    while (this.waiting.length > 0) {
      const { writer, waiting } = this.take();
      try {
        settle(waiting, await this.native.recordBatchAsync(writer.bytes, writer.at, false));
      } catch (error) {
        rejected(waiting, error);
      }
    }
    this.isSending = false;
  }

  /** Records at once what was not sent yet. */
  drain() {
    if (this.waiting.length === 0) return;
    const { writer, waiting } = this.take();
    try {
      settle(waiting, this.native.recordBatch(writer.bytes, writer.at, false));
    } catch (error) {
      rejected(waiting, error);
    }
  }
}

function settle(waiting, json) {
  const answers = JSON.parse(json);
  for (let at = 0; at < answers.length; at++) {
    const answer = ack.ofAnswer(answers[at]);
    waiting[2 * at + (answer instanceof Error ? 1 : 0)](answer);
  }
}

function rejected(waiting, error) {
  const made = errors.of(error);
  for (let at = 1; at < waiting.length; at += 2) waiting[at](made);
}

module.exports = { Queue };
