// The openai package with an instrumentation: otel, traceloop or openinference (the argument).
import { createRequire } from 'node:module';
import { start } from './telemetry.mjs';

// With require, so that the instrumentation sees the package being loaded.
const require = createRequire(import.meta.url);
const kind = process.argv[2];
const instrumentation = {
  otel: () => new (require('@opentelemetry/instrumentation-openai').OpenAIInstrumentation)({ captureMessageContent: true }),
  traceloop: () => new (require('@traceloop/instrumentation-openai').OpenAIInstrumentation)({ traceContent: true }),
  openinference: () => new (require('@arizeai/openinference-instrumentation-openai').OpenAIInstrumentation)(),
}[kind]();
const sdk = start(`js-openai-${kind}`, [instrumentation]);
// The instrumentation of OpenTelemetry knows openai only before version 7.
const { OpenAI } = createRequire(kind === 'otel' ? new URL('openai6/', import.meta.url) : import.meta.url)('openai');
if (kind !== 'otel') instrumentation.manuallyInstrument(OpenAI);
const client = new OpenAI({ baseURL: 'http://127.0.0.1:4100/v1', apiKey: 'test-key', maxRetries: 0 });
const model = 'gpt-test';
const system = { role: 'system', content: 'You are a test.' };
const tools = [{
  type: 'function',
  function: { name: 'get_weather', description: 'Get the weather of a city.', parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] } },
}];

const hello = await client.chat.completions.create({ model, messages: [system, { role: 'user', content: 'Say hello.' }], temperature: 0.5, user: 'dev' });
console.log(hello.choices[0].message.content);

const messages = [system, { role: 'user', content: 'What is the weather?' }];
const call = (await client.chat.completions.create({ model, messages, tools })).choices[0].message;
messages.push(call, { role: 'tool', tool_call_id: call.tool_calls[0].id, content: '{"weather":"sunny"}' });
console.log((await client.chat.completions.create({ model, messages, tools })).choices[0].message.content);

const stream = await client.chat.completions.create({
  model, messages: [system, { role: 'user', content: 'Say hello, bit by bit.' }], stream: true, stream_options: { include_usage: true },
});
for await (const chunk of stream) process.stdout.write(chunk.choices[0]?.delta.content ?? '');
console.log();

console.log((await client.responses.create({ model, instructions: 'You are a test.', input: 'Say hello.' })).output_text);
await client.chat.completions.create({ model, messages: [{ role: 'user', content: 'Please fail.' }] }).catch((e) => console.log('failed:', e.message));
await new Promise((r) => setTimeout(r, 200));
await sdk.shutdown();
