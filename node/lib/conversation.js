'use strict';
// A conversation in a log.

const { defined } = require('./checked.js');
const { NotFoundError } = require('./errors.js');

/** Made by `Log.conversation`. */
class Conversation {
  #log;
  #id;
  #change;

  /** `change` changes fields of it, and returns it. */
  constructor(log, id, change) {
    this.#log = log;
    this.#id = id;
    this.#change = change;
  }

  get id() {
    return this.#id;
  }

  message(role, content, fields) {
    const message = { conversation_id: this.#id, role, content, ...defined(fields) };
    return this.#log.record(message, { kind: 'messages' });
  }

  user(content, fields) {
    return this.message('user', content, fields);
  }

  assistant(content, fields) {
    return this.message('assistant', content, fields);
  }

  system(content, fields) {
    return this.message('system', content, fields);
  }

  tool(content, fields) {
    return this.message('tool', content, fields);
  }

  get() {
    const found = this.#log.getConversation(this.#id);
    if (found === undefined) throw new NotFoundError(`the log has no conversation ${this.#id}`);
    return found;
  }

  update(fields) {
    return this.#change(fields);
  }

  messages(given) {
    return this.#log.messages({ ...given, conversation_id: this.#id });
  }
}

module.exports = { Conversation };
