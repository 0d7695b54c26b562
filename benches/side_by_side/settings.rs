//! How much is measured.

use crate::tiny;

/// Sizes, each from an environment variable.
pub struct Settings {
    /// `DECKLOG_BENCH_CALLS`: tool calls to append in a round, two lines each; also the turns,
    /// events and entries of chats to query. Default: 20,000.
    pub calls: usize,
    /// `DECKLOG_BENCH_ROUNDS`: rounds to take medians of. Default: 5.
    pub rounds: usize,
    /// `DECKLOG_BENCH_OPEN_LINES`: lines of the store to open and to read from, about 1 KB each.
    /// Default: 200,000; the full size is 2,000,000.
    pub open_lines: usize,
    /// `DECKLOG_BENCH_GROWTH`: sizes of stores to compare, in lines, the smallest first.
    /// Default: `50000,400000`; the full one is `100000,1000000,10000000`.
    pub growth: Vec<usize>,
    /// `DECKLOG_BENCH_READS`: random reads in a round. Default: 20,000.
    pub reads: usize,
    /// `DECKLOG_BENCH_SYNCED`: records that each of the 16 threads waits for the disk for in a
    /// round. Default: 30.
    pub synced: usize,
    /// `DECKLOG_BENCH_CAPTURED`: messages captured in a round, 50,000 a second. Default: 20,000.
    pub captured: usize,
    /// `DECKLOG_BENCH_IMPORT_MB`: megabytes of session files to import. Default: 48.
    pub import_mb: usize,
}

impl Settings {
    pub fn from_env() -> Settings {
        let mut growth: Vec<usize> = std::env::var("DECKLOG_BENCH_GROWTH")
            .unwrap_or_else(|_| tiny::size("50000,400000", "200,400").into())
            .split(',')
            .filter_map(number)
            .collect();
        growth.sort_unstable();
        Settings {
            calls: setting("CALLS", tiny::size(20_000, 100)),
            rounds: setting("ROUNDS", tiny::size(5, 1)),
            open_lines: setting("OPEN_LINES", tiny::size(200_000, 1_000)),
            growth,
            reads: setting("READS", tiny::size(20_000, 200)),
            synced: setting("SYNCED", tiny::size(30, 2)),
            captured: setting("CAPTURED", tiny::size(20_000, 200)),
            import_mb: setting("IMPORT_MB", tiny::size(48, 1)),
        }
    }
}

fn setting(name: &str, default: usize) -> usize {
    let value = std::env::var(format!("DECKLOG_BENCH_{name}"));
    let given = value.ok().and_then(|value| number(&value));
    given.unwrap_or(default).max(1)
}

fn number(text: &str) -> Option<usize> {
    text.trim().replace('_', "").parse().ok()
}
