//! Conversations as transcripts in Markdown.
//!
//! What agents wrote is untrusted. Outside of code, every character with a meaning that reaches
//! beyond its own words is escaped: no content makes a heading, a table, a link, an image, a tag or
//! a mention, and none ends the block that it is in. Emphasis, lists and code keep their look. Code
//! is in fences that are longer than any in it.

use std::borrow::Cow;
use std::io::{self, Write};

use decklog::human::{count, counted, dollars, duration};
use decklog::query::{ConversationQuery, MessageQuery, Order};
use decklog::record::ContentType;
use decklog::{Conversation, ConversationMessage, Role, Store};
use uuid::Uuid;

use super::escape;
use super::exit::Failure;
use super::list::Paged;
use super::pages::{PAGE_RECORDS, each};
use super::time;

/// Arguments and results with more lines are folded.
const LINES_UNFOLDED: usize = 12;

/// Writes a conversation as a transcript, message by message. A conversation that the log does not
/// have is empty.
pub fn transcript(store: &Store, id: Uuid, out: &mut impl Write) -> Result<(), Failure> {
    heading(store, id, out)?;
    let page = |limit, after| {
        let query = MessageQuery::default().page(Order::OldestFirst, limit, after);
        let page = store.messages(id, &query)?;
        Ok((page.items, page.next))
    };
    each(None, PAGE_RECORDS, None, page, |message| {
        Ok(self::message(out, &message)?)
    })?;
    Ok(())
}

/// The title of a conversation, what is known of it, and its sub-agents.
pub fn heading(store: &Store, id: Uuid, out: &mut impl Write) -> Result<(), Failure> {
    let Some((conversation, stats)) = store.get_conversation(id)? else {
        return Ok(());
    };
    let title = store.conversation_title(&conversation)?;
    let title = title.unwrap_or_else(|| format!("Conversation {id}"));
    writeln!(out, "# {}\n", one_line(&title))?;
    let began = time::moment(conversation.created_at.at());
    let totals = format!(
        "{}, {} in, {} out",
        counted(stats.message_count, "message"),
        counted(stats.total_tokens_in, "token"),
        count(stats.total_tokens_out),
    );
    writeln!(out, "- conversation: `{id}`\n- began: {began}")?;
    let models = stats.models_used.join(", ");
    let names = [
        ("client", Some(conversation.client.as_str())),
        ("project", conversation.project.as_deref()),
        ("models", Some(&*models).filter(|names| !names.is_empty())),
        ("error", conversation.last_error.as_deref()),
    ];
    for (label, name) in names {
        if let Some(name) = name {
            writeln!(out, "- {label}: {}", one_line(name))?;
        }
    }
    writeln!(out, "- {totals}")?;
    for agent in agents(store, id)? {
        let title = agent.title.as_deref().unwrap_or_default();
        writeln!(out, "- sub-agent: `{}` {}", agent.id, one_line(title))?;
    }
    writeln!(out)?;
    Ok(())
}

fn agents(store: &Store, id: Uuid) -> Result<Vec<Conversation>, Failure> {
    let agents = store.conversations(&ConversationQuery {
        parent_id: Some(id),
        order: Order::OldestFirst,
        limit: usize::MAX,
        ..ConversationQuery::default()
    })?;
    Ok(agents.items.into_iter().map(|(agent, _)| agent).collect())
}

