//! `decklog demo`: a tour with real sessions, in a minute.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use decklog::import::Importer;
use decklog::query::{CallQuery, ConversationQuery, Order, TurnQuery};
use decklog::record::ToolCall;
use decklog::storage::Disk;
use decklog::{CallStatus, ConversationTurn, Durability, TurnKind};
use uuid::Uuid;

use super::context::{Context, KEEPS_ALL};
use super::escape::{one_line, shell_word};
use super::exit::{Exit, Failure};
use super::list::Paged;
use super::output::Output;
use super::show::Listed;
use super::{import, show, verify};

macro_rules! sample {
    ($name:literal) => {
        ($name, include_bytes!(concat!("../../tests/data/", $name)))
    };
}

const SAMPLES: [(&str, &[u8]); 3] = [
    sample!("claude-code-session.jsonl"),
    sample!("claude-code-subagent.jsonl"),
    sample!("codex-rollout.jsonl"),
];
/// More than the samples have.
const RECORDS_MAX: usize = 10_000;

/// Show decklog with bundled sessions of Claude Code and Codex, in a new directory
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  decklog demo")]
pub struct Args {
    /// An empty or new directory. Default: a new temporary directory
    #[arg(value_name = "DIR")]
    dir: Option<PathBuf>,
}

pub fn run(args: &Args, context: &mut Context) -> Result<Exit, Failure> {
    if context.json || context.has_store() {
        let message = "demo accepts neither --store nor --json: it uses a new directory";
        return Err(Failure::usage(message));
    }
    let dir = match &args.dir {
        Some(dir) => given(dir)?,
        None => fresh()?,
    };
    let (sessions, log) = (dir.join("sessions"), dir.join("log"));
    write_samples(&sessions)?;
    let (store, _) = context.open_to_import(&log, Durability::Process)?;
    let out = &mut context.out;

    heading(
        out,
        "Import: a session of Claude Code, its sub-agent's and one of Codex into one log",
    )?;
    let mut importer = Importer::new(&store);
    importer.path(&sessions)?;
    import::show(out, &importer.finish()?, &log.display().to_string())?;
    out.line(KEEPS_ALL)?;

    let turns = TurnQuery::default().page(Order::OldestFirst, RECORDS_MAX, None);
    let calls = CallQuery::default().page(Order::OldestFirst, RECORDS_MAX, None);
    let calls = store.tool_calls(&calls)?.items;
    heading(
        out,
        "The timeline of turns and tool calls (without thinking and tool output)",
    )?;
    transcript(out, &store.turns(&turns)?.items, &calls)?;

    heading(out, "The conversations, with totals of their messages")?;
    show::heading::<Listed>(out)?;
    let conversations = store.conversations(&ConversationQuery::default())?.items;
    for conversation in &conversations {
        show::row_of(out, &Listed::of(&store, conversation.clone())?)?;
    }

    heading(out, "A query: the failed calls and their errors")?;
    let failed = CallQuery {
        status: Some(CallStatus::Failed),
        ..CallQuery::default()
    };
    show::heading::<ToolCall>(out)?;
    for call in store.tool_calls(&failed)?.items {
        show::row_of(out, &call)?;
    }

    heading(out, "Every byte checked")?;
    let found = decklog::verify(&Disk::new(&log))?;
    verify::text(out, &found, &log)?;

    heading(out, "Now you")?;
    let shown = one_line(&dir.display().to_string()).into_owned();
    out.line(&format!(
        "All of this is in {shown}, which can be deleted.\n"
    ))?;
    let largest = conversations
        .iter()
        .max_by_key(|(_, stats)| stats.total_tokens_in);
    let conversation = largest.map(|(conversation, _)| conversation.id);
    commands(out, &dir, calls.last(), conversation)?;
    Ok(Exit::with_findings(!found.is_clean()))
}

fn given(dir: &Path) -> Result<PathBuf, Failure> {
    let shown = dir.display();
    let unusable = |e| Failure::store(format!("cannot use {shown}: {e}"));
    fs::create_dir_all(dir).map_err(unusable)?;
    if fs::read_dir(dir).map_err(unusable)?.next().is_some() {
        let message = format!("{shown} is not empty: give a new directory");
        return Err(Failure::usage(message));
    }
    fs::canonicalize(dir).map_err(unusable)
}

