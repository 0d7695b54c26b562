//! Checks every byte of a store: sealed segments by their seals, all others line by line. It does
//! not use the index or the sidecar, and it writes nothing.

mod findings;
mod last;
mod rules;

pub use last::LastVerification;

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use serde::Serialize;

use self::findings::{changed, copies, odd, unaccounted};
use self::rules::Rules;
use super::removals::RemovalReason;
use super::seal::SealLog;
use super::seq_set::{SeqRange, SeqSet};
use crate::error::{Result, is_of_what_is_read};
use crate::segment::seal::{Contents, Seal, SealHead, hash_lines, hash_segment};
use crate::segment::{
    Audit, Damage, DamageClass, Fact, Found, Report, Scanned, SegmentName, Span, list, scan,
};
use crate::storage::{Access, Storage, StorageFile, io_error, is_gone};
use crate::store::commit::head::{Head, Header};
use crate::store::manifest;

/// Options of [`verify_with`].
#[derive(Debug, Clone, Copy, Default)]
pub struct VerifyOptions {
    /// Read every line and compute every hash, even of segments whose SHA-256 matches their seal.
    /// Default: false.
    pub deep: bool,
    /// A seal head that was kept elsewhere. It must still be in the chain. Default: none.
    pub head: Option<SealHead>,
}

/// The result of [`verify()`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Verification {
    /// Number of segments read.
    pub segments: u64,
    /// Number of segments with a seal.
    pub sealed: u64,
    /// Size of the segments, in bytes.
    pub bytes: u64,
    /// Number of good lines.
    pub good_lines: u64,
    /// Number of seals, including those of segments that were removed or rewritten.
    pub seals: u64,
    /// The last seal.
    pub head: Option<SealHead>,
    /// All damage: bytes that are not as decklog wrote them.
    pub damage: Vec<Damage>,
    /// Readable lines that break a rule of writers: a value out of its range, or a value that must
    /// be unique and is not.
    pub violations: Vec<Damage>,
    /// Missing sequence numbers, up to the greatest one that a line has or had when it was sealed,
    /// that no removal accounts for.
    pub gaps: Vec<SeqRange>,
    /// Sequence numbers of more than one line.
    pub repeats: Vec<SeqRange>,
    /// Number of removed lines by reason, as `removals.jsonl` says. They are not damage. A removal
    /// that was interrupted and repeated is counted twice.
    pub removed: BTreeMap<RemovalReason, u64>,
    /// Segments of interrupted rewrites that are still as they were before. They are not damage.
    pub interrupted: Vec<String>,
    /// Files in day directories that do not belong to the store, and files that have the name of a
    /// day. They are not damage.
    pub foreign: Vec<String>,
}

impl Verification {
    /// Whether there is no damage, no broken rule, and no missing or repeated sequence number.
    pub fn is_clean(&self) -> bool {
        self.damage.is_empty()
            && self.violations.is_empty()
            && self.gaps.is_empty()
            && self.repeats.is_empty()
    }
}

/// Reads every byte of a store and checks it. Needs no lock and no write permission. Lines that
/// are appended meanwhile are checked one by one, but not for gaps and torn tails.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # let store = decklog::Store::open(dir.path().join("log"))?;
/// let disk = decklog::storage::Disk::new(store.path());
/// assert!(decklog::verify(&disk)?.is_clean());
/// # Ok::<(), decklog::Error>(())
/// ```
///
/// # Errors
/// [`Io`](crate::ErrorKind::Io) if the system cannot open more files; a segment that cannot be
/// read is a finding, not an error. [`NotAStore`](crate::ErrorKind::NotAStore);
/// [`NewerFormat`](crate::ErrorKind::NewerFormat), since a newer format cannot be checked.
pub fn verify(storage: &dyn Storage) -> Result<Verification> {
    verify_with(storage, &VerifyOptions::default())
}

/// As [`verify()`], with options.
///
/// If a segment's SHA-256 matches its seal, its lines are taken to be those that were sealed.
/// Other segments are read line by line. If a sequence number is missing or repeated, or if `deep`
/// is set, all lines are read: only then is it known whether repeated lines are copies.
///
/// # Errors
/// As [`verify()`].
pub fn verify_with(storage: &dyn Storage, options: &VerifyOptions) -> Result<Verification> {
    if !options.deep {
        let checked = Check::run(storage, options, false)?;
        if checked.adds_up() {
            return Ok(checked.found);
        }
    }
    let mut checked = Check::run(storage, options, true)?;
    checked.count_off(storage);
    Ok(checked.found)
}

