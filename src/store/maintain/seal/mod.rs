//! Sealing: closes full segments and those of past days, and writes a seal for each.

mod log;

use parking_lot::MutexGuard;
use std::io;

pub(crate) use self::log::SealLog;
use crate::error::{Error, ErrorKind, Result};
use crate::line::{Decoded, Envelope};
use crate::record::{Day, Key, now};
use crate::segment::SegmentName;
use crate::segment::seal::{Contents, Proof, Seal, SealHead, SealReason, hash_segment};
use crate::storage::{Access, full_path, if_there, io_error};
use crate::store::{Inner, Reads, Snapshot, Store};

impl Store {
    /// Seals every segment that is full or whose UTC day is over. A sealed segment is read-only, and
    /// its day's `seals.jsonl` has a line with its hashes. Returns the new seals.
    ///
    /// Any process may do this at any time. For each segment, writers wait for at most two short
    /// transactions, as reading, hashing and fsync happen without the lock. Seals that an earlier
    /// call left incomplete are completed.
    ///
    /// # Errors
    /// [`Io`](ErrorKind::Io), [`Locked`](ErrorKind::Locked),
    /// [`ReadOnly`](ErrorKind::ReadOnly). Segments sealed before the error stay sealed.
    pub fn seal(&self) -> Result<Vec<Seal>> {
        self.seal_at(now())
    }

    /// Like [`seal`](Self::seal), with this time in epoch milliseconds as the current time.
    ///
    /// ```
    /// # use decklog::{Store, Timestamp};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let store = Store::open(dir.path().join("log"))?;
    /// # store.log_event(None, "agent.started", None)?;
    /// let tomorrow = Timestamp::now().at() + 86_400_000;
    /// let seals = store.seal_at(tomorrow)?;
    /// assert_eq!(seals.len(), 1);
    /// assert_eq!(store.seal_head()?.unwrap().hash, seals[0].hash);
    /// # Ok::<(), decklog::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`seal`](Self::seal); [`InvalidInput`](ErrorKind::InvalidInput) if the time is outside
    /// 1970 to 9999.
    pub fn seal_at(&self, now_ms: i64) -> Result<Vec<Seal>> {
        self.seal_before(Day::of(now_ms)?, now_ms, &|| false)
    }

    /// Seals segments that are full or of a day before `today`. Stops after a segment once
    /// `is_over`.
    pub(crate) fn seal_before(
        &self,
        today: Day,
        now_ms: i64,
        is_over: &dyn Fn() -> bool,
    ) -> Result<Vec<Seal>> {
        let inner = self.inner();
        inner.check_writable()?;
        self.refresh()?;
        let mut log = inner.current_seals()?;
        let mut made = Vec::new();
        for name in inner.due(today, &log)? {
            if is_over() {
                break;
            }
            made.extend(inner.seal_one(&mut log, name, now_ms)?);
        }
        Ok(made)
    }

    /// The last seal and the last line of `removals.jsonl`, to keep elsewhere. `None` if nothing is
    /// sealed.
    ///
    /// # Errors
    /// [`Io`](ErrorKind::Io).
    pub fn seal_head(&self) -> Result<Option<SealHead>> {
        let inner = self.inner();
        Ok(inner.current_seals()?.head())
    }

    /// Proves that the last line of the record with this key was in its segment when the segment
    /// was sealed. `None` if there is no such record.
    ///
    /// ```
    /// # use decklog::{Key, Store, Timestamp};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let store = Store::open(dir.path().join("log"))?;
    /// let id = store.log_event(None, "agent.started", None)?;
    /// store.seal_at(Timestamp::now().at() + 86_400_000)?;
    /// let proof = store.prove(&Key::Event(id))?.unwrap();
    /// assert!(proof.check(None).is_ok());
    /// # Ok::<(), decklog::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Lifecycle`](ErrorKind::Lifecycle) if the segment is not sealed yet;
    /// [`Damaged`](ErrorKind::Damaged) if it does not match its seal.
    pub fn prove(&self, key: &Key) -> Result<Option<Proof>> {
        let inner = self.inner();
        let Some((name, offset)) = inner.with_snapshot(|view| place_of(view, key))? else {
            return Ok(None);
        };
        let log = inner.current_seals()?;
        let path = full_path(&*inner.storage, &name.path());
        let Some(seal) = log.last_of(name) else {
            let message = "the line's segment is not sealed yet: seal what is due ('decklog seal'), or wait until its day is over or it is full";
            return Err(Error::new(ErrorKind::Lifecycle, message).with_path(&path));
        };
        let file = inner.storage.open(&name.path(), Access::Read);
        let proof = file.and_then(|file| Proof::of(&*file, key.kind(), seal, offset));
        let proof = proof.map_err(|e| Error::io("read the segment", &path, e))?;
        if let Some(proof) = proof.filter(|proof| proof.check(None).is_ok()) {
            return Ok(Some(proof));
        }
        let message = "the segment is not as it was sealed, so nothing can be proven of it: 'decklog verify' tells more";
        Err(Error::new(ErrorKind::Damaged, message).with_path(&path))
    }
}

