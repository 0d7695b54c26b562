'use strict';
// Clients of OpenAI do the same when they are wrapped, and the log has what was said.

const assert = require('node:assert/strict');
const { test } = require('node:test');
const fake = require('./fake.js');
const { into, last, said, same, tokens } = require('./recorded.js');
const { installed } = require('./support.js');
const { wrap } = require('..');

const openai = installed('openai');
const skip = openai === undefined && 'openai is not installed';
const make = (url) => new openai.OpenAI({ apiKey: 'k', baseURL: `${url}/v1`, maxRetries: 0 });

const ASKED = [
  { role: 'system', content: 'Be short.' },
  { role: 'user', content: 'How long is main.rs?' },
];
const SAID = [['system', 'Be short.'], ['user', 'How long is main.rs?'], ['assistant', '12 lines.']];
const ask = (more) => (client) => client.chat.completions.create({ model: 'gpt-5', messages: ASKED, ...more });

test('a completion is recorded', { skip }, async (t) => {
  const log = await same(t, make, ask(), fake.chat());
  assert.deepEqual(said(log), SAID);
  const answer = last(log);
  assert.deepEqual(tokens(answer), [20, 9, 12, undefined, 4]);
  assert.deepEqual([answer.model_used, answer.inference_metadata.finish_reason, answer.inference_metadata.response_id], ['gpt-5-2026', 'stop', 'chatcmpl-1']);
  assert.ok(answer.latency_ms >= 0);
  const [conversation] = log.conversations();
  assert.deepEqual([conversation.title, conversation.client], ['How long is main.rs?', 'api']);
  const turns = log.turns().toArray();
  assert.deepEqual(turns.map((it) => it.parent_id), [undefined, turns[0].id, turns[1].id]);
  assert.ok(turns.every((it) => it.thread_id === conversation.id));
});

test('a streamed completion is recorded', { skip }, async (t) => {
  const log = await same(t, make, ask({ stream: true, stream_options: { include_usage: true } }), { events: fake.CHAT_EVENTS });
  assert.deepEqual(said(log), SAID);
  assert.deepEqual(tokens(last(log)), [20, 9, 12, undefined, 4]);
  assert.equal(last(log).error, undefined);
});

test('helpers are recorded', { skip }, async (t) => {
  const streamed = async (client) => (await client.chat.completions.stream({ model: 'gpt-5', messages: ASKED }).finalChatCompletion()).choices;
  assert.deepEqual(said(await same(t, make, streamed, { events: fake.CHAT_EVENTS })), SAID);
  const parsed = (client) => client.chat.completions.parse({ model: 'gpt-5', messages: ASKED });
  assert.deepEqual(said(await same(t, make, parsed, fake.chat())), SAID);
  const both = async (client) => {
    const { data, response } = await ask()(client).withResponse();
    return [data, response.status];
  };
  assert.deepEqual(said(await same(t, make, both, fake.chat())), SAID);
  const raw = async (client) => (await ask()(client).asResponse()).json();
  assert.deepEqual(said(await same(t, make, raw, fake.chat())), SAID);
  const teed = async (client) => {
    const [left, right] = (await ask({ stream: true })(client)).tee();
    const all = [[], []];
    for await (const it of left) all[0].push(it);
    for await (const it of right) all[1].push(it);
    return all;
  };
  assert.deepEqual(said(await same(t, make, teed, { events: fake.CHAT_EVENTS })), SAID);
});

for (const [how, reply, stream] of [
  ['a completion', fake.chat(null, [fake.CALL]), false],
  ['a stream', { events: fake.CHAT_CALL_EVENTS }, true],
]) {
  test(`tool calls of ${how} are recorded with their results`, { skip }, async (t) => {
    const loop = async (client) => {
      const first = await ask({ stream })(client);
      if (stream) for await (const _ of first);
      const answer = { role: 'assistant', content: null, tool_calls: [fake.CALL] };
      const result = { role: 'tool', tool_call_id: 'call_1', content: '12' };
      return client.chat.completions.create({ model: 'gpt-5', messages: [...ASKED, answer, result] });
    };
    const log = await same(t, make, loop, reply, fake.chat());
    const [call] = log.toolCalls();
    assert.deepEqual(
      [call.tool_name, call.call_id, call.vendor, call.status, call.arguments_json, call.outcome_json],
      ['count_lines', 'call_1', 'openai', 'completed', { path: 'main.rs' }, '12'],
    );
    assert.equal(log.conversations().toArray().length, 1);
    assert.deepEqual([...log.messages()].map((it) => it.role), ['system', 'user', 'assistant', 'tool', 'assistant']);
    assert.equal(log.messages({ role: 'tool' }).first().tool_result, '12');
  });
}

test('failures are recorded', { skip }, async (t) => {
  const body = { error: { message: 'Slow down.', type: 'rate_limit', code: 'rate_limited' } };
  const log = await same(t, make, ask(), { status: 429, body });
  const answer = last(log);
  assert.deepEqual([answer.role, answer.error_type, answer.error], ['assistant', 'RateLimitError', '429 Slow down.']);
  assert.deepEqual([answer.inference_metadata.status_code, answer.inference_metadata.code], [429, 'rate_limited']);
  assert.equal(log.conversations().first().status, 'error');
  const unreachable = () => new openai.OpenAI({ apiKey: 'k', baseURL: 'http://127.0.0.1:1/v1', maxRetries: 0 });
  assert.equal(last(await same(t, unreachable, ask(), {})).error_type, 'APIConnectionError');
});

