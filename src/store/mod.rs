//! A store: open, write, read, follow, maintain. The rules on which record may follow which are
//! not here but in `collections`.
//!
//! - `commit`: transactions, the write lock, `HEAD`, group commit and the write policy.
//! - `view`: what a handle knows of the log: state, snapshots, sidecar.
//! - `read`: lines in order: follow, pages, reverse scan.
//! - `maintain`: seals, rewrites, repair, verification, removals.

mod background;
mod budget_settings;
mod cache_file;
mod commit;
mod counts;
mod health;
mod log_mark;
mod maintain;
mod manifest;
mod open_file_limits;
mod options;
mod price_file;
mod process;
mod read;
mod retention_settings;
mod root_check;
mod setting_form;
mod settings;
mod view;

use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use parking_lot::{Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};
use uuid::Uuid;

pub use budget_settings::{BudgetSettings, Usd};
pub(crate) use cache_file::CacheFile;
pub use counts::{Counts, KindCounts, SyncTimes};
pub use health::{Health, LockState, NextRemoval, Usage};
pub(crate) use log_mark::LogMark;
pub(crate) use maintain::removals::Anchor;
pub use maintain::removals::{RemovalReason, Removed};
pub(crate) use maintain::rewrite::{Candidate, Dependents};
pub use maintain::seq_set::SeqRange;
pub(crate) use maintain::tombstones::Tombstones;
pub use maintain::verify::{LastVerification, Verification, VerifyOptions, verify, verify_with};
#[cfg(feature = "sql")]
pub(crate) use manifest::FORMAT;
pub use options::{Durability, Options};
#[cfg(feature = "mcp")]
pub(crate) use read::days::KindOfDay;
pub use read::follow::Follow;
pub use read::lines::LogLine;
#[cfg(any(feature = "otlp", feature = "wire"))]
pub(crate) use read::paged_reader::PagedReader;
#[cfg(feature = "ship")]
pub(crate) use read::point::{Point, PointSegment};
pub(crate) use read::reverse_scan::{Hit, Scope, Sought, Step};
pub use retention_settings::{Keep, RetentionSettings};
pub use settings::Settings;

/// Exported for the fuzzers.
#[cfg(any(test, fuzzing))]
pub(crate) mod check {
    pub(crate) use super::manifest::read as read_manifest;
    pub(crate) use super::view::sidecar::sealed as sealed_sidecar;
}

use self::background::Job;
use self::commit::group_sync::GroupSync;
use self::commit::head_reader::HeadReader;
use self::commit::lock::Lock;
use self::commit::policy_cache::PolicyCache;
pub(crate) use self::commit::transaction::Txn;
use self::commit::transaction::Writer;
use self::commit::write_group::WriteGroup;
use self::commit::write_policy::hashed_under;
pub(crate) use self::commit::write_policy::{PreparedRecord, Redacted, key_of_value};
pub(crate) use self::maintain::seal::SealLog;
pub(crate) use self::maintain::upkeep::UpkeepTask;
use self::maintain::upkeep::{OpenHandle, UpkeepSchedule};
use self::manifest::Manifest;
pub(crate) use self::manifest::NAME as MANIFEST;
#[cfg(feature = "http")]
pub(crate) use self::manifest::check_is_there;
pub(crate) use self::manifest::{is_dir_of_store, key_fingerprint};
use self::open_file_limits::OpenFileLimits;
use self::price_file::KnownPrices;
pub(crate) use self::process::Process;
use self::read::file_cache::FileCache;
pub(crate) use self::view::read_ahead::ReadAhead;
pub(crate) use self::view::row_lines::{RowLines, Unclear};
use self::view::sidecar;
pub(crate) use self::view::snapshot::{Reads, Snapshot};
use self::view::state::State;
pub(crate) use self::view::watermark::{SegmentWatermark, Watermark};
use crate::error::{Error, ErrorKind, Result};
use crate::index::Hasher;
use crate::privacy::UserKey;
use crate::record::Kind;
use crate::segment::Damage;
use crate::storage::{Storage, io_error};

