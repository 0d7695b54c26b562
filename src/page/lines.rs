//! The lines of the log behind a record.

use maud::html;

use super::content::{Budget, json};
use super::layout::Page;
use super::params::href;
use super::{Answer, Refusal, Site};
use crate::human::{bytes, count};
use crate::record::Key;

/// The address of the lines of a tool call.
pub(super) fn of_call(request_id: &str, call_id: &str) -> String {
    href(
        &format!("/ui/lines/calls/{request_id}"),
        &[("call", call_id)],
    )
}

pub(super) fn page(site: &Site<'_>, key: &Key) -> Answer {
    let lines = site.store.lines_of(key)?;
    if lines.is_empty() {
        return Err(Refusal::Missing(format!("There is no {key}.")));
    }
    let budget = Budget::of_record();
    let main = html! {
        h1 { "Lines of " (key) }
        p.soft { "In the files of the store, in the order in which they were written." }
        @for line in &lines {
            section.card data-item {
                h2 { code { (line.file) } }
                p.soft { "Byte " (count(line.offset)) ", sequence number " (count(line.seq)) ", " (bytes(line.text.len() as u64)) }
                (json(&line.text, &budget))
                details {
                    summary { "The line as it is" }
                    @let (text, left_out) = super::text::cut(&line.text, super::content::WHOLE_BYTES_MAX);
                    pre tabindex="0" { (text) }
                    @if left_out > 0 {
                        p.note { (bytes(left_out as u64)) " more." }
                    }
                }
            }
        }
    };
    Ok(Page::new(format!("Lines of {key}"), "", main))
}
