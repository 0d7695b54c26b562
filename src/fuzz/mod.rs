//! The entry points of the fuzzers, and of `cargo test` with the fuzzers' seeds. Each accepts any
//! bytes and panics if they reveal a bug.

mod store_files;

use self::store_files::{any_manifest, any_store, everything};
use crate::import::{self, Format, Importer};
use crate::line::decode;
use crate::line::fuzz_check::{any_line, any_record, with_checksums};
use crate::record::{Kind, Record, check_canonical, payload_json};
use crate::segment::check::any_segment;
use crate::storage::{Memory, Storage};
use crate::store::{Store, verify};
use std::path::Path;
use std::sync::Arc;

/// The kind that a byte selects.
fn kind(byte: u8) -> Kind {
    Kind::ALL[byte as usize % Kind::ALL.len()]
}

/// Whether a bit of the byte is set, above the part that selects the [`kind()`].
fn is_set(byte: u8, bit: u32) -> bool {
    (byte as usize / Kind::ALL.len()) >> bit & 1 == 1
}

/// The first byte selects the kind of record, and whether a checksum is added to the line. The
/// remaining bytes are a line without LF, and also a text that may be JSON.
#[allow(clippy::missing_panics_doc)]
pub fn line(data: &[u8]) {
    let Some((mode, line)) = data.split_first() else {
        return;
    };
    let kind = kind(*mode);
    let mut sealed = line.to_vec();
    if is_set(*mode, 0) {
        sealed = with_checksums(sealed);
    } else {
        let crc = crc32fast::hash(&sealed);
        sealed.extend_from_slice(format!(",\"crc\":\"{crc:08x}\"}}").as_bytes());
    }
    for line in [&sealed, line] {
        if !line.contains(&b'\n') {
            any_line(kind, line);
        }
    }
    let Ok(text) = std::str::from_utf8(line) else {
        return;
    };
    check_canonical(text);
    import::any_text(text);
    payload(text);
    if let Ok(record) = Record::from_json(text) {
        any_record(&record);
    }
}

/// A payload is stored in a line such that it reads back byte for byte.
fn payload(text: &str) {
    let event = crate::Event {
        id: 1,
        parent_id: None,
        event_type: "a".to_owned(),
        created_at: 0,
        payload: Some(text.to_owned()),
    };
    let record = Record::from(event);
    let mut line = Vec::new();
    if crate::line::encode(&record, None, 1, 1 << 20, &mut line).is_err() {
        return;
    }
    line.pop();
    any_line(Kind::Events, &line);
    let decoded = decode(Kind::Events, &line);
    assert!(
        decoded.is_ok_and(|decoded| decoded.record == record),
        "{text}"
    );
    let json = payload_json(text);
    let shown = format!(",\"payload\":{json},\"crc\":");
    assert!(String::from_utf8_lossy(&line).contains(&shown), "{text}");
}

/// The first byte selects the kind, and whether checksums are added to the lines. The next two
/// select how the segment is read. The remaining bytes are a segment.
pub fn scan(data: &[u8]) {
    let Some(([mode, limit, cut], bytes)) = data.split_first_chunk() else {
        return;
    };
    let mut bytes = bytes.to_vec();
    if !is_set(*mode, 0) {
        bytes = with_checksums(bytes);
    }
    any_segment(kind(*mode), &bytes, *limit, *cut);
}

/// The first byte selects the agent format. The second sets the length of the file at its first
/// import. The remaining bytes are a session file of another agent.
#[allow(clippy::missing_panics_doc, clippy::unwrap_used)]
pub fn import(data: &[u8]) {
    let Some(([mode, cut], bytes)) = data.split_first_chunk() else {
        return;
    };
    let format = match mode % 3 {
        0 => None,
        1 => Some(Format::ClaudeCode),
        _ => Some(Format::Codex),
    };
    let memory = Memory::new();
    let open = || {
        Store::options()
            .storage(Arc::new(memory.clone()))
            .open("in memory")
    };
    let store = open().unwrap();
    let import = |store: &Store, bytes: &[u8]| {
        let mut importer = Importer::new(store)
            .format(format)
            .expired(crate::import::Expired::Expire);
        let read = importer.bytes(Path::new("session.jsonl"), bytes);
        let report = importer.finish().unwrap();
        read.ok().map(|()| report)
    };
    let cut = bytes.len() * usize::from(*cut) / 255;
    if mode / 3 % 2 == 1 {
        import(&store, &bytes[..cut]);
    }
    let first = import(&store, bytes);
    let second = import(&store, bytes);
    assert_eq!(first.is_some(), second.is_some());
    let is_filled = |line: &&[u8]| !import::without_bom(line).trim_ascii().is_empty();
    let filled = bytes.split(|byte| *byte == b'\n').filter(is_filled).count() as u64;
    if let (Some(first), Some(second)) = (first, second) {
        assert_eq!(second.added, 0);
        assert_eq!(first.lines, filled);
        let held = |report: crate::import::Report| crate::import::Report {
            added: 0,
            per_file: Vec::new(),
            ..report
        };
        assert_eq!(held(second), held(first));
    }
    let verification = verify(&memory as &dyn Storage).unwrap();
    assert!(verification.is_clean(), "{verification:?}");
    let told = everything(&store);
    drop(store);
    let store = open().unwrap();
    assert_eq!(everything(&store), told);
    if let Some(third) = import(&store, bytes) {
        assert_eq!(third.added, 0);
    }
}

/// Treats the bytes as the manifest of a store.
pub fn manifest(data: &[u8]) {
    any_manifest(data);
}

/// Treats the bytes as the files of a store.
pub fn store(data: &[u8]) {
    any_store(data);
}

#[cfg(test)]
mod tests {
    use std::fs;

    /// Runs every seed of a target.
    fn run(target: &str, call: fn(&[u8])) {
        let package = Path::new(env!("CARGO_MANIFEST_DIR"));
        if package.join(".cargo_vcs_info.json").exists() {
            println!("not run: the package comes without the seeds of its fuzzers");
            return;
        }
        let dir = package.join("fuzz/seeds").join(target);
        let seeds: Vec<_> = fs::read_dir(dir)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        assert!(!seeds.is_empty());
        for seed in seeds {
            // Shown only if it fails.
            println!("{}", seed.display());
            call(&fs::read(seed).unwrap());
        }
    }

    use super::*;

    #[test]
    fn seeds_of_line() {
        run("line", line);
    }

    #[test]
    fn seeds_of_scan() {
        run("scan", scan);
    }

    #[test]
    fn seeds_of_import() {
        run("import", import);
    }

    #[test]
    fn seeds_of_manifest() {
        run("manifest", manifest);
    }

    #[test]
    fn seeds_of_store() {
        run("store", store);
    }
}
