//! Follows the session files of agents: imports existing sessions, then new lines.
//!
//! Events of the operating system tell which files to read. All files are also checked from time to
//! time, because events can be lost. Each import reads only the files that changed. The checkpoints
//! of imports stay in memory and are written every few seconds and at the end. If the watcher is
//! killed before that, it reads some files again, which adds nothing.

mod batch;
mod events;
mod news;
mod pulse;
mod tree;

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

pub use events::Stopper;
pub use news::{Addition, News};

use batch::{Source as Input, in_order};
use news::Told;
use pulse::Pulse;
use tree::{Look, Tree};

use super::checkpoint::{Carried, Source};
use super::expiry::{Expired, refused};
use super::report::Report;
use super::walk::Found;
use super::{Broken, Importer};
use crate::error::Result;
use crate::record::now;
use crate::storage::SETTLED_NS;
use crate::store::Store;

/// Default of [`Watcher::rescan_every`].
const RESCAN: Duration = Duration::from_secs(60);
/// Minimum time between two checks of all files if the system does not report all changes.
const POLL_MIN: Duration = Duration::from_secs(2);
/// How long changes are collected before they are imported.
const COLLECT: Duration = Duration::from_millis(100);
/// How long checkpoints stay only in memory.
const SAVE_AFTER: Duration = Duration::from_secs(5);
/// The store is closed after this time without a change.
const IDLE: Duration = Duration::from_secs(20);
/// Maximum time between two reads of the clock.
const TICK: Duration = Duration::from_secs(5);
/// Maximum number of bytes that one import reads, unless a single file has more.
const IMPORT_BYTES_MAX: u64 = 64 << 20;
const RETRY_MIN: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_secs(30);

/// Follows session files and directories, and imports what is new in them.
///
/// ```no_run
/// use std::time::Duration;
/// use decklog::{Store, import::{News, Watcher, default_paths}};
///
/// let store = Store::open("log")?;
/// let mut watcher = Watcher::new(store, default_paths());
/// while let Some(news) = watcher.next(Duration::from_secs(3600))? {
///     if let News::Imported { report, .. } = news {
///         println!("{} lines added", report.added);
///     }
/// }
/// watcher.finish();
/// # Ok::<(), decklog::Error>(())
/// ```
///
/// The paths need not exist yet. Any number of watchers and imports can use the same store and the
/// same paths: each record is added once. Dropping a watcher without [`finish`](Watcher::finish)
/// loses nothing; the next import reads some files again.
pub struct Watcher {
    /// `None` while it is closed.
    store: Option<Store>,
    reopen: Option<Box<dyn Fn() -> Result<Store> + Send>>,
    tree: Tree,
    carried: Carried,
    seen: HashMap<PathBuf, Seen>,
    /// The files to import.
    queue: BTreeSet<PathBuf>,
    news: VecDeque<News>,
    told: Told,
    pulse: Pulse,
    rescan: Duration,
    /// What happens to expired records; `None` once it is settled.
    expired: Option<Expired>,
    /// The number of imports that added records.
    imports: u64,
    is_polling: bool,
}

/// A file as it was read.
struct Seen {
    source: Option<Source>,
    /// The number of imports before it was read last, if something about it was to be reported.
    broken_at: Option<u64>,
    /// When it is read again although it did not change, in epoch milliseconds: some of its items
    /// count as final once the file has been quiet for a while.
    again_at: Option<i64>,
}

impl Watcher {
    /// Creates a watcher of these paths. Nothing is read before the first call of
    /// [`next`](Watcher::next) or [`catch_up`](Watcher::catch_up).
    pub fn new(store: Store, paths: impl IntoIterator<Item = impl Into<PathBuf>>) -> Watcher {
        let paths = paths.into_iter().map(|path| {
            let path = path.into();
            std::path::absolute(&path).unwrap_or(path)
        });
        Watcher {
            store: Some(store),
            reopen: None,
            tree: Tree::new(paths.collect()),
            carried: Carried::default(),
            seen: HashMap::new(),
            queue: BTreeSet::new(),
            news: VecDeque::new(),
            told: Told::default(),
            pulse: Pulse::new(),
            rescan: RESCAN,
            expired: Some(Expired::default()),
            imports: 0,
            is_polling: false,
        }
    }

