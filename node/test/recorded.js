'use strict';
// What wrapped clients do and what the log has of it.

const assert = require('node:assert/strict');
const fake = require('./fake.js');
const { opened } = require('./support.js');
const { wrap } = require('..');

/** What the log has. */
const said = (log) => [...log.messages()].map((it) => [it.role, it.content]);
/** The last message. Two may have the same time, but not the same place in their conversation. */
function last(log) {
  const { conversation_id } = log.messages({ order: 'desc' }).first();
  return log.messages({ conversation_id }).toArray().at(-1);
}
const tokens = ({ tokens_in, tokens_out, tokens_cache_read, tokens_cache_write, tokens_reasoning }) =>
  [tokens_in, tokens_out, tokens_cache_read, tokens_cache_write, tokens_reasoning];

/** What an action gives: its result, or the chunks of a stream, or its error. */
async function outcome(action, client) {
  try {
    const result = await action(client);
    if (typeof result?.[Symbol.asyncIterator] !== 'function') return { result };
    const chunks = [];
    for await (const it of result) chunks.push(it);
    return { chunks };
  } catch (error) {
    return { error: [error.constructor.name, error.message, error.status] };
  }
}

/** Checks that an action gives the same with and without `wrap`. Returns the log. */
async function same(t, make, action, ...replies) {
  const plain = await fake.start(t, structuredClone(replies));
  const expected = await outcome(action, make(plain.url));
  const server = await fake.start(t, structuredClone(replies));
  const { log, capture, lost } = into(t);
  const client = make(server.url);
  assert.equal(wrap(client, { log, capture, onError: (...what) => lost.push(what) }), client);
  const found = await outcome(action, client);
  assert.deepEqual(JSON.parse(JSON.stringify(found)), JSON.parse(JSON.stringify(expected)));
  assert.deepEqual(server.requests, plain.requests);
  await capture.flush();
  assert.deepEqual(lost, []);
  return log;
}

/** A log with a capture. */
function into(t) {
  const log = opened(t);
  const lost = [];
  const capture = log.capture({ onError: (...what) => lost.push(what) });
  t.after(() => capture.close());
  return { log, capture, lost };
}

module.exports = { into, last, said, same, tokens };
