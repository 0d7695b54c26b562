//! Shared by all commands: the store's path and the output.

use std::io;
use std::path::{Path, PathBuf};

use decklog::health::{Damage, DamageClass};
use decklog::human::counted;
use decklog::retention::RetentionSettings;
use decklog::{Durability, Options, Settings, Store};
use serde::Serialize;

use super::exit::Failure;
use super::export::Sheet;
use super::output::{self, Colours, Output};

/// Printed for a store that an import created.
pub const KEEPS_ALL: &str =
    "The new store keeps everything: its settings retention.* are forever ('decklog config get').";

/// Default number of records in a list on a terminal.
pub const LIMIT_ON_TERMINAL: usize = decklog::query::PAGE_LIMIT;

#[derive(Debug)]
pub struct Context {
    store: Option<PathBuf>,
    allow_network_fs: bool,
    pub json: bool,
    /// Lists are printed as this table instead. Then `json` is set, for a list with all records.
    pub sheet: Option<Sheet>,
    pub out: Output,
    /// The store, if the arguments needed it already.
    opened: Option<Store>,
}

impl Context {
    pub fn new(
        store: Option<PathBuf>,
        allow_network_fs: bool,
        json: bool,
        colours: Colours,
    ) -> Context {
        Context {
            store,
            allow_network_fs,
            json,
            sheet: None,
            out: Output::stdout(colours),
            opened: None,
        }
    }

    /// Uses a store that is open for reading already.
    pub fn with_opened(mut self, store: Option<Store>) -> Context {
        self.opened = store;
        self
    }

    /// Whether the arguments name a store.
    pub fn has_store(&self) -> bool {
        self.store.is_some()
    }

    /// The store's path; it need not exist.
    pub fn store_path(&self) -> Result<PathBuf, Failure> {
        let from_environment = || std::env::var_os("DECKLOG_STORE").filter(|dir| !dir.is_empty());
        self.store
            .clone()
            .or_else(|| from_environment().map(PathBuf::from))
            .or_else(|| dirs::data_dir().map(|dir| dir.join("decklog")))
            .ok_or_else(|| {
                Failure::usage("there is no home directory for the log: use --store DIR")
            })
    }

    /// How to open any store.
    pub fn options(&self) -> Options {
        Store::options().allow_network_fs(self.allow_network_fs)
    }

    /// The store, for reading: without a lock.
    pub fn open_to_read(&self) -> Result<Store, Failure> {
        with_warnings(self.open_in_silence()?)
    }

    /// The store, for reading, for commands that report damage themselves.
    pub fn open_in_silence(&self) -> Result<Store, Failure> {
        if let Some(store) = &self.opened {
            return Ok(store.clone());
        }
        let options = self.options().read_only(true);
        Ok(options.open(self.store_path()?)?)
    }

    /// The store, for writing, for commands that create none and report damage themselves.
    pub fn open_to_change(&self) -> Result<Store, Failure> {
        let store = self.options().create(false).open(self.store_path()?)?;
        told_of_manifest(&store.damage()?);
        warn_of_key_inside(&store);
        Ok(store)
    }

    /// The store, for writing; created if it does not exist.
    pub fn open_to_write(&self, durability: Durability) -> Result<Store, Failure> {
        let options = self.options().durability(durability);
        with_warnings(options.open(self.store_path()?)?)
    }

    /// A store to import into, and whether it is new. A new one keeps everything.
    pub fn open_to_import(
        &self,
        path: &Path,
        durability: Durability,
    ) -> Result<(Store, bool), Failure> {
        let mut options = self.options().durability(durability);
        let is_missing = !path.join("decklog.json").exists();
        if is_missing {
            options = options.settings(Settings {
                retention: RetentionSettings::forever(),
                ..Settings::default()
            });
        }
        let store = with_warnings(options.open(path)?)?;
        let is_new = is_missing && !store.damage()?.iter().any(is_of_manifest);
        Ok((store, is_new))
    }

    /// Prints a value as JSON, or its text.
    pub fn print(&mut self, value: &impl Serialize, text: &str) -> io::Result<()> {
        if self.json {
            self.out.json(value)
        } else {
            self.out.line(text)
        }
    }

    /// A message on standard error about the output, below it if both go to a terminal.
    pub fn say_below(&mut self, message: &str) -> io::Result<()> {
        self.out.flush()?;
        output::say(message);
        Ok(())
    }

    /// How many records to list; `None` for all.
    pub fn limit(&self, given: Option<usize>) -> Option<usize> {
        let on_terminal = self.out.is_terminal() && !self.json;
        given.or(on_terminal.then_some(LIMIT_ON_TERMINAL))
    }
}

/// The store, after warnings about damage.
fn with_warnings(store: Store) -> Result<Store, Failure> {
    let damage = store.damage()?;
    told_of_manifest(&damage);
    warn_of_key_inside(&store);
    let damage = damage.iter().filter(|it| !is_of_manifest(it)).count();
    if damage > 0 {
        let places = counted(damage as u64, "place");
        output::say(&format!(
            "{places} in the log {} damaged or changed by hand: see 'decklog doctor'",
            if damage == 1 { "is" } else { "are" }
        ));
    }
    Ok(store)
}

/// Warns if the key is in the store: it is copied with the store and protects no user id.
fn warn_of_key_inside(store: &Store) {
    // An unreadable key is reported when it is needed.
    let Ok(key) = store.user_id_key() else { return };
    let dir = key.path.parent().and_then(|dir| dir.canonicalize().ok());
    let root = store.path().canonicalize();
    if let (Some(dir), Ok(root)) = (dir, root)
        && dir.starts_with(root)
    {
        output::say(&format!(
            "the key of user ids is inside the store ({}): anyone who copies the store also has the key; move it out and set DECKLOG_USER_ID_KEY",
            key.path.display()
        ));
    }
}

/// Reports a manifest that is missing, or that this command created again: no later command
/// reports the latter.
fn told_of_manifest(damage: &[Damage]) {
    if let Some(manifest) = damage.iter().find(|it| is_of_manifest(it)) {
        output::say(&format!("decklog.json: {}", manifest.reason));
    }
}

fn is_of_manifest(damage: &Damage) -> bool {
    damage.file == "decklog.json" && damage.class == DamageClass::Missing
}
