//! The records that every side gets: tool calls by number, each requested, then completed, about
//! 1 KB a line on average with a long tail. The same number is always the same call, so that
//! nobody has to keep them all.

use std::sync::LazyLock;

use decklog::{Record, ToolCallDone, ToolCallReq, ToolStatus, Validity, args_sha256};
use uuid::Uuid;

pub const START_MS: i64 = 1_766_832_000_000;

/// Calls that share a parent, unless a row asks for others.
pub const A_PARENT: usize = 5;

const TEXT_MAX: usize = 100_000;

/// Something to cut texts from.
static TEXT: LazyLock<String> = LazyLock::new(|| {
    let words = "the quick brown fox jumps over a lazy dog and then some more of it ";
    words.repeat(TEXT_MAX / words.len() + 2)
});

/// The key of a call.
pub fn key(i: usize) -> (Uuid, String) {
    let mut random = Random::of(i);
    (random.uuid(), format!("toolu_{:016x}", random.next()))
}

/// The parent of a call, where so many share one.
pub fn parent(i: usize, a_parent: usize) -> Uuid {
    Random::of(usize::MAX - i / a_parent).uuid()
}

/// A call, one of five of its parent.
pub fn call(i: usize) -> (ToolCallReq, ToolCallDone) {
    call_under(i, parent(i, A_PARENT))
}

pub fn call_under(i: usize, parent_id: Uuid) -> (ToolCallReq, ToolCallDone) {
    let (request_id, call_id) = key(i);
    let mut random = Random::of(i);
    random.next();
    // What an agent's tools return: most is short, some is a page, and now and then a whole file.
    let outcome_len = match random.below(1_000) {
        0..=1 => TEXT_MAX,
        2..=49 => 6_000,
        _ => 300 + random.below(700),
    };
    let note = random.text(200);
    let arguments = format!(r#"{{"path":"src/module_{i}.rs","note":"{note}"}}"#);
    let started = START_MS + i64::try_from(i).expect("few") * 7;
    let request = ToolCallReq {
        request_id,
        call_id: call_id.clone(),
        parent_id,
        vendor: "anthropic".into(),
        tool_name: ["Bash", "Read", "Write", "Edit", "Grep"][random.below(5)].into(),
        args_sha256: args_sha256(&arguments),
        arguments_json: Some(arguments),
        started_at: Validity::at(started),
    };
    let outcome = ToolCallDone {
        request_id,
        call_id,
        ended_at: Validity::at(started + 5),
        latency_ms: 5,
        outcome_json: Some(format!(r#"{{"stdout":"{}"}}"#, random.text(outcome_len))),
        error_kind: None,
        error_msg: None,
        status: ToolStatus::Completed,
    };
    (request, outcome)
}

/// Calls as records, in the order in which they are logged.
pub fn records(calls: std::ops::Range<usize>) -> Vec<Record> {
    let pair = |(request, outcome): (ToolCallReq, _)| [request.into(), Record::CallDone(outcome)];
    calls.flat_map(|i| pair(call(i))).collect()
}

/// A text of about this length, in a sentence or two.
pub fn text(i: usize, len: usize) -> String {
    Random::of(i).text(len).to_owned()
}

/// So many numbers below `end`, in random order; a number may come again.
pub fn picks(count: usize, end: usize) -> Vec<usize> {
    let mut random = Random(42);
    (0..count).map(|_| random.below(end)).collect()
}

/// `SplitMix64`.
struct Random(u64);

impl Random {
    fn of(i: usize) -> Random {
        Random(Random(i as u64).next())
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    fn uuid(&mut self) -> Uuid {
        Uuid::from_u64_pair(self.next(), self.next())
    }

    fn text(&mut self, len: usize) -> &'static str {
        let start = self.below(60);
        &TEXT[start..start + len]
    }
}
