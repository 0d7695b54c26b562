//! Options to open a store with.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::error::Result;
use crate::line::LINE_BYTES_MAX;
use crate::storage::{Disk, Storage};
use crate::store::{Settings, Store, UpkeepTask};

/// Default of [`Options::sidecar_bytes_min`]. To read this much takes about 1 ms.
pub(super) const SIDECAR_BYTES_MIN: u64 = 128 << 10;

/// When a record is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
pub enum Durability {
    /// When the operating system has it. It survives a kill of the process, and is synced to disk
    /// within [`Options::flush_interval`].
    #[default]
    #[cfg_attr(
        feature = "cli",
        value(help = "When the operating system has it: it survives a kill of the process")
    )]
    Process,
    /// When `fdatasync` has returned. It survives a power cut. Concurrent callers share one sync.
    #[cfg_attr(
        feature = "cli",
        value(help = "When it is on disk: it survives a power cut")
    )]
    Disk,
}

/// Options to open a store with; from [`Store::options`].
///
/// ```
/// use decklog::{Durability, Store};
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("log");
/// let store = Store::options().durability(Durability::Disk).open(&path)?;
/// # Ok::<(), decklog::Error>(())
/// ```
#[derive(Debug, Clone)]
#[allow(clippy::struct_excessive_bools)] // Each one is an independent option.
pub struct Options {
    pub(super) storage: Option<Arc<dyn Storage>>,
    pub(super) durability: Durability,
    pub(super) read_only: bool,
    pub(super) create: bool,
    pub(super) lock_timeout: Duration,
    pub(super) flush_interval: Duration,
    pub(super) segment_bytes_max: u64,
    pub(super) line_bytes_max: usize,
    pub(super) sidecar_bytes_min: u64,
    pub(super) allow_network_fs: bool,
    pub(super) upkeep: bool,
    pub(super) upkeep_task: UpkeepTask,
    pub(super) settings: Settings,
    pub(super) user_id_key: Option<PathBuf>,
}

impl Options {
    /// Options of a store whose upkeep thread runs this task. `Options::default`, in `retention`,
    /// provides the task, since the store does not depend on it.
    pub(crate) fn new(upkeep_task: UpkeepTask) -> Options {
        Options {
            storage: None,
            durability: Durability::Process,
            read_only: false,
            create: true,
            lock_timeout: Duration::from_secs(10),
            flush_interval: Duration::from_secs(1),
            segment_bytes_max: 64 << 20,
            line_bytes_max: LINE_BYTES_MAX,
            sidecar_bytes_min: SIDECAR_BYTES_MIN,
            allow_network_fs: false,
            upkeep: true,
            upkeep_task,
            settings: Settings::default(),
            user_id_key: None,
        }
    }

    /// When a record is acknowledged. Default: [`Durability::Process`].
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Options {
        self.durability = durability;
        self
    }

    /// Opens without a lock and without writing any record, so that a directory without write
    /// permission will do. If it had to read much, and may write in `cache/`, it leaves an index
    /// sidecar when it closes. Default: false.
    #[must_use]
    pub fn read_only(mut self, read_only: bool) -> Options {
        self.read_only = read_only;
        self
    }

    /// Creates the store if it does not exist. Default: true.
    #[must_use]
    pub fn create(mut self, create: bool) -> Options {
        self.create = create;
        self
    }

    /// Maximum time to wait for another process's write lock. Then the call fails with
    /// [`Locked`](crate::ErrorKind::Locked). Threads of one process queue before that, without a
    /// limit. Default: 10 s.
    #[must_use]
    pub fn lock_timeout(mut self, timeout: Duration) -> Options {
        self.lock_timeout = timeout;
        self
    }

    /// Maximum time between a record acknowledged at [`Durability::Process`] and its fsync.
    /// Default: 1 s.
    #[must_use]
    pub fn flush_interval(mut self, interval: Duration) -> Options {
        self.flush_interval = interval;
        self
    }

    /// Size in bytes at which a segment is full and the next one begins, from 1 byte to 2 GiB.
    /// Default: 64 MiB.
    #[must_use]
    pub fn segment_bytes_max(mut self, bytes: u64) -> Options {
        self.segment_bytes_max = bytes.clamp(1, 2 << 30);
        self
    }