/// A log: one directory, shared by any number of threads and processes.
///
/// Clones share one handle. When the last one is dropped, its writes are synced to disk. Only
/// [`close`](Store::close) returns the errors of this sync.
///
/// ```
/// use decklog::{ConversationTurn, ObservabilityStore, Store, TurnKind, Validity};
/// use uuid::Uuid;
///
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("log");
/// let store = Store::open(&path)?;
/// store.upsert_conversation_turn(ConversationTurn {
///     id: Uuid::new_v4(),
///     parent_id: None,
///     message_id: Uuid::new_v4(),
///     kind: TurnKind::User,
///     content: "List the files.".into(),
///     created_at: Validity::at(1_766_832_000_123),
///     thread_id: None,
/// })?;
/// assert_eq!(store.list_conversation_since(0, 10)?.len(), 1);
/// # Ok::<(), decklog::Error>(())
/// ```
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
    /// Shared by all clones. Dropping the last one stops the upkeep thread, whose own clone has
    /// `None`.
    _open: Option<Arc<OpenHandle>>,
}

pub(crate) struct Inner {
    storage: Arc<dyn Storage>,
    hasher: Hasher,
    is_read_only: bool,
    pub(crate) durability: Durability,
    /// Maximum time that this handle waits for a lock.
    pub(crate) lock_timeout: Duration,
    /// Size at which a segment is full, in bytes.
    pub(crate) segment_bytes_max: u64,
    /// Maximum length of a line that this handle writes, in bytes with its LF.
    pub(crate) line_bytes_max: usize,
    pub(crate) sidecar_bytes_min: u64,
    store_id: Uuid,
    manifest_damage: Option<Damage>,
    policies: PolicyCache,
    prices: KnownPrices,
    state: RwLock<State>,
    files: FileCache,
    head_reader: Arc<HeadReader>,
    writer: Arc<Mutex<Writer>>,
    /// Lock order: before `writer`.
    seals: Mutex<SealLog>,
    sync: Arc<GroupSync>,
    write_group: WriteGroup,
    /// Number of lines added through this handle, by kind.
    appended: [AtomicU64; Kind::ALL.len()],
    has_background: AtomicBool,
    /// Releases the kept lock when it is idle.
    lock_releaser: OnceLock<Job>,
    upkeep_schedule: Arc<UpkeepSchedule>,
    upkeep_task: Option<UpkeepTask>,
    me: OnceLock<Weak<Inner>>,
    process: Process,
}

