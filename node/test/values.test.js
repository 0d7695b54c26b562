'use strict';
// Values keep what they are, or are refused: nothing is changed silently.

const assert = require('node:assert/strict');
const { test } = require('node:test');
const { InvalidInputError } = require('..');
const { opened } = require('./support.js');

function kept(log, payload) {
  return log.getEvent(log.record({ kind: 'events', event_type: 'a.b', payload }).id).payload;
}

test('values that JSON has are kept', (t) => {
  const log = opened(t);
  for (const value of [
    'text',
    '',
    'h\u00e9 \u4e2d \u{1f600} \u0000 " \\ \n',
    'long '.repeat(500) + '\u00e9',
    5,
    -5,
    2 ** 53 - 1,
    1.5,
    1e-7,
    1e300,
    -(2 ** 64),
    true,
    [],
    {},
    [1, [2, [3, null, 'x']]],
    { a: { b: { c: [{}, '', false] } }, 'a key of many words, longer than most keys are, which is not kept': 1 },
    { '\u00e9': 1, '': 2 },
  ]) {
    assert.deepEqual(kept(log, value), value, JSON.stringify(value));
  }
});

test('values are written as JSON.stringify writes them', (t) => {
  const log = opened(t);
  class Point {
    constructor() {
      this.x = 1;
      this.f = () => 1;
    }
  }
  for (const value of [
    { a: undefined, b: () => 1, c: Symbol('x'), d: 1 },
    [undefined, () => 1],
    new Point(),
    Object.create({ inherited: 1 }, { own: { value: 2, enumerable: true }, hidden: { value: 3 } }),
    { at: new Date(0), url: new URL('http://a/') },
    { toJSON: () => ({ of: 'toJSON' }) },
    [new String('s'), new Number(4), new Boolean(false)],
    { n: -0 },
  ]) {
    assert.deepEqual(kept(log, value), JSON.parse(JSON.stringify(value)));
  }
});

test('maps, sets, errors and great integers have a form, too', (t) => {
  const log = opened(t);
  assert.deepEqual(kept(log, new Map([['a', 1]])), { a: 1 });
  assert.deepEqual(kept(log, { s: new Set([1, 2]) }), { s: [1, 2] });
  assert.deepEqual(kept(log, { e: new TypeError('bad') }), { e: { name: 'TypeError', message: 'bad' } });
  assert.deepEqual(kept(log, { n: 2n ** 60n, s: '1152921504606846976', m: 5n }), { n: 2n ** 60n, s: '1152921504606846976', m: 5 });
  assert.deepEqual(kept(log, [-(2n ** 60n), '\\" 1234567890123456789']), [-(2n ** 60n), '\\" 1234567890123456789']);
});

test('what has no form in JSON is refused', (t) => {
  const log = opened(t);
  const circle = {};
  circle.of = circle;
  for (const value of [NaN, Infinity, 2 ** 53, -(2 ** 60), 2 ** 63, '\ud800', { a: ['\udc00 text that is longer'] }, { '\ud800': 1 }, new Date(NaN), new Uint8Array(2), Buffer.from('a'), new ArrayBuffer(1), circle]) {
    assert.throws(() => kept(log, { value }), (error) => error instanceof InvalidInputError && error.field === 'payload');
  }
  assert.throws(() => log.record({ kind: 'events', event_type: 'a\ud800' }), { field: 'event_type' });
  assert.throws(() => log.turn('user', '\ud800'), { field: 'content' });
  assert.throws(() => log.turn('user', 5), { field: 'content' });
  assert.throws(() => log.getEvent(1.5), { field: 'id' });
  for (const record of [undefined, null, 5, 'x', []]) assert.throws(() => log.record(record), InvalidInputError);
  assert.equal(log.events().first(), undefined);
});

test('a deep value is refused, and one that is less deep is kept', (t) => {
  const log = opened(t);
  const nested = (depth) => Array.from({ length: depth }).reduce((it) => [it], 'x');
  assert.deepEqual(kept(log, nested(60)), nested(60));
  assert.throws(() => kept(log, nested(70)), InvalidInputError);
});

test('dates are times', (t) => {
  const log = opened(t);
  const at = new Date('2026-07-28T12:00:00.123Z');
  log.record({ kind: 'events', event_type: 'a.b', created_at: at });
  assert.equal(log.getEvent(1).created_at, at.getTime());
  const talk = log.conversation({ created_at: at });
  talk.user('hi', { timestamp: at });
  assert.equal(talk.messages().first().timestamp, '2026-07-28T12:00:00.123Z');
  assert.equal(log.events({ since: at }).toArray().length, 1);
  assert.equal(log.events({ until: at }).toArray().length, 0);
  assert.equal(log.events({ since: '2026-07-28', until: at.getTime() + 1 }).toArray().length, 1);
});

test('undefined fields are left out, and null is nothing', (t) => {
  const log = opened(t);
  log.record({ kind: 'events', event_type: 'a.b', parent_id: undefined, payload: null });
  assert.ok(!('parent_id' in log.getEvent(1)));
});

