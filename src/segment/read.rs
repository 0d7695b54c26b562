//! Reads one line whose place is known.

use std::io;

use crate::storage::{StorageFile, read_full};

/// Most lines fit into one read.
const FIRST_READ_BYTES: usize = 4 << 10;

/// The bytes from `offset` up to the next LF or the end of the file, but no more than
/// `line_bytes_max`.
pub(crate) fn read_line(
    file: &dyn StorageFile,
    offset: u64,
    line_bytes_max: usize,
) -> io::Result<Vec<u8>> {
    let mut line = vec![0; FIRST_READ_BYTES.min(line_bytes_max)];
    let mut filled = 0;
    loop {
        let wanted = line.len() - filled;
        let read = read_full(file, &mut line[filled..], offset + filled as u64)?;
        if let Some(lf) = memchr::memchr(b'\n', &line[filled..filled + read]) {
            line.truncate(filled + lf);
            return Ok(line);
        }
        filled += read;
        if read < wanted || filled >= line_bytes_max {
            line.truncate(filled);
            return Ok(line);
        }
        line.resize((filled * 4).min(line_bytes_max), 0);
    }
}
