'use strict';
// Lists of records, read page by page while they are iterated over.

const { time } = require('./checked.js');
const { awaited, native } = require('./errors.js');
const { parsed, withFields } = require('./wire.js');

/** Records of a list. Each iteration reads them anew. */
class Records {
  #open;
  #life;

  constructor(open, life) {
    this.#open = open;
    this.#life = life;
  }

  *#each(page) {
    for (const record of page) {
      yield record;
      this.#life.check();
    }
  }

  *[Symbol.iterator]() {
    this.#life.check();
    const list = this.#open();
    for (;;) {
      const page = parsed(native(() => list.next()));
      if (page === null) return;
      yield* this.#each(page);
    }
  }

  async *[Symbol.asyncIterator]() {
    this.#life.check();
    const list = this.#open();
    for (;;) {
      const page = parsed(await awaited(() => list.nextAsync()));
      if (page === null) return;
      yield* this.#each(page);
    }
  }

  toArray() {
    return [...this];
  }

  first() {
    for (const record of this) return record;
    return undefined;
  }
}

/** The methods that list the kinds. */
const METHODS = {
  turns: 'conversation_turns',
  toolCalls: 'tool_calls',
  proposals: 'code_edit_proposals',
  conversations: 'conversations',
  messages: 'messages',
  events: 'events',
  tasks: 'inbox',
  historyEntries: 'history',
  thoughtRecords: 'thought_records',
  rollups: 'rollups',
};

const TIMES = ['since', 'until', 'as_of'];

function list(log, kind, given, life) {
  for (const name of TIMES) if (typeof given?.[name] === 'string') time(name, given[name]);
  const open = () => withFields(given ?? {}, (bytes, length) => log.list(kind, bytes, length));
  // An invalid argument is an error now, and what is given may change later.
  let first = open();
  const opened = () => {
    const it = first ?? open();
    first = undefined;
    return it;
  };
  return new Records(opened, life);
}

module.exports = { METHODS, list };
