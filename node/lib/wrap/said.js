'use strict';
// What is said in a request and its answer, in one form for all vendors. What the SDKs hold is read,
// and never changed.

const { createHash } = require('node:crypto');

/** Names that are longer are left out. */
const NAME_BYTES_MAX = 1024;

/** A member of an object, or of a member of it; `undefined` if there is none. */
function get(value, ...path) {
  for (const name of path) value = value?.[name];
  return value ?? undefined;
}

/** The value if it is a text; otherwise an empty one. */
const text = (value) => (typeof value === 'string' ? value : '');

/** The value if it is a list; otherwise an empty one. */
const listed = (value) => (Array.isArray(value) ? value : []);

/** The value if it is a count; otherwise 0. */
const number = (value) => (Number.isSafeInteger(value) && value > 0 ? value : 0);

/** The value as JSON has it. Members that are not set are left out. */
function plain(value) {
  const json = JSON.stringify(value, (name, it) => {
    if (typeof it === 'bigint') return it.toString();
    return it === null && name !== '' && !/^\d+$/.test(name) ? undefined : it;
  });
  return json === undefined ? undefined : JSON.parse(json);
}

/** A text as it is, another value as JSON. */
function shown(value) {
  if (typeof value === 'string') return value;
  return value === undefined || value === null ? '' : JSON.stringify(plain(value));
}

/** Whether a text is JSON. */
function isJson(value) {
  try {
    JSON.parse(value);
    return true;
  } catch {
    return false;
  }
}

/** Texts as one. */
const joined = (texts) => texts.filter(Boolean).join('\n\n');

/** A tool call that a model asked for. `args`: a text with JSON, or a value. */
const call = (id, name, args) => ({ id, name, args, outcome: undefined, status: 'requested' });

/** A message, or one of the tool results that a message has. */
class Said {
  constructor(role, texts = []) {
    this.role = role;
    this.texts = texts;
    this.reasoning = [];
    this.calls = [];
    /** The call whose result this is. */
    this.answers = undefined;
    /** Whether the tool failed. */
    this.isFailure = false;
    /** The types of parts that are not stored, such as images. */
    this.others = [];
  }

  /** The content of the turn. */
  content() {
    return joined([...this.texts, ...this.calls.map(mention)]) || this.types();
  }

  /** The fields of the message that say what was said. */
  fields() {
    if (this.answers !== undefined) {
      return { content: '', tool_call_id: this.answers, tool_result: joined(this.texts) || this.types() };
    }
    const [first, ...others] = this.calls;
    const fields = { content: joined([...this.texts, ...others.map(mention)]) };
    if (first !== undefined) {
      Object.assign(fields, { tool_name: first.name, tool_call_id: first.id, tool_args: first.args });
    } else if (fields.content === '') {
      fields.content = this.types();
    }
    const reasoning = joined(this.reasoning);
    if (reasoning !== '') fields.reasoning = reasoning;
    return fields;
  }

  types() {
    return joined([...new Set(this.others)].map((it) => `[${it}]`));
  }
}

const mention = (it) => `[tool_use ${it.name} ${it.id}]`;

/**
 * The key of a message after another one. It depends on what was said alone, so that the same history
 * has the same keys in each request.
 */
function keyAfter(before, role, fields) {
  const said = createHash('sha256').update(before);
  for (const name of ['content', 'tool_call_id', 'tool_result']) {
    const part = String(fields[name] ?? '').trim();
    said.update(`${Buffer.byteLength(part)}:`).update(part);
  }
  return said.update(role).digest('hex');
}

/** The token fields of an answer. `total` includes the cached ones. A part that is 0 is left out. */
function tokens(total, out, { read = 0, write = 0, write1h = 0, reasoning = 0 } = {}) {
  const written = Math.min(write, total);
  const parts = {
    tokens_cache_write: written,
    tokens_cache_write_1h: Math.min(write1h, written),
    tokens_cache_read: Math.min(read, total - written),
    tokens_reasoning: Math.min(reasoning, out),
  };
  const some = Object.entries(parts).filter(([, count]) => count > 0);
  return { tokens_in: total, tokens_out: out, ...Object.fromEntries(some) };
}

/** A request to a model. `what`: its kind, by which its answer is read. `after`: what it continues. */
const asked = (what, said, model, after = '') => ({ what, said, model, after });

/** The answer of a model. */
const answer = (choices = [], model = '', id = '') => ({
  choices,
  model,
  id,
  tokens: {},
  metadata: {},
  error: undefined,
});

module.exports = {
  NAME_BYTES_MAX,
  Said,
  answer,
  asked,
  call,
  get,
  isJson,
  joined,
  keyAfter,
  listed,
  number,
  plain,
  shown,
  text,
  tokens,
};
