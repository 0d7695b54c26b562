//! `decklog day`, and what it shares with `decklog today`.

use decklog::analytics::{FileWork, ProjectWork, SessionWork, WorkQuery, WorkReport, WorkSums};
use decklog::human::{count, counted, dollars, float, short};

use super::context::Context;
use super::escape::one_line;
use super::exit::{Exit, Failure};
use super::output::{self, Colour, Span};
use super::show;
use super::table::{Cell, Column, Table};
use super::time::{self, DayBounds};

/// Maximum number of files and of failures shown for a project.
const NAMED: usize = 5;

/// Show what agents did on a day: sessions, edits, failures and cost, by project
///
/// The day is in local time, or in UTC with --utc. For a session that spans several days, only the
/// part on that day counts. Sub-agents count with the session that started them. Files are those
/// that edit tools changed, as in 'decklog files'. Failures are failed and denied tool calls.
/// --json prints one object. 'decklog today' is the same for today; 'decklog' without a command
/// compares the figures of today with the usual day.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  decklog day\n  decklog day 2025-12-09 --project decklog\n  decklog day 7d --json | jq '.projects[] | {project, edits, cost_usd}'"
)]
pub struct Args {
    /// The day: YYYY-MM-DD, today, yesterday, or a number of days ago, such as 7d
    #[arg(value_name = "DAY", default_value = "yesterday", value_parser = time::day_bounds)]
    day: DayBounds,
    /// Only conversations of this project
    #[arg(long, value_name = "NAME")]
    project: Option<String>,
}

pub fn run(args: &Args, context: &mut Context) -> Result<Exit, Failure> {
    print(context, args.day, args.project.as_ref())
}

/// Prints what was done on a day.
pub fn print(
    context: &mut Context,
    day: DayBounds,
    project: Option<&String>,
) -> Result<Exit, Failure> {
    let store = context.open_to_read()?;
    let query = WorkQuery {
        since: Some(day.start),
        until: Some(day.end),
        project: project.cloned(),
        limit: None,
    };
    let report = store.analytics().work(&query)?;
    if context.json {
        context.out.json(&report)?;
        return Ok(Exit::Ok);
    }
    if report.projects.is_empty() {
        output::say(&format!("nothing was recorded on {}", day.name()));
        return Ok(Exit::Ok);
    }
    report_of(context, &report, day)?;
    Ok(Exit::Ok)
}

fn report_of(context: &mut Context, report: &WorkReport, day: DayBounds) -> Result<(), Failure> {
    let out = &mut context.out;
    out.spans(&[Span::new(day.name(), Some(Colour::Dim))])?;
    for project in &report.projects {
        out.line("")?;
        let name = project.project.as_deref().unwrap_or("(no project)");
        out.spans(&[Span::new(one_line(name), Some(Colour::Bold))])?;
        if !project.sessions.is_empty() {
            sessions(&project.sessions).print(out)?;
        }
        for (label, text) in facts(project) {
            show::row(out, &one_line(&format!("  {label:<8}{text}")))?;
        }
    }
    if report.projects.len() > 1 {
        out.line("")?;
        let sessions = report
            .projects
            .iter()
            .map(|it| it.sessions.len() as u64)
            .sum();
        let parts = [
            counted(sessions, "session"),
            did(&report.total),
            took(&report.total),
        ];
        show::row(out, "total")?;
        for part in parts.iter().filter(|part| !part.is_empty()) {
            show::row(out, &format!("  {part}"))?;
        }
    }
    Ok(())
}

