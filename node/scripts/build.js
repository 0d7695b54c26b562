'use strict';
// Builds the native part for development: `node scripts/build.js [PROFILE]`.

const { execFileSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');

const profile = process.argv[2] ?? 'dev';
const root = path.join(__dirname, '..', '..');
const json = execFileSync(
  'cargo',
  ['build', '--package', 'decklog-node', '--profile', profile, '--message-format', 'json-render-diagnostics'],
  { cwd: root, stdio: ['ignore', 'pipe', 'inherit'], maxBuffer: 1 << 28 },
);
const messages = json.toString().trim().split('\n').map((line) => JSON.parse(line));
const made = messages.find((it) => it.reason === 'compiler-artifact' && it.target.name === 'decklog_node');
const library = made.filenames.find((name) => /\.(so|dylib|dll)$/.test(name));
const module_ = path.join(__dirname, '..', 'decklog.node');
// Not in place: a process may have the old one loaded.
fs.copyFileSync(library, `${module_}.new`);
fs.renameSync(`${module_}.new`, module_);
