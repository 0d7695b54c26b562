'use strict';
// What comes of a tool call. Nothing here throws an error of the log: the tool did what it did.

const { inspect, types } = require('node:util');
const { DecklogError, InvalidInputError } = require('./errors.js');

/** The rest of longer texts is left out, where another form was refused. */
const SHOWN_MAX = 10_000;
/** As long a name as the log takes, however it is written. */
const KIND_MAX = 200;

/** Calls a function, and records what comes of it. Of a thenable, a promise is returned. */
function observed(call, work) {
  let returned;
  try {
    returned = work(call);
  } catch (error) {
    failed(call, error);
    throw error;
  }
  if (!isThenable(returned)) {
    ended(call, returned);
    return returned;
  }
  // Only once: to await some thenables starts what they stand for.
  const promise = types.isPromise(returned) ? returned : Promise.resolve(returned);
  return promise.then(
    (value) => {
      ended(call, value);
      return value;
    },
    (error) => {
      failed(call, error);
      throw error;
    },
  );
}

function isThenable(value) {
  try {
    return typeof value?.then === 'function';
  } catch {
    return false;
  }
}

/** Records what was returned: as JSON or, if the log refuses that, as text. */
function ended(call, returned) {
  safely(call, () => {
    try {
      call.done(returned);
    } catch (error) {
      if (call.isEnded || isOfLog(error)) throw error;
      call.done(shown(returned));
    }
  });
}

/** Whether the value is not at fault. A getter of it may throw anything. */
const isOfLog = (error) => error instanceof DecklogError && !(error instanceof InvalidInputError);

/** Records what was thrown. */
function failed(call, error) {
  safely(call, () => {
    const { kind, message } = described(error);
    call.failed(cut(kind, KIND_MAX), cut(message, SHOWN_MAX));
  });
}

let isTold = false;

/** Records an outcome, if there is none yet. The first failure is a warning of the process. */
function safely(call, work) {
  try {
    if (!call.isEnded) work();
  } catch (error) {
    if (isTold) return;
    isTold = true;
    const why = described(error).message;
    process.emitWarning(
      `the outcome of a tool call was not recorded: ${why}. Later failures are not reported`,
      'DecklogWarning',
    );
  }
}

/** The kind and the message of what was thrown. */
function described(error) {
  try {
    const isError = error instanceof Error || typeof error?.message === 'string';
    const kind = isError ? String(error.name ?? 'Error') : typeof error;
    return { kind: (kind || 'Error').toWellFormed(), message: String(isError ? error.message : error).toWellFormed() };
  } catch {
    // Some objects have no text.
    return { kind: typeof error, message: shown(error) };
  }
}

/** Any value as text, which people read. */
function shown(value) {
  try {
    return cut(typeof value === 'string' ? value : inspect(value), SHOWN_MAX);
  } catch {
    return `a value of type ${typeof value}`;
  }
}

function cut(text, length) {
  return (text.length > length ? `${text.slice(0, length)}…` : text).toWellFormed();
}

module.exports = { described, ended, failed, isOfLog, observed, shown };
