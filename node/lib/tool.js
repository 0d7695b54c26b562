'use strict';
// Functions whose calls are recorded as tool calls.

const { types } = require('node:util');
const { invalid } = require('./errors.js');
const { observedGenerator } = require('./generator.js');
const { isOfLog, observed, shown } = require('./outcome.js');

/** The function with its calls recorded. One argument that is an object is the arguments. */
function decorated(run, name, work) {
  if (typeof work !== 'function') throw invalid('tool', 'it is no function');
  const toolName = name || work.name || 'anonymous';
  function called(...args) {
    const call = requested(run(), toolName, args);
    // The body of a generator runs when it is iterated over.
    if (types.isGeneratorFunction(work)) return observedGenerator(call, () => work.apply(this, args));
    return observed(call, () => work.apply(this, args));
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
    if (isOfLog(error)) throw error;
    return run.toolCall(name, args.map(shown));
  }
}

module.exports = { decorated };