    /// Sets how often all files are checked, for changes that the system does not report. Files
    /// that could not be read are then retried too. Default: 60 s.
    #[must_use]
    pub fn rescan_every(mut self, interval: Duration) -> Watcher {
        self.rescan = interval;
        self
    }

    /// Sets what happens if the store's retention would remove some of the records in the files at
    /// the start. Default: [`Expired::Refuse`].
    #[must_use]
    pub fn expired(mut self, expired: Expired) -> Watcher {
        self.expired = Some(expired);
        self
    }

    /// Closes the store while nothing changes, which frees the memory of its index, and reopens it
    /// with this function. Default: it stays open.
    #[must_use]
    pub fn close_when_idle(mut self, open: impl Fn() -> Result<Store> + Send + 'static) -> Watcher {
        self.reopen = Some(Box::new(open));
        self
    }

    /// The watched paths, absolute.
    pub fn paths(&self) -> &[PathBuf] {
        self.tree.roots()
    }

    /// Ends [`next`](Watcher::next) from another thread.
    pub fn stopper(&self) -> Stopper {
        self.tree.events.stopper()
    }

    /// Imports the current contents of the files. Returns one report.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) if retention would remove some of it and
    /// [`Expired::Refuse`] is set; nothing is written then. Errors of the store; files that were
    /// not imported are retried by [`next`](Watcher::next).
    pub fn catch_up(&mut self) -> Result<Report> {
        self.admit()?;
        let mut sum = Report::default();
        self.look_at_all();
        while !self.queue.is_empty() && !self.tree.events.is_stopped() {
            let (report, _) = self.import()?;
            sum.add(&report);
            sum.per_file.extend(report.per_file);
        }
        self.save();
        Ok(sum)
    }

    /// Waits for news, up to `wait`. Returns `None` if none came, or after
    /// [`stop`](Stopper::stop).
    ///
    /// # Errors
    /// At the first call, the error of [`catch_up`](Watcher::catch_up) about records that retention
    /// would remove. Errors of the store are reported as [`News::Waiting`], and the import is
    /// retried.
    pub fn next(&mut self, wait: Duration) -> Result<Option<News>> {
        self.admit()?;
        let end = Instant::now() + wait;
        loop {
            if let Some(news) = self.news.pop_front() {
                return Ok(Some(news));
            }
            if self.tree.events.is_stopped() {
                return Ok(None);
            }
            let now = Instant::now();
            self.step(now);
            if !self.news.is_empty() {
                continue;
            }
            if now >= end {
                return Ok(None);
            }
            let until = self.due(now).min(end).min(now + TICK);
            self.tree
                .events
                .wait(until.saturating_duration_since(Instant::now()));
        }
    }

    /// Saves how far each file was read, so that the next import reads only what is new.
    pub fn finish(mut self) {
        self.save();
    }

    /// Applies the `expired` setting.
    fn admit(&mut self) -> Result<()> {
        if let (Some(expired), Some(store)) = (self.expired, &self.store) {
            match expired {
                Expired::Refuse => {
                    let expiring = Importer::new(store).expiring(self.tree.roots())?;
                    if !expiring.is_empty() {
                        return Err(refused(&expiring));
                    }
                }
                Expired::Keep => {
                    store.change_settings(|settings| settings.retention.keep_imported())?;
                }
                Expired::Expire => {}
            }
            self.expired = None;
        }
        Ok(())
    }

