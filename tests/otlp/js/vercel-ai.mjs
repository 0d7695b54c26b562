// The AI SDK of Vercel. usage (from run.sh): vercel-ai.mjs [legacy]
import { start } from './telemetry.mjs';
import { LegacyOpenTelemetry, OpenTelemetry } from '@ai-sdk/otel';
import { createOpenAI } from '@ai-sdk/openai';
import { generateText, isStepCount, registerTelemetry, streamText, tool } from 'ai';
import { z } from 'zod';

const sdk = start('vercel-ai-test');
registerTelemetry(process.argv[2] === 'legacy' ? new LegacyOpenTelemetry() : new OpenTelemetry({ runtimeContext: true }));
const openai = createOpenAI({ baseURL: 'http://127.0.0.1:4100/v1', apiKey: 'test-key' });
const common = {
  model: process.env.API === 'chat' ? openai.chat('gpt-test') : openai('gpt-test'),
  instructions: 'You are a test.',
  maxRetries: 0,
  runtimeContext: { sessionId: 'session-1', userId: 'dev' },
  telemetry: { functionId: 'weather-agent', includeRuntimeContext: { sessionId: true, userId: true } },
};
const get_weather = tool({
  description: 'Get the weather of a city.',
  inputSchema: z.object({ city: z.string() }),
  execute: async ({ city }) => ({ city, weather: 'sunny' }),
});

const first = await generateText({ ...common, prompt: 'Say hello.' });
console.log(first.text);
const messages = [
  { role: 'user', content: 'Say hello.' },
  ...first.response.messages,
  { role: 'user', content: 'What is the weather?' },
];
console.log((await generateText({ ...common, messages, tools: { get_weather }, stopWhen: isStepCount(3) })).text);
const stream = streamText({ ...common, prompt: 'Say hello, bit by bit.', temperature: 0.5 });
for await (const part of stream.textStream) process.stdout.write(part);
console.log();
await generateText({ ...common, prompt: 'Please fail.' }).catch((e) => console.log('failed:', e.message));
await sdk.shutdown();
