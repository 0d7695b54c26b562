//! The key for hashing user ids: 32 random bytes in a separate file, outside the store. A reader of
//! the store alone cannot recover ids by trying names.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::error::{Error, ErrorKind, Result};
use crate::record::hex;

/// Environment variable with the path of the key file. Overrides the default path.
const PATH_VARIABLE: &str = "DECKLOG_USER_ID_KEY";
const KEY_BYTES: usize = 32;

type Key = [u8; KEY_BYTES];

/// Retries and delay while another process is writing the file.
const WAITS: u32 = 100;
const WAIT: Duration = Duration::from_millis(10);

/// The text whose HMAC is the fingerprint of a key.
const FINGERPRINT_OF: &str = "decklog user-id key";
const FINGERPRINT_DIGITS: usize = 16;

/// Status of the user-id key; from [`Store::user_id_key`](crate::Store::user_id_key).
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct UserIdKey {
    /// Path of the key file.
    pub path: PathBuf,
    /// Fingerprint of the key in that file; `None` if the file does not exist.
    pub found: Option<String>,
    /// Fingerprint of the key with which the store's user ids are hashed; `None` if no id was
    /// hashed yet.
    pub expected: Option<String>,
}

/// The key, loaded on first use. Clones share the loaded key.
#[derive(Clone, Default)]
pub(crate) struct UserKey {
    path: Option<PathBuf>,
    /// Fingerprint that the key must have.
    expected: Option<String>,
    /// The key loaded last, and its fingerprint.
    read: Arc<Mutex<Option<(Key, String)>>>,
}

impl std::fmt::Debug for UserKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let path = &self.path;
        f.debug_struct("UserKey")
            .field("path", path)
            .finish_non_exhaustive()
    }
}

impl UserKey {
    /// The key in this file, or in the file at the default path.
    pub(crate) fn at(path: Option<PathBuf>) -> UserKey {
        UserKey {
            path,
            ..UserKey::default()
        }
    }

    /// The same key file, but only a key with this fingerprint is accepted. `None` accepts any key.
    pub(crate) fn expecting(&self, expected: Option<String>) -> UserKey {
        UserKey {
            expected,
            ..self.clone()
        }
    }

    /// The fingerprint of the key and the HMAC-SHA-256 of a text, in lower-case hex digits.
    ///
    /// # Errors
    /// There is no key or its fingerprint differs from the expected one; the file cannot be read,
    /// is not a key file, or is readable by other users.
    pub(super) fn hmac(&self, text: &str) -> Result<(String, String)> {
        let (key, fingerprint) = self.get()?;
        Ok((fingerprint, hex(&hmac(&key, text)?)))
    }

    /// Fails if there is no key or its fingerprint differs from the expected one.
    pub(crate) fn check(&self) -> Result<()> {
        self.get().map(drop)
    }

    /// Creates a key unless one exists.
    pub(super) fn make(&self) -> Result<()> {
        let path = self.path()?;
        make(&path).map_err(|e| Error::io("make the key of user ids", &path, e))
    }

    pub(super) fn describe(&self) -> Result<UserIdKey> {
        let path = self.path()?;
        let key = read_if_there(&path)?;
        Ok(UserIdKey {
            path,
            found: key.map(|key| fingerprint(&key)).transpose()?,
            expected: self.expected.clone(),
        })
    }

    fn path(&self) -> Result<PathBuf> {
        self.path.clone().map_or_else(usual_path, Ok)
    }

    /// The key and its fingerprint.
    fn get(&self) -> Result<(Key, String)> {
        let is_fit = |found: &str| self.expected.as_ref().is_none_or(|it| it == found);
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((key, found)) = &*read
            && is_fit(found)
        {
            return Ok((*key, found.clone()));
        }
        let key = read_if_there(&self.path()?)?;
        let key = key.ok_or_else(|| self.unusable("there is no such file"))?;
        let found = fingerprint(&key)?;
        if !is_fit(&found) {
            let found = format!("the key in this file has the fingerprint {found}");
            return Err(self.unusable(&found));
        }
        *read = Some((key, found.clone()));
        Ok((key, found))
    }

    /// Error for a missing or wrong key, with instructions.
    fn unusable(&self, found: &str) -> Error {
        let path = match self.path() {
            Ok(path) => path,
            Err(e) => return e,
        };
        let expected = match &self.expected {
            Some(expected) => format!("the key with the fingerprint {expected}"),
            None => "a key whose fingerprint is not recorded".to_owned(),
        };
        let message = format!(
            "the key of user ids is needed, and {found}: user ids in the store are hashed under {expected}. Restore that key from a copy, or set {PATH_VARIABLE} to its path. If it is lost, 'decklog config user-id-key --replace' explains how to go on with a new key"
        );
        Error::new(ErrorKind::UserIdKey, message).with_path(&path)
    }
}

