//! `decklog calls`

use std::io;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use decklog::{CallQuery, CallStatus, Cursor, Order, Page, Store, ToolCall};
use uuid::Uuid;

use super::context::Context;
use super::exit::{Exit, Failure};
use super::order::{First, Part, each, say_rest};
use super::{json, output, show, time};

/// List tool calls with their outcomes, the last started first
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  decklog calls --status failed --json | jq '{tool_name, error_msg}'"
)]
pub struct Args {
    /// Only calls started at this time or later: epoch ms, RFC 3339 or YYYY-MM-DD (UTC)
    #[arg(long, value_name = "TIME", value_parser = time::parse)]
    since: Option<i64>,
    /// Only calls started before this time
    #[arg(long, value_name = "TIME", value_parser = time::parse)]
    until: Option<i64>,
    /// Only calls that stand there
    #[arg(long, value_parser = statuses())]
    status: Option<CallStatus>,
    /// Only calls of this vendor
    #[arg(long, value_name = "NAME")]
    vendor: Option<String>,
    /// Only calls of this tool
    #[arg(long, value_name = "NAME")]
    tool: Option<String>,
    /// Only calls of this turn
    #[arg(long, value_name = "ID")]
    parent: Option<Uuid>,
    /// The calls as they stood at this time
    #[arg(long, value_name = "TIME", value_parser = time::parse)]
    as_of: Option<i64>,
    /// At most this many. Default: 50 on a terminal, else all
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Go on where an earlier list ended
    #[arg(long, value_name = "CURSOR")]
    after: Option<Cursor>,
    /// The end that comes first
    #[arg(long, value_name = "END", default_value = "newest")]
    order: First,
    /// Show all there is to each call, its ids too
    #[arg(long, short)]
    long: bool,
}

const STATUSES: [CallStatus; 3] = [
    CallStatus::Requested,
    CallStatus::Completed,
    CallStatus::Failed,
];

fn statuses() -> impl TypedValueParser<Value = CallStatus> {
    PossibleValuesParser::new(STATUSES.map(CallStatus::as_str)).try_map(|word| {
        let status = STATUSES.into_iter().find(|status| status.as_str() == word);
        status.ok_or("unknown status")
    })
}

pub fn run(args: &Args, context: &mut Context) -> Result<Exit, Failure> {
    let store = context.open_to_read()?;
    let part = Part {
        limit: context.limit(args.limit),
        after: args.after,
    };
    let mut is_first = true;
    let rest = each(
        part,
        |limit, after| args.page(&store, limit, after),
        |call| {
            let at_top = std::mem::replace(&mut is_first, false);
            Ok(args.show(context, at_top, &call)?)
        },
    )?;
    if is_first && !context.json {
        output::say("no calls match; names are compared as they are, capitals too");
    }
    say_rest(context, args.order, rest)?;
    Ok(Exit::Ok)
}

impl Args {
    fn page(
        &self,
        store: &Store,
        limit: usize,
        after: Option<Cursor>,
    ) -> decklog::Result<Page<ToolCall>> {
        let query = CallQuery {
            parent_id: self.parent,
            status: self.status,
            vendor: self.vendor.clone(),
            tool_name: self.tool.clone(),
            since: self.since,
            until: self.until,
            order: Order::from(self.order),
            limit,
            after,
        };
        match self.as_of {
            Some(at) => store.as_of(at).tool_calls(&query),
            None => store.tool_calls(&query),
        }
    }

    fn show(&self, context: &mut Context, at_top: bool, call: &ToolCall) -> io::Result<()> {
        let out = &mut context.out;
        if context.json {
            return out.json(&json::Call::new(call)?);
        }
        if self.long {
            if !at_top {
                out.line("")?;
            }
            return show::call(out, call);
        }
        if at_top {
            show::call_heading(out)?;
        }
        show::call_row(out, call)
    }
}
