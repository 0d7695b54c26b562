'use strict';
// What is still queued is written at exit.

/** Weak references to what has `drain`. */
const OPEN = new Set();
let isWatching = false;

function drainAll() {
  for (const reference of [...OPEN]) {
    try {
      reference.deref()?.drain();
    } catch {
      // Nobody is left to be told, except by `onError`.
    }
  }
}

/** Calls `drain` at exit. Returns what ends that. */
function atExit(it) {
  if (!isWatching) {
    isWatching = true;
    process.on('exit', drainAll);
  }
  const reference = new WeakRef(it);
  OPEN.add(reference);
  return () => OPEN.delete(reference);
}

module.exports = { atExit };
