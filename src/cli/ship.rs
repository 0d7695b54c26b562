//! `decklog ship`

use std::thread;
use std::time::Duration;

use decklog::human::{bytes, count, counted};
use decklog::ship::{Backoff, Destination, Format, ShipOptions, Shipped, Shipper};

use super::context::Context;
use super::escape::one_line;
use super::exit::{Exit, Failure};
use super::output;
use super::transfer::with_progress;

/// Copy the log to object storage, a directory, PostgreSQL or an OpenTelemetry receiver, and keep the copy up to date
///
/// Each run copies what is new and removes what was removed from the log. It can be interrupted at
/// any moment: the next run continues, and no record is lost or doubled. DEST is a directory, or a
/// URL: s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, az://CONTAINER/PREFIX, file:///DIR,
/// postgres://USER@HOST/DATABASE. Credentials come from the environment, such as AWS_ACCESS_KEY_ID,
/// AWS_ENDPOINT_URL and PGPASSWORD. Many stores can be copied to one place.
///
/// otlp://HOST[:PORT][/PATH] (port 4318) and otlps://HOST[:PORT][/PATH] (TLS, port 443) send
/// conversations and runs as spans and log records over HTTP. OTEL_EXPORTER_OTLP_HEADERS has
/// headers, such as Authorization=Basic%20... What was sent is not removed there.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  decklog ship s3://logs/agents --follow\n  decklog ship postgres://me@db.example/fleet\n  decklog ship /mnt/nas/agents --dry-run\n  decklog ship otlp://localhost:4318 --follow\n  decklog verify s3://logs/agents"
)]
pub struct Args {
    /// Where to copy the log
    #[arg(value_name = "DEST")]
    destination: String,
    /// Continue as the log grows. Failures are tried again, after 1 second and up to a minute
    #[arg(long, short)]
    follow: bool,
    /// With --follow: look for new lines this often
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 1,
        value_parser = clap::value_parser!(u64).range(1..=86_400)
    )]
    interval: u64,
    /// Write nothing; say what would be copied
    #[arg(long, conflicts_with = "follow")]
    dry_run: bool,
    /// The format of the copy
    #[arg(long, default_value_t)]
    format: Format,
}

pub fn run(args: &Args, context: &mut Context) -> Result<Exit, Failure> {
    let store = context.open_to_read()?;
    let destination = Destination::create(&args.destination)?;
    let mut options = ShipOptions::default();
    options.format = args.format;
    options.dry_run = args.dry_run;
    options.follows = args.follow;
    let mut shipper = Shipper::new(&store, &destination, options)?;
    if !args.follow {
        let progress = shipper.progress();
        let is_json = context.json;
        let outcome = with_progress(&progress, is_json, || shipper.ship())?;
        print(context, &outcome, &destination.to_string(), args.dry_run)?;
        let findings = tell_of_unlike(&outcome) | tell_of_rejected(&outcome);
        return Ok(Exit::with_findings(findings));
    }
    let mut backoff = Backoff::default();
    let mut is_first = true;
    loop {
        match shipper.ship() {
            Ok(outcome) => {
                if is_first || outcome.has_changes() {
                    print(context, &outcome, &destination.to_string(), args.dry_run)?;
                    context.out.flush()?;
                }
                tell_of_unlike(&outcome);
                tell_of_rejected(&outcome);
                backoff.reset();
                is_first = false;
                thread::sleep(Duration::from_secs(args.interval));
            }
            Err(error) if is_passing(error.kind()) => {
                let wait = backoff.next_wait();
                let seconds = wait.as_secs_f64();
                output::say(&format!("{error}; trying again in {seconds:.1} s"));
                thread::sleep(wait);
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Whether a failure may pass by itself.
fn is_passing(kind: decklog::ErrorKind) -> bool {
    use decklog::ErrorKind;
    matches!(
        kind,
        ErrorKind::Remote | ErrorKind::Io | ErrorKind::Conflict | ErrorKind::Locked
    )
}

fn print(
    context: &mut Context,
    shipped: &Shipped,
    destination: &str,
    is_dry: bool,
) -> Result<(), Failure> {
    let (to, last) = (one_line(destination), count(shipped.last_seq));
    let lines = bytes(shipped.bytes);
    let sent = shipped.spans_sent + shipped.logs_sent;
    let items = || {
        let spans = counted(shipped.spans_sent, "span");
        format!("{spans} and {}", counted(shipped.logs_sent, "log record"))
    };
    let text = if is_dry && sent > 0 {
        format!("{} would be sent to {to}, up to seq {last}", items())
    } else if sent > 0 {
        format!(
            "{to} is up to date, up to seq {last}: {lines} of lines read, {} sent",
            items()
        )
    } else if is_dry {
        format!("{lines} of lines would be copied to {to}, up to seq {last}")
    } else if !shipped.has_changes() {
        format!("{to} is up to date, up to seq {last}")
    } else if shipped.rows_written + shipped.rows_removed > 0 {
        format!(
            "{to} is up to date, up to seq {last}: {lines} of lines read, {} written, {} deleted",
            counted(shipped.rows_written, "row"),
            counted(shipped.rows_removed, "row"),
        )
    } else {
        format!(
            "{to} is up to date, up to seq {last}: {lines} of lines in {}, {} compressed, {} removed",
            counted(shipped.objects_written, "new object"),
            bytes(shipped.bytes_written),
            counted(shipped.objects_removed, "object"),
        )
    };
    Ok(context.print(shipped, &text)?)
}

/// Reports segments that do not match their seal. Returns whether there are any.
pub fn tell_of_unlike(shipped: &Shipped) -> bool {
    for file in &shipped.unlike_seal {
        output::say(&format!(
            "{file} does not match its seal and was copied as it is: see 'decklog verify'"
        ));
    }
    !shipped.unlike_seal.is_empty()
}

/// Reports what a receiver did not take. Returns whether there is any.
fn tell_of_rejected(shipped: &Shipped) -> bool {
    if shipped.items_rejected > 0 {
        output::say(&format!(
            "the receiver rejected {}, which are not sent again",
            counted(shipped.items_rejected, "item")
        ));
    }
    if shipped.logs_refused > 0 {
        output::say(&format!(
            "the receiver takes no log records: {} left out",
            counted(shipped.logs_refused, "log record")
        ));
    }
    // A receiver may also give advice about what it accepted.
    for reason in &shipped.rejections {
        output::say(&format!("the receiver says: {}", one_line(reason)));
    }
    shipped.items_rejected > 0
}
