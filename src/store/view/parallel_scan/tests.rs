//! The result does not depend on how the work is divided.

use proptest::prelude::*;
use uuid::Uuid;

use super::*;
use crate::line::{LINE_BYTES_MAX, encode};
use crate::record::{Event, Kind, Record};
use crate::segment::scan;
use crate::storage::Memory;

fn line(seq: u64, payload: usize) -> Vec<u8> {
    let event = Record::Event(Event {
        id: seq.cast_signed(),
        parent_id: None,
        event_type: "agent.started".into(),
        payload: Some("x".repeat(payload)),
        created_at: 0,
    });
    let mut line = Vec::new();
    encode(&event, None, seq, LINE_BYTES_MAX, &mut line).unwrap();
    line
}

/// Contents of a segment: intact, long, altered, concatenated and other lines.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let piece = (0..8u8, 0..900usize, 1..1000u64);
    prop::collection::vec(piece, 0..40).prop_map(|pieces| {
        let piece = |(class, payload, seq)| match class {
            0 => b"\n".to_vec(),
            1 => [&b"{}"[..], &line(seq, payload)].concat(),
            2 => rewritten(line(seq, payload)),
            3 => vec![b'z'; payload],
            4 => line(seq, 4 * payload),
            _ => line(seq, payload / 9),
        };
        pieces.into_iter().flat_map(piece).collect()
    })
}

fn rewritten(mut line: Vec<u8>) -> Vec<u8> {
    if let Some(place) = line.iter().position(|byte| *byte == b'x') {
        line[place] = b'y';
    }
    line
}

proptest! {
    #[test]
    fn parts_say_what_the_whole_says(
        files in prop::collection::vec((bytes(), any::<prop::sample::Index>()), 1..4),
    ) {
        let memory = Memory::new();
        let hasher = Hasher::new(Uuid::nil());
        let day = "2025-12-27".parse().unwrap();
        memory.create_dir("").unwrap();
        memory.create_dir("2025-12-27").unwrap();
        let (mut jobs, mut expected) = (Vec::new(), Vec::new());
        for (segment, (bytes, from)) in (0u32..).zip(files) {
            let (kind, number) = (Kind::Events, segment + 1);
            let name = SegmentName { day, kind, number };
            let until = bytes.len() as u64;
            // The start of a line.
            let place = if bytes.is_empty() { 0 } else { from.index(bytes.len()) };
            let before = bytes[..place].iter().rposition(|byte| *byte == b'\n');
            let from = before.map_or(0, |lf| lf as u64 + 1);
            memory.put_bytes(&name.path(), bytes);
            let identity = memory.stat(&name.path()).unwrap().identity;
            jobs.push(ScanJob { segment, name, identity, from, until });
            let file = memory.open(&name.path(), Access::Read).unwrap();
            let (mut facts, mut reports) = (Vec::new(), Vec::new());
            let scanned = scan(&*file, kind, Span { from, until, ..Span::ALL }, &mut |found| {
                reports.extend(found.report().map(|report| format!("{report:?}")));
                found.facts(kind, &mut |fact| {
                    let loc = Loc { segment, offset: fact.offset as u32 };
                    let key = hasher.entry(kind, fact.envelope, loc).key;
                    facts.push((fact.envelope.seq, loc, key, fact.is_altered));
                });
            });
            expected.push((segment, scanned.unwrap(), facts, reports));
        }
        let gathered = scan_parallel(&memory, hasher, &jobs).unwrap();
        prop_assert_eq!(gathered.len(), expected.len());
        for (read, (segment, scanned, facts, reports)) in gathered.iter().zip(expected) {
            let lines = read.runs.iter().flat_map(|run| &run.lines);
            let lines = lines.map(|line| (line.seq, line.loc, line.key, line.is_altered));
            prop_assert_eq!(lines.collect::<Vec<_>>(), facts);
            let told = read.reports.iter().filter(|report| report.class != DamageClass::Misplaced);
            let told = told.map(|report| format!("{report:?}"));
            prop_assert_eq!(told.collect::<Vec<_>>(), reports);
            prop_assert_eq!((read.segment, read.scanned), (segment, scanned));
        }
    }
}
