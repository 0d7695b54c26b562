'use strict';
// Values as bytes, which the native part reads: see `src/wire.rs`. Nothing that has no form in JSON
// passes unnoticed.

const { Buffer } = require('node:buffer');
const { invalid, native } = require('./errors.js');
const addon = require('./native.js').load();

/** Deeper values are refused by the log too. */
const DEPTH_MAX = 64;
/** A greater buffer is not kept. */
const KEPT_BYTES_MAX = 1 << 20;
const NAMES_MAX = 4096;
const NAME_LENGTH_MAX = 64;
/** Shorter texts are copied here: a call of the native part takes longer. */
const SHORT_MAX = 16;
const INLINE_NAME = 0xffff;
const NO_KIND = 0xff;

const KINDS = new Map(addon.kinds().map((kind, number) => [kind, number]));
const NAMES = new Map();

function nameNumber(name) {
  if (NAMES.size >= NAMES_MAX || name.length > NAME_LENGTH_MAX || !name.isWellFormed()) return -1;
  const number = addon.nameNumber(name);
  NAMES.set(name, number);
  return number;
}

class Writer {
  constructor() {
    this.grow(4096);
    /** What errors name. */
    this.field = 'record';
  }

  grow(length) {
    const bytes = Buffer.allocUnsafeSlow(length);
    if (this.bytes !== undefined) this.bytes.copy(bytes, 0, 0, this.at);
    else this.at = 0;
    this.bytes = bytes;
    this.view = new DataView(bytes.buffer, bytes.byteOffset, length);
  }

  room(length) {
    const wanted = this.at + length;
    if (wanted > this.bytes.length) this.grow(Math.max(wanted, this.bytes.length * 2));
  }

  byte(byte) {
    if (this.at >= this.bytes.length) this.room(1);
    this.bytes[this.at++] = byte;
  }

  count(count) {
    this.room(4);
    this.view.setUint32(this.at, count, true);
    this.at += 4;
  }

  /** A place for a count, which is set later. */
  counted() {
    this.room(4);
    const place = this.at;
    this.at += 4;
    return place;
  }

  text(text) {
    const { length } = text;
    this.room(4 + 3 * length);
    const start = this.at + 4;
    if (length <= SHORT_MAX) {
      let place = 0;
      for (; place < length; place++) {
        const unit = text.charCodeAt(place);
        if (unit > 0x7f) break;
        this.bytes[start + place] = unit;
      }
      if (place === length) {
        this.view.setUint32(this.at, length, true);
        this.at = start + length;
        return;
      }
    }
    if (!text.isWellFormed()) throw invalid(this.field, 'it holds a lone surrogate, which is no text');
    const written = this.bytes.utf8Write(text, start, 3 * length);
    this.view.setUint32(this.at, written, true);
    this.at = start + written;
  }

  name(name) {
    let number = NAMES.get(name);
    if (number === undefined) number = nameNumber(name);
    this.room(2);
    this.view.setUint16(this.at, number < 0 ? INLINE_NAME : number, true);
    this.at += 2;
    if (number < 0) this.text(name);
  }

  number(number) {
    if (!Number.isFinite(number)) throw invalid(this.field, `${number} is no number of JSON`);
    const isInteger = Number.isInteger(number);
    if (isInteger && !Number.isSafeInteger(number)) {
      throw invalid(this.field, `${number} is an integer that a number does not hold exactly: give a BigInt`);
    }
    this.room(9);
    this.bytes[this.at] = isInteger ? 3 : 4;
    this.view.setFloat64(this.at + 1, number, true);
    this.at += 9;
  }

  /** Writes a value. Returns false, and writes nothing, for one that `JSON.stringify` leaves out. */
  value(value, depth) {
    switch (typeof value) {
      case 'string':
        this.byte(5);
        this.text(value);
        return true;
      case 'number':
        this.number(value);
        return true;
      case 'boolean':
        this.byte(value ? 2 : 1);
        return true;
      case 'bigint':
        this.byte(6);
        this.text(value.toString());
        return true;
      case 'object':
        if (value === null) this.byte(0);
        else return this.object(value, depth);
        return true;
      default:
        return false;
    }
  }

  object(value, depth) {
    if (depth > DEPTH_MAX) throw invalid(this.field, 'it is nested more than 63 levels deep');
    if (typeof value.toJSON === 'function') return this.converted(value, depth);
    if (Array.isArray(value)) this.items(value, depth);
    else if (isPlain(value)) this.members(value, depth);
    else return this.other(value, depth);
    return true;
  }

  items(items, depth) {
    this.byte(7);
    this.count(items.length);
    for (let at = 0; at < items.length; at++) if (!this.value(items[at], depth + 1)) this.byte(0);
  }

  members(object, depth) {
    this.byte(8);
    const place = this.counted();
    const names = Object.keys(object);
    let count = 0;
    for (let at = 0; at < names.length; at++) {
      const start = this.at;
      const value = object[names[at]];
      if (value === undefined) continue;
      this.name(names[at]);
      if (this.value(value, depth + 1)) count++;
      else this.at = start;
    }
    this.view.setUint32(place, count, true);
  }

