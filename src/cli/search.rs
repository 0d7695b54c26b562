//! `decklog search`

use decklog::Kind;
use decklog::query::{SearchCursor, SearchQuery};

use super::context::Context;
use super::exit::{Exit, Failure};
use super::list::Printer;
use super::pages::{PAGE_RECORDS, each};
use super::time::Times;

/// Find a text in any record, latest first
///
/// Searches the texts of all lines of any kind, including retracted and replaced records and texts
/// within JSON. The search is case-insensitive.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  decklog search 'permission denied' --kind tool_calls --since 2025-12-09"
)]
pub struct Args {
    /// The text to find, literally
    #[arg(value_name = "TEXT")]
    text: String,
    /// Only records of this kind
    #[arg(long)]
    kind: Option<Kind>,
    #[command(flatten)]
    times: Times,
    /// Maximum number of matches. Default: 100 on a terminal, else all
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Continue after the end of an earlier search
    #[arg(long, value_name = "CURSOR")]
    after: Option<SearchCursor>,
    /// Show the file, the offset and the record's key of each match
    #[arg(long, short)]
    long: bool,
}

pub fn run(args: &Args, context: &mut Context) -> Result<Exit, Failure> {
    let store = context.open_to_read()?;
    let limit = context.limit(args.limit);
    let mut printer = Printer::new(context, args.long);
    let page = |limit, after| {
        let query = SearchQuery {
            text: args.text.clone(),
            kind: args.kind,
            since: args.times.since,
            until: args.times.until,
            limit,
            after,
        };
        let found = store.search(&query)?;
        Ok((found.matches, found.next))
    };
    let rest = each(limit, PAGE_RECORDS, args.after, page, |found| {
        printer.print(&found)
    })?;
    printer.end("no record contains this text")?;
    if let Some(cursor) = rest {
        context.say_below(&format!(
            "there may be more: continue with --after {cursor}, or set --limit"
        ))?;
    }
    Ok(Exit::Ok)
}
