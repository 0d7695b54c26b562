//! `decklog history`

use super::context::Context;
use super::exit::{Exit, Failure};
use super::list::Printer;

/// Show the last entries of a chat, earliest first
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  decklog history -1001234 --limit 5 --json | jq -r .content")]
pub struct Args {
    /// The chat's id; may be negative
    #[arg(value_name = "CHAT", allow_hyphen_values = true)]
    chat: i64,
    /// Maximum number of entries
    #[arg(long, value_name = "N", default_value_t = 20)]
    limit: usize,
    /// Show all fields of each entry
    #[arg(long, short)]
    long: bool,
}

pub fn run(args: &Args, context: &mut Context) -> Result<Exit, Failure> {
    let store = context.open_to_read()?;
    let mut printer = Printer::new(context, args.long);
    for entry in store.history(args.chat, args.limit)? {
        printer.print(&entry)?;
    }
    printer.end(&format!("chat {} has no entries", args.chat))?;
    Ok(Exit::Ok)
}
