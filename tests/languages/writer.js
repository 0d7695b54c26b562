// Writes events, for `tests/languages/run`: `writer.js PACKAGE LOG NAME COUNT`.
'use strict';

const PART = 100;
const [, , from, path, name, given] = process.argv;
const { open } = require(from);
const count = Number(given);
const log = open(path);
for (let start = 0, place = 0; start < count; start += PART, place += 1) {
  const events = [];
  for (let number = start; number < Math.min(start + PART, count); number += 1) {
    events.push({ kind: 'events', event_type: `${name}.wrote`, payload: number });
  }
  if (place % 2 === 0) events.forEach((event) => log.record(event));
  else log.recordBatch(events);
}
log.close();