/// A message of a transcript, under a heading with its role.
pub fn message(out: &mut impl Write, message: &ConversationMessage) -> io::Result<()> {
    let role = match message.role {
        Role::System => "System",
        Role::User => "User",
        Role::Assistant => "Assistant",
        Role::Tool => "Tool",
    };
    let is_failed = message.is_failure();
    let failed = if is_failed { ": failed" } else { "" };
    writeln!(out, "## {role}{failed}\n\n{}\n", facts(message))?;
    if is_failed {
        let words = [&message.error_type, &message.error];
        let words: Vec<&str> = words.into_iter().flatten().map(String::as_str).collect();
        writeln!(out, "**Error:** {}\n", one_line(&words.join(": ")))?;
    }
    if let Some(reasoning) = message.reasoning.as_deref().filter(|it| !it.is_empty()) {
        details(out, "Thinking", |out| prose(out, reasoning))?;
    }
    let is_error_again = message.error.as_ref() == Some(&message.content);
    if !message.content.is_empty() && !is_error_again {
        match (message.content_type, message.role) {
            (ContentType::Json, _) => code(out, "json", &message.content)?,
            (ContentType::Code, _) => code(out, "", &message.content)?,
            (_, Role::Tool) => folded(out, "Result", &message.content)?,
            _ => prose(out, &message.content)?,
        }
    }
    if let Some(arguments) = &message.tool_args {
        let tool = message.tool_name.as_deref().unwrap_or("tool");
        folded(out, &format!("Call of {tool}"), arguments)?;
    }
    match message.tool_result.as_deref() {
        Some(result) if !result.is_empty() => folded(out, "Result", result),
        _ => Ok(()),
    }
}

/// Sequence, time, model, tokens, latency and cost, on one line.
fn facts(message: &ConversationMessage) -> String {
    let tokens = |n: i64| count(n.unsigned_abs());
    let facts = [
        message.sequence.map(|sequence| format!("no. {sequence}")),
        Some(time::moment(message.timestamp.at())),
        message.tool_name.clone(),
        message.model_used.clone(),
        message
            .tokens_in
            .map(|n| format!("{} tokens in", tokens(n))),
        message.tokens_out.map(|n| format!("{} out", tokens(n))),
        message.latency_ms.map(duration),
        message.cost_usd.map(dollars),
    ];
    let facts: Vec<String> = facts.into_iter().flatten().collect();
    one_line(&facts.join(" · "))
}

fn details<W: Write>(
    out: &mut W,
    summary: &str,
    write: impl FnOnce(&mut W) -> io::Result<()>,
) -> io::Result<()> {
    // In a block of HTML, Markdown has no meaning until the blank line.
    let summary = escape::one_line(summary);
    let summary = summary.replace('&', "&amp;").replace('<', "&lt;");
    let summary = without_mentions(&summary);
    writeln!(out, "<details>\n<summary>{summary}</summary>\n")?;
    write(out)?;
    writeln!(out, "</details>\n")
}

/// Arguments or results, behind their number of lines if they are long.
fn folded(out: &mut impl Write, what: &str, text: &str) -> io::Result<()> {
    let is_json = text.starts_with(['{', '[']);
    let language = if is_json { "json" } else { "" };
    let lines = text.lines().count();
    if lines > LINES_UNFOLDED || what == "Result" {
        let lines = counted(lines as u64, "line");
        return details(out, &format!("{what} ({lines})"), |out| {
            code(out, language, text)
        });
    }
    writeln!(out, "{}:\n", one_line(what))?;
    code(out, language, text)
}

/// A block of code, in a fence that is longer than any in it.
fn code(out: &mut impl Write, language: &str, text: &str) -> io::Result<()> {
    let text = shown(text);
    let longest = text.split(|c| c != '`').map(str::len).max();
    let fence = "`".repeat(longest.unwrap_or(0).max(2) + 1);
    let text = text.strip_suffix('\n').unwrap_or(&text);
    writeln!(out, "{fence}{language}\n{text}\n{fence}\n")
}

/// Text of people and models: its code in fences, the rest line by line.
fn prose(out: &mut impl Write, text: &str) -> io::Result<()> {
    let text = shown(text);
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let Some((fence, language)) = opened_fence(line) else {
            writeln!(out, "{}", prose_line(line))?;
            continue;
        };
        let mut block = String::new();
        // A fence without an end reaches to the end of the text.
        for line in lines.by_ref().take_while(|line| !closes(line, fence)) {
            block.push_str(line);
            block.push('\n');
        }
        writeln!(out)?;
        code(out, language, &block)?;
    }
    writeln!(out)
}

