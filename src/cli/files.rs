//! `decklog files`

use std::path::Path;

use decklog::analytics::{CallEnd, FileChange, FileRow, FilesReport, WorkQuery};
use decklog::human::{count, counted, one_line};

use super::context::{Context, LIMIT_ON_TERMINAL};
use super::exit::{Exit, Failure};
use super::output;
use super::table::{Cell, Column, Table};
use super::time::{self, Times};

/// Maximum number of characters of a title and of a prompt.
const TEXT_CHARS: usize = 80;

/// Show which files agents changed, latest change first
///
/// Changes are found in the calls of edit tools, and in apply_patch commands of a shell; changes by
/// other commands are not detected. Paths inside the workspace of the conversation are relative to
/// it. Lines are counted from the arguments of the calls; when a tool writes a whole file, all its
/// lines count as added. Changes that failed or were denied are not counted. For the path of one
/// file, each change is listed, with its conversation and the prompt before it. The running time
/// grows with the number of changes in the period.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  decklog files --since yesterday\n  decklog files src --project decklog\n  decklog files '**/*.rs' --json | jq '.rows[] | {path, changes}'\n  decklog files src/main.rs"
)]
pub struct Args {
    /// A directory, a file, or a pattern with *, ** and ?: absolute, or relative to the workspaces.
    /// With ./ or ../ at the start, relative to the current directory
    path: Option<String>,
    #[command(flatten)]
    times: Times,
    /// Only conversations of this project
    #[arg(long, value_name = "NAME")]
    project: Option<String>,
    /// Maximum number of rows. Default: 100 on a terminal, else 1000
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
}

pub fn run(args: &Args, context: &mut Context) -> Result<Exit, Failure> {
    let store = context.open_to_read()?;
    let on_terminal = context.out.is_terminal() && !context.json;
    let query = WorkQuery {
        since: args.times.since,
        until: args.times.until,
        project: args.project.clone(),
        limit: args.limit.or(on_terminal.then_some(LIMIT_ON_TERMINAL)),
    };
    let path = args.path.as_deref().map(wanted);
    let report = store.analytics().files(&query, path.as_deref())?;
    if context.json {
        context.out.json(&report)?;
        return Ok(Exit::Ok);
    }
    let (shown, all) = match &report.changes {
        Some(changes) => {
            changes_of(changes).print(&mut context.out)?;
            let made = report.rows.iter().map(|row| row.changes + row.failed).sum();
            (changes.len() as u64, made)
        }
        None if report.row_count == 0 => {
            output::say("no changed files found");
            (0, 0)
        }
        None => {
            files(&report).print(&mut context.out)?;
            (report.rows.len() as u64, report.row_count as u64)
        }
    };
    for (tool, calls) in &report.not_understood {
        let calls = counted(*calls, "call");
        let message = format!("{calls} of {tool} with arguments that are not understood");
        context.say_below(&message)?;
    }
    if shown < all {
        let [shown, all] = [shown, all].map(count);
        context.say_below(&format!("{shown} of {all} shown: set --limit"))?;
    }
    Ok(Exit::Ok)
}

/// The path to compare: in the current directory if it begins with `./` or `../`.
fn wanted(path: &str) -> String {
    if path == "." || path == ".." || path.starts_with("./") || path.starts_with("../") {
        let whole = std::env::current_dir().map(|dir| dir.join(Path::new(path)));
        return whole.map_or_else(|_| path.to_owned(), |it| it.display().to_string());
    }
    path.to_owned()
}

fn files(report: &FilesReport) -> Table {
    let text = |text: String| Cell::Text(Some(text));
    let row = |row: &FileRow| {
        let at = row.changed_at.as_ref();
        vec![
            Cell::Text(at.map(|at| time::formatted(at.at(), "%Y-%m-%d %H:%M"))),
            Cell::Count(row.changes),
            Cell::Count(row.failed),
            Cell::Count(row.lines.added),
            Cell::Count(row.lines.removed),
            Cell::Count(row.conversations),
            text(row.agents.join(", ")),
            Cell::Text(row.project.clone()),
            text(row.path.clone()),
        ]
    };
    Table {
        columns: vec![
            Column::text("CHANGED", "changed_at"),
            Column::number("CHANGES", "changes", 1),
            Column::number("FAILED", "failed", 4),
            Column::number("ADDED", "added", 2),
            Column::number("REMOVED", "removed", 2),
            Column::number("SESSIONS", "conversations", 5),
            Column {
                rank: 3,
                ..Column::text("AGENTS", "agents")
            },
            Column {
                rank: 4,
                ..Column::text("PROJECT", "project")
            },
            Column::text("FILE", "path"),
        ],
        rows: report.rows.iter().map(row).collect(),
        ..Table::default()
    }
}

/// The changes of a file.
fn changes_of(changes: &[FileChange]) -> Table {
    let lines = |lines: Option<u64>| Cell::Text(Some(lines.map_or("-".to_owned(), count)));
    let row = |change: &FileChange| {
        let at = change.at.as_ref();
        let mark = match change.status {
            CallEnd::Failed | CallEnd::Denied => "! ",
            CallEnd::Requested | CallEnd::Completed => "",
        };
        let title = one_line(change.title.as_deref().unwrap_or("(no title)"), TEXT_CHARS);
        let prompt = change.prompt.as_deref().filter(|prompt| *prompt != title);
        let prompt = prompt.map(|prompt| format!("  > {}", one_line(prompt, TEXT_CHARS)));
        let conversation = change.conversation_id.map(Cell::Id);
        vec![
            Cell::Text(at.map(|at| time::formatted(at.at(), "%Y-%m-%d %H:%M"))),
            Cell::Text(Some(format!("{mark}{}", change.status))),
            Cell::Text(Some(change.tool_name.clone())),
            lines(change.edit.added),
            lines(change.edit.removed),
            conversation.unwrap_or(Cell::Text(None)),
            Cell::Text(Some(title + &prompt.unwrap_or_default())),
        ]
    };
    Table {
        columns: vec![
            Column::text("AT", "at"),
            Column::text("STATUS", "status"),
            Column {
                rank: 2,
                ..Column::text("TOOL", "tool_name")
            },
            Column::number("ADDED", "added", 1),
            Column::number("REMOVED", "removed", 1),
            Column::text("CONVERSATION", "conversation_id"),
            Column::text("TITLE, AND THE PROMPT BEFORE", "title"),
        ],
        rows: changes.iter().map(row).collect(),
        ..Table::default()
    }
}
