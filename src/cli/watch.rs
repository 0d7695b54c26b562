//! `decklog watch`, and `decklog import --follow`

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use decklog::human::counted;
use decklog::import::{Addition, Expired, News, Report, Watcher, default_paths};
use decklog::{Durability, Validity};
use serde::Serialize;

use super::context::{Context, KEEPS_ALL};
use super::escape::{one_line, padded};
use super::exit::{Exit, Failure};
use super::{import, output, service, time};

/// Timeout of one wait. Any value works, because news end the wait.
const WAIT: Duration = Duration::from_secs(3600);
/// Maximum number of broken files that one import names.
const BROKEN_SHOWN_MAX: usize = 5;
/// Maximum number of missing paths that are named.
const MISSING_SHOWN_MAX: usize = 5;

/// Import the sessions of agents, and follow them
///
/// Without PATH, watches the directories in which agents keep their sessions, including those that
/// do not exist yet. Imports existing sessions, then each new line within a second. Files may be
/// moved, rewritten, truncated or deleted meanwhile. Ctrl-C stops it; the next start imports what
/// was added since. A store that this command creates keeps everything. If retention would remove
/// some of the records, nothing is imported without --keep or --expire.
// The switches are independent.
#[allow(clippy::struct_excessive_bools)]
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  decklog watch\n  decklog watch --install")]
pub struct Args {
    /// Session files, or directories of session files; they need not exist yet
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Import existing sessions, then exit
    #[arg(long, conflicts_with_all = ["install", "uninstall"])]
    once: bool,
    /// Print only errors
    #[arg(long, short)]
    quiet: bool,
    /// Set the store's retention of turns, tool calls, messages and errors to forever
    #[arg(long, conflicts_with = "expire")]
    keep: bool,
    /// Import everything, and let retention remove expired records
    #[arg(long)]
    expire: bool,
    /// Run in the background, now and at every login: as a systemd user unit, or as a launchd agent
    /// on macOS
    #[arg(long, conflicts_with = "uninstall")]
    install: bool,
    /// Stop and remove the background service of --install
    #[arg(long)]
    uninstall: bool,
}

/// How to follow paths.
// The switches are independent.
#[allow(clippy::struct_excessive_bools)]
pub struct How<'a> {
    pub paths: &'a [PathBuf],
    pub is_once: bool,
    pub is_quiet: bool,
    pub keeps: bool,
    pub expires: bool,
    pub durability: Durability,
}

pub fn run(args: &Args, context: &mut Context) -> Result<Exit, Failure> {
    if args.uninstall {
        return service::uninstall(context);
    }
    let paths = if args.paths.is_empty() {
        default_paths()
    } else {
        args.paths.clone()
    };
    if paths.is_empty() {
        return Err(Failure::usage("there is no home directory: give the paths"));
    }
    let how = How {
        paths: &paths,
        is_once: args.once,
        is_quiet: args.quiet,
        keeps: args.keep,
        expires: args.expire,
        durability: Durability::Process,
    };
    if args.install {
        let store_path = context.store_path()?;
        if store_path.join("decklog.json").exists() && !(args.keep || args.expire) {
            let store = context.open_to_read()?;
            import::refuse_to_expire(&decklog::import::Importer::new(&store), &paths)?;
        }
        let unit = service::Service {
            store: store_path,
            paths: args.paths.clone(),
            keeps: args.keep,
            expires: args.expire,
        };
        return service::install(&unit, context);
    }
    follow(&how, context)
}

/// Imports the files under the paths, and follows them until a signal is received.
pub fn follow(how: &How<'_>, context: &mut Context) -> Result<Exit, Failure> {
    let path = context.store_path()?;
    let (store, is_new) = context.open_to_import(&path, how.durability)?;
    if !how.keeps && !how.expires {
        import::refuse_to_expire(&decklog::import::Importer::new(&store), how.paths)?;
    }
    let before = store.settings()?;
    // Either nothing has expired, or expired records may be removed.
    let expired = if how.keeps {
        Expired::Keep
    } else {
        Expired::Expire
    };
    let options = context.options().durability(how.durability).create(false);
    let mut watcher = Watcher::new(store.clone(), how.paths)
        .expired(expired)
        .close_when_idle(move || options.clone().open(&path));
    let stopper = watcher.stopper();
    stop_on_signals(stopper).map_err(|e| Failure::store(format!("cannot handle signals: {e}")))?;
    if !how.is_quiet && !context.json && !how.is_once {
        show_paths(watcher.paths(), context)?;
    }
    let caught_up = watcher.catch_up();
    let is_changed = store.settings()? != before;
    let store_path = store.path().display().to_string();
    drop(store);
    let mut exit = Exit::Ok;
    match caught_up {
        Ok(report) => {
            exit = Exit::with_findings(!report.broken.is_empty());
            tell_first(&report, how, context, &store_path)?;
        }
        Err(error) if how.is_once => return Err(error.into()),
        Err(error) => output::say(&format!("{error}: retrying")),
    }
    if is_new && !how.is_quiet && !context.json {
        context.out.line(KEEPS_ALL)?;
    }
    if is_changed && !how.is_quiet && !context.json {
        context.out.line(import::CHANGED)?;
    }
    context.out.flush()?;
    if how.is_once {
        watcher.finish();
        return Ok(exit);
    }
    let ended = tell_all(&mut watcher, how, context);
    watcher.finish();
    ended.map(|()| Exit::Ok)
}