test('a getter may record meanwhile', (t) => {
  const log = opened(t);
  const payload = { get n() { return log.record({ kind: 'events', event_type: 'x.inner' }).id; }, text: 'x'.repeat(100) };
  const { id } = log.record({ kind: 'events', event_type: 'x.outer', payload });
  assert.deepEqual([id, log.getEvent(2).payload], [2, { n: 1, text: 'x'.repeat(100) }]);
});

test('great records and many names', (t) => {
  const log = opened(t);
  const text = 'x'.repeat(300_000) + '\u4e2d';
  assert.equal(kept(log, { text }).text, text);
  for (let round = 0; round < 10; round++) {
    const names = Object.fromEntries(Array.from({ length: 600 }, (_, at) => [`name ${round} ${at}`, at]));
    assert.deepEqual(kept(log, names), names);
  }
});

test('a prototype is not changed by what is read', (t) => {
  const log = opened(t);
  const read = kept(log, JSON.parse('{"__proto__":{"bad":1},"constructor":2}'));
  assert.equal({}.bad, undefined);
  assert.deepEqual(Object.keys(read), ['__proto__', 'constructor']);
});

test('a text that begins like a mark is kept', (t) => {
  const log = opened(t);
  for (const text of ['\0bigint:12', '\0bigint:zz', '\0', '\0\0bigint:1', '\0other']) {
    const payload = { text, [text]: text, great: 2n ** 70n, in: [text] };
    assert.deepEqual(kept(log, payload), payload);
    assert.deepEqual(kept(log, { text }), { text });
  }
  log.record({ kind: 'user', content: '\0bigint:zz' });
  const message = { content: '\0bigint:zz', great: 2n ** 64n };
  assert.deepEqual(kept(log, JSON.stringify({ content: '\0bigint:zz' }).replace('}', ', "great" : 18446744073709551616 }')), message);
  assert.equal(log.events().toArray().length, 11);
  assert.equal(log.turns().first().content, '\0bigint:zz');
});

test('values may be nested 63 levels deep', (t) => {
  const log = opened(t);
  const nested = (depth) => Array.from({ length: depth }).reduce((it) => [it], 'x');
  assert.deepEqual(kept(log, nested(63)), nested(63));
  assert.throws(() => kept(log, nested(64)), { field: 'payload', message: /more than 63 levels/ });
  assert.deepEqual(kept(log, { toJSON: () => nested(63) }), nested(63));
});

test('maps, promises and boxed integers are not changed silently', (t) => {
  const log = opened(t);
  for (const value of [
    new Map([[{}, 1]]),
    new Map([[null, 1]]),
    new Map([[1, 'a'], ['1', 'b']]),
    Promise.resolve(1),
    Object(1n),
    Object(Symbol('x')),
  ]) {
    assert.throws(() => kept(log, value), { name: 'InvalidInputError', field: 'payload' });
    assert.throws(() => kept(log, [value]), { name: 'InvalidInputError', field: 'payload' });
  }
  assert.deepEqual(kept(log, new Map([[1, 'a'], ['b', 2]])), { 1: 'a', b: 2 });
});

test('great floats are kept, and integers that are not exact are refused', (t) => {
  const log = opened(t);
  for (const value of [1e300, -1e300, 2 ** 64, Number.MAX_VALUE]) assert.equal(kept(log, value), value);
  for (const value of [2 ** 53, 2 ** 63, -(2 ** 63)]) assert.throws(() => kept(log, value), { field: 'payload' });
});

test('a text of digits is no time', (t) => {
  const log = opened(t);
  log.logEvent('a.b', 'needle');
  for (const name of ['since', 'until']) {
    assert.throws(() => log.search('needle', { [name]: '2026' }), { field: name });
    assert.throws(() => log.events({ [name]: '2026' }), { field: name });
  }
  const [turn] = [log.turn('user', 'hi')];
  assert.throws(() => log.getTurn(turn.id, { as_of: '2026' }), { field: 'as_of' });
  assert.throws(() => log.retract('conversation_turns', turn.id, { at: '2026' }), { field: 'at' });
  for (const since of [0, 0n, new Date(0), '1970-01-01']) {
    assert.equal(log.search('needle', { since }).length, 1);
    assert.equal(log.events({ since }).toArray().length, 1);
  }
  assert.equal(log.search('needle', { until: 2026 }).length, 0);
  const thought = { task_id: 't', agent_id: 'a', content: 'c', timestamp: 1766832000000 };
  assert.equal(log.thoughts.create('plan', thought).timestamp, '2025-12-27T10:40:00.000Z');
});

test('a list that changes while it is written has the length that it had', (t) => {
  const log = opened(t);
  const list = [{ toJSON: () => list.push(1) }, 2];
  assert.deepEqual(kept(log, { list, after: 'x' }), { list: [3, 2], after: 'x' });
});
