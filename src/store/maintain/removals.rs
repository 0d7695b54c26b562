//! `removals.jsonl`: what was removed from the log, when and why.
//!
//! It also keeps what must outlast the lines: the greatest numbers given, and the last hash of each
//! chain whose start is gone. Its lines form a hash chain.

use std::io;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use uuid::Uuid;

use super::tombstones::{ErasedBy, Tombstone, Tombstones};
use crate::index::Index;
use crate::line::{is_intact, stamped};
use crate::record::{Kind, NUMBER_MAX, now};
use crate::segment::seal::{Digest, SealReason};
use crate::storage::{Access, Storage, StorageFile, append_all, read_all, read_full};

pub(in crate::store) const NAME: &str = "removals.jsonl";

/// Why lines were removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RemovalReason {
    /// They expired.
    Retention,
    /// The store exceeded its size limit.
    Size,
    /// They were superseded or retracted, or moved to another segment.
    Compaction,
    /// Their erasure was requested.
    Erasure,
}

impl RemovalReason {
    /// The reason as one word.
    pub fn as_str(self) -> &'static str {
        match self {
            RemovalReason::Retention => "retention",
            RemovalReason::Size => "size",
            RemovalReason::Compaction => "compaction",
            RemovalReason::Erasure => "erasure",
        }
    }
}

/// What was taken out of one segment; a line of `removals.jsonl`. One that tells less is read, too,
/// if it tells when, why and how much went, and which numbers were given.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(in crate::store) struct Removal {
    /// Its number, from 1, which it gets when it is appended.
    #[serde(default)]
    pub seq: u64,
    /// When it was taken out, in epoch milliseconds.
    pub at: i64,
    /// Why.
    pub reason: RemovalReason,
    /// The segment, relative to the store.
    #[serde(default)]
    pub file: String,
    /// How many lines went.
    pub lines: u64,
    /// How many bytes they had.
    pub bytes: u64,
    /// The least of their sequence numbers.
    #[serde(default)]
    pub first_seq: u64,
    /// The greatest.
    #[serde(default)]
    pub last_seq: u64,
    /// The earliest of their times, in epoch milliseconds.
    #[serde(default)]
    pub first_at: i64,
    /// The latest.
    #[serde(default)]
    pub last_at: i64,
    /// The ends of what was removed of chains of thoughts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub anchors: Vec<Anchor>,
    /// The greatest numbers that the log had given by then.
    pub marks: NumberWatermarks,
    /// The key of the hashes of ids in `erased` and `restored`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<Uuid>,
    /// Conversations and requests that were erased.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub erased: Vec<Tombstone>,
    /// Whether they were erased from another store, of which this one has records.
    #[serde(
        default,
        rename = "taken_over",
        skip_serializing_if = "std::ops::Not::not"
    )]
    pub is_taken_over: bool,
    /// Those that may come back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub restored: Vec<String>,
    /// The segment's seals as they stood, where the segment itself is gone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub seals: Vec<Box<RawValue>>,
    /// The hash of the line before, which it gets when it is appended.
    #[serde(default)]
    pub prev: Digest,
}

impl Removal {
    /// Of nothing yet.
    pub(in crate::store) fn new(
        reason: RemovalReason,
        file: String,
        marks: NumberWatermarks,
    ) -> Removal {
        Removal {
            seq: 0,
            at: now(),
            reason,
            file,
            lines: 0,
            bytes: 0,
            first_seq: 0,
            last_seq: 0,
            first_at: 0,
            last_at: 0,
            anchors: Vec::new(),
            marks,
            key: None,
            erased: Vec::new(),
            is_taken_over: false,
            restored: Vec::new(),
            seals: Vec::new(),
            prev: Digest::ZERO,
        }
    }
}

impl From<RemovalReason> for SealReason {
    fn from(reason: RemovalReason) -> SealReason {
        match reason {
            RemovalReason::Retention => SealReason::Retention,
            RemovalReason::Size => SealReason::Size,
            RemovalReason::Compaction => SealReason::Compaction,
            RemovalReason::Erasure => SealReason::Erasure,
        }
    }
}

/// Totals of all removals; from [`Store::health`](crate::Store::health).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Removed {
    /// How many lines.
    pub lines: u64,
    /// How many bytes they had.
    pub bytes: u64,
    /// Time of the last removal, in epoch milliseconds.
    pub last_at: Option<i64>,
    /// Why.
    pub last_reason: Option<RemovalReason>,
}

/// The last of a chain's thoughts that were removed. Those that follow still verify from it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Anchor {
    /// The chain's task.
    pub task_id: String,
    /// The thought's hash.
    pub hash: String,
    /// The thought's sequence number.
    pub seq: u64,
}

/// Numbers that are not given again, whatever was removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NumberWatermarks {
    /// The greatest sequence number.
    pub seq: u64,
    /// The greatest id of an event.
    pub events: i64,
    /// The greatest id of a task of the inbox.
    pub inbox: i64,
    /// The greatest id of an entry of a history.
    pub history: i64,
    /// The greatest `update_id` of the inbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_id: Option<i64>,
}

impl NumberWatermarks {
    const NUMBERED: [Kind; 3] = [Kind::Events, Kind::Inbox, Kind::History];

    pub(in crate::store) fn of(index: &Index, seq: u64) -> NumberWatermarks {
        let [events, inbox, history] =
            NumberWatermarks::NUMBERED.map(|kind| index.table(kind).number_max());
        NumberWatermarks {
            seq,
            events,
            inbox,
            history,
            update_id: index.update_id_max(),
        }
    }

