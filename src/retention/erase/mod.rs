//! Forgets what someone asked to be forgotten: every line that holds it, and every copy.

mod traces;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use serde::Serialize;
use uuid::Uuid;

use self::traces::{Judged, Trace, Traces, without_lf};
use crate::error::{Error, ErrorKind, Result};
use crate::record::Kind;
use crate::segment::{Damage, DamageClass, SegmentName};
use crate::store::{Candidate, Dependents, RemovalReason, Snapshot, Store};

/// What to forget.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Erasure {
    /// A conversation with its messages, their turns, those of the thread of this id, and the tool
    /// calls under any of them. Conversations whose `session_id` or `parent_id` is this id, as those
    /// of sub-agents, go with it, and so do theirs; it stays if one of those is erased.
    Conversation(Uuid),
    /// All conversations of a user, as the user's id was given when they were recorded, whether it
    /// was hashed or not. Only conversations name their users: what belongs to one that is not in
    /// the log any more, as it went earlier by retention, is found by the conversation's id.
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
#[cfg_attr(feature = "wire", derive(utoipa::ToSchema))]
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
#[cfg_attr(feature = "wire", derive(utoipa::ToSchema))]
pub struct Erased {
    /// What was erased, by file.
    pub parts: Vec<ErasedPart>,
    /// Files that are none of the store's own and hold some of it: they are left as they are. They
    /// are looked for in the store's directory and in those of its days, not in others.
    pub foreign: Vec<String>,
    /// Threads that hold what came before turns that were erased: where one session was forked from
    /// another, lines of both stand in the one that was recorded first. They are left as they are.
    pub continued: Vec<Uuid>,
    /// Of an erasure by user: the fingerprints of other keys under which ids of users are hashed
    /// whose conversations stay. Whether one of them is this user's is known by those keys alone.
    pub other_keys: Vec<String>,
    /// It ended early, as [`EraseOptions::progress`] said.
    pub is_interrupted: bool,
}

/// How often new lines of what is erased are looked for.
const ROUNDS_MAX: u32 = 5;
/// How long it may take in all to look again for what others keep recording.
const REPEATED_MAX: Duration = Duration::from_secs(20);
/// Passes over a kind that an erasure takes while no one records anything: one that finds what it
/// leads to, and one that finds no more.
const PASSES: usize = 2;

impl Store {
    /// Rewrites every segment that holds what is to be forgotten, and whatever a repair or a crash
    /// left of it elsewhere in the store. Once this returns, no file of the store holds it any
    /// more, also after a power cut. That something was erased, but not what, is noted in
    /// `removals.jsonl`, with a keyed hash of the id of each conversation and request: an import or
    /// a replay leaves these out from then on. They can be recorded again under the same id.
    ///
    /// Damaged lines go, too, where they hold an id of it, a longer piece of one of its texts, or
    /// make one of its lines when they are put together again with those next to them. A piece of
    /// a damaged line of which none of this is so, as of a text that stands nowhere else, cannot
    /// be known and stays: [`verify()`](crate::verify()) and `quarantine/` tell where such pieces
    /// are.
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
    /// [`Damaged`](ErrorKind::Damaged) if a segment must be repaired first: records of others are
    /// glued to what is to be erased, or it is sealed and its last line is cut short;
    /// [`Io`](ErrorKind::Io) if users' ids were hashed and their key is not there;
    /// [`Conflict`](ErrorKind::Conflict) if others keep recording it; else as
    /// [`retain`](Store::retain). After an error, some of it may be gone, and what is left still
    /// leads to all of it: call again.
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
            run.add_tombstones()?;
            // First, as it is known only by what the segments say.
            run.erase_beside()?;
            run.done.other_keys = run.traces.other_keys();
            if steps.is_empty() {
                self.sync()?;
                return Ok(run.done);
            }
            run.look_before()?;
            for step in steps {
                run.patience.check(self)?;
                let Some(went_on) = run.take(&step)? else {
                    // What comes after leads to it.
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
            // All that follows is done for what was recorded meanwhile.
            run.patience.begin();
            steps = run.find()?;
        }
        Err(gave_up(self))
    }
}

fn gave_up(store: &Store) -> Error {
    let message = "what is to be erased is recorded again and again: end that first";
    Error::new(ErrorKind::Conflict, message).with_path(store.path())
}

/// How long it took by now to look for what others recorded meanwhile.
#[derive(Debug, Default)]
struct Patience {
    spent: Duration,
    since: Option<Instant>,
}

impl Patience {
    /// Returns whether it has not begun before.
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
    patience: Patience,
}

/// What a segment holds of it.
#[derive(Debug, Default)]
struct Held {
    /// Lines that say themselves why they are erased.
    leads: bool,
    /// Lines of which others tell so.
    follows: bool,
    /// Some of those others are in other segments.
    is_led_from_elsewhere: bool,
}

/// What is to be erased of a segment at once.
#[derive(Debug)]
struct Step {
    name: SegmentName,
    leads: bool,
    follows: bool,
    damaged: bool,
}

