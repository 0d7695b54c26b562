'use strict';
// What comes of a tool call.

const { inspect } = require('node:util');
const { InvalidInputError } = require('./errors.js');

/** Records what was returned: as JSON or, if it has no such form, as text. */
function ended(call, returned) {
  if (call.isEnded) return;
  try {
    call.done(returned);
  } catch (error) {
    if (!(error instanceof InvalidInputError)) throw error;
    call.done(inspect(returned).toWellFormed());
  }
}

/** Records what was thrown. */
function failed(call, error) {
  if (call.isEnded) return;
  const { kind, message } = described(error);
  call.failed(kind, message);
}

/** The kind and the message of what was thrown. */
function described(error) {
  const isError = error instanceof Error || typeof error?.message === 'string';
  const kind = isError ? String(error.name ?? 'Error') : typeof error;
  return { kind: (kind || 'Error').toWellFormed(), message: String(isError ? error.message : error).toWellFormed() };
}

module.exports = { described, ended, failed };
