//! Two runs of a task side by side.

use maud::{Markup, html};
use similar::{Algorithm, DiffOp, capture_diff_slices};
use uuid::Uuid;

use super::conversations::{Whole, href, lasted, title_of, tokens};
use super::layout::Page;
use super::message::{sort, summary};
use super::params::Params;
use super::text::time;
use super::{Answer, Refusal, Site};
use crate::collections::{ConversationQuery, MessageQuery};
use crate::error::Result;
use crate::human::{count, dollars};
use crate::record::ConversationMessage;

/// Number of steps of a run that are compared.
const STEPS_MAX: usize = 1_000;
const STEP_CHARS: usize = 160;
const CANDIDATES: usize = 50;

/// Two runs side by side.
pub(super) fn page(site: &Site<'_>, params: &Params) -> Answer {
    let Some(a) = params.read::<Uuid>("a")? else {
        return Err(Refusal::Missing("Choose a conversation first.".to_owned()));
    };
    let whole = |id: Uuid| {
        let found = site.store.get_conversation(id)?;
        found.ok_or_else(|| Refusal::Missing(format!("There is no conversation {id}.")))
    };
    let first = whole(a)?;
    let main = match params.read::<Uuid>("b")? {
        Some(b) => side_by_side(site, &first, &whole(b)?)?,
        None => candidates(site, &first)?,
    };
    Ok(Page::new("Compare runs", "/ui/conversations", main))
}

/// Conversations to compare with: first those with the same title.
fn candidates(site: &Site<'_>, first: &Whole) -> Result<Markup> {
    let query = ConversationQuery {
        project: first.0.project.clone(),
        limit: CANDIDATES,
        ..ConversationQuery::default()
    };
    let title = title_of(site.store, &first.0)?;
    let mut others = Vec::new();
    for whole in site.store.conversations(&query)?.items {
        if whole.0.id != first.0.id && whole.0.parent_id == first.0.parent_id {
            others.push((title_of(site.store, &whole.0)?, whole));
        }
    }
    others.sort_by_key(|(other, _)| *other != title);
    Ok(html! {
        h1 { "Compare " a href=(href(first.0.id)) { (title) } " with" }
        @if others.is_empty() { p.empty { "No other conversation of this project." } }
        ul.lines.card {
            @for (title, (other, stats)) in &others {
                li data-item {
                    a href=(super::params::href("/ui/compare", &[("a", &first.0.id.to_string()), ("b", &other.id.to_string())])) { (title) }
                    " " small { (time(other.created_at.at())) ", " (count(stats.message_count)) " messages, " (stats.models_used.join(", ")) }
                }
            }
        }
    })
}

/// The two sides of a row; a missing one has no such step.
type Row<'m> = (
    Option<&'m ConversationMessage>,
    Option<&'m ConversationMessage>,
    bool,
);

