//! One hold of the write lock: catch up, check, append, publish.

mod runs;
mod target;

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::sync::{Arc, MutexGuard, PoisonError, RwLockWriteGuard};

use uuid::Uuid;

use self::runs::{Run, Runs};
use super::head::{self, Commit, Head, Header, RING_LEN, SEQ_UNKNOWN};
use super::lock::{self, Lock};
use super::state::State;
use super::sync::Ticket;
use super::{Durability, Inner, Reads};
use crate::error::{Error, ErrorKind, Result};
use crate::index::{Hasher, Index, Loc};
use crate::line::{Decoded, encode, parse_envelope};
use crate::record::{Day, Kind, Record};
use crate::storage::{Named, append_all, full_path};

/// What one handle on a store needs to write.
#[derive(Debug, Default)]
pub(super) struct Writer {
    lock: Lock,
    head: Option<Head>,
    /// By the segment's place.
    handles: HashMap<u32, Handle>,
    poisoned: Option<Error>,
    /// Whether tails that were there when the store was opened were seen to.
    has_begun: bool,
}

/// An open segment to append to.
#[derive(Debug, Clone)]
struct Handle {
    named: Named,
    path: Arc<str>,
}

/// The store, locked against other writers, in this process and others.
pub(crate) struct Txn<'s> {
    inner: &'s Inner,
    /// Before `writer`: fields are dropped in this order, and the next thread to come by
    /// `writer` takes the lock through the same handle, which a later unlock would take from it.
    _lock: lock::Guard,
    writer: MutexGuard<'s, Writer>,
    state: RwLockWriteGuard<'s, State>,
    header: Header,
    runs: Runs,
    /// Segments whose handle and length were checked since the lock was taken.
    checked: BTreeSet<u32>,
    /// Segments appended to since the lock was taken.
    appended: BTreeSet<u32>,
    /// The failure after which the transaction can only fail: what it knew of the store, or what
    /// it had gathered, is gone.
    broken: Option<Error>,
}

