//! Rollouts that Codex compressed: `rollout-*.jsonl.zst`. Their lines are those of the file before,
//! and so are the ids of what they hold.

use std::path::Path;

use crate::import::agent::Whole;

/// Whether a file has the name of a compressed rollout.
pub(super) fn has_name(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| name.ends_with(".jsonl.zst"))
}

/// Whether these are the first bytes of a zstd frame.
pub(super) fn is_frame(head: &[u8]) -> bool {
    head.starts_with(&[0x28, 0xb5, 0x2f, 0xfd])
}

#[cfg(not(feature = "databases"))]
pub(super) fn read(_: &mut Whole<'_, '_>) -> Result<(), String> {
    Err("compressed: this program was built without the feature `databases`, which reads it".into())
}

#[cfg(feature = "databases")]
pub(super) fn read(whole: &mut Whole<'_, '_>) -> Result<(), String> {
    use std::io::BufReader;

    use super::Rollout;
    use crate::import::lines::{LINE_BYTES_MAX, Line, Lines};

    let failed = |error: String| format!("cannot decompress: {error}");
    let bytes = whole.bytes()?;
    let decoder = ruzstd::decoding::StreamingDecoder::new(&bytes[..]);
    let decoder = decoder.map_err(|error| failed(error.to_string()))?;
    let mut lines = Lines::new(BufReader::new(decoder), LINE_BYTES_MAX);
    let mut rollout = Rollout::new();
    while !whole.is_stopped() {
        let number = lines.number() + 1;
        let line = match lines.read_next() {
            Ok(Some(Line::Whole(line) | Line::Last(line))) => line.trim_ascii(),
            Ok(Some(Line::TooLong(bytes))) => {
                whole.broken(number, format!("the line has {bytes} bytes"));
                continue;
            }
            Ok(None) => break,
            Err(error) => return Err(failed(error.to_string())),
        };
        if line.is_empty() {
            continue;
        }
        let read = std::str::from_utf8(line)
            .map_err(|error| format!("not UTF-8 at byte {}", error.valid_up_to()))
            .and_then(|text| rollout.read(number, text));
        match read {
            Ok(facts) => whole.take(number, vec![facts]),
            Err(reason) => whole.broken(number, reason),
        }
    }
    Ok(())
}
