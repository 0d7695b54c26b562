//! Content that agents wrote, as HTML. It is untrusted: all of it is escaped, nothing in it runs or
//! loads, and the size and the time of each part are bounded.

mod code;
mod diff;
mod edits;
mod json;
mod markdown;

use std::cell::Cell;
use std::time::{Duration, Instant};

use maud::{Markup, html};

pub(super) use self::code::code;
pub(super) use self::diff::texts as diff_of_texts;
pub(super) use self::edits::{Edit, edits_of, shown as shown_edits};
pub(super) use self::json::{arguments, json};
pub(super) use self::markdown::markdown;
use super::text::cut;
use crate::human::bytes;

/// Maximum number of bytes of one text.
pub(super) const TEXT_BYTES_MAX: usize = 24 << 10;
/// Maximum number of bytes of a text where the reader asked for the whole.
pub(super) const WHOLE_BYTES_MAX: usize = 1 << 20;
/// Time in which the texts of a page are highlighted. The rest is shown plain.
const HIGHLIGHT_TIME: Duration = Duration::from_millis(150);

/// What a page may still spend on content.
#[derive(Debug)]
pub(super) struct Budget {
    text_max: usize,
    highlight: Cell<Duration>,
}

impl Budget {
    /// For a page with many texts.
    pub fn of_page() -> Budget {
        Budget {
            text_max: TEXT_BYTES_MAX,
            highlight: Cell::new(HIGHLIGHT_TIME),
        }
    }

    /// For a page of one record.
    pub fn of_record() -> Budget {
        Budget {
            text_max: WHOLE_BYTES_MAX,
            ..Budget::of_page()
        }
    }

    /// The part of a text that is shown, and a note about the rest.
    fn cut<'t>(&self, text: &'t str) -> (&'t str, Markup) {
        let (start, left_out) = cut(text, self.text_max);
        let note = html! {
            @if left_out > 0 {
                p.note { (bytes(left_out as u64)) " more. The record has the whole text." }
            }
        };
        (start, note)
    }

    /// Runs a highlighter while there is time for it. It gets the time at which it must end.
    fn highlighted<T>(&self, run: impl FnOnce(Instant) -> T) -> Option<T> {
        let left = self.highlight.get();
        if left.is_zero() {
            return None;
        }
        let begun = Instant::now();
        let done = run(begun + left);
        self.highlight.set(left.saturating_sub(begun.elapsed()));
        Some(done)
    }
}

/// A text with its line breaks.
pub(super) fn plain(text: &str, budget: &Budget) -> Markup {
    let (text, note) = budget.cut(text);
    html! {
        div.plain { (text) }
        (note)
    }
}

/// The output of a tool: JSON or text.
pub(super) fn output(text: &str, budget: &Budget) -> Markup {
    let start = text.trim_start();
    if start.starts_with(['{', '[']) && serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
    {
        return json(text, budget);
    }
    let (text, note) = budget.cut(text);
    if diff::is_patch(text) {
        return html! { (diff::patch(text)) (note) };
    }
    html! {
        pre.output tabindex="0" { (text) }
        (note)
    }
}