impl<'s> Txn<'s> {
    /// Takes the lock and catches up on what other processes wrote.
    pub(in super::super) fn begin(inner: &'s Inner) -> Result<Txn<'s>> {
        inner.check_writable()?;
        let storage = &*inner.storage;
        let mut writer = inner.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let failure = writer
            .poisoned
            .as_ref()
            .map(Error::again)
            .or_else(|| inner.sync.failure());
        if let Some(failure) = failure {
            return Err(poisoned(&failure));
        }
        let guard = writer.lock.acquire(storage, inner.lock_timeout)?;

        let head_path = full_path(storage, "HEAD");
        let head_io = |e| Error::io("read or write HEAD", &head_path, e);
        let (head, is_new) = match writer.head.take() {
            Some(head) if head.is_current(storage).map_err(head_io)? => (head, false),
            _ => (Head::open_for_writing(storage).map_err(head_io)?, true),
        };
        let found = head.header().map_err(head_io)?;
        if found.is_none() {
            head.clear().map_err(head_io)?;
        }
        let mut state = inner.state.write().unwrap_or_else(PoisonError::into_inner);
        // Whoever is still noted as the writer died or failed while it wrote.
        let is_intact = |header: &Header| header.holder == 0 && !state.is_stale;
        let intact = found.filter(is_intact);
        let holder = std::process::id();
        let header = intact.map_or_else(
            || Header {
                // Past what anyone saw, so that everyone looks at all segments.
                commits: found
                    .map_or_else(head::fresh_count, |found| found.commits)
                    .max(state.commits)
                    .wrapping_add(RING_LEN + 1),
                last_seq: SEQ_UNKNOWN,
                holder,
            },
            |intact| Header { holder, ..intact },
        );
        head.write_header(header).map_err(head_io)?;
        let look_at_all = intact.is_none() || is_new && writer.has_begun;
        if look_at_all {
            state.look_at_all(storage, Some(&head), true)?;
        } else if header.commits != state.commits {
            state.catch_up(storage, &head, header, true)?;
        }
        writer.head = Some(head);
        let complete_tails = look_at_all || !writer.has_begun;
        let mut txn = Txn {
            inner,
            writer,
            state,
            header,
            runs: Runs::default(),
            checked: BTreeSet::new(),
            appended: BTreeSet::new(),
            broken: None,
            _lock: guard,
        };
        if complete_tails {
            txn.complete_whole_tails()?;
            txn.writer.has_begun = true;
        }
        Ok(txn)
    }

    /// Ends last lines that lack nothing but their LF: they hold sequence numbers.
    fn complete_whole_tails(&mut self) -> Result<()> {
        let whole = |tail: crate::segment::Tail| tail.is_whole_line;
        let segments = &self.state.segments;
        let torn: Vec<u32> = (0..segments.len() as u32)
            .filter(|id| segments[*id as usize].tail.is_some_and(whole))
            .collect();
        for segment in &torn {
            let handle = self.handle(*segment)?;
            let written = append_all(&*handle.named.file, b"\n");
            self.after_append(*segment, &handle, written)?;
        }
        if !torn.is_empty() {
            let storage = &*self.inner.storage;
            self.state
                .look_at_all(storage, self.writer.head.as_ref(), true)?;
        }
        Ok(())
    }

    /// Adds a line; returns its sequence number. It is in the files once
    /// [`commit`](Txn::commit) returns.
    pub(crate) fn push(&mut self, record: &Record, parent_id: Option<Uuid>) -> Result<u64> {
        let (kind, day) = (record.kind(), Day::of(record.at())?);
        let mut line = Vec::new();
        let (seq, segment) = loop {
            let seq = self.state.max_seq + 1;
            line.clear();
            encode(record, parent_id, seq, self.inner.line_bytes_max, &mut line)?;
            let segment = self.target(day, kind, line.len() as u64)?;
            // Lines may have come to light that someone else put there.
            if self.state.max_seq + 1 == seq {
                break (seq, segment);
            }
        };

        let known = &mut self.state.segments[segment as usize];
        let tail = known.tail.take();
        let mut offset = known.expected_len();
        let last_run = self.runs.last_mut();
        let run_is_last = last_run.is_some_and(|run| run.segment == segment);
        if let Some(tail) = tail {
            // A torn line, of a process that died: end it, so that it stays by itself.
            offset += tail.len;
            self.runs.push(Run {
                segment,
                offset,
                bytes: b"\n".to_vec(),
            });
            offset += 1;
        } else if !run_is_last {
            self.runs.push(Run {
                segment,
                offset,
                bytes: Vec::new(),
            });
        }
        known.end = offset + line.len() as u64;
        known.last_seq = seq;
        let loc = Loc {
            segment,
            offset: offset as u32,
        };
        if let Some(envelope) = parse_envelope(kind, &line) {
            let entry = self.inner.hasher.entry(kind, &envelope, loc);
            self.state.index.apply(kind, &entry);
        }
        self.state.max_seq = seq;
        if let Some(run) = self.runs.last_mut() {
            run.bytes.append(&mut line);
        }
        Ok(seq)
    }

    /// Writes what is gathered: one write for every run of lines to one segment.
    fn flush(&mut self) -> Result<()> {
        for run in self.runs.take() {
            let handle = match self.handle(run.segment) {
                Ok(handle) => handle,
                Err(e) => return Err(self.poison(e)),
            };
            let written = append_all(&*handle.named.file, &run.bytes);
            self.after_append(run.segment, &handle, written)?;
        }
        Ok(())
    }

    fn after_append(
        &mut self,
        segment: u32,
        handle: &Handle,
        written: io::Result<()>,
    ) -> Result<()> {
        if let Err(e) = written {
            let e = self.io("append to", segment, e);
            return Err(self.poison(e));
        }
        self.inner.sync.mark_file(&handle.path, &handle.named.file);
        self.appended.insert(segment);
        Ok(())
    }

    /// After this, nothing is acknowledged through this handle any more. `HEAD` keeps naming this
    /// process, which makes the next writer look at everything.
    fn poison(&mut self, err: Error) -> Error {
        self.writer.poisoned = Some(err.again());
        self.give_up(err)
    }

    /// After this, nothing that was pushed is acknowledged.
    fn give_up(&mut self, err: Error) -> Error {
        self.broken = Some(err.again());
        self.runs.take();
        self.state.forget();
        err
    }

    /// Whether the transaction can go on.
    pub(crate) fn check_whole(&self) -> Result<()> {
        self.broken.as_ref().map_or(Ok(()), |e| Err(e.again()))
    }

    /// Ends the hold of the lock: writes what was pushed and tells the other processes. What
    /// comes back is to be waited for where `Disk` level is asked for.
    ///
    /// # Errors
    /// Nothing that was pushed is acknowledged, whatever [`push`](Txn::push) returned.
    pub(crate) fn commit(mut self) -> Result<Ticket> {
        self.check_whole()?;
        self.flush()?;
        let appended = std::mem::take(&mut self.appended);
        let mut header = Header {
            holder: 0,
            last_seq: self.state.max_seq,
            ..self.header
        };
        let mut published = Ok(());
        if let Some(head) = &self.writer.head {
            for segment in &appended {
                header.commits = header.commits.wrapping_add(1);
                let known = &self.state.segments[*segment as usize];
                let commit = Commit {
                    number: header.commits,
                    segment: known.name,
                    end: known.end,
                };
                published = published.and_then(|()| head.write_commit(commit));
            }
            published = published.and_then(|()| head.write_header(header));
        }
        if let Err(e) = published {
            let path = full_path(&*self.inner.storage, "HEAD");
            return Err(self.poison(Error::io("write HEAD", &path, e)));
        }
        self.state.commits = header.commits;
        Ok(self.inner.sync.ticket())
    }

    /// Lets the [`commit`](Txn::commit) of a fact that the log already holds wait for its line
    /// too, which another process may have written at `Process` level.
    pub(crate) fn confirm(&mut self, loc: Loc) -> Result<()> {
        if self.inner.durability == Durability::Process {
            return Ok(());
        }
        if self.runs.has_any_of(loc.segment) {
            return Ok(());
        }
        let handle = self.handle(loc.segment)?;
        self.inner.sync.mark_file(&handle.path, &handle.named.file);
        Ok(())
    }
}

impl Reads for Txn<'_> {
    fn index(&self) -> &Index {
        &self.state.index
    }

    fn hasher(&self) -> Hasher {
        self.inner.hasher
    }

    /// Also one that this transaction has only gathered yet.
    fn read(&self, kind: Kind, loc: Loc) -> Result<Decoded> {
        let Some(rest) = self.runs.bytes_from(loc) else {
            return self.inner.read(&self.state, kind, loc);
        };
        let end = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
        let line = rest.get(..end).unwrap_or_default();
        self.inner.decode(&self.state, kind, loc, line)
    }
}

impl Drop for Txn<'_> {
    fn drop(&mut self) {
        // What was pushed and not committed is in the index, and in no file.
        if !self.runs.is_empty() {
            self.state.forget();
        }
    }
}

fn poisoned(first: &Error) -> Error {
    let message = format!(
        "an earlier write of this handle failed, so it writes no more: open the store again to recover; the failure was: {first}"
    );
    Error::new(ErrorKind::Poisoned, message)
}
