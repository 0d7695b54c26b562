'use strict';
// Errors. The native part throws them as JSON.

const PREFIX = 'decklog:';

/** An error of the log. Its text says what happened, where, and what to do. */
class DecklogError extends Error {
  constructor(message, { kind = 'error', field, path, key, offset, cause } = {}) {
    super(message, cause === undefined ? undefined : { cause });
    this.kind = kind;
    this.field = field ?? undefined;
    this.path = path ?? undefined;
    this.key = key ?? undefined;
    this.offset = offset ?? undefined;
  }

  /** The kind in the form of the codes of Node. */
  get code() {
    return `DECKLOG_${this.kind.toUpperCase()}`;
  }
}
Object.defineProperty(DecklogError.prototype, 'name', { value: 'DecklogError', writable: true, configurable: true });

const CLASSES = {};
const BY_KIND = new Map();

for (const [name, kind] of [
  ['StoreIOError', 'io'],
  ['InvalidInputError', 'invalid_input'],
  ['NotFoundError', 'not_found'],
  ['LifecycleError', 'lifecycle'],
  ['ConflictError', 'conflict'],
  ['LockedError', 'locked'],
  ['PoisonedError', 'poisoned'],
  ['DamagedError', 'damaged'],
  ['NewerFormatError', 'newer_format'],
  ['NotAStoreError', 'not_a_store'],
  ['ReadOnlyError', 'read_only'],
  ['NetworkFileSystemError', 'network_file_system'],
  ['UserIdKeyError', 'user_id_key'],
  ['QueueFullError', 'queue_full'],
  ['RemoteError', 'remote'],
  ['ClosedError', 'closed'],
]) {
  const made = {
    [name]: class extends DecklogError {
      constructor(message, fields) {
        super(message, { ...fields, kind });
      }
    },
  }[name];
  Object.defineProperty(made.prototype, 'name', { value: name, writable: true, configurable: true });
  CLASSES[name] = made;
  BY_KIND.set(kind, made);
}

/** Some records of a batch were rejected. The others were recorded. */
class BatchError extends DecklogError {
  constructor(results) {
    const errors = results.filter((it) => it instanceof Error);
    const text = `${errors.length} of ${results.length} records were rejected, the first: ${errors[0]?.message}`;
    super(text, { kind: 'batch', cause: errors[0] });
    this.results = results;
  }
}
Object.defineProperty(BatchError.prototype, 'name', { value: 'BatchError', writable: true, configurable: true });

/** The error of what the native part says of it. */
function ofJson(json) {
  const { message, kind } = json;
  const known = BY_KIND.get(kind);
  return known === undefined ? new DecklogError(message, json) : new known(message, json);
}

/** An error that the native part threw. */
function of(error) {
  const text = error?.message;
  if (typeof text === 'string' && text.startsWith(PREFIX)) return ofJson(JSON.parse(text.slice(PREFIX.length)));
  return error;
}

/** Calls the native part. */
function native(work) {
  try {
    return work();
  } catch (error) {
    throw of(error);
  }
}

/** Awaits the native part. */
async function awaited(work) {
  try {
    return await work();
  } catch (error) {
    throw of(error);
  }
}

function invalid(field, message) {
  return new CLASSES.InvalidInputError(`${field}: ${message}`, { field });
}

/** Whether a log is open. What belongs to it shares this. */
class Life {
  isClosed = false;

  check() {
    if (this.isClosed) throw new CLASSES.ClosedError('the log is closed: open it again');
  }
}

module.exports = { DecklogError, BatchError, ...CLASSES, Life, awaited, invalid, native, of, ofJson };
