'use strict';
// Requests and answers of the Responses API of OpenAI.

const { Said, answer, asked, call, get, joined, listed, number, plain, shown, text, tokens } = require('./said.js');

const ROLES = {
  system: 'system',
  developer: 'system',
  user: 'user',
  assistant: 'assistant',
  tool: 'tool',
  function: 'tool',
};

const TEXTS = new Set(['text', 'input_text', 'output_text', 'summary_text', 'reasoning_text', 'refusal']);
const ENDS = new Set(['response.completed', 'response.incomplete', 'response.failed']);

function request(body) {
  const said = [];
  const instructions = text(get(body, 'instructions'));
  if (instructions !== '') said.push(new Said('system', [instructions]));
  const given = get(body, 'input');
  if (typeof given === 'string') said.push(new Said('user', [given]));
  else said.push(...items(listed(given)));
  // A conversation that the vendor keeps has the same place as a response before this one.
  const kept = get(body, 'conversation');
  const talk = typeof kept === 'string' ? kept : text(get(kept, 'id'));
  return asked('responses', said, text(get(body, 'model')), text(get(body, 'previous_response_id')) || talk);
}

function addParts(said, content) {
  if (typeof content === 'string') said.texts.push(content);
  for (const part of listed(content)) {
    const kind = text(get(part, 'type'));
    if (typeof part === 'string') said.texts.push(part);
    else if (TEXTS.has(kind)) said.texts.push(text(get(part, 'text')) || text(get(part, 'refusal')));
    else if (kind !== '') said.others.push(kind);
  }
}

/** Items. Those of one answer are one message. */
function items(all) {
  const found = [];
  const assistant = () => {
    if (found.at(-1)?.role !== 'assistant') found.push(new Said('assistant'));
    return found.at(-1);
  };
  for (const item of all) {
    const kind = text(get(item, 'type'));
    const role = ROLES[text(get(item, 'role'))];
    if (role === 'assistant') addParts(assistant(), get(item, 'content'));
    else if (role !== undefined) {
      found.push(new Said(role));
      addParts(found.at(-1), get(item, 'content'));
    } else if (kind === 'reasoning') {
      const thought = new Said('assistant');
      addParts(thought, get(item, 'summary'));
      addParts(thought, get(item, 'content'));
      assistant().reasoning.push(...thought.texts);
    } else if (kind.endsWith('_output')) found.push(result(item));
    else if (kind.endsWith('_call')) assistant().calls.push(ofCall(item, kind));
    else if (kind !== '' && kind !== 'item_reference') assistant().others.push(kind);
  }
  return found;
}

function result(item) {
  const output = get(item, 'output');
  const said = new Said('tool');
  said.answers = text(get(item, 'call_id')) || text(get(item, 'id'));
  if (Array.isArray(output)) addParts(said, output);
  if (joined(said.texts) === '' && said.others.length === 0) said.texts.push(shown(output));
  return said;
}

function ofCall(item, kind) {
  const names = ['arguments', 'input', 'action', 'operation', 'queries', 'code'];
  const given = names.map((it) => get(item, it)).find((it) => it !== undefined) ?? {};
  const name = text(get(item, 'name')) || kind.replace(/_call$/, '');
  const it = call(text(get(item, 'call_id')), name, typeof given === 'string' ? given : plain(given));
  if (it.id === '') {
    // The vendor ran it.
    it.id = text(get(item, 'id'));
    const outcomes = ['error', 'output', 'outputs', 'results'].map((of) => get(item, of));
    it.outcome = plain(outcomes.find((of) => of !== undefined) ?? null);
    const isFailure = get(item, 'error') !== undefined || get(item, 'status') === 'failed';
    it.status = isFailure ? 'failed' : 'completed';
  }
  return it;
}

function answered(response) {
  const it = answer(items(listed(get(response, 'output'))), text(get(response, 'model')), text(get(response, 'id')));
  const usage = get(response, 'usage');
  if (get(usage, 'input_tokens') !== undefined) {
    it.tokens = tokens(number(usage.input_tokens), number(usage.output_tokens), {
      read: number(get(usage, 'input_tokens_details', 'cached_tokens')),
      write: number(get(usage, 'input_tokens_details', 'cache_write_tokens')),
      reasoning: number(get(usage, 'output_tokens_details', 'reasoning_tokens')),
    });
    it.metadata.usage = plain(usage);
  }
  const reason = text(get(response, 'incomplete_details', 'reason')) || text(get(response, 'status'));
  if (reason !== '') it.metadata.finish_reason = reason;
  if (it.id !== '') it.metadata.response_id = it.id;
  const error = get(response, 'error');
  if (error !== undefined) {
    const kind = text(get(error, 'code')) || 'api_error';
    it.error = { kind, message: text(get(error, 'message')) || kind };
  }
  return it;
}

/** The events of a response. */
class Assembler {
  #last;
  #isEnded = false;
  #error;
  #items = new Map();
  /** Of each item, its text so far by part. */
  #pieces = new Map();

  add(event) {
    const kind = text(get(event, 'type'));
    const at = number(get(event, 'output_index'));
    if (kind.startsWith('response.output_item.')) {
      this.#items.set(at, get(event, 'item'));
      if (kind.endsWith('.done')) this.#pieces.delete(at);
    } else if (kind.endsWith('.delta')) {
      const part = kind.slice('response.'.length, -'.delta'.length);
      const pieces = this.#pieces.get(at) ?? {};
      pieces[part] = (pieces[part] ?? '') + text(get(event, 'delta'));
      this.#pieces.set(at, pieces);
    } else if (kind === 'error') {
      const code = text(get(event, 'code')) || 'api_error';
      this.#error = { kind: code, message: text(get(event, 'message')) || code };
    } else if (get(event, 'response') !== undefined) {
      this.#last = event.response;
      this.#isEnded ||= ENDS.has(kind);
    }
  }

  isComplete() {
    return this.#isEnded;
  }

  answer() {
    if (this.#isEnded) return answered(this.#last);
    const it = answered({ id: get(this.#last, 'id'), model: get(this.#last, 'model') });
    const places = [...this.#items.keys()].sort((a, b) => a - b);
    it.choices = items(places.map((at) => this.#item(at)));
    it.error = this.#error;
    return it;
  }

  #item(at) {
    const pieces = this.#pieces.get(at);
    if (pieces === undefined) return this.#items.get(at);
    const item = plain(this.#items.get(at));
    const of = (...parts) => parts.map((part) => pieces[part]).filter(Boolean);
    if (item.type === 'message') {
      item.content = of('output_text', 'refusal').map((it) => ({ type: 'output_text', text: it }));
    } else if (item.type === 'reasoning') {
      item.summary = of('reasoning_summary_text', 'reasoning_text').map((it) => ({ type: 'summary_text', text: it }));
    } else {
      item.arguments = of('function_call_arguments', 'custom_tool_call_input')[0] ?? '';
    }
    return item;
  }
}

module.exports = { ROLES, addParts, answered, assembler: () => new Assembler(), request };
