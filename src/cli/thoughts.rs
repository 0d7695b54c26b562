//! `decklog thoughts`

use std::io;

use clap::Subcommand;
use decklog::human::{count, counted};
use decklog::query::{Order, ThoughtQuery};
use decklog::thoughts::ChainCheck;

use super::context::Context;
use super::escape::one_line;
use super::exit::{Exit, Failure};
use super::get::missing;
use super::list::{List, Part, none_found};
use super::output::{self, Output};
use super::verify;

/// List thoughts in the order in which they were recorded, or check their chains
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  decklog thoughts --task fix-the-build --json | jq -r .content\n  decklog thoughts verify"
)]
pub struct Args {
    #[command(flatten)]
    list: Listed,
    #[command(subcommand)]
    action: Option<Action>,
}

// Which thoughts are listed, and how.
#[derive(Debug, clap::Args)]
pub struct Listed {
    #[command(flatten)]
    query: ThoughtQuery,
    #[command(flatten)]
    part: Part,
}

impl Listed {
    /// Whether no option of the list is given, except the task.
    fn is_plain(&self) -> bool {
        let ThoughtQuery {
            prev_hash,
            since,
            until,
            ..
        } = &self.query;
        prev_hash.is_none() && since.or(*until).is_none() && self.part == Part::default()
    }
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Recompute the chain of each task, or of one, from its lines
    ///
    /// Exits with 0 only if every chain is intact and no line that may belong to one is damaged.
    /// To detect chains that were truncated or rewritten, compare the heads with copies that were
    /// stored elsewhere.
    #[command(
        after_help = "Example:\n  decklog thoughts verify --json | jq 'select(.broken or .damage)'"
    )]
    Verify,
}

pub fn run(args: &Args, context: &mut Context) -> Result<Exit, Failure> {
    let listed = &args.list;
    match &args.action {
        None => list(listed, context),
        Some(Action::Verify) if !listed.is_plain() => {
            let message = "of the options of lists, verify only takes --task";
            Err(Failure::usage(message))
        }
        Some(Action::Verify) => verify_chains(listed.query.task_id.as_deref(), context),
    }
}

pub fn list(args: &Listed, context: &mut Context) -> Result<Exit, Failure> {
    let store = context.open_to_read()?;
    let none = none_found("thoughts", args.query.task_id.is_some());
    let list = List::from(Order::OldestFirst, args.part, &none);
    list.print(context, &args.query, |query| store.thoughts().page(query))
}

fn verify_chains(task: Option<&str>, context: &mut Context) -> Result<Exit, Failure> {
    let store = context.open_to_read()?;
    let checks = match task {
        Some(task) => vec![store.thoughts().verify_chain(task)?],
        None => store.thoughts().verify_chains()?,
    };
    if let (Some(task), Some(check)) = (task, checks.first())
        && check.records == 0
        && check.is_intact()
    {
        return Ok(missing(format!("thought of task {task:?}")));
    }
    if context.json {
        context.out.json_lines(&checks)?;
    } else if let Some(first) = checks.first() {
        for check in &checks {
            print_check(&mut context.out, check)?;
        }
        // Damage may belong to any chain, so it applies to all of them.
        for damage in first.damage.iter() {
            let (class, place) = (damage.class.as_str(), verify::place(damage));
            context.out.line(&format!("{class:<9} {place}"))?;
        }
    } else {
        output::say("there are no thoughts");
    }
    let is_intact = checks.iter().all(ChainCheck::is_intact);
    Ok(Exit::with_findings(!is_intact))
}

fn print_check(out: &mut Output, check: &ChainCheck) -> io::Result<()> {
    let verdict = match (&check.broken, check.is_intact()) {
        (Some(_), _) => "broken",
        (None, true) => "intact",
        (None, false) => "unsure",
    };
    let task = if check.records == 0 && check.task_id.is_empty() {
        "no task can be read".into()
    } else {
        one_line(&check.task_id)
    };
    out.line(&format!(
        "{verdict:<9} {task}  {}  head {}",
        counted(check.records, "record"),
        one_line(check.head.as_deref().unwrap_or("-"))
    ))?;
    let Some(place) = &check.broken else {
        return Ok(());
    };
    let id = place.id.as_deref().map(|id| format!(", id {id}"));
    let text = format!(
        "record {}{}, {} at byte {}: {}",
        count(place.position),
        id.unwrap_or_default(),
        place.file,
        place.offset,
        place.reason
    );
    out.line(&format!("  {}", one_line(&text)))
}