/// A new directory.
fn fresh() -> Result<PathBuf, Failure> {
    let temporary = std::env::temp_dir();
    let mut number = 1;
    loop {
        let dir = temporary.join(format!("decklog-demo-{number}"));
        match fs::create_dir(&dir) {
            Ok(()) => return Ok(dir),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => number += 1,
            Err(e) => {
                let message = format!("cannot create {}: {e}", dir.display());
                return Err(Failure::store(message));
            }
        }
    }
}

fn write_samples(sessions: &Path) -> Result<(), Failure> {
    let shown = sessions.display();
    let unwritable = |e| Failure::store(format!("cannot write the samples to {shown}: {e}"));
    fs::create_dir(sessions).map_err(unwritable)?;
    for (name, bytes) in SAMPLES {
        fs::write(sessions.join(name), bytes).map_err(unwritable)?;
    }
    Ok(())
}

fn heading(out: &mut Output, text: &str) -> io::Result<()> {
    out.line(&format!("\n== {text}\n"))
}

/// Turns and calls in order of time, without internal notes of the harnesses.
fn transcript(out: &mut Output, turns: &[ConversationTurn], calls: &[ToolCall]) -> io::Result<()> {
    // A turn with calls and without text is imported as the names of its calls, which are
    // shown themselves.
    let made_calls = |turn: &ConversationTurn| {
        turn.content.starts_with("[tool_use ")
            && calls.iter().any(|(req, _)| req.parent_id == turn.id)
    };
    let said = turns.iter().filter(|turn| {
        matches!(turn.kind, TurnKind::User | TurnKind::Assistant) && !made_calls(turn)
    });
    let width = out.columns();
    let said = said.map(|turn| (turn.created_at.at, show::table_row(turn, width)));
    let calls = calls.iter();
    let calls = calls.map(|call| (call.0.started_at.at, show::table_row(call, width)));
    let mut rows: Vec<(i64, String)> = said.chain(calls).collect();
    rows.sort_by_key(|(at, _)| *at);
    rows.iter().try_for_each(|(_, text)| show::row(out, text))
}

/// Commands to try, ready to be pasted.
fn commands(
    out: &mut Output,
    dir: &Path,
    call: Option<&ToolCall>,
    conversation: Option<Uuid>,
) -> io::Result<()> {
    let program = std::env::args()
        .next()
        .filter(|program| !program.is_empty());
    let program = quoted(program.as_deref().unwrap_or("decklog"));
    let path = |below: &str| quoted(&dir.join(below).display().to_string());
    let (log, sessions) = (path("log"), path("sessions"));
    let mut commands = Vec::new();
    commands.extend(conversation.map(|id| format!("tree {id}")));
    commands.extend(conversation.map(|id| format!("show {id}")));
    commands.extend([
        "turns".to_owned(),
        "calls --status failed --long".to_owned(),
        "tail -n 5".to_owned(),
        "replay 2025-12-09 --speed 200".to_owned(),
    ]);
    commands.extend(call.map(|(req, _)| {
        let call_id = quoted(&req.call_id);
        format!("get calls {} {call_id} --json", req.request_id)
    }));
    for command in commands {
        out.line(&format!("  {program} {command} --store {log}"))?;
    }
    out.line(&format!(
        r#"  {program} import {sessions} --store {log}    # again: adds nothing

No decklog needed: the files are the log.

  grep -h '"op":"failed"' {log}/*/tool_calls.*.jsonl
  jq -r 'select(.tool_name=="apply_patch").arguments_json' {log}/2025-12-09/tool_calls.*.jsonl

Your own sessions, into your own log:

  {program} import ~/.claude/projects
  {program} calls"#
    ))
}

/// A word, quoted for a shell.
fn quoted(word: &str) -> String {
    one_line(&String::from_utf8_lossy(&shell_word(word.as_bytes()))).into_owned()
}
