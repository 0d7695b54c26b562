//! `decklog calls`

use decklog::{CallQuery, CallStatus, Order};
use uuid::Uuid;

use super::context::Context;
use super::exit::{Exit, Failure};
use super::list::{List, Part, Times, one_of};

/// List tool calls with their outcomes, the last started first
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  decklog calls --status failed --json | jq '{tool_name, error_msg}'"
)]
pub struct Args {
    #[command(flatten)]
    times: Times,
    /// Only calls with this status
    #[arg(long, value_parser = one_of(CallStatus::ALL, CallStatus::as_str))]
    status: Option<CallStatus>,
    /// Only calls of this vendor
    #[arg(long, value_name = "NAME")]
    vendor: Option<String>,
    /// Only calls of this tool
    #[arg(long, value_name = "NAME")]
    tool: Option<String>,
    /// Only calls of this model request
    #[arg(long, value_name = "ID")]
    request: Option<Uuid>,
    /// Only calls with this id, of whatever request
    #[arg(long, value_name = "ID")]
    call: Option<String>,
    /// Only calls of this turn
    #[arg(long, value_name = "ID")]
    parent: Option<Uuid>,
    /// The calls as they stood at this time
    #[arg(long, value_name = "TIME", value_parser = decklog::epoch_ms)]
    as_of: Option<i64>,
    #[command(flatten)]
    part: Part,
}

pub fn run(args: &Args, context: &mut Context) -> Result<Exit, Failure> {
    let store = context.open_to_read()?;
    let list = List::from(
        Order::NewestFirst,
        args.part,
        "no calls match; names are compared as they are, capitals too",
    );
    list.print(context, |order, limit, after| {
        let query = CallQuery {
            request_id: args.request,
            call_id: args.call.clone(),
            parent_id: args.parent,
            status: args.status,
            vendor: args.vendor.clone(),
            tool_name: args.tool.clone(),
            since: args.times.since,
            until: args.times.until,
            order,
            limit,
            after,
        };
        store.as_of(args.as_of).tool_calls(&query)
    })
}
