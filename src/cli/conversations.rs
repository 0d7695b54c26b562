//! `decklog conversations`

use decklog::human::{count, counted};
use decklog::query::{ConversationQuery, ConversationSort, Order};

use super::context::Context;
use super::exit::{Exit, Failure};
use super::list::{Printer, none_found};
use super::pages::each;
use super::show::Listed;

/// Every page counts the whole list again, so a few large pages are better than many.
const PAGE_CONVERSATIONS: usize = 4096;

/// List conversations with totals of their messages, latest first
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  decklog conversations --project decklog --since 2025-12-09 --long\n  decklog conversations --status error --json | jq '{id, last_error, total_tokens_out}'"
)]
pub struct Args {
    #[command(flatten)]
    query: ConversationQuery,
    /// desc: newest or greatest first; asc: oldest or least first
    #[arg(long, value_name = "ORDER", default_value = "desc")]
    order: Order,
    /// Maximum number of conversations. Default: 100 on a terminal, else all
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Skip the first N
    #[arg(long, value_name = "N", default_value_t = 0)]
    offset: usize,
    /// Show all fields of each conversation
    #[arg(long, short)]
    long: bool,
}

pub fn run(args: &Args, context: &mut Context) -> Result<Exit, Failure> {
    let store = context.open_to_read()?;
    let limit = context.limit(args.limit);
    let mut total = 0;
    // A conversation that begins while the list is printed would shift the rest.
    let mut until = args.query.until;
    let mut printer = Printer::new(context, args.long);
    each(
        limit,
        PAGE_CONVERSATIONS,
        Some(args.offset),
        |limit, offset| {
            let offset = offset.unwrap_or(0);
            let list = store.conversations(&ConversationQuery {
                until,
                order: args.order,
                limit,
                offset,
                ..args.query.clone()
            })?;
            if offset == args.offset {
                total = list.total;
            }
            let is_by_time = matches!(args.query.sort, None | Some(ConversationSort::Newest));
            if let (true, Order::NewestFirst, 0, Some((newest, _))) =
                (is_by_time, args.order, offset, list.items.first())
            {
                until = newest.created_at.at().checked_add(1);
            }
            let next = offset.saturating_add(list.items.len());
            let is_last = list.items.is_empty() || next >= list.total;
            Ok((list.items, (!is_last).then_some(next)))
        },
        |conversation| printer.print(&Listed::of(&store, conversation)?),
    )?;
    let query = &args.query;
    let names = [
        &query.workspace,
        &query.project,
        &query.user_id,
        &query.session_id,
        &query.agent,
    ];
    let is_named = names.iter().any(|name| name.is_some());
    let found = counted(total as u64, "conversation");
    let none = match total {
        0 => none_found("conversations", is_named),
        _ if args.offset < total => format!("{found} found: set --limit to show them"),
        _ => format!("{found} found: give an --offset below that"),
    };
    let shown = printer.end(&none)?;
    let next = args.offset.saturating_add(shown);
    if shown > 0 && next < total {
        let (shown, total) = (count(shown as u64), count(total as u64));
        context.say_below(&format!(
            "{shown} of {total} conversations shown: continue with --offset {next}, or set --limit"
        ))?;
    }
    Ok(Exit::Ok)
}
