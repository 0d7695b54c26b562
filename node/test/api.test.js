'use strict';
// The API, from opening a log to closing it.

const assert = require('node:assert/strict');
const path = require('node:path');
const { pathToFileURL } = require('node:url');
const { test } = require('node:test');
const decklog = require('..');
const { directory, opened } = require('./support.js');

const ID = '67e55044-10b1-426f-9247-bb680e5fe0c8';

test('a record is acknowledged, and read again', (t) => {
  const log = opened(t);
  const ack = log.record({ kind: 'events', event_type: 'worker.spawned', payload: { pid: 1 } });
  assert.deepEqual({ ...ack }, { seq: 1, status: 'added', id: 1, sequence: undefined, warning: undefined });
  const event = log.getEvent(1);
  assert.equal(event.event_type, 'worker.spawned');
  assert.deepEqual(event.payload, { pid: 1 });
  assert.equal(log.getEvent(2), undefined);
});

test('the kind may be given beside the record', (t) => {
  const log = opened(t);
  assert.equal(log.record({ event_type: 'a.b' }, { kind: 'events' }).id, 1);
  assert.throws(() => log.record({ event_type: 'a.b' }, { kind: 'nope' }), { field: 'kind' });
});

test('the same record again is unchanged, another one a conflict', (t) => {
  const log = opened(t);
  const message = { id: ID, conversation_id: log.conversation().id, role: 'user', content: 'hi' };
  assert.equal(log.record(message, { kind: 'messages' }).status, 'added');
  const again = log.record(message, { kind: 'messages' });
  assert.deepEqual([again.status, again.id], ['unchanged', ID]);
  assert.throws(
    () => log.record({ ...message, content: 'ho' }, { kind: 'messages' }),
    (error) => error instanceof decklog.ConflictError && error.kind === 'conflict' && error.key.includes(ID),
  );
});

test('a time in seconds is a warning', (t) => {
  const ack = opened(t).record({ kind: 'events', event_type: 'a.b', created_at: 1766832 });
  assert.equal(typeof ack.warning, 'string');
});

test('a batch is recorded in order, and what is rejected is told', (t) => {
  const log = opened(t);
  assert.deepEqual(log.recordBatch([{ event_type: 'a.b' }, { event_type: 'c.d' }], { kind: 'events' }).map((it) => it.id), [1, 2]);
  assert.throws(
    () => log.recordBatch([{ event_type: 'e.f' }, {}, { event_type: '\ud800' }, { event_type: 'g.h' }], { kind: 'events' }),
    (error) => {
      assert.ok(error instanceof decklog.BatchError);
      assert.deepEqual(error.results.map((it) => it.id ?? it.kind), [3, 'invalid_input', 'invalid_input', 4]);
      return true;
    },
  );
  assert.deepEqual([...log.events()].map((it) => it.event_type), ['a.b', 'c.d', 'e.f', 'g.h']);
});

test('a long batch is in order, and so are its answers', (t) => {
  const log = opened(t);
  const records = Array.from({ length: 1000 }, (_, n) => ({ event_type: n % 7 ? 'a.b' : 5, payload: n }));
  const valid = records.filter((it) => it.event_type !== 5).map((it) => it.payload);
  assert.throws(
    () => log.recordBatch(records, { kind: 'events' }),
    (error) => {
      const added = error.results.flatMap((it, n) => (it.status === 'added' ? [n] : []));
      assert.deepEqual(added, valid);
      assert.deepEqual(added.map((n) => error.results[n].id), valid.map((_, at) => at + 1));
      return true;
    },
  );
  assert.deepEqual([...log.events()].map((it) => it.payload), valid);
  assert.deepEqual(log.recordBatch([]), []);
});

test('all are recorded or none', (t) => {
  const log = opened(t);
  assert.throws(() => log.recordAll([{ event_type: 'a.b' }, { event_type: 5 }], { kind: 'events' }), { field: 'event_type' });
  assert.equal(log.events().first(), undefined);
  assert.equal(log.recordAll([{ event_type: 'a.b' }], { kind: 'events' }).length, 1);
});

test('a turn and its tool calls are recorded', (t) => {
  const log = opened(t);
  const turn = log.turn('user', 'How long is main.rs?');
  const call = log.toolCall('count_lines', { path: 'main.rs' }, { callId: 'c1' });
  assert.deepEqual([call.callId, call.turnId, call.isEnded], ['c1', turn.id, false]);
  call.done(12);
  assert.throws(() => call.done(13), decklog.LifecycleError);
  const read = log.getToolCall(turn.id, 'c1');
  assert.deepEqual([read.status, read.outcome_json, read.arguments_json], ['completed', 12, { path: 'main.rs' }]);
  log.toolCall('rm', {}).failed('denied', 'no');
  assert.deepEqual(log.toolCalls({ status: 'failed' }).first().error_kind, 'denied');
});

