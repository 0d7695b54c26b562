'use strict';
// Several processes and threads, and processes that end early.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const path = require('node:path');
const { test } = require('node:test');
const { Worker } = require('node:worker_threads');
const { open } = require('..');
const { directory, opened, script, size } = require('./support.js');

const KILLS = size('DECKLOG_NODE_KILLS', 3);

test('what was acknowledged survives a kill', async (t) => {
  for (let round = 0; round < KILLS; round++) {
    const where = path.join(directory(t), 'log');
    const child = script(
      `const log = decklog.open(process.argv[1]);
       for (let n = 0; ; n++) {
         const { id } = log.record({ kind: 'events', event_type: 'a.b', payload: n });
         require('fs').writeSync(1, id + '\\n');
       }`,
      where,
    );
    while (child.out.length < 2_000 + 500 * round) await new Promise((resolve) => setTimeout(resolve, 5));
    child.kill('SIGKILL');
    const { out, signal } = await child.ended;
    assert.equal(signal, 'SIGKILL');
    const acknowledged = out.split('\n').slice(0, -1).map(Number);
    const log = open(where);
    const found = new Set([...log.events()].map((it) => it.id));
    assert.ok(acknowledged.length > 100 && acknowledged.every((id) => found.has(id)));
    log.close();
  }
});

test('two processes record in one log', async (t) => {
  const log = opened(t);
  const source = `const log = decklog.open(process.argv[1]);
    for (let n = 0; n < 500; n++) log.record({ kind: 'events', event_type: process.argv[2], payload: n });
    log.close();`;
  const children = ['a.a', 'b.b'].map((name) => script(source, log.path, name));
  for (let n = 0; n < 500; n++) log.record({ kind: 'events', event_type: 'x.own', payload: n });
  for (const child of children) assert.deepEqual(await child.ended, { code: 0, signal: null, out: '', err: '' });
  for (const name of ['a.a', 'b.b', 'x.own']) {
    assert.deepEqual([...log.events({ event_type: name })].map((it) => it.payload), Array.from({ length: 500 }, (_, n) => n));
  }
  assert.equal(new Set([...log.events()].map((it) => it.id)).size, 1500);
});

test('a task is claimed once by many processes', async (t) => {
  const log = opened(t);
  for (let n = 1; n <= 100; n++) log.inbox.enqueue(n, n);
  const source = `const log = decklog.open(process.argv[1]);
    for (let task; (task = log.inbox.claim()); log.inbox.done(task)) console.log(task.id);`;
  const ended = await Promise.all([1, 2, 3].map(() => script(source, log.path).ended));
  const claimed = ended.flatMap((it) => it.out.split('\n').filter(Boolean));
  assert.deepEqual([claimed.length, new Set(claimed).size], [100, 100]);
});

for (const [how, end] of [
  ['by itself', ''],
  ['by process.exit', 'process.exit(0);'],
  ['by an error', "throw new Error('on purpose');"],
]) {
  test(`what is queued is written when a process ends ${how}`, async (t) => {
    const where = path.join(directory(t), 'log');
    const { code } = await script(
      `const log = decklog.open(process.argv[1]);
       const capture = log.capture();
       for (let n = 0; n < 5000; n++) capture.record({ kind: 'events', event_type: 'x.captured' });
       const run = log.run('x', { through: capture });
       for (let n = 0; n < 1000; n++) run.user('hi');
       for (let n = 0; n < 100; n++) log.recordAsync({ kind: 'events', event_type: 'x.sent' }).catch(() => {});
       ${end}`,
      where,
    ).ended;
    assert.equal(code, how === 'by an error' ? 1 : 0);
    const log = open(where);
    assert.equal(log.events({ event_type: 'x.captured' }).toArray().length, 5000);
    assert.equal(log.turns().toArray().length, 1000);
    assert.equal(log.events({ event_type: 'x.sent' }).toArray().length, 100);
    log.close();
  });
}

