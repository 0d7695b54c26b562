//! One binary for all integration tests: it compiles and links once.

// Tests fail by panicking.
#![allow(clippy::unwrap_used, clippy::expect_used)]
// Tests are long functions, and pass by value where that reads better.
#![allow(
    clippy::too_many_lines,
    clippy::needless_pass_by_value,
    clippy::similar_names
)]

/// A record with some fields changed, like a struct expression with a base: records are
/// `#[non_exhaustive]`.
macro_rules! with {
    ($record:expr, $($field:ident $(: $value:expr)?),+ $(,)?) => {{
        let mut record = $record;
        $(record.$field = with!(@value $field $($value)?);)+
        record
    }};
    (@value $field:ident) => { $field };
    (@value $field:ident $value:expr) => { $value };
}

#[cfg(feature = "http")]
mod access;
mod analytics;
mod anything;
#[cfg(feature = "tokio")]
mod asynchronous;
mod atif;
mod auto;
mod capture;
mod cli;
mod clock;
mod comeback;
mod contract;
mod conversations;
mod crash;
mod embedded;
mod erase;
mod events;
mod faults;
mod files;
#[cfg(all(target_os = "linux", feature = "ship"))]
mod fleet;
mod follow;
#[cfg(unix)]
mod foreign;
#[cfg(target_os = "linux")]
mod full;
mod health;
mod history;
mod hook;
mod hostile;
#[cfg(feature = "http")]
mod http;
mod import;
mod inbox;
mod kept;
mod kills;
mod kinds;
mod layout;
mod live;
mod locks;
mod many;
#[cfg(feature = "mcp")]
mod mcp;
mod mixed;
mod model;
mod moved;
mod numbers;
mod parties;
mod phases;
mod power;
mod proposals;
mod races;
mod reader;
mod recovery;
mod replays;
mod rewriters;
mod rewrites;
mod rollups;
mod rules;
mod runs;
mod seals;
mod search;
mod secrets;
mod settings;
mod sidecar;
mod slow_reads;
#[cfg(feature = "tracing")]
mod spans;
mod spelling;
#[cfg(feature = "sql")]
mod sql;
mod support;
#[cfg(target_os = "linux")]
mod syscalls;
mod thoughts;
mod upkeep;
mod watch;
mod year;
