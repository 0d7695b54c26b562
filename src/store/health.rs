//! The health of a store, for readiness probes and `doctor`.

use std::collections::HashMap;
use std::io;

use serde::Serialize;
use uuid::Uuid;

use crate::error::Result;
use crate::record::{Day, Kind};
use crate::segment::{DamageClass, DamageCounts, SegmentName};
use crate::storage::{Access, Volume, append_all, io_error, remove_if_there};
use crate::store::Keep;
use crate::store::commit::lock;
use crate::store::maintain::removals::{self, Removed};
use crate::store::{Inner, SealLog, Settings, Store};

pub(super) const QUARANTINE: &str = "quarantine";
const CACHE: &str = "cache";
const DAY_MS: i64 = 86_400_000;
/// Written to test whether the store is writable, and removed at once.
const PROBE: &str = "cache/probe";
const PROBE_BYTES: usize = 64 << 10;

/// The holder of a store's write lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum LockState {
    /// No process holds it.
    Free,
    /// A process holds it. A process that writes a lot keeps it for a moment after each record.
    Held {
        /// Process id in its own namespace; `None` until it has noted it.
        process: Option<u32>,
    },
    /// No process holds it, but the last holder died or failed to write. The next writer rescans
    /// every segment and continues.
    Abandoned {
        /// Process id in its own namespace.
        process: u32,
    },
    /// The lock file may not be opened.
    Unknown,
}

/// Disk usage of one kind of record on one day.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Usage {
    /// The day.
    pub day: Day,
    /// The kind of record.
    pub kind: Kind,
    /// Number of segment files.
    pub segments: u64,
    /// Size of the segments, in bytes.
    pub bytes: u64,
}

/// The next removal of one kind by retention; from [`Store::health`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct NextRemoval {
    /// The kind of record; `conversations` with their messages.
    pub kind: Kind,
    /// The day to be removed: for conversations the day of their last message, for other kinds the
    /// first day that has records. An entity with lines of a later day stays whole.
    pub day: Day,
    /// When it expires, in epoch milliseconds. The next daily upkeep removes it.
    pub at: i64,
    /// Number of conversations to be removed; 0 for other kinds.
    pub conversations: u64,
    /// Bytes of that day and kind; 0 for conversations.
    pub bytes: u64,
    /// The setting that applies.
    pub setting: &'static str,
}

/// The health of a store; from [`Store::health`].
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Health {
    /// The store's id.
    pub store_id: Uuid,
    /// The greatest sequence number.
    pub last_seq: u64,
    /// The failed write or fsync after which this handle acknowledges nothing more. Open the store
    /// again to recover.
    pub poisoned: Option<String>,
    /// The holder of the write lock.
    pub lock: LockState,
    /// Number of damaged places; [`Store::damage`] lists them.
    pub damage: DamageCounts,
    /// Bytes by day and kind, in order.
    pub usage: Vec<Usage>,
    /// Files in day directories that do not belong to the store. They are left alone.
    pub foreign: Vec<String>,
    /// Number of files in `quarantine/`, where [`Store::repair`] puts what it takes out.
    pub quarantine_files: u64,
    /// Size of those files, in bytes.
    pub quarantine_bytes: u64,
    /// Size of `cache/`, in bytes. It can be deleted at any time.
    pub cache_bytes: u64,
    /// Size of all `seals.jsonl`, in bytes.
    pub seals_bytes: u64,
    /// Size of `removals.jsonl`, in bytes.
    pub removals_bytes: u64,
    /// Lines removed by retention, compaction and erasure.
    pub removed: Removed,
    /// The next removals by retention, the earliest first. Empty if nothing is removed
    /// automatically.
    pub next_removals: Vec<NextRemoval>,
    /// Maximum of [`capped_bytes`](Health::capped_bytes). Beyond it, the oldest days are removed
    /// first.
    pub max_bytes: Option<u64>,
    /// The day of the last complete daily upkeep.
    pub last_upkeep: Option<Day>,
    /// The error of this handle's last daily upkeep, if it failed.
    pub upkeep_failed: Option<String>,
    /// The volume that holds the store; `None` if the system does not say.
    pub volume: Option<Volume>,
}

impl Health {
    /// Whether nothing is damaged and this handle can write.
    pub fn is_good(&self) -> bool {
        self.poisoned.is_none() && self.damage.total() == 0
    }

    /// Size of all segments, in bytes.
    pub fn bytes(&self) -> u64 {
        self.usage.iter().map(|usage| usage.bytes).sum()
    }

    /// Size of the segments that count towards `retention.max_bytes`, in bytes: all but rollups.
    pub fn capped_bytes(&self) -> u64 {
        let capped = self.usage.iter().filter(|usage| usage.kind.is_capped());
        capped.map(|usage| usage.bytes).sum()
    }
}

