//! `decklog import`

use std::cell::OnceCell;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use decklog::human::{count, counted};
use decklog::import::{Broken, Expired, FileReport, Format, Importer, Progress, Report};
use decklog::{Durability, ErrorKind, Store};
use indicatif::{ProgressBar, ProgressStyle};

use super::context::{Context, KEEPS_ALL};
use super::escape::one_line;
use super::exit::{Exit, Failure};
use super::output::{self, Output};
use super::show::parts_of;
use super::watch;

/// Printed after a change of the store's settings.
pub const CHANGED: &str = "The settings retention.conversation_turns, retention.tool_calls, retention.messages and retention.errors are now forever.";
/// A smaller import shows no progress bar.
const BAR_AFTER: Duration = Duration::from_millis(300);
/// Maximum number of broken lines in text output; JSON lists all.
const BROKEN_SHOWN_MAX: usize = 20;

/// Import the sessions of agents
///
/// Reads sessions of Claude Code, Codex, Copilot CLI, Gemini CLI, pi, opencode, Qwen Code, Cline,
/// Roo Code, Goose, Zed and Aider, logs of Inspect AI, and ATIF documents. Directories are searched
/// for the files of all of them. Importing again adds only new records, and skips files that did not
/// change since. A store that this command creates keeps everything. If retention would remove some
/// of the new records, nothing is imported without --keep or --expire. Erased conversations are
/// skipped.
// The switches are independent.
#[allow(clippy::struct_excessive_bools)]
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  decklog import ~/.claude/projects ~/.codex/sessions")]
pub struct Args {
    /// Session files, or directories of session files; - for standard input
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// The tool that wrote the files. Default: detected for each file
    #[arg(long, value_parser = formats())]
    format: Option<Format>,
    /// Set the store's retention of turns, tool calls, messages and errors to forever
    #[arg(long, conflicts_with = "expire")]
    keep: bool,
    /// Import everything, and let retention remove expired records; reports still count them
    #[arg(long)]
    expire: bool,
    /// Import erased conversations and requests again, and lift their erasure
    #[arg(long)]
    restore_erased: bool,
    /// Read all files, including those that did not change since they were imported
    #[arg(long)]
    reread: bool,
    /// After the import, follow the paths: import new lines within a second, until Ctrl-C
    #[arg(long, conflicts_with_all = ["format", "restore_erased", "reread"])]
    follow: bool,
    /// When a record is acknowledged
    #[arg(long, value_enum, default_value_t)]
    durability: Durability,
}

fn formats() -> impl TypedValueParser<Value = Format> {
    PossibleValuesParser::new(Format::ALL.map(Format::as_str))
        .try_map(|word| word.parse::<Format>())
}

pub fn run(args: &Args, context: &mut Context) -> Result<Exit, Failure> {
    let paths = args.paths.iter().map(|path| match path.to_str() {
        Some("-") => PathBuf::from("/dev/stdin"),
        _ => path.clone(),
    });
    let paths: Vec<PathBuf> = paths.collect();
    // Before a store is created: a path may be mistyped.
    if let [path] = &paths[..]
        && let Err(error) = std::fs::metadata(path)
    {
        let message = format!("cannot read {}: {error}", path.display());
        return Err(Failure::usage(message));
    }
    if args.follow {
        let how = watch::How {
            paths: &paths,
            is_once: false,
            is_quiet: false,
            keeps: args.keep,
            expires: args.expire,
            durability: args.durability,
        };
        return watch::follow(&how, context);
    }
    let (store, is_new) = context.open_to_import(&context.store_path()?, args.durability)?;
    let before = store.settings()?;
    let report = import(&store, args, &paths, context.json)?;
    store.sync()?;
    let is_changed = store.settings()? != before;
    if context.json {
        context.out.json_lines(&report.per_file)?;
        context.out.json(&report)?;
    } else {
        let path = store.path().display().to_string();
        show(&mut context.out, &report, &path)?;
        if is_new {
            context.out.line(KEEPS_ALL)?;
        }
        if is_changed {
            context.out.line(CHANGED)?;
        }
    }
    if report.files + report.unchanged == 0 && report.broken.is_empty() {
        output::say(
            "no session files found: in a directory, only files with the names that agents use are read",
        );
        return Ok(Exit::Findings);
    }
    Ok(if report.files + report.unchanged == 0 {
        Exit::Usage
    } else {
        Exit::with_findings(!report.broken.is_empty())
    })
}

