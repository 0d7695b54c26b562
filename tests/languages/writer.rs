//! A program that embeds the library and writes events, for `tests/languages/run`: `writer LOG NAME
//! COUNT`.

use decklog::{Event, Record, Store};

/// Every other part of this many events is recorded as a batch, the others one by one.
const PART: usize = 100;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut next = || arguments.next().ok_or("usage: writer LOG NAME COUNT");
    let (path, name, count) = (next()?, next()?, next()?.parse::<usize>()?);
    let store = Store::open(path)?;
    let numbers: Vec<usize> = (0..count).collect();
    for (place, part) in numbers.chunks(PART).enumerate() {
        let event_type = format!("{name}.wrote");
        let events = part
            .iter()
            .map(|number| Event::new(None, &*event_type).payload(number.to_string()));
        if place % 2 == 0 {
            for event in events {
                store.record(event)?;
            }
        } else {
            for ack in store.record_batch(events.map(Record::from))? {
                ack?;
            }
        }
    }
    store.close()?;
    Ok(())
}
