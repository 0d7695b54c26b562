//! `HEAD`: how processes tell each other what they wrote.
//!
//! A writer that holds the lock notes itself here before it writes and, once its lines are in
//! their segments, the segments and how far they now reach. Others read 128 bytes to learn that
//! nothing happened, and a few entries more to learn where to look. It is a hint, never a source
//! of truth: whatever is wrong with it leads to a look at the segments themselves.
//!
//! The file is fixed-width text, so that entries can be overwritten in place; every line of it
//! is JSON.

use std::io;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Deserialize;

use crate::record::Day;
use crate::segment::SegmentName;
use crate::storage::{Access, Named, Storage, read_full, write_all_at};

const NAME: &str = "HEAD";
const HEADER_LEN: usize = 128;
const ENTRY_LEN: usize = 160;
/// How many commits can be followed entry by entry.
pub(super) const RING_LEN: u64 = 32;

/// Every line may have been acknowledged.
pub(super) const SEQ_UNKNOWN: u64 = u64::MAX;

/// Where [`Header::commits`] begins in a new file: past where it stood in one that was deleted
/// under open stores, so that none takes the new count for the one it knows. Microseconds, which
/// no one can outrun by committing.
pub(super) fn fresh_count() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| u64::try_from(now.as_micros()).unwrap_or(0))
}

/// The first line of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(super) struct Header {
    /// How often a segment was appended to, by anyone; grows by jumps where a look at every
    /// segment is due.
    pub commits: u64,
    /// The sequence number of the last acknowledged line; [`SEQ_UNKNOWN`] until the first commit
    /// after `HEAD` was made, or found in doubt.
    pub last_seq: u64,
    /// The process that writes, 0 if none. One that is found here by the next holder of the lock
    /// died, or failed, while it wrote.
    pub holder: u32,
}

#[derive(Debug)]
pub(super) struct Head {
    named: Named,
}

impl Head {
    /// Opens the file to write, and makes it if it is not there.
    pub(super) fn open_for_writing(storage: &dyn Storage) -> io::Result<Head> {
        Named::open(storage, NAME, Access::Overwrite).map(|named| Head { named })
    }

    /// Opens the file to read; `None` if there is none, as in a store that no one writes.
    pub(super) fn open_for_reading(storage: &dyn Storage) -> io::Result<Option<Head>> {
        match Named::open(storage, NAME, Access::Read) {
            Ok(named) => Ok(Some(Head { named })),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Whether other processes would still find this file.
    pub(super) fn is_current(&self, storage: &dyn Storage) -> io::Result<bool> {
        self.named.is_current(storage, NAME)
    }

    /// The header; `None` if it does not read as one.
    pub(super) fn header(&self) -> io::Result<Option<Header>> {
        let mut line = [0; HEADER_LEN];
        let len = read_full(&*self.named.file, &mut line, 0)?;
        Ok(checked(&line[..len]).and_then(|json| serde_json::from_slice(json).ok()))
    }

    /// The segments that the commits after `after`, up to `last`, appended to, and where each
    /// ended. `None` if that cannot be told from here.
    pub(super) fn commits_between(&self, after: u64, last: u64) -> io::Result<Option<Vec<Commit>>> {
        if last.checked_sub(after).is_none_or(|count| count > RING_LEN) {
            return Ok(None);
        }
        let mut commits = Vec::new();
        for number in after + 1..=last {
            let mut line = [0; ENTRY_LEN];
            let len = read_full(&*self.named.file, &mut line, entry_offset(number))?;
            match Commit::parse(&line[..len]).filter(|commit| commit.number == number) {
                Some(commit) => commits.push(commit),
                None => return Ok(None),
            }
        }
        Ok(Some(commits))
    }

    pub(super) fn write_header(&self, header: Header) -> io::Result<()> {
        let Header {
            commits,
            last_seq,
            holder,
        } = header;
        let json = format!("{{\"commits\":{commits},\"last_seq\":{last_seq},\"holder\":{holder}");
        write_all_at(&*self.named.file, &stamped(&json, HEADER_LEN), 0)
    }

    pub(super) fn write_commit(&self, commit: Commit) -> io::Result<()> {
        let Commit {
            number,
            segment,
            end,
        } = commit;
        let json = format!("{{\"commit\":{number},\"segment\":\"{segment}\",\"end\":{end}");
        write_all_at(
            &*self.named.file,
            &stamped(&json, ENTRY_LEN),
            entry_offset(number),
        )
    }

    /// Fills a new file with lines, so that it has no holes.
    pub(super) fn clear(&self) -> io::Result<()> {
        let mut text = Vec::new();
        text.extend(stamped(
            &format!("{{\"commits\":0,\"last_seq\":{SEQ_UNKNOWN},\"holder\":0"),
            HEADER_LEN,
        ));
        for _ in 0..RING_LEN {
            text.extend(stamped(
                "{\"commit\":0,\"segment\":\"\",\"end\":0",
                ENTRY_LEN,
            ));
        }
        write_all_at(&*self.named.file, &text, 0)
    }
}

/// One append to one segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Commit {
    pub number: u64,
    pub segment: SegmentName,
    /// The segment's length after it.
    pub end: u64,
}

impl Commit {
    fn parse(line: &[u8]) -> Option<Commit> {
        #[derive(Deserialize)]
        struct Wire<'a> {
            commit: u64,
            segment: &'a str,
            end: u64,
        }
        let wire: Wire<'_> = serde_json::from_slice(checked(line)?).ok()?;
        let (day, file_name) = wire.segment.split_once('/')?;
        let segment = SegmentName::parse(day.parse::<Day>().ok()?, file_name)?;
        Some(Commit {
            number: wire.commit,
            segment,
            end: wire.end,
        })
    }
}

