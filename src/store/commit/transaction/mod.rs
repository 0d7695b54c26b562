//! A transaction: takes the lock, catches up, checks the records, appends them, publishes.

mod append_buffer;
mod close_segment;
mod lock_lease;
mod publish;
mod recent_lines;
mod replace;
mod settings;
mod target;
mod waiting_line;

use std::cell::RefCell;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use parking_lot::{MutexGuard, RwLockWriteGuard};
use uuid::Uuid;

use self::append_buffer::AppendBuffer;
use self::lock_lease::{LeaseTimes, lease};
use self::recent_lines::RecentLines;
use super::group_sync::{Handle, Ticket};
use super::head::{Head, Header, SEQ_UNKNOWN};
use super::lock::Lock;
use super::reentrancy::{self, ReentrancyGuard};
use super::write_policy::{Redacted, WritePolicy};
use crate::error::{Error, ErrorKind, Result};
use crate::index::{Hasher, Index, Loc};
use crate::line::{Decoded, Envelope, LINE_BYTES_MAX, encode, envelope_of_own};
use crate::record::{Day, Kind, Record};
use crate::segment::Window;
use crate::storage::{append_all, full_path};
use crate::store::maintain::removals::Anchor;
use crate::store::process::Process;
use crate::store::view::parallel_scan::line_end;
use crate::store::view::state::State;
use crate::store::{Inner, Reads};

/// Maximum capacity of the scratch buffer that is kept between transactions.
const SCRATCH_BYTES_MAX: usize = 4 << 20;

/// The state that a handle needs to write to a store.
#[derive(Debug)]
pub(in crate::store) struct Writer {
    lock: Lock,
    head: Option<Head>,
    /// The header of `HEAD`, valid while the lock is held.
    header: Header,
    times: LeaseTimes,
    /// Open files for append, with the index of their segment. Most recently used first.
    handles: Vec<(u32, Handle)>,
    /// Maximum number of handles, and of files that wait for a sync in a transaction.
    handles_max: usize,
    recent: RecentLines,
    /// The [`State::generation`] and [`State::moved`] for which `recent` and `handles` are valid.
    known: (u64, Option<u64>),
    poisoned: Option<Error>,
    /// The write policy of the settings that were last read.
    policy: Arc<WritePolicy>,
    /// The [`Header::settings`] at which the settings were last read under the lock.
    settings_count: Option<u64>,
    /// Whether the tails that existed when the store was opened have been completed.
    has_begun: bool,
    scratch: Scratch,
    process: Process,
}

/// Buffers of a transaction. They are cleared and reused by the next one.
#[derive(Debug, Default)]
struct Scratch {
    line: Vec<u8>,
    /// Lines that are not written yet.
    runs: AppendBuffer,
    /// Segments whose handle and length were checked in this transaction.
    checked: Vec<u32>,
    /// Segments appended to in this transaction.
    appended: Vec<u32>,
    /// The files to sync. There are fewer than [`Writer::handles_max`] of them.
    dirty: Vec<Handle>,
}

impl Scratch {
    fn clear(&mut self) {
        if self.line.capacity() > SCRATCH_BYTES_MAX {
            self.line = Vec::new();
        }
        self.runs.clear();
        self.checked.clear();
        self.appended.clear();
        self.dirty.clear();
    }
}

/// The store, locked against other writers, in this process and others.
pub(crate) struct Txn<'s> {
    inner: &'s Inner,
    writer: MutexGuard<'s, Writer>,
    state: RwLockWriteGuard<'s, State>,
    scratch: Scratch,
    /// An earlier failure: the known state of the store, or the buffered lines, were discarded.
    /// Every further step of the transaction returns it.
    broken: Option<Error>,
    is_committed: bool,
    window: RefCell<Window>,
    /// Since when readers wait.
    since: Instant,
    /// Whether a part of the batch was published.
    is_partly_done: bool,
    _reentrancy_guard: ReentrancyGuard,
}

