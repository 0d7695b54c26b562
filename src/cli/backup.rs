//! `decklog backup`

use decklog::human::{bytes, count, counted};
use decklog::ship::{Destination, ShipOptions, Shipper};

use super::context::Context;
use super::escape::one_line;
use super::exit::{Exit, Failure};
use super::ship::tell_of_unlike;
use super::transfer::with_progress;

/// Copy the whole store to a directory or to object storage, as it is at one moment
///
/// Other processes can write meanwhile. Only what changed since the last backup is copied, and what
/// was copied is read back and compared. What was erased or removed since is removed there as well.
/// Also copied are the tokens of the HTTP service, as hashes, and quarantine/. The key of user ids
/// is outside the store: keep a copy of it elsewhere. 'decklog restore' makes the store again.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  decklog backup /mnt/nas/backup\n  decklog verify /mnt/nas/backup\n  decklog restore /mnt/nas/backup ./log"
)]
pub struct Args {
    /// Where to: a directory or a URL, as for 'decklog ship'
    #[arg(value_name = "DEST")]
    destination: String,
    /// Write nothing; say what would be copied
    #[arg(long)]
    dry_run: bool,
}

pub fn run(args: &Args, context: &mut Context) -> Result<Exit, Failure> {
    let store = context.open_to_read()?;
    let destination = Destination::create(&args.destination)?;
    let mut options = ShipOptions::default();
    options.dry_run = args.dry_run;
    options.is_backup = true;
    let mut shipper = Shipper::new(&store, &destination, options)?;
    let progress = shipper.progress();
    let outcome = with_progress(&progress, context.json, || shipper.ship())?;
    let (new, last) = (bytes(outcome.bytes), count(outcome.last_seq));
    let to = one_line(&args.destination);
    let text = if args.dry_run {
        format!("{new} of lines would be copied to {to}, up to seq {last}")
    } else {
        format!(
            "{to} has the store up to seq {last}: {new} of lines new, {} compressed, {} removed",
            bytes(outcome.bytes_written),
            counted(outcome.objects_removed, "object")
        )
    };
    context.print(&outcome, &text)?;
    Ok(Exit::with_findings(tell_of_unlike(&outcome)))
}
