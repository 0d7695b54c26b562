'use strict';
// Models of the AI SDK do the same with the middleware, and the log has what was said.

const assert = require('node:assert/strict');
const { test } = require('node:test');
const fake = require('./fake.js');
const { into, last, said, tokens } = require('./recorded.js');
const { installed } = require('./support.js');
const { decklogMiddleware } = require('..');

const ai = installed('ai');
const provider = installed('@ai-sdk/openai');
const zod = installed('zod');
const skip = (ai === undefined || provider === undefined || zod === undefined) && 'ai is not installed';

const SAID = [['system', 'Be short.'], ['user', 'How long is main.rs?'], ['assistant', '12 lines.']];

/** A model that records, and what it records in. */
async function wrapped(t, ...replies) {
  const server = await fake.start(t, replies);
  const { log, capture, lost } = into(t);
  const model = provider.createOpenAI({ apiKey: 'k', baseURL: `${server.url}/v1` }).chat('gpt-5');
  const recorded = ai.wrapLanguageModel({ model, middleware: decklogMiddleware({ capture }) });
  return { given: { model: recorded, system: 'Be short.', prompt: 'How long is main.rs?', maxRetries: 0 }, log, capture, lost };
}

test('a generated text is recorded', { skip }, async (t) => {
  const { given, log, capture, lost } = await wrapped(t, fake.chat());
  assert.equal((await ai.generateText(given)).text, '12 lines.');
  await capture.flush();
  assert.deepEqual(said(log), SAID);
  assert.deepEqual([last(log).model_used, ...tokens(last(log))], ['gpt-5-2026', 20, 9, 12, undefined, 4]);
  assert.deepEqual(lost, []);
});

test('a streamed text is recorded', { skip }, async (t) => {
  const { given, log, capture } = await wrapped(t, { events: fake.CHAT_EVENTS });
  let text = '';
  for await (const piece of ai.streamText(given).textStream) text += piece;
  assert.equal(text, '12 lines.');
  await capture.flush();
  assert.deepEqual(said(log), SAID);
  assert.deepEqual([last(log).error, ...tokens(last(log))], [undefined, 20, 9, 12, undefined, 4]);
});

for (const isStream of [false, true]) {
  test(`the tools of a ${isStream ? 'stream' : 'text'} are recorded`, { skip }, async (t) => {
    const replies = isStream ? [{ events: fake.CHAT_CALL_EVENTS }, { events: fake.CHAT_EVENTS }] : [fake.chat(null, [fake.CALL]), fake.chat()];
    const { given, log, capture } = await wrapped(t, ...replies);
    const tools = { count_lines: ai.tool({ inputSchema: zod.z.object({ path: zod.z.string() }), execute: async () => ({ lines: 12 }) }) };
    const asked = { ...given, tools, stopWhen: ai.stepCountIs(3) };
    const text = isStream ? await ai.streamText(asked).text : (await ai.generateText(asked)).text;
    assert.equal(text, '12 lines.');
    await capture.flush();
    const [call] = log.toolCalls();
    assert.deepEqual(
      [call.vendor, call.tool_name, call.status, call.arguments_json, call.outcome_json],
      ['openai', 'count_lines', 'completed', { path: 'main.rs' }, { lines: 12 }],
    );
    assert.equal(log.conversations().toArray().length, 1);
    assert.deepEqual([...log.messages()].map((it) => it.role), ['system', 'user', 'assistant', 'tool', 'assistant']);
  });
}

test('failures and cancelled streams are recorded', { skip }, async (t) => {
  const failing = await wrapped(t, { status: 500, body: { error: { message: 'Broken.', type: 'server_error' } } });
  await assert.rejects(ai.generateText(failing.given), { message: 'Broken.' });
  await failing.capture.flush();
  assert.deepEqual([last(failing.log).error_type, last(failing.log).error], ['AI_APICallError', 'Broken.']);
  const cancelled = await wrapped(t, { events: fake.CHAT_EVENTS.slice(0, 2), waits: true });
  const controller = new AbortController();
  const stream = ai.streamText({ ...cancelled.given, abortSignal: controller.signal, onError() {} });
  for await (const part of stream.fullStream) if (part.type === 'text-delta') controller.abort();
  // The stream is cancelled in the background.
  for (let n = 0; n < 100 && last(cancelled.log)?.error_type === undefined; n++) {
    await new Promise((resolve) => setTimeout(resolve, 50));
    await cancelled.capture.flush();
  }
  assert.deepEqual([last(cancelled.log).content, last(cancelled.log).error_type], ['12 ', 'cancelled']);
});