test('an open capture does not keep a process alive', async (t) => {
  const where = path.join(directory(t), 'log');
  const child = script(
    `const log = decklog.open(process.argv[1]);
     globalThis.capture = log.capture({ onError: () => {} });
     capture.record({ kind: 'events', event_type: 'a.b' });`,
    where,
  );
  const timer = setTimeout(() => child.kill(), 20_000);
  assert.equal((await child.ended).code, 0);
  clearTimeout(timer);
});

test('a call that is dropped is recorded as abandoned', async (t) => {
  const where = path.join(directory(t), 'log');
  await script("decklog.open(process.argv[1]).toolCall('ls', {});", where).ended;
  const log = open(where);
  assert.equal(log.toolCalls().first().error_kind, 'abandoned');
  log.close();
});

test('worker threads record in one log, each with a handle of its own', async (t) => {
  const log = opened(t);
  const source = `
    const { parentPort, workerData } = require('node:worker_threads');
    const { open } = require(workerData.package);
    const log = open(workerData.path);
    const capture = log.capture();
    for (let n = 0; n < 200; n++) log.record({ kind: 'events', event_type: 'x.thread', payload: { [workerData.name]: n } });
    for (let n = 0; n < 200; n++) capture.record({ kind: 'events', event_type: 'x.captured' });
    parentPort.postMessage('done');`;
  const ended = ['a', 'b', 'c'].map((name) => {
    const workerData = { package: path.join(__dirname, '..'), path: log.path, name };
    const worker = new Worker(source, { eval: true, workerData });
    return new Promise((resolve, reject) => worker.on('exit', resolve).on('error', reject));
  });
  assert.deepEqual(await Promise.all(ended), [0, 0, 0]);
  assert.equal(log.events({ event_type: 'x.thread' }).toArray().length, 600);
  assert.equal(log.events({ event_type: 'x.captured' }).toArray().length, 600);
});

test('a worker that is terminated harms nobody', async (t) => {
  const log = opened(t);
  for (let round = 0; round < 5; round++) {
    const source = `
      const { parentPort, workerData } = require('node:worker_threads');
      const log = require(workerData.package).open(workerData.path);
      const capture = log.capture({ onError() {} });
      for (let n = 0; ; n++) {
        log.recordAsync({ kind: 'events', event_type: 'x.thread', payload: n });
        log.record({ kind: 'events', event_type: 'x.thread', payload: n });
        if (n === 10) parentPort.postMessage('runs');
      }`;
    const worker = new Worker(source, { eval: true, workerData: { package: path.join(__dirname, '..'), path: log.path } });
    await new Promise((resolve) => worker.on('message', resolve));
    await worker.terminate();
    log.record({ kind: 'events', event_type: 'x.own' });
  }
  assert.equal(log.events({ event_type: 'x.own' }).toArray().length, 5);
});

test('memory grows with the index alone', async (t) => {
  const calls = size('DECKLOG_NODE_CALLS', 100_000);
  const where = path.join(directory(t), 'log');
  const { code, out, err } = await script(
    `const log = decklog.open(process.argv[1]);
     const text = 'x'.repeat(800);
     const calls = Number(process.argv[2]);
     const rss = [];
     async function main() {
       for (let n = 0; n < calls; n++) {
         switch (n % 4) {
           case 0: log.record({ kind: 'events', event_type: 'a.b', payload: { text, n } }); break;
           case 1: log.turn('user', text); break;
           case 2: log.toolCall('ls', { text }).done(n); break;
           default: try { log.record({ kind: 'events', event_type: n }); } catch {}
         }
         // Node frees native handles when the event loop goes on.
         if (n % 100 === 0) await new Promise(setImmediate);
         if (n % Math.floor(calls / 10) === 0) { gc(); rss.push(process.memoryUsage.rss()); }
       }
       console.log(JSON.stringify(rss));
     }
     main();`,
    where,
    String(calls),
  ).ended;
  assert.equal(code, 0, err);
  const rss = JSON.parse(out).map((it) => Math.round(it / 1e6));
  t.diagnostic(`RSS in MB over ${calls} calls: ${rss.join(' ')}`);
  // A record takes about 100 bytes of the index until it is saved.
  assert.ok(rss.at(-1) - rss[1] < 30 + (calls * 130) / 1e6, rss.join(' '));
  assert.ok(fs.existsSync(where));
});
