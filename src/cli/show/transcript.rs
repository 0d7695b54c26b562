//! Conversations as people read them: a heading for each message at the margin, and its content
//! below, further indented, so that no content can imitate a heading.

use std::borrow::Cow;
use std::io;

use decklog::human::{counted, duration, short, tool_arguments};
use decklog::record::ConversationStats;
use decklog::{Conversation, ConversationMessage, Role};

use super::LABEL_COLUMNS;
use super::message::{used, why_failed};
use crate::cli::escape::{clipped, lines, one_line};
use crate::cli::output::{Colour, Output, Span};
use crate::cli::time;

/// Columns before the text of a message, and before that of its parts.
const TEXT_COLUMNS: usize = 4;
const PART_COLUMNS: usize = 2 + LABEL_COLUMNS;
/// Number of lines at the start and at the end of a result or an instruction that are shown unless
/// all are wanted.
const LINES_IN_BRIEF: usize = 2;
/// Maximum columns of such a line.
const BRIEF_COLUMNS: usize = 200;
/// The heading of a transcript: what the conversation is about, and its totals.
pub fn header(
    out: &mut Output,
    title: Option<&str>,
    (conversation, stats): &(Conversation, ConversationStats),
) -> io::Result<()> {
    let title = one_line(title.unwrap_or("(no title)"));
    wrapped(out, &title, 0, Some(Colour::Bold))?;
    let of = [
        Some(conversation.id.to_string()),
        Some(conversation.client.to_string()),
        conversation.project.clone(),
        conversation.workspace.clone(),
    ];
    let from = conversation.created_at.at();
    let totals = [
        Some(time::formatted(from, "%Y-%m-%d %H:%M")),
        Some(format!("lasted {}", duration(conversation.lasted_ms()))),
        Some(conversation.status.to_string()),
        Some(counted(stats.message_count, "message")),
        Some(format!(
            "{} tokens in, {} out",
            short(decklog::human::float(stats.total_tokens_in)),
            short(decklog::human::float(stats.total_tokens_out))
        )),
    ];
    let models = (!stats.models_used.is_empty()).then(|| stats.models_used.join(", "));
    for facts in [&of[..], &totals[..], &[models]] {
        let facts: Vec<&str> = facts.iter().flatten().map(String::as_str).collect();
        if !facts.is_empty() {
            wrapped(out, &one_line(&facts.join(" · ")), 2, Some(Colour::Dim))?;
        }
    }
    match &conversation.last_error {
        Some(error) => part(out, "! error", error, Some(Colour::Red)),
        None => Ok(()),
    }
}

/// The messages of a transcript, in their order.
#[derive(Debug)]
pub struct Messages {
    /// With the whole arguments and results of tools and the whole instructions.
    in_full: bool,
    /// Day and model of the message before.
    day: Option<String>,
    model: Option<String>,
}

impl Messages {
    pub fn new(in_full: bool) -> Messages {
        Messages {
            in_full,
            day: None,
            model: None,
        }
    }

    pub fn print(&mut self, out: &mut Output, message: &ConversationMessage) -> io::Result<()> {
        let failure = why_failed(message);
        out.line("")?;
        self.head(out, message, failure.is_some())?;
        if let Some(reasoning) = some(message.reasoning.as_ref()) {
            part(out, "thinking", reasoning, Some(Colour::Dim))?;
        }
        if let Some(failure) = &failure {
            part(out, "! error", failure, Some(Colour::Red))?;
        }
        let error = some(message.error.as_ref());
        // An error is shown once.
        let content = some(Some(&message.content)).filter(|content| error != Some(*content));
        match (message.role, content) {
            (_, None) => {}
            (Role::System | Role::Tool, Some(content)) if !self.in_full => {
                brief(out, "", content, TEXT_COLUMNS)?;
            }
            (_, Some(content)) => wrapped(out, &lines(content), TEXT_COLUMNS, None)?,
        }
        if message.role != Role::Tool {
            call(out, message, self.in_full)?;
        } else if let Some(arguments) = message.tool_args.as_ref().filter(|_| self.in_full) {
            part(out, "arguments", arguments, None)?;
        }
        match some(message.tool_result.as_ref()) {
            Some(result) if self.in_full => part(out, "← result", result, None),
            Some(result) => brief(out, "← result", result, PART_COLUMNS),
            None => Ok(()),
        }
    }

    /// The number of a message, its role, its time, and what it used. The day and the model are
    /// shown where they change.
    fn head(
        &mut self,
        out: &mut Output,
        message: &ConversationMessage,
        is_failed: bool,
    ) -> io::Result<()> {
        let at = message.timestamp.at();
        let colour = match message.role {
            _ if is_failed => Colour::Red,
            Role::User => Colour::Green,
            Role::Assistant => Colour::Cyan,
            Role::System | Role::Tool => Colour::Yellow,
        };
        let day = Some(time::formatted(at, "%Y-%m-%d"));
        let mut facts = Vec::new();
        if self.day != day {
            facts.extend(day.clone());
            self.day = day;
        }
        facts.push(time::formatted(at, "%H:%M:%S"));
        if message.model_used.is_some() && self.model != message.model_used {
            self.model.clone_from(&message.model_used);
            facts.extend(self.model.clone());
        }
        facts.extend(used(message));
        let number = format!("#{}  ", message.sequence.unwrap_or_default());
        let facts = format!("  {}", one_line(&facts.join("  ")));
        out.spans(&[
            Span::new(number, Some(Colour::Dim)),
            Span::new(role(message), Some(colour)),
            Span::new(facts, Some(Colour::Dim)),
        ])
    }
}