    /// Maximum length of a line to write, in bytes, from 1 KiB to 16 MiB. Longer lines are refused.
    /// Lines of up to 16 MiB are always read, as other processes may write them. Default: 16 MiB.
    #[must_use]
    pub fn line_bytes_max(mut self, bytes: usize) -> Options {
        self.line_bytes_max = bytes.clamp(1 << 10, LINE_BYTES_MAX);
        self
    }

    /// Minimum bytes of lines not covered by the index sidecar for a closing handle to save them,
    /// which spares the next open from reading them. A handle that writes and runs the upkeep also
    /// does so each time it has written 256 times as many. The sums of reports are saved for about
    /// eight times as many bytes of messages. `u64::MAX` writes neither. Default: 128 KiB.
    #[must_use]
    pub fn sidecar_bytes_min(mut self, bytes: u64) -> Options {
        self.sidecar_bytes_min = bytes;
        self
    }

    /// Allows writes to a store on a network file system. Locks and shared memory do not work
    /// across machines there, so only one machine may write the store. Reads are always allowed.
    /// Network file systems are detected on Linux: NFS, SMB, 9p, virtiofs, Ceph, and FUSE file
    /// systems known to be remote. Default: false.
    #[must_use]
    pub fn allow_network_fs(mut self, allow: bool) -> Options {
        self.allow_network_fs = allow;
        self
    }

    /// Settings of a store that this open creates. An existing store keeps its own; see
    /// [`Store::change_settings`]. Default: those of [`Settings`].
    ///
    /// ```
    /// # use decklog::{Settings, Store};
    /// # let dir = tempfile::tempdir().unwrap();
    /// let mut settings = Settings::default();
    /// settings.privacy.redact_pii = true;
    /// let store = Store::options().settings(settings).open(dir.path().join("log"))?;
    /// assert!(store.settings()?.privacy.redact_pii);
    /// # Ok::<(), decklog::Error>(())
    /// ```
    #[must_use]
    pub fn settings(mut self, settings: Settings) -> Options {
        self.settings = settings;
        self
    }

    /// The file with the key for hashing user ids. It is created when first needed. It is required
    /// to find conversations by user, and it reveals whose they are: keep it out of the store and
    /// of its backups. Default: one for all stores of the operating system's user, in their
    /// configuration directory.
    #[must_use]
    pub fn user_id_key(mut self, path: impl Into<PathBuf>) -> Options {
        self.user_id_key = Some(path.into());
        self
    }

    /// Whether a handle that writes runs the daily upkeep in a thread: it seals full segments and
    /// those of past days, and removes expired records if
    /// [`PrivacySettings::auto_delete`](crate::privacy::PrivacySettings::auto_delete) is set. Only
    /// one of all handles does so at a time. Default: true.
    #[must_use]
    pub fn upkeep(mut self, upkeep: bool) -> Options {
        self.upkeep = upkeep;
        self
    }

    /// Storage to use in place of the directory that [`open`](Options::open) names, for tests.
    #[must_use]
    pub fn storage(mut self, storage: Arc<dyn Storage>) -> Options {
        self.storage = Some(storage);
        self
    }

    /// Opens the store in this directory.
    ///
    /// # Errors
    /// [`NotAStore`](crate::ErrorKind::NotAStore) if the path is a file, or a directory with other
    /// contents; [`NewerFormat`](crate::ErrorKind::NewerFormat);
    /// [`Damaged`](crate::ErrorKind::Damaged) if the manifest is invalid, unless the store is
    /// opened read-only; [`InvalidInput`](crate::ErrorKind::InvalidInput) for invalid settings;
    /// [`NetworkFileSystem`](crate::ErrorKind::NetworkFileSystem);
    /// [`Locked`](crate::ErrorKind::Locked) while another process creates the store;
    /// [`Io`](crate::ErrorKind::Io). Damage in the log itself is no error: see [`Store::damage`].
    /// If a part of the log cannot be read, the store opens, but writes fail.
    pub fn open(self, path: impl AsRef<Path>) -> Result<Store> {
        let storage: Arc<dyn Storage> = match &self.storage {
            Some(storage) => Arc::clone(storage),
            None => Arc::new(Disk::new(path.as_ref())),
        };
        Store::open_with(storage, &self)
    }
}
