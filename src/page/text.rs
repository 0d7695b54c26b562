//! Times and parts of texts on the page.

use maud::{Markup, html};

use crate::record::Timestamp;

/// A time in epoch milliseconds. The script shows it in local time.
pub(super) fn time(at: i64) -> Markup {
    let Ok(time) = Timestamp::from_ms(at) else {
        // Only a forged line has such a time.
        return html! { (at) " ms" };
    };
    let text = time.as_str();
    let shown = text.get(..19).unwrap_or(text).replace('T', " ");
    html! { time datetime=(text) { (shown) " UTC" } }
}

/// The start of a text of at most this number of bytes, and the number of bytes that are left out.
pub(super) fn cut(text: &str, bytes_max: usize) -> (&str, usize) {
    let end = text.floor_char_boundary(bytes_max);
    (&text[..end], text.len() - end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_between_characters() {
        assert_eq!(cut("äöü", 3), ("ä", 4));
    }
}
