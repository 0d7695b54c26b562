//! `decklog config`

use clap::Subcommand;
use decklog::{Settings, Store};
use serde::Serialize;
use serde_json::Value;

use super::context::{Context, Level};
use super::escape::one_line;
use super::exit::{Exit, Failure};

/// Show and change what the log keeps of what is recorded, and how long
///
/// The settings stand in decklog.json. Every process that writes the log obeys a change before
/// its next write; what is in the log already stays as it is.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  decklog config get\n  decklog config set privacy.redact_pii true\n  decklog config set retention.messages 30\n  decklog config set retention.thought_records forever\n  decklog config set retention.max_bytes 10GB\n  decklog config set privacy.allowed_roles admin,developer,read-only\n  decklog config set privacy.patterns '[{\"name\":\"ticket\",\"regex\":\"TICKET-[0-9]+\"}]'\n  decklog config unset retention.messages"
)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show the settings in force, those that are not set with their defaults
    Get {
        /// As privacy.redact_pii. Default: all
        name: Option<String>,
    },
    /// Change a setting; the log is made if it is not there
    Set {
        /// As privacy.redact_pii
        name: String,
        /// true or false; a number of days, under retention also forever; bytes, as 10GB; roles,
        /// as admin,developer; JSON
        #[arg(allow_hyphen_values = true)]
        value: String,
    },
    /// Give a setting its default
    Unset {
        /// As retention.messages
        name: String,
    },
    /// Show where the key of user ids is looked for, and whether it is the store's
    ///
    /// User ids are hashed under a key in a file outside the store. The store has the fingerprint
    /// of its key, and refuses to hash ids or to look users up with another.
    UserIdKey {
        /// Say what going on with another key means; with --yes, do it
        #[arg(long)]
        replace: bool,
        /// Take the key that is found here as the store's from now on; make one if there is none
        #[arg(long, requires = "replace")]
        yes: bool,
    },
}

/// What it means to go on with another key.
const REPLACED: &str = "\
The key that is found here, or a new one, becomes the store's. User ids that were hashed under
the earlier key stay in the log as they are. No one can find these conversations by user any
more, and 'decklog erase --user' does not erase them; 'decklog erase --conversation' does.
If there is a copy of the earlier key, restore it instead.";

/// What `--json` says of a setting.
#[derive(Serialize)]
struct Named<'a> {
    name: &'a str,
    /// The value in force; `null` for no limit.
    value: &'a Value,
}

/// What `--json` says of a change.
#[derive(Serialize)]
struct Change<'a> {
    name: &'a str,
    before: &'a Value,
    now: &'a Value,
}

pub fn run(args: &Args, context: &mut Context) -> Result<Exit, Failure> {
    match &args.command {
        Command::Get { name } => get(name.as_deref(), context),
        Command::Set { name, value } => {
            // Before a store is made for it.
            Settings::default().set(name, value)?;
            let store = context.open_to_write(Level::Disk)?;
            change(&store, name, |settings| settings.set(name, value), context)
        }
        Command::Unset { name } => {
            Settings::default().unset(name)?;
            let store = context.open_to_change()?;
            change(&store, name, |settings| settings.unset(name), context)
        }
        Command::UserIdKey { replace, yes } => user_id_key(*replace, *yes, context),
    }
}

fn user_id_key(replace: bool, yes: bool, context: &mut Context) -> Result<Exit, Failure> {
    let key = if yes {
        context.open_to_change()?.replace_user_id_key()?
    } else {
        context.open_to_read()?.user_id_key()?
    };
    let is_fit = key.expected.is_none() || key.expected == key.found;
    if context.json {
        context.out.json(&key)?;
    } else {
        let shown = |fingerprint: &Option<String>, none: &str| {
            fingerprint.clone().unwrap_or_else(|| none.to_owned())
        };
        let path = key.path.to_string_lossy();
        context
            .out
            .line(&format!("key file       {}", one_line(&path)))?;
        let found = shown(&key.found, "no such file");
        context.out.line(&format!("fingerprint    {found}"))?;
        let expected = shown(&key.expected, "any: no user id was hashed yet");
        context.out.line(&format!("store expects  {expected}"))?;
        if replace {
            context.out.line(&format!("\n{REPLACED}"))?;
            if !yes {
                context
                    .out
                    .line("Nothing was changed. To go on, add --yes.")?;
            }
        }
    }
    Ok(Exit::with_findings(!is_fit || replace && !yes))
}

fn get(name: Option<&str>, context: &mut Context) -> Result<Exit, Failure> {
    let set = Settings::read(context.store_path()?)?;
    let settings = set.in_force();
    match name {
        Some(name) => {
            let value = settings.get(name)?;
            if context.json {
                let value = &value;
                context.out.json(&Named { name, value })?;
            } else {
                context.out.line(&shown(&value))?;
            }
        }
        None if context.json => context.out.json(&settings)?,
        None => {
            for name in Settings::names() {
                let value = shown(&settings.get(name)?);
                let is_default = set.get(name)?.is_null();
                let note = if is_default { " (default)" } else { "" };
                context.out.line(&format!("{name:<30} {value}{note}"))?;
            }
        }
    }
    Ok(Exit::Ok)
}

fn change(
    store: &Store,
    name: &str,
    change: impl FnOnce(&mut Settings) -> decklog::Result<()>,
    context: &mut Context,
) -> Result<Exit, Failure> {
    let (mut before, mut changed) = (Settings::default(), Ok(()));
    let now = store.change_settings(|settings| {
        before = settings.clone();
        changed = change(settings);
    })?;
    changed?;
    let (before, now) = (before.in_force().get(name)?, now.in_force().get(name)?);
    if context.json {
        let (before, now) = (&before, &now);
        context.out.json(&Change { name, before, now })?;
    } else if before == now {
        let value = shown(&now);
        context.out.line(&format!("{name} is {value} already"))?;
    } else {
        let (before, now) = (shown(&before), shown(&now));
        context.out.line(&format!("{name}: {now} (was {before})"))?;
    }
    Ok(Exit::Ok)
}

fn shown(value: &Value) -> String {
    match value {
        Value::Null => "no limit".to_owned(),
        Value::String(text) => one_line(text).into_owned(),
        value => one_line(&value.to_string()).into_owned(),
    }
}