fn hmac(key: &Key, text: &str) -> Result<[u8; KEY_BYTES]> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key)
        .map_err(|e| Error::invalid(format!("the user-id key: {e}")))?;
    mac.update(text.as_bytes());
    Ok(mac.finalize().into_bytes().into())
}

/// Identifies a key without revealing anything else about it.
fn fingerprint(key: &Key) -> Result<String> {
    let mut digits = hex(&hmac(key, FINGERPRINT_OF)?);
    digits.truncate(FINGERPRINT_DIGITS);
    Ok(digits)
}

/// Whether a text has the format of a key fingerprint.
pub(crate) fn is_key_fingerprint(text: &str) -> bool {
    super::is_hex(text, FINGERPRINT_DIGITS)
}

/// The path from the environment, else the default in the user's configuration directory.
fn usual_path() -> Result<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    if let Some(path) = variable(PATH_VARIABLE) {
        return Ok(path.into());
    }
    let absolute = |name| {
        variable(name)
            .map(PathBuf::from)
            .filter(|it| it.is_absolute())
    };
    let directory = if cfg!(windows) {
        absolute("APPDATA")
    } else {
        absolute("XDG_CONFIG_HOME").or_else(|| Some(absolute("HOME")?.join(".config")))
    };
    let Some(directory) = directory else {
        return Err(Error::invalid(format!(
            "there is no home directory for the key of user ids: set {PATH_VARIABLE} to a path"
        )));
    };
    Ok(directory.join("decklog").join("user_id.key"))
}

/// The key in a file; `None` if the file does not exist.
fn read_if_there(path: &Path) -> Result<Option<Key>> {
    match read(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        read => read
            .map(Some)
            .map_err(|e| Error::io("read the key of user ids", path, e)),
    }
}

fn read(path: &Path) -> io::Result<Key> {
    let mut waits = 0;
    loop {
        let mut text = String::new();
        let file = File::open(path)?;
        check_access(&file)?;
        file.take(1024).read_to_string(&mut text)?;
        if let Some(key) = parsed(text.trim_ascii_end()) {
            return Ok(key);
        }
        if text.len() >= 2 * KEY_BYTES || waits == WAITS {
            return Err(invalid(
                "it is not a key: 64 hex digits are expected. Put the right file there; ids that were hashed with another key are not found with a new one",
            ));
        }
        waits += 1;
        thread::sleep(WAIT);
    }
}

fn invalid(message: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message)
}

/// A key that other users can read is not secret.
#[cfg(unix)]
fn check_access(file: &File) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let meta = file.metadata()?;
    if !meta.is_file() {
        return Err(invalid("it is not a regular file"));
    }
    let mode = meta.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        let message = format!("others may read or change it (mode {mode:04o}): chmod 600 it");
        return Err(invalid(&message));
    }
    Ok(())
}

#[cfg(not(unix))]
fn check_access(_: &File) -> io::Result<()> {
    Ok(())
}

fn parsed(text: &str) -> Option<Key> {
    let digits = text.as_bytes();
    if digits.len() != 2 * KEY_BYTES {
        return None;
    }
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let mut key = [0; KEY_BYTES];
    for (byte, pair) in key.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = (digit(pair[0])? << 4 | digit(pair[1])?) as u8;
    }
    Some(key)
}

/// Creates a key unless one exists by now. The file gets its name only when it is complete.
fn make(path: &Path) -> io::Result<()> {
    let parent = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    directory().create(parent)?;
    let text = hex(&random()) + "\n";
    let temporary = parent.join(format!("user_id.key.{}.tmp", Uuid::new_v4()));
    let linked = write_new(&temporary, &text).and_then(|()| fs::hard_link(&temporary, path));
    let _ = fs::remove_file(&temporary);
    let is_there = |e: &io::Error| e.kind() == io::ErrorKind::AlreadyExists;
    // Not every file system supports hard links. A concurrent reader waits for the rest of the
    // file.
    let made = linked.or_else(|e| {
        if is_there(&e) {
            Err(e)
        } else {
            write_new(path, &text)
        }
    });
    match made {
        Err(e) if is_there(&e) => return Ok(()),
        made => made?,
    }
    #[cfg(unix)]
    File::open(parent)?.sync_all()?;
    Ok(())
}

/// 32 bytes from the system's random source. Each UUID contributes 122 random bits.
fn random() -> [u8; KEY_BYTES] {
    let mut hash = Sha256::new();
    for _ in 0..4 {
        hash.update(Uuid::new_v4().as_bytes());
    }
    hash.finalize().into()
}

fn write_new(path: &Path, text: &str) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

fn directory() -> fs::DirBuilder {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder
}
