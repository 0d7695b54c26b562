//! Forgets what someone asked to be forgotten: every line that holds it, and every copy.

mod traces;

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::ops::ControlFlow;

use serde::Serialize;
use uuid::Uuid;

use self::traces::{Trace, Traces};
use crate::error::{Error, ErrorKind, Result};
use crate::record::Kind;
use crate::segment::SegmentName;
use crate::store::{Candidate, RemovalReason, Store, View, With};

/// What to forget.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Erasure {
    /// A conversation with its messages, the turns of the thread of this id, and the tool calls
    /// under any of them.
    Conversation(Uuid),
    /// All conversations of a user, as the user's id was given when they were recorded.
    User(String),
    /// The tool calls and the edit proposal of a request.
    Request(Uuid),
}

/// How to [`erase`](Store::erase).
pub struct EraseOptions<'a> {
    /// Only tells what would go. Default: false.
    pub dry_run: bool,
    /// Called with each segment that was rewritten, or would be; ends the work early where it says
    /// so, which leaves the rest to be erased by another call. Default: goes on.
    pub progress: &'a mut dyn FnMut(&ErasedPart) -> ControlFlow<()>,
}

impl<'a> EraseOptions<'a> {
    /// For good.
    pub fn for_good(
        progress: &'a mut dyn FnMut(&ErasedPart) -> ControlFlow<()>,
    ) -> EraseOptions<'a> {
        EraseOptions {
            dry_run: false,
            progress,
        }
    }
}

/// What was erased of one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ErasedPart {
    /// The file, relative to the store.
    pub file: String,
    /// How many lines went.
    pub lines: u64,
    /// How many bytes they had.
    pub bytes: u64,
}

/// What [`erase`](Store::erase) did, or would do.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Erased {
    /// What was erased, by file.
    pub parts: Vec<ErasedPart>,
    /// Files under the store's directory that are none of its own and hold some of it: they are
    /// left as they are.
    pub foreign: Vec<String>,
    /// It ended early, as [`EraseOptions::progress`] said.
    pub is_interrupted: bool,
}

/// How often new lines of what is erased are looked for.
const ROUNDS_MAX: u32 = 5;

impl Store {
    /// Rewrites every segment that holds what is to be forgotten, and whatever a repair or a crash
    /// left of it elsewhere in the store. Once this returns, no file of the store holds it any
    /// more, also after a power cut. That something was erased, but not what, is noted in
    /// `removals.jsonl`.
    ///
    /// ```
    /// # use decklog::{Client, Conversation, EraseOptions, Erasure, Store};
    /// # use std::ops::ControlFlow;
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let store = Store::open(dir.path().join("log"))?;
    /// let id = uuid::Uuid::new_v4();
    /// store.record(Conversation::new(id, Client::Web))?;
    /// let mut go_on = |_: &_| ControlFlow::Continue(());
    /// let erased = store.erase(&Erasure::Conversation(id), EraseOptions::for_good(&mut go_on))?;
    /// assert_eq!(erased.parts.len(), 1);
    /// assert!(store.get_conversation(id)?.is_none());
    /// # Ok::<(), decklog::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Conflict`](ErrorKind::Conflict) if others keep recording it; else as
    /// [`retain`](Store::retain). After an error, some of it may be gone: call again.
    pub fn erase(&self, what: &Erasure, options: EraseOptions<'_>) -> Result<Erased> {
        let inner = self.inner();
        let _upkeep = inner.begin_upkeep(inner.lock_timeout())?;
        if !options.dry_run {
            inner.clear_up()?;
        }
        let mut run = Run {
            store: self,
            traces: Traces::of(what, self)?,
            options,
            done: Erased::default(),
        };
        let mut found = run.find()?;
        for _ in 0..ROUNDS_MAX {
            // First, as it is known only by what the segments say.
            run.erase_beside()?;
            if found.is_empty() {
                self.sync()?;
                return Ok(run.done);
            }
            for name in found {
                if run.erase_of(name)?.is_break() {
                    run.done.is_interrupted = true;
                    return Ok(run.done);
                }
            }
            if run.options.dry_run {
                return Ok(run.done);
            }
            found = run.find()?;
        }
        let message = "what is to be erased is recorded again and again: end that first";
        Err(Error::new(ErrorKind::Conflict, message).with_path(self.path()))
    }
}

