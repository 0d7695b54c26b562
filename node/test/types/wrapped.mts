import Anthropic from '@anthropic-ai/sdk';
import { wrapLanguageModel, type LanguageModelMiddleware } from 'ai';
import { openai } from '@ai-sdk/openai';
import { decklogMiddleware, open, wrap } from 'decklog';
import OpenAI from 'openai';

const log = open('./log');
const client: OpenAI = wrap(new OpenAI({ apiKey: 'k' }), { log, conversation: 'ticket-7' });
const other: Anthropic = wrap(new Anthropic({ apiKey: 'k' }), { path: './log', onError: (error) => console.log(error.message) });
const middleware: LanguageModelMiddleware = decklogMiddleware(log);
const model = wrapLanguageModel({ model: openai('gpt-5'), middleware: decklogMiddleware({ log }) });
console.log(client, other, middleware, model);