/// One pass over a store.
struct Check<'a> {
    storage: &'a dyn Storage,
    /// Read sealed segments line by line, too, even if they match their seals.
    reads_all: bool,
    log: SealLog,
    segments: Vec<SegmentName>,
    numbers: SeqSet,
    rules: Rules,
    /// Sequence numbers in segments left by an interrupted join or removal. Their lines may also
    /// be in another segment.
    left_over: Vec<u64>,
    /// The last sequence number to check for gaps and repeats.
    last: u64,
    found: Verification,
}

/// The result of reading one segment.
#[derive(Default)]
struct Looked {
    bytes: u64,
    good_lines: u64,
    damage: Vec<Damage>,
    seqs: Vec<u64>,
    rules: Rules,
}

impl Looked {
    fn see(&mut self, name: SegmentName, line: &Found<'_>, report: Option<Report>) {
        self.good_lines += u64::from(report.is_none());
        self.damage
            .extend(report.map(|report| report.in_segment(name)));
        line.facts(name.kind, &mut |fact: Fact<'_>| {
            self.seqs.push(fact.envelope.seq);
            self.rules.look(name, &fact);
        });
    }

    fn end(&mut self, name: SegmentName, scanned: Scanned, misplaced: Option<Report>) {
        self.bytes = scanned.end + scanned.tail.map_or(0, |tail| tail.len);
        let tail = scanned.tail.map(|tail| tail.report(scanned.end));
        let rest = tail.into_iter().chain(misplaced);
        self.damage
            .extend(rest.map(|report| report.in_segment(name)));
    }
}