test('a tool call with a function records what it returns or throws', async (t) => {
  const log = opened(t);
  assert.equal(log.toolCall('sync', {}, () => 1), 1);
  assert.equal(await log.toolCall('async', {}, async () => 2), 2);
  const thrown = new TypeError('bad');
  await assert.rejects(log.toolCall('fails', {}, async () => { throw thrown; }), (error) => error === thrown);
  assert.throws(() => log.toolCall('throws', {}, () => { throw thrown; }), (error) => error === thrown);
  await log.toolCall('itself', {}, async (call) => { call.done('own'); return 3; });
  const calls = log.toolCalls({ order: 'asc' }).toArray();
  const byName = Object.fromEntries(calls.map((it) => [it.tool_name, it]));
  assert.deepEqual([byName.sync.outcome_json, byName.async.outcome_json, byName.itself.outcome_json], [1, 2, 'own']);
  assert.deepEqual([byName.fails.error_kind, byName.fails.error_msg], ['TypeError', 'bad']);
  assert.equal(byName.throws.status, 'failed');
});

test('a function is wrapped, and its calls are recorded', async (t) => {
  const log = opened(t);
  const double = log.tool(function double({ number }) { return number * 2; });
  assert.deepEqual([double({ number: 4 }), double.name, double.length], [8, 'double', 1]);
  const add = log.tool('add', async (a, b) => a + b);
  assert.equal(await add(1, 2), 3);
  const odd = log.tool('odd', () => new Uint8Array(2));
  odd();
  const calls = Object.fromEntries([...log.toolCalls()].map((it) => [it.tool_name, it]));
  assert.deepEqual([calls.double.arguments_json, calls.double.outcome_json], [{ number: 4 }, 8]);
  assert.deepEqual([calls.add.arguments_json, calls.add.outcome_json], [[1, 2], 3]);
  assert.equal(typeof calls.odd.outcome_json, 'string');
});

test('within a run, the log records in it', async (t) => {
  const log = opened(t);
  const run = log.run('anthropic', { conversation: { client: 'cli', title: 'Lengths' } });
  await run.within(async () => {
    log.turn('user', 'hi');
    await null;
    log.toolCall('ls', {}).done();
  });
  assert.equal(log.turns({ thread_id: run.threadId }).first().content, 'hi');
  assert.equal(log.toolCalls().first().vendor, 'anthropic');
  assert.equal(log.messages().first().content, 'hi');
  const again = log.run('anthropic', { threadId: run.threadId });
  again.assistant('ho');
  assert.equal(log.turns({ thread_id: run.threadId }).toArray().length, 2);
});

test('a run through a capture never waits', async (t) => {
  const log = opened(t);
  const capture = log.capture();
  const run = log.run('openai', { through: capture });
  run.user('hi').toolCall('ls', {}).done('a.txt');
  await capture.flush();
  assert.equal(log.toolCalls().first().outcome_json, 'a.txt');
  capture.close();
});

test('a conversation has its messages and totals', (t) => {
  const log = opened(t);
  const talk = log.conversation({ title: 'Lengths' });
  assert.equal(talk.user('How long is main.rs?').sequence, 1);
  assert.equal(talk.assistant([{ type: 'text', text: '12' }], { tokens_out: 4 }).sequence, 2);
  assert.equal(talk.get().total_tokens_out, 4);
  assert.equal(talk.update({ title: 'Other' }).title, 'Other');
  assert.throws(() => talk.update({ id: log.conversation().id }), (error) => error.field === 'id');
  assert.equal(talk.get().title, 'Other');
  assert.deepEqual([...talk.messages({ role: 'user' })].map((it) => it.content), ['How long is main.rs?']);
  assert.equal(log.conversation(talk.id).get().title, 'Other');
});

test('a task is held by one worker at a time', (t) => {
  const log = opened(t);
  log.inbox.enqueue(7001, { text: 'deploy' });
  log.inbox.enqueueMessage(7002, { chat_id: 5, text: 'hi', date: 1766832000 });
  const task = log.inbox.claim();
  assert.deepEqual(task.payload, { text: 'deploy' });
  log.inbox.done(task);
  const other = log.inbox.attemptsMax(1).claim();
  assert.equal(log.inbox.attemptsMax(1).retry(other, 'no'), 'failed');
  assert.equal(log.inbox.claim(), undefined);
  assert.deepEqual(log.inbox.counts(), { queued: 0, in_progress: 0, done: 1, failed: 1 });
  assert.equal(log.inbox.telegramOffset(), 7003);
  assert.equal(log.inbox.get(task.id).status, 'done');
  assert.deepEqual(log.inbox.releaseStale(0), []);
});

