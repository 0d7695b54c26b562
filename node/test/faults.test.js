'use strict';
// Arguments are checked, and what is closed stays closed.

const assert = require('node:assert/strict');
const { spawn, spawnSync } = require('node:child_process');
const path = require('node:path');
const { test } = require('node:test');
const { ClosedError, InvalidInputError, open } = require('..');
const { directory, opened } = require('./support.js');

test('after close, everything of the log throws ClosedError', async (t) => {
  for (const how of ['close', 'closeAsync']) {
    const log = opened(t);
    const run = log.run();
    const turn = log.turn('user', 'hi');
    const call = turn.toolCall('ls', {});
    const { inbox, thoughts } = log;
    const task = inbox.enqueue(1, {}) && inbox.claim();
    log.recordBatch([{ event_type: 'a.b' }, { event_type: 'a.b' }], { kind: 'events' });
    const talk = log.conversation();
    const list = log.events();
    const reading = log.events()[Symbol.iterator]();
    const readingAsync = log.events()[Symbol.asyncIterator]();
    reading.next();
    await readingAsync.next();
    const tool = log.tool('tool', () => 1);
    await log[how]();
    for (const work of [
      () => log.turn('user', 'hi'),
      () => log.toolCall('ls', {}),
      () => log.run(),
      () => log.inbox,
      () => log.thoughts,
      () => log.record({ kind: 'events', event_type: 'a.b' }),
      () => log.recordBatch([]),
      () => run.turn('user', 'hi'),
      () => run.user('hi'),
      () => run.toolCall('ls', {}),
      () => run.within(() => log.turn('user', 'hi')),
      () => turn.toolCall('ls', {}),
      () => call.done(1),
      () => call.failed('x'),
      () => inbox.enqueue(2, {}),
      () => inbox.claim(),
      () => inbox.done(task),
      () => inbox.counts(),
      () => inbox.attemptsMax(3).claim(),
      () => thoughts.create('plan', { task_id: 't', agent_id: 'a', content: 'c' }),
      () => thoughts.verifyChain('t'),
      () => talk.user('hi'),
      () => list.toArray(),
      () => list.first(),
      () => reading.next(),
      tool,
    ]) {
      assert.throws(work, ClosedError, String(work));
    }
    await assert.rejects(readingAsync.next(), ClosedError);
    await assert.rejects(log.recordAsync({ kind: 'events', event_type: 'a.b' }), ClosedError);
    call[Symbol.dispose]();
  }
});

test('options of the wrong type or size are refused by name', (t) => {
  const log = opened(t);
  const where = path.join(directory(t), 'log');
  for (const [field, values, work] of [
    ['lockTimeoutMs', ['5', -1, NaN, Infinity, {}], (it) => open(where, { lockTimeoutMs: it })],
    ['readOnly', ['yes', 1], (it) => open(where, { readOnly: it })],
    ['create', ['no', 0], (it) => open(where, { create: it })],
    ['attempts', ['3', -1, 1.5, NaN, 2 ** 32, undefined], (it) => log.inbox.attemptsMax(it)],
    ['timeoutMs', ['3', -1, NaN, undefined], (it) => log.inbox.releaseStale(it)],
    ['queueRecordsMax', ['3', -1, 1.5, NaN], (it) => log.capture({ queueRecordsMax: it })],
    ['queueBytesMax', ['3', -1, 1.5, NaN], (it) => log.capture({ queueBytesMax: it })],
    ['drainTimeoutMs', ['3', -1, NaN], (it) => log.capture({ drainTimeoutMs: it })],
    ['onError', ['3', {}], (it) => log.capture({ onError: it })],
    ['limit', ['3', -1, 1.5, NaN], (it) => log.search('x', { limit: it })],
    ['through', [{}, log], (it) => log.run('x', { through: it })],
    ['threadId', [5, 'no uuid'], (it) => log.run('x', { threadId: it })],
  ]) {
    for (const value of values) {
      assert.throws(() => work(value), (error) => error instanceof InvalidInputError && error.field === field, `${field} ${String(value)}`);
    }
  }
});

test('an undefined field changes nothing', (t) => {
  const log = opened(t);
  const talk = log.conversation({ title: 'Lengths', client: undefined });
  talk.update({ title: undefined, session_id: 's' });
  assert.deepEqual([talk.get().title, talk.get().session_id], ['Lengths', 's']);
  talk.user('hi', { role: undefined, content: undefined });
  assert.equal(talk.messages().first().content, 'hi');
});

test('what an iterator gave before it raised is recorded', async (t) => {
  const log = opened(t);
  const thrown = new Error('on purpose');
  function* raising() {
    yield { event_type: 'a.b' };
    yield { event_type: 5 };
    yield { event_type: 'c.d' };
    throw thrown;
  }
  const isSame = (error) => error === thrown;
  const types = () => [...log.events()].map((it) => it.event_type);
  assert.throws(() => log.recordBatch(raising(), { kind: 'events' }), isSame);
  assert.deepEqual(types(), ['a.b', 'c.d']);
  await assert.rejects(log.recordBatchAsync(raising(), { kind: 'events' }), isSame);
  assert.deepEqual(types(), ['a.b', 'c.d', 'a.b', 'c.d']);
  assert.throws(() => log.recordAll(raising(), { kind: 'events' }), isSame);
  assert.equal(types().length, 4);
});

