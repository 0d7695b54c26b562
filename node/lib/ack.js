'use strict';
// What the log says of recorded facts.

const { BatchError, ofJson } = require('./errors.js');
const { addon } = require('./wire.js');

const WARNINGS = [undefined, ...addon.warnings()];

class Ack {
  constructor(seq, isAdded, id, sequence, warning) {
    this.seq = seq;
    this.status = isAdded ? 'added' : 'unchanged';
    this.id = id;
    this.sequence = sequence;
    this.warning = warning;
  }
}

/** Reads the acknowledgement that the native part wrote. */
function ofView(view, ownId) {
  const number = view.getFloat64(8, true);
  const assigned = Number.isNaN(number) ? undefined : number;
  const flags = view.getUint8(16);
  return new Ack(
    view.getFloat64(0, true),
    (flags & 1) !== 0,
    ownId ?? assigned,
    (flags & 2) === 0 ? undefined : assigned,
    WARNINGS[view.getUint8(17)],
  );
}

function ofArray([seq, isAdded, id, sequence, warning]) {
  return new Ack(seq, isAdded, id ?? undefined, sequence ?? undefined, warning ?? undefined);
}

/** The acknowledgements and errors of many records: for each, the values of one or an error. */
function ofAnswers(json) {
  const values = JSON.parse(json);
  const answers = [];
  for (let at = 0; at < values.length; ) {
    if (typeof values[at] === 'object') {
      answers.push(ofJson(values[at]));
      at += 1;
    } else {
      answers.push(
        new Ack(values[at], values[at + 1], values[at + 2] ?? undefined, values[at + 3] ?? undefined, values[at + 4] ?? undefined),
      );
      at += 5;
    }
  }
  return answers;
}

/** The answers for records of which some were not sent. Throws if any was rejected. */
function ofBatch(json, unsent) {
  const answers = ofAnswers(json);
  let next = 0;
  const results = unsent.map((error) => error ?? answers[next++]);
  if (results.some((it) => it instanceof Error)) throw new BatchError(results);
  return results;
}

module.exports = { ofAnswers, ofArray, ofBatch, ofView };
