'use strict';
// Requests and answers of the package `ai`.

const { Said, answer, asked, call, get, isJson, listed, number, plain, shown, text, tokens } = require('./said.js');

/** A request, as a language model of the package gets it. */
function request(params, model) {
  const said = listed(get(params, 'prompt')).flatMap(ofMessage);
  return asked('ai', said, text(get(model, 'modelId')));
}

/** A message. Each tool result in it becomes a message of its own. */
function ofMessage(message) {
  const role = text(get(message, 'role'));
  const content = get(message, 'content');
  if (role === 'tool') return listed(content).filter((it) => get(it, 'type') === 'tool-result').map(result);
  const said = new Said(role === 'system' || role === 'assistant' ? role : 'user');
  if (typeof content === 'string') said.texts.push(content);
  else addParts(said, content);
  return [said];
}

function addParts(said, content) {
  for (const part of listed(content)) {
    const kind = text(get(part, 'type'));
    if (kind === 'text') said.texts.push(text(get(part, 'text')));
    else if (kind === 'reasoning') said.reasoning.push(text(get(part, 'text')));
    else if (kind === 'tool-call') {
      const given = get(part, 'input');
      // An answer has JSON, a request the value of it.
      const args = typeof given === 'string' && isJson(given) ? given : plain(given);
      said.calls.push(call(text(get(part, 'toolCallId')), text(get(part, 'toolName')), args || {}));
    } else if (kind === 'tool-result') addOutcome(said, part);
    else if (kind !== '') said.others.push(kind);
  }
}

/** Adds the outcome of a tool that the vendor ran. */
function addOutcome(said, part) {
  for (const it of said.calls.filter((it) => it.id === get(part, 'toolCallId'))) {
    it.outcome = plain(get(part, 'result') ?? get(part, 'output', 'value') ?? null);
    it.status = get(part, 'isError') === true ? 'failed' : 'completed';
  }
}

function result(part) {
  const output = get(part, 'output');
  const kind = text(get(output, 'type'));
  const said = new Said('tool');
  said.answers = text(get(part, 'toolCallId'));
  said.isFailure = kind.startsWith('error') || kind === 'execution-denied';
  if (kind === 'content') {
    for (const it of listed(get(output, 'value'))) {
      if (get(it, 'type') === 'text') said.texts.push(text(get(it, 'text')));
      else said.others.push(text(get(it, 'type')));
    }
  } else {
    said.texts.push(shown(get(output, 'value') ?? get(output, 'reason')));
  }
  return said;
}

/** The answer in a result. */
function answered(result) {
  const said = new Said('assistant');
  addParts(said, get(result, 'content'));
  const response = get(result, 'response');
  const it = answer([said], text(get(response, 'modelId')), text(get(response, 'id')));
  const usage = get(result, 'usage');
  const total = get(usage, 'inputTokens', 'total') ?? get(usage, 'inputTokens');
  if (typeof total === 'number') {
    it.tokens = tokens(number(total), number(get(usage, 'outputTokens', 'total') ?? get(usage, 'outputTokens')), {
      read: number(get(usage, 'inputTokens', 'cacheRead') ?? get(usage, 'cachedInputTokens')),
      write: number(get(usage, 'inputTokens', 'cacheWrite')),
      reasoning: number(get(usage, 'outputTokens', 'reasoning') ?? get(usage, 'reasoningTokens')),
    });
    it.metadata.usage = plain(get(usage, 'raw') ?? usage);
  }
  const reason = get(result, 'finishReason');
  const shownReason = text(reason) || text(get(reason, 'raw')) || text(get(reason, 'unified'));
  if (shownReason !== '') it.metadata.finish_reason = shownReason;
  if (it.id !== '') it.metadata.response_id = it.id;
  return it;
}

/** The parts of a stream. */
class Assembler {
  #content = [];
  #open = new Map();
  #result = {};
  #isEnded = false;
  #error;

  add(part) {
    const kind = text(get(part, 'type'));
    const [of, step] = kind.split('-');
    if ((of === 'text' || of === 'reasoning') && (step === 'start' || step === 'delta')) {
      this.#piece(of, text(get(part, 'id')), text(get(part, 'delta')));
    } else if (kind === 'tool-call' || kind === 'tool-result') {
      this.#content.push(part);
    } else if (kind === 'response-metadata') {
      const known = this.#result.response;
      this.#result.response = { id: part.id ?? known?.id, modelId: part.modelId ?? known?.modelId };
    } else if (kind === 'finish') {
      Object.assign(this.#result, { usage: part.usage, finishReason: part.finishReason });
      this.#isEnded = true;
    } else if (kind === 'error') {
      const error = get(part, 'error');
      const message = text(get(error, 'message')) || shown(error);
      this.#error = { kind: text(get(error, 'name')) || text(get(error, 'type')) || 'api_error', message };
    }
  }

  #piece(kind, id, piece) {
    const key = `${kind} ${id}`;
    let open = this.#open.get(key);
    if (open === undefined) {
      open = { type: kind, text: '' };
      this.#open.set(key, open);
      this.#content.push(open);
    }
    open.text += piece;
  }

  isComplete() {
    return this.#isEnded;
  }

  answer() {
    const it = answered({ ...this.#result, content: this.#content });
    it.error = this.#error;
    return it;
  }
}

module.exports = { answered, assembler: () => new Assembler(), request };
