// Runs through all that the server offers with the client of npm's @modelcontextprotocol/sdk.
//
//     client.mjs CLIENTS STORE URL
//     client.mjs CLIENTS STORE -- COMMAND [ARGUMENT...]
//
// CLIENTS is where `install` put that package. STORE is where the server keeps its log. The first
// failure ends it, with 1.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

const [clients, , ...server] = process.argv.slice(2);
const require = createRequire(resolve(clients, 'package.json'));
const { Client } = require('@modelcontextprotocol/sdk/client');
const { StdioClientTransport } = require('@modelcontextprotocol/sdk/client/stdio.js');
const { StreamableHTTPClientTransport } = require('@modelcontextprotocol/sdk/client/streamableHttp.js');
const { McpError, ResourceUpdatedNotificationSchema } = require('@modelcontextprotocol/sdk/types.js');

const CALLS = JSON.parse(readFileSync(new URL('calls.json', import.meta.url)));
const INVALID_PARAMS = -32602;
const NOT_FOUND = -32002;
const PATIENCE_MS = 20_000;
// Nowhere in a log: all of it is read.
const ABSENT = 'no ship has this name';

const saved = {};

/// A value with what earlier calls gave in the place of ${name}.
function filled(value) {
  if (Array.isArray(value)) return value.map(filled);
  if (value !== null && typeof value === 'object') {
    return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, filled(member)]));
  }
  const whole = typeof value === 'string' && /^\$\{(\w+)\}$/.exec(value);
  return whole ? saved[whole[1]] : value;
}

function at(value, pointer) {
  return pointer.split('/').slice(1).reduce((inner, step) => inner?.[step], value);
}

async function refused(code, call, what) {
  const answer = await call.catch((error) => error);
  assert.ok(answer instanceof McpError, `${what} was answered: ${JSON.stringify(answer)}`);
  assert.equal(answer.code, code, `${what}: ${answer.message}`);
}

/// All the pages of a list.
async function all(page, member) {
  const listed = [];
  let cursor;
  do {
    const answer = await page({ cursor });
    listed.push(...answer[member]);
    cursor = answer.nextCursor;
  } while (cursor !== undefined);
  return listed;
}

