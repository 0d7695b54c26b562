'use strict';
// Clients of Anthropic do the same when they are wrapped, and the log has what was said.

const assert = require('node:assert/strict');
const { test } = require('node:test');
const fake = require('./fake.js');
const { last, said, same, tokens } = require('./recorded.js');
const { installed } = require('./support.js');

const anthropic = installed('@anthropic-ai/sdk');
const skip = anthropic === undefined && '@anthropic-ai/sdk is not installed';
const make = (url) => new anthropic.Anthropic({ apiKey: 'k', baseURL: url, maxRetries: 0 });

const ASKED = [{ role: 'user', content: 'How long is main.rs?' }];
const TEXT = { type: 'text', text: '12 lines.' };
const SAID = [['system', 'Be short.'], ['user', 'How long is main.rs?'], ['assistant', '12 lines.']];
const given = (more) => ({ model: 'claude-5', max_tokens: 100, system: 'Be short.', messages: ASKED, ...more });
const ask = (more) => (client) => client.messages.create(given(more));

test('a message is recorded', { skip }, async (t) => {
  const log = await same(t, make, ask(), fake.message([{ type: 'thinking', thinking: 'Count.', signature: 's' }, TEXT]));
  assert.deepEqual(said(log), SAID);
  const answer = last(log);
  assert.deepEqual([answer.reasoning, answer.model_used, ...tokens(answer)], ['Count.', 'claude-5-2026', 20, 9, 12, 3, undefined]);
});

test('streams are recorded', { skip }, async (t) => {
  const reply = { events: fake.messageEvents([{ type: 'thinking', thinking: 'Count.' }, TEXT]) };
  for (const streamed of [
    ask({ stream: true }),
    (client) => client.beta.messages.create(given({ stream: true })),
    async (client) => (await client.messages.stream(given()).finalMessage()).content,
  ]) {
    const log = await same(t, make, streamed, reply);
    assert.deepEqual(said(log), SAID);
    assert.deepEqual([last(log).error, last(log).reasoning, ...tokens(last(log))], [undefined, 'Count.', 20, 9, 12, 3, undefined]);
  }
});

test('tool calls are recorded with their results', { skip }, async (t) => {
  const block = { type: 'text', text: 'I will look.' };
  for (const [stream, reply] of [
    [false, fake.message([block, fake.TOOL_USE], 'tool_use')],
    [true, { events: fake.messageEvents([block, fake.TOOL_USE], 'tool_use') }],
  ]) {
    const loop = async (client) => {
      const first = await ask({ stream })(client);
      if (stream) for await (const _ of first);
      const result = { type: 'tool_result', tool_use_id: 'toolu_1', content: 'no such file', is_error: true };
      const messages = [...ASKED, { role: 'assistant', content: [block, fake.TOOL_USE] }, { role: 'user', content: [result] }];
      return client.messages.create(given({ messages }));
    };
    const log = await same(t, make, loop, reply, fake.message([TEXT]));
    const [call] = log.toolCalls();
    assert.deepEqual(
      [call.vendor, call.tool_name, call.status, call.arguments_json, call.error_kind, call.error_msg],
      ['anthropic', 'count_lines', 'failed', { path: 'main.rs' }, 'tool_error', 'no such file'],
    );
    assert.deepEqual([...log.messages()].map((it) => it.role), ['system', 'user', 'assistant', 'tool', 'assistant']);
  }
});

test('failures and cancelled streams are recorded', { skip }, async (t) => {
  const body = { type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } };
  const failed = await same(t, make, ask(), { status: 529, body });
  assert.deepEqual([last(failed).error_type, last(failed).inference_metadata.status_code], ['OverloadedError', 529]);
  const events = fake.messageEvents([TEXT]).slice(0, 3);
  const left = async (client) => {
    for await (const it of await ask({ stream: true })(client)) if (it.type === 'content_block_delta') return it;
  };
  const log = await same(t, make, left, { events, waits: true });
  assert.deepEqual([last(log).content, last(log).error_type], ['12 ', 'cancelled']);
  const aborted = async (client) => {
    const stream = client.messages.stream(given());
    stream.on('text', () => stream.abort());
    return stream.finalMessage();
  };
  assert.equal(last(await same(t, make, aborted, { events, waits: true })).error_type, 'cancelled');
});
