//! What servers tell of themselves.

/// What is worth telling goes to standard error, as JSON if the output is.
pub fn start(level: &str, is_json: bool) {
    let default = format!("decklog={level}");
    let filter = tracing_subscriber::EnvFilter::builder()
        .with_env_var("DECKLOG_LOG")
        .try_from_env()
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new(default));
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    // Someone who has set one already, keeps it.
    let _ = if is_json {
        subscriber.json().try_init()
    } else {
        subscriber.try_init()
    };
}
