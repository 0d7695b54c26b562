//! Checks value ranges and uniqueness. Readers accept lines that break these rules, so only
//! verification reports them.

use std::collections::{BTreeMap, BTreeSet};

use xxhash_rust::xxh3::xxh3_64;

use crate::line::decode;
use crate::record::{Kind, Record};
use crate::segment::{Damage, DamageClass, Fact, Report, SegmentName, each_fact};
use crate::storage::Storage;

/// Checks lines that hold records.
#[derive(Debug, Default)]
pub(super) struct Rules {
    pub found: Vec<Damage>,
    /// Hashes of the values that must be unique.
    unique: Vec<u64>,
}

impl Rules {
    pub(super) fn look(&mut self, name: SegmentName, fact: &Fact<'_>) {
        let Ok(decoded) = decode(name.kind, fact.bytes) else {
            return;
        };
        if let Some((of, _)) = unique(&decoded.record) {
            self.unique.push(xxh3_64(of.as_bytes()));
        }
        if let Err(e) = decoded.record.checked() {
            let reason = format!("no writer of decklog writes such a value: {}", e.reason());
            self.found.push(breach(name, fact, reason));
        }
    }

    pub(super) fn add(&mut self, other: Rules) {
        self.found.extend(other.found);
        self.unique.extend(other.unique);
    }

    /// Finds lines in these segments that share a value that must be unique.
    pub(super) fn compare(&mut self, storage: &dyn Storage, names: &[SegmentName]) {
        self.unique.sort_unstable();
        let pairs = self.unique.windows(2).filter(|pair| pair[0] == pair[1]);
        let shared: BTreeSet<u64> = pairs.map(|pair| pair[0]).collect();
        if shared.is_empty() {
            return;
        }
        // By shared value: the record and the position of the first line with it.
        let mut first: BTreeMap<String, (String, String)> = BTreeMap::new();
        let names = names.iter().copied().filter(|name| {
            matches!(
                name.kind,
                Kind::Messages | Kind::Inbox | Kind::ThoughtRecords
            )
        });
        for name in names {
            // A segment that cannot be read was reported before.
            let _ = each_fact(storage, name, &mut |fact| {
                let decoded = decode(name.kind, fact.bytes).ok();
                let Some((of, id)) = decoded.and_then(|decoded| unique(&decoded.record)) else {
                    return;
                };
                if !shared.contains(&xxh3_64(of.as_bytes())) {
                    return;
                }
                let Some((known, place)) = first.get(&of) else {
                    let place = format!("{name} at byte {}", fact.offset);
                    first.insert(of, (id, place));
                    return;
                };
                // The same record may be in the log twice.
                if *known != id {
                    let reason = format!("the line has {of}, which the line of {place} has, too");
                    self.found.push(breach(name, &fact, reason));
                }
            });
        }
    }
}

fn breach(name: SegmentName, fact: &Fact<'_>, reason: String) -> Damage {
    let place = (fact.offset, fact.bytes.len() as u64);
    Report::new(DamageClass::Altered, place, reason).in_segment(name)
}

/// The value that must be unique within the kind, in words, and the record's id.
fn unique(record: &Record) -> Option<(String, String)> {
    match record {
        Record::Message(message) => {
            let sequence = message.sequence?;
            let of = format!("sequence {sequence} of {}", message.conversation_id);
            Some((of, message.id.to_string()))
        }
        Record::InboxTask(task) => {
            Some((format!("update_id {}", task.update_id), task.id.to_string()))
        }
        Record::Thought(thought) if !thought.hash.is_empty() => {
            Some((format!("hash {}", thought.hash), thought.id.clone()))
        }
        _ => None,
    }
}