fn sessions(sessions: &[SessionWork]) -> Table {
    let clock = |at: &decklog::Timestamp| time::formatted(at.at(), "%H:%M");
    let row = |session: &SessionWork| {
        let from = session.began_at.as_ref().map(clock).unwrap_or_default();
        let to = session.ended_at.as_ref().map(clock).unwrap_or_default();
        #[allow(clippy::cast_precision_loss)] // It is rounded for people.
        let lasted = session.lasted_ms() as f64;
        let agents = counted(session.sub_agents, "sub-agent");
        let title = session.title.as_deref().unwrap_or("(no title)");
        let title = match session.sub_agents {
            0 => title.to_owned(),
            _ => format!("{title} (+{agents})"),
        };
        vec![
            Cell::Text(Some(format!("{from}–{to}"))),
            Cell::Text(session.agent.clone()),
            Cell::Id(session.conversation_id),
            Cell::Count(session.sums.spent.messages),
            Cell::Count(session.sums.calls),
            Cell::Count(session.sums.failed_calls),
            Cell::Duration(Some(lasted)),
            Cell::Text(Some(title)),
        ]
    };
    Table {
        columns: vec![
            Column::text("TIME", "time"),
            Column {
                rank: 4,
                ..Column::text("AGENT", "agent")
            },
            Column {
                rank: 1,
                ..Column::text("CONVERSATION", "conversation_id")
            },
            Column::number("MESSAGES", "messages", 3),
            Column::number("CALLS", "calls", 2),
            Column::number("FAILED", "failed_calls", 5),
            Column::number("LASTED", "lasted_ms", 2),
            Column::text("TITLE", "title"),
        ],
        rows: sessions.iter().map(row).collect(),
        ..Table::default()
    }
}

/// The lines below the sessions of a project, each with its label.
fn facts(project: &ProjectWork) -> Vec<(&'static str, String)> {
    let mut facts = vec![("did", did(&project.sums))];
    let files = project.changed_files.iter().take(NAMED);
    let file = |file: &FileWork| {
        let changes = match file.changes {
            0 | 1 => String::new(),
            changes => format!("  {}", counted(changes, "change")),
        };
        let lines = lines(file.lines.added, file.lines.removed);
        ("edited", format!("{}{changes}{lines}", file.path))
    };
    facts.extend(files.map(file));
    let more = |all: usize| format!("… {} more", count(all.saturating_sub(NAMED) as u64));
    if project.changed_files.len() > NAMED {
        facts.push(("", more(project.changed_files.len())));
    }
    for failure in project.failures.iter().take(NAMED) {
        let command = failure.command.as_ref().map(|it| format!(" {it}"));
        let error = failure.error.as_ref().map(|it| format!(": {it}"));
        let what = format!(
            "{} × {}{}{}",
            count(failure.failures),
            failure.tool_name,
            command.unwrap_or_default(),
            error.unwrap_or_default()
        );
        facts.push(("failed", what));
    }
    if project.failures.len() > NAMED {
        facts.push(("", more(project.failures.len())));
    }
    facts.push(("used", took(&project.sums)));
    // A label is shown once.
    let mut last = "";
    for (label, _) in &mut facts {
        if *label == last {
            *label = "";
        } else {
            last = *label;
        }
    }
    facts.retain(|(_, text)| !text.is_empty());
    facts
}

/// The changed lines, if any: `  +12 -3`.
fn lines(added: u64, removed: u64) -> String {
    if added == 0 && removed == 0 {
        return String::new();
    }
    format!("  +{} -{}", count(added), count(removed))
}

/// What was done, in numbers.
fn did(sums: &WorkSums) -> String {
    let mut parts = vec![counted(sums.spent.messages, "message")];
    let failed = match sums.failed_calls {
        0 => String::new(),
        failed => format!(" ({} failed)", count(failed)),
    };
    if sums.calls > 0 {
        parts.push(format!("{}{failed}", counted(sums.calls, "call")));
    }
    if sums.files > 0 {
        let lines = lines(sums.lines.added, sums.lines.removed);
        let lines = match lines.trim() {
            "" => String::new(),
            lines => format!(" ({lines})"),
        };
        parts.push(format!("{} changed{lines}", counted(sums.files, "file")));
    }
    parts.join(", ")
}

/// Tokens and cost; empty if there are none.
fn took(sums: &WorkSums) -> String {
    let spent = &sums.spent;
    let mut parts = Vec::new();
    if spent.tokens_in > 0 || spent.tokens_out > 0 {
        let [input, output, read] = [spent.tokens_in, spent.tokens_out, spent.tokens_cache_read]
            .map(|tokens| short(float(tokens)));
        let cached = match spent.tokens_cache_read {
            0 => String::new(),
            _ => format!(" ({read} from the cache)"),
        };
        parts.push(format!("{input} tokens in{cached}, {output} out"));
    }
    parts.extend(spent.cost_usd.map(dollars));
    parts.join(", ")
}
