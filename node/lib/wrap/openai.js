'use strict';
// Requests and answers of OpenAI: Chat Completions, and by `responses.js` the Responses API.

const responses = require('./responses.js');
const { Said, answer, asked, call, get, listed, number, plain, text, tokens } = require('./said.js');
const { ROLES, addParts } = responses;

const name = 'openai';

/** The request to a path of the API; `undefined` if it is no request to a model. */
function request(path, body) {
  if (path.endsWith('/chat/completions')) {
    return asked('chat', listed(get(body, 'messages')).map(ofMessage), text(get(body, 'model')));
  }
  return path.endsWith('/responses') ? responses.request(body) : undefined;
}

/** The answer in a response. */
const answered = (what, response) => (what === 'chat' ? completion(response) : responses.answered(response));

/** What puts the answer of a stream together. */
const assembler = (what) => (what === 'chat' ? new Completion() : responses.assembler());

function ofMessage(message) {
  const said = new Said(ROLES[text(get(message, 'role'))] ?? 'user');
  if (said.role === 'tool') said.answers = text(get(message, 'tool_call_id')) || text(get(message, 'name'));
  addParts(said, get(message, 'content'));
  said.texts.push(text(get(message, 'refusal')));
  // Not OpenAI's own, but of servers that speak its protocol.
  said.reasoning.push(text(get(message, 'reasoning_content')) || text(get(message, 'reasoning')));
  for (const it of listed(get(message, 'tool_calls'))) said.calls.push(ofCall(it));
  const old = get(message, 'function_call');
  if (text(get(old, 'name')) !== '') said.calls.push(call(old.name, old.name, text(old.arguments) || {}));
  return said;
}

function ofCall(it) {
  const of = get(it, 'function') ?? get(it, 'custom');
  const given = text(get(of, 'arguments')) || text(get(of, 'input'));
  return call(text(get(it, 'id')), text(get(of, 'name')), given || {});
}

function completion(response) {
  const choices = listed(get(response, 'choices'));
  const it = answer(choices.map((choice) => ofMessage(get(choice, 'message'))));
  return completed(it, response, choices.map((choice) => text(get(choice, 'finish_reason'))));
}

/** Adds to an answer what the response or a chunk of it says beside the choices. */
function completed(it, response, reasons) {
  it.id = text(get(response, 'id')) || it.id;
  it.model = text(get(response, 'model')) || it.model;
  const usage = get(response, 'usage');
  if (get(usage, 'prompt_tokens') !== undefined) {
    it.tokens = tokens(number(usage.prompt_tokens), number(usage.completion_tokens), {
      read: number(get(usage, 'prompt_tokens_details', 'cached_tokens')),
      write: number(get(usage, 'prompt_tokens_details', 'cache_write_tokens')),
      reasoning: number(get(usage, 'completion_tokens_details', 'reasoning_tokens')),
    });
    it.metadata.usage = plain(usage);
  }
  const some = [...new Set(reasons.filter(Boolean))];
  if (some.length > 0) it.metadata.finish_reason = some.join(', ');
  if (it.id !== '') it.metadata.response_id = it.id;
  return it;
}

/** The chunks of a chat completion. */
class Completion {
  #answer = answer();
  #choices = new Map();

  add(chunk) {
    for (const choice of listed(get(chunk, 'choices'))) {
      const at = number(get(choice, 'index'));
      if (!this.#choices.has(at)) this.#choices.set(at, new Choice());
      const known = this.#choices.get(at);
      known.add(get(choice, 'delta'));
      known.reason = text(get(choice, 'finish_reason')) || known.reason;
    }
    completed(this.#answer, chunk, [...this.#choices.values()].map((it) => it.reason));
  }

  isComplete() {
    const choices = [...this.#choices.values()];
    return choices.length > 0 && choices.every((it) => it.reason !== '');
  }

  answer() {
    const places = [...this.#choices.keys()].sort((a, b) => a - b);
    this.#answer.choices = places.map((at) => this.#choices.get(at).said());
    return this.#answer;
  }
}

/** The deltas of one choice. */
class Choice {
  reason = '';
  #texts = { content: '', refusal: '', reasoning_content: '', reasoning: '' };
  #calls = new Map();

  add(delta) {
    for (const name of Object.keys(this.#texts)) this.#texts[name] += text(get(delta, name));
    for (const it of listed(get(delta, 'tool_calls'))) {
      const known = this.#call(number(get(it, 'index')));
      const of = get(it, 'function') ?? get(it, 'custom');
      known.id = text(get(it, 'id')) || known.id;
      known.name += text(get(of, 'name'));
      known.args += text(get(of, 'arguments')) || text(get(of, 'input'));
    }
    const old = get(delta, 'function_call');
    if (old === undefined) return;
    const known = this.#call(0);
    known.name += text(get(old, 'name'));
    known.id = known.name;
    known.args += text(get(old, 'arguments'));
  }

  #call(at) {
    if (!this.#calls.has(at)) this.#calls.set(at, { id: '', name: '', args: '' });
    return this.#calls.get(at);
  }

  said() {
    const texts = this.#texts;
    const said = new Said('assistant', [texts.content, texts.refusal]);
    said.reasoning.push(texts.reasoning_content || texts.reasoning);
    for (const at of [...this.#calls.keys()].sort((a, b) => a - b)) {
      const it = this.#calls.get(at);
      said.calls.push(call(it.id, it.name, it.args || {}));
    }
    return said;
  }
}

module.exports = { answered, assembler, name, request };
