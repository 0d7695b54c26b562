//! Keeps the bytes read from a pipe for format detection, so that they can be read again.

use std::io::{self, Read};

/// Reads an input and keeps the bytes that were read.
pub(super) struct Tee<'a, R> {
    input: R,
    kept: &'a mut Vec<u8>,
    bytes_max: usize,
}

impl<'a, R: Read> Tee<'a, R> {
    /// Reading fails once more than `bytes_max` bytes would have to be kept.
    pub(super) fn new(input: R, kept: &'a mut Vec<u8>, bytes_max: usize) -> Tee<'a, R> {
        Tee {
            input,
            kept,
            bytes_max,
        }
    }
}

impl<R: Read> Read for Tee<'_, R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = self.input.read(buf)?;
        if self.kept.len() + n > self.bytes_max {
            let message = "cannot tell the format from the start of the pipe: give --format";
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
        self.kept.extend_from_slice(&buf[..n]);
        Ok(n)
    }
}
