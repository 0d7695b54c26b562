//! Times on a screen. Always UTC.

use chrono::DateTime;

/// The time as a table shows it.
pub fn shown(at: i64) -> String {
    DateTime::from_timestamp_millis(at).map_or_else(
        || at.to_string(),
        |time| time.format("%Y-%m-%d %H:%M:%S%.3f").to_string(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_can_be_given() {
        let at = 1_766_793_600_007;
        assert_eq!(shown(at), "2025-12-27 00:00:00.007");
        assert_eq!(decklog::record::epoch_ms(&shown(at)).unwrap(), at);
    }
}
