//! `decklog report`

use std::path::PathBuf;

use super::context::Context;
use super::exit::{Exit, Failure};
use super::export::html;
use super::new_file::{named, write_to};

/// Write a conversation, a run or the figures of a period as a web page in one file
///
/// The same as 'decklog export html WHAT -o FILE'.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  decklog report --html today.html today\n  decklog report --html run.html latest\n  decklog report --html june.html 2026-06-01..2026-06-30"
)]
pub struct Args {
    /// The file to write, or '-' for standard output
    #[arg(long, value_name = "FILE")]
    html: PathBuf,
    /// Replace the file if it exists
    #[arg(long)]
    force: bool,
    /// As for 'decklog export html'. Default: 30d
    what: Option<html::What>,
}

pub fn run(args: &Args, context: &mut Context) -> Result<Exit, Failure> {
    let write = |context: &mut Context| html::write(args.what.as_ref(), context);
    match named(&args.html) {
        Some(path) => write_to(path, args.force, context, write),
        None if context.json => Err(Failure::usage("--json is for the report about a file")),
        None => write(context),
    }
}