/// Imports all paths; a refused path is reported as broken.
fn import(store: &Store, args: &Args, paths: &[PathBuf], is_json: bool) -> Result<Report, Failure> {
    let began = Instant::now();
    let has_bar = !is_json && std::io::stderr().is_terminal();
    let bar = OnceCell::new();
    let mut importer = Importer::new(store)
        .format(args.format)
        .restore_erased(args.restore_erased)
        .reread(args.reread)
        .on_progress(|progress| {
            if has_bar && began.elapsed() >= BAR_AFTER {
                show_progress(&bar, progress);
            }
        });
    if !args.keep && !args.expire {
        refuse_to_expire(&importer, paths)?;
    }
    // Nothing has expired, or expired records may be removed.
    importer = importer.expired(if args.keep {
        Expired::Keep
    } else {
        Expired::Expire
    });
    let mut refused = Vec::new();
    let read = paths.iter().try_for_each(|path| match importer.path(path) {
        Err(error) if is_about(&error, path) => {
            refused.push(Broken {
                file: path.display().to_string(),
                line: 0,
                reason: error.reason(),
            });
            Ok(())
        }
        read => read,
    });
    let mut report = importer.finish()?;
    if let Some(bar) = bar.get() {
        bar.finish_and_clear();
    }
    if let Err(error) = read {
        let words = format!("stopped, {} added before", counted(report.added, "line"));
        return Err(Failure::from(error).in_front(&words));
    }
    for broken in refused {
        let files = &mut report.per_file;
        let known = files.iter().rposition(|file| file.file == broken.file);
        let known = known.unwrap_or_else(|| {
            let file = broken.file.clone();
            let report = Report::default();
            files.push(FileReport { file, report });
            files.len() - 1
        });
        files[known].report.broken.push(broken.clone());
        report.broken.push(broken);
    }
    Ok(report)
}

/// Stops before anything is written if retention would remove new records.
pub fn refuse_to_expire(importer: &Importer<'_>, paths: &[PathBuf]) -> Result<(), Failure> {
    const TO_DO: &str =
        "use --keep to keep imported records forever, or --expire to let retention remove them";
    let expiring = importer
        .expiring(paths)
        .map_err(|error| match error.kind() {
            ErrorKind::InvalidInput => Failure::usage(format!("{error}: {TO_DO}")),
            _ => error.into(),
        })?;
    if expiring.is_empty() {
        return Ok(());
    }
    let rows: Vec<String> = expiring.iter().map(ToString::to_string).collect();
    Err(Failure::usage(format!(
        "nothing was imported, since retention would remove {}: {TO_DO}",
        rows.join("; ")
    )))
}

/// Whether the error is about the path, not the store.
fn is_about(error: &decklog::Error, path: &Path) -> bool {
    matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::Io) && error.path() == Some(path)
}

/// Prints the results of an import, skipped lines and broken lines.
pub fn show(out: &mut Output, report: &Report, store: &str) -> std::io::Result<()> {
    out.line(&format!(
        "{} with {} read, {} added to {}",
        counted(report.files, "file"),
        counted(report.lines, "line"),
        counted(report.added, "record"),
        one_line(store)
    ))?;
    if report.unchanged > 0 {
        out.line(&format!(
            "  {} unchanged since an earlier import, not read again",
            counted(report.unchanged, "file")
        ))?;
    }
    if report.files == 0 {
        return show_skipped(out, report);
    }
    out.line(&format!(
        "  {}, {}, {}",
        counted(report.turns, "turn"),
        counted(report.tool_calls, "tool call"),
        counted(report.tool_results, "tool result"),
    ))?;
    out.line(&format!(
        "  {} with {}",
        counted(report.conversations, "conversation"),
        counted(report.messages, "message"),
    ))?;
    out.line(&format!(
        "  {}, {} tokens in, {} out",
        counted(report.api_responses, "API response"),
        count(report.tokens_in),
        count(report.tokens_out),
    ))?;
    let split = parts_of([
        (report.tokens_cache_write, "written to a cache"),
        (report.tokens_cache_read, "read from a cache"),
        (report.tokens_reasoning, "of reasoning"),
    ]);
    if let Some(split) = split {
        out.line(&format!("  of these tokens {split}"))?;
    }
    if report.repeated > 0 {
        let repeated = counted(report.repeated, "line");
        out.line(&format!(
            "  {repeated} of forked sessions skipped, as they belong to the original sessions"
        ))?;
    }
    if report.unfinished > 0 {
        let files = counted(report.unfinished, "file");
        out.line(&format!(
            "  {files} with an incomplete last line: import again later"
        ))?;
    }
    if report.left_out > 0 {
        out.line(&format!(
            "  {} skipped, as they were erased: --restore-erased restores them (conversations and requests: {})",
            counted(report.left_out, "record"),
            count(report.erased),
        ))?;
    }
    show_skipped(out, report)
}

/// Shows the lines that are unknown or broken.
fn show_skipped(out: &mut Output, report: &Report) -> std::io::Result<()> {
    if !report.not_understood.is_empty() {
        out.line("Unknown lines, skipped:")?;
    }
    for (what, n) in &report.not_understood {
        out.line(&format!("  {:>6}  {}", count(*n), one_line(what)))?;
    }
    if !report.broken.is_empty() {
        out.line("Broken:")?;
    }
    for broken in report.broken.iter().take(BROKEN_SHOWN_MAX) {
        let place = match broken.line {
            0 => broken.file.clone(),
            line => format!("{}:{line}", broken.file),
        };
        let reason = one_line(&broken.reason);
        out.line(&format!("  {}: {reason}", one_line(&place)))?;
    }
    if let Some(more) = report.broken.len().checked_sub(BROKEN_SHOWN_MAX + 1) {
        out.line(&format!("  and {} more: --json lists them", more + 1))?;
    }
    Ok(())
}

/// Shows a progress bar on standard error, for large imports.
fn show_progress(bar: &OnceCell<ProgressBar>, progress: &Progress<'_>) {
    let bar = bar.get_or_init(|| {
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