impl Writer {
    pub(in crate::store) fn new(policy: Arc<WritePolicy>, handles_max: usize) -> Writer {
        Writer {
            lock: Lock::default(),
            head: None,
            header: Header::default(),
            times: LeaseTimes::default(),
            handles: Vec::new(),
            handles_max,
            recent: RecentLines::default(),
            known: (0, None),
            poisoned: None,
            policy,
            settings_count: None,
            has_begun: false,
            scratch: Scratch::default(),
            process: Process::default(),
        }
    }

    /// The write that failed. After it, the handle writes no more.
    pub(in crate::store) fn failure(&self) -> Option<&Error> {
        self.poisoned.as_ref()
    }

    /// Returns an error if a write failed.
    pub(in crate::store) fn check_whole(&self) -> Result<()> {
        let failure = self.failure().cloned();
        failure.map_or(Ok(()), |e| Err(Error::poisoned(e)))
    }
}

impl<'s> Txn<'s> {
    /// Takes the lock and catches up on what other processes wrote.
    pub(in crate::store) fn begin(inner: &'s Inner) -> Result<Txn<'s>> {
        inner.check_writable()?;
        reentrancy::check(inner)?;
        let mut writer = inner.writer.lock();
        let failure = writer.failure().cloned().or_else(|| inner.sync.failure());
        if let Some(failure) = failure {
            return Err(Error::poisoned(failure));
        }
        let (state, complete_tails) = lease(inner, &mut writer)?;
        let known = (state.generation, state.moved);
        if writer.known != known {
            writer.known = known;
            writer.recent.clear();
            writer.handles.clear();
            writer.scratch.checked.clear();
        }
        let scratch = std::mem::take(&mut writer.scratch);
        let mut txn = Txn {
            inner,
            writer,
            state,
            scratch,
            broken: None,
            is_committed: false,
            window: RefCell::default(),
            since: Instant::now(),
            is_partly_done: false,
            _reentrancy_guard: ReentrancyGuard::of(inner),
        };
        if complete_tails {
            txn.complete_whole_tails()?;
            txn.writer.has_begun = true;
        }
        if let Err(e) = txn.read_settings() {
            // Nothing was written, so end the transaction normally: the next writer need not
            // rescan.
            txn.commit()?;
            return Err(e);
        }
        Ok(txn)
    }

    /// Appends the missing LF to last lines that hold a record, since these have sequence numbers.
    fn complete_whole_tails(&mut self) -> Result<()> {
        let segments = &self.state.segments;
        let torn: Vec<u32> = (0..segments.len() as u32)
            .filter(|id| {
                let segment = &segments[*id as usize];
                !segment.is_sealed && segment.tail.is_some_and(|tail| tail.holds_facts)
            })
            .collect();
        self.end_tails(&torn)
    }

    /// Appends the missing LF to the last lines of the segments, and reads these lines.
    fn end_tails(&mut self, segments: &[u32]) -> Result<()> {
        for segment in segments {
            self.end_line(*segment)?;
        }
        if !segments.is_empty() {
            self.rescan()?;
        }
        Ok(())
    }

    /// Fails the transaction if a part of the saved index could not be read, since what was decided
    /// may be wrong. The next transaction reads the segments.
    pub(super) fn check_index(&mut self) -> Result<()> {
        if !self.state.index.is_broken() {
            return Ok(());
        }
        let message =
            "the saved index is damaged, and the records were not written: repeat the call";
        let path = full_path(&*self.inner.storage, "cache/index");
        let e = Error::new(ErrorKind::Damaged, message).with_path(&path);
        Err(self.give_up(e))
    }

    /// Reads the changes in all segments.
    fn rescan(&mut self) -> Result<()> {
        self.check_index()?;
        let storage = &*self.inner.storage;
        let head = self.writer.head.as_ref();
        let published = match self.writer.header.last_seq {
            SEQ_UNKNOWN => self.state.max_seq,
            last_seq => last_seq,
        };
        self.state.rescan(storage, head, true)?;
        self.state.keep_numbers(published);
        Ok(())
    }

    /// Appends the missing LF to a segment's last line.
    fn end_line(&mut self, segment: u32) -> Result<()> {
        let handle = self.handle(segment)?;
        let written = append_all(&*handle.named.file, b"\n");
        self.after_append(segment, handle, written)
    }

    /// Adds a line and returns its sequence number. The line is in the file once
    /// [`commit`](Txn::commit) returns.
    pub(crate) fn push(&mut self, kept: &Redacted, parent_id: Option<Uuid>) -> Result<u64> {
        let record = kept.record();
        if let Some(fingerprint) = self.policy().key_to_note(record) {
            self.note_user_id_key(Some(fingerprint))?;
        }
        let (kind, day) = (record.kind(), Day::of(record.at())?);
        let mut line = std::mem::take(&mut self.scratch.line);
        let pushed = self.push_line(record, parent_id, (kind, day), &mut line);
        self.scratch.line = line;
        pushed
    }

    fn push_line(
        &mut self,
        record: &Record,
        parent_id: Option<Uuid>,
        (kind, day): (Kind, Day),
        line: &mut Vec<u8>,
    ) -> Result<u64> {
        // A rollup lists all messages that it counts, so it has only the format's limit.
        let bytes_max = match kind {
            Kind::Rollups => LINE_BYTES_MAX,
            _ => self.inner.line_bytes_max,
        };
        let (seq, segment) = loop {
            let seq = self.next_seq()?;
            line.clear();
            encode(record, parent_id, seq, bytes_max, line)?;
            let segment = self.target(day, kind, line.len() as u64)?;
            // `target` may have read lines that another program appended. If so, encode again.
            if self.next_seq()? == seq {
                break (seq, segment);
            }
        };

        let known = &mut self.state.segments[segment as usize];
        let offset = known.end;
        self.scratch.runs.push(segment, offset, line);
        known.end = offset + line.len() as u64;
        known.covered = None;
        known.compared = 0;
        known.last_seq = seq;
        known.last = line.strip_suffix(b"\n").and_then(line_end);
        self.state.uncovered += line.len() as u64;
        let segments = self.state.segments.len();
        self.state.append_order.note(segment, segments);
        let loc = Loc {
            segment,
            offset: offset as u32,
        };
        let entry = self
            .inner
            .hasher
            .entry(kind, &Envelope::of(record, seq), loc);
        self.state.index.apply(kind, &entry);
        self.state.max_seq = seq;
        self.inner.appended[kind as usize].fetch_add(1, Ordering::Relaxed);
        Ok(seq)
    }

    /// # Errors
    /// [`Damaged`](ErrorKind::Damaged) if all sequence numbers are used. Only a line written by
    /// another program can cause this.
    fn next_seq(&self) -> Result<u64> {
        let next = self.state.max_seq.checked_add(1);
        // `HEAD` uses the greatest value to say that the last sequence number is unknown.
        next.filter(|seq| *seq < SEQ_UNKNOWN).ok_or_else(|| {
            let message = "a line has the greatest sequence number that there is, so none can follow: take it out";
            Error::new(ErrorKind::Damaged, message).with_path(self.inner.storage.root())
        })
    }

    /// The envelope of a line that this handle wrote recently.
    pub(crate) fn envelope(&self, kind: Kind, loc: Loc) -> Option<Envelope<'_>> {
        let gathered = self.scratch.runs.bytes_from(loc);
        let bytes = gathered.or_else(|| self.writer.recent.bytes_from(loc))?;
        envelope_of_own(kind, first_line(bytes))
    }