impl<'a> Check<'a> {
    fn run(
        storage: &'a dyn Storage,
        options: &VerifyOptions,
        reads_all: bool,
    ) -> Result<Check<'a>> {
        let (_, manifest_damage) = manifest::read_leniently(storage)?;
        // If `HEAD` changes meanwhile, only some of the appended lines were read.
        let before = header(storage);
        // Read the seals first, so that every sealed segment exists when the segments are listed.
        let log = SealLog::read(storage)?;
        let listing = list(storage)?;
        let taken = listing
            .taken
            .iter()
            .map(|name| Report::no_file().in_segment(*name));
        let mut damage: Vec<Damage> = manifest_damage.into_iter().chain(taken).collect();
        let mut unread_dirs = BTreeSet::new();
        for (dir, e) in &listing.unreadable {
            damage.push(Damage::unreadable(dir.clone(), e));
            unread_dirs.insert(dir.as_str());
        }
        let mut check = Check {
            storage,
            reads_all,
            log,
            segments: listing.segments,
            numbers: SeqSet::default(),
            rules: Rules::default(),
            left_over: Vec::new(),
            last: u64::MAX,
            found: Verification {
                foreign: listing.foreign,
                damage,
                ..Verification::default()
            },
        };
        for name in check.segments.clone() {
            check.segment(name)?;
        }
        check.rules.compare(storage, &check.segments);
        check.found.violations = std::mem::take(&mut check.rules.found);
        for seq in std::mem::take(&mut check.left_over) {
            if !check.numbers.contains(seq) {
                check.numbers.insert(seq);
            }
        }
        check.log.refresh_whole(storage)?;
        check.missing(&listing.taken, &unread_dirs);
        check.chain(options.head);
        if header(storage) != before {
            check.last = before.map_or(0, |header| header.last_seq);
            let damage = &mut check.found.damage;
            damage.retain(|damage| damage.class != DamageClass::Torn);
        }
        Ok(check)
    }

    /// Checks a segment. Repeats if it is rewritten meanwhile.
    fn segment(&mut self, name: SegmentName) -> Result<()> {
        const TRIES_MAX: u32 = 3;
        let mut tries = 0;
        let looked = loop {
            tries += 1;
            let seal = self.log.last_of(name).cloned();
            let (mut looked, contents) = match self.look(name, seal.as_ref()) {
                Ok(looked) => looked,
                Err(e) if is_gone(&e) => return Ok(()),
                Err(e) => {
                    let damage = cannot_read(self.storage, name.path(), e)?;
                    self.found.damage.push(damage);
                    return Ok(());
                }
            };
            let Some((seal, contents)) = seal.zip(contents) else {
                if let Some(gone) = self.left_over(name)? {
                    self.found.interrupted.push(format!(
                        "{name} was joined to another segment or removed, as seal {gone} is, and is still there: whoever did that was interrupted"
                    ));
                    self.left_over.append(&mut looked.seqs);
                }
                break looked;
            };
            if is_of(&seal, &contents) {
                self.found.sealed += 1;
                looked.damage.extend(odd(name, &seal, &contents));
                break looked;
            }
            self.log.refresh(self.storage)?;
            let is_new = self
                .log
                .last_of(name)
                .is_some_and(|last| last.seal != seal.seal);
            if is_new && tries < TRIES_MAX {
                continue;
            }
            self.found.sealed += 1;
            if let Some(earlier) = self.earlier(name, &contents) {
                self.found.interrupted.push(format!(
                    "{name} is as seal {earlier} says, in whose place seal {} was to come: whoever rewrote it was interrupted, and all is there",
                    seal.seal
                ));
            } else {
                looked.damage.push(changed(name, &seal, &contents));
            }
            break looked;
        };
        self.found.segments += 1;
        self.found.bytes += looked.bytes;
        self.found.good_lines += looked.good_lines;
        self.found.damage.extend(looked.damage);
        self.rules.add(looked.rules);
        for seq in looked.seqs {
            self.numbers.insert(seq);
        }
        Ok(())
    }

    /// Reads a segment. A sealed one is only hashed, if that is enough; returns what it contains.
    fn look(
        &self,
        name: SegmentName,
        seal: Option<&Seal>,
    ) -> io::Result<(Looked, Option<Contents>)> {
        let file = self.storage.open(&name.path(), Access::Read)?;
        let Some(seal) = seal else {
            return Ok((line_by_line(&*file, name)?, None));
        };
        if !self.reads_all {
            let (sha256, bytes, seqs) = hash_lines(&*file)?;
            let contents = Contents {
                bytes,
                sha256,
                ..seal.contents()
            };
            if is_of(seal, &contents) {
                let looked = match seqs.filter(|_| seal.damaged == 0) {
                    Some(seqs) => Looked {
                        bytes,
                        good_lines: seal.lines,
                        seqs,
                        ..Looked::default()
                    },
                    None => line_by_line(&*file, name)?,
                };
                return Ok((looked, Some(contents)));
            }
        }
        let mut looked = Looked::default();
        let mut see = |line: &Found<'_>, report| looked.see(name, line, report);
        let reading = Contents::read(&*file, name, &mut see)?;
        looked.end(name, reading.scanned, reading.misplaced);
        Ok((looked, Some(reading.contents)))
    }

    /// The seal of a segment that should be gone according to the seals, if the file still exists
    /// and matches it.
    fn left_over(&self, name: SegmentName) -> Result<Option<u64>> {
        let Some(gone) = self.log.gone(name) else {
            return Ok(None);
        };
        match hash_segment(self.storage, name) {
            Ok(hashed) => Ok((hashed == (gone.sha256, gone.bytes)).then_some(gone.seal)),
            Err(e) if is_gone(&e) => Ok(None),
            Err(e) => cannot_read(self.storage, name.path(), e).map(|_| None),
        }
    }

    /// An earlier seal of the segment that still matches it: its rewrite was interrupted.
    fn earlier(&self, name: SegmentName, contents: &Contents) -> Option<u64> {
        let mut earlier = self.log.last_and_earlier(name).skip(1);
        let found = earlier.find(|seal| is_of(seal, contents));
        found.map(|seal| seal.seal)
    }

    /// Reports sealed segments that are missing.
    fn missing(&mut self, taken: &[SegmentName], unread_dirs: &BTreeSet<&str>) {
        let is_known = |name: SegmentName| {
            taken.contains(&name)
                || unread_dirs.contains(&*name.day.to_string())
                || self.segments.binary_search(&name).is_ok()
        };
        for seal in self.log.missing(self.storage, is_known) {
            let reason = format!(
                "the segment is not there, and removals.jsonl does not tell why: seal {} says that it had {} lines, from seq {} to {}; put back a copy",
                seal.seal, seal.lines, seal.first_seq, seal.last_seq
            );
            let missing = Report::new(DamageClass::Missing, (0, seal.bytes), reason);
            self.found.damage.push(missing.in_file(&*seal.file));
        }
    }

    /// Checks the chain of seals, and that it contains the given head.
    fn chain(&mut self, head: Option<SealHead>) {
        self.found.damage.extend(self.log.damage());
        self.found.seals = self.log.len();
        self.found.removed.clone_from(&self.log.removals().lines);
        self.found.head = self.log.head();
        let Some(head) = head else {
            return;
        };
        let of_seals = self.not_as_kept(head).map(|reason| ("seals.jsonl", reason));
        let hashes = &self.log.removals().hashes;
        let of_removals = match hashes.get(&head.removal) {
            _ if head.removal == 0 => None,
            Some(hash) if *hash == head.removal_hash => None,
            Some(hash) => Some(format!(
                "the file was rewritten: its removal {} has hash {hash}, and that of the head that was kept has {}",
                head.removal, head.removal_hash
            )),
            None => Some(format!(
                "the file was cut off or rewritten: it does not have removal {}, which the head that was kept has",
                head.removal
            )),
        };
        let of_removals = of_removals.map(|reason| ("removals.jsonl", reason));
        let found = of_seals.into_iter().chain(of_removals);
        let damage = |(file, reason): (&str, String)| {
            Report::new(DamageClass::Chain, (0, 0), reason).in_file(file)
        };
        self.found.damage.extend(found.map(damage));
    }

    /// Why the chain of seals does not contain the given head.
    fn not_as_kept(&self, head: SealHead) -> Option<String> {
        Some(match (self.log.get(head.seal), self.log.last()) {
            (Some(seal), _) if seal.hash == head.hash => return None,
            (Some(seal), _) => format!(
                "the log was rewritten: its seal {} has hash {}, and the head that was kept is {}",
                head.seal, seal.hash, head.hash
            ),
            (None, Some(last)) if last.seal < head.seal => format!(
                "the log was cut off or rewritten after seal {}: the head that was kept is seal {}",
                last.seal, head.seal
            ),
            (None, Some(_)) => {
                format!("seal {}, the head that was kept, was taken away", head.seal)
            }
            (None, None) => format!(
                "the log was cut off or rewritten: it has no seals, and the head that was kept is seal {}",
                head.seal
            ),
        })
    }

    /// Whether no sequence number is missing or repeated.
    fn adds_up(&self) -> bool {
        let gaps = self.numbers.gaps(self.last, self.log.last_seq());
        unaccounted(gaps, &self.log).is_empty() && self.numbers.repeats(self.last).is_empty()
    }

    /// Records missing and repeated sequence numbers.
    fn count_off(&mut self, storage: &dyn Storage) {
        let gaps = self.numbers.gaps(self.last, self.log.last_seq());
        self.found.gaps = unaccounted(gaps, &self.log);
        self.found.repeats = self.numbers.repeats(self.last);
        if !self.found.repeats.is_empty() {
            let copies = copies(storage, &self.segments, &self.found.repeats);
            self.found.damage.extend(copies);
        }
    }
}

/// Whether the contents match the seal.
fn is_of(seal: &Seal, contents: &Contents) -> bool {
    (seal.sha256, seal.bytes) == (contents.sha256, contents.bytes)
}

/// Reads a segment that is not sealed, or that has damaged lines.
fn line_by_line(file: &dyn StorageFile, name: SegmentName) -> io::Result<Looked> {
    let (mut looked, mut audit) = (Looked::default(), Audit::new(name));
    let mut see = |line: Found<'_>| {
        let report = audit.look(&line);
        looked.see(name, &line, report);
    };
    let scanned = scan(file, name.kind, Span::ALL, &mut see)?;
    looked.end(name, scanned, audit.misplaced());
    Ok(looked)
}

/// If a file cannot be read, that is a finding. Only a failure of the system is an error.
fn cannot_read(storage: &dyn Storage, path: String, e: io::Error) -> Result<Damage> {
    if is_of_what_is_read(&e) {
        return Ok(Damage::unreadable(path, &e));
    }
    Err(io_error(storage, "read the segment", &path, e))
}

fn header(storage: &dyn Storage) -> Option<Header> {
    Head::open_for_reading(storage).ok()??.header().ok()?
}
