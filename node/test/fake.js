'use strict';
// A server that answers like OpenAI and Anthropic, by a script.

const http = require('node:http');

/**
 * Starts it. Each request gets the next of the replies, the last one again and again. A reply has a
 * `body` or `events`; `isCut`: the connection ends after the events; `waits`: nothing follows them.
 */
async function start(t, replies) {
  const requests = [];
  const server = http.createServer(async (request, response) => {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    requests.push([request.url, JSON.parse(Buffer.concat(chunks).toString() || 'null')]);
    const reply = replies.length > 1 ? replies.shift() : replies[0];
    if (reply.events === undefined) {
      response.writeHead(reply.status ?? 200, { 'content-type': 'application/json', 'x-request-id': 'req_1', 'request-id': 'req_1' });
      response.end(JSON.stringify(reply.body));
      return;
    }
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    for (const event of reply.events) {
      const text = typeof event === 'string' ? event : JSON.stringify(event);
      response.write(`${event.type ? `event: ${event.type}\n` : ''}data: ${text}\n\n`);
      await new Promise((resolve) => setImmediate(resolve));
    }
    if (reply.isCut) response.destroy();
    else if (!reply.waits) response.end();
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${server.address().port}`, requests };
}

// OpenAI, Chat Completions.

const CHAT_USAGE = {
  prompt_tokens: 20,
  completion_tokens: 9,
  total_tokens: 29,
  prompt_tokens_details: { cached_tokens: 12 },
  completion_tokens_details: { reasoning_tokens: 4 },
};
const CALL = { id: 'call_1', type: 'function', function: { name: 'count_lines', arguments: '{"path": "main.rs"}' } };
const CHAT = { id: 'chatcmpl-1', created: 1, model: 'gpt-5-2026' };

const chat = (content = '12 lines.', calls = undefined) => ({
  body: {
    ...CHAT,
    object: 'chat.completion',
    choices: [{ index: 0, message: { role: 'assistant', content, tool_calls: calls }, finish_reason: calls ? 'tool_calls' : 'stop' }],
    usage: CHAT_USAGE,
  },
});

const chunk = (delta, finish_reason = null, usage = undefined) => ({
  ...CHAT,
  object: 'chat.completion.chunk',
  choices: delta === null ? [] : [{ index: 0, delta, finish_reason }],
  usage,
});

const CHAT_EVENTS = [
  chunk({ role: 'assistant', content: '' }),
  chunk({ content: '12 ' }),
  chunk({ content: 'lines.' }),
  chunk({}, 'stop'),
  chunk(null, null, CHAT_USAGE),
  '[DONE]',
];

const CHAT_CALL_EVENTS = [
  chunk({ role: 'assistant', content: null }),
  chunk({ tool_calls: [{ index: 0, ...CALL, function: { name: 'count_lines', arguments: '' } }] }),
  chunk({ tool_calls: [{ index: 0, function: { arguments: '{"path": ' } }] }),
  chunk({ tool_calls: [{ index: 0, function: { arguments: '"main.rs"}' } }] }),
  chunk({}, 'tool_calls'),
  '[DONE]',
];

// OpenAI, Responses.

const RESPONSE_USAGE = {
  input_tokens: 20,
  output_tokens: 9,
  total_tokens: 29,
  input_tokens_details: { cached_tokens: 12 },
  output_tokens_details: { reasoning_tokens: 4 },
};
const REASONING = { type: 'reasoning', id: 'rs_1', summary: [{ type: 'summary_text', text: 'Count them.' }] };
const CALL_ITEM = { type: 'function_call', id: 'fc_1', call_id: 'call_1', name: 'count_lines', arguments: '{"path": "main.rs"}', status: 'completed' };
const textItem = (text) => ({
  type: 'message',
  id: 'msg_1',
  role: 'assistant',
  status: 'completed',
  content: [{ type: 'output_text', text, annotations: [] }],
});
const responseBody = (output, id = 'resp_1', more = {}) => ({
  id,
  object: 'response',
  created_at: 1,
  status: 'completed',
  model: 'gpt-5-2026',
  output,
  usage: RESPONSE_USAGE,
  ...more,
});
const responseEvents = (items, id = 'resp_1') => [
  { type: 'response.created', sequence_number: 0, response: responseBody([], id, { status: 'in_progress', usage: null }) },
  ...items.flatMap((item, output_index) => [
    { type: 'response.output_item.added', output_index, item: { ...item, content: [], status: 'in_progress' } },
    ...(item.type === 'message'
      ? [
          { type: 'response.content_part.added', output_index, item_id: item.id, content_index: 0, part: { type: 'output_text', text: '', annotations: [] } },
          { type: 'response.output_text.delta', output_index, item_id: item.id, content_index: 0, delta: item.content[0].text },
        ]
      : []),
    { type: 'response.output_item.done', output_index, item },
  ]),
  { type: 'response.completed', response: responseBody(items, id) },
];

// Anthropic.

const USAGE = { input_tokens: 5, output_tokens: 9, cache_read_input_tokens: 12, cache_creation_input_tokens: 3 };
const TOOL_USE = { type: 'tool_use', id: 'toolu_1', name: 'count_lines', input: { path: 'main.rs' } };
const message = (content, stop_reason = 'end_turn') => ({
  body: { id: 'msg_1', type: 'message', role: 'assistant', model: 'claude-5-2026', content, stop_reason, stop_sequence: null, usage: USAGE },
});
const messageEvents = (blocks, stop_reason = 'end_turn') => [
  { type: 'message_start', message: { ...message([], null).body, usage: { ...USAGE, output_tokens: 1 } } },
  ...blocks.flatMap((block, index) => [
    { type: 'content_block_start', index, content_block: { ...block, ...(block.type === 'tool_use' ? { input: {} } : { [block.type]: '' }) } },
    ...(block.type === 'tool_use'
      ? ['{"path": ', '"main.rs"}'].map((partial_json) => ({ type: 'content_block_delta', index, delta: { type: 'input_json_delta', partial_json } }))
      : [block[block.type].slice(0, 3), block[block.type].slice(3)].map((text) => ({ type: 'content_block_delta', index, delta: { type: `${block.type}_delta`, [block.type]: text } }))),
    { type: 'content_block_stop', index },
  ]),
  { type: 'message_delta', delta: { stop_reason, stop_sequence: null }, usage: { output_tokens: 9 } },
  { type: 'message_stop' },
];

module.exports = {
  CALL,
  CALL_ITEM,
  CHAT_CALL_EVENTS,
  CHAT_EVENTS,
  REASONING,
  TOOL_USE,
  chat,
  message,
  messageEvents,
  responseBody,
  responseEvents,
  start,
  textItem,
};