test('a stream that is cut, an error in it, and a cancelled one are recorded as far as they came', { skip }, async (t) => {
  const events = fake.CHAT_EVENTS.slice(0, 3);
  const cut = await same(t, make, ask({ stream: true }), { events, isCut: true });
  assert.deepEqual(said(cut)[2], ['assistant', '12 lines.']);
  assert.equal(typeof last(cut).error_type, 'string');
  const failing = await same(t, make, ask({ stream: true }), { events: [...events, { error: { message: 'no' } }] });
  assert.equal(last(failing).error_type, 'APIError');
  const left = async (client) => {
    for await (const it of await ask({ stream: true })(client)) if (it.choices[0].delta.content === '12 ') return it;
  };
  const broken = await same(t, make, left, { events, waits: true });
  assert.deepEqual([last(broken).content, last(broken).error_type], ['12 ', 'cancelled']);
  const aborted = async (client) => {
    const stream = await ask({ stream: true })(client);
    for await (const it of stream) if (it.choices[0].delta.content === '12 ') stream.controller.abort();
  };
  assert.equal(last(await same(t, make, aborted, { events, waits: true })).error_type, 'cancelled');
  const signalled = async (client) => {
    // Long enough for the request to arrive on a busy machine.
    const signal = AbortSignal.timeout(1000);
    return client.chat.completions.create({ model: 'gpt-5', messages: ASKED }, { signal });
  };
  const timely = await same(t, make, signalled, { events: [], waits: true });
  assert.equal(typeof last(timely).error_type, 'string');
});

test('a response is recorded, and continued', { skip }, async (t) => {
  const items = [fake.REASONING, fake.textItem('12 lines.')];
  const loop = async (client) => {
    const first = await client.responses.create({ model: 'gpt-5', instructions: 'Be short.', input: 'How long is main.rs?' });
    return client.responses.create({ model: 'gpt-5', previous_response_id: first.id, input: 'And lib.rs?' });
  };
  const log = await same(t, make, loop, { body: fake.responseBody(items) }, { body: fake.responseBody([fake.textItem('5.')], 'resp_2') });
  assert.deepEqual(said(log), [...SAID, ['user', 'And lib.rs?'], ['assistant', '5.']]);
  const answer = [...log.messages()][2];
  assert.deepEqual([answer.reasoning, ...tokens(answer)], ['Count them.', 20, 9, 12, undefined, 4]);
  assert.equal(log.conversations().toArray().length, 1);
});

test('a streamed response and its calls are recorded', { skip }, async (t) => {
  const items = [fake.textItem('I will look.'), fake.CALL_ITEM];
  const streamed = (client) => client.responses.create({ model: 'gpt-5', input: 'How long?', stream: true });
  const log = await same(t, make, streamed, { events: fake.responseEvents(items) });
  assert.equal(last(log).content, 'I will look.');
  assert.deepEqual(log.toolCalls().first().arguments_json, { path: 'main.rs' });
  const cut = await same(t, make, streamed, { events: fake.responseEvents(items).slice(0, 4), isCut: true });
  assert.equal(last(cut).content, 'I will look.');
});

test('copies are recorded, other requests are not', { skip }, async (t) => {
  const { log, capture } = into(t);
  const server = await fake.start(t, [fake.chat()]);
  const client = wrap(make(server.url), { capture });
  await ask()(client.withOptions({ timeout: 5000 }));
  await client.models.list().catch(() => {});
  await client.embeddings.create({ model: 'e', input: 'x', encoding_format: 'float' });
  await capture.flush();
  assert.deepEqual(said(log), SAID);
});

test('a conversation that is named goes on, also in another client', { skip }, async (t) => {
  const { log, capture } = into(t);
  const server = await fake.start(t, [fake.chat()]);
  await ask()(wrap(make(server.url), { log, capture, conversation: 'ticket-7' }));
  await capture.flush();
  const messages = [...ASKED, { role: 'assistant', content: '12 lines.' }, { role: 'user', content: 'And lib.rs?' }];
  await make(server.url).chat.completions.create({ model: 'gpt-5', messages });
  await wrap(make(server.url), { log, capture, conversation: 'ticket-7' }).chat.completions.create({ model: 'gpt-5', messages });
  await capture.flush();
  assert.deepEqual(said(log), [...SAID, ['user', 'And lib.rs?'], ['assistant', '12 lines.']]);
  assert.equal(log.conversations().first().session_id, 'ticket-7');
});

test('an error of the log is told, and changes nothing', { skip }, async (t) => {
  const { log, capture } = into(t);
  const server = await fake.start(t, [fake.chat()]);
  const lost = [];
  const client = wrap(make(server.url), { capture, onError: (error) => lost.push(error.kind) });
  capture.close();
  const warned = new Promise((resolve) => process.once('warning', resolve));
  const answer = await ask()(client);
  assert.equal(answer.choices[0].message.content, '12 lines.');
  assert.equal((await warned).name, 'DecklogWarning');
  assert.ok(lost.length > 0 && lost.every((it) => it === 'closed'));
  assert.equal(log.messages().first(), undefined);
});

test('what is no client is refused', (t) => {
  for (const client of [undefined, {}, 5, class OpenAI {}]) assert.throws(() => wrap(client, { path: '/nowhere' }), { field: 'client' });
  if (openai !== undefined) assert.throws(() => wrap(make('http://127.0.0.1:1')), { field: 'log' });
  t.diagnostic('refused');
});
