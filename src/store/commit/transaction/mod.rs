//! A transaction: take the lock, catch up, check, append, publish.

mod append_buffer;
mod close_segment;
mod lock_lease;
mod recent_lines;
mod replace;
mod settings;
mod target;

use std::cell::RefCell;
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError, RwLockWriteGuard};

use uuid::Uuid;

use self::append_buffer::AppendBuffer;
use self::lock_lease::{LeaseTimes, lease};
use self::recent_lines::RecentLines;
use super::group_sync::{Handle, Ticket};
use super::head::{Head, Header, Reach, SEQ_UNKNOWN};
use super::lock::Lock;
use super::reentrancy::{self, ReentrancyGuard};
use super::write_policy::{Redacted, WritePolicy};
use crate::error::{Error, ErrorKind, Result};
use crate::index::{Hasher, Index, Loc};
use crate::line::{Decoded, Envelope, LINE_BYTES_MAX, encode, envelope_of_own};
use crate::record::{Day, Kind, Record};
use crate::segment::Window;
use crate::storage::{append_all, io_error};
use crate::store::maintain::removals::Anchor;
use crate::store::process::Process;
use crate::store::view::parallel_scan::line_end;
use crate::store::view::state::State;
use crate::store::{Durability, Inner, Reads};

/// A larger scratch buffer is freed after a transaction.
const SCRATCH_BYTES_MAX: usize = 4 << 20;

/// What one handle on a store needs to write.
#[derive(Debug)]
pub(in crate::store) struct Writer {
    lock: Lock,
    head: Option<Head>,
    /// What `HEAD` says while the lock is held.
    header: Header,
    times: LeaseTimes,
    /// By the segment's place, the latest first.
    handles: Vec<(u32, Handle)>,
    /// Maximum number of handles, and of files that wait for a sync in a transaction.
    handles_max: usize,
    recent: RecentLines,
    /// [`State::generation`] and [`State::moved`] that `recent` and `handles` are of.
    known: (u64, Option<u64>),
    poisoned: Option<Error>,
    /// The write policy of the settings that were read last.
    policy: Arc<WritePolicy>,
    /// [`Header::settings`] at which they were read under the lock.
    settings_count: Option<u64>,
    /// Whether tails that were there when the store was opened were seen to.
    has_begun: bool,
    scratch: Scratch,
    process: Process,
}

/// What a transaction gathers. It is kept, empty, for the next one.
#[derive(Debug, Default)]
struct Scratch {
    line: Vec<u8>,
    /// Lines that are not written yet.
    runs: AppendBuffer,
    /// Segments whose handle and length were checked since the transaction began.
    checked: Vec<u32>,
    /// Segments appended to since the transaction began.
    appended: Vec<u32>,
    /// The files to sync, fewer than [`Writer::handles_max`].
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
    /// The failure after which the transaction can only fail: what it knew of the store, or what
    /// it had gathered, is gone.
    broken: Option<Error>,
    is_committed: bool,
    window: RefCell<Window>,
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

    /// The write that failed, after which there is none.
    pub(in crate::store) fn failure(&self) -> Option<&Error> {
        self.poisoned.as_ref()
    }

