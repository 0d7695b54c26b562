//! `decklog hook`

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, IsTerminal, Read};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use decklog::{Error, ErrorKind, Options, Store};
use serde_json::value::RawValue;

use super::context::Context;
use super::exit::{Exit, Failure};
use super::{hook_settings, output};

/// Maximum size of the input.
const INPUT_BYTES_MAX: u64 = 16 << 20;
/// How long the input may take.
const INPUT_WAIT: Duration = Duration::from_secs(5);
/// How long another process may hold the lock.
const LOCK_WAIT: Duration = Duration::from_secs(1);
/// After about this many bytes of lines, a process in the background writes the index sidecar, so
/// that later hooks need not read them. It takes longer than an agent should wait.
const SIDECAR_BYTES: u64 = 256 << 10;
/// Approximate length of a line without its payload.
const LINE_BYTES: u64 = 200;
/// Maximum length of the name of a hook's event.
const NAME_BYTES_MAX: usize = 100;
/// The members that may be large, in the order in which they are left out.
const LARGE: [&str; 2] = ["tool_response", "tool_input"];

/// Log a hook event of an agent
///
/// For the hooks of Claude Code, which pass a JSON object on standard input, and the notify program
/// of Codex, which gets it as an argument. The event type is the name of the hook, such as
/// hook.pre_tool_use; the payload is the object. Nothing is printed to standard output. If
/// something fails, one line is printed to standard error. The exit code is always 0, so that the
/// agent continues.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  decklog hook --install\n  echo '{\"hook_event_name\":\"Stop\"}' | decklog hook"
)]
pub struct Args {
    /// The JSON object. Default: read from standard input
    #[arg(value_name = "JSON", conflicts_with_all = ["install", "uninstall"])]
    object: Option<String>,
    /// Add the command to the hooks in the settings of Claude Code
    #[arg(long, conflicts_with = "uninstall")]
    install: bool,
    /// Remove the command from the settings of Claude Code
    #[arg(long)]
    uninstall: bool,
    /// Write the index sidecar; hooks start a background process for this
    #[arg(long, hide = true)]
    cover: bool,
}

pub fn run(args: &Args, context: &mut Context) -> Result<Exit, Failure> {
    if args.install {
        return hook_settings::install(context);
    }
    if args.uninstall {
        return hook_settings::uninstall(context);
    }
    if args.cover {
        let store = context.options().upkeep(false).create(false);
        drop(context.store_path().and_then(|path| Ok(store.open(path)?)));
        return Ok(Exit::Ok);
    }
    if let Err(reason) = log(args, context) {
        output::say(&format!("not logged: {}", super::escape::one_line(&reason)));
    }
    Ok(Exit::Ok)
}

/// Whether these are the arguments of a call by an agent, which must not fail.
pub fn is_called(arguments: impl Iterator<Item = OsString>) -> bool {
    let arguments: Vec<OsString> = arguments.skip(1).collect();
    let has = |word: &str| arguments.iter().any(|argument| argument == word);
    let is_other = has("--install") || has("--uninstall");
    super::command_of(arguments.iter().cloned()).as_deref() == Some("hook") && !is_other
}

fn log(args: &Args, context: &Context) -> Result<(), String> {
    let text = match &args.object {
        Some(object) => object.clone(),
        None if io::stdin().is_terminal() => {
            return Err(
                "standard input is a terminal: a hook passes a JSON object there".to_owned(),
            );
        }
        None => input()?,
    };
    let text = text.trim();
    let object: BTreeMap<String, &RawValue> =
        serde_json::from_str(text).map_err(|e| format!("the input is not a JSON object: {e}"))?;
    let event_type = format!("hook.{}", name(&object));
    let path = context
        .store_path()
        .map_err(|_| "there is no home directory for the log")?;
    let store = open(context.options(), &path).map_err(|error| told(&error))?;
    let mut left_out = Vec::new();
    let mut rest = object;
    let mut payload = text.to_owned();
    let bytes = payload.len() as u64;
    loop {
        match store.log_event(None, &event_type, Some(&payload)) {
            Ok(_) => break,
            Err(error) if error.kind() == ErrorKind::InvalidInput => {
                // It is too long, or too deep.
                let large = LARGE.into_iter().find(|name| rest.remove(*name).is_some());
                let Some(large) = large else {
                    return Err(told(&error));
                };
                left_out.push(large);
                payload = serde_json::to_string(&rest).map_err(|e| e.to_string())?;
            }
            Err(error) => return Err(told(&error)),
        }
    }
    if is_cover_due(bytes) {
        cover(&path);
    }
    if !left_out.is_empty() {
        let names = left_out.join(" and ");
        output::say(&format!("logged without {names}: too large for a record"));
    }
    Ok(())
}

