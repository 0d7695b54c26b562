//! `decklog get`

use clap::Subcommand;
use uuid::Uuid;

use super::context::Context;
use super::exit::{Exit, Failure};
use super::{json, output, show, time};

/// Show one record, by its key
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  decklog get calls 67e55044-10b1-426f-9247-bb680e5fe0c8 call_1 --json"
)]
pub struct Args {
    #[command(subcommand)]
    what: What,
    /// The record as it stood at this time: epoch ms, RFC 3339 or YYYY-MM-DD (UTC)
    #[arg(long, global = true, value_name = "TIME", value_parser = time::parse)]
    as_of: Option<i64>,
}

#[derive(Debug, Subcommand)]
enum What {
    /// A tool call with its outcome
    Calls {
        /// The model request that asked for the call
        request_id: Uuid,
        /// The call's id within the request
        #[arg(allow_hyphen_values = true)]
        call_id: String,
    },
    /// A conversation turn
    Turns {
        /// The turn's id
        id: Uuid,
    },
}

pub fn run(args: &Args, context: &mut Context) -> Result<Exit, Failure> {
    let store = context.open_to_read()?;
    let (is_json, out) = (context.json, &mut context.out);
    match &args.what {
        What::Calls {
            request_id,
            call_id,
        } => {
            let found = match args.as_of {
                Some(at) => store.as_of(at).get_tool_call(*request_id, call_id),
                None => store.get_tool_call(*request_id, call_id),
            };
            match found? {
                Some(call) if is_json => {
                    let call = json::Call::new(&call).map_err(std::io::Error::from)?;
                    out.json(&call)?;
                }
                Some(call) => show::call(out, &call)?,
                None => return Ok(missing(&format!("tool call {request_id} {call_id}"))),
            }
        }
        What::Turns { id } => {
            let found = match args.as_of {
                Some(at) => store.as_of(at).get_turn(*id),
                None => store.get_turn(*id),
            };
            match found? {
                Some(turn) if is_json => out.json(&json::Turn::new(&turn))?,
                Some(turn) => show::turn(out, &turn)?,
                None => return Ok(missing(&format!("turn {id}"))),
            }
        }
    }
    Ok(Exit::Ok)
}

fn missing(what: &str) -> Exit {
    output::say(&format!("there is no {what}"));
    Exit::Findings
}
