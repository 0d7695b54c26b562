//! The key under which user ids are hashed: 32 random bytes in a file of their own, outside the
//! store, so that who has the store alone cannot try names until one fits.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::record::hex;

/// Where the key is, if it is not at its usual place.
const PATH_VARIABLE: &str = "DECKLOG_USER_ID_KEY";
const KEY_BYTES: usize = 32;

type Key = [u8; KEY_BYTES];

/// How long a file that another process is writing is waited for.
const WAITS: u32 = 100;
const WAIT: Duration = Duration::from_millis(10);

/// The key, read when it is first needed.
#[derive(Default)]
pub(super) struct UserKey {
    path: Option<PathBuf>,
    key: OnceLock<Key>,
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
    /// The key in this file, or in the one at the usual place.
    pub(super) fn at(path: Option<PathBuf>) -> UserKey {
        UserKey {
            path,
            key: OnceLock::new(),
        }
    }

    /// The HMAC-SHA-256 of a text, as lower-case hex digits. The key is made if there is none.
    ///
    /// # Errors
    /// The key's file cannot be read or made, is no key, or others may read it.
    pub(super) fn hmac(&self, text: &str) -> Result<String> {
        self.hmac_under(read_or_make, text)
    }

    /// The same, but no key is made.
    ///
    /// # Errors
    /// The key's file is not there, cannot be read, is no key, or others may read it.
    pub(super) fn hmac_if_there(&self, text: &str) -> Result<String> {
        self.hmac_under(read_there, text)
    }

    fn hmac_under(&self, get: fn(&Path) -> Result<Key>, text: &str) -> Result<String> {
        let key = if let Some(key) = self.key.get() {
            *key
        } else {
            let path = self.path.clone().map_or_else(usual_path, Ok)?;
            let key = get(&path)?;
            *self.key.get_or_init(|| key)
        };
        let mut mac = Hmac::<Sha256>::new_from_slice(&key)
            .map_err(|e| Error::invalid(format!("the user-id key: {e}")))?;
        mac.update(text.as_bytes());
        Ok(hex(&mac.finalize().into_bytes()))
    }
}

/// The path that the environment gives, else one under the user's configuration.
fn usual_path() -> Result<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    if let Some(path) = variable(PATH_VARIABLE) {
        return Ok(path.into());
    }
    let absolute = |name: &str| {
        variable(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
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

fn read_or_make(path: &Path) -> Result<Key> {
    match read(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            make(path).map_err(|e| Error::io("make the key of user ids", path, e))?;
            // Of two who make one, the first one's stands.
            read(path)
        }
        read => read,
    }
    .map_err(|e| cannot_read(path, e))
}

fn read_there(path: &Path) -> Result<Key> {
    let read = read(path).map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => {
            let message = format!(
                "it is not there, and users' ids in the store were hashed under it: put it back, or set {PATH_VARIABLE} to where it is"
            );
            io::Error::new(io::ErrorKind::NotFound, message)
        }
        _ => e,
    });
    read.map_err(|e| cannot_read(path, e))
}

fn cannot_read(path: &Path, e: io::Error) -> Error {
    Error::io("read the key of user ids", path, e)
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
            let message = "it is no key: 64 hex digits are expected. Put the right file there; ids that were hashed with another key are not found with a new one";
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
        waits += 1;
        thread::sleep(WAIT);
    }
}

/// A key that others may read keeps nothing secret.
#[cfg(unix)]
fn check_access(file: &File) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let meta = file.metadata()?;
    if !meta.is_file() {
        let message = "it is no regular file";
        return Err(io::Error::new(io::ErrorKind::InvalidData, message));
    }
    let mode = meta.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        let message = format!("others may read or change it (mode {mode:04o}): chmod 600 it");
        return Err(io::Error::new(io::ErrorKind::InvalidData, message));
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

/// Makes a key unless there is one by now: it gets its name only once it is whole.
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
    match linked {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
        // Not every file system has links. Who reads it meanwhile waits for the rest.
        Err(_) => match write_new(path, &text) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
            written => written?,
        },
        Ok(()) => {}
    }
    #[cfg(unix)]
    File::open(parent)?.sync_all()?;
    Ok(())
}

/// 32 bytes from the system's source of random ones: each such UUID has 122 bits of it.
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
