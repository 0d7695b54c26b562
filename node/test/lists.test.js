'use strict';
// Lists are read page by page, by both kinds of loops.

const assert = require('node:assert/strict');
const { test } = require('node:test');
const { InvalidInputError } = require('..');
const { opened } = require('./support.js');

const COUNT = 1_203;

function filled(t) {
  const log = opened(t);
  log.recordBatch(Array.from({ length: COUNT }, (_, at) => ({ event_type: at % 2 ? 'x.odd' : 'x.even', payload: at })), { kind: 'events' });
  return log;
}

test('all pages are read', async (t) => {
  const log = filled(t);
  let expected = 0;
  for (const event of log.events()) assert.equal(event.payload, expected++);
  assert.equal(expected, COUNT);
  for await (const event of log.events({ order: 'desc' })) assert.equal(event.payload, --expected);
  assert.equal(expected, 0);
});

test('a list may be read again, and its limit holds', (t) => {
  const log = filled(t);
  const list = log.events({ event_type: 'x.odd', limit: 700 });
  assert.equal(list.toArray().length, 601);
  assert.equal(list.toArray().length, 601);
  assert.equal([...log.events({ limit: 502 })].length, 502);
  assert.equal(log.events().first().payload, 0);
});

test('a loop may end early', async (t) => {
  const log = filled(t);
  for (const event of log.events()) if (event.payload === 3) break;
  for await (const event of log.events()) if (event.payload === 3) break;
});

test('the event loop goes on while a list is read', async (t) => {
  const log = filled(t);
  let ticks = 0;
  const timer = setInterval(() => ticks++, 0);
  let count = 0;
  for (let round = 0; round < 20; round++) for await (const _ of log.events()) count++;
  clearInterval(timer);
  assert.equal(count, 20 * COUNT);
  assert.ok(ticks > 0);
});

test('an unknown or invalid argument is refused at once', (t) => {
  const log = opened(t);
  assert.throws(() => log.toolCalls({ staus: 'failed' }), InvalidInputError);
  assert.throws(() => log.toolCalls({ status: 'lost' }), { field: 'status' });
  assert.throws(() => log.events({ since: 'the other day' }), { field: 'since' });
  assert.throws(() => log.events({ limit: -1 }), { field: 'limit' });
});

test('every kind has its list', (t) => {
  const log = opened(t);
  for (const name of ['turns', 'toolCalls', 'proposals', 'conversations', 'messages', 'events', 'tasks', 'historyEntries', 'thoughtRecords', 'rollups']) {
    assert.deepEqual(log[name]().toArray(), [], name);
  }
});