test('texts of calls are stored as those of records are', (t) => {
  const log = opened(t);
  for (const text of ['plain', '"plain"', '{"a":1}', '[1', '12', 'null', '']) {
    const call = log.toolCall('s', text, { callId: 'c' });
    call.done(text);
    const made = log.getToolCall(call.turnId, 'c');
    assert.deepEqual(made.arguments_json, made.outcome_json, text);
    const { id } = log.turn('assistant', '');
    const record = { kind: 'tool_calls', op: 'requested', request_id: id, parent_id: id, call_id: 'c', vendor: 'v', tool_name: 's', arguments_json: text };
    log.record(record);
    assert.deepEqual(log.getToolCall(id, 'c').arguments_json, made.arguments_json, text);
  }
});

test('an outcome that is too long is refused, and another one may follow', (t) => {
  const log = opened(t);
  const call = log.toolCall('ls', {});
  assert.throws(() => call.done('\u0001'.repeat(3 << 20)), { name: 'InvalidInputError', field: 'outcome_json' });
  assert.throws(() => call.done(['x'.repeat(17 << 20)]), { name: 'InvalidInputError', field: 'outcome_json' });
  assert.equal(call.isEnded, false);
  const numbers = Array.from({ length: 2 << 20 }, () => 1);
  call.done(numbers);
  assert.equal(log.getToolCall(call.turnId, call.callId).outcome_json.length, numbers.length);
});

test('unknown options are rejected', (t) => {
  const log = opened(t);
  for (const [field, work] of [
    ['read_only', () => open(log.path, { read_only: true })],
    ['when_full', () => log.capture({ when_full: 'wait' })],
    ['thread_id', () => log.run('x', { thread_id: 'a' })],
    ['call_id', () => log.toolCall('x', {}, { call_id: 'c' })],
    ['toolCall', () => log.toolCall('x', {}, 'c')],
    ['kinds', () => log.record({ event_type: 'a.b' }, { kinds: 'events' })],
    ['options', () => log.record({ event_type: 'a.b' }, 'events')],
    ['asOf', () => log.getTurn('67e55044-10b1-426f-9247-bb680e5fe0c8', { asOf: 0 })],
    ['path', () => open('')],
    ['task', () => log.inbox.done(log.inbox.claim())],
    ['id', () => log.getConversation('ticket-7')],
  ]) {
    assert.throws(work, (error) => error instanceof InvalidInputError && error.field === field, field);
  }
});

test('calls without an outcome are abandoned at exit', (t) => {
  const log = opened(t);
  for (const end of ['process.exit(0)', 'setTimeout(() => { throw 1; }, 1)', "process.once('SIGTERM', () => process.exit()).kill(process.pid, 'SIGTERM')"]) {
    const program = `
      const { open } = require(${JSON.stringify(require.resolve('..'))});
      const log = open(${JSON.stringify(log.path)});
      const capture = log.capture();
      globalThis.kept = [log.toolCall('direct', {}), log.run('x', { through: capture }).toolCall('queued', {})];
      log.toolCall('ended', {}).done(1);
      setTimeout(() => {}, 10_000);
      ${end};`;
    spawnSync(process.execPath, ['-e', program]);
    const calls = log.toolCalls({ order: 'desc', limit: 3 }).toArray();
    const told = calls.map((it) => [it.tool_name, it.status, it.error_kind]).sort();
    assert.deepEqual(told, [['direct', 'failed', 'abandoned'], ['ended', 'completed', undefined], ['queued', 'failed', 'abandoned']], end);
  }
});

const hasFlock = spawnSync('flock', ['--version']).status === 0;

test('a batch that fails midway has an outcome for each record', { skip: hasFlock ? false : 'without flock' }, (t) => {
  const log = open(path.join(directory(t), 'log'), { lockTimeoutMs: 50 });
  t.after(() => log.close());
  function* records() {
    for (let n = 0; n < 2000; n++) {
      if (n === 640) {
        t.after(() => holder.kill());
        const holder = spawn('flock', [path.join(log.path, 'LOCK'), 'sleep', '5']);
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 500);
      }
      yield { event_type: n % 10 ? 'a.b' : 5 };
    }
  }
  assert.throws(() => log.recordBatch(records(), { kind: 'events' }), (error) => {
    const told = error.results.map((it) => it?.status ?? it?.kind);
    const locked = told.indexOf('locked');
    assert.ok(locked >= 64 && told.length >= 700 && told.length <= 2000, `${locked} of ${told.length}`);
    told.forEach((it, n) => assert.equal(it, n % 10 === 0 ? 'invalid_input' : n < locked ? 'added' : 'locked', `record ${n}`));
    return true;
  });
});
