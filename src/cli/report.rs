//! `decklog report`

use std::path::PathBuf;
use std::str::FromStr;

use decklog::human::count;
use decklog::page::Report;
use decklog::query::ConversationQuery;
use decklog::record::{Day, epoch_ms};
use decklog::{ErrorKind, Store};
use uuid::Uuid;

use super::context::Context;
use super::exit::{Exit, Failure};
use super::files::replace;
use super::get::missing;
use super::output;

/// Write a conversation, a run or the figures of a period as a web page in one file
///
/// The file needs no other file and loads nothing from the network. Secrets that redaction did not
/// find are in it as they are in the log.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  decklog report --html today.html today\n  decklog report --html run.html latest\n  decklog report --html june.html 2026-06-01..2026-06-30"
)]
pub struct Args {
    /// The file to write
    #[arg(long, value_name = "FILE")]
    html: PathBuf,
    /// Replace the file if it exists
    #[arg(long)]
    force: bool,
    /// A conversation's id, 'latest' for the latest conversation, the number of an event, or a
    /// period of UTC days: 7d, today, 2026-06-01, 2026-06-01..2026-06-30. Default: 30d
    what: Option<What>,
}

#[derive(Debug, Clone)]
enum What {
    Latest,
    Conversation(Uuid),
    Run(i64),
    Days(Day, Option<Day>),
}

impl FromStr for What {
    type Err = String;

    fn from_str(text: &str) -> Result<What, String> {
        if text == "latest" {
            return Ok(What::Latest);
        }
        if let Ok(id) = text.parse() {
            return Ok(What::Conversation(id));
        }
        if let Ok(event) = text.parse() {
            return Ok(What::Run(event));
        }
        let day = |text: &str| epoch_ms(text).and_then(Day::of).map_err(|e| e.to_string());
        if let Some((since, last)) = text.split_once("..") {
            return Ok(What::Days(day(since)?, Some(day(last)?)));
        }
        if let Ok(since) = day(text) {
            // A day alone is that day; 7d and the like last until today.
            let is_day = text == "yesterday" || text.parse::<Day>().is_ok();
            return Ok(What::Days(since, is_day.then_some(since)));
        }
        Err("must be the id of a conversation, 'latest', the number of an event, or a period such as 7d or 2026-06-01..2026-06-30".to_owned())
    }
}

pub fn run(args: &Args, context: &mut Context) -> Result<Exit, Failure> {
    if !args.force && args.html.exists() {
        let file = args.html.display();
        let message = format!("{file} exists: give --force to replace it");
        return Err(Failure::usage(message));
    }
    let store = context.open_to_read()?;
    let Some(report) = report(&store, args.what.as_ref())? else {
        return Ok(missing("conversation"));
    };
    let html = match store.html_report(&report) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            output::say(&error.to_string());
            return Ok(Exit::Findings);
        }
        html => html?,
    };
    replace(&args.html, html.as_bytes())?;
    let bytes = html.len() as u64;
    let written = serde_json::json!({ "file": args.html, "bytes": bytes });
    let text = format!("wrote {} ({} bytes)", args.html.display(), count(bytes));
    context.print(&written, &text)?;
    Ok(Exit::Ok)
}

/// `None` if the log has no conversation.
fn report(store: &Store, what: Option<&What>) -> Result<Option<Report>, Failure> {
    Ok(Some(match what {
        Some(What::Conversation(id)) => Report::Conversation(*id),
        Some(What::Run(event)) => Report::Run(*event),
        Some(What::Days(since, last)) => {
            let after = |day: &Day| Day::of(day.bounds_ms().1);
            let until = last.as_ref().map(after).transpose()?;
            let since = Some(*since);
            Report::Period { since, until }
        }
        None => Report::Period {
            since: None,
            until: None,
        },
        Some(What::Latest) => {
            let query = ConversationQuery {
                limit: 1,
                ..ConversationQuery::default()
            };
            let latest = store.conversations(&query)?.items.pop();
            return Ok(latest.map(|(conversation, _)| Report::Conversation(conversation.id)));
        }
    }))
}
