//! `decklog prove`

use super::context::Context;
use super::exit::{Exit, Failure};
use super::get::{self, What};

/// Print a proof that a record's line was in its segment when the segment was sealed
///
/// The proof is one JSON object. check-proof checks it anywhere, without the log.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  decklog prove events 12 > proof.json\n  decklog check-proof proof.json"
)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

pub fn run(args: &Args, context: &mut Context) -> Result<Exit, Failure> {
    let store = context.open_to_read()?;
    let key = args.what.key(&store)?;
    let Some(proof) = store.prove(&key)? else {
        return Ok(get::missing(&key));
    };
    context.out.json(&proof)?;
    Ok(Exit::Ok)
}