    /// Writes the buffered lines, with one write for each run of lines of the same segment.
    fn flush(&mut self) -> Result<()> {
        self.check_index()?;
        let mut runs = std::mem::take(&mut self.scratch.runs);
        let flushed = runs.iter().try_for_each(|run| {
            let handle = match self.handle(run.segment) {
                Ok(handle) => handle,
                Err(e) if e.kind() == ErrorKind::Locked => return Err(self.give_up(e)),
                Err(e) => return Err(self.poison(e)),
            };
            let written = append_all(&*handle.named.file, &run.bytes);
            self.after_append(run.segment, handle, written)?;
            if self.state.segments[run.segment as usize].name.kind == Kind::ToolCalls {
                self.writer.recent.push(run.segment, run.offset, &run.bytes);
            }
            Ok(())
        });
        runs.clear();
        self.scratch.runs = runs;
        flushed
    }

    fn after_append(
        &mut self,
        segment: u32,
        handle: Handle,
        written: io::Result<()>,
    ) -> Result<()> {
        if let Err(e) = written {
            let e = self.io("append to", segment, e);
            return Err(self.poison(e));
        }
        if !self.scratch.appended.contains(&segment) {
            self.scratch.appended.push(segment);
        }
        self.mark_dirty(handle)
    }

    /// Fails this and every later write of the handle. `HEAD` keeps this process as the holder, so
    /// the next writer reads every segment.
    fn poison(&mut self, err: Error) -> Error {
        self.writer.poisoned = Some(err.clone());
        self.give_up(err)
    }

