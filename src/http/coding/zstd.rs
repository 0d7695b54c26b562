//! Decompresses zstd bodies.

use std::io::{self, Read};

use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

/// Maximum window size of zstd over HTTP (RFC 9659).
const WINDOW_BYTES: usize = 8 << 20;

/// All frames of a body, one after the other.
pub(super) struct ZstdReader<'a> {
    body: &'a [u8],
    decoder: FrameDecoder,
    is_in_frame: bool,
}

impl<'a> ZstdReader<'a> {
    /// A frame is rejected if its window is larger than the maximum body and than HTTP's maximum,
    /// because the window is held in memory.
    pub(super) fn new(body: &'a [u8], body_bytes_max: usize) -> ZstdReader<'a> {
        let mut decoder = FrameDecoder::new();
        decoder.set_max_window_size(body_bytes_max.max(WINDOW_BYTES) as u64);
        ZstdReader {
            body,
            decoder,
            is_in_frame: false,
        }
    }

    /// Starts the next frame, if there is one.
    fn begin(&mut self) -> io::Result<()> {
        while !self.is_in_frame && !self.body.is_empty() {
            match self.decoder.reset(&mut self.body) {
                Ok(()) => self.is_in_frame = true,
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    let rest = self.body.get(length as usize..);
                    self.body = rest.ok_or(io::ErrorKind::UnexpectedEof)?;
                }
                Err(e) => return Err(io::Error::other(e)),
            }
        }
        Ok(())
    }
}

impl Read for ZstdReader<'_> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        loop {
            self.begin()?;
            if !self.is_in_frame {
                return Ok(0);
            }
            let decoder = &mut self.decoder;
            while decoder.can_collect() == 0 && !decoder.is_finished() {
                let one = BlockDecodingStrategy::UptoBlocks(1);
                let blocks = decoder.decode_blocks(&mut self.body, one);
                blocks.map_err(io::Error::other)?;
            }
            let read = decoder.read(room)?;
            if read > 0 {
                return Ok(read);
            }
            let expected = decoder.get_checksum_from_data();
            if expected.is_some() && expected != decoder.get_calculated_checksum() {
                return Err(io::Error::other("the checksum of a frame is wrong"));
            }
            self.is_in_frame = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    use super::*;

    const MAX: usize = 16 << 20;

    fn read(body: &[u8]) -> io::Result<Vec<u8>> {
        let mut whole = Vec::new();
        ZstdReader::new(body, MAX).read_to_end(&mut whole)?;
        Ok(whole)
    }

    /// Made with the `zstd` command, at levels 1 and 19, with and without the length, and with a
    /// skippable frame in between.
    #[test]
    fn frames_of_the_reference_implementation_are_read_one_after_the_other() {
        let body = include_bytes!("../../../tests/data/records.zst");
        let line = |n: u32| {
            format!(
                "{{\"kind\":\"events\",\"event_type\":\"e.{}\"}}\n",
                n * n % 97
            )
        };
        let text: Vec<String> = (0..6_000).map(line).collect();
        let whole = read(body).unwrap();
        assert!(whole == text.concat().repeat(4).into_bytes());
        for cut in [1, 5, body.len() / 3, body.len() / 2, body.len() - 1] {
            assert!(read(&body[..cut]).is_err(), "{cut}");
        }
    }

    #[test]
    fn long_windows_and_wrong_checksums_are_refused() {
        assert!(read(&[]).unwrap().is_empty());
        let frame = compress_to_vec(&b"What is 1 + 1?"[..], CompressionLevel::Fastest);
        assert_eq!(read(&frame).unwrap(), b"What is 1 + 1?");
        let mut broken = frame.clone();
        *broken.last_mut().unwrap() ^= 1;
        assert!(read(&broken).is_err());
        // No block, and a window of 2^(10 + 15) bytes.
        let long = [0x28, 0xb5, 0x2f, 0xfd, 0x00, 15 << 3, 0x01, 0x00, 0x00];
        assert!(read(&long).is_err());
        let short = [0x28, 0xb5, 0x2f, 0xfd, 0x00, 14 << 3, 0x01, 0x00, 0x00];
        assert!(read(&short).unwrap().is_empty());
    }
}