    /// Takes in later ones. What is too great to number on from does not hide what came before.
    fn raise_to(&mut self, later: NumberWatermarks) {
        self.seq = self.seq.max(later.seq);
        for (known, later) in [
            (&mut self.events, later.events),
            (&mut self.inbox, later.inbox),
            (&mut self.history, later.history),
        ] {
            if later <= NUMBER_MAX {
                *known = later.max(*known);
            }
        }
        let update_id = later.update_id.filter(|id| *id <= NUMBER_MAX);
        self.update_id = self.update_id.max(update_id);
    }

    /// Has the index give no number again.
    pub(in crate::store) fn raise(&self, index: &mut Index) {
        let numbers = [self.events, self.inbox, self.history];
        for (kind, number) in NumberWatermarks::NUMBERED.into_iter().zip(numbers) {
            index.raise(kind, number);
        }
        index.raise_update_id(self.update_id);
    }
}

/// What the log of removals keeps of what is gone.
#[derive(Debug, Clone, Default)]
pub(in crate::store) struct RemovalSummary {
    /// The greatest of all removals.
    pub marks: NumberWatermarks,
    pub anchors: Vec<Anchor>,
    pub removed: Removed,
    pub tombstones: Tombstones,
    /// Some lines were changed after they were written, and say nothing.
    pub is_damaged: bool,
}

impl RemovalSummary {
    pub(in crate::store) fn anchors_of(&self, task_id: &str) -> impl Iterator<Item = &Anchor> {
        let anchors = self.anchors.iter();
        anchors.filter(move |anchor| anchor.task_id == task_id)
    }
}

/// Reads what is kept. Lines that do not read as removals are left out: `verify` tells.
pub(in crate::store) fn read(storage: &dyn Storage) -> io::Result<RemovalSummary> {
    let mut summary = RemovalSummary::default();
    let bytes = match storage.open(NAME, Access::Read) {
        Ok(file) => read_all(&*file)?,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(summary),
        Err(e) => return Err(e),
    };
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let Some(line) = line.strip_suffix(b"\n") else {
            // Someone died while writing it.
            continue;
        };
        let is_intact = is_intact(line);
        summary.is_damaged |= !is_intact && !line.is_empty();
        if is_intact && let Ok(line) = serde_json::from_slice::<Removal>(line) {
            summary.marks.raise_to(line.marks);
            summary.anchors.extend(line.anchors);
            let erasure = line.key.map(|key| ErasedBy {
                key,
                here_through: (!line.is_taken_over).then_some(line.marks.seq),
            });
            summary
                .tombstones
                .read(erasure, line.erased, &line.restored);
            let removed = &mut summary.removed;
            removed.lines = removed.lines.saturating_add(line.lines);
            removed.bytes = removed.bytes.saturating_add(line.bytes);
            if line.lines > 0 {
                removed.last_at = Some(line.at);
                removed.last_reason = Some(line.reason);
            }
        }
    }
    Ok(summary)
}

/// What of the chain of removals the next one follows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::store) struct Last {
    /// The last removal's number, 0 if there is none.
    pub seq: u64,
    /// The SHA-256 of its line without LF.
    pub hash: Digest,
}

impl Last {
    /// The place in the chain that a line of a removal has; `None` if it is none, or changed.
    fn of(line: &[u8]) -> Option<Last> {
        #[derive(Deserialize)]
        struct Numbered {
            seq: u64,
        }
        let numbered = serde_json::from_slice(line)
            .ok()
            .filter(|_| is_intact(line));
        numbered.map(|Numbered { seq }| Last {
            seq,
            hash: Digest::of(line),
        })
    }
}

/// Adds a line to the chain, which is to be synced by the caller, who holds the write lock.
pub(in crate::store) fn append(
    storage: &dyn Storage,
    removal: Removal,
) -> io::Result<std::sync::Arc<dyn StorageFile>> {
    let file = storage.open(NAME, Access::Append)?;
    let (last, has_tail) = last(&*file)?;
    let removal = Removal {
        seq: last.seq.saturating_add(1),
        prev: last.hash,
        ..removal
    };
    // Someone may have died while writing a line.
    let mut line = if has_tail { vec![b'\n'] } else { Vec::new() };
    line.extend(stamped(serde_json::to_vec(&removal)?));
    append_all(&*file, &line)?;
    Ok(file)
}

/// The end of the chain, and whether the last line has no LF. Reads from the end of the file.
fn last(file: &dyn StorageFile) -> io::Result<(Last, bool)> {
    let len = file.stat()?.len;
    let mut wanted = 64 << 10;
    loop {
        let start = len.saturating_sub(wanted);
        let mut bytes = vec![0; usize::try_from(len - start).unwrap_or(usize::MAX)];
        let read = read_full(file, &mut bytes, start)?;
        bytes.truncate(read);
        let has_tail = bytes.last().is_some_and(|byte| *byte != b'\n');
        // The end of a longer line, which the first piece may be, does not have its checksum.
        let mut lines = bytes.rsplit(|byte| *byte == b'\n');
        match lines.find_map(Last::of) {
            Some(last) => return Ok((last, has_tail)),
            None if start == 0 => return Ok((Last::default(), has_tail)),
            None => wanted *= 8,
        }
    }
}
