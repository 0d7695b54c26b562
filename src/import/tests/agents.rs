//! What every importer promises: an import that is repeated adds nothing, a session that grows
//! comes to what it is whole, and no file makes it fail.

use std::fs;
use std::path::Path;

use proptest::prelude::*;

use super::log::MemoryLog;
use super::{held, import_path, sample};
use crate::import::agent::Home;
use crate::import::{Format, Importer, Report};

/// The bytes of a sample. Samples of lines are named `.ndjson` there, so that an import of the
/// folder passes over them.
pub(super) fn bytes(name: &str) -> Vec<u8> {
    fs::read(sample(name)).unwrap()
}

/// Imports a file under this name and again, and compares with imports of a file that grows: by its
/// lines, and by half a line.
pub(super) fn lines_that_grow(name: &str, bytes: &[u8]) -> (MemoryLog, Report) {
    let ends = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
    let mut cuts = vec![0];
    for (end, _) in ends {
        let half = (cuts.last().unwrap() + end) / 2;
        cuts.extend([half, end + 1]);
    }
    let versions: Vec<&[u8]> = cuts.iter().map(|cut| &bytes[..*cut]).collect();
    versions_that_grow(name, &versions, bytes)
}

/// Like [`lines_that_grow`], with these versions of the file before the last one.
pub(super) fn versions_that_grow(
    name: &str,
    versions: &[&[u8]],
    last: &[u8],
) -> (MemoryLog, Report) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let import = |log: &MemoryLog, bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        let first = import_path(log, &path);
        let second = import_path(log, &path);
        assert_eq!(second.added, 0, "{name}, {} bytes", bytes.len());
        assert_eq!(held(&second), held(&first), "{name}");
        first
    };
    let whole = MemoryLog::default();
    let report = import(&whole, last);
    let step_by_step = MemoryLog::default();
    for version in versions {
        let cut = MemoryLog::default();
        for bytes in [version, last] {
            import(&cut, bytes);
        }
        let is_same = cut.content() == whole.content();
        assert!(is_same, "{name}: {}", String::from_utf8_lossy(version));
        import(&step_by_step, version);
    }
    import(&step_by_step, last);
    assert!(step_by_step.content() == whole.content(), "{name}");
    (whole, report)
}

/// Imports these files of a folder.
pub(super) fn folder(log: &MemoryLog, files: &[(&str, &[u8])]) -> Report {
    let dir = tempfile::tempdir().unwrap();
    for (name, bytes) in files {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
    import_path(log, dir.path())
}

/// The counts of a report: turns, calls, results, conversations, messages, API responses.
pub(super) fn sizes(report: &Report) -> [u64; 6] {
    [
        report.turns,
        report.tool_calls,
        report.tool_results,
        report.conversations,
        report.messages,
        report.api_responses,
    ]
}

/// Tokens in, out, written to and read from a cache, and of reasoning.
pub(super) fn tokens(report: &Report) -> [u64; 5] {
    [
        report.tokens_in,
        report.tokens_out,
        report.tokens_cache_write,
        report.tokens_cache_read,
        report.tokens_reasoning,
    ]
}

#[test]
fn the_places_are_below_the_home() {
    let home = Home::at(Path::new("/home/me"));
    for (format, place) in [
        (Format::CopilotCli, "/home/me/.copilot/session-state"),
        (Format::GeminiCli, "/home/me/.gemini/tmp"),
        (Format::Pi, "/home/me/.pi/agent/sessions"),
        (Format::QwenCode, "/home/me/.qwen/projects"),
    ] {
        let places = format.agent().places(&home);
        assert!(places.contains(&place.into()), "{places:?}");
    }
}

const SAMPLES: [(Format, &str, &str); 9] = [
    (
        Format::ClaudeCode,
        "claude-code/usage-alpha.ndjson",
        "x.jsonl",
    ),
    (Format::Codex, "codex/newest.ndjson", "rollout-x.jsonl"),
    (
        Format::CopilotCli,
        "copilot-cli/subagent.ndjson",
        "x/events.jsonl",
    ),
    (Format::CopilotCli, "copilot-cli/usage.ndjson", "x.jsonl"),
    (
        Format::GeminiCli,
        "gemini-cli/session.json",
        "chats/session-1.json",
    ),
    (
        Format::GeminiCli,
        "gemini-cli/chat.ndjson",
        "chats/session-1.jsonl",
    ),
    (Format::Pi, "pi/session.ndjson", "2025_x.jsonl"),
    (Format::Pi, "pi/compaction.ndjson", "2025_x.jsonl"),
    (Format::QwenCode, "qwen-code/session.ndjson", "x.jsonl"),
];

/// Values that no member expects.
const ODD: [&str; 8] = [
    "null", "7", "-1e400", "\"\"", "[]", "{}", "[null]", "\"2026\"",
];

fn harmed(bytes: &mut Vec<u8>, (kind, at, with): (u8, usize, usize)) {
    if bytes.is_empty() {
        return;
    }
    let at = at % bytes.len();
    let colons = || {
        let colons = bytes.iter().enumerate().filter(|(_, byte)| **byte == b':');
        colons.map(|(place, _)| place + 1).collect::<Vec<_>>()
    };
    match kind {
        0 => bytes[at] = with as u8,
        1 => bytes.truncate(at),
        2 => {
            let end = (at + with % 200).min(bytes.len());
            bytes.drain(at..end);
        }
        3 => {
            let end = (at + with % 2000).min(bytes.len());
            let part = bytes[at..end].to_vec();
            bytes.splice(at..at, part);
        }
        // The value of a member becomes another one.
        _ => {
            let colons = colons();
            if let Some(start) = colons.get(at % colons.len().max(1)) {
                let value = bytes[*start..].iter();
                let end = value.take_while(|byte| !b",}]\n".contains(byte)).count();
                let odd = ODD[with % ODD.len()].bytes();
                bytes.splice(*start..*start + end, odd);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn a_damaged_session_ends_and_a_second_import_adds_nothing(
        sample in 0..SAMPLES.len(),
        harms in prop::collection::vec((0..6_u8, any::<usize>(), any::<usize>()), 0..8),
    ) {
        let (format, sample, name) = SAMPLES[sample];
        let mut bytes = bytes(sample);
        for harm in harms {
            harmed(&mut bytes, harm);
        }
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, &bytes).unwrap();
        let log = MemoryLog::default();
        let import = |path: &Path| {
            let mut importer = Importer::over(&log).format(Some(format));
            importer.path(path).unwrap();
            importer.finish().unwrap()
        };
        let first = import(&path);
        let second = import(&path);
        prop_assert_eq!(second.added, 0);
        prop_assert_eq!(held(&second), held(&first));
    }
}
