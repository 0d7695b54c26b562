'use strict';
// Observes a client of an SDK. Its methods return and throw what they did before.
//
// A client sends each request through its method `request`, and retries within it. That method is
// replaced on the one client, so that all ways of asking are recorded alike.

const { Cancelled } = require('./recorder.js');
const { answer, text } = require('./said.js');

const ORIGINALS = Symbol('decklog');

/** Streams that nobody reads to their end. */
const DROPPED = new FinalizationRegistry((reading) => reading.ended(new Cancelled()));

/** Records the requests of a client and of its copies. A recorder that it had is replaced. */
function observe(client, vendor, recorder) {
  const originals = client[ORIGINALS] ?? { request: client.request, withOptions: client.withOptions };
  define(client, ORIGINALS, originals);
  define(client, 'request', function request(options, ...rest) {
    let exchange;
    const seen = Promise.resolve(options).then((given) => {
      exchange = recorder.safely(() => asked(vendor, recorder, given));
      return given;
    });
    const promise = originals.request.call(client, seen, ...rest);
    recorder.safely(() => follow(promise, vendor, recorder, () => exchange));
    return promise;
  });
  if (typeof originals.withOptions !== 'function') return;
  define(client, 'withOptions', function withOptions(...given) {
    const copied = originals.withOptions.apply(client, given);
    recorder.safely(() => observe(copied, vendor, recorder));
    return copied;
  });
}

function define(object, name, value) {
  Object.defineProperty(object, name, { value, configurable: true, enumerable: false, writable: true });
}

function asked(vendor, recorder, options) {
  if (text(options?.method).toLowerCase() !== 'post') return undefined;
  const path = text(options.path).split('?')[0].replace(/\/$/, '');
  const found = vendor.request(path, options.body);
  return found === undefined ? undefined : recorder.asked(found, vendor.name);
}

/** Sees what a promise of an SDK becomes. Its response and the parser of it are members of it. */
function follow(promise, vendor, recorder, exchange) {
  const { responsePromise, parseResponse } = promise;
  promise.responsePromise = responsePromise.then(
    (props) => {
      recorder.safely(() => exchange() && readBy(props.response, vendor, recorder, exchange()));
      return props;
    },
    (error) => {
      exchange()?.ended(answer, error);
      throw error;
    },
  );
  promise.parseResponse = async (...given) => {
    try {
      const parsed = await parseResponse.apply(promise, given);
      recorder.safely(() => exchange() && parsed !== null && received(parsed, vendor, recorder, exchange()));
      return parsed;
    } catch (error) {
      exchange()?.ended(answer, error);
      throw error;
    }
  };
}

/** A response that the caller reads instead of what the SDK makes of it. */
function readBy(response, vendor, recorder, exchange) {
  const isJson = text(response?.headers?.get?.('content-type')).includes('json');
  if (!isJson) return;
  for (const name of ['json', 'text']) {
    const read = response[name];
    define(response, name, async function () {
      const found = await read.call(response);
      recorder.safely(() => {
        const body = typeof found === 'string' ? JSON.parse(found) : found;
        exchange.ended(() => vendor.answered(exchange.what, body));
      });
      return found;
    });
  }
}

function received(it, vendor, recorder, exchange) {
  if (typeof it.iterator === 'function' && it.controller !== undefined) stream(it, vendor, recorder, exchange);
  else if (!(it instanceof Response)) exchange.ended(() => vendor.answered(exchange.what, it));
}

function stream(it, vendor, recorder, exchange) {
  const reading = new Reading(exchange, vendor.assembler(exchange.what), recorder, it.controller?.signal);
  const { iterator } = it;
  it.iterator = () => reading.iterate(iterator.call(it));
  DROPPED.register(it, reading);
}

/** A stream while it is read. */
class Reading {
  #exchange;
  #assembler;
  #recorder;
  #signal;

  constructor(exchange, assembler, recorder, signal) {
    this.#exchange = exchange;
    this.#assembler = assembler;
    this.#recorder = recorder;
    this.#signal = signal;
  }

  /** A chunk was received. */
  chunk(chunk) {
    this.#recorder.safely(() => this.#assembler.add(chunk));
  }

  /** The stream has ended: by itself, by an error, or because it was closed or dropped. */
  ended(error) {
    const isComplete = this.#recorder.safely(() => this.#assembler.isComplete());
    // The SDKs end a stream without an error when it is aborted.
    let why = error ?? (this.#signal?.aborted && !isComplete ? new Cancelled() : undefined);
    if (why instanceof Cancelled && isComplete) why = undefined;
    this.#exchange.ended(() => this.#assembler.answer(), why);
  }

  /** The chunks of a stream, as the SDK reads them. */
  iterate(chunks) {
    const observed = async (step) => {
      let result;
      try {
        result = await step();
      } catch (error) {
        this.ended(error);
        throw error;
      }
      if (result.done) this.ended();
      else this.chunk(result.value);
      return result;
    };
    return {
      next: (...given) => observed(() => chunks.next(...given)),
      return: (...given) => {
        this.ended(new Cancelled());
        return chunks.return?.(...given) ?? Promise.resolve({ done: true, value: given[0] });
      },
      throw: (error) => {
        this.ended(error);
        return chunks.throw?.(error) ?? Promise.reject(error);
      },
      [Symbol.asyncIterator]() {
        return this;
      },
    };
  }
}

module.exports = { Reading, observe };
