'use strict';
// The native part: beside the package in development, else of the package for this platform.

const fs = require('node:fs');
const path = require('node:path');

/** The name of the package with the programs for this platform, such as `@decklog/linux-x64-gnu`. */
function platformPackage() {
  const { arch, platform } = process;
  let name = `${platform}-${arch}`;
  if (platform === 'linux') name += isMusl() ? '-musl' : '-gnu';
  if (platform === 'win32') name += '-msvc';
  return `@decklog/${name}`;
}

function isMusl() {
  const report = process.report?.getReport?.();
  const header = typeof report === 'string' ? JSON.parse(report).header : report?.header;
  if (header !== undefined && 'glibcVersionRuntime' in header) return false;
  try {
    return fs.readFileSync('/usr/bin/ldd', 'latin1').includes('musl');
  } catch {
    return false;
  }
}

/** The path of a file of the platform's package, or of this folder in development. */
function find(file) {
  const beside = path.join(__dirname, '..', file);
  if (fs.existsSync(beside)) return beside;
  const name = platformPackage();
  let found;
  try {
    found = path.join(path.dirname(require.resolve(`${name}/package.json`)), file);
  } catch (cause) {
    throw new Error(
      `decklog has no ${file} for this platform (${process.platform} ${process.arch}): ` +
        `the package ${name} is not installed. Install without --omit=optional, or build it from source`,
      { cause },
    );
  }
  if (!fs.existsSync(found)) throw new Error(`the package ${name} has no ${file}: install it again`);
  return found;
}

module.exports = { find, load: () => require(find('decklog.node')) };
