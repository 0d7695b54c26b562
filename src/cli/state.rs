//! `decklog state`

use super::context::Context;
use super::exit::{Exit, Failure};
use super::show::grouped;

/// Show the supervisor's state: the Telegram offset, the good revision, the workers
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  decklog state --json | jq .telegram_offset")]
pub struct Args {
    /// The event that started the supervisor. Default: the latest process.started without a parent
    #[arg(long, value_name = "ID")]
    supervisor: Option<i64>,
}

pub fn run(args: &Args, context: &mut Context) -> Result<Exit, Failure> {
    let store = context.open_to_read()?;
    let state = store.supervisor_state(args.supervisor)?;
    if context.json {
        context.out.json(&state)?;
        return Ok(Exit::Ok);
    }
    let supervisor = state.supervisor_id.map(|id| format!("#{id}"));
    let none = || "-".to_owned();
    for (name, value) in [
        ("telegram_offset", state.telegram_offset.to_string()),
        (
            "current_good_rev",
            state.current_good_rev.unwrap_or_else(none),
        ),
        ("supervisor_id", supervisor.unwrap_or_else(none)),
        ("worker_instance_seq", grouped(state.worker_instance_seq)),
    ] {
        let value = super::escape::one_line(&value);
        context.out.line(&format!("{name:<19}  {value}"))?;
    }
    Ok(Exit::Ok)
}
