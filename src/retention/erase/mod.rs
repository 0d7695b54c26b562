//! Erasure: removes every line with the data of a conversation, user or request, and every copy.

mod traces;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use serde::Serialize;
use uuid::Uuid;

use self::traces::{Judged, Trace, Traces, without_lf};
use super::{OnPart, report};
use crate::error::{Error, ErrorKind, Result};
use crate::record::Kind;
use crate::segment::{Damage, DamageClass, SegmentName};
use crate::store::{Candidate, Dependents, RemovalReason, Snapshot, Store};

/// The data to erase.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Erasure {
    /// A conversation with its messages, their turns, the turns of the thread with this id, and the
    /// tool calls under any of them. Conversations with this id as `session_id` or `parent_id`, such
    /// as those of sub-agents, are erased too, at any depth. Erasing one of those keeps its parent.
    Conversation(Uuid),
    /// All conversations of a user, by the original id, hashed or not. Only conversations have a
    /// user: if retention removed a conversation earlier, use its id to erase its other records.
    User(String),
    /// The tool calls and the edit proposal of a request.
    Request(Uuid),
}

/// Options of [`erase`](Store::erase).
#[derive(Default)]
pub struct EraseOptions<'a> {
    /// Only reports what would be erased. Default: false.
    pub dry_run: bool,
    /// Called with each segment that was rewritten, or would be. `Break` ends the work early;
    /// another call erases the rest. Default: continues.
    pub progress: OnPart<'a, ErasedPart>,
}

/// The erasure of one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "wire", derive(utoipa::ToSchema))]
pub struct ErasedPart {
    /// The file, relative to the store.
    pub file: String,
    /// Number of erased lines.
    pub lines: u64,
    /// Number of erased bytes.
    pub bytes: u64,
}

/// The result of [`erase`](Store::erase).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "wire", derive(utoipa::ToSchema))]
pub struct Erased {
    /// The parts, by file.
    pub parts: Vec<ErasedPart>,
    /// Other programs' files with some of the data, which are not changed. Only the store's directory
    /// and the directories of its days are searched.
    pub foreign: Vec<String>,
    /// Threads with turns before the erased ones: if one session was forked from another, their shared
    /// lines are in the one that was recorded first. They are not changed.
    pub continued: Vec<Uuid>,
    /// For an erasure by user: the fingerprints of other keys under which user ids of remaining
    /// conversations are hashed. Only with those keys can this user's ids be found among them.
    pub other_keys: Vec<String>,
    /// Whether [`EraseOptions::progress`] ended it early.
    pub is_interrupted: bool,
}

/// Maximum number of passes for new lines.
const ROUNDS_MAX: u32 = 5;
/// Maximum total time of passes for lines that others keep recording.
const REPEATED_MAX: Duration = Duration::from_secs(20);
/// Number of passes over a kind without concurrent writes: one that finds related records, and one
/// that finds no more.
const PASSES: usize = 2;

