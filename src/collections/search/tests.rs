//! Tests with segments of many strides: they read a few hundred bytes at a time.

use super::*;
use crate::record::{ConversationTurn, Event, Record, TurnKind, Validity};

const DAY_1: i64 = 1_766_793_600_000;
const DAY_MS: i64 = 86_400_000;

/// `SplitMix64`.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }
}

/// A record of a random kind, length and day; and whether a search finds it, and on which day.
fn record(n: u64, dice: &mut Dice) -> (Record, Option<u64>) {
    let day = dice.below(3);
    let at = DAY_1 + day.cast_signed() * DAY_MS;
    let is_found = dice.below(3) > 0;
    // Some are longer than a stride.
    let len = [10, 10, 10, 300, 3_000][dice.below(5) as usize];
    let word = if is_found { "Needle" } else { "nothing" };
    let text = format!("{} {word} {n}", "x".repeat(len));
    let found = is_found.then_some(day);
    if dice.below(2) == 0 {
        let mut event = Event::new(None, "test.said");
        event.created_at = at;
        event.payload = Some(format!("\"{text}\""));
        return (event.into(), found);
    }
    let turn = ConversationTurn {
        id: Uuid::from_u128(n.into()),
        parent_id: None,
        message_id: Uuid::from_u128(n.into()),
        kind: TurnKind::User,
        content: text,
        created_at: Validity::at(at),
        thread_id: None,
    };
    (turn.into(), found)
}

fn query(limit: usize, after: Option<SearchCursor>) -> SearchQuery {
    SearchQuery {
        text: "needle".into(),
        limit,
        after,
        ..SearchQuery::default()
    }
}

/// A store, and the sequence numbers of the lines that match, in order.
fn filled(dir: &tempfile::TempDir, dice: &mut Dice) -> (Store, Vec<u64>) {
    let options = Store::options().segment_bytes_max(20 << 10).upkeep(false);
    let store = options.open(dir.path().join("log")).unwrap();
    let mut expected = Vec::new();
    for n in 1..400 {
        let (record, found) = record(n, dice);
        let seq = store.record(record).unwrap().seq;
        expected.extend(found.map(|day| (Reverse(day), Reverse(seq))));
    }
    expected.sort_unstable();
    let seqs = expected.into_iter().map(|(_, Reverse(seq))| seq);
    (store, seqs.collect())
}

#[test]
fn strides_are_the_whole_log() {
    for seed in 0..4 {
        let dir = tempfile::tempdir().unwrap();
        let mut dice = Dice(seed);
        let (store, expected) = filled(&dir, &mut dice);
        let seqs =
            |found: &Found| -> Vec<u64> { found.matches.iter().map(|found| found.seq).collect() };
        let all = store.search(&query(usize::MAX, None)).unwrap();
        assert_eq!(seqs(&all), expected);

        // In pages.
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let limit = 1 + dice.below(40) as usize;
            let page = store.search(&query(limit, after)).unwrap();
            assert_eq!(page.matches.len() < limit, page.next.is_none());
            found.extend(seqs(&page));
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(found, expected);

        // The search is interrupted repeatedly.
        let (mut found, mut after, mut breaks) = (Vec::new(), None, 0);
        loop {
            let limit = 1 + dice.below(40) as usize;
            let mut left = dice.below(4);
            let mut go_on = |progress: SearchProgress| {
                assert!(progress.bytes_read <= progress.bytes_all);
                left = left.saturating_sub(1);
                match left {
                    0 => ControlFlow::Break(()),
                    _ => ControlFlow::Continue(()),
                }
            };
            let part = store.search_with(&query(limit, after), &mut go_on).unwrap();
            found.extend(seqs(&part));
            breaks += u32::from(!part.is_whole);
            assert!(breaks < 5_000, "it never ends");
            after = part.next;
            if after.is_none() {
                break;
            }
        }
        assert!(breaks > 20, "{breaks}");
        assert_eq!(found, expected);
    }
}

#[test]
fn a_few_matches_take_a_few_reads() {
    let dir = tempfile::tempdir().unwrap();
    let (store, expected) = filled(&dir, &mut Dice(9));
    let read = |query: &SearchQuery| {
        let mut last = 0;
        let mut go_on = |progress: SearchProgress| {
            last = progress.bytes_read;
            ControlFlow::Continue(())
        };
        let found = store.search_with(query, &mut go_on).unwrap();
        (found, last)
    };
    let (_, all) = read(&query(usize::MAX, None));
    assert!(all > 100_000, "{all}");
    let (found, few) = read(&query(3, None));
    assert!(few < all / 10, "{few} of {all}");
    assert_eq!(found.matches[2].seq, expected[2]);
}
