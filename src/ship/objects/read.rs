//! Reads an object back: downloads, decompresses, and splits it into the parts of segments.

use std::io::{self, Read as _};
use std::sync::Arc;

use bytes::{Buf as _, Bytes};
use futures_util::StreamExt as _;
use object_store::{ObjectStore, ObjectStoreExt as _};
use sha2::{Digest as _, Sha256};
use tokio::sync::mpsc;

use super::layout::{ObjectEntry, Piece, path};
use crate::error::{Error, ErrorKind, Result};
use crate::segment::seal::Digest;
use crate::ship::remote;

/// Number of bytes that are decompressed at once.
const CHUNK_BYTES: usize = 256 << 10;

/// Receives the lines of an object.
pub(super) trait Sink: Send + 'static {
    /// The next bytes of a piece, and their offset in the segment.
    fn bytes(&mut self, piece: &Piece, offset: u64, bytes: &[u8]) -> Result<()>;
}

/// Why an object is not as its manifest says; `None` if it is.
pub(super) type Difference = Option<String>;

/// Reads an object and passes its lines on.
///
/// # Errors
/// [`Remote`](ErrorKind::Remote); errors of the sink. An object that is missing or differs from its
/// manifest is no error.
pub(super) async fn read<S: Sink>(
    objects: Arc<dyn ObjectStore>,
    entry: ObjectEntry,
    mut sink: S,
) -> Result<(S, Difference)> {
    let object = entry.object.clone();
    let got = match objects.get(&path(&object)).await {
        Err(object_store::Error::NotFound { .. }) => {
            return Ok((sink, Some("it is missing".to_owned())));
        }
        got => got.map_err(|e| remote("read", &object, e))?,
    };
    if got.meta.size != entry.bytes {
        let reason = format!("it has {} bytes, not {}", got.meta.size, entry.bytes);
        return Ok((sink, Some(reason)));
    }
    let (sender, receiver) = mpsc::channel(4);
    let split = tokio::task::spawn_blocking(move || {
        let mut input = Received {
            receiver,
            chunk: Bytes::new(),
        };
        let difference = split(&mut input, &entry, &mut sink)?;
        Ok((sink, difference))
    });
    let mut chunks = got.into_stream();
    let mut failed = None;
    while let Some(chunk) = chunks.next().await {
        match chunk {
            // The reader stops early if the object is damaged.
            Ok(chunk) => {
                if sender.send(chunk).await.is_err() {
                    break;
                }
            }
            Err(e) => {
                failed = Some(remote("read", &object, e));
                break;
            }
        }
    }
    drop(sender);
    let split = split.await;
    let split = split.map_err(|e| Error::new(ErrorKind::Io, e.to_string()))?;
    match failed {
        Some(e) => Err(e),
        None => split,
    }
}

/// The bytes of a download, for a thread that reads them.
struct Received {
    receiver: mpsc::Receiver<Bytes>,
    chunk: Bytes,
}

impl io::Read for Received {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        while self.chunk.is_empty() {
            match self.receiver.blocking_recv() {
                Some(chunk) => self.chunk = chunk,
                None => return Ok(0),
            }
        }
        let len = buf.len().min(self.chunk.len());
        self.chunk.copy_to_slice(&mut buf[..len]);
        Ok(len)
    }
}

fn split(
    compressed: &mut impl io::Read,
    entry: &ObjectEntry,
    sink: &mut impl Sink,
) -> Result<Difference> {
    let mut lines = match zstd::stream::read::Decoder::new(compressed) {
        Ok(lines) => lines,
        Err(e) => return Ok(Some(format!("it cannot be decompressed: {e}"))),
    };
    let mut chunk = vec![0; CHUNK_BYTES];
    for piece in &entry.pieces {
        let mut hash = Sha256::new();
        let mut at = piece.from;
        while at < piece.to {
            let wanted = usize::try_from(piece.to - at).unwrap_or(CHUNK_BYTES);
            let wanted = wanted.min(CHUNK_BYTES);
            if let Err(e) = lines.read_exact(&mut chunk[..wanted]) {
                return Ok(Some(format!("{}: {e}", piece.file)));
            }
            hash.update(&chunk[..wanted]);
            sink.bytes(piece, at, &chunk[..wanted])?;
            at += wanted as u64;
        }
        if Digest(hash.finalize().into()) != piece.sha256 {
            return Ok(Some(format!("the bytes of {} were changed", piece.file)));
        }
    }
    match lines.read(&mut chunk[..1]) {
        Ok(0) => Ok(None),
        Ok(_) => Ok(Some("it has more lines than its manifest says".to_owned())),
        Err(e) => Ok(Some(format!("it cannot be decompressed: {e}"))),
    }
}