    /// Whether no write failed.
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
        let mut writer = inner.writer.lock().unwrap_or_else(PoisonError::into_inner);
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
            _reentrancy_guard: ReentrancyGuard::of(inner),
        };
        if complete_tails {
            txn.complete_whole_tails()?;
            txn.writer.has_begun = true;
        }
        if let Err(e) = txn.read_settings() {
            // Nothing is to be written, and nothing is in doubt.
            txn.commit()?;
            return Err(e);
        }
        Ok(txn)
    }

    /// Ends last lines in which something counts once they have an LF: it holds sequence numbers.
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

    /// Ends the last lines of segments, and reads what they are then.
    fn end_tails(&mut self, segments: &[u32]) -> Result<()> {
        for segment in segments {
            self.end_line(*segment)?;
        }
        if !segments.is_empty() {
            self.rescan()?;
        }
        Ok(())
    }

    /// Reads what changed in any segment.
    fn rescan(&mut self) -> Result<()> {
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

    /// Writes the LF that a segment's last line lacks.
    fn end_line(&mut self, segment: u32) -> Result<()> {
        let handle = self.handle(segment)?;
        let written = append_all(&*handle.named.file, b"\n");
        self.after_append(segment, handle, written)
    }

    /// Adds a line; returns its sequence number. It is in the files once
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
        // A rollup names all messages that it counts, and stays below the greatest limit itself.
        let bytes_max = match kind {
            Kind::Rollups => LINE_BYTES_MAX,
            _ => self.inner.line_bytes_max,
        };
        let (seq, segment) = loop {
            let seq = self.next_seq()?;
            line.clear();
            encode(record, parent_id, seq, bytes_max, line)?;
            let segment = self.target(day, kind, line.len() as u64)?;
            // Lines may have come to light that someone else put there.
            if self.next_seq()? == seq {
                break (seq, segment);
            }
        };

        let known = &mut self.state.segments[segment as usize];
        let offset = known.end;
        self.scratch.runs.push(segment, offset, line);
        known.end = offset + line.len() as u64;
        known.last_seq = seq;
        known.last = line.strip_suffix(b"\n").and_then(line_end);
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
    /// Only someone who writes lines by another program can have used up the numbers.
    fn next_seq(&self) -> Result<u64> {
        let next = self.state.max_seq.checked_add(1);
        // The greatest says in `HEAD` that the last number is not known.
        next.filter(|seq| *seq < SEQ_UNKNOWN).ok_or_else(|| {
            let message = "a line has the greatest sequence number that there is, so none can follow: take it out";
            Error::new(ErrorKind::Damaged, message).with_path(self.inner.storage.root())
        })
    }

    /// The envelope of a line that this handle wrote lately.
    pub(crate) fn envelope(&self, kind: Kind, loc: Loc) -> Option<Envelope<'_>> {
        let gathered = self.scratch.runs.bytes_from(loc);
        let bytes = gathered.or_else(|| self.writer.recent.bytes_from(loc))?;
        envelope_of_own(kind, first_line(bytes))
    }

    /// Writes what is gathered: one write for every run of lines to one segment.
    fn flush(&mut self) -> Result<()> {
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

    /// Notes a file to sync. So many are not kept open for it that none could be opened any more:
    /// then they are handed over, and at level `Disk` synced now, by the very descriptors that they
    /// were written through.
    fn mark_dirty(&mut self, handle: Handle) -> Result<()> {
        let file = &handle.named.file;
        let dirty = &mut self.scratch.dirty;
        if dirty
            .iter()
            .any(|known| Arc::ptr_eq(&known.named.file, file))
        {
            return Ok(());
        }
        dirty.push(handle);
        if dirty.len() < self.writer.handles_max {
            return Ok(());
        }
        let ticket = self.ticket();
        if self.inner.durability == Durability::Process {
            return Ok(());
        }
        let synced = self.inner.sync.wait(ticket);
        synced.map_err(|e| self.poison(e))
    }

    /// The point after all that was written until now.
    fn ticket(&mut self) -> Ticket {
        self.inner.sync.ticket(self.scratch.dirty.drain(..))
    }

    /// After this, nothing is acknowledged through this handle any more. `HEAD` keeps naming this
    /// process, which makes the next writer look at everything.
    fn poison(&mut self, err: Error) -> Error {
        self.writer.poisoned = Some(err.clone());
        self.give_up(err)
    }

    /// After this, nothing that was pushed is acknowledged.
    fn give_up(&mut self, err: Error) -> Error {
        self.broken = Some(err.clone());
        self.scratch.runs.clear();
        self.state.forget();
        err
    }

    /// Has nothing of what was gathered written.
    pub(crate) fn abandon(&mut self, err: Error) -> Error {
        if self.scratch.runs.is_empty() {
            return err;
        }
        self.give_up(err)
    }

    /// Whether the transaction can go on.
    pub(crate) fn check_whole(&self) -> Result<()> {
        self.broken.as_ref().map_or(Ok(()), |e| Err(e.clone()))
    }

    /// Ends the hold of the lock: writes what was pushed and tells the other processes. What
    /// comes back is to be waited for where `Disk` level is asked for.
    ///
    /// # Errors
    /// Nothing that was pushed is acknowledged, whatever [`push`](Txn::push) returned.
    pub(crate) fn commit(mut self) -> Result<Ticket> {
        self.check_whole()?;
        self.flush()?;
        let is_kept = self.writer.keeps_lease(self.inner);
        let mut header = Header {
            last_seq: self.state.max_seq,
            ..self.writer.header
        };
        if let Err(e) = self.publish(&mut header, is_kept) {
            let e = io_error(&*self.inner.storage, "write HEAD", "HEAD", e);
            return Err(self.poison(e));
        }
        self.state.commits = header.commits;
        self.state.seen_seq = header.last_seq;
        self.writer.header = header;
        if !is_kept {
            self.writer.release_lease();
        }
        self.is_committed = true;
        Ok(self.ticket())
    }

    /// Tells the other processes what was appended.
    fn publish(&self, header: &mut Header, is_kept: bool) -> io::Result<()> {
        let Some(head) = &self.writer.head else {
            return Ok(());
        };
        // Where memory is shared, that is noted once all is published, as the lock is given away.
        if !is_kept && !head.is_shared() {
            header.holder = 0;
        }
        let reaches = self.scratch.appended.iter().map(|segment| {
            let known = &self.state.segments[*segment as usize];
            Reach {
                segment: known.name,
                end: known.end,
            }
        });
        head.publish(header, reaches)
    }

    /// Lets the [`commit`](Txn::commit) of a fact that the log already holds wait for its line
    /// too, which another process may have written at `Process` level.
    pub(crate) fn confirm(&mut self, loc: Loc) -> Result<()> {
        if self.inner.durability == Durability::Process {
            return Ok(());
        }
        if self.scratch.runs.has_any_of(loc.segment) {
            return Ok(());
        }
        let handle = self.handle_to_sync(loc.segment)?;
        self.mark_dirty(handle)
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

    /// Also one that this transaction has only gathered yet.
    fn read(&self, kind: Kind, loc: Loc) -> Result<Decoded> {
        match self.scratch.runs.bytes_from(loc) {
            Some(rest) => self.inner.decode(&self.state, kind, loc, first_line(rest)),
            None => self.inner.read(&self.state, &self.window, kind, loc),
        }
    }
}

impl Drop for Txn<'_> {
    fn drop(&mut self) {
        // What was pushed and not committed is in the index, and in no file.
        if !self.scratch.runs.is_empty() {
            self.state.forget();
        }
        if !self.is_committed {
            // `HEAD` keeps naming this process, so that the next writer looks at everything.
            self.writer.lock.release();
        }
        self.scratch.clear();
        self.writer.scratch = std::mem::take(&mut self.scratch);
    }
}

/// What precedes the first LF.
fn first_line(bytes: &[u8]) -> &[u8] {
    let end = memchr::memchr(b'\n', bytes).unwrap_or(bytes.len());
    bytes.get(..end).unwrap_or_default()
}
