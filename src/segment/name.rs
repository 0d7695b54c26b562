//! Names of segments, and the listing of a store's segments.

use std::fmt;
use std::io;

use crate::error::{Result, is_of_what_is_read};
use crate::record::{Day, Kind};
use crate::storage::{FileTimes, Storage, io_error, is_gone};

/// A segment's day, kind and number: `2025-12-27/tool_calls.0001.jsonl`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SegmentName {
    pub day: Day,
    pub kind: Kind,
    pub number: u32,
}

impl SegmentName {
    /// Parses a file name. Accepts only the exact form that [`Display`](fmt::Display) writes.
    pub(crate) fn parse(day: Day, file_name: &str) -> Option<SegmentName> {
        let (stem, number) = file_name.strip_suffix(".jsonl")?.split_once('.')?;
        let kind = Kind::from_stem(stem)?;
        let number = number.parse().ok().filter(|number| *number > 0)?;
        let name = SegmentName { day, kind, number };
        (name.file_name() == file_name).then_some(name)
    }

    /// Packs the name into one word, which is never 0.
    pub(crate) fn pack(self) -> u64 {
        let (start_ms, end_ms) = self.day.bounds_ms();
        let day = (start_ms / (end_ms - start_ms)).cast_unsigned();
        day << 40 | (self.kind as u64) << 32 | u64::from(self.number)
    }

    /// Unpacks a word that [`pack`](SegmentName::pack) made.
    pub(crate) fn unpack(word: u64) -> Option<SegmentName> {
        let (_, day_ms) = Day::of(0).ok()?.bounds_ms();
        let start_ms = (word >> 40).cast_signed().checked_mul(day_ms)?;
        let number = word as u32;
        (number > 0).then_some(SegmentName {
            day: Day::of(start_ms).ok()?,
            kind: *Kind::ALL.get((word >> 32 & 0xFF) as usize)?,
            number,
        })
    }

    pub(crate) fn file_name(self) -> String {
        format!("{}.{:04}.jsonl", self.kind, self.number)
    }

    pub(crate) fn path(self) -> String {
        self.to_string()
    }
}

impl fmt::Display for SegmentName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.day, self.file_name())
    }
}

/// The contents of a store's directory.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    pub segments: Vec<SegmentName>,
    /// Names of segments that belong to something other than a regular file: a directory, a pipe, a
    /// dangling link.
    pub taken: Vec<SegmentName>,
    /// Other files in day directories, and non-directories that have a day as their name.
    pub foreign: Vec<String>,
    /// Day directories that cannot be listed, with the error.
    pub unreadable: Vec<(String, io::Error)>,
    /// Day directories that hold nothing but segments and seals, with their times before they were
    /// listed, by day.
    pub plain: Vec<(Day, FileTimes)>,
}

/// Lists all segments, in the order of day, kind and number.
pub(crate) fn list(storage: &dyn Storage) -> Result<Listing> {
    list_changed(storage, |_, _| None)
}

/// As [`list`], but does not list a directory whose segments `known` gives for its day and times.
pub(crate) fn list_changed(
    storage: &dyn Storage,
    known: impl Fn(Day, FileTimes) -> Option<Vec<SegmentName>>,
) -> Result<Listing> {
    let mut listing = Listing::default();
    let root = storage
        .read_dir("")
        .map_err(|e| io_error(storage, "list the directory", "", e))?;
    for entry in &root {
        let Ok(day) = entry.name.parse::<Day>() else {
            continue;
        };
        if !entry.is_dir {
            listing.foreign.push(entry.name.clone());
            continue;
        }
        let times = storage.times(&entry.name).ok().flatten();
        if let Some(times) = times
            && let Some(segments) = known(day, times)
        {
            listing.segments.extend(segments);
            listing.plain.push((day, times));
            continue;
        }
        let others = listing.taken.len() + listing.foreign.len();
        let names = match storage.read_dir(&entry.name) {
            Ok(names) => names,
            // The directory was moved after it was listed.
            Err(e) if is_gone(&e) => continue,
            Err(e) if is_of_what_is_read(&e) => {
                listing.unreadable.push((entry.name.clone(), e));
                continue;
            }
            Err(e) => return Err(io_error(storage, "list the directory", &entry.name, e)),
        };
        for file in names {
            match SegmentName::parse(day, &file.name) {
                Some(name) if file.is_file => listing.segments.push(name),
                Some(name) => listing.taken.push(name),
                None if file.name == "seals.jsonl" => {}
                None => listing
                    .foreign
                    .push(format!("{}/{}", entry.name, file.name)),
            }
        }
        if listing.taken.len() + listing.foreign.len() == others {
            listing.plain.extend(times.map(|times| (day, times)));
        }
    }
    listing.segments.sort_unstable();
    listing.taken.sort_unstable();
    listing.foreign.sort_unstable();
    listing.plain.sort_unstable_by_key(|(day, _)| *day);
    Ok(listing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_has_one_name() {
        let day: Day = "2025-12-27".parse().unwrap();
        for name in [
            "tool_calls.0001.jsonl",
            "conversation_turns.9999.jsonl",
            "tool_calls.10000.jsonl",
        ] {
            assert_eq!(SegmentName::parse(day, name).unwrap().file_name(), name);
        }
        for name in [
            "tool_calls.1.jsonl",
            "tool_calls.0000.jsonl",
            "tool_calls.jsonl",
            "x.0001.jsonl",
            "tool_calls.+001.jsonl",
            "tool_calls.00001.jsonl",
            "tool_calls.0001.jsonl.tmp",
            "tool_calls.99999999999.jsonl",
            "tool_calls..jsonl",
        ] {
            assert_eq!(SegmentName::parse(day, name), None, "{name}");
        }
    }
}
