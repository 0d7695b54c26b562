'use strict';
// The types are whole: a program that uses all of the API passes the strict compiler.

const assert = require('node:assert/strict');
const { spawnSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const { test } = require('node:test');
const decklog = require('..');
const { directory } = require('./support.js');

const compiler = path.join(__dirname, 'node_modules', '.bin', 'tsc');
const skip = !fs.existsSync(compiler) && 'typescript is not installed';

/** Compiles the files of `types/` as a program that has the package installed. */
function compiled(t, module_, file) {
  const root = directory(t);
  fs.mkdirSync(path.join(root, 'node_modules'));
  for (const name of fs.readdirSync(path.join(__dirname, 'node_modules'))) {
    if (!name.startsWith('.')) fs.symlinkSync(path.join(__dirname, 'node_modules', name), path.join(root, 'node_modules', name));
  }
  fs.symlinkSync(path.join(__dirname, '..'), path.join(root, 'node_modules', 'decklog'));
  fs.copyFileSync(path.join(__dirname, 'types', file), path.join(root, file));
  const compilerOptions = {
    strict: true,
    // The types of the SDKs are not whole.
    skipLibCheck: file === 'wrapped.mts',
    exactOptionalPropertyTypes: file !== 'wrapped.mts',
    noEmit: true,
    target: 'es2022',
    lib: ['es2022', 'esnext.disposable', 'dom', 'dom.asynciterable'],
    module: module_,
    moduleResolution: module_,
    types: ['node'],
  };
  fs.writeFileSync(path.join(root, 'tsconfig.json'), JSON.stringify({ compilerOptions, files: [file] }));
  const { status, stdout } = spawnSync(compiler, ['--project', root], { encoding: 'utf8' });
  return { status, stdout };
}

for (const [module_, file] of [['node16', 'usage.mts'], ['node16', 'usage.cts'], ['nodenext', 'wrapped.mts']]) {
  test(`${file} passes the strict compiler (${module_})`, { skip }, (t) => {
    assert.deepEqual(compiled(t, module_, file), { status: 0, stdout: '' });
  });
}

test('all that is exported is declared', () => {
  const declared = fs.readFileSync(path.join(__dirname, '..', 'index.d.ts'), 'utf8');
  for (const name of Object.keys(decklog)) assert.match(declared, new RegExp(`\\b${name}\\b`));
  for (const of of [decklog.Log, decklog.Run, decklog.Capture, decklog.Inbox, decklog.Thoughts, decklog.ConversationHandle]) {
    const types = declared + fs.readFileSync(path.join(__dirname, '..', 'records.d.ts'), 'utf8');
    for (const name of Object.getOwnPropertyNames(of.prototype)) {
      if (name !== 'constructor' && name !== 'drain') assert.match(types, new RegExp(`\\b${name}\\b`), `${of.name}.${name}`);
    }
  }
});
