//! `decklog import`

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io::IsTerminal;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use decklog::import::{Broken, FileReport, Format, Importer, Progress, Report};
use decklog::{ErrorKind, Kind, RetainOptions, Store};
use indicatif::{ProgressBar, ProgressStyle};

use super::context::{Context, Level};
use super::escape::one_line;
use super::exit::{Exit, Failure};
use super::output::{self, Output};
use super::show::{count, grouped};

/// A bar for less than this would only flash up.
const BAR_AFTER: Duration = Duration::from_millis(300);
/// The most broken lines that text names; JSON names all.
const BROKEN_SHOWN_MAX: usize = 20;

/// Import session files of Claude Code and Codex
///
/// A folder is searched for *.jsonl files. Importing again adds only what is new.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  decklog import ~/.claude/projects ~/.codex/sessions")]
pub struct Args {
    /// Session files, or folders of them
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// The tool that wrote the files. Default: each file tells
    #[arg(long, value_parser = formats())]
    format: Option<Format>,
    /// When a record is acknowledged
    #[arg(long, value_enum, default_value_t)]
    durability: Level,
}

fn formats() -> impl TypedValueParser<Value = Format> {
    PossibleValuesParser::new(Format::ALL.map(Format::as_str))
        .try_map(|word| word.parse::<Format>())
}

pub fn run(args: &Args, context: &mut Context) -> Result<Exit, Failure> {
    // Before a store is made for the sake of a path mistyped.
    if let [path] = &args.paths[..]
        && let Err(error) = std::fs::metadata(path)
    {
        let message = format!("cannot read {}: {error}", path.display());
        return Err(Failure::usage(message));
    }
    let store = context.open_to_write(args.durability)?;
    let bar = Bar::new(!context.json && std::io::stderr().is_terminal());
    let report = import(&store, &args.paths, args.format, &bar)?;
    store.sync()?;
    if context.json {
        for file in &report.per_file {
            context.out.json(file)?;
        }
        context.out.json(&report)?;
    } else {
        show(
            &mut context.out,
            &report,
            &store.path().display().to_string(),
        )?;
    }
    warn_of_what_goes(&store)?;
    let nothing_was_read = report.files == 0 && !report.broken.is_empty();
    Ok(if nothing_was_read {
        Exit::Usage
    } else {
        Exit::with_findings(!report.broken.is_empty())
    })
}

/// Imports all paths; one that is refused as a whole is reported as broken.
fn import(
    store: &Store,
    paths: &[PathBuf],
    format: Option<Format>,
    bar: &Bar,
) -> Result<Report, Failure> {
    let mut importer = Importer::new(store)
        .format(format)
        .on_progress(|progress| bar.show(progress));
    let mut refused = Vec::new();
    let mut stopped = None;
    for path in paths {
        match importer.path(path) {
            Ok(()) => {}
            Err(error) if is_about(&error, path) => refused.push(Broken {
                file: path.display().to_string(),
                line: 0,
                reason: error.to_string(),
            }),
            Err(error) => {
                stopped = Some(error);
                break;
            }
        }
    }
    let mut report = importer.finish()?;
    bar.clear();
    if let Some(error) = stopped {
        let words = format!("stopped, {} added until then", count(report.added, "line"));
        return Err(Failure::from(error).in_front(&words));
    }
    for broken in refused {
        let known = report.per_file.iter_mut();
        match known.rev().find(|file| file.file == broken.file) {
            Some(file) => file.report.broken.push(broken.clone()),
            None => report.per_file.push(FileReport {
                file: broken.file.clone(),
                report: Report {
                    broken: vec![broken.clone()],
                    ..Report::default()
                },
            }),
        }
        report.broken.push(broken);
    }
    Ok(report)
}

/// Whether the error is about the path itself, and no trouble of the store.
fn is_about(error: &decklog::Error, path: &Path) -> bool {
    matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::Io) && error.path() == Some(path)
}

