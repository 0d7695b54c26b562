// A model server for tests: OpenAI Chat Completions, OpenAI Responses and Anthropic Messages, with
// and without streaming. The answer depends only on the request:
//   the last message is a tool result            -> "It is sunny in Paris."
//   the last user text contains "fail"           -> HTTP 500
//   it contains "weather" and tools are offered  -> a call of a tool
//   otherwise                                    -> "Hello from the model."
// Every exchange becomes one JSON line of the file.
//
// usage: node fake-model.mjs PORT FILE [--brief]
// --brief keeps of the system prompt only its length, of each tool only its name, and of what a CLI
// adds to the messages in tags nothing but "<TAG>...</TAG>".
import { createHash } from 'node:crypto';
import { appendFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';

const [port, file, ...flags] = process.argv.slice(2);
const brief = flags.includes('--brief');
writeFileSync(file, '');

const HELLO = 'Hello from the model.';
const SUNNY = 'It is sunny in Paris.';
const CREATED = 1767225600;

const strip = (s) => s.replace(/<system-reminder>[\s\S]*?<\/system-reminder>/g, '').trim();
const hash = (v) => createHash('sha256').update(typeof v === 'string' ? v : JSON.stringify(v)).digest('hex').slice(0, 16);

// What the model is to call, by the name of the tool offered.
function callOf(names) {
  const known = {
    get_weather: { city: 'Paris' },
    mcp__test__get_weather: { city: 'Paris' },
    Bash: { command: 'echo sunny', description: 'weather' },
    exec_command: { cmd: 'echo sunny' },
    shell_command: { command: 'echo sunny' },
    shell: { command: ['echo', 'sunny'] },
    run_shell_command: { command: 'echo sunny', description: 'weather' },
  };
  for (const name of Object.keys(known)) if (names.includes(name)) return { name, args: known[name] };
  return undefined;
}

function decide(text, isResult, names) {
  if (isResult) return { text: SUNNY };
  if (/fail/i.test(text)) return { error: true };
  const call = /weather/i.test(text) ? callOf(names) : undefined;
  return call ? { call } : { text: HELLO };
}

const texts = (content) =>
  typeof content === 'string' ? [content] : (content ?? []).map((p) => p.text ?? '').filter((t) => t);
const lastText = (content) => texts(content).map(strip).filter((t) => t).at(-1) ?? '';

function sse(events, named) {
  return events
    .map((e) => (e === '[DONE]' ? `data: [DONE]\n\n` : `${named ? `event: ${e.type}\n` : ''}data: ${JSON.stringify(e)}\n\n`))
    .join('');
}
const words = (s) => s.match(/\S+\s*/g);

function chat(body) {
  const last = body.messages.at(-1);
  const what = decide(lastText(last.content), last.role === 'tool', (body.tools ?? []).map((t) => t.function?.name));
  if (what.error) return { error: openaiError };
  const id = `chatcmpl-${hash(body)}`;
  const tool_calls = what.call && [
    { id: `call_${hash(body)}`, type: 'function', function: { name: what.call.name, arguments: JSON.stringify(what.call.args) } },
  ];
  const message = { role: 'assistant', content: what.text ?? null, ...(tool_calls && { tool_calls }), refusal: null };
  const finish_reason = tool_calls ? 'tool_calls' : 'stop';
  const usage = {
    prompt_tokens: 120, completion_tokens: 15, total_tokens: 135,
    prompt_tokens_details: { cached_tokens: 40 }, completion_tokens_details: { reasoning_tokens: 5 },
  };
  const model = `${body.model}-2026-01-01`;
  const final = {
    id, object: 'chat.completion', created: CREATED, model, system_fingerprint: 'fp_test',
    choices: [{ index: 0, message, logprobs: null, finish_reason }], usage,
  };
  if (!body.stream) return { final };
  const chunk = (delta, finish) => ({
    id, object: 'chat.completion.chunk', created: CREATED, model, system_fingerprint: 'fp_test',
    choices: [{ index: 0, delta, logprobs: null, finish_reason: finish ?? null }],
  });
  const deltas = tool_calls
    ? [{ tool_calls: [{ index: 0, ...tool_calls[0], function: { name: what.call.name, arguments: '' } }] },
       { tool_calls: [{ index: 0, function: { arguments: tool_calls[0].function.arguments } }] }]
    : words(what.text).map((content) => ({ content }));
  const events = [chunk({ role: 'assistant', content: tool_calls ? null : '' }), ...deltas.map((d) => chunk(d)), chunk({}, finish_reason)];
  if (body.stream_options?.include_usage) events.push({ ...chunk({}), choices: [], usage });
  events.push('[DONE]');
  return { final, stream: sse(events) };
}

function responses(body) {
  const input = typeof body.input === 'string' ? [{ role: 'user', content: body.input }] : body.input;
  const last = input.filter((i) => i.role === 'user' || /_output$/.test(i.type ?? '')).at(-1) ?? { content: '' };
  const what = decide(lastText(last.content), /_output$/.test(last.type ?? ''), (body.tools ?? []).map((t) => t.name));
  if (what.error) return { error: openaiError };
  const id = `resp_${hash(body)}`;
  const item = what.call
    ? { id: `fc_${hash(body)}`, type: 'function_call', status: 'completed', call_id: `call_${hash(body)}`, name: what.call.name, arguments: JSON.stringify(what.call.args) }
    : { id: `msg_${hash(body)}`, type: 'message', status: 'completed', role: 'assistant', phase: 'final_answer', content: [{ type: 'output_text', text: what.text, annotations: [], logprobs: [] }] };
  const base = {
    id, object: 'response', created_at: CREATED, status: 'completed', error: null, incomplete_details: null, instructions: null,
    max_output_tokens: null, model: `${body.model}-2026-01-01`, parallel_tool_calls: true, previous_response_id: null,
    reasoning: { effort: null, summary: null }, store: false, temperature: 1, text: { format: { type: 'text' } },
    tool_choice: 'auto', tools: [], top_p: 1, truncation: 'disabled', user: null, metadata: {},
  };
  const usage = {
    input_tokens: 120, input_tokens_details: { cached_tokens: 40 }, output_tokens: 15,
    output_tokens_details: { reasoning_tokens: 5 }, total_tokens: 135,
  };
  const final = { ...base, output: [item], usage };
  if (!body.stream) return { final };
  let n = 0;
  const ev = (type, more) => ({ type, sequence_number: n++, ...more });
  const started = { ...base, status: 'in_progress', output: [], usage: null };
  const events = [ev('response.created', { response: started }), ev('response.in_progress', { response: started })];
  if (what.call) {
    events.push(
      ev('response.output_item.added', { output_index: 0, item: { ...item, status: 'in_progress', arguments: '' } }),
      ev('response.function_call_arguments.delta', { item_id: item.id, output_index: 0, delta: item.arguments }),
      ev('response.function_call_arguments.done', { item_id: item.id, output_index: 0, arguments: item.arguments }),
    );
  } else {
    const at = { item_id: item.id, output_index: 0, content_index: 0 };
    events.push(
      ev('response.output_item.added', { output_index: 0, item: { ...item, status: 'in_progress', content: [] } }),
      ev('response.content_part.added', { ...at, part: { type: 'output_text', text: '', annotations: [] } }),
      ...words(what.text).map((delta) => ev('response.output_text.delta', { ...at, delta, logprobs: [] })),
      ev('response.output_text.done', { ...at, text: what.text, logprobs: [] }),
      ev('response.content_part.done', { ...at, part: item.content[0] }),
    );
  }
  events.push(ev('response.output_item.done', { output_index: 0, item }), ev('response.completed', { response: final }));
  return { final, stream: sse(events, true) };
}

function messages(body) {
  const last = body.messages.filter((m) => m.role === 'user').at(-1);
  const isResult = Array.isArray(last.content) && last.content.some((p) => p.type === 'tool_result');
  const what = decide(lastText(last.content), isResult, (body.tools ?? []).map((t) => t.name));
  if (what.error) return { error: anthropicError };
  if (what.text === HELLO && /"title"/.test(JSON.stringify(body.output_config ?? body.output_format ?? ''))) what.text = '{"title":"A test"}';
  const id = `msg_${hash(body)}`;
  const content = what.call
    ? [{ type: 'tool_use', id: `toolu_${hash(body)}`, name: what.call.name, input: what.call.args }]
    : [{ type: 'text', text: what.text }];
  const stop_reason = what.call ? 'tool_use' : 'end_turn';
  const usage = { input_tokens: 80, cache_creation_input_tokens: 10, cache_read_input_tokens: 40, output_tokens: 15 };
  const final = { id, type: 'message', role: 'assistant', model: body.model, content, stop_reason, stop_sequence: null, usage };
  if (!body.stream) return { final };
  const deltas = what.call
    ? [{ type: 'input_json_delta', partial_json: JSON.stringify(what.call.args) }]
    : words(what.text).map((text) => ({ type: 'text_delta', text }));
  const events = [
    { type: 'message_start', message: { ...final, content: [], stop_reason: null, usage: { ...usage, output_tokens: 1 } } },
    { type: 'content_block_start', index: 0, content_block: what.call ? { ...content[0], input: {} } : { type: 'text', text: '' } },
    ...deltas.map((delta) => ({ type: 'content_block_delta', index: 0, delta })),
    { type: 'content_block_stop', index: 0 },
    { type: 'message_delta', delta: { stop_reason, stop_sequence: null }, usage },
    { type: 'message_stop' },
  ];
  return { final, stream: sse(events, true) };
}

const openaiError = { error: { message: 'The model failed.', type: 'server_error', param: null, code: 'internal' } };
const anthropicError = { type: 'error', error: { type: 'api_error', message: 'The model failed.' } };

function shorten(body) {
  if (!brief || !body || typeof body !== 'object') return body;
  const short = { ...body };
  for (const key of ['system', 'instructions']) if (short[key]) short[key] = { length: texts(short[key]).join('').length };
  if (short.tools) short.tools = short.tools.map((t) => t.name ?? t.function?.name ?? t.type);
  const cut = (s) => s.replace(/<([a-z_-]+)>[\s\S]*?<\/\1>/gi, '<$1>...</$1>');
  for (const key of ['messages', 'input']) {
    if (short[key]) short[key] = JSON.parse(JSON.stringify(short[key]), (k, v) => (k === 'text' || k === 'content') && typeof v === 'string' ? cut(v) : v);
  }
  return short;
}

const modelList = { object: 'list', data: [{ id: 'gpt-test', object: 'model', created: CREATED, owned_by: 'test' }], models: [] };

createServer((req, res) => {
  const parts = [];
  req.on('data', (d) => parts.push(d));
  req.on('end', () => {
    const path = req.url.split('?')[0];
    const raw = Buffer.concat(parts).toString();
    let body;
    try { body = raw ? JSON.parse(raw) : undefined; } catch { body = raw; }
    let out;
    if (req.method !== 'POST') out = { final: /models$/.test(path) ? modelList : {} };
    else if (/\/chat\/completions$/.test(path)) out = chat(body);
    else if (/\/responses$/.test(path)) out = responses(body);
    else if (/\/count_tokens$/.test(path)) out = { final: { input_tokens: 80 } };
    else if (/\/messages$/.test(path)) out = messages(body);
    else out = { final: {} };
    const status = out.error ? 500 : 200;
    appendFileSync(file, JSON.stringify({ method: req.method, path, request: shorten(body), status, response: out.error ?? out.final }) + '\n');
    res.writeHead(status, { 'content-type': out.stream ? 'text/event-stream' : 'application/json', 'request-id': `req_${hash(raw)}`, 'x-request-id': `req_${hash(raw)}` });
    res.end(req.method === 'HEAD' ? undefined : out.stream ?? JSON.stringify(out.error ?? out.final));
  });
}).listen(Number(port), '127.0.0.1');