impl Store {
    /// Opens the store in a directory. Creates it if it does not exist.
    ///
    /// # Errors
    /// As [`Options::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Store> {
        Store::options().open(path)
    }

    /// Options to open a store with.
    pub fn options() -> Options {
        Options::default()
    }

    fn open_with(storage: Arc<dyn Storage>, options: &Options) -> Result<Store> {
        let (manifest, manifest_damage) = open_manifest(&*storage, options)?;
        let store_id = manifest.store_id;
        let hasher = Hasher::new(store_id);
        let head_reader = Arc::new(HeadReader::default());
        let policies = PolicyCache::new(
            Arc::clone(&storage),
            Arc::clone(&head_reader),
            manifest,
            UserKey::at(options.user_id_key.clone()),
        );
        let mut state = State::new(hasher);
        sidecar::load(&*storage, store_id, &mut state);
        let open_files = OpenFileLimits::allowed();
        let inner = Inner {
            hasher,
            is_read_only: options.read_only,
            durability: options.durability,
            lock_timeout: options.lock_timeout,
            segment_bytes_max: options.segment_bytes_max,
            line_bytes_max: options.line_bytes_max,
            sidecar_bytes_min: options.sidecar_bytes_min,
            store_id,
            manifest_damage,
            state: RwLock::new(state),
            files: FileCache::new(open_files.read),
            head_reader,
            writer: Arc::new(Mutex::new(Writer::new(policies.known(), open_files.append))),
            policies,
            seals: Mutex::default(),
            sync: Arc::new(GroupSync::new(
                Arc::clone(&storage),
                open_files.dirty,
                options.flush_interval,
            )),
            write_group: WriteGroup::default(),
            appended: Default::default(),
            has_background: AtomicBool::new(false),
            lock_releaser: OnceLock::new(),
            upkeep_schedule: Arc::default(),
            upkeep_task: options.upkeep.then_some(options.upkeep_task),
            me: OnceLock::new(),
            process: Process::default(),
            prices: KnownPrices::default(),
            storage,
        };
        drop(inner.snapshot()?);
        let open = OpenHandle {
            upkeep_schedule: Arc::clone(&inner.upkeep_schedule),
            process: inner.process,
        };
        let inner = Arc::new(inner);
        let _ = inner.me.set(Arc::downgrade(&inner));
        Ok(Store {
            inner,
            _open: Some(Arc::new(open)),
        })
    }

    /// The store's directory.
    pub fn path(&self) -> &Path {
        self.inner.storage.root()
    }

    /// Checks every file for changes, including those made by other programs. Reads and writes see
    /// other processes' records without this call.
    pub fn refresh(&self) -> Result<()> {
        self.inner.rescan()
    }

    /// Returns once everything that was acknowledged through this handle is on disk.
    ///
    /// # Errors
    /// [`Io`](ErrorKind::Io) if an fsync failed, now or before.
    pub fn sync(&self) -> Result<()> {
        let ticket = self.inner.sync.ticket(std::iter::empty());
        self.inner.sync.wait(ticket)
    }

    /// Closes this handle: returns once everything that was acknowledged through it, or a clone of
    /// it, is on disk. Returns the errors that dropping it would hide. Clones stay usable, and the
    /// handle stays open until the last of them is closed or dropped.
    ///
    /// ```
    /// # use decklog::{Store, event_type};
    /// # let dir = tempfile::tempdir().unwrap();
    /// let store = Store::open(dir.path().join("log"))?;
    /// store.log_event(None, event_type::AGENT_STARTED, None)?;
    /// store.close()?;
    /// # Ok::<(), decklog::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Io`](ErrorKind::Io) if an fsync failed, now or before; [`Poisoned`](ErrorKind::Poisoned)
    /// if a write failed before, or in a process that was forked from the one that opened the
    /// store. Then records that were acknowledged at [`Durability::Process`] may not be on disk.
    pub fn close(self) -> Result<()> {
        if self.inner.process.is_another() {
            return Err(process::forked(self.path()));
        }
        let synced = self.sync();
        self.inner.writer.lock().check_whole()?;
        synced
    }

    /// The damage found while reading: bytes that are not as decklog wrote them. At most 10,000
    /// places for each kind of record. [`verify()`] reads everything again.
    pub fn damage(&self) -> Result<Vec<Damage>> {
        let view = self.inner.snapshot()?;
        Ok(view.damage().collect())
    }

    pub(crate) fn inner(&self) -> &Inner {
        &self.inner
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store")
            .field("path", &self.path())
            .finish_non_exhaustive()
    }
}

/// Reads the manifest, or creates it. Also returns the damage found in it.
fn open_manifest(storage: &dyn Storage, options: &Options) -> Result<(Manifest, Option<Damage>)> {
    if options.read_only {
        let (mut manifest, damage) = manifest::read_leniently(storage)?;
        if damage.is_some() {
            manifest.key_fingerprint = hashed_under(storage)?;
        }
        return Ok((manifest, damage));
    }
    check_is_local(storage, options)?;
    if let Some(manifest) = manifest::read(storage)? {
        check_is_writable(storage)?;
        return Ok((manifest, None));
    }
    // Segments without a manifest: the store lost its manifest and is not a new one.
    let is_lost = manifest::has_segments(storage);
    if !options.create && !is_lost {
        return Err(manifest::no_store(storage));
    }
    options.settings.check()?;
    storage
        .create_dir("")
        .map_err(|e| io_error(storage, "make the store's directory", "", e))?;
    manifest::check_is_free(storage)?;
    check_is_writable(storage)?;
    let mut lock = Lock::default();
    lock.acquire(storage, options.lock_timeout, &|| true)?;
    let manifest = match manifest::read(storage) {
        Ok(None) if is_lost => manifest::create_anew(storage, options.settings.clone()),
        Ok(None) => manifest::create(storage, options.settings.clone()).map(|made| (made, None)),
        Ok(Some(manifest)) => Ok((manifest, None)),
        Err(e) => Err(e),
    };
    lock.release();
    manifest
}

/// Fails early if the directory is not writable, instead of at the first record.
fn check_is_writable(storage: &dyn Storage) -> Result<()> {
    let doing = "write in the store's directory (this user needs write access, and the file system must not be mounted read-only)";
    storage
        .check_writable()
        .map_err(|e| io_error(storage, doing, "", e))
}

