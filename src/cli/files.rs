//! Files that commands write for their users.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use super::exit::Failure;

/// Writes a file as a whole: a reader sees the old content or the new one. On an error, the old
/// file stays.
pub fn replace(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let failed = |error| Failure::store(format!("cannot write {}: {error}", path.display()));
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    let temporary = PathBuf::from(name);
    let written = fs::File::create_new(&temporary).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&temporary, path)
    });
    written.map_err(|error| {
        // The temporary file, if this call made it.
        if error.kind() != std::io::ErrorKind::AlreadyExists {
            let _ = fs::remove_file(&temporary);
        }
        failed(error)
    })
}
