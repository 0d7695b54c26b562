'use strict';
// Lists of records, read page by page while they are iterated over.

const { awaited, native } = require('./errors.js');
const { parsed, withFields } = require('./wire.js');

/** Records of a list. Each iteration reads them anew. */
class Records {
  #open;

  constructor(open) {
    this.#open = open;
  }

  *[Symbol.iterator]() {
    const list = this.#open();
    for (;;) {
      const page = parsed(native(() => list.next()));
      if (page === null) return;
      yield* page;
    }
  }

  async *[Symbol.asyncIterator]() {
    const list = this.#open();
    for (;;) {
      const page = parsed(await awaited(() => list.nextAsync()));
      if (page === null) return;
      yield* page;
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

function list(log, kind, given) {
  const open = () => withFields(given ?? {}, (bytes, length) => log.list(kind, bytes, length));
  // An invalid argument is an error now, and what is given may change later.
  let first = open();
  return new Records(() => {
    const opened = first ?? open();
    first = undefined;
    return opened;
  });
}

module.exports = { METHODS, list };
