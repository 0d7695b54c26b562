//! Lines across kinds in the order of their sequence numbers: the last ones, and those to come.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use notify::{RecommendedWatcher, RecursiveMode, Watcher};

use super::belief::believe;
use super::head::{Head, SEQ_UNKNOWN};
use super::{Store, View};
use crate::error::{Error, Result};
use crate::line::LINE_BYTES_MAX;
use crate::record::Kind;
use crate::segment::{Fact, Found, scan};
use crate::storage::{Access, full_path};

/// How long a change may go unnoticed where the system's notices fail, as they do on network
/// mounts or when its queue overflows.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// How long lines after a missing one are held back: it may be under way.
const HOLE_PATIENCE: Duration = Duration::from_secs(1);
/// How often it is looked for.
const HOLE_INTERVAL: Duration = Duration::from_millis(5);

/// A line as it stands in the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine {
    /// The kind of record it holds.
    pub kind: Kind,
    /// The file, relative to the store.
    pub file: String,
    /// Where it starts in the file, in bytes.
    pub offset: u64,
    /// Its sequence number.
    pub seq: u64,
    /// The line itself, without LF.
    pub text: String,
}

impl Store {
    /// The last `count` lines, in order.
    pub fn last_lines(&self, count: usize) -> Result<Vec<LogLine>> {
        let view = self.inner().fresh()?;
        let segments = view.state.segments.iter().enumerate();
        // A segment whose making failed has a place, and no file.
        let mut newest_first: Vec<usize> = segments
            .filter(|(_, segment)| segment.end > 0)
            .map(|(id, _)| id)
            .collect();
        newest_first.sort_unstable_by_key(|id| Reverse(view.state.segments[*id].last_seq));
        let mut last: BTreeMap<(u64, usize, u64), LogLine> = BTreeMap::new();
        for id in newest_first {
            let first = last.first_key_value().map_or(0, |((seq, ..), _)| *seq);
            if count == 0 || (last.len() >= count && view.state.segments[id].last_seq < first) {
                break;
            }
            lines(&view, id, 0, &mut |line| {
                last.insert((line.seq, id, line.offset), line);
                if last.len() > count {
                    last.pop_first();
                }
            })?;
        }
        Ok(last.into_values().collect())
    }

    /// Follows the log from the line after `seq` on: 0 for all of it, or the sequence number of
    /// the last line seen.
    ///
    /// ```
    /// # use decklog::{Kind, Store, event_type};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let store = Store::open(dir.path().join("log"))?;
    /// let mut follow = store.follow(0)?;
    /// store.log_event(None, event_type::AGENT_STARTED, None)?;
    /// let lines = follow.next_lines(std::time::Duration::from_secs(1))?;
    /// assert_eq!((lines[0].seq, lines[0].kind), (1, Kind::Events));
    /// # Ok::<(), decklog::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Io`](crate::ErrorKind::Io) if the store cannot be read.
    pub fn follow(&self, seq: u64) -> Result<Follow> {
        let (sender, notices) = channel();
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            // Reading the store is an event as well, and no news.
            if !event.is_ok_and(|event| event.kind.is_access()) {
                let _ = sender.send(());
            }
        });
        // Without a watcher, as on a system that has no more of them to give, polling remains.
        let watcher = watcher.ok().and_then(|mut watcher| {
            watcher.watch(self.path(), RecursiveMode::Recursive).ok()?;
            Some(watcher)
        });
        Ok(Follow {
            store: self.clone(),
            seq,
            read: HashMap::new(),
            held: Vec::new(),
            held_since: None,
            notices,
            _watcher: watcher,
        })
    }
}

/// Follows a store; from [`Store::follow`].
#[derive(Debug)]
pub struct Follow {
    store: Store,
    /// The last line handed out.
    seq: u64,
    /// How far each segment was read, by its place and identity.
    read: HashMap<(usize, u64), u64>,
    /// Lines after a missing one.
    held: Vec<LogLine>,
    held_since: Option<Instant>,
    notices: Receiver<()>,
    _watcher: Option<RecommendedWatcher>,
}

