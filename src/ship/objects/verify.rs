//! Checks what was shipped: every byte, and the chain of seals.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::{StreamExt as _, TryStreamExt as _};
use object_store::ObjectStoreExt as _;
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use super::CONCURRENT;
use super::client::Objects;
use super::layout::{DayManifest, ObjectEntry, Piece, StoreState, bytes_of, path};
use super::read::{Difference, Sink, read};
use crate::error::{Error, ErrorKind, Result};
use crate::segment::seal::Digest;
use crate::segment::{Damage, SegmentName};
use crate::ship::{Format, remote};
use crate::storage::{Access, Memory, Storage, append_all, io_error};
use crate::store::SealLog;

/// The result of [`Destination::verify`](super::super::Destination::verify).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RemoteVerification {
    /// The store.
    pub store_id: Uuid,
    /// The greatest sequence number of the log when it was copied.
    pub last_seq: u64,
    /// Number of objects with lines.
    pub objects: u64,
    /// Number of segments.
    pub segments: u64,
    /// Number of segments that match their seal.
    pub sealed: u64,
    /// Size of the lines, in bytes, before compression.
    pub bytes: u64,
    /// Number of lines.
    pub lines: u64,
    /// Number of seals.
    pub seals: u64,
    /// What is not as it was shipped.
    pub damage: Vec<RemoteDamage>,
}

/// Something in a destination that is not as it was shipped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RemoteDamage {
    /// The object, or the file of the store.
    pub object: String,
    /// What is wrong with it.
    pub reason: String,
}

impl RemoteVerification {
    /// Whether everything is as it was shipped.
    pub fn is_clean(&self) -> bool {
        self.damage.is_empty()
    }
}

/// Reads an object only to hash it.
struct Hashed;

impl Sink for Hashed {
    fn bytes(&mut self, _: &Piece, _: u64, _: &[u8]) -> Result<()> {
        Ok(())
    }
}

impl Objects {
    /// Checks a store.
    pub(in crate::ship) async fn verify_store(
        &self,
        state: &StoreState,
    ) -> Result<RemoteVerification> {
        let mut found = RemoteVerification {
            store_id: state.store_id,
            last_seq: state.last_seq,
            objects: 0,
            segments: 0,
            sealed: 0,
            bytes: 0,
            lines: 0,
            seals: 0,
            damage: Vec::new(),
        };
        let chain = Memory::new();
        chain
            .create_dir("")
            .map_err(|e| io_error(&chain, "create", "", e))?;
        for (name, entry) in &state.files {
            match self.get_file(entry).await {
                Ok(bytes) => put(&chain, name, &bytes)?,
                Err(e) => found.add(&entry.object, e)?,
            }
        }
        let mut manifests = Vec::new();
        for entry in state.days.values() {
            match self.day_manifest(entry).await {
                Ok(manifest) => {
                    put(
                        &chain,
                        &format!("{}/{}", manifest.day, SealLog::FILE),
                        &manifest.seals(),
                    )?;
                    manifests.push(manifest);
                }
                Err(e) => found.add(&entry.manifest, e)?,
            }
        }
        self.objects_of(state.format, &manifests, &mut found)
            .await?;
        compare_seals(&chain, &manifests, &mut found)?;
        Ok(found)
    }

    /// Reads an object that was just written, and compares it with its entry.
    pub(super) async fn read_back(&self, entry: &ObjectEntry) -> Result<()> {
        match self.compare(Format::Jsonl, entry.clone()).await? {
            Some(reason) => Err(self.damaged(&entry.object, &reason)),
            None => Ok(()),
        }
    }

