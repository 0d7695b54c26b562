'use strict';
// Generators whose calls are recorded, until they are exhausted, closed or failed.

const { ended, failed, shown } = require('./outcome.js');
const { Written } = require('./wire.js');

/** How many items of a generator its outcome has. Further ones are counted. */
const ITEMS_MAX = 1000;

/** What a generator yielded. */
class Items {
  #items = [];
  #more = 0;

  /** Notes an item as it is now. */
  add(item) {
    if (this.#items.length >= ITEMS_MAX) this.#more += 1;
    else this.#items.push(noted(item));
  }

  /** The outcome of a generator that ended. */
  outcome(returned) {
    const items = this.#more > 0 ? [...this.#items, `… ${this.#more} more`] : this.#items;
    return returned === undefined ? items : { yielded: items, returned: noted(returned) };
  }
}

function noted(item) {
  try {
    return new Written(item);
  } catch {
    return shown(item);
  }
}

/** The generator that a function returns, of the same class. Its end is that of the call. */
function observedGenerator(call, work) {
  const items = new Items();
  const seen = (step) => {
    if (step.done) ended(call, items.outcome(step.value));
    else items.add(step.value);
    return step;
  };
  const refused = (error) => {
    failed(call, error);
    throw error;
  };
  let inner;
  try {
    inner = work();
  } catch (error) {
    return refused(error);
  }
  const isAsync = typeof inner[Symbol.asyncIterator] === 'function';
  const method = (name) => ({
    configurable: true,
    writable: true,
    value: isAsync
      ? (...given) => inner[name](...given).then(seen, refused)
      : (...given) => {
          let step;
          try {
            step = inner[name](...given);
          } catch (error) {
            return refused(error);
          }
          return seen(step);
        },
  });
  return Object.create(Object.getPrototypeOf(inner), {
    next: method('next'),
    return: method('return'),
    throw: method('throw'),
  });
}

module.exports = { observedGenerator };