impl Store {
    /// Rewrites every segment with the data, and files that a repair or a crash left elsewhere in
    /// the store. When this returns, no file of the store contains the data, also after a power cut.
    /// `removals.jsonl` records the erasure with a keyed hash of the id of each conversation and
    /// request, but no content: imports and replays then skip them. They can be recorded again under
    /// the same id.
    ///
    /// Damaged lines are erased too if they contain an id or a longer part of a text of the data,
    /// or form one of its lines together with adjacent pieces. Other pieces of damaged lines, such as
    /// of a text that is nowhere else, cannot be recognized and stay:
    /// [`verify()`](crate::verify()) and `quarantine/` show them.
    ///
    /// ```
    /// # use decklog::{Client, Conversation, Store};
    /// # use decklog::retention::{EraseOptions, Erasure};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let store = Store::open(dir.path().join("log"))?;
    /// let id = uuid::Uuid::new_v4();
    /// store.record(Conversation::new(id, Client::Web))?;
    /// let erased = store.erase(&Erasure::Conversation(id), EraseOptions::default())?;
    /// assert_eq!(erased.parts.len(), 1);
    /// assert!(store.get_conversation(id)?.is_none());
    /// # Ok::<(), decklog::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Damaged`](ErrorKind::Damaged) if a segment must be repaired first: other records are joined
    /// to a damaged line of the data, or it is sealed and its last line is torn;
    /// [`Io`](ErrorKind::Io) if user ids were hashed and the key is missing;
    /// [`Conflict`](ErrorKind::Conflict) if others keep recording the data; otherwise as
    /// [`retain`](Store::retain). After an error, some of the data may be gone; another call finds
    /// the rest.
    pub fn erase(&self, what: &Erasure, options: EraseOptions<'_>) -> Result<Erased> {
        let inner = self.inner();
        let _upkeep = inner.begin_upkeep(inner.lock_timeout)?;
        if !options.dry_run {
            inner.complete_rewrites()?;
        }
        let mut run = Run {
            store: self,
            traces: Traces::of(what, self)?,
            options,
            done: Erased::default(),
            patience: Patience::default(),
        };
        let mut steps = run.find()?;
        for _ in 0..ROUNDS_MAX {
            if !run.options.dry_run {
                // Before any line is removed.
                inner.add_tombstones(&run.traces.tombstones())?;
            }
            // First, because it is known only from the segments.
            run.erase_beside()?;
            run.done.other_keys = run.traces.other_keys.iter().cloned().collect();
            if steps.is_empty() {
                self.sync()?;
                return Ok(run.done);
            }
            run.look_before()?;
            for step in steps {
                run.patience.check(self)?;
                let Some(went_on) = run.take(&step)? else {
                    // Later steps depend on this one.
                    break;
                };
                if went_on.is_break() {
                    run.done.is_interrupted = true;
                    return Ok(run.done);
                }
            }
            if run.options.dry_run {
                return Ok(run.done);
            }
            // Further passes are only for lines that were recorded meanwhile.
            run.patience.begin();
            steps = run.find()?;
        }
        Err(gave_up(self))
    }
}

fn gave_up(store: &Store) -> Error {
    let message = "the data to erase is recorded repeatedly: stop its writers first";
    Error::new(ErrorKind::Conflict, message).with_path(store.path())
}

/// The time of passes for new lines so far.
#[derive(Debug, Default)]
struct Patience {
    spent: Duration,
    since: Option<Instant>,
}

impl Patience {
    /// Starts the clock. Returns whether it was not running before.
    fn begin(&mut self) -> bool {
        let is_first = self.since.is_none();
        self.since.get_or_insert_with(Instant::now);
        is_first
    }

    fn end(&mut self) {
        self.spent += self
            .since
            .take()
            .map_or(Duration::ZERO, |since| since.elapsed());
    }

    fn check(&self, store: &Store) -> Result<()> {
        let running = self.since.map_or(Duration::ZERO, |since| since.elapsed());
        if self.spent + running > REPEATED_MAX {
            return Err(gave_up(store));
        }
        Ok(())
    }
}

/// The kinds with related records, in the order in which one leads to the next.
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
    patience: Patience,
}

/// The erasable data in a segment.
#[derive(Debug, Default)]
struct Held {
    /// Whether there are lines that by themselves show why they are erased.
    leads: bool,
    /// Whether there are lines that are recognized only through lines in other segments.
    is_led_from_elsewhere: bool,
}

/// The lines of a segment that are erased in one rewrite.
struct Step {
    name: SegmentName,
    takes: fn(Judged) -> bool,
}

impl Run<'_, '_> {
    /// Finds the threads that were continued by erased turns.
    fn look_before(&mut self) -> Result<()> {
        for (before, thread) in self.traces.before() {
            let turn = self.store.get_turn(before)?;
            let before = turn.and_then(|turn| turn.thread_id);
            let before = before.filter(|before| *before != thread);
            if let Some(before) = before.filter(|id| !self.done.continued.contains(id)) {
                self.done.continued.push(before);
            }
        }
        Ok(())
    }

