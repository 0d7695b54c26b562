//! `decklog config`

use clap::Subcommand;
use decklog::{Durability, Settings, Store};
use serde::Serialize;
use serde_json::{Value, json};

use super::context::Context;
use super::escape::one_line;
use super::exit::{Exit, Failure};

/// Show and change the settings of privacy, retention and budgets
///
/// The settings are in decklog.json. Every process that writes the log applies a change to its
/// next write. Existing records do not change.
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
    /// Show the settings, including defaults
    Get {
        /// A name such as privacy.redact_pii. Default: all
        name: Option<String>,
    },
    /// Change a setting; creates the log if it does not exist
    Set {
        /// A name such as privacy.redact_pii
        name: String,
        /// true or false; a number of days or, for retention, forever; bytes, such as 10GB; US
        /// dollars, for budgets; roles, such as admin,developer; JSON
        #[arg(allow_hyphen_values = true)]
        value: String,
    },
    /// Reset a setting to its default
    Unset {
        /// A name such as retention.messages
        name: String,
    },
    /// Show the path of the key of user ids, and whether it is the store's key
    ///
    /// User ids are hashed under a key in a file outside the store. The store has the fingerprint
    /// of its key, and refuses to hash ids or to look up users with another one.
    UserIdKey {
        /// Explain the effects of using another key; with --yes, use it
        #[arg(long)]
        replace: bool,
        /// Make the key at this path the store's key; create one if there is none
        #[arg(long, requires = "replace")]
        yes: bool,
    },
}

/// The effects of using another key.
const REPLACED: &str = "\
The key that is found here, or a new one, becomes the store's. User ids that were hashed under
the earlier key stay in the log as they are. No one can find these conversations by user any
more, and 'decklog erase --user' does not erase them; 'decklog erase --conversation' does.
If there is a copy of the earlier key, restore it instead.";

/// A change in `--json`.
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
            // Before a store is created for it.
            Settings::default().set(name, value)?;
            let store = context.open_to_write(Durability::Disk)?;
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
    let found = key.found.as_deref().unwrap_or("no such file");
    let any = "any: no user id was hashed yet";
    let expected = key.expected.as_deref().unwrap_or(any);
    let path = key.path.to_string_lossy();
    let mut text = format!(
        "key file       {}\nfingerprint    {found}\nstore expects  {expected}",
        one_line(&path)
    );
    if replace {
        text.extend(["\n\n", REPLACED]);
        if !yes {
            text += "\nNothing was changed. To continue, add --yes.";
        }
    }
    context.print(&key, &text)?;
    Ok(Exit::with_findings(!is_fit || replace && !yes))
}

fn get(name: Option<&str>, context: &mut Context) -> Result<Exit, Failure> {
    let set = Settings::read(context.store_path()?)?;
    let settings = set.in_force();
    match name {
        Some(name) => {
            // The effective value; `null` for no limit.
            let value = settings.get(name)?;
            let named = json!({"name": name, "value": value});
            context.print(&named, &shown(&value))?;
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
    let (before, now) = (&before, &now);
    let text = if before == now {
        format!("{name} is {} already", shown(now))
    } else {
        format!("{name}: {} (was {})", shown(now), shown(before))
    };
    context.print(&Change { name, before, now }, &text)?;
    Ok(Exit::Ok)
}

fn shown(value: &Value) -> String {
    match value {
        Value::Null => "no limit".to_owned(),
        Value::String(text) => one_line(text).into_owned(),
        value => one_line(&value.to_string()).into_owned(),
    }
}