  converted(value, depth) {
    if (value instanceof Date && Number.isNaN(value.getTime())) throw invalid(this.field, 'the date is invalid');
    if (Buffer.isBuffer(value)) return this.other(value, depth);
    return this.value(value.toJSON(), depth + 1);
  }

  /** A value of a class that is not written field by field. */
  other(value, depth) {
    if (value instanceof Map) return this.value(Object.fromEntries(value), depth);
    if (value instanceof Set) return this.value([...value], depth);
    if (value instanceof String || value instanceof Number || value instanceof Boolean) {
      return this.value(value.valueOf(), depth);
    }
    if (value instanceof Error) return this.value({ name: value.name, message: value.message, ...value }, depth);
    if (ArrayBuffer.isView(value) || value instanceof ArrayBuffer) {
      const name = value.constructor.name;
      throw invalid(this.field, `a value of type ${name} has no form in JSON: decode it first`);
    }
    this.members(value, depth);
    return true;
  }

  /** A record: its kind, if it is given beside it, and its fields. */
  record(record, kind) {
    this.field = 'record';
    if (typeof record !== 'object' || record === null || Array.isArray(record)) {
      throw invalid('record', 'it is no object: give one whose members are the fields');
    }
    const number = kind === undefined ? NO_KIND : KINDS.get(kind);
    if (number === undefined) {
      throw invalid('kind', `unknown kind ${JSON.stringify(kind)}: give one of ${[...KINDS.keys()].join(', ')}`);
    }
    this.byte(number);
    this.fields(typeof record.toJSON === 'function' ? record.toJSON() : record);
  }

  /** As an object, but errors name the field. */
  fields(object) {
    this.byte(8);
    const place = this.counted();
    const names = Object.keys(object);
    let count = 0;
    for (let at = 0; at < names.length; at++) {
      const start = this.at;
      const name = names[at];
      const value = object[name];
      if (value === undefined) continue;
      this.field = name;
      this.name(name);
      if (this.value(value, 0)) count++;
      else this.at = start;
    }
    this.view.setUint32(place, count, true);
  }

  /** Writes a record of a batch. What is written of an invalid one is taken back. */
  tryRecord(record, kind) {
    const start = this.at;
    try {
      this.record(record, kind);
      return undefined;
    } catch (error) {
      this.at = start;
      return error;
    }
  }
}

function isPlain(value) {
  const prototype = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}

let kept = new Writer();

/** Writes values, and hands the bytes to the native part. A getter may do so meanwhile. */
function written(write, use) {
  const writer = kept ?? new Writer();
  kept = undefined;
  try {
    writer.at = 0;
    write(writer);
    return native(() => use(writer.bytes, writer.at, writer.view));
  } finally {
    kept = writer.bytes.length > KEPT_BYTES_MAX ? new Writer() : writer;
  }
}

/** Hands a value to the native part; none for `undefined`. */
function withValue(field, value, use) {
  return written((writer) => {
    writer.field = field;
    if (value !== undefined && !writer.value(value, 0)) {
      throw invalid(field, `a ${typeof value} has no form in JSON`);
    }
  }, use);
}

/** Hands named values to the native part. */
const withFields = (fields, use) => written((writer) => writer.fields(fields), use);

/** A text, checked. */
function text(field, value) {
  if (typeof value !== 'string') throw invalid(field, `${shown(value)} is no text`);
  if (!value.isWellFormed()) throw invalid(field, 'it holds a lone surrogate, which is no text');
  return value;
}

/** As `text`; `undefined` for none. */
const optionalText = (field, value) => (value === undefined || value === null ? undefined : text(field, value));

/** An integer in decimal, as the native part takes it. */
function integer(field, value) {
  const isInteger = typeof value === 'bigint' || (typeof value === 'number' && Number.isSafeInteger(value));
  if (!isInteger) throw invalid(field, `${shown(value)} is no integer${typeof value === 'number' ? ' that a number holds exactly' : ''}`);
  return value.toString();
}

/** The id of a record, which is a number or a text. */
const id = (value) => (typeof value === 'string' ? text('id', value) : integer('id', value));

/** A time, as the native part takes it: a `Date`, epoch milliseconds, RFC 3339 or a day. */
function time(field, value) {
  if (value === undefined || value === null) return undefined;
  if (typeof value === 'string') return text(field, value);
  if (!(value instanceof Date)) return integer(field, value);
  if (Number.isNaN(value.getTime())) throw invalid(field, 'the date is invalid');
  return value.toISOString();
}

function shown(value) {
  return typeof value === 'object' && value !== null ? 'an object' : String(value);
}

const MARK = '\0bigint:';
const revived = (_, value) =>
  typeof value === 'string' && value.startsWith(MARK) ? BigInt(value.slice(MARK.length)) : value;

/** A value of JSON that the native part returned. Integers that a number does not hold are `BigInt`s. */
function parsed(json) {
  if (json === null || json === undefined) return null;
  return json.charCodeAt(0) === 0x21 ? JSON.parse(json.slice(1), revived) : JSON.parse(json);
}

module.exports = { Writer, addon, id, integer, optionalText, parsed, text, time, withFields, withValue, written };
