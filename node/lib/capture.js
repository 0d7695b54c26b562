'use strict';
// Recording without waiting.

const checked = require('./checked.js');
const { awaited, invalid, native, ofJson } = require('./errors.js');
const { atExit } = require('./exit.js');
const { parsed, written } = require('./wire.js');

/** The native handle of a capture, for runs that record through it. */
function nativeOf(capture) {
  if (!(capture instanceof Capture)) throw invalid('through', 'it is no capture: give one that log.capture() made');
  return Capture.native(capture);
}

/** Records without waiting. Made by `Log.capture`. */
class Capture {
  #native;
  #forget;

  constructor(log, options = {}) {
    checked.options(options, 'queueRecordsMax', 'queueBytesMax', 'whenFull', 'drainTimeoutMs', 'onError');
    const { whenFull = 'refuse' } = options;
    if (whenFull !== 'refuse' && whenFull !== 'wait') {
      throw invalid('whenFull', `unknown policy ${JSON.stringify(whenFull)}: give refuse or wait`);
    }
    const onError = checked.optionalFunction('onError', options.onError);
    const given = [
      checked.count('queueRecordsMax', options.queueRecordsMax),
      checked.count('queueBytesMax', options.queueBytesMax, Number.MAX_SAFE_INTEGER),
      whenFull === 'wait',
      checked.milliseconds('drainTimeoutMs', options.drainTimeoutMs),
      onError && ((json) => tell(onError, json)),
    ];
    this.#native = native(() => log.capture(...given));
    this.#forget = atExit(this);
  }

  static native(capture) {
    return capture.#native;
  }

  record(record, options) {
    const id = written(
      (writer) => writer.record(record, checked.kindOf(options)),
      (bytes, length) => this.#native.record(bytes, length),
    );
    return id ?? undefined;
  }

  request(conversation, messages = []) {
    written(
      (writer) => {
        const all = [...messages];
        writer.fields(conversation);
        writer.count(all.length);
        for (const message of all) writer.fields(message);
      },
      (bytes, length) => this.#native.request(bytes, length),
    );
  }

  async flush() {
    await awaited(() => this.#native.flushAsync());
  }

  flushSync() {
    native(() => this.#native.flush());
  }

  stats() {
    return parsed(native(() => this.#native.stats()));
  }

  lastError() {
    const json = native(() => this.#native.lastError());
    return json === null ? undefined : ofJson(JSON.parse(json));
  }

  close() {
    this.#forget();
    this.#native.close();
  }

  async closeAsync() {
    this.#forget();
    await awaited(() => this.#native.closeAsync());
  }

  /** At exit. */
  drain() {
    this.close();
  }

  [Symbol.dispose]() {
    this.close();
  }

  async [Symbol.asyncDispose]() {
    await this.closeAsync();
  }
}

function tell(onError, json) {
  const [error, kind, key] = JSON.parse(json);
  onError(ofJson(error), kind, key);
}

module.exports = { Capture, nativeOf };
