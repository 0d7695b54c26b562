//! `HEAD`: how processes publish their appends to each other.
//!
//! The holder of the lock stores itself here, and with every commit the segments appended to and
//! their lengths. Other processes load one word to see that nothing changed, and a few more to see
//! which segments to read. `HEAD` is a hint, never the source of truth: if anything in it is
//! wrong, the segments are rescanned.
//!
//! The file is an array of 64-bit words. It is mapped as shared memory if the system allows it,
//! and otherwise read and written. The order of stores and loads replaces a lock: the data of a
//! commit is stored before its number, and loaded after it.

use std::cmp::Reverse;
use std::io;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::error::Error;
use crate::segment::SegmentName;
use crate::storage::{Access, Named, Storage, Words, io_error, read_full, write_all_at};

const NAME: &str = "HEAD";
/// Identifies the file format and its layout.
const MAGIC: u64 = u64::from_le_bytes(*b"DLHEAD01");

// Offsets in words.
const MAGIC_AT: usize = 0;
const COMMITS_AT: usize = 1;
const LAST_SEQ_AT: usize = 2;
const HOLDER_AT: usize = 3;
const LAPPED_AT: usize = 4;
/// Since when the process that has waited longest for the lock waits, by [`clock_us`]; 0 if none
/// does. Processes that wait set it again if it was cleared or is later than theirs.
const WAITING_AT: usize = 5;
/// Changes when the settings change; see [`Header::settings`].
const SETTINGS_AT: usize = 6;
/// The number of rewrites; see [`Relocations`](crate::store::view::relocations::Relocations).
const MOVED_AT: usize = 7;
const HEADER_WORDS: usize = 7;
const SLOTS_AT: usize = 8;
const SLOT_WORDS: usize = 3;
/// Maximum number of segments recorded at a time.
pub(in crate::store) const SLOTS: usize = 64;
const WORDS: usize = SLOTS_AT + SLOTS * SLOT_WORDS;
const WORD_BYTES: usize = size_of::<u64>();

/// The last acknowledged line is unknown: any line may have been acknowledged.
pub(in crate::store) const SEQ_UNKNOWN: u64 = u64::MAX;

/// The time in microseconds. It is also the initial [`Header::commits`] of a new file: greater than
/// the count in a deleted `HEAD` that another process still has open, so that no process takes the new
/// count for the one it knows. Commits cannot outrun microseconds.
pub(in crate::store) fn clock_us() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| u64::try_from(now.as_micros()).unwrap_or(0))
}

/// The part of the file that concerns the whole store.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::store) struct Header {
    /// Number of commits: appends to a segment, by any process. Also incremented when every
    /// segment must be rescanned.
    pub commits: u64,
    /// The sequence number of the last acknowledged line. [`SEQ_UNKNOWN`] until the first commit
    /// after `HEAD` was created or found inconsistent.
    pub last_seq: u64,
    /// The process id of the lock's holder, 0 if none. If the next holder finds one here, that
    /// process died or failed while it held the lock.
    pub holder: u32,
    /// A process that knows no later commit than this must rescan every segment.
    pub lapped: u64,
    /// If it differs from the number at which the settings were read, read them again. Incremented
    /// before the settings change. Initialized as [`commits`](Header::commits) is.
    pub settings: u64,
}

impl Header {
    /// Makes every process rescan all segments.
    pub(in crate::store) fn call_for_a_look(&mut self) {
        self.commits = self.commits.wrapping_add(1);
        self.lapped = self.commits;
    }
}

/// The length of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) struct Reach {
    pub segment: SegmentName,
    /// Its length after the last commit that appended to it.
    pub end: u64,
}

/// The segments appended to since a commit.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::store) struct HeadChanges {
    pub reaches: Vec<Reach>,
    /// The last line that is certainly acknowledged and certainly within `reaches`.
    pub last_seq: u64,
}

/// The error if `HEAD` cannot be read.
pub(in crate::store) fn unread(storage: &dyn Storage, e: io::Error) -> Error {
    io_error(storage, "read HEAD", NAME, e)
}

#[derive(Debug)]
pub(in crate::store) struct Head {
    named: Named,
    shared: Option<Words>,
}

impl Head {
    /// Opens the file for writing. Creates it if it does not exist.
    pub(in crate::store) fn open_for_writing(storage: &dyn Storage) -> io::Result<Head> {
        Named::open(storage, NAME, Access::Overwrite).map(Head::new)
    }

    /// Opens the file for reading. `None` if it does not exist, as in a store that was never
    /// written.
    pub(in crate::store) fn open_for_reading(storage: &dyn Storage) -> io::Result<Option<Head>> {
        match Named::open(storage, NAME, Access::Read) {
            Ok(named) => Ok(Some(Head::new(named))),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
        }
    }

    fn new(named: Named) -> Head {
        let shared = named.file.words(WORDS);
        Head { named, shared }
    }

    /// The identity of the file.
    pub(in crate::store) fn identity(&self) -> u64 {
        self.named.identity
    }

    /// Whether the file is mapped as shared memory, so that reading it is cheap.
    pub(in crate::store) fn is_shared(&self) -> bool {
        self.shared.is_some()
    }

