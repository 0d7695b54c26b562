import {
  BatchError,
  DecklogError,
  argsSha256,
  open,
  version,
  type Ack,
  type Capture,
  type ConversationMessage,
  type Event,
  type InboxTask,
  type Log,
  type NewConversationMessage,
  type ToolCall,
  type ToolCallHandle,
} from 'decklog';

const log: Log = open('./log', { durability: 'disk', readOnly: false, create: true, lockTimeoutMs: 500 });
open(new URL('file:///tmp/log'));

const ack: Ack = log.record({ kind: 'events', event_type: 'a.b', payload: { any: ['value'] }, created_at: new Date() });
const id: string | number | undefined = ack.id;
log.record({ kind: 'user', content: 'hi' });
log.record({ kind: 'conversation_turns', turn_kind: 'user', content: 'hi' });
log.record({ kind: 'tool_calls', op: 'requested', request_id: '', call_id: '', parent_id: '', vendor: '', tool_name: '' });
log.record({ kind: 'tool_calls', op: 'completed', request_id: '', call_id: '', outcome_json: 12 });
log.record({ event_type: 'a.b' }, { kind: 'events' });
// @ts-expect-error: a field is missing.
log.record({ kind: 'events' });
// @ts-expect-error: a field is misspelt.
log.record({ kind: 'events', event_typ: 'a.b' });
// @ts-expect-error: of another type.
log.record({ kind: 'messages', conversation_id: '', role: 'nobody', content: '' });

const message: NewConversationMessage = { conversation_id: '', role: 'user', content: 'hi', timestamp: new Date(), tokens_in: 5n };
const all: Promise<Ack[]> = log.recordBatchAsync([message], { kind: 'messages' });
const one: Promise<Ack> = log.recordAsync({ kind: 'history', chat_id: 1, role: 'user', text: 'hi' });
log.recordAll([{ kind: 'events', event_type: 'a.b' }]);
log.recordAllAsync(new Set([{ kind: 'events' as const, event_type: 'a.b' }]));

for (const call of log.toolCalls({ status: 'failed', since: new Date(), limit: 10 })) {
  const name: string = call.tool_name;
  const status: 'requested' | 'completed' | 'failed' = call.status;
  console.log(name, status, call.outcome_json.anything);
}
for await (const event of log.events({ roots: true })) console.log(event.event_type satisfies string);
// @ts-expect-error: no such argument.
log.toolCalls({ staus: 'failed' });
const events: Event[] = log.events().toArray();
const first: ConversationMessage | undefined = log.messages().first();

const run = log.run('anthropic', { conversation: { client: 'cli' } });
run.user('hi');
const call: ToolCallHandle = log.toolCall('ls', {}, { callId: 'c1' });
const found: Promise<number> = log.toolCall('count', {}, async () => 12);
const now: string = run.within(() => 'now');
const double = log.tool(function double(given: { number: number }) { return given.number * 2; });
const eight: number = double({ number: 4 });
const named = log.tool('named', async (a: string) => a);
const same: Promise<string> = named('a');

const talk = log.conversation({ title: 'Lengths' });
talk.assistant('12 lines.', { tokens_out: 4, model_used: 'small-1' });
const tokens: number = talk.get().total_tokens_out;
const task: InboxTask | undefined = log.inbox.claim();
if (task !== undefined) log.inbox.done(task);
const isIntact: boolean = log.thoughts.verifyChain('t').isIntact;

const capture: Capture = log.capture({ whenFull: 'refuse', onError: (error, kind, key) => console.log(error.kind, kind, key) });
capture.record({ kind: 'events', event_type: 'a.b' });
await capture.flush();
const read: ToolCall | undefined = log.getToolCall('', '', { as_of: new Date() });
const depth: number | undefined = log.eventTree(1)?.[0]?.depth;
log.retract('tool_calls', '', '', { at: 5 });
log.retract('conversation_turns', '');
// @ts-expect-error: a tool call has two ids.
log.retract('tool_calls', '');

try {
  log.sync();
} catch (error) {
  if (error instanceof BatchError) console.log(error.results);
  if (error instanceof DecklogError && error.kind === 'conflict') console.log(error.key, error.code);
}
log[Symbol.dispose]();
await log[Symbol.asyncDispose]();
console.log(id, all, one, events, first, call, found, now, eight, same, tokens, isIntact, read, depth, argsSha256({}), version);
