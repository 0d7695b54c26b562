//! The log messages of servers.

use std::io::IsTerminal;

use super::output::are_colours_wanted;

/// Log messages go to standard error, as JSON if the output is JSON.
pub fn start(level: &str, is_json: bool) {
    let default = format!("decklog={level}");
    let filter = tracing_subscriber::EnvFilter::builder()
        .with_env_var("DECKLOG_LOG")
        .try_from_env()
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new(default));
    let has_colours = are_colours_wanted() && std::io::stderr().is_terminal();
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        // A full disk or a closed pipe behind standard error must not end a request: the fallback
        // is `eprintln!`, which panics.
        .log_internal_errors(false)
        .with_ansi(has_colours)
        .with_writer(std::io::stderr);
    // A subscriber that is already set is kept.
    let _ = if is_json {
        subscriber.json().try_init()
    } else {
        subscriber.try_init()
    };
}
