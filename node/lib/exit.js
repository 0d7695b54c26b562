'use strict';
// What is still queued is written at exit.

/** Weak references to what has `drain`: first what records something, then what writes. */
const OPEN = [new Set(), new Set()];
const COLLECTED = new FinalizationRegistry((forget) => forget());
let isWatching = false;

function drainAll() {
  for (const reference of OPEN.flatMap((references) => [...references])) {
    try {
      reference.deref()?.drain();
    } catch {
      // Nobody is left to be told, except by `onError`.
    }
  }
}

/** Calls `drain` at exit, unless it is collected before. Returns what ends that. */
function atExit(it, isFirst = false) {
  if (!isWatching) {
    isWatching = true;
    process.on('exit', drainAll);
  }
  const references = OPEN[isFirst ? 0 : 1];
  const reference = new WeakRef(it);
  const forget = () => {
    COLLECTED.unregister(reference);
    references.delete(reference);
  };
  references.add(reference);
  COLLECTED.register(it, forget, reference);
  return forget;
}

/** The number of those that are drained at exit. */
const openCount = () => OPEN[0].size + OPEN[1].size;

module.exports = { atExit, openCount };
