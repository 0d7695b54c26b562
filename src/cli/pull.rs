//! `decklog pull`

use std::path::PathBuf;

use decklog::human::{bytes, count, counted};
use decklog::ship::{Destination, Progress, Pulled};
use serde::Serialize;
use uuid::Uuid;

use super::context::Context;
use super::escape::one_line;
use super::exit::{Exit, Failure};
use super::transfer::with_progress;
use super::verify;

/// Make a store again from what 'decklog ship' or 'decklog backup' copied
///
/// The new store has the same lines, settings and seals. Every line and seal is checked, as by
/// 'decklog verify --deep'. An interrupted pull is continued by the same command.
#[derive(Debug, clap::Args)]
#[command(
    visible_alias = "restore",
    after_help = "Examples:\n  decklog pull s3://logs/agents ./copy\n  decklog pull /mnt/nas/agents ./copy --id 67e55044-10b1-426f-9247-bb680e5fe0c8"
)]
pub struct Args {
    /// Where the copy is: a directory or a URL, as for 'decklog ship'
    #[arg(value_name = "SOURCE")]
    source: String,
    /// The directory of the new store. It must not exist, or be empty
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// The id of the store, or its start, if several were copied there
    #[arg(long, value_name = "ID")]
    id: Option<String>,
}

/// The output with `--json`.
#[derive(Serialize)]
struct Summary {
    store_id: Uuid,
    last_seq: u64,
    bytes: u64,
    good_lines: u64,
    clean: bool,
}

/// The store whose id begins like this.
fn named(source: &Destination, start: &str) -> Result<Uuid, Failure> {
    let stores = source.stores()?;
    let of_start = |id: &&Uuid| id.to_string().starts_with(&start.to_ascii_lowercase());
    let found: Vec<&Uuid> = stores.iter().filter(of_start).collect();
    if let [id] = found[..] {
        return Ok(*id);
    }
    let all: Vec<String> = stores.iter().map(Uuid::to_string).collect();
    Err(Failure::usage(format!(
        "{} stores there have an id that begins with {}: give one of {}",
        found.len(),
        one_line(start),
        all.join(", ")
    )))
}

pub fn run(args: &Args, context: &mut Context) -> Result<Exit, Failure> {
    let source = Destination::parse(&args.source)?;
    let id = args.id.as_deref().map(|start| named(&source, start));
    let id = id.transpose()?;
    let progress = Progress::default();
    let pulled = with_progress(&progress, context.json, || {
        source.pull(id, &args.dir, &progress)
    })?;
    let Pulled {
        store_id,
        last_seq,
        verification,
        ..
    } = &pulled;
    let is_clean = verification.is_clean();
    if context.json {
        context.out.json(&Summary {
            store_id: *store_id,
            last_seq: *last_seq,
            bytes: pulled.bytes,
            good_lines: verification.good_lines,
            clean: is_clean,
        })?;
    } else {
        context.out.line(&format!(
            "store {store_id} is in {}, up to seq {}: {}, {}",
            one_line(&args.dir.display().to_string()),
            count(*last_seq),
            counted(verification.good_lines, "line"),
            bytes(pulled.bytes)
        ))?;
        verify::text(&mut context.out, verification, &args.dir)?;
    }
    Ok(Exit::with_findings(!is_clean))
}
