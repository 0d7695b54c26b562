"""Writes events, for `tests/languages/run`: `writer.py LOG NAME COUNT`."""

import sys

import decklog

PART = 100
path, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
with decklog.open(path) as log:
    for place, start in enumerate(range(0, count, PART)):
        numbers = range(start, min(start + PART, count))
        events = [{"event_type": f"{name}.wrote", "payload": number} for number in numbers]
        if place % 2 == 0:
            for event in events:
                log.record(event, kind="events")
        else:
            log.record_batch(events, kind="events")
