//! Makes a store again from what was shipped.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::{StreamExt as _, TryStreamExt as _};
use uuid::Uuid;

use super::CONCURRENT;
use super::client::Objects;
use super::layout::{DayManifest, ObjectEntry, Piece, StoreState, bytes_of};
use super::read::{Sink, read};
use crate::error::{Error, Result};
use crate::segment::seal::hash_file;
use crate::ship::{Format, Progress};
use crate::storage::{Access, Disk, Storage, StorageFile, append_all, io_error, write_all_at};
use crate::store::{SealLog, Verification, VerifyOptions, verify_with};

/// The result of [`Destination::pull`](super::super::Destination::pull).
#[derive(Debug)]
#[non_exhaustive]
pub struct Pulled {
    /// The store.
    pub store_id: Uuid,
    /// The greatest sequence number of the log.
    pub last_seq: u64,
    /// Size of the lines, in bytes.
    pub bytes: u64,
    /// The check of the new store: every line and every seal.
    pub verification: Verification,
}

/// Writes the lines of an object to the files of a store.
struct Files {
    disk: Arc<Disk>,
    open: HashMap<String, Arc<dyn StorageFile>>,
    progress: Progress,
}

impl Sink for Files {
    fn bytes(&mut self, piece: &Piece, offset: u64, bytes: &[u8]) -> Result<()> {
        let io = |e| io_error(&*self.disk, "write", &piece.file, e);
        let file = if let Some(file) = self.open.get(&piece.file) {
            Arc::clone(file)
        } else {
            let file = self.disk.open(&piece.file, Access::Overwrite).map_err(io)?;
            self.open.insert(piece.file.clone(), Arc::clone(&file));
            file
        };
        write_all_at(&*file, bytes, offset).map_err(io)?;
        self.progress.advance(bytes.len() as u64);
        Ok(())
    }
}

impl Objects {
    /// Writes a store to a directory that does not exist yet or is empty.
    pub(in crate::ship) async fn pull_store(
        &self,
        state: &StoreState,
        dir: &Path,
        progress: &Progress,
    ) -> Result<Pulled> {
        if state.format != Format::Jsonl {
            let message = format!(
                "{} has this store as {}, of which no store can be made: pull from a place where it was shipped as jsonl",
                self.name, state.format
            );
            return Err(Error::invalid(message));
        }
        check_is_free(dir)?;
        let partial = partial_dir(dir)?;
        let disk = Arc::new(Disk::new(&partial));
        let io = |path: &str, e| io_error(&*disk, "write", path, e);
        disk.create_dir("").map_err(|e| io("", e))?;
        let mut manifests = Vec::new();
        for entry in state.days.values() {
            manifests.push(self.day_manifest(entry).await?);
        }
        let bytes = self.pull_objects(&manifests, &disk, progress).await?;
        for (name, entry) in &state.files {
            let bytes = self.get_file(entry).await?;
            write_file(&disk, name, &bytes)?;
        }
        for manifest in &manifests {
            let seals = manifest.seals();
            if !seals.is_empty() {
                write_file(
                    &disk,
                    &format!("{}/{}", manifest.day, SealLog::FILE),
                    &seals,
                )?;
            }
            disk.sync_dir(&manifest.day)
                .map_err(|e| io(&manifest.day, e))?;
        }
        disk.sync_dir("").map_err(|e| io("", e))?;
        let options = VerifyOptions {
            deep: true,
            head: None,
        };
        let verification = verify_with(&*disk, &options)?;
        drop(disk);
        // An empty directory is replaced.
        let _ = std::fs::remove_dir(dir);
        let renamed = std::fs::rename(&partial, dir);
        renamed.map_err(|e| Error::io("rename the finished copy to", dir, e))?;
        let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty());
        let parent = Disk::new(parent.unwrap_or(Path::new(".")));
        parent
            .sync_dir("")
            .map_err(|e| io_error(&parent, "sync", "", e))?;
        Ok(Pulled {
            store_id: state.store_id,
            last_seq: state.last_seq,
            bytes,
            verification,
        })
    }

    /// Writes the segments. Those that an earlier run wrote already are kept.
    async fn pull_objects(
        &self,
        manifests: &[DayManifest],
        disk: &Arc<Disk>,
        progress: &Progress,
    ) -> Result<u64> {
        let entries: Vec<&ObjectEntry> = manifests.iter().flat_map(|it| &it.objects).collect();
        let pieces = entries.iter().flat_map(|entry| &entry.pieces);
        let bytes = bytes_of(pieces);
        progress.expect(bytes);
        for manifest in manifests {
            let made = disk.create_dir(&manifest.day);
            made.map_err(|e| io_error(&**disk, "create", &manifest.day, e))?;
        }
        let reads = entries.into_iter().map(|entry| async move {
            if has_all(disk, entry)? {
                progress.advance(bytes_of(&entry.pieces));
                return Ok(());
            }
            let files = Files {
                disk: Arc::clone(disk),
                open: HashMap::new(),
                progress: progress.clone(),
            };
            let read = read(Arc::clone(&self.store), entry.clone(), files).await?;
            let (files, difference) = read;
            if let Some(reason) = difference {
                return Err(self.damaged(&entry.object, &reason));
            }
            for (path, file) in files.open {
                let synced = file.sync();
                synced.map_err(|e| io_error(&**disk, "sync", &path, e))?;
            }
            Ok::<_, Error>(())
        });
        let reads = futures_util::stream::iter(reads).buffer_unordered(CONCURRENT);
        reads.try_collect::<()>().await?;
        let sealed = manifests.iter().flat_map(|it| &it.objects);
        let sealed = sealed.flat_map(|entry| &entry.pieces);
        for piece in sealed.filter(|piece| piece.sealed) {
            let closed = disk.set_read_only(&piece.file);
            let file = closed.and_then(|()| disk.open(&piece.file, Access::Read));
            let synced = file.and_then(|file| file.sync());
            synced.map_err(|e| io_error(&**disk, "close", &piece.file, e))?;
        }
        Ok(bytes)
    }
}

