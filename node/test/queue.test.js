'use strict';
// The queue of `recordAsync`: order, ends, and getters that record.

const assert = require('node:assert/strict');
const crypto = require('node:crypto');
const path = require('node:path');
const { test } = require('node:test');
const { openCount } = require('../lib/exit.js');
const { open } = require('..');
const { directory, opened, script } = require('./support.js');

const event = (type, payload) => ({ kind: 'events', event_type: type, payload });

/** Keeps all threads of libuv busy. */
function busy() {
  for (let n = 0; n < 8; n++) crypto.pbkdf2('a', 'b', 300_000, 64, 'sha512', () => {});
}

const nextTurn = () => new Promise((resolve) => setImmediate(resolve));

for (const how of ['close', 'closeAsync']) {
  test(`${how} records the batch that waits for a thread first`, async (t) => {
    const log = opened(t);
    busy();
    const id = crypto.randomUUID();
    const sent = [log.recordAsync({ kind: 'conversations', id, client: 'cli' })];
    await nextTurn();
    sent.push(log.recordAsync({ kind: 'messages', conversation_id: id, role: 'user', content: 'hi' }));
    await log[how]();
    assert.deepEqual((await Promise.all(sent)).map((it) => it.seq), [1, 2]);
  });
}

test('a batch that a thread records is waited for', async (t) => {
  const where = path.join(directory(t), 'log');
  const log = open(where);
  const sent = [];
  for (let n = 0; n < 5_000; n++) sent.push(log.recordAsync(event('a.first', n)));
  await nextTurn();
  for (let n = 0; n < 10; n++) sent.push(log.recordAsync(event('a.last', n)));
  log.close();
  assert.deepEqual((await Promise.all(sent)).map((it) => it.id), sent.map((_, n) => n + 1));
});

test('nothing is lost at exit while all threads are busy', async (t) => {
  const where = path.join(directory(t), 'log');
  const { code, out, err } = await script(
    `const crypto = require('crypto');
     const log = decklog.open(process.argv[1]);
     for (let n = 0; n < 8; n++) crypto.pbkdf2('a', 'b', 300000, 64, 'sha512', () => {});
     const id = crypto.randomUUID();
     log.recordAsync({ kind: 'conversations', id, client: 'cli' });
     setImmediate(() => {
       log.recordAsync({ kind: 'messages', conversation_id: id, role: 'user', content: 'hi' });
       process.exit(0);
     });`,
    where,
  ).ended;
  assert.deepEqual([code, out, err], [0, '', '']);
  const log = open(where);
  assert.equal(log.messages().first().content, 'hi');
  log.close();
});

test('a getter and toJSON may record in the same queue', async (t) => {
  const log = opened(t);
  const sent = [];
  const nested = (n) => ({
    toJSON() {
      if (n > 0) sent.push(log.recordAsync(event('a.inner', nested(n - 1))));
      return n;
    },
  });
  sent.push(log.recordAsync(event('a.before', 0)));
  sent.push(log.recordAsync({ kind: 'events', event_type: 'a.outer', get payload() { return nested(3); } }));
  sent.push(log.recordAsync({ kind: 'events', event_type: 'a.bad', get payload() { sent.push(log.recordAsync(event('a.other', 9))); return NaN; } }).catch((error) => error));
  sent.push(log.recordAsync(event('a.after', 4)));
  const results = await Promise.all(sent);
  assert.equal(results.filter((it) => it.field === 'payload').length, 1);
  assert.deepEqual(
    [...log.events()].map((it) => `${it.event_type} ${it.payload}`),
    ['a.before 0', 'a.inner 0', 'a.inner 1', 'a.inner 2', 'a.outer 3', 'a.other 9', 'a.after 4'],
  );
});

test('what was collected is not kept for the exit', async (t) => {
  const where = path.join(directory(t), 'log');
  const { out, err } = await script(
    `const { openCount } = require(${JSON.stringify(require.resolve('../lib/exit.js'))});
     const log = decklog.open(process.argv[1]);
     async function main() {
       for (let n = 0; n < 50; n++) log.capture();
       const before = openCount();
       for (let n = 0; n < 50 && openCount() > 5; n++) {
         gc();
         await new Promise((resolve) => setTimeout(resolve, 10));
       }
       console.log(before, openCount() <= 5);
     }
     main();`,
    where,
  ).ended;
  assert.deepEqual([out.trim(), err], ['50 true', '']);
  const count = openCount();
  const log = opened(t);
  await log.recordAsync(event('a.b'));
  log.capture().close();
  log.close();
  assert.equal(openCount(), count);
});