/// The position of the last line that asserts a record.
fn place_of(view: &Snapshot<'_>, key: &Key) -> Result<Option<(SegmentName, u64)>> {
    let (kind, parts) = (key.kind(), key.parts());
    let parts = parts.each_ref().map(String::as_str);
    let Some((_, row)) = view.find(kind, parts) else {
        return Ok(None);
    };
    let Decoded { record, .. } = view.read(kind, row.asserted)?;
    let is_it = Envelope::of(&record, 0).has_key(parts);
    let name = view.segment(row.asserted);
    Ok(is_it.then_some((name, u64::from(row.asserted.offset))))
}

impl Inner {
    /// The seal log of this handle. Lock order: before the write lock.
    pub(crate) fn seals(&self) -> MutexGuard<'_, SealLog> {
        self.seals.lock()
    }

    /// The same, after reading what was added since the last read.
    pub(super) fn current_seals(&self) -> Result<MutexGuard<'_, SealLog>> {
        let mut log = self.seals();
        log.refresh(&*self.storage)?;
        Ok(log)
    }

    /// Seals a segment now, even if it is still appended to. New lines then go to the next
    /// segment.
    pub(crate) fn settle(&self, name: SegmentName) -> Result<()> {
        let mut log = self.current_seals()?;
        self.seal_one(&mut log, name, now())?;
        Ok(())
    }

    /// The segments to seal, including sealed ones that are not read-only any more, for example
    /// after a copy.
    fn due(&self, today: Day, log: &SealLog) -> Result<Vec<SegmentName>> {
        let view = self.snapshot()?;
        let (mut due, mut doubtful) = (Vec::new(), Vec::new());
        for (place, segment) in view.state.present_in_order() {
            let name = segment.name;
            let is_full = view.state.active(name.day, name.kind) != Some(place);
            let is_over = is_full || name.day < today || segment.is_sealed;
            let may_be = |seal: &Seal| segment.is_sealed && segment.expected_len() == seal.bytes;
            let is_due = match log.last_of(name) {
                None if is_over && log.gone(name).is_some_and(may_be) => {
                    doubtful.push(name);
                    false
                }
                None => is_over,
                // A longer segment does not match its seal. `verify` reports it.
                Some(seal) => !segment.is_sealed && segment.expected_len() == seal.bytes,
            };
            if is_due {
                due.push(name);
            }
        }
        drop(view);
        for name in doubtful {
            // A segment left by an interrupted join or removal is not sealed again: the next
            // rewrite completes that. Another segment with the same name and length is sealed.
            let is_it = hash_segment(&*self.storage, name)
                .is_ok_and(|(sha256, _)| log.gone(name).is_some_and(|gone| gone.sha256 == sha256));
            if !is_it {
                due.push(name);
            }
        }
        Ok(due)
    }

    /// Closes a segment and seals it. `None` if it is sealed already or changed meanwhile.
    fn seal_one(&self, log: &mut SealLog, name: SegmentName, now_ms: i64) -> Result<Option<Seal>> {
        let storage = &*self.storage;
        let path = name.path();
        let io = |doing: &str, e: io::Error| io_error(storage, doing, &path, e);
        if !self.transact(|txn| txn.close_segment(name))? {
            return Ok(None);
        }
        let file = if_there(storage.open(&path, Access::Read));
        let Some(file) = file.map_err(|e| io("open the segment", e))? else {
            return Ok(None);
        };
        file.sync().map_err(|e| io("sync the segment", e))?;
        storage
            .sync_dir(&name.day.to_string())
            .map_err(|e| io("sync the directory of", e))?;
        if log.last_of(name).is_some() {
            return Ok(None);
        }
        let contents = Contents::of(&*file, name).map_err(|e| io("read the segment", e))?;
        let read = file.stat().map_err(|e| io("look at the segment", e))?;
        log.settle(storage)?;
        let sealed = self.transact(|_| {
            // Another process may have sealed or rewritten it meanwhile.
            log.refresh(storage)?;
            let found = storage.stat(&path);
            let is_as_read = found.is_ok_and(|found| {
                (found.identity, found.len) == (read.identity, contents.bytes) && found.is_read_only
            });
            if !is_as_read || log.last_of(name).is_some() {
                return Ok(None);
            }
            let (reason, replaces) = (SealReason::Sealed, Vec::new());
            let seal = log.append(storage, now_ms, name, &contents, reason, replaces)?;
            Ok(Some(seal))
        })?;
        log.settle(storage)?;
        Ok(sealed)
    }
}