impl Store {
    /// Reports whether this handle can write, who holds the lock, what is damaged, and disk usage.
    /// Checks the name and length of every file and reads what is new. Bytes that were read before
    /// are not read again; for that, use [`verify()`](crate::verify()).
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let store = decklog::Store::open(dir.path().join("log"))?;
    /// let health = store.health()?;
    /// assert!(health.is_good());
    /// assert_eq!(health.lock, decklog::health::LockState::Free);
    /// # Ok::<(), decklog::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Io`](crate::ErrorKind::Io) if the store's directory cannot be listed.
    pub fn health(&self) -> Result<Health> {
        self.refresh()?;
        let inner = self.inner();
        let storage = &*inner.storage;
        let view = inner.snapshot()?;
        let mut damage = view.damage_counts();
        let mut usage: Vec<Usage> = Vec::new();
        for (_, segment) in view.state.present_in_order() {
            let SegmentName { day, kind, .. } = segment.name;
            if usage
                .last()
                .is_none_or(|last| (last.day, last.kind) != (day, kind))
            {
                usage.push(Usage {
                    day,
                    kind,
                    segments: 0,
                    bytes: 0,
                });
            }
            if let Some(usage) = usage.last_mut() {
                usage.segments += 1;
                usage.bytes += segment.expected_len();
            }
        }
        let last_seq = view.state.max_seq;
        let foreign = view.state.foreign.clone();
        // An invalid manifest is reported as damage.
        let settings = self.settings().unwrap_or_default();
        // Without a valid manifest, retention removes nothing.
        let next_removals = if inner.manifest_damage.is_none() {
            let conversations = view.state.index.conversation_totals().iter();
            let conversations = conversations.map(|sums| (sums.latest, sums.error.is_some()));
            next_removals(&settings, &usage, conversations)
        } else {
            Vec::new()
        };
        view.check()?;
        let known = view.state.present();
        let known = known.map(|segment| (segment.name, segment.expected_len()));
        let known: HashMap<SegmentName, u64> = known.collect();
        drop(view);
        for class in inner.damage_of_seals(&known)? {
            damage.add(class);
        }
        let removals = removals::read(storage);
        let removals = removals.map_err(|e| io_error(storage, "read", removals::NAME, e))?;
        let (quarantine_files, quarantine_bytes) = inner.files_in(QUARANTINE);
        let (_, cache_bytes) = inner.files_in(CACHE);
        Ok(Health {
            store_id: inner.store_id,
            last_seq,
            poisoned: inner.why_poisoned(),
            lock: lock::state(storage)?,
            damage,
            usage,
            foreign,
            quarantine_files,
            quarantine_bytes,
            cache_bytes,
            seals_bytes: inner.seals_bytes(),
            removals_bytes: inner.bytes_of(removals::NAME),
            removed: removals.removed,
            next_removals,
            max_bytes: settings.retention.max_bytes,
            last_upkeep: inner.last_upkeep(),
            upkeep_failed: inner.upkeep_schedule.failure(),
            volume: storage
                .volume()
                .map_err(|e| io_error(storage, "look at the file system of", "", e))?,
        })
    }
}

impl Store {
    /// Checks that a record could be written now: takes the write lock, reads the settings, and
    /// writes 64 KiB to a file in `cache/`, which it then removes.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("log");
    /// let store = decklog::Store::open(&path)?;
    /// assert!(store.check_writable().is_ok());
    /// # drop(store);
    /// let reader = decklog::Store::options().read_only(true).open(&path)?;
    /// assert_eq!(reader.check_writable().unwrap_err().kind(), decklog::ErrorKind::ReadOnly);
    /// # Ok::<(), decklog::Error>(())
    /// ```
    ///
    /// # Errors
    /// The reason why it could not: [`ReadOnly`](crate::ErrorKind::ReadOnly),
    /// [`Poisoned`](crate::ErrorKind::Poisoned), [`Locked`](crate::ErrorKind::Locked),
    /// [`Damaged`](crate::ErrorKind::Damaged) settings, or [`Io`](crate::ErrorKind::Io), also if
    /// the [disk is full](crate::Error::is_disk_full).
    pub fn check_writable(&self) -> Result<()> {
        let inner = self.inner();
        self.settings()?;
        inner.transact(|_| Ok(()))?;
        self.check_room()?;
        let storage = &*inner.storage;
        let cannot = |e| io_error(storage, "write", PROBE, e);
        storage.create_dir(CACHE).map_err(cannot)?;
        let file = storage.open(PROBE, Access::Append).map_err(cannot)?;
        let written = append_all(&*file, &vec![0; PROBE_BYTES]);
        // Another process may have removed it.
        let removed = remove_if_there(storage, PROBE);
        written.map_err(cannot)?;
        removed.map_err(cannot)
    }

