//! The crate's error: opaque, with a [`kind`](Error::kind) to match on, and context: path, offset,
//! key.

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Maximum length of a key: a kind, an id and a name of 1,024 bytes.
const KEY_BYTES_MAX: usize = 1_024 + 128;
/// Maximum length of a longer key in an error.
const KEY_SHOWN_CHARS: usize = 80;

/// The kind of an error, for callers that branch on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The operating system refused an operation; the source holds its error.
    Io,
    /// The caller's record or argument is invalid; nothing was written.
    InvalidInput,
    /// The record that this one belongs to is not in the log or was retracted, such as the request
    /// of an outcome or the conversation of a message; nothing was written.
    NotFound,
    /// The step is not possible in the record's present state, such as applying a proposal that was
    /// denied; nothing was written.
    Lifecycle,
    /// The log already has another fact for this key; the first is kept, nothing was written.
    Conflict,
    /// Another process held the store's write lock for longer than the timeout.
    Locked,
    /// An earlier write or fsync of this handle failed; reopen the store to recover.
    Poisoned,
    /// Bytes in the store were changed or damaged.
    Damaged,
    /// The store was written by a newer version in a format this one does not know.
    NewerFormat,
    /// The path is not a store and cannot become one.
    NotAStore,
    /// The store was opened read-only.
    ReadOnly,
    /// The store is on a network file system, where locks and shared memory are not reliable.
    NetworkFileSystem,
    /// The key of the store's user ids is missing, or another key was found; nothing was written.
    UserIdKey,
    /// The queue of a [`Capture`](crate::Capture) is full; the record was not queued.
    QueueFull,
    /// The object store or the database that a log is copied to cannot be reached, or refused an
    /// operation. What is there already stays; the next attempt continues.
    Remote,
}

impl ErrorKind {
    /// Whether a rule of the log rejected the record, rather than a failure of the store.
    pub(crate) fn is_judgement(self) -> bool {
        matches!(
            self,
            ErrorKind::Conflict
                | ErrorKind::Lifecycle
                | ErrorKind::NotFound
                | ErrorKind::InvalidInput
        )
    }

    /// The kind as a short stable word.
    pub fn as_str(self) -> &'static str {
        match self {
            ErrorKind::Io => "io",
            ErrorKind::InvalidInput => "invalid_input",
            ErrorKind::NotFound => "not_found",
            ErrorKind::Lifecycle => "lifecycle",
            ErrorKind::Conflict => "conflict",
            ErrorKind::Locked => "locked",
            ErrorKind::Poisoned => "poisoned",
            ErrorKind::Damaged => "damaged",
            ErrorKind::NewerFormat => "newer_format",
            ErrorKind::NotAStore => "not_a_store",
            ErrorKind::ReadOnly => "read_only",
            ErrorKind::NetworkFileSystem => "network_file_system",
            ErrorKind::UserIdKey => "user_id_key",
            ErrorKind::QueueFull => "queue_full",
            ErrorKind::Remote => "remote",
        }
    }
}

/// An error of this crate.
///
/// ```
/// use decklog::{ErrorKind, Store};
/// let err = Store::options().create(false).open("/nonexistent/decklog").unwrap_err();
/// assert_eq!(err.kind(), ErrorKind::NotAStore);
/// assert!(err.to_string().contains("/nonexistent/decklog"));
/// ```
#[derive(Clone)]
pub struct Error(Box<Inner>);

#[derive(Debug, Clone)]
struct Inner {
    kind: ErrorKind,
    message: Cow<'static, str>,
    path: Option<PathBuf>,
    offset: Option<u64>,
    key: Option<String>,
    field: Option<String>,
    /// Shared by all callers that wait for one failed fsync.
    source: Option<Arc<io::Error>>,
}

/// Alias of [`Error`] for the [`ObservabilityStore`](crate::ObservabilityStore) trait.
pub type DbError = Error;