    /// Whether other processes still find this file under its name, with its full length. Mapped
    /// memory past the end of a truncated file must not be accessed.
    pub(in crate::store) fn is_current(&self, storage: &dyn Storage) -> io::Result<bool> {
        match storage.stat(NAME) {
            Ok(found) => {
                let is_long = found.len >= (WORDS * WORD_BYTES) as u64;
                Ok(found.identity == self.named.identity && (is_long || !self.is_shared()))
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// The number of the last commit; `None` if this is not a valid `HEAD`.
    pub(in crate::store) fn commits(&self) -> io::Result<Option<u64>> {
        match &self.shared {
            Some(words) if words.load(MAGIC_AT) != MAGIC => Ok(None),
            Some(words) => Ok(Some(words.load(COMMITS_AT))),
            None => Ok(self.header()?.map(|header| header.commits)),
        }
    }

    /// The header; `None` if it is not valid.
    pub(in crate::store) fn header(&self) -> io::Result<Option<Header>> {
        let [magic, commits, last_seq, holder, lapped, _, settings] =
            self.load::<HEADER_WORDS>(MAGIC_AT)?;
        Ok((magic == MAGIC).then_some(Header {
            commits,
            last_seq,
            holder: holder as u32,
            lapped,
            settings,
        }))
    }

    /// Number of rewrites for which other handles may find relocations in `cache/moves`.
    pub(in crate::store) fn moved(&self) -> io::Result<u64> {
        self.load::<1>(MOVED_AT).map(|[moved]| moved)
    }

    /// Stores the number of rewrites, before the rewrite is published as a commit.
    pub(in crate::store) fn note_moved(&self, moved: u64) -> io::Result<()> {
        self.store(MOVED_AT, &[moved])
    }

    /// The segments appended to after the commit `after`. `None` if `HEAD` does not have that
    /// information.
    pub(in crate::store) fn changes_after(&self, after: u64) -> io::Result<Option<HeadChanges>> {
        const TRIES: usize = 4;
        for _ in 0..TRIES {
            let Some(header) = self.header()? else {
                return Ok(None);
            };
            let slots = self.slots()?;
            // Load this last: it is stored before a slot is given to another segment.
            let [lapped] = self.load::<1>(LAPPED_AT)?;
            if after < lapped || header.commits < after {
                return Ok(None);
            }
            let changed = slots.iter().filter(|slot| slot.commit > after);
            let reaches: Option<Vec<Reach>> = changed.map(Slot::reach).collect();
            if let Some(reaches) = reaches {
                let last_seq = header.last_seq;
                return Ok(Some(HeadChanges { reaches, last_seq }));
            }
        }
        Ok(None)
    }

    /// The lengths of all segments recorded here, of those appended to last first.
    pub(in crate::store) fn last_reaches(&self) -> io::Result<impl Iterator<Item = Reach>> {
        let mut slots = self.slots()?;
        slots.sort_unstable_by_key(|slot| Reverse(slot.commit));
        Ok(slots.into_iter().filter_map(|slot| slot.reach()))
    }

    /// The recorded segments that were appended to after the commit `after`.
    pub(in crate::store) fn appended_to_after(&self, after: u64) -> io::Result<Vec<SegmentName>> {
        let later = self.slots()?.into_iter().filter(|slot| slot.commit > after);
        let names = later.filter_map(|slot| SegmentName::unpack(slot.name));
        Ok(names.collect())
    }

    fn slots(&self) -> io::Result<Vec<Slot>> {
        let words = self.load::<{ SLOTS * SLOT_WORDS }>(SLOTS_AT)?;
        let slots = words.chunks_exact(SLOT_WORDS).enumerate();
        let slot = |(place, words): (usize, &[u64])| {
            // If the name did not change, the other words belong to it.
            let is_other = |shared: &Words| shared.load(slot_at(place)) != words[0];
            let is_torn = self.shared.as_ref().is_some_and(is_other);
            Slot {
                name: if is_torn { 0 } else { words[0] },
                end: words[1],
                commit: words[2],
            }
        };
        Ok(slots.map(slot).collect())
    }

    pub(in crate::store) fn write_header(&self, header: Header) -> io::Result<()> {
        let Header {
            commits,
            last_seq,
            holder,
            lapped,
            settings: _,
        } = header;
        match &self.shared {
            Some(words) => {
                words.store(LAPPED_AT, lapped);
                words.store(LAST_SEQ_AT, last_seq);
                words.store(COMMITS_AT, commits);
                words.store(HOLDER_AT, holder.into());
                Ok(())
            }
            None => self.store(MAGIC_AT, &[MAGIC, commits, last_seq, holder.into(), lapped]),
        }
    }

    /// Records appends, each as one commit, and stores the resulting header.
    pub(in crate::store) fn publish(
        &self,
        header: &mut Header,
        appended: impl IntoIterator<Item = Reach>,
    ) -> io::Result<()> {
        for reach in appended {
            header.commits = header.commits.wrapping_add(1);
            self.note(header, reach)?;
        }
        self.write_header(*header)
    }

    fn note(&self, header: &mut Header, reach: Reach) -> io::Result<()> {
        let name = reach.segment.pack();
        let place = if let Some(words) = &self.shared
            && let Some(place) = (0..SLOTS).find(|place| words.load(slot_at(*place)) == name)
        {
            place
        } else {
            let slots = self.slots()?;
            let known = slots.iter().position(|slot| slot.name == name);
            let oldest = || (0..SLOTS).min_by_key(|place| slots[*place].commit);
            let place = known.or_else(oldest).unwrap_or(0);
            if known.is_none() {
                header.lapped = header.lapped.max(slots[place].commit);
                self.store(LAPPED_AT, &[header.lapped])?;
            }
            place
        };
        let at = slot_at(place);
        match &self.shared {
            Some(words) => {
                if words.load(at) != name {
                    words.store(at, 0);
                    words.store(at + 1, 0);
                    words.store(at, name);
                }
                words.store(at + 1, reach.end);
                words.store(at + 2, header.commits);
                Ok(())
            }
            None => self.store(at, &[name, reach.end, header.commits]),
        }
    }

    /// The current [`Header::settings`], if memory is shared.
    pub(in crate::store) fn shared_settings(&self) -> Option<u64> {
        let words = self.shared.as_ref()?;
        Some(words.load(SETTINGS_AT))
    }

    /// Makes every process read the settings again.
    pub(in crate::store) fn call_for_settings(&self, header: &mut Header) -> io::Result<()> {
        header.settings = header.settings.wrapping_add(1);
        self.store(SETTINGS_AT, &[header.settings])
    }

    /// Initializes the file, whatever it contained. Returns its [`Header::settings`].
    pub(in crate::store) fn clear(&mut self) -> io::Result<u64> {
        let mut words = [0; WORDS];
        words[LAST_SEQ_AT] = SEQ_UNKNOWN;
        words[SETTINGS_AT] = clock_us();
        self.store(0, &words)?;
        self.store(MAGIC_AT, &[MAGIC])?;
        self.share();
        Ok(words[SETTINGS_AT])
    }

    /// Maps the file as shared memory if it was too short for that when it was opened, because
    /// another process was just creating it.
    pub(in crate::store) fn share(&mut self) {
        if self.shared.is_none() {
            self.shared = self.named.file.words(WORDS);
        }
    }

    /// Since when the process that has waited longest for the lock waits; 0 if none waits. The time
    /// is only compared with those of other processes.
    pub(in crate::store) fn waiting_since(&self) -> u64 {
        let load = |words: &Words| words.load(WAITING_AT);
        self.shared.as_ref().map_or(0, load)
    }

    /// Stores since when a process waits for the lock; 0 for none.
    pub(in crate::store) fn set_waiting_since(&self, since: u64) {
        if let Some(words) = &self.shared {
            words.store(WAITING_AT, since);
        }
    }

    /// Whether another process waits for the lock.
    pub(in crate::store) fn is_lock_requested(&self) -> bool {
        self.waiting_since() != 0
    }

    /// Clears the holder if it is this process.
    pub(in crate::store) fn give_away(&self) {
        if let Some(words) = &self.shared
            && words.load(HOLDER_AT) == u64::from(std::process::id())
        {
            words.store(HOLDER_AT, 0);
        }
    }

    fn load<const N: usize>(&self, first: usize) -> io::Result<[u64; N]> {
        let mut loaded = [0; N];
        if let Some(words) = &self.shared {
            for (place, word) in loaded.iter_mut().enumerate() {
                *word = words.load(first + place);
            }
            return Ok(loaded);
        }
        let mut bytes = vec![0; N * WORD_BYTES];
        let len = read_full(&*self.named.file, &mut bytes, (first * WORD_BYTES) as u64)?;
        // Missing words read as 0.
        let whole = bytes[..len].as_chunks::<WORD_BYTES>().0;
        for (word, bytes) in loaded.iter_mut().zip(whole) {
            *word = u64::from_le_bytes(*bytes);
        }
        Ok(loaded)
    }

    fn store(&self, first: usize, stored: &[u64]) -> io::Result<()> {
        if let Some(words) = &self.shared {
            for (place, word) in stored.iter().enumerate() {
                words.store(first + place, *word);
            }
            return Ok(());
        }
        let bytes: Vec<u8> = stored.iter().flat_map(|word| word.to_le_bytes()).collect();
        write_all_at(&*self.named.file, &bytes, (first * WORD_BYTES) as u64)
    }
}

/// The words of one segment.
#[derive(Debug, Clone, Copy)]
struct Slot {
    /// The name from [`SegmentName::pack`]. 0 if the slot is empty, or was changed while it was
    /// loaded.
    name: u64,
    end: u64,
    /// The last commit that appended to it.
    commit: u64,
}

impl Slot {
    fn reach(&self) -> Option<Reach> {
        let (segment, end) = (SegmentName::unpack(self.name)?, self.end);
        Some(Reach { segment, end })
    }
}

fn slot_at(place: usize) -> usize {
    SLOTS_AT + place * SLOT_WORDS
}

#[cfg(test)]
mod tests;
