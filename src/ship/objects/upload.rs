//! Writes an object: reads segments, compresses them, and uploads what comes out in bounded memory.

use std::io::{self, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use object_store::{ObjectStore, ObjectStoreExt as _, PutPayload};
use sha2::{Digest as _, Sha256};
use tokio::sync::mpsc;

use super::layout::{ObjectEntry, Piece, path};
use super::plan::{Planned, PlannedPiece};
use crate::error::{Error, ErrorKind, Result};
use crate::segment::seal::Digest;
use crate::ship::{Format, remote};
use crate::storage::{Storage, io_error, read_full};
use crate::store::Store;

/// Size of the parts in which a large object is uploaded. All but the last have this size, as some
/// object stores require, and it is more than the minimum of all.
const PART_BYTES: usize = 8 << 20;

/// Number of bytes of a segment that are read at once.
const CHUNK_BYTES: usize = 256 << 10;

/// Level of zstd: the default of the `zstd` command.
const LEVEL: i32 = 3;

/// Uploads an object and returns its entry.
///
/// # Errors
/// [`Conflict`](ErrorKind::Conflict) if a segment was rewritten or removed since the plan was made;
/// [`Remote`](ErrorKind::Remote); [`Io`](ErrorKind::Io).
pub(super) async fn upload(
    objects: Arc<dyn ObjectStore>,
    store: Store,
    planned: Planned,
    format: Format,
    done: Arc<AtomicU64>,
) -> Result<ObjectEntry> {
    let (parts, received) = mpsc::channel(2);
    let (object, kind) = (planned.object.clone(), planned.kind);
    let read = tokio::task::spawn_blocking(move || {
        let mut out = Parts {
            buffer: Vec::new(),
            sender: parts,
            bytes: 0,
            hash: Sha256::new(),
        };
        let pieces = match format {
            Format::Jsonl => compress(&store, &planned, &mut out, &done),
            #[cfg(feature = "parquet")]
            Format::Parquet => super::parquet::write(&store, &planned, &mut out, &done),
        };
        if pieces.is_err() {
            let _ = out.sender.blocking_send(Err(()));
        }
        let pieces = pieces?;
        out.end();
        Ok((pieces, out.bytes, Digest(out.hash.finalize().into())))
    });
    let sent = send(&*objects, &object, received).await;
    let read = read
        .await
        .map_err(|e| Error::new(ErrorKind::Io, e.to_string()));
    // If reading failed, the upload was given up, and the first failure is the reason.
    let (pieces, bytes, sha256) = read??;
    sent?;
    Ok(ObjectEntry {
        object,
        kind: kind.stem().to_owned(),
        bytes,
        sha256,
        pieces,
    })
}

/// Sends the parts to the object store. The object appears when all of them are there.
async fn send(
    objects: &dyn ObjectStore,
    object: &str,
    mut parts: mpsc::Receiver<Result<Bytes, ()>>,
) -> Result<()> {
    let location = path(object);
    let Some(Ok(first)) = parts.recv().await else {
        return Ok(());
    };
    let doing = |e| remote("write", object, e);
    let Some(second) = parts.recv().await else {
        let put = objects.put(&location, PutPayload::from_bytes(first)).await;
        return put.map(drop).map_err(doing);
    };
    let mut upload = objects.put_multipart(&location).await.map_err(doing)?;
    let mut bytes = first.len() as u64;
    let sent = async {
        upload.put_part(PutPayload::from_bytes(first)).await?;
        let mut next = Some(second);
        while let Some(part) = next {
            let Ok(part) = part else {
                return Ok(false);
            };
            bytes += part.len() as u64;
            upload.put_part(PutPayload::from_bytes(part)).await?;
            next = parts.recv().await;
        }
        match upload.complete().await {
            // It was complete, the answer was lost, and it was asked again.
            Err(e @ object_store::Error::NotFound { .. }) => {
                let there = objects.head(&location).await?;
                if there.size == bytes {
                    Ok(true)
                } else {
                    Err(e)
                }
            }
            completed => completed.map(|_| true),
        }
    };
    let sent = sent.await;
    if !matches!(sent, Ok(true)) {
        // What was uploaded of it is not an object, and the store may charge for it.
        let _ = upload.abort().await;
    }
    sent.map(drop).map_err(doing)
}

/// Collects compressed bytes and passes them on in parts.
struct Parts {
    buffer: Vec<u8>,
    sender: mpsc::Sender<Result<Bytes, ()>>,
    bytes: u64,
    hash: Sha256,
}

impl Parts {
    fn send(&mut self, part: Vec<u8>) -> io::Result<()> {
        self.hash.update(&part);
        self.bytes += part.len() as u64;
        let sent = self.sender.blocking_send(Ok(part.into()));
        sent.map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    /// Sends the last part.
    fn end(&mut self) {
        let part = std::mem::take(&mut self.buffer);
        // The reason why the upload ended is its own error.
        let _ = self.send(part);
    }
}

impl io::Write for Parts {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.buffer.extend_from_slice(bytes);
        while self.buffer.len() >= PART_BYTES {
            let rest = self.buffer.split_off(PART_BYTES);
            let part = std::mem::replace(&mut self.buffer, rest);
            self.send(part)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Compresses the pieces of an object, each as a frame of its own.
fn compress(
    store: &Store,
    planned: &Planned,
    out: &mut Parts,
    done: &AtomicU64,
) -> Result<Vec<Piece>> {
    let storage = store.inner().storage();
    let mut pieces = Vec::with_capacity(planned.pieces.len());
    for piece in &planned.pieces {
        pieces.push(frame(storage, piece, out, done)?);
    }
    Ok(pieces)
}

fn frame(
    storage: &dyn Storage,
    piece: &PlannedPiece,
    out: &mut Parts,
    done: &AtomicU64,
) -> Result<Piece> {
    let path = piece.segment.name.path();
    let io = |e| io_error(storage, "read the segment", &path, e);
    let file = piece.segment.open(storage)?;
    let compressing = |e| io_error(storage, "compress the segment", &path, e);
    let mut encoder = zstd::stream::write::Encoder::new(out, LEVEL).map_err(compressing)?;
    encoder.include_checksum(true).map_err(compressing)?;
    let (mut hash, mut lines) = (Sha256::new(), 0);
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut at = piece.from;
    while at < piece.to {
        let wanted = usize::try_from(piece.to - at).unwrap_or(CHUNK_BYTES);
        let wanted = wanted.min(CHUNK_BYTES);
        let read = read_full(&*file, &mut chunk[..wanted], at).map_err(io)?;
        if read < wanted {
            return Err(piece.segment.rewritten());
        }
        let bytes = &chunk[..read];
        hash.update(bytes);
        lines += memchr::memchr_iter(b'\n', bytes).count() as u64;
        encoder.write_all(bytes).map_err(compressing)?;
        at += read as u64;
        done.fetch_add(read as u64, Ordering::Relaxed);
    }
    encoder.finish().map_err(compressing)?;
    Ok(Piece {
        file: path,
        from: piece.from,
        to: piece.to,
        lines,
        sha256: Digest(hash.finalize().into()),
        sealed: piece.segment.seal.is_some(),
        tail_crc: piece.segment.tail_crc(storage, piece.to)?,
    })
}
