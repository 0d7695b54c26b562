//! `decklog tail`

use std::time::Duration;

use decklog::lines::LogLine;
use serde::Serialize;

use super::context::Context;
use super::exit::{Exit, Failure};
use super::{line, show};

/// Timeout of one wait. Any value works: a new line ends the wait.
const WAIT: Duration = Duration::from_secs(60);

/// Show the last lines of the log, of all kinds in the order in which they were written
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  decklog tail -n 20 -f")]
pub struct Args {
    /// Number of lines to start with
    #[arg(short = 'n', long = "limit", value_name = "N", default_value_t = 10)]
    lines: usize,
    /// Also print new lines, from all processes
    #[arg(short, long)]
    follow: bool,
}

pub fn run(args: &Args, context: &mut Context) -> Result<Exit, Failure> {
    let store = context.open_to_read()?;
    // At least one, for the position to continue from.
    let last = store.last_lines(args.lines.max(1))?;
    let seq = last.last().map_or(0, |line| line.seq);
    if args.lines > 0 {
        print(context, &last)?;
    }
    if !args.follow {
        return Ok(Exit::Ok);
    }
    let mut follow = store.follow(seq)?;
    loop {
        let news = follow.next_lines(WAIT)?;
        print(context, &news)?;
    }
}

fn print(context: &mut Context, lines: &[LogLine]) -> Result<(), Failure> {
    for found in lines {
        if context.json {
            context.out.json_text(&with_file(found)?)?;
        } else {
            let row = line::row(found.kind, found.seq, &found.text);
            show::row(&mut context.out, &row)?;
        }
    }
    Ok(context.out.flush()?)
}

/// The line, with its file as the first member.
fn with_file(line: &LogLine) -> Result<String, Failure> {
    #[derive(Serialize)]
    struct File<'a> {
        file: &'a str,
    }
    let file = serde_json::to_string(&File { file: &line.file }).map_err(std::io::Error::from)?;
    let members = line.text.trim_start().strip_prefix('{');
    Ok(match members {
        // A line with a sequence number has at least that member.
        Some(members) => format!("{},{members}", file.trim_end_matches('}')),
        None => line.text.clone(),
    })
}