    /// The order of erasure. It ensures that after an interruption the rest can still be found:
    /// first damaged lines, then each kind after all kinds that depend on it, and within a kind
    /// first the lines that are found only through lines in other segments.
    ///
    /// # Errors
    /// [`Damaged`](ErrorKind::Damaged) if other records would be erased as well.
    fn find(&mut self) -> Result<Vec<Step>> {
        let segments = self.store.inner().segments()?;
        let mut found: BTreeMap<SegmentName, Held> = BTreeMap::new();
        let mut damaged = Vec::new();
        for kind in KINDS {
            let segments = || segments.iter().filter(|name| name.kind == kind);
            // A line may identify lines before it, so several passes are needed.
            for pass in 0.. {
                let has_begun = pass >= PASSES && self.patience.begin();
                let known = self.traces.leads();
                let mut damaged_here = Vec::new();
                for name in segments() {
                    self.patience.check(self.store)?;
                    found.insert(*name, self.look_into(*name, &mut damaged_here)?);
                }
                if has_begun {
                    self.patience.end();
                }
                if self.traces.leads() == known {
                    damaged.extend(damaged_here);
                    break;
                }
            }
        }
        // Damaged lines are checked last, when all the data to erase is known.
        let mut held_damaged = BTreeSet::new();
        for (name, line) in damaged {
            match self.traces.judge(name.kind, &line).trace {
                Trace::Leads => found.entry(name).or_default().leads = true,
                Trace::Follows => _ = held_damaged.insert(name),
                Trace::Mixed => {
                    let message = "a damaged line holds data to erase and whole records of others, which would be lost: run 'decklog repair' first";
                    let is_it = |damage: &Damage| damage.length == line.len() as u64;
                    return Err(self.damaged(name, message, DamageClass::Damaged, is_it));
                }
                Trace::Other => {}
            }
        }
        let step = |name, takes| Step { name, takes };
        let damaged = held_damaged.into_iter();
        let damaged = damaged.map(|name| step(name, Judged::is_damaged));
        let (mut led, mut leading) = (Vec::new(), Vec::new());
        for (name, held) in found {
            if held.is_led_from_elsewhere {
                led.push(step(name, Judged::follows));
            }
            match held {
                Held { leads: false, .. } => {}
                Held {
                    is_led_from_elsewhere: true,
                    ..
                } => leading.push(step(name, Judged::leads)),
                // Any others are recognized through these.
                _ => leading.push(step(name, |judged| judged.leads() || judged.follows())),
            }
        }
        led.append(&mut leading);
        led.sort_by_key(|step| Reverse(KINDS.iter().position(|kind| *kind == step.name.kind)));
        Ok(damaged.chain(led).collect())
    }

    /// The erasable data in a segment, as far as it is known now.
    fn look_into(
        &mut self,
        name: SegmentName,
        damaged: &mut Vec<(SegmentName, Vec<u8>)>,
    ) -> Result<Held> {
        let (mut leading, mut led) = (HashSet::new(), HashSet::new());
        let mut pieces = Vec::new();
        let traces = &mut self.traces;
        self.store.inner().each_line(name, &mut |line| {
            let Judged { trace, key } = traces.judge(name.kind, line);
            let Some(key) = key else {
                traces.join(name.kind, &mut pieces, line);
                damaged.push((name, line.to_vec()));
                return;
            };
            pieces.clear();
            match trace {
                Trace::Leads => _ = leading.insert(key),
                Trace::Follows => _ = led.insert(key),
                Trace::Mixed | Trace::Other => {}
            }
        })?;
        Ok(Held {
            leads: !leading.is_empty(),
            is_led_from_elsewhere: !led.is_subset(&leading),
        })
    }

    /// The error for a damaged segment, with the offset of its first matching damage.
    fn damaged(
        &self,
        name: SegmentName,
        message: &'static str,
        class: DamageClass,
        is_it: impl Fn(&Damage) -> bool,
    ) -> Error {
        let path = name.path();
        let error = Error::new(ErrorKind::Damaged, message);
        let error = error.with_path(&self.store.path().join(&path));
        let damage = self.store.damage().unwrap_or_default();
        let is_it =
            |damage: &&Damage| damage.file == path && damage.class == class && is_it(damage);
        match damage.iter().find(is_it) {
            Some(damage) => error.with_offset(damage.offset),
            None => error,
        }
    }

