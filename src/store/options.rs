//! Options to open a store with.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::error::Result;
use crate::line::LINE_BYTES_MAX;
use crate::storage::{Disk, Storage};
use crate::store::{Settings, Store, UpkeepTask};

/// When a record is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// Once the operating system has it: it survives a kill of the process. It reaches the disk
    /// within a second.
    #[default]
    Process,
    /// Once `fdatasync` returned: it survives a power cut. Concurrent callers share one.
    Disk,
}

/// How to open a store; from [`Store::options`].
///
/// ```
/// use decklog::{Durability, Store};
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("log");
/// let store = Store::options().durability(Durability::Disk).open(&path)?;
/// # Ok::<(), decklog::Error>(())
/// ```
#[derive(Debug, Clone)]
#[allow(clippy::struct_excessive_bools)] // Each is an option of its own.
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
    /// Options of a store whose upkeep thread runs this task. The store does not know what its
    /// upkeep consists of: `Options::default`, in `retention`, hands that in.
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
            sidecar_bytes_min: 8 << 20,
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

    /// Opens without a lock and without writing anything, so that a directory without write
    /// permission will do. Default: false.
    #[must_use]
    pub fn read_only(mut self, read_only: bool) -> Options {
        self.read_only = read_only;
        self
    }

    /// Makes the store if there is none. Default: true.
    #[must_use]
    pub fn create(mut self, create: bool) -> Options {
        self.create = create;
        self
    }

    /// How long to wait for another process's write lock before giving up with
    /// [`Locked`](crate::ErrorKind::Locked). Threads of one process stand in line before that,
    /// without a limit of their own. Default: 10 s.
    #[must_use]
    pub fn lock_timeout(mut self, timeout: Duration) -> Options {
        self.lock_timeout = timeout;
        self
    }

    /// How long a record acknowledged at [`Durability::Process`] may wait for its fsync.
    /// Default: 1 s.
    #[must_use]
    pub fn flush_interval(mut self, interval: Duration) -> Options {
        self.flush_interval = interval;
        self
    }

    /// The length in bytes at which a segment is full and the next one begins, from 1 byte to
    /// 2 GiB. Default: 64 MiB.
    #[must_use]
    pub fn segment_bytes_max(mut self, bytes: u64) -> Options {
        self.segment_bytes_max = bytes.clamp(1, 2 << 30);
        self
    }

    /// The longest line to write, in bytes, from 1 KiB to 16 MiB. Longer ones are refused. Lines
    /// of up to 16 MiB are read whatever this says, as other processes may write them.
    /// Default: 16 MiB.
    #[must_use]
    pub fn line_bytes_max(mut self, bytes: usize) -> Options {
        self.line_bytes_max = bytes.clamp(1 << 10, LINE_BYTES_MAX);
        self
    }

    /// How many bytes of lines the index's sidecar must leave uncovered for a handle that is
    /// closed to write a new one, which the next open need not read then; also at least an eighth
    /// of all. `u64::MAX` for never. Default: 8 MiB.
    #[must_use]
    pub fn sidecar_bytes_min(mut self, bytes: u64) -> Options {
        self.sidecar_bytes_min = bytes;
        self
    }

    /// Writes also to a store on a network file system. Across machines neither the lock nor what
    /// processes share as memory can be relied on there: allow it only if no more than one
    /// machine writes the store. Reading needs no leave. Which file systems are such is known on
    /// Linux: NFS, SMB, 9p, virtiofs, Ceph and their like, and the FUSE ones known to be remote.
    /// Default: false.
    #[must_use]
    pub fn allow_network_fs(mut self, allow: bool) -> Options {
        self.allow_network_fs = allow;
        self
    }

    /// What a store that is made by this open has in its manifest. A store that is there keeps
    /// its own: see [`Store::change_settings`]. Default: what [`Settings`] has.
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

    /// The file with the key by which users' ids are hashed; made when it is first needed. Who
    /// has it finds conversations by their users, and who has it can tell whose they are: keep it
    /// out of the store, and of its backups. Default: one for all stores of this user of the
    /// system, in their configuration directory.
    #[must_use]
    pub fn user_id_key(mut self, path: impl Into<PathBuf>) -> Options {
        self.user_id_key = Some(path.into());
        self
    }

    /// Whether this handle, if it writes, sees to the store once a day, from a thread of its own: it
    /// seals what is full or of a day that is over, and removes what is past its time, if the
    /// settings say so ([`PrivacySettings::auto_delete`](crate::PrivacySettings::auto_delete)).
    /// Of all the handles that could, one does it. Default: true.
    #[must_use]
    pub fn upkeep(mut self, upkeep: bool) -> Options {
        self.upkeep = upkeep;
        self
    }

    /// Where the files are, instead of in the directory that [`open`](Options::open) names: for
    /// tests.
    #[must_use]
    pub fn storage(mut self, storage: Arc<dyn Storage>) -> Options {
        self.storage = Some(storage);
        self
    }

    /// Opens the store in this directory.
    ///
    /// # Errors
    /// [`NotAStore`](crate::ErrorKind::NotAStore) if the path is a file, or a directory that
    /// holds other things; [`NewerFormat`](crate::ErrorKind::NewerFormat);
    /// [`Damaged`](crate::ErrorKind::Damaged) if the manifest does not read as one, unless the store
    /// is opened read-only; [`InvalidInput`](crate::ErrorKind::InvalidInput) for settings that
    /// no store can obey; [`NetworkFileSystem`](crate::ErrorKind::NetworkFileSystem);
    /// [`Locked`](crate::ErrorKind::Locked) while another process makes the store;
    /// [`Io`](crate::ErrorKind::Io). Damage in the log itself is no error: see
    /// [`Store::damage`]. Where some of it cannot be read at all, only writing is refused.
    pub fn open(self, path: impl AsRef<Path>) -> Result<Store> {
        let storage: Arc<dyn Storage> = match &self.storage {
            Some(storage) => Arc::clone(storage),
            None => Arc::new(Disk::new(path.as_ref())),
        };
        Store::open_with(storage, &self)
    }
}
