//! Every byte of a segment belongs to exactly one line, however it is read.

use super::*;
use crate::storage::Memory;

fn scan_bytes(bytes: Vec<u8>, line_bytes_max: usize) -> (Vec<(u64, u64, bool)>, Scanned) {
    let memory = Memory::new();
    memory.create_dir("").unwrap();
    memory.put_bytes("a", bytes);
    let file = memory.open("a", Access::Read).unwrap();
    let mut found = Vec::new();
    let scanned = scan_limited(
        &*file,
        Kind::ToolCalls,
        Span::ALL,
        line_bytes_max,
        &mut Vec::new(),
        &mut |line| found.push((line.offset, line.len, line.bytes.is_some())),
    );
    (found, scanned.unwrap())
}

#[test]
fn every_byte_belongs_to_one_line_or_the_tail() {
    let long = 3 * CHUNK_BYTES + 5;
    let bytes = [
        b"{}\n\n".to_vec(),
        vec![b'x'; long],
        b"\n{}\n".to_vec(),
        vec![b'y'; CHUNK_BYTES - 1],
        b"\ntail".to_vec(),
    ]
    .concat();
    let end = bytes.len() as u64 - 4;
    let (found, scanned) = scan_bytes(bytes.clone(), 2 * CHUNK_BYTES);
    let long = long as u64;
    let chunk = CHUNK_BYTES as u64;
    assert_eq!(
        found,
        [
            (0, 2, true),
            (3, 0, true),
            (4, long, false),
            (5 + long, 2, true),
            (8 + long, chunk - 1, true)
        ]
    );
    assert_eq!(
        scanned,
        Scanned {
            end,
            tail: Some(Tail {
                len: 4,
                holds_facts: false
            })
        }
    );

    let (found, _) = scan_bytes(bytes, 8 * CHUNK_BYTES);
    assert_eq!(found[2], (4, long, true));
}

#[test]
fn an_endless_tail_is_not_held_in_memory() {
    let (found, scanned) = scan_bytes(vec![0; 5 * CHUNK_BYTES], 10);
    assert!(found.is_empty());
    assert_eq!(scanned.end, 0);
    assert_eq!(scanned.tail.unwrap().len, 5 * CHUNK_BYTES as u64);
}

#[test]
fn however_a_segment_is_divided_every_line_is_in_one_part() {
    let long = vec![b'x'; 3 * CHUNK_BYTES];
    let bytes = [b"{}\n\n", &long[..], b"\n{}\n\n{}\nsome", b" tail"].concat();
    let len = bytes.len() as u64;
    let memory = Memory::new();
    memory.create_dir("").unwrap();
    memory.put_bytes("a", bytes.clone());
    let file = memory.open("a", Access::Read).unwrap();
    let edges: Vec<u64> = (0..8).chain(len - 20..=len).collect();
    for line_bytes_max in [100, 8 * CHUNK_BYTES] {
        let whole = scan_bytes(bytes.clone(), line_bytes_max);
        for cut in &edges {
            let (mut found, mut scanned) = (Vec::new(), None);
            let mut buffer = Vec::new();
            for (from, stop) in [(0, *cut), (*cut, u64::MAX)] {
                let until = len;
                let mut span = Span { from, stop, until };
                if from > 0 {
                    match first_line(&*file, span).unwrap() {
                        Some(first) => span.from = first,
                        None => continue,
                    }
                }
                if stop == 0 {
                    continue;
                }
                let mut sink = |line: Stretch<'_>| {
                    found.push((line.offset, line.len, line.bytes.is_some()));
                };
                let part = scan_limited(
                    &*file,
                    Kind::ToolCalls,
                    span,
                    line_bytes_max,
                    &mut buffer,
                    &mut sink,
                );
                scanned = Some(part.unwrap());
            }
            assert_eq!((found, scanned.unwrap()), whole, "{cut} {line_bytes_max}");
        }
    }
}