    /// Erases lines of a segment; `None` if that is not possible in its current state.
    fn take(&mut self, step: &Step) -> Result<Option<ControlFlow<()>>> {
        let taken = if self.options.dry_run {
            Some(self.count(step)?)
        } else {
            self.cut(step)?
        };
        let Some((lines, bytes)) = taken else {
            return Ok(None);
        };
        if lines == 0 {
            return Ok(Some(ControlFlow::Continue(())));
        }
        let part = ErasedPart {
            file: step.name.path(),
            lines,
            bytes,
        };
        let goes_on = report(&mut self.options.progress, &part);
        self.done.parts.push(part);
        Ok(Some(goes_on))
    }

    /// The number of lines and bytes of a segment that would be erased.
    fn count(&mut self, step: &Step) -> Result<(u64, u64)> {
        let Step { name, takes } = *step;
        let (mut lines, mut bytes) = (0, 0);
        let traces = &mut self.traces;
        self.store.inner().each_line(name, &mut |line| {
            if takes(traces.judge(name.kind, line)) {
                lines += 1;
                bytes += line.len() as u64 + 1;
            }
        })?;
        Ok((lines, bytes))
    }

    /// Rewrites a segment. Returns the number of removed lines and bytes; `None` if the segment
    /// changed meanwhile.
    fn cut(&mut self, step: &Step) -> Result<Option<(u64, u64)>> {
        let inner = self.store.inner();
        let Step { name, takes } = *step;
        inner.settle(name)?;
        let traces = &mut self.traces;
        let mut stays = |_: &Snapshot<'_>, line: &Candidate<'_>| {
            Ok(!takes(traces.judge(name.kind, line.bytes)))
        };
        let Some(plan) = inner.plan_rewrite(&[name], &mut stays)? else {
            // Changes by other programs become known only after a refresh.
            self.store.refresh()?;
            let is_torn =
                |damage: &Damage| damage.class == DamageClass::Torn && damage.file == name.path();
            if self.store.damage()?.iter().any(is_torn) {
                let message = "the segment holds data to erase and cannot be rewritten, as it is read-only and its last line is torn: run 'decklog repair' first";
                return Err(self.damaged(name, message, DamageClass::Torn, |_| true));
            }
            return Ok(None);
        };
        let Some((_, gone)) = plan.gone().next() else {
            return Ok(Some((0, 0)));
        };
        let ended = traces.talks(inner.hasher());
        let with = Dependents {
            ended,
            ..Dependents::default()
        };
        let is_done = inner.apply(&plan, RemovalReason::Erasure, &with)?;
        Ok(is_done.then_some((gone.lines, gone.bytes)))
    }

    /// Erases the data in quarantined files, leftovers of a crash and caches, and searches for it in
    /// foreign files in the store's directory.
    fn erase_beside(&mut self) -> Result<()> {
        let inner = self.store.inner();
        let other_files = inner.other_files()?;
        if !self.options.dry_run {
            inner.discard_leftovers(&other_files.leftovers)?;
            inner.discard_import_checkpoints()?;
            inner.discard_sums()?;
        }
        for file in other_files.quarantined {
            let bytes = inner.read_whole(&file)?;
            let lines = || bytes.split_inclusive(|byte| *byte == b'\n');
            for kind in KINDS {
                let mut pieces = Vec::new();
                lines().for_each(|line| self.traces.join(kind, &mut pieces, without_lf(line)));
            }
            let is_of = |line: &&[u8]| self.traces.are_in_line(line);
            let left: Vec<&[u8]> = lines().filter(|line| !is_of(line)).collect();
            let left = left.concat();
            if left.len() == bytes.len() {
                continue;
            }
            let part = ErasedPart {
                file,
                lines: lines().filter(is_of).count() as u64,
                bytes: (bytes.len() - left.len()) as u64,
            };
            if !self.options.dry_run {
                inner.replace_whole(&part.file, &left)?;
            }
            // `Break` is ignored, because little work remains.
            let _ = report(&mut self.options.progress, &part);
            self.done.parts.push(part);
        }
        self.done.foreign.clear();
        for file in other_files.foreign {
            if self.traces.are_in(&inner.read_whole(&file)?) {
                self.done.foreign.push(file);
            }
        }
        Ok(())
    }
}
