//! `decklog state`

use super::context::Context;
use super::escape::one_line;
use super::exit::{Exit, Failure};
use decklog::human::count;

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
    let supervisor = state.supervisor_id.map(|id| format!("#{id}"));
    let rows = [
        ("telegram_offset", Some(state.telegram_offset.to_string())),
        ("current_good_rev", state.current_good_rev.clone()),
        ("supervisor_id", supervisor),
        (
            "worker_instance_seq",
            Some(count(state.worker_instance_seq)),
        ),
    ];
    let rows = rows.map(|(name, value)| {
        let value = value.as_deref().unwrap_or("-");
        format!("{name:<19}  {}", one_line(value))
    });
    context.print(&state, &rows.join("\n"))?;
    Ok(Exit::Ok)
}