    /// Fails the transaction: nothing that was pushed is acknowledged.
    fn give_up(&mut self, mut err: Error) -> Error {
        if self.is_partly_done && err.kind() == ErrorKind::Locked {
            // `Locked` would mean that nothing was written.
            let message = format!("a part of the batch was written: {}", err.reason());
            err = Error::new(ErrorKind::Io, message).with_path(self.inner.storage.root());
        }
        self.broken = Some(err.clone());
        self.scratch.runs.clear();
        self.state.forget();
        err
    }

    /// Fails the transaction if it has buffered lines, so that none of them is written.
    pub(crate) fn abandon(&mut self, err: Error) -> Error {
        if self.scratch.runs.is_empty() {
            return err;
        }
        self.give_up(err)
    }

    /// Returns the failure after which the transaction cannot continue, if any.
    pub(crate) fn check_whole(&self) -> Result<()> {
        self.broken.as_ref().map_or(Ok(()), |e| Err(e.clone()))
    }

    /// Writes the pushed lines, publishes them to other processes and ends this use of the lock.
    /// At level `Disk`, the caller waits for the returned ticket before it acknowledges the
    /// records.
    ///
    /// # Errors
    /// If it fails, nothing that was pushed is acknowledged, although [`push`](Txn::push) returned
    /// a sequence number.
    pub(crate) fn commit(mut self) -> Result<Ticket> {
        self.check_whole()?;
        self.flush()?;
        let is_kept = self.writer.keeps_lease(self.inner);
        self.publish(is_kept)?;
        if !is_kept {
            self.writer.release_lease();
        }
        self.is_committed = true;
        self.state.limit_memory();
        if self.inner.takes_renewal(&mut self.state) {
            let pause = self.inner.renewal_pause();
            self.inner.upkeep_schedule.notify_renewal(pause);
        }
        Ok(self.ticket())
    }
}

impl Reads for Txn<'_> {
    fn index(&self) -> &Index {
        &self.state.index
    }

    fn anchors(&self, task_id: &str) -> impl Iterator<Item = &Anchor> {
        self.state.removals.anchors_of(task_id)
    }

    fn removed_events(&self) -> i64 {
        self.state.removals.marks.events
    }

    fn hasher(&self) -> Hasher {
        self.inner.hasher
    }

    /// Also finds a line that this transaction has not written yet.
    fn read(&self, kind: Kind, loc: Loc) -> Result<Decoded> {
        match self.scratch.runs.bytes_from(loc) {
            Some(rest) => self.inner.decode(&self.state, kind, loc, first_line(rest)),
            None => self.inner.read(&self.state, &self.window, kind, loc),
        }
    }
}

impl Drop for Txn<'_> {
    fn drop(&mut self) {
        // Lines that were pushed but not committed are in the index but in no file.
        if !self.scratch.runs.is_empty() {
            self.state.forget();
        }
        if !self.is_committed {
            // `HEAD` keeps this process as the holder, so the next writer reads every segment.
            self.writer.lock.release();
        }
        self.scratch.clear();
        self.writer.scratch = std::mem::take(&mut self.scratch);
    }
}

/// The bytes before the first LF.
fn first_line(bytes: &[u8]) -> &[u8] {
    let end = memchr::memchr(b'\n', bytes).unwrap_or(bytes.len());
    bytes.get(..end).unwrap_or_default()
}
