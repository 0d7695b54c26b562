'use strict';
// The program of the package passes on arguments, streams, signals and the exit code. Here a script
// takes the place of the real program.

const assert = require('node:assert/strict');
const { spawn, spawnSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const { test } = require('node:test');
const { directory } = require('./support.js');

const skip = process.platform === 'win32' && 'it needs a shell';

/** The package, installed with a package for this platform. */
function installedWith(t, program) {
  const root = path.join(directory(t), 'node_modules');
  const [name] = [`${process.platform}-${process.arch}`, `${process.platform}-${process.arch}-gnu`].slice(process.platform === 'linux' ? 1 : 0);
  const platform = path.join(root, '@decklog', name);
  fs.mkdirSync(platform, { recursive: true });
  fs.writeFileSync(path.join(platform, 'package.json'), JSON.stringify({ name: `@decklog/${name}`, version: '0.1.0' }));
  fs.copyFileSync(path.join(__dirname, '..', 'decklog.node'), path.join(platform, 'decklog.node'));
  if (program !== undefined) fs.writeFileSync(path.join(platform, 'decklog'), program, { mode: 0o755 });
  const main = path.join(root, 'decklog');
  for (const file of [...require('../package.json').files, 'package.json']) {
    fs.cpSync(path.join(__dirname, '..', file), path.join(main, file), { recursive: true });
  }
  return main;
}

test('arguments, streams and the exit code are passed on', { skip }, (t) => {
  const main = installedWith(t, '#!/bin/sh\ncat; echo "$#:$1:$2" >&2; exit 7\n');
  const { status, stdout, stderr } = spawnSync(process.execPath, [path.join(main, 'cli.js'), 'a b', '--x'], { input: 'in', encoding: 'utf8' });
  assert.deepEqual([status, stdout, stderr], [7, 'in', '2:a b:--x\n']);
});

test('signals are passed on', { skip }, async (t) => {
  for (const [program, expected] of [
    ['#!/bin/sh\ntrap "exit 3" TERM\necho up\nwhile :; do sleep 0.05; done\n', [3, null]],
    ['#!/bin/sh\necho up\nexec sleep 20\n', [null, 'SIGTERM']],
  ]) {
    const child = spawn(process.execPath, [path.join(installedWith(t, program), 'cli.js')], { stdio: ['pipe', 'pipe', 'inherit'] });
    await new Promise((resolve) => child.stdout.once('data', resolve));
    child.kill('SIGTERM');
    assert.deepEqual(await new Promise((resolve) => child.on('exit', (...how) => resolve(how))), expected);
  }
});

test('the module is found in the package of the platform', { skip }, (t) => {
  const main = installedWith(t);
  const source = `const { open } = require(${JSON.stringify(main)}); open(process.argv[1]).turn('user', 'hi'); console.log('recorded')`;
  const { stdout, stderr } = spawnSync(process.execPath, ['-e', source, path.join(directory(t), 'log')], { encoding: 'utf8' });
  assert.equal(stdout, 'recorded\n', stderr);
  const { status, stderr: why } = spawnSync(process.execPath, [path.join(main, 'cli.js')], { encoding: 'utf8' });
  assert.deepEqual([status, why.includes('has no decklog: install it again')], [1, true]);
  fs.rmSync(path.join(main, '..', '@decklog'), { recursive: true });
  const { status: code, stderr: without } = spawnSync(process.execPath, [path.join(main, 'cli.js')], { encoding: 'utf8' });
  assert.deepEqual([code, without.includes('is not installed')], [1, true]);
});
