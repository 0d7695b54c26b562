'use strict';
// Recording on another thread, and without waiting.

const assert = require('node:assert/strict');
const { test } = require('node:test');
const { BatchError, ClosedError, InvalidInputError, QueueFullError } = require('..');
const { opened } = require('./support.js');

const event = (n) => ({ kind: 'events', event_type: 'a.b', payload: n });

test('records are recorded in order', async (t) => {
  const log = opened(t);
  const acks = await Promise.all(Array.from({ length: 1000 }, (_, n) => log.recordAsync(event(n))));
  assert.deepEqual(acks.map((it) => it.id), Array.from({ length: 1000 }, (_, n) => n + 1));
  assert.deepEqual([...log.events()].map((it) => it.payload), Array.from({ length: 1000 }, (_, n) => n));
});

test('each has its own answer', async (t) => {
  const log = opened(t);
  const results = await Promise.allSettled([
    log.recordAsync(event(1)),
    log.recordAsync({ kind: 'events' }),
    log.recordAsync({ kind: 'events', event_type: '\ud800' }),
    log.recordAsync({ event_type: 'c.d' }, { kind: 'events' }),
  ]);
  assert.deepEqual(results.map((it) => it.status), ['fulfilled', 'rejected', 'rejected', 'fulfilled']);
  assert.ok(results[1].reason instanceof InvalidInputError);
  assert.equal(results[1].reason.field, 'event_type');
  assert.equal(results[3].value.id, 2);
});

test('what changes after the call is not recorded', async (t) => {
  const log = opened(t);
  const payload = { n: 1 };
  const recorded = log.recordAsync({ kind: 'events', event_type: 'a.b', payload });
  payload.n = 2;
  await recorded;
  assert.deepEqual(log.getEvent(1).payload, { n: 1 });
});

test('batches', async (t) => {
  const log = opened(t);
  assert.equal((await log.recordBatchAsync([event(1), event(2)])).length, 2);
  await assert.rejects(log.recordBatchAsync([event(3), {}, 5]), (error) => error instanceof BatchError && error.results[0].id === 3);
  await assert.rejects(log.recordAllAsync([event(4), {}]), InvalidInputError);
  assert.equal((await log.recordAllAsync([event(4)]))[0].id, 4);
  await log.syncAsync();
});

test('closing records what was not sent', async (t) => {
  const log = opened(t);
  const all = [log.recordAsync(event(1)), log.recordAsync(event(2))];
  await log.closeAsync();
  assert.deepEqual((await Promise.all(all)).map((it) => it.id), [1, 2]);
  await assert.rejects(log.recordAsync(event(3)), ClosedError);
});

test('a capture tells what it lost', async (t) => {
  const log = opened(t);
  const lost = [];
  const capture = log.capture({ onError: (...what) => lost.push(what) });
  assert.equal(capture.record(event(1)), undefined);
  assert.match(capture.record({ kind: 'user', content: 'hi' }), /^[0-9a-f-]{36}$/);
  assert.throws(() => capture.record({ kind: 'events' }), InvalidInputError);
  const id = '67e55044-10b1-426f-9247-bb680e5fe0c8';
  capture.record({ kind: 'messages', conversation_id: id, role: 'user', content: 'no such conversation' });
  await assert.rejects(capture.flush(), { kind: 'not_found' });
  await capture.flush();
  await new Promise((resolve) => setTimeout(resolve, 20));
  assert.deepEqual(lost.map(([error, kind]) => [error.kind, kind]), [['not_found', 'messages']]);
  assert.equal(capture.lastError().kind, 'not_found');
  const { accepted, written } = capture.stats();
  assert.deepEqual([accepted, written], [3, 2]);
  capture.request({ id, client: 'api' }, [{ conversation_id: id, role: 'user', content: 'hi' }]);
  capture.flushSync();
  assert.equal(log.getConversation(id).message_count, 1);
  capture.close();
  assert.throws(() => capture.stats(), ClosedError);
});

test('a full queue refuses', (t) => {
  const log = opened(t);
  const capture = log.capture({ queueRecordsMax: 10 });
  assert.throws(() => {
    for (let n = 0; n < 100_000; n++) capture.record(event('x'.repeat(1000)));
  }, QueueFullError);
  capture.close();
  assert.throws(() => log.capture({ whenFull: 'never' }), { field: 'whenFull' });
});
