//! The log messages of servers.

use std::io::IsTerminal;

/// Log messages go to standard error, as JSON if the output is JSON.
pub fn start(level: &str, is_json: bool) {
    let default = format!("decklog={level}");
    let filter = tracing_subscriber::EnvFilter::builder()
        .with_env_var("DECKLOG_LOG")
        .try_from_env()
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new(default));
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(has_colours())
        .with_writer(std::io::stderr);
    // A subscriber that is already set is kept.
    let _ = if is_json {
        subscriber.json().try_init()
    } else {
        subscriber.try_init()
    };
}

/// Whether lines on standard error are coloured: on a terminal, unless `NO_COLOR` is set.
fn has_colours() -> bool {
    let is_wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    is_wanted && std::io::stderr().is_terminal()
}