test('thoughts are chained', (t) => {
  const log = opened(t);
  const first = log.thoughts.create('plan', { task_id: 't1', agent_id: 'a1', content: 'Read first.' });
  const second = log.thoughts.create('decision', { task_id: 't1', agent_id: 'a1', content: 'Go.', timestamp: new Date() });
  assert.equal(second.prev_hash, first.hash);
  assert.equal(log.thoughts.verifyChain('t1').isIntact, true);
  assert.equal(log.thoughts.list('t1').length, 2);
  assert.equal(log.thoughts.get(first.id).content, 'Read first.');
});

test('trees, search, history and retractions', async (t) => {
  const log = opened(t);
  const parent = log.logEvent('job.started', { n: 1 });
  log.logEvent('job.completed', undefined, { parent_id: parent });
  assert.deepEqual(log.eventTree(parent).map((it) => it.depth), [0, 1]);
  assert.equal(log.eventTree(99), undefined);
  const talk = log.conversation();
  talk.user('find the needle');
  assert.equal(log.search('NEEDLE', { kind: 'messages' })[0].field, '/content');
  assert.equal((await log.searchAsync('needle', { since: new Date(0), limit: 1 })).length, 1);
  assert.deepEqual(log.sessionTree(talk.id).map((it) => it.depth), [0, 1]);
  for (const text of ['a', 'b', 'c']) log.record({ kind: 'history', chat_id: 5, role: 'user', text });
  assert.deepEqual(log.history(5, { limit: 2 }).map((it) => it.text), ['b', 'c']);
  const before = new Date();
  const turn = log.turn('user', 'a mistake');
  const at = new Date(log.getTurn(turn.id).created_at + 1);
  assert.equal(log.retract('conversation_turns', turn.id, { at }).status, 'added');
  assert.equal(log.getTurn(turn.id), undefined);
  assert.equal(log.getTurn(turn.id, { as_of: new Date(at.getTime() - 1) }).content, 'a mistake');
  assert.ok(before);
  const call = log.toolCall('ls', {});
  log.retract('tool_calls', call.turnId, call.callId);
  assert.equal(log.getToolCall(call.turnId, call.callId), undefined);
  assert.throws(() => call.done(), decklog.NotFoundError);
});

test('a log is opened in the ways that are asked for', (t) => {
  const where = path.join(directory(t), 'log');
  assert.throws(() => decklog.open(where, { create: false }), decklog.DecklogError);
  const log = decklog.open(pathToFileURL(where), { durability: 'disk', lockTimeoutMs: 500 });
  assert.equal(log.path, where);
  log.sync();
  const reader = decklog.open(where, { readOnly: true });
  assert.throws(() => reader.turn('user', 'hi'), decklog.ReadOnlyError);
  reader.close();
  log.close();
  assert.throws(() => log.turns(), decklog.ClosedError);
  assert.throws(() => decklog.open(where, { durability: 'none' }), { field: 'durability' });
  assert.throws(() => decklog.open(5), { field: 'path' });
  assert.throws(() => decklog.open(path.dirname(__dirname)), decklog.NotAStoreError);
});

test('what is disposed is closed', async (t) => {
  const where = path.join(directory(t), 'log');
  const log = decklog.open(where);
  const capture = log.capture();
  capture.record({ kind: 'events', event_type: 'a.b' });
  await capture[Symbol.asyncDispose]();
  assert.throws(() => capture.record({ kind: 'events', event_type: 'a.b' }), decklog.ClosedError);
  log.toolCall('ls', {})[Symbol.dispose]();
  assert.equal(log.toolCalls().first().error_kind, 'abandoned');
  assert.equal(log.events().toArray().length, 1);
  log[Symbol.dispose]();
  assert.throws(() => log.sync(), decklog.ClosedError);
});

test('both kinds of modules export the same', async () => {
  const module_ = await import('../index.mjs');
  const names = Object.keys(decklog).sort();
  assert.deepEqual(Object.keys(module_).sort(), names);
  assert.equal(module_.open, decklog.open);
  assert.equal(decklog.version, require('../package.json').version);
  assert.equal(decklog.argsSha256({ a: 1, b: 2 }), decklog.argsSha256({ b: 2, a: 1 }));
});