    /// Checks that the disk is not full, if the system reports free space. Writes nothing.
    pub(crate) fn check_room(&self) -> Result<()> {
        let storage = &*self.inner().storage;
        let cannot = |e| io_error(storage, "write", "", e);
        match storage.free_bytes().map_err(cannot)? {
            Some(0) => Err(cannot(io::ErrorKind::StorageFull.into())),
            _ => Ok(()),
        }
    }
}

/// The next removal of each kind. Related records are removed together, so some of a day may stay.
fn next_removals(
    settings: &Settings,
    usage: &[Usage],
    conversations: impl Iterator<Item = (i64, bool)>,
) -> Vec<NextRemoval> {
    let Settings {
        privacy, retention, ..
    } = settings;
    if !privacy.auto_delete {
        return Vec::new();
    }
    let at = |day: Day, days: u32| day.bounds_ms().1.saturating_add(i64::from(days) * DAY_MS);
    let mut next = Vec::new();
    let by_bytes = Kind::ALL.into_iter();
    for kind in by_bytes.filter(|kind| !matches!(kind, Kind::Conversations | Kind::Messages)) {
        let first = usage.iter().find(|one| one.kind == kind);
        if let (Some(first), (Keep::Days(days), setting)) =
            (first, retention.keep_by(kind, privacy))
        {
            next.push(NextRemoval {
                kind,
                day: first.day,
                at: at(first.day, days),
                conversations: 0,
                bytes: first.bytes,
                setting,
            });
        }
    }
    // For conversations, the first day by last message, separately for those that ended in an
    // error.
    let mut first: [Option<(Day, u64)>; 2] = [None; 2];
    for (latest, is_error) in conversations {
        let Ok(day) = Day::of(latest) else { continue };
        let first = &mut first[usize::from(is_error)];
        *first = match *first {
            Some((known, count)) if known == day => Some((day, count + 1)),
            Some((known, _)) if known < day => *first,
            _ => Some((day, 1)),
        };
    }
    let keeps = [
        retention.keep_by(Kind::Messages, privacy),
        (retention.keep_errors(privacy), "retention.errors"),
    ];
    for (first, (keep, setting)) in first.into_iter().zip(keeps) {
        if let (Some((day, conversations)), Keep::Days(days)) = (first, keep) {
            next.push(NextRemoval {
                kind: Kind::Conversations,
                day,
                at: at(day, days),
                conversations,
                bytes: 0,
                setting,
            });
        }
    }
    next.sort_by_key(|next| next.at);
    next
}

impl Inner {
    pub(super) fn why_poisoned(&self) -> Option<String> {
        // Not if the writer is in use.
        let by_write = self
            .writer
            .try_lock()
            .and_then(|writer| writer.failure().cloned());
        let failure = by_write.or_else(|| self.sync.failure());
        failure.map(|e| e.to_string())
    }

    /// Damage known from the seals: segments that are missing or have another length than when
    /// sealed, and damage in the seal log itself.
    fn damage_of_seals(&self, known: &HashMap<SegmentName, u64>) -> Result<Vec<DamageClass>> {
        let storage = &*self.storage;
        let mut log = self.seals();
        log.refresh_whole(storage)?;
        let missing = log.missing(storage, |name| known.contains_key(&name)).len();
        let missing = std::iter::repeat_n(DamageClass::Missing, missing);
        let changed = known
            .iter()
            .filter(|(name, len)| log.is_of_other_length(**name, **len));
        let changed = changed.map(|_| DamageClass::Changed);
        let of_log = log.damage().into_iter().map(|damage| damage.class);
        Ok(missing.chain(changed).chain(of_log).collect())
    }

    /// Number and total size of the files in a directory.
    fn files_in(&self, dir: &str) -> (u64, u64) {
        let entries = self.storage.read_dir(dir).unwrap_or_default();
        let counted = entries.iter().map(|entry| {
            let path = format!("{dir}/{}", entry.name);
            if entry.is_dir {
                self.files_in(&path)
            } else if entry.is_file {
                (1, self.bytes_of(&path))
            } else {
                (0, 0)
            }
        });
        counted.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    }

    fn bytes_of(&self, path: &str) -> u64 {
        self.storage.stat(path).map_or(0, |stat| stat.len)
    }

    fn seals_bytes(&self) -> u64 {
        let entries = self.storage.read_dir("").unwrap_or_default();
        let days = entries.iter().filter_map(|entry| entry.name.parse().ok());
        let seals = days.map(|day: Day| self.bytes_of(&format!("{day}/{}", SealLog::FILE)));
        seals.sum()
    }
}
