//! `removals.jsonl`: what was removed from the log, when and why.
//!
//! It also keeps information of removed lines that is still needed: the greatest numbers assigned,
//! and the last hash of each chain whose start was removed. Its lines form a hash chain.

use std::io;
use std::sync::Arc;

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

/// A line of `removals.jsonl`: what was removed from one segment. Only `at`, `reason`, `lines`,
/// `bytes` and `marks` are required when reading.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(in crate::store) struct Removal {
    /// Its number, from 1. Assigned when it is appended.
    #[serde(default)]
    pub seq: u64,
    /// Time of the removal, in epoch milliseconds.
    pub at: i64,
    /// The reason of the removal.
    pub reason: RemovalReason,
    /// The segment, relative to the store.
    #[serde(default)]
    pub file: String,
    /// Number of lines removed.
    pub lines: u64,
    /// Their size, in bytes.
    pub bytes: u64,
    /// The least of their sequence numbers.
    #[serde(default)]
    pub first_seq: u64,
    /// The greatest of their sequence numbers.
    #[serde(default)]
    pub last_seq: u64,
    /// The earliest of their times, in epoch milliseconds.
    #[serde(default)]
    pub first_at: i64,
    /// The latest of their times, in epoch milliseconds.
    #[serde(default)]
    pub last_at: i64,
    /// The last removed thought of each chain.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub anchors: Vec<Anchor>,
    /// The greatest numbers that the log had assigned by then.
    pub marks: NumberWatermarks,
    /// The key of the hashes of ids in `erased` and `restored`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<Uuid>,
    /// Conversations and requests that were erased.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub erased: Vec<Tombstone>,
    /// Whether they were erased in another store, from which this one has copies of records.
    #[serde(
        default,
        rename = "taken_over",
        skip_serializing_if = "std::ops::Not::not"
    )]
    pub is_taken_over: bool,
    /// Hashes of ids that may be recorded again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub restored: Vec<String>,
    /// If the segment was removed, the lines of its seals.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub seals: Vec<Box<RawValue>>,
    /// The hash of the previous line. Assigned when it is appended.
    #[serde(default)]
    pub prev: Digest,
}

impl Removal {
    /// A removal of no lines yet.
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
    /// Number of lines.
    pub lines: u64,
    /// Their size, in bytes.
    pub bytes: u64,
    /// Time of the last removal, in epoch milliseconds.
    pub last_at: Option<i64>,
    /// The reason of the last removal.
    pub last_reason: Option<RemovalReason>,
}

/// The last removed thought of a chain. The thoughts after it still verify from its hash.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Anchor {
    /// The chain's task.
    pub task_id: String,
    /// The thought's hash.
    pub hash: String,
    /// The thought's sequence number.
    pub seq: u64,
}

/// The greatest numbers assigned. They are not assigned again, whatever is removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NumberWatermarks {
    /// The greatest sequence number.
    pub seq: u64,
    /// The greatest event id.
    pub events: i64,
    /// The greatest id of an inbox task.
    pub inbox: i64,
    /// The greatest id of a history entry.
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

    /// Merges later watermarks. Ignores numbers after which no further number could be assigned.
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

    /// Makes the index assign greater numbers only.
    pub(in crate::store) fn raise(&self, index: &mut Index) {
        let numbers = [self.events, self.inbox, self.history];
        for (kind, number) in NumberWatermarks::NUMBERED.into_iter().zip(numbers) {
            index.raise(kind, number);
        }
        index.raise_update_id(self.update_id);
    }
}

/// A summary of `removals.jsonl`.
#[derive(Debug, Clone, Default)]
pub(in crate::store) struct RemovalSummary {
    /// The greatest numbers of all removals.
    pub marks: NumberWatermarks,
    pub anchors: Vec<Anchor>,
    pub removed: Removed,
    pub tombstones: Tombstones,
    /// Whether some lines fail their checksum. They are ignored.
    pub is_damaged: bool,
}

impl RemovalSummary {
    pub(in crate::store) fn anchors_of(&self, task_id: &str) -> impl Iterator<Item = &Anchor> {
        let anchors = self.anchors.iter();
        anchors.filter(move |anchor| anchor.task_id == task_id)
    }
}

/// Reads the summary. Skips invalid lines; `verify` reports them.
pub(in crate::store) fn read(storage: &dyn Storage) -> io::Result<RemovalSummary> {
    let mut summary = RemovalSummary::default();
    let bytes = match storage.open(NAME, Access::Read) {
        Ok(file) => read_all(&*file)?,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(summary),
        Err(e) => return Err(e),
    };
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let Some(line) = line.strip_suffix(b"\n") else {
            // A torn line: the writer died.
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

/// The end of the chain of removals, which the next removal refers to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::store) struct Last {
    /// The last removal's number, 0 if there is none.
    pub seq: u64,
    /// The SHA-256 of its line without LF.
    pub hash: Digest,
}

impl Last {
    /// The number and hash of a line; `None` if it is not a removal or fails its checksum.
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

/// Appends a line to the chain. The caller holds the write lock and syncs the file.
pub(in crate::store) fn append(
    storage: &dyn Storage,
    removal: Removal,
) -> io::Result<Arc<dyn StorageFile>> {
    let file = storage.open(NAME, Access::Append)?;
    let (last, has_tail) = last(&*file)?;
    let removal = Removal {
        seq: last.seq.saturating_add(1),
        prev: last.hash,
        ..removal
    };
    // Terminate a torn line.
    let mut line = if has_tail { vec![b'\n'] } else { Vec::new() };
    line.extend(stamped(serde_json::to_vec(&removal)?));
    append_all(&*file, &line)?;
    Ok(file)
}

/// Syncs a file to which removals were appended, if there is one.
pub(in crate::store) fn sync(
    storage: &dyn Storage,
    file: Option<Arc<dyn StorageFile>>,
) -> io::Result<()> {
    let Some(file) = file else { return Ok(()) };
    file.sync()?;
    storage.sync_dir("")
}

/// The end of the chain, and whether the last line lacks its LF. Reads backwards from the end.
fn last(file: &dyn StorageFile) -> io::Result<(Last, bool)> {
    let len = file.stat()?.len;
    let mut wanted = 64 << 10;
    loop {
        let start = len.saturating_sub(wanted);
        let mut bytes = vec![0; usize::try_from(len - start).unwrap_or(usize::MAX)];
        let read = read_full(file, &mut bytes, start)?;
        bytes.truncate(read);
        let has_tail = bytes.last().is_some_and(|byte| *byte != b'\n');
        // The first piece may be the end of a longer line. It has no valid checksum then.
        let mut lines = bytes.rsplit(|byte| *byte == b'\n');
        match lines.find_map(Last::of) {
            Some(last) => return Ok((last, has_tail)),
            None if start == 0 => return Ok((Last::default(), has_tail)),
            None => wanted *= 8,
        }
    }
}