/// Rejects network file systems, where locks and shared memory are not reliable.
fn check_is_local(storage: &dyn Storage, options: &Options) -> Result<()> {
    let volume = storage
        .volume()
        .map_err(|e| io_error(storage, "look at the file system of", "", e))?;
    let Some(volume) = volume.filter(|volume| volume.is_network && !options.allow_network_fs)
    else {
        return Ok(());
    };
    let message = format!(
        "the store is on a network file system ({}), where another machine's writes and locks may go unseen and records be lost: keep it on a local disk or, if only this machine writes it, allow network file systems",
        volume.file_system
    );
    Err(Error::new(ErrorKind::NetworkFileSystem, message).with_path(storage.root()))
}

impl Inner {
    /// Whether the log has no lines, as far as this handle knows.
    fn is_empty(&self) -> bool {
        let state = self.read_state();
        state.max_seq == 0
    }

    /// The state, to read. A writer has it for some microseconds, in which another thread would
    /// hardly get to sleep and wake up.
    fn read_state(&self) -> RwLockReadGuard<'_, State> {
        for _ in 0..STATE_SPINS {
            if let Some(state) = self.state.try_read() {
                return state;
            }
            std::hint::spin_loop();
        }
        self.state.read()
    }

    fn lock_state(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write()
    }

    /// Access to files of the store that hold no records.
    pub(crate) fn storage(&self) -> &dyn Storage {
        &*self.storage
    }

    pub(crate) fn hasher(&self) -> Hasher {
        self.hasher
    }

    #[cfg(any(feature = "otlp", feature = "ship", feature = "sql"))]
    pub(crate) fn store_id(&self) -> Uuid {
        self.store_id
    }

    pub(crate) fn policies(&self) -> &PolicyCache {
        &self.policies
    }

    /// Checks that the handle was not opened read-only.
    ///
    /// # Errors
    /// [`ReadOnly`](ErrorKind::ReadOnly).
    pub(crate) fn check_writable(&self) -> Result<()> {
        if self.is_read_only {
            let message = "the store was opened read-only: open it without read_only to write";
            return Err(Error::new(ErrorKind::ReadOnly, message).with_path(self.storage.root()));
        }
        Ok(())
    }

    /// Takes the write lock.
    fn begin(&self) -> Result<Txn<'_>> {
        // Fuzzers open thousands of stores and need no background thread.
        let is_started = self.has_background.load(Ordering::Acquire);
        if !is_started && !self.is_read_only && !cfg!(fuzzing) {
            self.start_background()?;
        }
        Txn::begin(self)
    }

    fn start_background(&self) -> Result<()> {
        // Serializes threads that get here at the same time.
        let _line = self.writer.lock();
        if !self.has_background.load(Ordering::Acquire) {
            self.sync.start_background()?;
            if let (Some(upkeep_task), Some(me)) = (self.upkeep_task, self.me.get()) {
                self.upkeep_schedule.start(Weak::clone(me), upkeep_task);
            }
            self.has_background.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// Whether this handle may save what spares the next one from reading as much. One that only
    /// reads does not create the directory.
    pub(crate) fn may_cache(&self) -> bool {
        !self.is_read_only || self.storage.stat("cache").is_ok()
    }
}

/// Number of attempts to read the state before a thread waits asleep.
const STATE_SPINS: u32 = 200;

/// Minimum bytes not covered by the sidecar for a handle that only reads to write one.
const READER_BYTES_MIN: u64 = 4 << 20;

impl Drop for Inner {
    fn drop(&mut self) {
        if self.process.is_another() {
            // After a fork, the threads, the locks and the pending writes belong to the parent.
            return;
        }
        // Release the lock first: the rest takes long, and other processes need not wait for it.
        self.writer.lock().release_lease();
        drop(self.lock_releaser.take());
        self.sync.close();
        let is_cached = self.may_cache();
        let state = self.state.get_mut();
        let (storage, store_id) = (&*self.storage, self.store_id);
        if is_cached {
            let worth = if self.is_read_only {
                self.sidecar_bytes_min.max(READER_BYTES_MIN)
            } else {
                self.sidecar_bytes_min
            };
            sidecar::save(storage, store_id, state, worth);
        }
    }
}
