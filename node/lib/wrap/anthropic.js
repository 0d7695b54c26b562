'use strict';
// Requests and answers of Anthropic: Messages.

const { Said, answer, asked, call, get, joined, listed, number, plain, text, tokens } = require('./said.js');

const name = 'anthropic';

/** The request to a path of the API; `undefined` if it is no request to a model. */
function request(path, body) {
  if (!path.endsWith('/v1/messages')) return undefined;
  const said = [];
  const system = new Said('system');
  addBlocks(system, get(body, 'system'));
  if (joined(system.texts) !== '') said.push(system);
  for (const message of listed(get(body, 'messages'))) said.push(...ofMessage(message));
  return asked('messages', said, text(get(body, 'model')));
}

/** A message. Each tool result in it becomes a message of its own, before the rest. */
function ofMessage(message) {
  const role = get(message, 'role');
  const content = get(message, 'content');
  if (role === 'assistant' || role === 'system') {
    const said = new Said(role);
    addBlocks(said, content);
    return [said];
  }
  const found = [];
  const rest = new Said('user');
  for (const block of typeof content === 'string' ? [content] : listed(content)) {
    if (get(block, 'type') === 'tool_result') found.push(result(block));
    else addBlocks(rest, [block]);
  }
  const hasRest = joined(rest.texts) !== '' || rest.others.length > 0 || found.length === 0;
  return hasRest ? [...found, rest] : found;
}

function result(block) {
  const said = new Said('tool');
  said.answers = text(get(block, 'tool_use_id'));
  said.isFailure = get(block, 'is_error') === true;
  addBlocks(said, get(block, 'content'));
  return said;
}

function addBlocks(said, content) {
  if (typeof content === 'string') said.texts.push(content);
  for (const block of listed(content)) {
    const kind = text(get(block, 'type'));
    if (typeof block === 'string') said.texts.push(block);
    else if (kind === 'text') said.texts.push(text(get(block, 'text')));
    else if (kind === 'thinking') said.reasoning.push(text(get(block, 'thinking')));
    else if (kind.endsWith('tool_use')) {
      const given = get(block, 'input');
      const args = typeof given === 'string' ? given : plain(given);
      said.calls.push(call(text(get(block, 'id')), text(get(block, 'name')), args || {}));
    } else if (kind.endsWith('tool_result') && said.role === 'assistant') addOutcome(said, block);
    else if (kind !== '') said.others.push(kind);
  }
}

/** Adds the outcome of a tool that the vendor ran. */
function addOutcome(said, block) {
  for (const it of said.calls.filter((it) => it.id === get(block, 'tool_use_id'))) {
    it.outcome = plain(get(block, 'content'));
    const isFailure = get(block, 'is_error') === true || text(get(block, 'content', 'type')).endsWith('_error');
    it.status = isFailure ? 'failed' : 'completed';
  }
}

/** The answer in a response. */
function answered(_what, response) {
  return made(response, get(response, 'content'), get(response, 'stop_reason'), get(response, 'usage'));
}

function made(response, content, reason, usage) {
  const said = new Said('assistant');
  addBlocks(said, content);
  const it = answer([said], text(get(response, 'model')), text(get(response, 'id')));
  if (get(usage, 'input_tokens') !== undefined) {
    const read = number(get(usage, 'cache_read_input_tokens'));
    const write = number(get(usage, 'cache_creation_input_tokens'));
    it.tokens = tokens(number(get(usage, 'input_tokens')) + read + write, number(get(usage, 'output_tokens')), {
      read,
      write,
      write1h: number(get(usage, 'cache_creation', 'ephemeral_1h_input_tokens')),
      reasoning: number(get(usage, 'output_tokens_details', 'thinking_tokens')),
    });
    it.metadata.usage = plain(usage);
  }
  if (text(reason) !== '') it.metadata.finish_reason = reason;
  if (it.id !== '') it.metadata.response_id = it.id;
  return it;
}

/** Puts an answer together from the events of a message. */
class Assembler {
  #start = {};
  #usage = {};
  #reason;
  #blocks = new Map();
  #pieces = new Map();

  add(event) {
    const kind = get(event, 'type');
    const at = number(get(event, 'index'));
    if (kind === 'message_start') {
      const message = get(event, 'message');
      this.#start = { id: get(message, 'id'), model: get(message, 'model') };
      this.#count(get(message, 'usage'));
    } else if (kind === 'content_block_start') {
      this.#blocks.set(at, plain(get(event, 'content_block')));
    } else if (kind === 'content_block_delta') {
      const { text: piece, partial_json: json, thinking } = get(event, 'delta') ?? {};
      const pieces = this.#pieces.get(at) ?? [];
      pieces.push(text(piece) || text(json) || text(thinking));
      this.#pieces.set(at, pieces);
    } else if (kind === 'message_delta') {
      this.#reason = get(event, 'delta', 'stop_reason');
      this.#count(get(event, 'usage'));
    }
  }

  #count(usage) {
    // Later counts are totals, too.
    Object.assign(this.#usage, plain(usage) ?? {});
  }

  isComplete() {
    return text(this.#reason) !== '';
  }

  answer() {
    const blocks = [...this.#blocks.keys()].sort((a, b) => a - b).map((at) => this.#block(at));
    return made(this.#start, blocks, this.#reason, this.#usage);
  }

  #block(at) {
    const block = { ...this.#blocks.get(at) };
    const pieces = (this.#pieces.get(at) ?? []).join('');
    if (block.type === 'text' || block.type === 'thinking') block[block.type] = text(block[block.type]) + pieces;
    else if (pieces !== '') block.input = pieces;
    return block;
  }
}

module.exports = { answered, assembler: () => new Assembler(), name, request };
