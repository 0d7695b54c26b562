//! `decklog` without a command: today's overview.

use std::path::Path;

use decklog::analytics::{DayFigures, TodayReport};
use decklog::human::{average, percent};
use decklog::query::ConversationQuery;
use decklog::record::{ConversationStats, ConversationView};
use decklog::{Conversation, ErrorKind, Store, Timestamp, ToolCallReq};
use serde::Serialize;

use super::context::Context;
use super::escape::one_line;
use super::exit::{Exit, Failure};
use super::show;
use super::table::{Cell, Column, Table};
use super::time;

/// Number of conversations.
const CONVERSATIONS: usize = 5;
/// Number of conversations, from the latest on, among which those are that are not of sub-agents.
const CONVERSATIONS_READ: usize = 25;
/// More running calls are not counted.
const RUNNING_MAX: usize = 1_000;

#[derive(Serialize)]
struct Overview<'a> {
    store: &'a Path,
    /// Whether there is a store; if not, the other members are absent.
    exists: bool,
    #[serde(flatten)]
    report: Option<TodayReport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    running_calls: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    conversations: Option<Vec<Titled<'a>>>,
}

#[derive(Serialize)]
struct Titled<'a> {
    #[serde(flatten)]
    conversation: ConversationView<'a>,
    /// The title to show, which may be the start of the first prompt.
    shown_title: &'a Option<String>,
}

/// A conversation and the title to show for it.
type Latest = ((Conversation, ConversationStats), Option<String>);

pub fn run(context: &mut Context) -> Result<Exit, Failure> {
    let path = context.store_path()?;
    let store = match context.options().read_only(true).open(&path) {
        Ok(store) => store,
        Err(error) if error.kind() == ErrorKind::NotAStore && !path.is_file() => {
            return without_store(context, &path);
        }
        Err(error) => return Err(error.into()),
    };
    let report = store.analytics().today()?;
    let running = store.running_calls(RUNNING_MAX)?;
    let latest = latest(&store)?;
    if context.json {
        let titled = latest.iter().map(|(found, title)| Titled {
            conversation: found.into(),
            shown_title: title,
        });
        context.out.json(&Overview {
            store: &path,
            exists: true,
            report: Some(report),
            running_calls: Some(running.len()),
            conversations: Some(titled.collect()),
        })?;
        return Ok(Exit::Ok);
    }
    print(context, &path, &report, &running, &latest)
}

fn without_store(context: &mut Context, path: &Path) -> Result<Exit, Failure> {
    if context.json {
        context.out.json(&Overview {
            store: path,
            exists: false,
            report: None,
            running_calls: None,
            conversations: None,
        })?;
        return Ok(Exit::Ok);
    }
    for line in [
        &format!(
            "There is no log yet at {}",
            one_line(&path.display().to_string())
        ),
        "",
        "To begin:",
        "  decklog watch   import the sessions of your agents, and follow them",
        "  decklog demo    try decklog with bundled sessions, in a new directory",
        "",
        "All commands: decklog --help",
    ] {
        context.out.line(line)?;
    }
    Ok(Exit::Ok)
}

/// The latest conversations but those of sub-agents, with their titles.
fn latest(store: &Store) -> decklog::Result<Vec<Latest>> {
    let query = ConversationQuery {
        limit: CONVERSATIONS_READ,
        ..ConversationQuery::default()
    };
    let found = store.conversations(&query)?.items.into_iter();
    let found = found.filter(|(conversation, _)| conversation.parent_id.is_none());
    let titled = found.take(CONVERSATIONS).map(|found| {
        let title = store.conversation_title(&found.0)?;
        Ok((found, title))
    });
    titled.collect()
}

fn print(
    context: &mut Context,
    path: &Path,
    report: &TodayReport,
    running: &[ToolCallReq],
    latest: &[Latest],
) -> Result<Exit, Failure> {
    let out = &mut context.out;
    show::row(out, &one_line(&format!("store  {}", path.display())))?;
    out.line("")?;
    let is_quiet = report.usual.is_none() && report.today.usage.messages == 0;
    if is_quiet && running.is_empty() && !latest.is_empty() {
        show::row(
            out,
            "No messages today or in the 28 days before. For all days: decklog stats",
        )?;
    } else {
        today(report, running.len()).print(out)?;
    }
    if !latest.is_empty() {
        out.line("")?;
        conversations(latest).print(out)?;
    }
    out.line("")?;
    show::row(out, "All commands: decklog --help")?;
    Ok(Exit::Ok)
}

/// Each figure of today beside that of the usual day.
fn today(report: &TodayReport, running: usize) -> Table {
    let text = |text: String| Cell::Text(Some(text));
    let none = || Cell::Text(None);
    let row = |name: &str, of: &dyn Fn(&DayFigures) -> Cell| {
        let usual = report.usual.as_ref().map_or_else(none, of);
        vec![text(name.to_owned()), of(&report.today), usual]
    };
    let count = |name, of: fn(&DayFigures) -> u64| row(name, &|day| Cell::Count(of(day)));
    let latency = |day: &DayFigures| match (day.latency_ms.avg, day.latency_ms.p95) {
        (Some(avg), Some(p95)) => text(format!("{} / {}", average(avg), average(p95))),
        _ => none(),
    };
    let errors = |day: &DayFigures| match day.error_rate {
        Some(rate) if day.errors > 0 => text(format!("{} ({})", day.errors, percent(rate))),
        _ => Cell::Count(day.errors),
    };
    Table {
        columns: vec![
            Column::text("TODAY (UTC)", "figure"),
            Column::number("SO FAR", "today", 0),
            Column::number("USUAL DAY", "usual", 0),
        ],
        rows: vec![
            count("conversations", |day| day.conversations),
            count("messages", |day| day.usage.messages),
            count("input tokens", |day| day.usage.tokens_input),
            count("cache read", |day| day.usage.tokens_cache_read),
            count("cache write", |day| day.usage.tokens_cache_write),
            count("output tokens", |day| day.usage.tokens_out),
            row("cost", &|day| Cell::Cost(day.usage.cost_usd)),
            row("latency avg / p95", &latency),
            row("errors", &errors),
            vec![
                text("running calls".to_owned()),
                Cell::Count(running as u64),
                text(String::new()),
            ],
        ],
        ..Table::default()
    }
}

fn conversations(latest: &[Latest]) -> Table {
    let now = Timestamp::now().at();
    let row = |((conversation, stats), title): &Latest| {
        vec![
            Cell::Text(Some(time::ago(conversation.created_at.at(), now))),
            Cell::Id(conversation.id),
            Cell::Count(stats.message_count),
            Cell::Text(title.clone()),
        ]
    };
    Table {
        columns: vec![
            Column::text("BEGAN", "began"),
            Column::text("CONVERSATION", "id"),
            Column::number("MESSAGES", "messages", 1),
            Column::text("TITLE", "title"),
        ],
        rows: latest.iter().map(row).collect(),
        ..Table::default()
    }
}