/// The kinds that hold any of it, in the order in which they lead from one to the next.
const KINDS: [Kind; 5] = [
    Kind::Conversations,
    Kind::Messages,
    Kind::ConversationTurns,
    Kind::ToolCalls,
    Kind::CodeEditProposals,
];

struct Run<'s, 'o> {
    store: &'s Store,
    traces: Traces,
    options: EraseOptions<'o>,
    done: Erased,
}

impl Run<'_, '_> {
    /// The segments that hold any of it, in an order in which what is left, should this end
    /// early, still leads to all of it: a conversation goes after all that belongs to it.
    fn find(&mut self) -> Result<Vec<SegmentName>> {
        let inner = self.store.inner();
        let segments = inner.segments()?;
        let (mut found, mut damaged) = (Vec::new(), Vec::new());
        for kind in KINDS {
            for name in segments.iter().filter(|name| name.kind == kind) {
                let mut is_in = false;
                inner.each_line(*name, &mut |line| match self.traces.judge(kind, line) {
                    Trace::Known => is_in = true,
                    Trace::Unreadable => damaged.push((*name, line.to_vec())),
                    Trace::Other => {}
                })?;
                if is_in {
                    found.push(*name);
                }
            }
        }
        // Only now is all known that a damaged line may hold a part of.
        let holds =
            |(name, line): (SegmentName, Vec<u8>)| self.traces.are_in(&line).then_some(name);
        let damaged: BTreeSet<_> = damaged.into_iter().filter_map(holds).collect();
        found.retain(|name| !damaged.contains(name));
        found.sort_by_key(|name| Reverse(KINDS.iter().position(|kind| *kind == name.kind)));
        Ok(damaged.into_iter().chain(found).collect())
    }

    fn erase_of(&mut self, name: SegmentName) -> Result<ControlFlow<()>> {
        let inner = self.store.inner();
        if !self.options.dry_run {
            inner.settle(name)?;
        }
        let traces = &mut self.traces;
        let mut judge = |_: &View<'_>, line: &Candidate<'_>| {
            let goes = match traces.judge(name.kind, line.bytes) {
                Trace::Known => true,
                Trace::Unreadable => traces.are_in(line.bytes),
                Trace::Other => false,
            };
            Ok(!goes)
        };
        let Some(cut) = inner.cut(&[name], &mut judge)? else {
            return Ok(ControlFlow::Continue(()));
        };
        let Some((_, gone)) = cut.gone().next() else {
            return Ok(ControlFlow::Continue(()));
        };
        let ended = traces.talks(inner.hasher());
        let with = With {
            ended,
            ..With::default()
        };
        if !self.options.dry_run && !inner.apply(&cut, RemovalReason::Erasure, &with)? {
            return Ok(ControlFlow::Continue(()));
        }
        let part = ErasedPart {
            file: name.path(),
            lines: gone.lines,
            bytes: gone.bytes,
        };
        let goes_on = (self.options.progress)(&part);
        self.done.parts.push(part);
        Ok(goes_on)
    }

    /// Erases what a repair took out and what a crash left behind, and looks for it in what others
    /// put into the store's directory.
    fn erase_beside(&mut self) -> Result<()> {
        let inner = self.store.inner();
        let beside = inner.beside()?;
        if !self.options.dry_run {
            inner.discard_leftovers(&beside.leftovers)?;
        }
        for file in beside.quarantined {
            let bytes = inner.read_whole(&file)?;
            let lines = || bytes.split_inclusive(|byte| *byte == b'\n');
            let left: Vec<&[u8]> = lines().filter(|line| !self.traces.are_in(line)).collect();
            let left = left.concat();
            if left.len() == bytes.len() {
                continue;
            }
            let part = ErasedPart {
                file,
                lines: lines().filter(|line| self.traces.are_in(line)).count() as u64,
                bytes: (bytes.len() - left.len()) as u64,
            };
            if !self.options.dry_run {
                inner.replace_whole(&part.file, &left)?;
            }
            // It goes on: there is little left to do.
            let _ = (self.options.progress)(&part);
            self.done.parts.push(part);
        }
        self.done.foreign.clear();
        for file in beside.foreign {
            if self.traces.are_in(&inner.read_whole(&file)?) {
                self.done.foreign.push(file);
            }
        }
        Ok(())
    }
}
