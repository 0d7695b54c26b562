'use strict';
// What is still queued is written at exit.

/** Weak references to what has `drain`. */
const OPEN = new Set();
const COLLECTED = new FinalizationRegistry((reference) => OPEN.delete(reference));
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

/** Calls `drain` at exit, unless it is collected before. Returns what ends that. */
function atExit(it) {
  if (!isWatching) {
    isWatching = true;
    process.on('exit', drainAll);
  }
  const reference = new WeakRef(it);
  OPEN.add(reference);
  COLLECTED.register(it, reference, reference);
  return () => {
    COLLECTED.unregister(reference);
    OPEN.delete(reference);
  };
}

/** The number of those that are drained at exit. */
const openCount = () => OPEN.size;

module.exports = { atExit, openCount };