/// The fence and the language of a line that begins a block of code.
fn opened_fence(line: &str) -> Option<(&str, &str)> {
    let line = line.trim_start();
    let fence = ['`', '~'].into_iter().find_map(|mark| {
        let rest = line.trim_start_matches(mark);
        let len = line.len() - rest.len();
        (len >= 3).then_some((&line[..len], rest.trim()))
    });
    let (fence, info) = fence?;
    if info.contains('`') {
        return None;
    }
    let is_language = |c: char| c.is_ascii_alphanumeric() || "+-_.".contains(c);
    let end = info.find(|c| !is_language(c)).unwrap_or(info.len());
    Some((fence, &info[..end]))
}

fn closes(line: &str, fence: &str) -> bool {
    let line = line.trim();
    let mark = fence.chars().next().unwrap_or('`');
    line.len() >= fence.len() && line.chars().all(|c| c == mark)
}

/// A line outside of code. It ends with a line break.
fn prose_line(line: &str) -> String {
    let text = line.trim();
    if text.is_empty() {
        return String::new();
    }
    let indentation = &line[..line.len() - line.trim_start().len()];
    // Underlines of headings, rules, and the second line of a table.
    if text.chars().all(|c| "-=:|_*+ \t".contains(c)) {
        let mark = if text.starts_with(is_special) {
            ""
        } else {
            "\\"
        };
        return format!("{mark}{}  ", inline(text));
    }
    let hashes = text.len() - text.trim_start_matches('#').len();
    if (1..=6).contains(&hashes) && text[hashes..].starts_with(' ') {
        let text = text[hashes..].trim();
        return format!("**{}**  ", inline(text).replace('*', "\\*"));
    }
    if let Some((marker, rest)) = list_item(text) {
        // Deeper indentation would make code of the first item.
        let indentation: String = indentation.chars().map(|_| ' ').take(12).collect();
        return format!("{indentation}{marker}{}  ", inline(rest));
    }
    let columns = indentation.chars().map(|c| if c == '\t' { 4 } else { 1 });
    let space = "\u{a0}".repeat(columns.sum());
    format!("{space}{}  ", inline(text))
}

/// The marker of an item of a list with the space after it, and the item.
fn list_item(text: &str) -> Option<(&str, &str)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let end = match text.as_bytes().get(digits)? {
        b'-' | b'*' | b'+' if digits == 0 => 1,
        b'.' | b')' if (1..=9).contains(&digits) => digits + 1,
        _ => return None,
    };
    let is_marker = text[end..].starts_with(' ');
    is_marker.then(|| text.split_at(end + 1))
}

/// A text on one line, with what could mean something beyond it escaped. It may be anywhere in a
/// line, and in a cell of a table.
pub fn inline(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if c == '`'
            && let Some((code, after)) = harmless_code(rest)
        {
            out.push_str(code);
            rest = after;
            continue;
        }
        if is_special(c) {
            out.push('\\');
        }
        out.push(c);
        rest = &rest[c.len_utf8()..];
    }
    without_mentions(&out).into_owned()
}

/// Not the marks of emphasis: it ends with its paragraph at the latest.
fn is_special(c: char) -> bool {
    "\\`<>[&#|$~".contains(c)
}

/// Code in single backticks at the start of the text, if it would be harmless without them: then it
/// does not matter which backticks belong together.
fn harmless_code(text: &str) -> Option<(&str, &str)> {
    let inside = text.strip_prefix('`')?;
    let end = inside.find('`').filter(|end| *end > 0)?;
    let after = &inside[end + 1..];
    let is_harmless =
        !inside[..end].contains(|c| is_special(c) || c == '@') && !after.starts_with('`');
    is_harmless.then(|| text.split_at(end + 2))
}

/// The text with a comment after each @ that could name someone.
fn without_mentions(text: &str) -> Cow<'_, str> {
    if text.contains('@') {
        Cow::Owned(text.replace('@', "@<!-- -->"))
    } else {
        Cow::Borrowed(text)
    }
}

/// A text on one line.
fn one_line(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    inline(&escape::one_line(&text))
}

/// The text with the line breaks of Markdown, and with hidden characters shown.
fn shown(text: &str) -> String {
    escape::lines(&text.replace("\r\n", "\n")).into_owned()
}