/// A result with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<Cow<'static, str>>) -> Self {
        Error(Box::new(Inner {
            kind,
            message: message.into(),
            path: None,
            offset: None,
            key: None,
            field: None,
            source: None,
        }))
    }

    pub(crate) fn invalid(message: impl Into<Cow<'static, str>>) -> Self {
        Error::new(ErrorKind::InvalidInput, message)
    }

    pub(crate) fn io(doing: &str, path: &Path, source: io::Error) -> Self {
        let advice = if is_full(&source) {
            " (make room, then try again)"
        } else {
            ""
        };
        let message = format!("cannot {doing}{advice}");
        let mut err = Error::new(ErrorKind::Io, message).with_path(path);
        err.0.source = Some(Arc::new(source));
        err
    }

    /// The error of a handle whose earlier write or fsync failed.
    pub(crate) fn poisoned(mut first: Error) -> Self {
        let source = first.0.source.take();
        let message = format!(
            "an earlier write of this handle failed, so it refuses further writes: open the store again to recover; the failure was: {first}"
        );
        let mut err = Error::new(ErrorKind::Poisoned, message);
        err.0.source = source;
        err
    }

    pub(crate) fn with_path(mut self, path: &Path) -> Self {
        self.0.path.get_or_insert_with(|| path.to_path_buf());
        self
    }

    pub(crate) fn with_offset(mut self, offset: u64) -> Self {
        self.0.offset.get_or_insert(offset);
        self
    }

    pub(crate) fn with_key(mut self, key: impl Into<String>) -> Self {
        self.0.key.get_or_insert_with(|| {
            let mut key: String = key.into();
            // A key that a record can have is shown in full; longer ones are cut.
            if key.len() > KEY_BYTES_MAX {
                key = key.chars().take(KEY_SHOWN_CHARS).chain(['…']).collect();
            }
            key
        });
        self
    }

    pub(crate) fn with_field(mut self, field: &str) -> Self {
        self.0.field.get_or_insert_with(|| field.to_owned());
        self
    }

    /// Whether the file itself cannot be read.
    pub(crate) fn is_of_what_is_read(&self) -> bool {
        self.0.source.as_deref().is_some_and(is_of_what_is_read)
    }

    /// Whether the disk, or the user's quota on it, is full.
    ///
    /// The kind is [`Io`](ErrorKind::Io), or [`Poisoned`](ErrorKind::Poisoned) after an earlier
    /// write failed for this reason.
    pub fn is_disk_full(&self) -> bool {
        self.0.source.as_deref().is_some_and(is_full)
    }

    /// The message, without the path.
    pub fn reason(&self) -> String {
        let Inner {
            message, source, ..
        } = &*self.0;
        match source {
            Some(source) => format!("{message}: {source}"),
            None => message.clone().into_owned(),
        }
    }

    /// The kind, to branch on.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The file or directory concerned.
    pub fn path(&self) -> Option<&Path> {
        self.0.path.as_deref()
    }

    /// The byte offset in [`path`](Error::path).
    pub fn offset(&self) -> Option<u64> {
        self.0.offset
    }

    /// The key of the record concerned, as text.
    pub fn key(&self) -> Option<&str> {
        self.0.key.as_deref()
    }

    /// The invalid field of a record, if any.
    pub fn field(&self) -> Option<&str> {
        self.0.field.as_deref()
    }
}

fn is_full(e: &io::Error) -> bool {
    matches!(
        e.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}

/// Whether an error comes from the file, rather than the machine or the process.
pub(crate) fn is_of_what_is_read(e: &io::Error) -> bool {
    // `EIO` and `EUCLEAN`: a bad sector, and a damaged file system.
    let is_broken = cfg!(unix) && matches!(e.raw_os_error(), Some(5 | 117));
    is_broken || e.kind() == io::ErrorKind::PermissionDenied
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = &self.0;
        f.write_str(&inner.message)?;
        if let Some(key) = &inner.key {
            write!(f, " [{key}]")?;
        }
        if let Some(path) = &inner.path {
            write!(f, ": {}", path.display())?;
            if let Some(offset) = inner.offset {
                write!(f, " at byte {offset}")?;
            }
        }
        if let Some(source) = &inner.source {
            write!(f, ": {source}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Error({}: {self})", self.0.kind.as_str())
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|e| e as _)
    }
}
