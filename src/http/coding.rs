//! Compressed bodies.

mod zstd;

use std::io::Read;

use axum::body::Bytes;
use axum::http::{HeaderMap, header};
use flate2::read::MultiGzDecoder;

use self::zstd::ZstdReader;
use super::app::App;
use super::body::push;
use super::memory::Gathered;
use super::problem::Problem;

/// Number of bytes decompressed at a time.
const READ_BYTES: usize = 64 << 10;

/// The compression of a body.
#[derive(Debug, Clone, Copy)]
pub(super) enum Coding {
    Identity,
    Gzip,
    Zstd,
}

impl Coding {
    pub(super) fn of(headers: &HeaderMap) -> Result<Coding, Problem> {
        let named = headers.get(header::CONTENT_ENCODING);
        let named = named.map(|name| name.as_bytes().to_ascii_lowercase());
        match named.as_deref() {
            None | Some(b"identity") => Ok(Coding::Identity),
            Some(b"gzip" | b"x-gzip") => Ok(Coding::Gzip),
            Some(b"zstd") => Ok(Coding::Zstd),
            Some(_) => {
                let detail = "the content coding must be gzip or zstd";
                Err(Problem::unsupported("Content-Encoding", detail))
            }
        }
    }

    /// The decompressed body, with all members or frames.
    pub(super) fn decoded(self, body: Bytes, app: &App) -> Result<Bytes, Problem> {
        let mut from: Box<dyn Read + '_> = match self {
            Coding::Identity => return Ok(body),
            Coding::Gzip => Box::new(MultiGzDecoder::new(&body[..])),
            Coding::Zstd => Box::new(ZstdReader::new(&body, app.options.body_bytes_max)),
        };
        let mut whole = Gathered::new(&app.bodies, app.options.body_bytes_max);
        let mut room = vec![0; READ_BYTES];
        loop {
            let read = from.read(&mut room).map_err(|e| {
                let detail = format!("the body does not match its Content-Encoding: {e}");
                Problem::bad_request(detail)
            })?;
            if read == 0 {
                return Ok(whole.whole().0);
            }
            push(&mut whole, &room[..read])?;
        }
    }
}