/// Whether the sidecar is to be written now. Decided at random, as no hook knows of the others.
fn is_cover_due(bytes: u64) -> bool {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let chance = u64::from(now.map_or(0, |now| now.subsec_micros())) % SIDECAR_BYTES;
    chance < bytes + LINE_BYTES
}

/// Starts a process that writes the sidecar. If this fails, a later hook tries again.
fn cover(store: &Path) {
    let Ok(program) = std::env::current_exe() else {
        return;
    };
    let mut command = Command::new(program);
    command.arg("--store").arg(store).args(["hook", "--cover"]);
    let null = || Stdio::null();
    let _ = command.stdin(null()).stdout(null()).stderr(null()).spawn();
}

/// Opens the store for one record.
fn open(options: Options, path: &Path) -> Result<Store, Error> {
    let options = options
        .lock_timeout(LOCK_WAIT)
        .sidecar_bytes_min(u64::MAX)
        .upkeep(false);
    options.open(path)
}

fn told(error: &Error) -> String {
    match error.kind() {
        ErrorKind::Locked => format!("{error} for more than {} s", LOCK_WAIT.as_secs()),
        _ => error.to_string(),
    }
}

/// Standard input, to its end.
fn input() -> Result<String, String> {
    let (sender, read) = mpsc::sync_channel(1);
    let started = std::thread::Builder::new().spawn(move || {
        let mut text = Vec::new();
        let stdin = io::stdin().lock();
        let end = stdin.take(INPUT_BYTES_MAX + 1).read_to_end(&mut text);
        let _ = sender.send(end.map(|_| text));
    });
    started.map_err(|e| format!("cannot read standard input: {e}"))?;
    let text = read
        .recv_timeout(INPUT_WAIT)
        .map_err(|_| "standard input was not closed in time".to_owned())?
        .map_err(|e| format!("cannot read standard input: {e}"))?;
    if text.len() as u64 > INPUT_BYTES_MAX {
        let most = INPUT_BYTES_MAX >> 20;
        return Err(format!("the input is longer than {most} MiB"));
    }
    String::from_utf8(text).map_err(|_| "the input is not UTF-8".to_owned())
}

/// The name of the hook as a part of an event type: `PreToolUse` is `pre_tool_use`, and
/// `agent-turn-complete` is `agent_turn_complete`.
fn name(object: &BTreeMap<String, &RawValue>) -> String {
    let text =
        |name: &str| -> Option<String> { serde_json::from_str(object.get(name)?.get()).ok() };
    let given = text("hook_event_name").or_else(|| text("type"));
    let mut name = String::new();
    for char in given.unwrap_or_default().chars() {
        if name.len() >= NAME_BYTES_MAX {
            break;
        }
        if char.is_ascii_uppercase() && name.ends_with(|last: char| last != '_') {
            name.push('_');
        }
        match char {
            'A'..='Z' | 'a'..='z' | '0'..='9' => name.push(char.to_ascii_lowercase()),
            _ if !name.is_empty() && !name.ends_with('_') => name.push('_'),
            _ => {}
        }
    }
    let name = name.trim_end_matches('_');
    if name.is_empty() { "unknown" } else { name }.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_type_is_the_name_of_the_hook() {
        for (given, expected) in [
            (
                r#"{"hook_event_name":"PreToolUse","type":"x"}"#,
                "pre_tool_use",
            ),
            (r#"{"hook_event_name":"Stop"}"#, "stop"),
            (r#"{"hook_event_name":"SubagentStop"}"#, "subagent_stop"),
            (r#"{"type":"agent-turn-complete"}"#, "agent_turn_complete"),
            (r#"{"hook_event_name":"a.b  \u00e9C!"}"#, "a_b_c"),
            (r#"{"hook_event_name":5}"#, "unknown"),
            (r#"{"hook_event_name":"..."}"#, "unknown"),
            ("{}", "unknown"),
        ] {
            assert_eq!(name(&serde_json::from_str(given).unwrap()), expected);
        }
    }

    #[test]
    fn a_call_of_an_agent_is_one_without_the_switches_of_a_person() {
        let is = |words: &str| is_called(words.split(' ').map(OsString::from));
        assert!(is("decklog hook"));
        assert!(is("decklog --store x hook --unknown"));
        assert!(is("decklog -x hook"));
        assert!(!is("decklog hook --install --unknown"));
        assert!(!is("decklog search hook --unknown"));
        assert!(!is("decklog"));
    }
}