fn some(text: Option<&String>) -> Option<&str> {
    text.map(|text| text.trim_end())
        .filter(|text| !text.trim().is_empty())
}

fn role(message: &ConversationMessage) -> String {
    match (message.role, &message.tool_name) {
        (Role::Tool, Some(tool)) => format!("{} {}", message.role, one_line(tool)),
        _ => message.role.to_string(),
    }
}

/// The tool that a message calls, with its arguments.
fn call(out: &mut Output, message: &ConversationMessage, in_full: bool) -> io::Result<()> {
    let arguments = message.tool_args.as_deref();
    let tool = match (&message.tool_name, arguments) {
        (Some(tool), _) => tool.as_str(),
        (None, Some(_)) => "",
        (None, None) => return Ok(()),
    };
    let arguments = arguments.unwrap_or_default();
    if in_full {
        let text = format!("{tool} {arguments}");
        return part(out, "→ call", text.trim(), Some(Colour::Yellow));
    }
    let text = format!("{tool}  {}", tool_arguments(arguments));
    brief(out, "→ call", text.trim(), PART_COLUMNS)
}

/// A labelled part of a message, whose lines stay below each other.
pub fn part(out: &mut Output, label: &str, text: &str, colour: Option<Colour>) -> io::Result<()> {
    let mut label = Cow::Borrowed(label);
    for line in fitted(&lines(text), out.columns().saturating_sub(PART_COLUMNS)) {
        let labelled = format!("  {label:<LABEL_COLUMNS$}{line}");
        out.spans(&[Span::new(labelled.trim_end(), colour)])?;
        label = Cow::Borrowed("");
    }
    Ok(())
}

/// The first and the last lines of a text, each cut at the width.
fn brief(out: &mut Output, label: &str, text: &str, columns: usize) -> io::Result<()> {
    let width = out.columns().saturating_sub(columns).min(BRIEF_COLUMNS);
    let all: Vec<&str> = text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    let colour = (label == "→ call").then_some(Colour::Yellow);
    let (first, left_out, last) = if all.len() <= 2 * LINES_IN_BRIEF + 1 {
        (&all[..], 0, &[][..])
    } else {
        let (first, rest) = all.split_at(LINES_IN_BRIEF);
        let (between, last) = rest.split_at(rest.len() - LINES_IN_BRIEF);
        (first, between.len(), last)
    };
    let mut label = label;
    let mut print = |line: &str, colour: Option<Colour>| {
        let start = match label {
            "" => " ".repeat(columns),
            label => format!("  {label:<LABEL_COLUMNS$}"),
        };
        label = "";
        out.spans(&[Span::new(format!("{start}{line}"), colour)])
    };
    for line in first {
        print(&clipped(&expanded(&lines(line)), width), colour)?;
    }
    if left_out > 0 {
        let left_out = counted(left_out as u64, "more line");
        print(&format!("… {left_out}: --tools"), Some(Colour::Dim))?;
    }
    for line in last {
        print(&clipped(&expanded(&lines(line)), width), colour)?;
    }
    Ok(())
}

/// A text below each other, indented and wrapped to the width.
fn wrapped(out: &mut Output, text: &str, columns: usize, colour: Option<Colour>) -> io::Result<()> {
    for line in fitted(text, out.columns().saturating_sub(columns)) {
        let line = format!("{}{line}", " ".repeat(columns));
        out.spans(&[Span::new(line.trim_end(), colour)])?;
    }
    Ok(())
}

/// The lines of an escaped text, wrapped to a width. The rest of a wrapped line keeps the indent of
/// its start.
fn fitted(text: &str, width: usize) -> Vec<String> {
    let mut fitting = Vec::new();
    for line in text.split('\n') {
        let line = expanded(line);
        if line.len() <= width {
            fitting.push(line);
            continue;
        }
        let indent: String = line.chars().take_while(|c| *c == ' ').collect();
        // A deep indent would leave no room.
        let indent = if indent.len() * 2 > width {
            ""
        } else {
            &indent
        };
        let options = textwrap::Options::new(width).subsequent_indent(indent);
        let parts = textwrap::wrap(&line, options).into_iter();
        fitting.extend(parts.map(Cow::into_owned));
    }
    fitting
}

/// The text with spaces for its tabs.
fn expanded(text: &str) -> String {
    text.replace('\t', "    ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_fit_and_keep_their_indent() {
        let text = "one two three\n    four five six\n\n日本語日本語 x";
        assert_eq!(
            fitted(text, 10),
            [
                "one two",
                "three",
                "    four",
                "    five",
                "    six",
                "",
                "日本語日本",
                "語 x"
            ]
        );
        assert_eq!(fitted("\tx", 10), ["    x"]);
        assert_eq!(fitted("abc def", usize::MAX), ["abc def"]);
    }
}
