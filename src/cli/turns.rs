//! `decklog turns`

use clap::builder::{PossibleValuesParser, TypedValueParser};
use decklog::{ConversationTurn, Cursor, Order, Page, Store, TurnKind, TurnQuery};
use uuid::Uuid;

use super::context::Context;
use super::exit::{Exit, Failure};
use super::order::{First, Part, each, say_rest};
use super::{json, output, show, time};

/// List conversation turns
///
/// Text shows the last turns, the earliest of them at the top, as a log does; --json gives turns
/// from the first one on.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  decklog turns --since 2025-12-09 --kind user --json | jq -r .content"
)]
pub struct Args {
    /// Only turns created at this time or later: epoch ms, RFC 3339 or YYYY-MM-DD (UTC)
    #[arg(long, value_name = "TIME", value_parser = time::parse)]
    since: Option<i64>,
    /// Only turns created before this time
    #[arg(long, value_name = "TIME", value_parser = time::parse)]
    until: Option<i64>,
    /// Only turns of this message
    #[arg(long, value_name = "ID")]
    message: Option<Uuid>,
    /// Only turns of this thread
    #[arg(long, value_name = "ID")]
    thread: Option<Uuid>,
    /// Only turns that follow this one
    #[arg(long, value_name = "ID")]
    parent: Option<Uuid>,
    /// Only turns of this kind
    #[arg(long, value_parser = kinds())]
    kind: Option<TurnKind>,
    /// The turns as they stood at this time
    #[arg(long, value_name = "TIME", value_parser = time::parse)]
    as_of: Option<i64>,
    /// At most this many. Default: 50 on a terminal, else all
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Go on where an earlier list ended
    #[arg(long, value_name = "CURSOR")]
    after: Option<Cursor>,
    /// The end from which --limit counts. Default: newest, and oldest with --json
    #[arg(long, value_name = "END")]
    order: Option<First>,
    /// Show all there is to each turn, its ids too
    #[arg(long, short)]
    long: bool,
}

fn kinds() -> impl TypedValueParser<Value = TurnKind> {
    PossibleValuesParser::new(TurnKind::ALL.map(TurnKind::as_str)).try_map(|word| {
        let kind = TurnKind::ALL.into_iter().find(|kind| kind.as_str() == word);
        kind.ok_or("unknown kind")
    })
}

pub fn run(args: &Args, context: &mut Context) -> Result<Exit, Failure> {
    let store = context.open_to_read()?;
    let part = Part {
        limit: context.limit(args.limit),
        after: args.after,
    };
    let default = if context.json || part.limit.is_none() {
        First::Oldest
    } else {
        First::Newest
    };
    let first = args.order.unwrap_or(default);
    let mut any = false;
    let mut page = |limit, after| {
        let page = args.page(&store, first, limit, after)?;
        any |= !page.items.is_empty();
        Ok(page)
    };
    let rest = if context.json {
        each(part, &mut page, |turn| {
            Ok(context.out.json(&json::Turn::new(&turn))?)
        })?
    } else if first == First::Newest {
        let mut turns = Vec::new();
        let rest = each(part, &mut page, |turn| {
            turns.push(turn);
            Ok(())
        })?;
        for (place, turn) in turns.iter().rev().enumerate() {
            args.show(context, place == 0, turn)?;
        }
        rest
    } else {
        let mut is_first = true;
        each(part, &mut page, |turn| {
            let at_top = std::mem::replace(&mut is_first, false);
            args.show(context, at_top, &turn)
        })?
    };
    if !any && !context.json {
        output::say("no turns match");
    }
    say_rest(context, first, rest)?;
    Ok(Exit::Ok)
}

impl Args {
    fn page(
        &self,
        store: &Store,
        first: First,
        limit: usize,
        after: Option<Cursor>,
    ) -> decklog::Result<Page<ConversationTurn>> {
        let query = TurnQuery {
            message_id: self.message,
            parent_id: self.parent,
            thread_id: self.thread,
            kind: self.kind,
            since: self.since,
            until: self.until,
            order: Order::from(first),
            limit,
            after,
        };
        match self.as_of {
            Some(at) => store.as_of(at).turns(&query),
            None => store.turns(&query),
        }
    }

    fn show(
        &self,
        context: &mut Context,
        at_top: bool,
        turn: &ConversationTurn,
    ) -> Result<(), Failure> {
        let out = &mut context.out;
        if self.long {
            if !at_top {
                out.line("")?;
            }
            return Ok(show::turn(out, turn)?);
        }
        if at_top {
            show::turn_heading(out)?;
        }
        Ok(show::turn_row(out, turn)?)
    }
}
