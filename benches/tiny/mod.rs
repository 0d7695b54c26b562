//! How much a bench does where nothing is asked but that it runs.

/// The usual size or, with `DECKLOG_BENCH_TINY=1`, a tiny one, whose figures say nothing.
pub fn size<T>(usual: T, tiny: T) -> T {
    match std::env::var("DECKLOG_BENCH_TINY") {
        Ok(value) if value == "1" => tiny,
        _ => usual,
    }
}
