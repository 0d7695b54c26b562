#!/usr/bin/env node
'use strict';
// Runs the program `decklog` of the package for this platform.

const { spawn } = require('node:child_process');
const { find } = require('./lib/native.js');

const SIGNALS = ['SIGHUP', 'SIGINT', 'SIGQUIT', 'SIGTERM', 'SIGUSR1', 'SIGUSR2', 'SIGWINCH'];

/** Whether the terminal sends it to the program, too. */
const isOfTerminal = (signal) => process.stdin.isTTY && ['SIGINT', 'SIGQUIT', 'SIGWINCH'].includes(signal);

function main() {
  let program;
  try {
    program = find(process.platform === 'win32' ? 'decklog.exe' : 'decklog');
  } catch (error) {
    process.stderr.write(`error: ${error.message}\n`);
    process.exitCode = 1;
    return;
  }
  const child = spawn(program, process.argv.slice(2), { stdio: 'inherit' });
  // It decides what a signal means. A terminal sends Ctrl-C to both.
  for (const signal of SIGNALS) {
    try {
      process.on(signal, () => isOfTerminal(signal) || child.kill(signal));
    } catch {
      // This platform does not have it.
    }
  }
  child.on('error', (error) => {
    process.stderr.write(`error: ${program}: ${error.message}\n`);
    process.exitCode = 1;
  });
  child.on('exit', (code, signal) => {
    if (signal === null) process.exit(code);
    process.removeAllListeners(signal);
    process.kill(process.pid, signal);
  });
}

main();
