'use strict';
// Clients and models whose requests are recorded.

const { invalid } = require('../errors.js');
const { Log, open } = require('../log.js');
const ai = require('./ai.js');
const anthropic = require('./anthropic.js');
const { Reading, observe } = require('./observe.js');
const openai = require('./openai.js');
const { Cancelled, Recorder } = require('./recorder.js');
const { answer, get, text } = require('./said.js');

/** Records the requests of a client. Returns the same client. */
function wrap(client, options = {}) {
  observe(client, vendorOf(client), recorder(options));
  return client;
}

function recorder({ log, path, conversation, capture, onError }) {
  let into = log;
  if (into === undefined && (capture === undefined || path !== undefined)) {
    const where = path ?? process.env.DECKLOG_STORE;
    if (!where) {
      throw invalid(
        'log',
        'there is no log to record in: give { log: open(PATH) } or { path: PATH }, or set the environment variable DECKLOG_STORE',
      );
    }
    into = open(where);
  }
  return new Recorder({ log: into, conversation, capture, onError });
}

/** The vendor of a client. Names of classes do not tell: bundlers change them. */
function vendorOf(client) {
  if (typeof client?.request === 'function' && typeof client.post === 'function') {
    if (typeof client.chat?.completions?.create === 'function') return openai;
    if (typeof client.messages?.create === 'function') return anthropic;
  }
  const what = typeof client === 'function' ? `the class ${client.name}` : `a ${client?.constructor?.name ?? typeof client}`;
  throw invalid(
    'client',
    `${what} cannot be wrapped: give a client of the package openai or @anthropic-ai/sdk, such as new OpenAI()`,
  );
}

/** Middleware for the models of the package `ai`. */
function decklogMiddleware(where = {}) {
  const into = recorder(where instanceof Log ? { log: where } : where);
  const asked = ({ params, model }) =>
    into.safely(() => into.asked(ai.request(params, model), text(get(model, 'provider')).split('.')[0] || 'ai'));
  return {
    specificationVersion: 'v3',
    async wrapGenerate(given) {
      const exchange = asked(given);
      try {
        const result = await given.doGenerate();
        exchange?.ended(() => ai.answered(result));
        return result;
      } catch (error) {
        exchange?.ended(answer, error);
        throw error;
      }
    },
    async wrapStream(given) {
      const exchange = asked(given);
      try {
        const result = await given.doStream();
        return exchange === undefined ? result : { ...result, stream: read(result.stream, into, exchange) };
      } catch (error) {
        exchange?.ended(answer, error);
        throw error;
      }
    },
  };
}

/** A stream that passes on what it reads. */
function read(stream, into, exchange) {
  const reading = new Reading(exchange, ai.assembler(), into);
  const reader = stream.getReader();
  return new ReadableStream(
    {
      async pull(controller) {
        try {
          const { done, value } = await reader.read();
          if (done) {
            reading.ended();
            controller.close();
          } else {
            reading.chunk(value);
            controller.enqueue(value);
          }
        } catch (error) {
          reading.ended(error);
          controller.error(error);
        }
      },
      cancel(reason) {
        reading.ended(new Cancelled());
        return reader.cancel(reason);
      },
    },
    { highWaterMark: 0 },
  );
}

module.exports = { decklogMiddleware, wrap };