fn side_by_side(site: &Site<'_>, first: &Whole, second: &Whole) -> Result<Markup> {
    let query = MessageQuery {
        limit: STEPS_MAX,
        ..MessageQuery::default()
    };
    let read = |whole: &Whole| {
        site.store
            .messages(whole.0.id, &query)
            .map(|page| page.items)
    };
    let (a, b) = (read(first)?, read(second)?);
    let rows = aligned(&a, &b);
    let apart = rows.iter().position(|(.., is_same)| !is_same);
    let titles = [first, second].map(|whole| title_of(site.store, &whole.0));
    let [title_a, title_b] = titles;
    let (title_a, title_b) = (title_a?, title_b?);
    let cost = |messages: &[ConversationMessage]| {
        let costs = messages.iter().filter_map(|it| it.cost_usd);
        let sum: f64 = costs.sum();
        if sum > 0.0 {
            dollars(sum)
        } else {
            "not recorded".to_owned()
        }
    };
    let failures =
        |messages: &[ConversationMessage]| messages.iter().filter(|it| it.is_failure()).count();
    Ok(html! {
        h1 { "Two runs side by side" }
        div.scroll {
            table.steps {
                thead { tr {
                    th scope="col" { a href=(href(first.0.id)) { (title_a) } }
                    th scope="col" { a href=(href(second.0.id)) { (title_b) } }
                } }
                tbody {
                    tr { @for (whole, messages) in [(first, &a), (second, &b)] {
                        td {
                            (count(whole.1.message_count)) " messages, " (lasted(&whole.0)) ", "
                            (tokens(whole.1.total_tokens_in)) " tokens in, " (tokens(whole.1.total_tokens_out)) " out"
                            br; "Failures: " (failures(messages)) ", cost: " (cost(messages))
                            br; span.soft { (whole.1.models_used.join(", ")) }
                        }
                    } }
                }
            }
        }
        p {
            @match apart {
                Some(nth) => { "They part at step " a href="#apart" { (nth + 1) } "." },
                None => "All steps are the same.",
            }
        }
        div.scroll {
            table.steps {
                thead { tr { th scope="col" { "First run" } th scope="col" { "Second run" } } }
                tbody {
                    @for (nth, (left, right, is_same)) in rows.iter().enumerate() {
                        tr.apart[!is_same] id=[(apart == Some(nth)).then_some("apart")] data-item data-failed[[left, right].iter().any(|it| it.is_some_and(ConversationMessage::is_failure))] {
                            td { (step(*left)) }
                            td { (step(*right)) }
                        }
                    }
                }
            }
        }
        @if a.len() == STEPS_MAX || b.len() == STEPS_MAX {
            p.note { "The first " (count(STEPS_MAX as u64)) " messages of each run are compared." }
        }
    })
}

fn step(message: Option<&ConversationMessage>) -> Markup {
    html! {
        @if let Some(message) = message {
            strong { (sort(message)) } " "
            @if message.is_failure() { span.tag.failed { "failed" } " " }
            a href={ (href(message.conversation_id)) "?at=" (message.sequence.unwrap_or(0)) } { "#" (message.sequence.unwrap_or(0)) }
            " " (summary(message, STEP_CHARS))
        }
    }
}

/// Aligns the steps of two runs. Steps are the same if they are of the same sort and have the same
/// text; the text of thinking differs in every run and does not count.
fn aligned<'m>(a: &'m [ConversationMessage], b: &'m [ConversationMessage]) -> Vec<Row<'m>> {
    let keys = |messages: &[ConversationMessage]| -> Vec<(&'static str, String)> {
        let key = |message: &ConversationMessage| {
            let sort = sort(message);
            let text = match sort {
                "Thinking" => String::new(),
                _ => [
                    message.tool_name.as_deref(),
                    Some(message.content.as_str()),
                    message.tool_args.as_deref(),
                    message.tool_result.as_deref(),
                ]
                .into_iter()
                .flatten()
                .collect(),
            };
            (sort, text)
        };
        messages.iter().map(key).collect()
    };
    let (of_a, of_b) = (keys(a), keys(b));
    let mut rows = Vec::new();
    for op in capture_diff_slices(Algorithm::Myers, &of_a, &of_b) {
        let is_same = matches!(op, DiffOp::Equal { .. });
        let (mut left, mut right) = (op.old_range(), op.new_range());
        loop {
            let row = (
                left.next().and_then(|nth| a.get(nth)),
                right.next().and_then(|nth| b.get(nth)),
            );
            if let (None, None) = row {
                break;
            }
            rows.push((row.0, row.1, is_same));
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Role;

    fn message(role: Role, text: &str) -> ConversationMessage {
        ConversationMessage::new(Uuid::nil(), role, text)
    }

    #[test]
    fn runs_are_aligned_and_their_parting_is_found() {
        let a = ["fix it", "ls", "edit a", "done"].map(|text| message(Role::User, text));
        let b = ["fix it", "edit b", "done"].map(|text| message(Role::User, text));
        let rows = aligned(&a, &b);
        let texts: Vec<_> = rows
            .iter()
            .map(|(left, right, is_same)| {
                (
                    left.map(|it| &*it.content),
                    right.map(|it| &*it.content),
                    *is_same,
                )
            })
            .collect();
        assert_eq!(
            texts,
            [
                (Some("fix it"), Some("fix it"), true),
                (Some("ls"), Some("edit b"), false),
                (Some("edit a"), None, false),
                (Some("done"), Some("done"), true),
            ]
        );
    }
}
