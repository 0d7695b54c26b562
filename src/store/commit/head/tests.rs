//! One process publishes in `HEAD`, another reads.

use super::*;
use crate::record::Kind;
use crate::storage::{Disk, Memory};

fn segment(number: u32) -> SegmentName {
    SegmentName {
        day: "9999-12-31".parse().unwrap(),
        kind: Kind::ALL[number as usize % Kind::ALL.len()],
        number,
    }
}

fn reach(number: u32, end: u64) -> Reach {
    let segment = segment(number);
    Reach { segment, end }
}

/// Runs a test on disk, where `HEAD` is mapped, and in memory, where it is not.
fn on_both(test: impl Fn(&dyn Storage)) {
    let dir = tempfile::tempdir().unwrap();
    test(&Disk::new(dir.path()));
    let memory = Memory::new();
    memory.create_dir("").unwrap();
    test(&memory);
}

#[test]
fn what_one_publishes_another_reads() {
    on_both(|storage| {
        assert!(Head::open_for_reading(storage).unwrap().is_none());
        let mut head = Head::open_for_writing(storage).unwrap();
        assert_eq!(head.header().unwrap(), None);
        let settings = head.clear().unwrap();
        let reader = Head::open_for_reading(storage).unwrap().unwrap();
        assert_eq!(reader.is_shared(), head.is_shared());
        let mut header = Header {
            commits: 7,
            last_seq: 1 << 60,
            holder: u32::MAX,
            lapped: 0,
            settings,
        };
        head.call_for_settings(&mut header).unwrap();
        assert_eq!(header.settings, settings + 1);
        head.publish(&mut header, [reach(1, 10), reach(2, 20)])
            .unwrap();
        head.publish(&mut header, [reach(1, u64::MAX)]).unwrap();
        assert_eq!(reader.header().unwrap(), Some(header));
        assert_eq!(reader.commits().unwrap(), Some(10));
        let reaches = |after| reader.changes_after(after).unwrap().unwrap().reaches;
        assert_eq!(reaches(7), [reach(1, u64::MAX), reach(2, 20)]);
        assert_eq!(reaches(9), [reach(1, u64::MAX)]);
        assert_eq!(reaches(10), []);
        // A count of another file.
        assert_eq!(reader.changes_after(11).unwrap(), None);
        let last = |head: &Head| head.last_reaches().unwrap().collect::<Vec<_>>();
        assert_eq!(last(&reader), [reach(1, u64::MAX), reach(2, 20)]);
        head.publish(&mut header, [reach(2, 30)]).unwrap();
        assert_eq!(last(&reader), [reach(2, 30), reach(1, u64::MAX)]);
    });
}

#[test]
fn more_segments_than_places_are_looked_for() {
    on_both(|storage| {
        let mut head = Head::open_for_writing(storage).unwrap();
        head.clear().unwrap();
        let mut header = head.header().unwrap().unwrap();
        let all: Vec<Reach> = (1..=SLOTS as u32 + 2)
            .map(|number| reach(number, 9))
            .collect();
        head.publish(&mut header, all).unwrap();
        assert_eq!(header.lapped, 2);
        assert_eq!(head.changes_after(1).unwrap(), None);
        assert_eq!(head.changes_after(2).unwrap().unwrap().reaches.len(), SLOTS);
        header.call_for_a_look();
        head.write_header(header).unwrap();
        assert_eq!(head.changes_after(SLOTS as u64 + 2).unwrap(), None);
        assert_eq!(
            head.changes_after(header.commits).unwrap().unwrap().reaches,
            []
        );
    });
}

#[test]
fn who_waits_is_heard_where_memory_is_shared() {
    on_both(|storage| {
        let mut head = Head::open_for_writing(storage).unwrap();
        head.clear().unwrap();
        let other = Head::open_for_writing(storage).unwrap();
        other.set_waiting_since(7);
        assert_eq!(head.is_lock_requested(), head.is_shared());
        let mut header = head.header().unwrap().unwrap();
        header.holder = std::process::id();
        head.write_header(header).unwrap();
        head.give_away();
        let is_seen = head.is_shared();
        assert_eq!(head.waiting_since(), if is_seen { 7 } else { 0 });
        head.set_waiting_since(0);
        assert!(!other.is_lock_requested());
    });
}

#[test]
fn a_name_is_one_word_and_never_none() {
    for number in [1, 2, 9, u32::MAX] {
        for day in ["1970-01-01", "9999-12-31"] {
            let name = SegmentName {
                day: day.parse().unwrap(),
                ..segment(number)
            };
            assert_eq!(SegmentName::unpack(name.pack()), Some(name));
        }
    }
    assert_eq!(SegmentName::unpack(0), None);
    assert_eq!(SegmentName::unpack(u64::MAX), None);
}