    /// Compares an object of whatever format with its entry.
    async fn compare(&self, format: Format, entry: ObjectEntry) -> Result<Difference> {
        if format == Format::Jsonl {
            let (Hashed, difference) = read(Arc::clone(&self.store), entry, Hashed).await?;
            return Ok(difference);
        }
        let got = match self.store.get(&path(&entry.object)).await {
            Err(object_store::Error::NotFound { .. }) => {
                return Ok(Some("it is missing".to_owned()));
            }
            got => got.map_err(|e| remote("read", &entry.object, e))?,
        };
        let mut hash = Sha256::new();
        let mut chunks = got.into_stream();
        while let Some(chunk) = chunks.next().await {
            hash.update(&chunk.map_err(|e| remote("read", &entry.object, e))?);
        }
        let is_same = Digest(hash.finalize().into()) == entry.sha256;
        Ok((!is_same).then(|| "its bytes were changed".to_owned()))
    }

    async fn objects_of(
        &self,
        format: Format,
        manifests: &[DayManifest],
        found: &mut RemoteVerification,
    ) -> Result<()> {
        let entries = manifests.iter().flat_map(|manifest| &manifest.objects);
        let reads = entries.map(|entry| {
            let entry = entry.clone();
            async move {
                let object = entry.object.clone();
                let difference = self.compare(format, entry).await?;
                Ok::<_, Error>(difference.map(|reason| RemoteDamage { object, reason }))
            }
        });
        let differences: Vec<Option<RemoteDamage>> = futures_util::stream::iter(reads)
            .buffered(CONCURRENT)
            .try_collect()
            .await?;
        found.damage.extend(differences.into_iter().flatten());
        for ObjectEntry { pieces, .. } in manifests.iter().flat_map(|it| &it.objects) {
            found.objects += 1;
            found.bytes += bytes_of(pieces);
            for piece in pieces {
                found.segments += u64::from(piece.from == 0);
                found.lines += piece.lines;
            }
        }
        Ok(())
    }
}

impl RemoteVerification {
    /// Damage is a finding; anything else is an error.
    fn add(&mut self, object: &str, e: Error) -> Result<()> {
        if e.kind() != ErrorKind::Damaged {
            return Err(e);
        }
        self.damage.push(RemoteDamage {
            object: object.to_owned(),
            reason: e.reason(),
        });
        Ok(())
    }
}

fn put(storage: &Memory, name: &str, bytes: &[u8]) -> Result<()> {
    let io = |e| io_error(storage, "write", name, e);
    if let Some((dir, _)) = name.split_once('/') {
        storage.create_dir(dir).map_err(io)?;
    }
    let file = storage.open(name, Access::Append).map_err(io)?;
    append_all(&*file, bytes).map_err(io)
}

/// Checks the chain of seals, and that each sealed segment is there and matches its seal.
fn compare_seals(
    chain: &Memory,
    manifests: &[DayManifest],
    found: &mut RemoteVerification,
) -> Result<()> {
    let log = SealLog::read(chain)?;
    found.seals = log.len();
    let of_chain = log.damage().into_iter().map(|damage: Damage| RemoteDamage {
        object: damage.file,
        reason: damage.reason,
    });
    found.damage.extend(of_chain);
    let pieces = manifests.iter().flat_map(|it| &it.objects);
    let pieces = pieces.flat_map(|entry| &entry.pieces);
    let whole: BTreeMap<&str, (Digest, bool)> = pieces
        .map(|piece| (&*piece.file, (piece.sha256, piece.sealed)))
        .collect();
    for name in log.segments().collect::<Vec<SegmentName>>() {
        let file = name.path();
        let Some(last) = log.last_of(name) else {
            continue;
        };
        let damage = |reason: String| RemoteDamage {
            object: file.clone(),
            reason,
        };
        match whole.get(&*file) {
            None => found.damage.push(damage(format!(
                "the segment is missing, and removals.jsonl does not say why: seal {} says that it had {} lines",
                last.seal, last.lines
            ))),
            // It was copied before it was sealed.
            Some((_, false)) => {}
            Some((sha256, true)) => {
                let is_it = log
                    .last_and_earlier(name)
                    .any(|seal| seal.sha256 == *sha256);
                if is_it {
                    found.sealed += 1;
                } else {
                    found.damage.push(damage(format!(
                        "the segment does not match seal {}",
                        last.seal
                    )));
                }
            }
        }
    }
    Ok(())
}
