'use strict';
// Makes the package of a platform: `node scripts/platform.js NAME DIRECTORY MODULE PROGRAM`, such as
// `node scripts/platform.js linux-x64-gnu target/npm libdecklog_node.so decklog`.
//
// `node scripts/platform.js --pin DIRECTORY NAME…` copies the package `decklog` to a directory, with
// the packages of these platforms as its optional dependencies.

const fs = require('node:fs');
const path = require('node:path');

const HERE = path.join(__dirname, '..');
const PACKAGE = JSON.parse(fs.readFileSync(path.join(HERE, 'package.json'), 'utf8'));
const LICENSES = ['LICENSE-APACHE', 'LICENSE-MIT'];

function write(directory, json) {
  fs.writeFileSync(path.join(directory, 'package.json'), `${JSON.stringify(json, null, 2)}\n`);
  for (const license of LICENSES) fs.copyFileSync(path.join(HERE, '..', license), path.join(directory, license));
}

function platform(name, into, native, program) {
  const [os, cpu, libc] = name.split('-');
  const directory = path.join(into, name);
  fs.mkdirSync(directory, { recursive: true });
  const programName = os === 'win32' ? 'decklog.exe' : 'decklog';
  fs.copyFileSync(native, path.join(directory, 'decklog.node'));
  fs.copyFileSync(program, path.join(directory, programName));
  fs.chmodSync(path.join(directory, programName), 0o755);
  write(directory, {
    name: `@decklog/${name}`,
    version: PACKAGE.version,
    description: `The programs of decklog for ${name}`,
    license: PACKAGE.license,
    repository: PACKAGE.repository,
    os: [os],
    cpu: [cpu],
    ...(os === 'linux' ? { libc: [libc === 'musl' ? 'musl' : 'glibc'] } : {}),
    files: ['decklog.node', programName, ...LICENSES],
    engines: PACKAGE.engines,
    preferUnplugged: true,
  });
}

function pin(into, names) {
  const directory = path.join(into, 'decklog');
  fs.mkdirSync(directory, { recursive: true });
  for (const file of PACKAGE.files) fs.cpSync(path.join(HERE, file), path.join(directory, file), { recursive: true });
  if (fs.existsSync(path.join(HERE, 'README.md'))) {
    fs.copyFileSync(path.join(HERE, 'README.md'), path.join(directory, 'README.md'));
  }
  const { devDependencies: _, scripts: __, ...json } = PACKAGE;
  json.optionalDependencies = Object.fromEntries(names.map((name) => [`@decklog/${name}`, PACKAGE.version]));
  write(directory, json);
}

const [first, ...others] = process.argv.slice(2);
if (first === '--pin') pin(others[0], others.slice(1));
else platform(first, ...others);
