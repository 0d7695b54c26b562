//! Files that commands write for their users.

use std::fs::{self, File};
use std::io::{self, Write};
#[cfg(unix)]
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use decklog::human::count;
use serde_json::json;

use super::context::Context;
use super::exit::{Exit, Failure};
use super::output::Output;

/// A file that takes its name when it is complete: until then, a reader sees the old content. If
/// it is dropped before, the old file stays.
#[derive(Debug)]
pub struct NewFile {
    to: File,
    temporary: PathBuf,
    path: PathBuf,
    bytes: u64,
    is_kept: bool,
}

impl NewFile {
    fn create(path: &Path) -> io::Result<NewFile> {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{}.tmp", std::process::id()));
        let temporary = PathBuf::from(name);
        let mut options = File::options();
        options.write(true).create_new(true);
        // It may have whole conversations: like the log, it is its owner's.
        #[cfg(unix)]
        options.mode(0o600);
        Ok(NewFile {
            to: options.open(&temporary)?,
            temporary,
            path: path.to_owned(),
            bytes: 0,
            is_kept: false,
        })
    }

    /// Gives the file its name; returns its length.
    pub fn finish(&mut self) -> io::Result<u64> {
        self.to.sync_all()?;
        fs::rename(&self.temporary, &self.path)?;
        self.is_kept = true;
        Ok(self.bytes)
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.to.write(bytes)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if !self.is_kept {
            // What cannot be removed stays beside the file, with a name that says what it is.
            let _ = fs::remove_file(&self.temporary);
        }
    }
}

/// Whether a file is, or would be, in the directory of the log.
fn is_in_store(path: &Path, context: &Context) -> bool {
    let dir = match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    };
    let store = context
        .store_path()
        .ok()
        .and_then(|it| it.canonicalize().ok());
    match (store, dir.canonicalize()) {
        (Some(store), Ok(dir)) => dir.starts_with(store),
        _ => false,
    }
}

/// The file that the value of an option names; `-` is standard output.
pub fn named(path: &Path) -> Option<&Path> {
    (path != Path::new("-")).then_some(path)
}

/// The file at the end of symbolic links. It need not exist.
fn linked(path: &Path) -> io::Result<PathBuf> {
    const LINKS_MAX: usize = 40;
    let mut path = path.to_owned();
    for _ in 0..LINKS_MAX {
        match fs::read_link(&path) {
            // From the directory of the link, unless it is absolute.
            Ok(to) => path = path.parent().unwrap_or(Path::new("")).join(to),
            Err(_) => return Ok(path),
        }
    }
    Err(io::Error::other("too many symbolic links"))
}

/// A new file that will take this name. A symbolic link stays, and the file that it names is
/// replaced.
fn new_file(path: &Path, is_forced: bool, context: &Context) -> Result<NewFile, Failure> {
    let shown = path.display();
    let target = linked(path).map_err(|error| failed(path, &error))?;
    match fs::metadata(path) {
        Ok(known) if !known.is_file() => {
            let message =
                format!("{shown} is not a regular file: give '-' to write to standard output");
            return Err(Failure::usage(message));
        }
        Ok(_) if !is_forced => {
            let message = format!("{shown} exists: give --force to replace it");
            return Err(Failure::usage(message));
        }
        _ => {}
    }
    if is_in_store(&target, context) {
        let message = format!("{shown} is in the directory of the log: give a file outside of it");
        return Err(Failure::usage(message));
    }
    NewFile::create(&target).map_err(|error| failed(path, &error))
}

fn failed(path: &Path, error: &io::Error) -> Failure {
    Failure::store(format!("cannot write {}: {error}", path.display()))
}

/// Runs `write` with a file as the output, then prints what was written. Without a result to keep,
/// no file is written.
pub fn write_to(
    path: &Path,
    is_forced: bool,
    context: &mut Context,
    write: impl FnOnce(&mut Context) -> Result<Exit, Failure>,
) -> Result<Exit, Failure> {
    let shown = path.display();
    let file = new_file(path, is_forced, context)?;
    let is_json = context.json;
    let stdout = std::mem::replace(&mut context.out, Output::file(file));
    let ended = write(context);
    let mut out = std::mem::replace(&mut context.out, stdout);
    context.json = is_json;
    let ended = match ended {
        Err(Failure::Output(error)) => Err(failed(path, &error)),
        ended => ended,
    };
    if ended? != Exit::Ok {
        return Ok(Exit::Findings);
    }
    let bytes = out.finish().map_err(|error| failed(path, &error))?;
    let text = format!("wrote {shown} ({} bytes)", count(bytes));
    context.print(&json!({ "file": path, "bytes": bytes }), &text)?;
    Ok(Exit::Ok)
}

/// Lets `write` fill a file that it opens by its temporary name; returns its length.
#[cfg(feature = "sql")]
pub fn fill<T>(
    path: &Path,
    is_forced: bool,
    context: &Context,
    write: impl FnOnce(&Path) -> Result<T, Failure>,
) -> Result<(u64, T), Failure> {
    let mut file = new_file(path, is_forced, context)?;
    let written = write(&file.temporary)?;
    let known = file.to.metadata();
    let finished = known.and_then(|known| file.finish().map(|_| known.len()));
    let bytes = finished.map_err(|error| failed(path, &error))?;
    Ok((bytes, written))
}
