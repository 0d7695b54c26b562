'use strict';
// Arguments, checked.

const { invalid } = require('./errors.js');

const U32_MAX = 2 ** 32 - 1;

/** A text. */
function text(field, value) {
  if (typeof value !== 'string') throw invalid(field, `${shown(value)} is no text`);
  if (!value.isWellFormed()) throw invalid(field, 'it holds a lone surrogate, which is no text');
  return value;
}

const isNone = (value) => value === undefined || value === null;

/** As `text`; `undefined` for none. */
const optionalText = (field, value) => (isNone(value) ? undefined : text(field, value));

/** An integer in decimal, as the native part takes it. */
function integer(field, value) {
  const isInteger = typeof value === 'bigint' || (typeof value === 'number' && Number.isSafeInteger(value));
  if (!isInteger) throw invalid(field, `${shown(value)} is no integer${typeof value === 'number' ? ' that a number holds exactly' : ''}`);
  return value.toString();
}

/** The id of a record, which is a number or a text. */
const id = (value) => (typeof value === 'string' ? text('id', value) : integer('id', value));

/** A time: a `Date` or a text, as text; or epoch milliseconds, as a number. */
function time(field, value) {
  if (isNone(value)) return undefined;
  if (typeof value === 'string') return timeText(field, value);
  if (!(value instanceof Date)) return Number(integer(field, value));
  if (Number.isNaN(value.getTime())) throw invalid(field, 'the date is invalid');
  return value.toISOString();
}

/** A time as a text. One of digits alone may be a year or milliseconds. */
function timeText(field, value) {
  if (/^[+-]?\d+$/.test(value)) {
    throw invalid(field, `${shown(value)} is a text: give epoch milliseconds as a number, or a day such as 2026-07-28`);
  }
  return text(field, value);
}

/** As `time`, but always RFC 3339. */
function timestamp(field, value) {
  const given = time(field, value);
  if (typeof given !== 'number') return given;
  const date = new Date(given);
  if (Number.isNaN(date.getTime())) throw invalid(field, `${given} is no time`);
  return date.toISOString();
}

/** A number of things; `undefined` for none. */
function count(field, value, max = U32_MAX) {
  if (isNone(value)) return undefined;
  if (!Number.isSafeInteger(value) || value < 0 || value > max) {
    throw invalid(field, `${shown(value)} is no integer from 0 to ${max}`);
  }
  return value;
}

/** A number of milliseconds; `undefined` for none. */
function milliseconds(field, value) {
  if (isNone(value)) return undefined;
  if (!Number.isFinite(value) || value < 0) throw invalid(field, `${shown(value)} is no number of milliseconds`);
  return value;
}

function flag(field, value) {
  if (typeof value !== 'boolean') throw invalid(field, `${shown(value)} is neither true nor false`);
  return value;
}

/** Options of which all names are known. */
function options(given, ...names) {
  if (isNone(given)) return {};
  if (typeof given !== 'object') throw invalid('options', `${shown(given)} is no object of options`);
  for (const name of Object.keys(given)) {
    if (!names.includes(name)) throw invalid(name, `there is no such option: give one of ${names.join(', ')}`);
  }
  return given;
}

/** The kind of a record, if it is given beside it. */
const kindOf = (given) => (given === undefined ? undefined : options(given, 'kind').kind);

/** A function; `undefined` for none. */
function optionalFunction(field, value) {
  if (isNone(value)) return undefined;
  if (typeof value !== 'function') throw invalid(field, `${shown(value)} is no function`);
  return value;
}

function shown(value) {
  if (typeof value === 'string') return JSON.stringify(value.length > 80 ? `${value.slice(0, 80)}…` : value);
  return typeof value === 'object' && value !== null ? 'an object' : String(value);
}

/** The fields of an object that are not `undefined`. */
const defined = (fields) => Object.fromEntries(Object.entries(fields ?? {}).filter(([, value]) => value !== undefined));

module.exports = {
  count,
  defined,
  flag,
  id,
  integer,
  kindOf,
  milliseconds,
  options,
  optionalFunction,
  optionalText,
  text,
  time,
  timestamp,
};