/// Says what of the log is past its time already, and how to keep it: sessions are often older
/// than a store keeps them.
fn warn_of_what_goes(store: &Store) -> Result<(), Failure> {
    if !store.settings()?.privacy.auto_delete {
        return Ok(());
    }
    let mut go_on = |_: &_| ControlFlow::Continue(());
    let would_go = store.retain(RetainOptions {
        dry_run: true,
        ..RetainOptions::now(&mut go_on)
    });
    let would_go = match would_go {
        // Someone removes it right now.
        Err(error) if error.kind() == ErrorKind::Locked => return Ok(()),
        would_go => would_go?,
    };
    let mut lines: BTreeMap<Kind, u64> = BTreeMap::new();
    for part in &would_go.parts {
        *lines.entry(part.kind).or_default() += part.lines;
    }
    if lines.is_empty() {
        return Ok(());
    }
    let settings = lines.keys().map(|kind| match kind {
        Kind::Conversations => Kind::Messages.stem(),
        kind => kind.stem(),
    });
    let settings: BTreeSet<&str> = settings.collect();
    let commands = settings
        .iter()
        .map(|setting| format!("'decklog config set retention.{setting} forever'"));
    let commands: Vec<String> = commands.collect();
    let of_kinds = lines
        .iter()
        .map(|(kind, lines)| format!("{} of {}", grouped(*lines), kind.stem()));
    let of_kinds: Vec<String> = of_kinds.collect();
    output::say(&format!(
        "{} of the log {} older than it keeps them, and will be removed: {}",
        count(lines.values().sum(), "line"),
        if lines.values().sum::<u64>() == 1 {
            "is"
        } else {
            "are"
        },
        of_kinds.join(", "),
    ));
    output::say(&format!(
        "to keep them: {}; or all, whatever its age: 'decklog config set privacy.auto_delete false'",
        commands.join(", "),
    ));
    Ok(())
}

/// Says what an import did, what it did not understand and what was broken.
pub fn show(out: &mut Output, report: &Report, store: &str) -> std::io::Result<()> {
    out.line(&format!(
        "{} with {} read, {} added to {}",
        count(report.files, "file"),
        count(report.lines, "line"),
        count(report.added, "record"),
        one_line(store)
    ))?;
    out.line(&format!(
        "  {}, {}, {}",
        count(report.turns, "turn"),
        count(report.tool_calls, "tool call"),
        count(report.tool_results, "tool result"),
    ))?;
    out.line(&format!(
        "  {} with {}",
        count(report.conversations, "conversation"),
        count(report.messages, "message"),
    ))?;
    out.line(&format!(
        "  {}, {} tokens in, {} out",
        count(report.api_responses, "API response"),
        grouped(report.tokens_in),
        grouped(report.tokens_out),
    ))?;
    if !report.not_understood.is_empty() {
        out.line("Not understood, and left out:")?;
    }
    for (what, n) in &report.not_understood {
        out.line(&format!("  {:>6}  {}", grouped(*n), one_line(what)))?;
    }
    if !report.broken.is_empty() {
        out.line("Broken:")?;
    }
    for broken in report.broken.iter().take(BROKEN_SHOWN_MAX) {
        let place = match broken.line {
            0 => broken.file.clone(),
            line => format!("{}:{line}", broken.file),
        };
        out.line(&format!(
            "  {}: {}",
            one_line(&place),
            one_line(&broken.reason)
        ))?;
    }
    if let Some(more) = report.broken.len().checked_sub(BROKEN_SHOWN_MAX + 1) {
        out.line(&format!("  and {} more: --json lists them", more + 1))?;
    }
    Ok(())
}

/// A progress bar on standard error, where someone sees it and the work takes long.
struct Bar {
    began: Option<Instant>,
    bar: RefCell<Option<ProgressBar>>,
}

impl Bar {
    fn new(is_seen: bool) -> Bar {
        Bar {
            began: is_seen.then(Instant::now),
            bar: RefCell::default(),
        }
    }

    fn show(&self, progress: &Progress<'_>) {
        if self.began.is_none_or(|began| began.elapsed() < BAR_AFTER) {
            return;
        }
        let mut bar = self.bar.borrow_mut();
        let bar = bar.get_or_insert_with(|| {
            let style = ProgressStyle::with_template(
                "{bar:30} {bytes}/{total_bytes}, {bytes_per_sec}, {eta} left  {wide_msg}",
            );
            ProgressBar::new(0).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        });
        bar.set_length(progress.bytes_total);
        bar.set_position(progress.bytes_done);
        let name = progress.file.file_name().unwrap_or_default();
        bar.set_message(one_line(&name.to_string_lossy()).into_owned());
    }

    fn clear(&self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}
