//! For any damaged session file, the import terminates, accounts for every line and can be
//! repeated.

use std::fs;

use proptest::prelude::*;

use super::log::MemoryLog;
use super::{held, sample};
use crate::import::{Format, Importer};

#[derive(Debug, Clone)]
enum Harm {
    Swap(usize, usize),
    Repeat(usize, usize),
    SetByte(usize, usize, u8),
    Cut(usize, usize),
    /// Replace a value of one line by a value of another line.
    Exchange(usize, usize),
}

fn harm() -> impl Strategy<Value = Harm> {
    let n = any::<usize>;
    prop_oneof![
        (n(), n()).prop_map(|(a, b)| Harm::Swap(a, b)),
        (n(), n()).prop_map(|(a, b)| Harm::Repeat(a, b)),
        (n(), n(), any::<u8>()).prop_map(|(a, b, byte)| Harm::SetByte(a, b, byte)),
        (n(), n()).prop_map(|(a, b)| Harm::Cut(a, b)),
        (n(), n()).prop_map(|(a, b)| Harm::Exchange(a, b)),
    ]
}

fn apply(lines: &mut Vec<Vec<u8>>, harm: &Harm) {
    let count = lines.len();
    match *harm {
        Harm::Swap(a, b) => lines.swap(a % count, b % count),
        Harm::Repeat(a, b) => lines.insert(a % count, lines[b % count].clone()),
        Harm::SetByte(a, b, byte) => {
            let line = &mut lines[a % count];
            let at = b % line.len().max(1);
            if let Some(old) = line.get_mut(at) {
                *old = byte;
            }
        }
        Harm::Cut(a, b) => {
            let line = &mut lines[a % count];
            line.truncate(b % line.len().max(1));
        }
        Harm::Exchange(a, b) => {
            let text = |n: usize| String::from_utf8_lossy(&lines[n % count]).into_owned();
            let (a_text, b_text) = (text(a), text(b));
            let id = |text: &str| -> Option<String> {
                let at = text.find("\"call_").or_else(|| text.find("\"toolu_"))?;
                Some(text.get(at..)?.split('"').nth(1)?.to_owned())
            };
            if let (Some(old), Some(new)) = (id(&a_text), id(&b_text)) {
                lines[a % count] = a_text.replace(&old, &new).into_bytes();
            }
        }
    }
}

proptest! {
    #[test]
    fn every_line_is_accounted_for_and_a_second_import_adds_nothing(
        name in prop_oneof![Just("claude-code-session.jsonl"), Just("codex-rollout.jsonl")],
        harms in prop::collection::vec(harm(), 0..12),
    ) {
        let bytes = fs::read(sample(name)).unwrap();
        let mut lines: Vec<Vec<u8>> =
            bytes.trim_ascii().split(|b| *b == b'\n').map(<[u8]>::to_vec).collect();
        for harm in &harms {
            apply(&mut lines, harm);
        }
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name);
        let bytes = lines.join(&b'\n');
        fs::write(&path, &bytes).unwrap();
        let format = if name.starts_with("codex") { Format::Codex } else { Format::ClaudeCode };

        let log = MemoryLog::default();
        let import = || {
            let mut importer = Importer::over(&log).format(Some(format));
            importer.path(&path).unwrap();
            importer.finish().unwrap()
        };
        let first = import();
        let filled = bytes.split(|b| *b == b'\n').filter(|line| !line.trim_ascii().is_empty());
        prop_assert_eq!(first.lines, filled.count() as u64);
        let second = import();
        prop_assert_eq!(second.added, 0);
        prop_assert_eq!(held(&second), held(&first));
    }
}
