'use strict';
// Functions whose calls are recorded as tool calls.

const { inspect } = require('node:util');
const { InvalidInputError, invalid } = require('./errors.js');
const { observed } = require('./run.js');

/** The function with its calls recorded. One argument that is an object is the arguments. */
function decorated(run, name, work) {
  if (typeof work !== 'function') throw invalid('tool', 'it is no function');
  const toolName = name || work.name || 'anonymous';
  function called(...args) {
    return observed(requested(run(), toolName, args), () => work.apply(this, args));
  }
  Object.defineProperties(called, {
    name: { value: work.name || toolName, configurable: true },
    length: { value: work.length, configurable: true },
  });
  return called;
}

function requested(run, name, args) {
  const [first] = args;
  const isNamed = args.length === 1 && typeof first === 'object' && first !== null && !Array.isArray(first);
  const given = isNamed ? first : args;
  try {
    return run.toolCall(name, given);
  } catch (error) {
    if (!(error instanceof InvalidInputError)) throw error;
    return run.toolCall(name, args.map((it) => inspect(it).toWellFormed()));
  }
}

module.exports = { decorated };
