'use strict';
// Values as bytes, which the native part reads: see `src/wire.rs`. Nothing that has no form in JSON
// passes unnoticed.

const { Buffer } = require('node:buffer');
const { types } = require('node:util');
const { invalid, native } = require('./errors.js');
const addon = require('./native.js').load();

/** Deeper values are refused by the log too. */
const DEPTH_MAX = 63;
/** From here on, numbers are no integers of any width. */
const INTEGER_END = 2 ** 64;
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

/** A value as it was when it was written. */
class Written {
  constructor(value) {
    this.bytes = written(
      (writer) => {
        writer.field = 'value';
        // What is put into lists that may be members.
        if (!writer.value(value, 2)) writer.byte(0);
      },
      (bytes, length) => Buffer.from(bytes.subarray(0, length)),
    );
  }
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

  /** What another one wrote. */
  append(bytes, length) {
    this.room(length);
    bytes.copy(this.bytes, this.at, 0, length);
    this.at += length;
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
    const isInteger = Number.isInteger(number) && Math.abs(number) < INTEGER_END;
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
    // As by `JSON.stringify`, what `toJSON` returns is not converted again.
    if (typeof value.toJSON === 'function' && !Buffer.isBuffer(value)) {
      if (value instanceof Date && Number.isNaN(value.getTime())) throw invalid(this.field, 'the date is invalid');
      const converted = value.toJSON();
      if (typeof converted !== 'object' || converted === null) return this.value(converted, depth);
      return this.nested(converted, depth);
    }
    return this.nested(value, depth);
  }

  nested(value, depth) {
    if (Array.isArray(value)) return this.items(value, depth);
    return isPlain(value) ? this.members(value, depth) : this.other(value, depth);
  }

  /** Checks the number of lists and objects around one. */
  checkDepth(depth) {
    if (depth >= DEPTH_MAX) throw invalid(this.field, `it is nested more than ${DEPTH_MAX} levels deep`);
  }

  items(items, depth) {
    this.checkDepth(depth);
    this.byte(7);
    const { length } = items;
    this.count(length);
    for (let at = 0; at < length; at++) if (!this.value(items[at], depth + 1)) this.byte(0);
    return true;
  }

  members(object, depth) {
    this.checkDepth(depth);
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
    return true;
  }

  /** A value of a class that is not written field by field. */
  other(value, depth) {
    if (value instanceof Written) {
      this.append(value.bytes, value.bytes.length);
      return true;
    }
    if (value instanceof Map) return this.members(this.ofMap(value), depth);
    if (value instanceof Set) return this.items([...value], depth);
    if (value instanceof String || value instanceof Number || value instanceof Boolean) {
      return this.value(value.valueOf(), depth);
    }
    if (value instanceof Error) return this.members({ name: value.name, message: value.message, ...value }, depth);
    if (types.isPromise(value)) throw invalid(this.field, 'a promise has no form in JSON: await it first');
    if (value instanceof BigInt || value instanceof Symbol) {
      throw invalid(this.field, `an object of type ${typeof value.valueOf()} has no form in JSON`);
    }
    if (ArrayBuffer.isView(value) || value instanceof ArrayBuffer) {
      const name = value.constructor.name;
      throw invalid(this.field, `a value of type ${name} has no form in JSON: decode it first`);
    }
    return this.members(value, depth);
  }

  /** A map as an object, which has the same entries. */
  ofMap(map) {
    for (const key of map.keys()) {
      if (typeof key === 'string' || (typeof key === 'number' && !map.has(String(key)))) continue;
      const what = typeof key === 'number' ? `both ${key} and "${key}"` : `a key of type ${typeof key}`;
      throw invalid(this.field, `a Map with ${what} has no form in JSON`);
    }
    return Object.fromEntries(map);
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

const MARK = '\0bigint:';
/** Undoes the marks of the native part. Other texts that begin with U+0000 have one more. */
function revived(_, value) {
  if (typeof value !== 'string' || value.charCodeAt(0) !== 0) return value;
  return value.startsWith(MARK) ? BigInt(value.slice(MARK.length)) : value.slice(1);
}

/** A value of JSON that the native part returned. Integers that a number does not hold are `BigInt`s. */
function parsed(json) {
  if (json === null || json === undefined) return null;
  return json.charCodeAt(0) === 0x21 ? JSON.parse(json.slice(1), revived) : JSON.parse(json);
}

module.exports = { Writer, Written, addon, parsed, withFields, withValue, written };