impl Follow {
    /// The lines that came since the last call, in order; waits up to `timeout` for the first.
    pub fn next_lines(&mut self, timeout: Duration) -> Result<Vec<LogLine>> {
        let started = Instant::now();
        loop {
            let lines = self.poll()?;
            let left = timeout.saturating_sub(started.elapsed());
            if !lines.is_empty() || left.is_zero() {
                return Ok(lines);
            }
            let interval = match self.held_since {
                Some(_) => HOLE_INTERVAL,
                None => POLL_INTERVAL,
            };
            match self.notices.recv_timeout(left.min(interval)) {
                Ok(()) => while self.notices.try_recv().is_ok() {},
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    std::thread::sleep(left.min(interval));
                }
            }
        }
    }

    fn poll(&mut self) -> Result<Vec<LogLine>> {
        let published = self.published();
        let view = self.store.inner().fresh()?;
        let mut news = std::mem::take(&mut self.held);
        for (id, segment) in view.state.segments.iter().enumerate() {
            let from = self.read.entry((id, segment.identity)).or_default();
            if segment.end > *from {
                let after = self.seq;
                if segment.last_seq > after {
                    lines(&view, id, *from, &mut |line| {
                        if line.seq > after {
                            news.push(line);
                        }
                    })?;
                }
                *from = segment.end;
            }
        }
        drop(view);
        news.sort_by(|a, b| (a.seq, &a.file, a.offset).cmp(&(b.seq, &b.file, b.offset)));
        news.dedup();
        self.hold_back(&mut news, published);
        self.seq = news.last().map_or(self.seq, |line| line.seq);
        Ok(news)
    }
}

impl Follow {
    /// The last line before which no line is under way; [`u64::MAX`] where none can be.
    fn published(&self) -> u64 {
        let head = Head::open_for_reading(&*self.store.inner().storage);
        let header = head.ok().flatten().and_then(|head| head.header().ok()?);
        match header.map(|header| header.last_seq) {
            None => u64::MAX,
            Some(SEQ_UNKNOWN) => self.seq,
            Some(last_seq) => last_seq,
        }
    }

    /// Holds back the lines that come after a missing one. Of a batch that is just being written,
    /// a later line may be seen before an earlier one, which stands in another segment.
    fn hold_back(&mut self, news: &mut Vec<LogLine>, published: u64) {
        let mut last = self.seq.max(published);
        let hole = news.iter().position(|line| {
            let is_next = line.seq <= last.saturating_add(1);
            last = last.max(line.seq);
            !is_next
        });
        let Some(hole) = hole else {
            self.held_since = None;
            return;
        };
        if self.held_since.get_or_insert_with(Instant::now).elapsed() < HOLE_PATIENCE {
            self.held = news.split_off(hole);
        } else {
            self.held_since = None;
        }
    }
}

/// Calls `sink` for every line of a segment from `from` up to where the view knows it.
fn lines(view: &View<'_>, id: usize, from: u64, sink: &mut dyn FnMut(LogLine)) -> Result<()> {
    let segment = &view.state.segments[id];
    let storage = &*view.inner.storage;
    let path = segment.name.path();
    let kind = segment.name.kind;
    let io = |e| Error::io("read the segment", &full_path(storage, &path), e);
    let file = storage.open(&path, Access::Read).map_err(io)?;
    let (mut lines, mut seqs) = (Vec::new(), Vec::new());
    let mut found = |found: Found<'_>| {
        found.facts(kind, &mut |fact: Fact<'_>| {
            let text = String::from_utf8_lossy(fact.bytes).into_owned();
            let Fact {
                offset,
                envelope,
                is_altered,
                ..
            } = fact;
            seqs.push((envelope.seq, is_altered));
            lines.push(LogLine {
                kind,
                file: path.clone(),
                offset,
                seq: envelope.seq,
                text,
            });
        });
    };
    scan(&*file, kind, from, segment.end, LINE_BYTES_MAX, &mut found).map_err(io)?;
    believe(&mut seqs, 0, view.state.max_seq);
    for (line, (seq, _)) in lines.into_iter().zip(seqs) {
        sink(LogLine { seq, ..line });
    }
    Ok(())
}
