//! `decklog inbox`

use decklog::human::count;
use decklog::inbox::TaskCounts;
use decklog::query::{Order, TaskQuery};
use decklog::record::TaskStatus;

use super::context::Context;
use super::exit::{Exit, Failure};
use super::list::{List, Part};

/// List the tasks of the inbox, by id, oldest first
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  decklog inbox --status failed --json | jq '{id, error}'\n  decklog inbox --counts"
)]
pub struct Args {
    #[command(flatten)]
    query: TaskQuery,
    #[command(flatten)]
    part: Part,
    /// Only show the number of tasks by status
    #[arg(long, conflicts_with_all = ["status", "since", "until", "limit", "after", "order", "long"])]
    pub counts: bool,
}

pub fn run(args: &Args, context: &mut Context) -> Result<Exit, Failure> {
    let store = context.open_to_read()?;
    if args.counts {
        return counts(context, store.inbox().counts()?);
    }
    let list = List::from(Order::OldestFirst, args.part, "no tasks found");
    list.print(context, &args.query, |query| store.inbox().list(query))
}

fn counts(context: &mut Context, counts: TaskCounts) -> Result<Exit, Failure> {
    let rows = [
        (TaskStatus::Queued, counts.queued),
        (TaskStatus::InProgress, counts.in_progress),
        (TaskStatus::Done, counts.done),
        (TaskStatus::Failed, counts.failed),
    ];
    let rows = rows.map(|(status, tasks)| {
        let (status, count) = (status.as_str(), count(tasks as u64));
        format!("{status:<11}  {count:>9}")
    });
    context.print(&counts, &rows.join("\n"))?;
    Ok(Exit::Ok)
}