impl Step {
    fn takes(&self, judged: Judged) -> bool {
        match judged.trace {
            Trace::Leads => self.leads,
            Trace::Follows if judged.key.is_none() => self.damaged,
            Trace::Follows => self.follows,
            Trace::Mixed | Trace::Other => false,
        }
    }
}

impl Run<'_, '_> {
    /// Looks for the threads that go on in what is erased.
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

    /// Notes, before anything goes, that what is erased is not to come back.
    fn add_tombstones(&self) -> Result<()> {
        if self.options.dry_run {
            return Ok(());
        }
        self.store.inner().add_tombstones(&self.traces.tombstones())
    }

    /// What is to be erased, in an order in which what is left, should this end early, still leads
    /// to all of it: first damaged lines, then a kind after all that belongs to it, and of a kind
    /// first what only lines in other segments lead to.
    ///
    /// # Errors
    /// [`Damaged`](ErrorKind::Damaged) if others' records would go with it.
    fn find(&mut self) -> Result<Vec<Step>> {
        let segments = self.store.inner().segments()?;
        let mut found: BTreeMap<SegmentName, Held> = BTreeMap::new();
        let mut damaged = Vec::new();
        for kind in KINDS {
            let segments = || segments.iter().filter(|name| name.kind == kind);
            // What a line says may be of lines before it.
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
        // Only now is all known that a damaged line may hold a part of.
        let mut held_damaged = BTreeSet::new();
        for (name, line) in damaged {
            match self.traces.judge(name.kind, &line).trace {
                Trace::Leads => found.entry(name).or_default().leads = true,
                Trace::Follows => _ = held_damaged.insert(name),
                Trace::Mixed => {
                    let message = "a damaged line holds some of what is to be erased, and whole records of others, which would go with it: run 'decklog repair' first";
                    let is_it = |damage: &Damage| damage.length == line.len() as u64;
                    return Err(self.damaged(name, message, DamageClass::Damaged, is_it));
                }
                Trace::Other => {}
            }
        }
        let step = |name: &SegmentName| Step {
            name: *name,
            leads: false,
            follows: false,
            damaged: false,
        };
        let damaged = held_damaged.iter().map(|name| Step {
            damaged: true,
            ..step(name)
        });
        let (mut led, mut leading) = (Vec::new(), Vec::new());
        for (name, held) in &found {
            if held.is_led_from_elsewhere {
                led.push(Step {
                    follows: true,
                    ..step(name)
                });
            }
            let follows = held.follows && !held.is_led_from_elsewhere;
            if held.leads || follows {
                leading.push(Step {
                    leads: held.leads,
                    follows,
                    ..step(name)
                });
            }
        }
        led.append(&mut leading);
        led.sort_by_key(|step| Reverse(KINDS.iter().position(|kind| *kind == step.name.kind)));
        Ok(damaged.chain(led).collect())
    }

    /// What a segment holds of it, as far as that is known by now.
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
            follows: !led.is_empty(),
            is_led_from_elsewhere: !led.is_subset(&leading),
        })
    }

    /// An error of a segment that is damaged, with the place of the first such damage that is it.
    fn damaged(
        &self,
        name: SegmentName,
        message: &str,
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

    /// Erases some of a segment; `None` if that cannot be done as it is now.
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
        let goes_on = (self.options.progress)(&part);
        self.done.parts.push(part);
        Ok(Some(goes_on))
    }

    /// How many lines of a segment would go, and how many bytes.
    fn count(&mut self, step: &Step) -> Result<(u64, u64)> {
        let Step { name, .. } = *step;
        let (mut lines, mut bytes) = (0, 0);
        let traces = &mut self.traces;
        self.store.inner().each_line(name, &mut |line| {
            if step.takes(traces.judge(name.kind, line)) {
                lines += 1;
                bytes += line.len() as u64 + 1;
            }
        })?;
        Ok((lines, bytes))
    }

    /// Rewrites a segment. How many lines went, and how many bytes; `None` if it is not as it was
    /// any more.
    fn cut(&mut self, step: &Step) -> Result<Option<(u64, u64)>> {
        let inner = self.store.inner();
        let Step { name, .. } = *step;
        inner.settle(name)?;
        let traces = &mut self.traces;
        let mut stays = |_: &Snapshot<'_>, line: &Candidate<'_>| {
            Ok(!step.takes(traces.judge(name.kind, line.bytes)))
        };
        let Some(plan) = inner.plan_rewrite(&[name], &mut stays)? else {
            // What other hands wrote is not known before.
            self.store.refresh()?;
            let is_torn =
                |damage: &Damage| damage.class == DamageClass::Torn && damage.file == name.path();
            if self.store.damage()?.iter().any(is_torn) {
                let message = "the segment holds some of what is to be erased, and cannot be rewritten, as it is read-only and its last line is cut short: run 'decklog repair' first";
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

    /// Erases what a repair took out and what a crash left behind, and looks for it in what others
    /// put into the store's directory.
    fn erase_beside(&mut self) -> Result<()> {
        let inner = self.store.inner();
        let other_files = inner.other_files()?;
        if !self.options.dry_run {
            inner.discard_leftovers(&other_files.leftovers)?;
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
            // It goes on: there is little left to do.
            let _ = (self.options.progress)(&part);
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
