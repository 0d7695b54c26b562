//! `decklog seal`

use decklog::human::{count, counted};
use decklog::seal::Seal;
use serde::Serialize;

use super::context::Context;
use super::escape::one_line;
use super::exit::{Exit, Failure};
use super::output;

/// Close full segments and those of past days: make them read-only and record their hashes
///
/// verify then detects any change to them. Other programs can continue to write.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  decklog seal\n  decklog seal --head > /elsewhere/head.json\n  decklog verify --head /elsewhere/head.json"
)]
pub struct Args {
    /// Seal nothing; print the last seal's number and hash. Store it where no one who can change the
    /// log can change it
    #[arg(long)]
    head: bool,
}

/// The last line of `--json`.
#[derive(Serialize)]
struct Summary {
    sealed: usize,
    bytes: u64,
    lines: u64,
}

pub fn run(args: &Args, context: &mut Context) -> Result<Exit, Failure> {
    if args.head {
        let Some(head) = context.open_in_silence()?.seal_head()? else {
            output::say("nothing is sealed yet");
            return Ok(Exit::Findings);
        };
        context.out.json(&head)?;
        return Ok(Exit::Ok);
    }
    let store = context.open_to_change()?;
    let sealed = store.seal()?;
    let sum = |of: fn(&Seal) -> u64| sealed.iter().map(of).sum();
    for seal in &sealed {
        let (number, file) = (seal.seal, one_line(&seal.file));
        let (lines, bytes) = (counted(seal.lines, "line"), count(seal.bytes));
        let text = format!("seal {number} of {file}: {lines}, {bytes} bytes");
        context.print(seal, &text)?;
    }
    let summary = Summary {
        sealed: sealed.len(),
        bytes: sum(|seal| seal.bytes),
        lines: sum(|seal| seal.lines),
    };
    let last = match sealed.len() {
        0 => "nothing to seal".to_owned(),
        some => format!("{} sealed", counted(some as u64, "segment")),
    };
    context.print(&summary, &last)?;
    Ok(Exit::Ok)
}