fn entry_offset(number: u64) -> u64 {
    HEADER_LEN as u64 + (number % RING_LEN) * ENTRY_LEN as u64
}

/// Closes an open JSON object with a checksum and pads it to its width.
fn stamped(json: &str, width: usize) -> Vec<u8> {
    let crc = crc32fast::hash(json.as_bytes());
    let mut line = format!("{json},\"crc\":\"{crc:08x}\"}}").into_bytes();
    line.resize(width - 1, b' ');
    line.push(b'\n');
    line
}

/// The JSON of a line whose checksum holds: a line read while it was overwritten fails here.
fn checked(line: &[u8]) -> Option<&[u8]> {
    let json = line.trim_ascii_end();
    let (covered, tail) = json.split_at_checked(json.len().checked_sub(18)?)?;
    let hex = tail.strip_prefix(b",\"crc\":\"")?.strip_suffix(b"\"}")?;
    let stated = u32::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok()?;
    (crc32fast::hash(covered) == stated).then_some(json)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Kind;
    use crate::storage::Memory;

    #[test]
    fn every_width_is_enough_and_every_line_is_json() {
        let memory = Memory::new();
        memory.create_dir("").unwrap();
        let head = Head::open_for_writing(&memory).unwrap();
        head.clear().unwrap();
        let header = Header {
            commits: u64::MAX,
            last_seq: u64::MAX,
            holder: u32::MAX,
        };
        head.write_header(header).unwrap();
        assert_eq!(head.header().unwrap(), Some(header));
        let segment = SegmentName {
            day: "9999-12-31".parse().unwrap(),
            kind: Kind::ConversationTurns,
            number: u32::MAX,
        };
        let commit = Commit {
            number: u64::MAX - 1,
            segment,
            end: u64::MAX,
        };
        head.write_commit(commit).unwrap();
        let read = head.commits_between(u64::MAX - 2, u64::MAX - 1).unwrap();
        assert_eq!(read, Some(vec![commit]));

        let bytes = memory.bytes("HEAD").unwrap();
        assert_eq!(bytes.len(), HEADER_LEN + RING_LEN as usize * ENTRY_LEN);
        for line in bytes.split_inclusive(|b| *b == b'\n') {
            serde_json::from_slice::<serde_json::Value>(line).unwrap();
        }
    }

    #[test]
    fn a_lapped_or_broken_ring_is_not_believed() {
        let memory = Memory::new();
        memory.create_dir("").unwrap();
        let head = Head::open_for_writing(&memory).unwrap();
        assert_eq!(head.header().unwrap(), None);
        head.clear().unwrap();
        assert_eq!(head.commits_between(0, RING_LEN + 1).unwrap(), None);
        assert_eq!(head.commits_between(3, 2).unwrap(), None);
        assert_eq!(head.commits_between(0, 1).unwrap(), None);
        assert_eq!(head.commits_between(5, 5).unwrap(), Some(vec![]));
    }
}
