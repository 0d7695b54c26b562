'use strict';
// What the tests share.

const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { spawn } = require('node:child_process');
const { open } = require('..');

/** A directory that is removed after the test. */
function directory(t) {
  const made = fs.mkdtempSync(path.join(os.tmpdir(), 'decklog-node-'));
  t.after(() => fs.rmSync(made, { recursive: true, force: true }));
  return made;
}

/** A log that is closed and removed after the test. */
function opened(t, options) {
  const log = open(path.join(directory(t), 'log'), options);
  t.after(() => log.close());
  return log;
}

/** Runs a script with the package as `decklog`; its arguments are `process.argv.slice(1)`. */
function script(source, ...args) {
  const head = `const decklog = require(${JSON.stringify(path.join(__dirname, '..'))});`;
  const child = spawn(process.execPath, ['--expose-gc', '-e', `${head}\n${source}`, ...args], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  child.out = '';
  child.err = '';
  child.stdout.on('data', (data) => (child.out += data));
  child.stderr.on('data', (data) => (child.err += data));
  child.ended = new Promise((resolve) => {
    child.on('close', (code, signal) => resolve({ code, signal, out: child.out, err: child.err }));
  });
  return child;
}

/** A package that may not be installed. */
function installed(name) {
  try {
    return require(name);
  } catch (error) {
    if (error.code !== 'MODULE_NOT_FOUND') throw error;
    return undefined;
  }
}

/** A number from the environment. */
const size = (name, otherwise) => Number(process.env[name] ?? otherwise);

module.exports = { directory, installed, opened, script, size };