/// Prints the news of the watcher until it stops.
/// Shows what is watched. Of the many default paths that do not exist, only the number is shown.
fn show_paths(paths: &[PathBuf], context: &mut Context) -> Result<(), Failure> {
    let (found, missing): (Vec<_>, Vec<_>) = paths.iter().partition(|path| path.exists());
    let is_short = missing.len() <= MISSING_SHOWN_MAX;
    let named = missing.iter().filter(|_| is_short);
    let rows = found.iter().map(|path| (path, ""));
    for (path, note) in rows.chain(named.map(|path| (path, " (does not exist yet)"))) {
        let path = path.display().to_string();
        context
            .out
            .line(&format!("watching {}{note}", one_line(&path)))?;
    }
    if !is_short {
        let missing = counted(missing.len() as u64, "path");
        let line = format!("watching {missing} of other agents that do not exist yet");
        context.out.line(&line)?;
    }
    Ok(context.out.flush()?)
}

fn tell_all(watcher: &mut Watcher, how: &How<'_>, context: &mut Context) -> Result<(), Failure> {
    let stopper = watcher.stopper();
    while !stopper.is_stopped() {
        let Some(news) = watcher.next(WAIT)? else {
            continue;
        };
        match news {
            News::Imported { report, additions } => {
                say_broken(&report);
                if !how.is_quiet {
                    for addition in &additions {
                        tell(addition, context)?;
                    }
                    context.out.flush()?;
                }
            }
            News::Waiting(error) => output::say(&format!("{error}: retrying until it succeeds")),
            News::Resumed => output::say("the store can be written again"),
            News::Polling(reason) => output::say(&format!(
                "the system does not report all changes ({}): checking the files every few seconds",
                one_line(&reason)
            )),
            _ => {}
        }
    }
    Ok(())
}

fn tell_first(
    report: &Report,
    how: &How<'_>,
    context: &mut Context,
    store: &str,
) -> Result<(), Failure> {
    if how.is_quiet {
        say_broken(report);
    } else if context.json {
        context.out.json(report)?;
    } else {
        import::show(&mut context.out, report, store)?;
    }
    Ok(())
}

fn say_broken(report: &Report) {
    for broken in report.broken.iter().take(BROKEN_SHOWN_MAX) {
        let mut place = broken.file.clone();
        if broken.line > 0 {
            // Writing to a string cannot fail.
            let _ = write!(place, ":{}", broken.line);
        }
        output::say(&format!(
            "{}: {}",
            one_line(&place),
            one_line(&broken.reason)
        ));
    }
    if let Some(more) = report.broken.len().checked_sub(BROKEN_SHOWN_MAX + 1) {
        output::say(&format!(
            "and {} more",
            counted(more as u64 + 1, "broken line")
        ));
    }
}

/// A line about the records of a file.
fn tell(addition: &Addition, context: &mut Context) -> Result<(), Failure> {
    #[derive(Serialize)]
    struct Told<'a> {
        at: i64,
        #[serde(flatten)]
        addition: &'a Addition,
    }
    let at = Validity::now().at;
    if context.json {
        return Ok(context.out.json(&Told { at, addition })?);
    }
    let file = Path::new(&addition.file).file_stem().unwrap_or_default();
    let file = file.to_string_lossy();
    let project = addition.project.as_deref().unwrap_or(&file);
    let mut line = format!(
        "{}  {}  {}  {}",
        time::formatted(at, "%H:%M:%S"),
        padded(addition.format.unwrap_or_default(), 11),
        padded(&one_line(project), 20),
        counted(addition.added, "record"),
    );
    if let Some(title) = &addition.title {
        line.push_str("  ");
        line.push_str(&one_line(title));
    }
    Ok(context
        .out
        .line(super::escape::clipped(&line, context.out.columns()).as_ref())?)
}

/// Stops the watcher at a signal; a second signal ends the process.
#[cfg(unix)]
fn stop_on_signals(stopper: decklog::import::Stopper) -> std::io::Result<()> {
    use std::io::Read;
    use std::os::unix::net::UnixStream;
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    use signal_hook::{flag, low_level::pipe};

    let (mut heard, told) = UnixStream::pair()?;
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        let is_second = Arc::new(AtomicBool::new(false));
        flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&is_second))?;
        flag::register(signal, is_second)?;
        pipe::register(signal, told.try_clone()?)?;
    }
    let wait = move || {
        let _ = heard.read(&mut [0]);
        stopper.stop();
    };
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(wait)?;
    Ok(())
}

/// Ctrl-C ends the process, which loses nothing.
#[cfg(not(unix))]
fn stop_on_signals(_stopper: decklog::import::Stopper) -> std::io::Result<()> {
    Ok(())
}