    /// When there is something to do, if no event arrives.
    fn due(&self, now: Instant) -> Instant {
        let pulse = &self.pulse;
        let collected = self.tree.events.since().map(|since| since + COLLECT);
        let queued = (!self.queue.is_empty()).then_some(now);
        let imports = [collected, queued].into_iter().flatten().min();
        let imports = imports.map(|at| at.max(pulse.not_before));
        let others = [Some(pulse.rescan_at), pulse.save_at, self.idle_at()];
        let all = others.into_iter().flatten().chain(imports);
        all.min().unwrap_or(now + TICK)
    }

    /// When the store is closed.
    fn idle_at(&self) -> Option<Instant> {
        let is_idle = self.reopen.is_some() && self.store.is_some() && self.queue.is_empty();
        is_idle.then(|| self.pulse.changed_at + IDLE)
    }

    /// Does what is due.
    fn step(&mut self, now: Instant) {
        if self.pulse.has_slept() || now >= self.pulse.rescan_at {
            self.look_at_all();
        }
        let is_collected = self
            .tree
            .events
            .since()
            .is_some_and(|since| now >= since + COLLECT);
        if is_collected && now >= self.pulse.not_before {
            let heard = self.tree.events.take();
            if heard.is_lost {
                self.tree.forget_watches();
            }
            let look = self.tree.heed(heard);
            self.note(look);
        }
        if !self.queue.is_empty() && now >= self.pulse.not_before {
            match self.import() {
                Ok((mut report, additions)) => {
                    report.unchanged = 0;
                    if self.pulse.succeeded() {
                        self.news.push_back(News::Resumed);
                    }
                    if report.added > 0 || !report.broken.is_empty() {
                        let report = Box::new(report);
                        let news = News::Imported { report, additions };
                        self.news.push_back(news);
                    }
                }
                Err(error) => {
                    if self.reopen.is_some() {
                        // Its directory may have been replaced.
                        self.close();
                    }
                    if self.pulse.failed() {
                        self.news.push_back(News::Waiting(error));
                    }
                }
            }
        }
        if self.queue.is_empty() {
            if self.pulse.save_at.is_some_and(|at| now >= at) {
                self.save();
            }
            if self.idle_at().is_some_and(|at| now >= at) {
                self.save();
                self.close();
            }
        }
    }

    /// Checks all files.
    fn look_at_all(&mut self) {
        let began = Instant::now();
        let found = self.tree.scan();
        let files = found.iter().map(|found| match found {
            Found::File { path, .. } | Found::Refused { path, .. } => path.as_path(),
        });
        let files: HashSet<&Path> = files.collect();
        self.seen.retain(|path, _| files.contains(path.as_path()));
        let reason = self.tree.unwatched.clone();
        let mut interval = self.rescan;
        if reason.is_some() {
            interval = interval.min(POLL_MIN.max(began.elapsed() * 200));
        }
        if let Some(reason) = reason
            && !std::mem::replace(&mut self.is_polling, true)
        {
            self.news.push_back(News::Polling(reason));
        }
        self.pulse.rescan_at = Instant::now() + interval;
        let imports = self.imports;
        // What is broken may be explained by what was imported since.
        let now = now();
        let is_again = |seen: &Seen| {
            seen.broken_at.is_some_and(|at| at < imports)
                || seen.again_at.is_some_and(|at| at <= now)
        };
        for (path, seen) in &self.seen {
            if is_again(seen) {
                self.queue.insert(path.clone());
            }
        }
        self.note(Look {
            found,
            ..Look::default()
        });
    }

    /// Queues what changed.
    fn note(&mut self, look: Look) {
        for path in look.gone {
            self.seen.remove(&path);
            self.queue.remove(&path);
        }
        let mut refused = Report::default();
        for found in look.found {
            match found {
                Found::File { path, metadata } => {
                    let source = Source::of(&path, &metadata, SETTLED_NS);
                    let seen = self.seen.get(&path).and_then(|seen| seen.source.as_ref());
                    let is_same = seen.zip(source.as_ref());
                    if !is_same.is_some_and(|(seen, source)| source.is_same_as(seen)) {
                        self.queue.insert(path);
                    }
                }
                Found::Refused { path, reason } => refused.broken.push(Broken {
                    file: path.display().to_string(),
                    line: 0,
                    reason,
                }),
            }
        }
        self.told.retain_new(&mut refused);
        if !refused.broken.is_empty() {
            self.news.push_back(News::Imported {
                report: Box::new(refused),
                additions: Vec::new(),
            });
        }
        if look.is_rescan_needed {
            self.pulse.rescan_at = Instant::now();
        }
        if !self.queue.is_empty() {
            self.pulse.changed_at = Instant::now();
        }
    }