const parts = {
  async ping(client) {
    assert.deepEqual(await client.ping(), {});
    return 'answered';
  },

  async tools(client) {
    const tools = await all((page) => client.listTools(page), 'tools');
    const names = tools.map((tool) => tool.name).sort();
    assert.deepEqual(names, [...new Set(CALLS.map((call) => call.tool))].sort());
    for (const { name, description, inputSchema, outputSchema, annotations } of tools) {
      assert.ok(description.length >= 30, `${name} says too little of itself`);
      assert.equal(inputSchema.additionalProperties, false, `${name} takes any argument`);
      assert.equal(outputSchema?.type, 'object', `${name} has no output schema`);
      for (const hint of ['readOnlyHint', 'destructiveHint', 'idempotentHint', 'openWorldHint']) {
        assert.equal(typeof annotations[hint], 'boolean', `${name} has no ${hint}`);
      }
    }
    return tools.length;
  },

  /// The client checks what is answered against the schemas that were listed.
  async calls(client) {
    for (const call of CALLS) {
      const asked = filled(call.arguments);
      const what = `${call.tool} ${JSON.stringify(asked)}`;
      const result = await client.callTool({ name: call.tool, arguments: asked });
      const answer = result.structuredContent;
      assert.ok(answer, `${what} has no structured content`);
      assert.deepEqual(JSON.parse(result.content[0].text), answer, what);
      assert.equal(answer.ok ? 'ok' : answer.error.code, call.expect, `${what}: ${JSON.stringify(answer)}`);
      assert.equal(result.isError ?? false, !answer.ok, what);
      for (const [pointer, value] of Object.entries(filled(call.holds ?? {}))) {
        assert.deepEqual(at(answer, pointer), value, `${what}: ${pointer} in ${JSON.stringify(answer)}`);
      }
      for (const [name, pointer] of Object.entries(call.save ?? {})) {
        saved[name] = at(answer, pointer);
        assert.notEqual(saved[name], undefined, `${what}: no ${pointer} in ${JSON.stringify(answer)}`);
      }
    }
    await refused(INVALID_PARAMS, client.callTool({ name: 'sing', arguments: {} }), 'an unknown tool');
    return CALLS.length;
  },

  async resources(client) {
    const templates = await all((page) => client.listResourceTemplates(page), 'resourceTemplates');
    assert.equal(templates.length, 4);
    const resources = await all((page) => client.listResources(page), 'resources');
    const uris = new Set(resources.map((resource) => resource.uri));
    assert.equal(uris.size, resources.length, 'resources are listed twice');
    assert.ok(uris.has('decklog://thoughts/relay'), [...uris].join(' '));
    for (const uri of uris) {
      const { contents } = await client.readResource({ uri });
      assert.ok(contents.length > 0 && contents[0].text.length > 0, `${uri} holds nothing`);
    }
    for (const [uri, code] of [
      ['decklog://thoughts/no-such-task', NOT_FOUND],
      ['decklog://attic/1', INVALID_PARAMS],
      ['file:///etc/passwd', NOT_FOUND],
    ]) {
      await refused(code, client.readResource({ uri }), uri);
    }
    return uris.size;
  },

  async subscriptions(client) {
    const uri = 'decklog://thoughts/relay';
    const thought = { type: 'reflection', task_id: 'relay', agent_id: 'keeper', content: '!' };
    const updated = [];
    client.setNotificationHandler(ResourceUpdatedNotificationSchema, ({ params }) => {
      updated.push(params.uri);
    });
    await client.subscribeResource({ uri });
    const began = performance.now();
    await client.callTool({ name: 'thought_record', arguments: { ...thought, task_id: 'lens' } });
    await client.callTool({ name: 'thought_record', arguments: thought });
    while (updated.length === 0 && performance.now() - began < PATIENCE_MS) await sleep(10);
    const took = performance.now() - began;
    assert.deepEqual([...new Set(updated)], [uri]);
    await client.unsubscribeResource({ uri });
    updated.length = 0;
    await client.callTool({ name: 'thought_record', arguments: thought });
    await sleep(took + 500);
    assert.deepEqual(updated, [], 'told after it unsubscribed');
    return `${took.toFixed(0)} ms`;
  },

  async prompts(client) {
    const prompts = await all((page) => client.listPrompts(page), 'prompts');
    const given = { what_happened: { run: '1' }, daily_review: {}, find_failures: { since: '2020-01-01' } };
    assert.deepEqual(prompts.map((prompt) => prompt.name).sort(), Object.keys(given).sort());
    for (const [name, asked] of Object.entries(given)) {
      const { messages } = await client.getPrompt({ name, arguments: asked });
      assert.ok(messages.length > 0, `${name} says nothing`);
    }
    await refused(INVALID_PARAMS, client.getPrompt({ name: 'what_happened' }), 'a prompt without its argument');
    await refused(INVALID_PARAMS, client.getPrompt({ name: 'sing' }), 'an unknown prompt');
    return prompts.length;
  },

  async progress(client) {
    const search = { name: 'log_search', arguments: { text: ABSENT } };
    const steps = [];
    const began = performance.now();
    await client.callTool(search, undefined, { onprogress: ({ progress }) => steps.push(progress) });
    const whole = performance.now() - began;
    assert.ok(steps.length > 0, `no progress in ${whole.toFixed(0)} ms`);
    assert.deepEqual(steps, [...new Set(steps)].sort((a, b) => a - b), 'progress goes back');

    const cancel = new AbortController();
    const options = { signal: cancel.signal, onprogress: () => cancel.abort('enough') };
    await assert.rejects(client.callTool(search, undefined, options), /enough/);
    await client.callTool({ name: 'thought_record_list', arguments: { limit: 1 } });
    return `${steps.length} steps in ${whole.toFixed(0)} ms`;
  },

  /// Long calls, however many, hold up no other message.
  async crowd(client) {
    const search = { name: 'log_search', arguments: { text: ABSENT } };
    const cancel = new AbortController();
    const calls = Array.from({ length: 40 }, () =>
      client.callTool(search, undefined, { signal: cancel.signal }).catch(() => {}),
    );
    const began = performance.now();
    await client.ping();
    const took = performance.now() - began;
    assert.ok(took < 3000, `a ping among long calls took ${took.toFixed(0)} ms`);
    cancel.abort('enough');
    await Promise.all(calls);
    return `a ping in ${took.toFixed(0)} ms`;
  },
};

const transport =
  server[0] === '--'
    ? new StdioClientTransport({ command: server[1], args: server.slice(2) })
    : new StreamableHTTPClientTransport(new URL(server[0]));
// It is told over HTTP alone otherwise.
let version;
const setVersion = transport.setProtocolVersion?.bind(transport);
transport.setProtocolVersion = (agreed) => {
  version = agreed;
  setVersion?.(agreed);
};
const client = new Client({ name: 'decklog-test', version: '1' }, { capabilities: {} });
try {
  await client.connect(transport);
  assert.equal(client.getServerVersion().name, 'decklog');
  assert.ok(client.getInstructions(), 'the server gives no instructions');
  console.log(`  ${version}`);
  for (const [name, part] of Object.entries(parts)) console.log(`  ${name}: ${await part(client)}`);
} catch (error) {
  console.error(`FAILED: ${error.message}`);
  process.exitCode = 1;
}
await client.close();