/// Whether an earlier run wrote all segments of an object.
fn has_all(disk: &Disk, entry: &ObjectEntry) -> Result<bool> {
    for piece in &entry.pieces {
        let file = match disk.open(&piece.file, Access::Read) {
            Ok(file) if piece.sealed => file,
            _ => return Ok(false),
        };
        let hashed = hash_file(&*file).map_err(|e| io_error(disk, "read", &piece.file, e))?;
        if hashed != (piece.sha256, piece.to) {
            // A file that is too long or read-only is written again from its start.
            let removed = disk.remove_file(&piece.file);
            removed.map_err(|e| io_error(disk, "remove", &piece.file, e))?;
            return Ok(false);
        }
    }
    Ok(true)
}

fn write_file(disk: &Disk, name: &str, bytes: &[u8]) -> Result<()> {
    let io = |e| io_error(disk, "write", name, e);
    if let Some((dir, _)) = name.split_once('/') {
        disk.create_dir(dir).map_err(io)?;
    }
    crate::storage::remove_if_there(disk, name).map_err(io)?;
    let file = disk.open(name, Access::Append).map_err(io)?;
    append_all(&*file, bytes).map_err(io)?;
    file.sync().map_err(io)
}

fn check_is_free(dir: &Path) -> Result<()> {
    match std::fs::read_dir(dir).map(|mut entries| entries.next().is_none()) {
        Ok(true) => Ok(()),
        Ok(false) => {
            let message = "there is something in this directory already: give one that does not exist or is empty";
            Err(Error::invalid(message).with_path(dir))
        }
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(e) => Err(Error::io("read the directory", dir, e)),
    }
}

/// The directory beside the new store in which it is made.
fn partial_dir(dir: &Path) -> Result<PathBuf> {
    let name = dir.file_name().ok_or_else(|| {
        Error::invalid("this path has no name: give the directory of the new store").with_path(dir)
    })?;
    let mut name = name.to_owned();
    name.push(".partial");
    Ok(dir.with_file_name(name))
}
