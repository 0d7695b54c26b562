'use strict';
// Tools do what they do without a log, whatever the log says.

const assert = require('node:assert/strict');
const { test } = require('node:test');
const { opened } = require('./support.js');

const nested = (depth) => Array.from({ length: depth }).reduce((it) => [it], 'x');
const call = (log, name) => log.toolCalls({ tool_name: name }).first();

test('an outcome that the log refuses reaches the caller', async (t) => {
  const log = opened(t);
  const long = 'x'.repeat(17 << 20);
  const hostile = { get a() { throw new Error('getter'); }, [Symbol.for('nodejs.util.inspect.custom')]() { throw new Error('inspect'); } };
  const outcomes = { d63: nested(63), d64: nested(64), d65: nested(65), d99: nested(99), long, lines: [long], hostile, nan: NaN };
  for (const [name, outcome] of Object.entries(outcomes)) {
    assert.equal(log.tool(name, () => outcome)(), outcome);
    assert.equal(log.toolCall(`${name}_call`, {}, () => outcome), outcome);
    assert.equal(await log.tool(`${name}_async`, async () => outcome)(), outcome);
    assert.equal(log.tool(`${name}_given`, () => 1)(outcome), 1);
    for (const end of ['', '_call', '_async', '_given']) assert.equal(call(log, name + end).status, 'completed', name + end);
  }
  assert.deepEqual(call(log, 'd63').outcome_json, nested(63));
  assert.match(call(log, 'd64').outcome_json, /Array/);
  assert.match(call(log, 'long').outcome_json, /^x{10000}…$/);
});

test('a closed log fails no tool that has begun', async (t) => {
  const log = opened(t);
  const told = new Promise((resolve) => process.once('warning', resolve));
  const running = log.toolCall('slow', {}, async () => { log.close(); return 5; });
  assert.equal(await running, 5);
  assert.match((await told).message, /was not recorded/);
});

test('whatever is thrown reaches the caller', async (t) => {
  const log = opened(t);
  const proxy = new Proxy({}, { get() { throw new Error('get'); }, getPrototypeOf() { throw new Error('prototype'); } });
  const long = new Error('x'.repeat(17 << 20));
  long.name = 'N'.repeat(5000);
  const all = [Object.create(null), proxy, undefined, null, Symbol('s'), '\ud800', { message: Symbol('m') }, { message: 'm', get name() { throw 1; } }, long];
  for (const [at, thrown] of all.entries()) {
    const isSame = (error) => error === thrown;
    assert.throws(() => log.toolCall(`sync${at}`, {}, () => { throw thrown; }), isSame);
    // `assert.rejects` reads a property of what is thrown.
    const rejected = await log.tool(`async${at}`, async () => { throw thrown; })().then(() => 'none', (error) => [error]);
    assert.ok(rejected[0] === thrown);
    assert.equal(call(log, `sync${at}`).status, 'failed');
    assert.equal(call(log, `async${at}`).error_kind, call(log, `sync${at}`).error_kind);
  }
  assert.deepEqual([call(log, 'sync0').error_kind, call(log, 'sync0').error_msg], ['object', '[Object: null prototype] {}']);
});

test('a generator is recorded until it ends', (t) => {
  const log = opened(t);
  const made = log.tool('all', function* (n) {
    for (let at = 0; at < n; at++) yield at;
  });
  const all = made(3);
  assert.equal(call(log, 'all').status, 'requested');
  assert.equal(all[Symbol.toStringTag], 'Generator');
  assert.deepEqual([...all], [0, 1, 2]);
  assert.deepEqual([call(log, 'all').arguments_json, call(log, 'all').outcome_json], [[3], [0, 1, 2]]);

  const closed = log.tool('closed', function* () {
    yield 1;
    yield 2;
  })();
  for (const it of closed) if (it === 1) break;
  assert.deepEqual([call(log, 'closed').status, call(log, 'closed').outcome_json], ['completed', [1]]);

  const thrown = new RangeError('bad');
  const failing = log.tool('failing', function* () {
    yield 1;
    throw thrown;
  });
  assert.throws(() => [...failing()], (error) => error === thrown);
  assert.deepEqual([call(log, 'failing').error_kind, call(log, 'failing').error_msg], ['RangeError', 'bad']);

  const item = { n: 1 };
  const talking = log.tool('talking', function* () {
    const told = yield item;
    item.n = 2;
    try {
      yield told;
    } catch (error) {
      return error.message;
    }
    return undefined;
  })();
  assert.equal(talking.next().value, item);
  assert.equal(talking.next('told').value, 'told');
  assert.deepEqual(talking.throw(thrown), { value: 'bad', done: true });
  assert.deepEqual(call(log, 'talking').outcome_json, { yielded: [{ n: 1 }, 'told'], returned: 'bad' });

  assert.equal([...log.tool('many', function* () { for (let at = 0; at < 1003; at++) yield at; })()].length, 1003);
  const { outcome_json: many } = call(log, 'many');
  assert.deepEqual([many.length, many[1000]], [1001, '… 3 more']);
  assert.throws(() => log.tool('defaults', function* (_ = (() => { throw thrown; })()) {})(), (error) => error === thrown);
  assert.equal(call(log, 'defaults').status, 'failed');
});

test('an asynchronous generator is recorded until it ends', async (t) => {
  const log = opened(t);
  const made = (name, n) => log.tool(name, async function* () {
    for (let at = 0; at < n; at++) yield at;
    if (n > 5) throw new RangeError('bad');
  })();
  const found = [];
  for await (const it of made('all', 3)) found.push(it);
  assert.deepEqual([found, call(log, 'all').outcome_json], [[0, 1, 2], [0, 1, 2]]);
  for await (const it of made('closed', 2)) if (it === 0) break;
  assert.deepEqual(call(log, 'closed').outcome_json, [0]);
  await assert.rejects(async () => { for await (const _ of made('failing', 6)); }, RangeError);
  assert.equal(call(log, 'failing').error_kind, 'RangeError');
});

test('a run of another log within does not hide the outer run', (t) => {
  const log = opened(t);
  const other = opened(t);
  const [outer, inner] = [log.run(), log.run()];
  outer.within(() =>
    other.run().within(() => {
      assert.equal(log.getTurn(log.turn('user', 'hi').id).thread_id, outer.threadId);
      inner.within(() => assert.equal(log.getTurn(log.turn('user', 'hi').id).thread_id, inner.threadId));
      other.turn('user', 'other');
    }),
  );
  assert.notEqual(log.getTurn(log.turn('user', 'hi').id).thread_id, outer.threadId);
});

test('a thenable is awaited once, and its value returned', async (t) => {
  const log = opened(t);
  let runs = 0;
  const query = { then(resolve) { runs++; resolve('rows'); } };
  const returned = log.toolCall('query', {}, () => query);
  assert.ok(returned instanceof Promise);
  assert.deepEqual([await returned, await returned, runs], ['rows', 'rows', 1]);
  assert.equal(call(log, 'query').outcome_json, 'rows');
});
