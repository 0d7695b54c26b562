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
  for (const value of [NaN, Infinity, 2 ** 53, -(2 ** 60), 1e300, '\ud800', { a: ['\udc00 text that is longer'] }, { '\ud800': 1 }, new Date(NaN), new Uint8Array(2), Buffer.from('a'), new ArrayBuffer(1), circle]) {
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