    /// The next files to import, as they are now.
    fn next_files(&mut self) -> Vec<Input> {
        let mut paths: Vec<PathBuf> = self.queue.iter().cloned().collect();
        paths.sort_by(|a, b| in_order(a, b));
        let (mut files, mut bytes) = (Vec::new(), 0);
        for path in paths {
            match fs::metadata(&path) {
                Ok(metadata) if metadata.is_file() => {
                    if !files.is_empty() && bytes + metadata.len() > IMPORT_BYTES_MAX {
                        break;
                    }
                    bytes += metadata.len();
                    files.push((path, metadata));
                }
                _ => {
                    self.seen.remove(&path);
                    self.queue.remove(&path);
                }
            }
        }
        files
    }

    /// Imports some of the queued files.
    fn import(&mut self) -> Result<(Report, Vec<Addition>)> {
        let began = Instant::now();
        let store = match (&self.store, &self.reopen) {
            (None, Some(open)) => self.store.insert(open()?),
            (Some(store), _) => store,
            // It is closed only if it can be opened again.
            (None, None) => return Ok(Default::default()),
        };
        let store = store.clone();
        let files = self.next_files();
        let carried = std::mem::take(&mut self.carried);
        let mut importer = Importer::carrying(&store, carried);
        if let Err(error) = importer.files(&files) {
            self.carried = importer.abandon();
            return Err(error);
        }
        let (mut report, additions, carried) = importer.pause();
        self.carried = carried;
        self.imports += u64::from(report.added > 0);
        self.see(&files, &report);
        if self.carried.take_lost() {
            // As a new process would, which finds its checkpoints invalid.
            self.seen.clear();
            self.pulse.rescan_at = Instant::now();
        }
        self.told.retain_new(&mut report);
        self.pulse.imported(began);
        if self.carried.is_changed() {
            self.pulse.save_soon();
        }
        Ok((report, additions))
    }

    /// Remembers how the files were when they were read.
    fn see(&mut self, files: &[Input], report: &Report) {
        let broken = report.broken.iter().map(|broken| broken.file.as_str());
        let broken: HashSet<&str> = broken.collect();
        let open = report.per_file.iter().filter(|it| it.report.unfinished > 0);
        let open: HashSet<&str> = open.map(|it| it.file.as_str()).collect();
        for (path, metadata) in files {
            self.queue.remove(path);
            let name = path.display().to_string();
            let is_broken = broken.contains(&*name);
            let seen = Seen {
                source: Source::of(path, metadata, SETTLED_NS),
                broken_at: is_broken.then_some(self.imports),
                again_at: open.contains(&*name).then(|| again_at(metadata)),
            };
            self.seen.insert(path.clone(), seen);
        }
    }

    fn close(&mut self) {
        self.carried.unload();
        self.store = None;
    }

    fn save(&mut self) {
        self.pulse.save_at = None;
        if let Some(store) = &self.store
            && self.carried.is_changed()
        {
            self.carried.save(store);
        }
    }
}

/// When a file with unfinished items is read again: after as long as it has been quiet, so that the
/// intervals grow.
fn again_at(metadata: &fs::Metadata) -> i64 {
    let now = now();
    let modified = metadata.modified().ok();
    let quiet = modified
        .and_then(|at| at.elapsed().ok())
        .unwrap_or_default();
    let quiet = i64::try_from(quiet.as_millis()).unwrap_or(i64::MAX);
    now.saturating_add(quiet.max(60_000))
}
