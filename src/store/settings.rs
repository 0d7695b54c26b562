//! Privacy, retention and budget settings of a store's manifest, as a whole and by name.

use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::error::{Error, ErrorKind, Result};
use crate::privacy::{Privacy, PrivacySettings};
use crate::storage::{Disk, full_path};
use crate::store::Store;
use crate::store::manifest;
use crate::store::setting_form::Form;
use crate::store::{BudgetSettings, RetentionSettings};

/// Maximum number of days: 100 years. Use `forever` to keep records longer.
const DAYS_MAX: u32 = 36_525;
/// Minimum size limit. A smaller value is a mistake: it would remove all days except the last.
const BYTES_MIN: u64 = 64 << 10;

/// Settings of a store, from its manifest. They apply to every process that
/// writes the store.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Settings {
    /// What is recorded, and how it is redacted.
    pub privacy: PrivacySettings,
    /// How long records are kept.
    pub retention: RetentionSettings,
    /// Budgets of the cost of calls.
    pub budget: BudgetSettings,
}

/// Every setting, in the order in which they are listed.
const ALL: [(&str, Form); 24] = [
    ("privacy.store_content", Form::Flag),
    ("privacy.store_payloads", Form::Flag),
    ("privacy.redact_secrets", Form::Flag),
    ("privacy.redact_pii", Form::Flag),
    ("privacy.patterns", Form::Patterns),
    ("privacy.hash_user_id", Form::Flag),
    ("privacy.retention_days", Form::Days),
    ("privacy.auto_delete", Form::Flag),
    ("privacy.require_auth", Form::Flag),
    ("privacy.allowed_roles", Form::Roles),
    ("retention.conversation_turns", Form::Keep),
    ("retention.tool_calls", Form::Keep),
    ("retention.code_edit_proposals", Form::Keep),
    ("retention.messages", Form::Keep),
    ("retention.errors", Form::Keep),
    ("retention.events", Form::Keep),
    ("retention.inbox", Form::Keep),
    ("retention.history", Form::Keep),
    ("retention.thought_records", Form::Keep),
    ("retention.rollups", Form::Keep),
    ("retention.max_bytes", Form::Bytes),
    ("budget.day", Form::Usd),
    ("budget.week", Form::Usd),
    ("budget.month", Form::Usd),
];

impl Settings {
    /// Reads the settings of the store in a directory. Only the manifest is read.
    ///
    /// # Errors
    /// [`NotAStore`](crate::ErrorKind::NotAStore) if the directory holds no store;
    /// [`Damaged`](crate::ErrorKind::Damaged) if the manifest is missing or cannot be parsed.
    pub fn read(path: impl AsRef<Path>) -> Result<Settings> {
        let storage = Disk::new(path.as_ref());
        match manifest::read_leniently(&storage)? {
            (manifest, None) => Ok(manifest.settings),
            (_, Some(damage)) => {
                let error = Error::new(ErrorKind::Damaged, damage.reason);
                Err(error.with_path(&full_path(&storage, &damage.file)))
            }
        }
    }

    /// The names of all settings, as `privacy.redact_pii`.
    pub fn names() -> impl Iterator<Item = &'static str> {
        ALL.into_iter().map(|(name, _)| name)
    }

    /// The effective settings, with defaults for those that are not set. Only
    /// `retention.max_bytes` and the budgets may be `None`, which means no limit.
    ///
    /// ```
    /// let settings = decklog::Settings::default().in_force();
    /// assert_eq!(settings.get("retention.messages")?, 90);
    /// assert_eq!(settings.get("retention.errors")?, 30);
    /// # Ok::<(), decklog::Error>(())
    /// ```
    #[must_use]
    pub fn in_force(&self) -> Settings {
        let retention = self.retention.in_force(&self.privacy);
        Settings {
            privacy: self.privacy.clone(),
            retention,
            budget: self.budget.clone(),
        }
    }

    /// The value of a setting. It is `null` if a `retention` setting is not set and has its
    /// default.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for an unknown name.
    pub fn get(&self, name: &str) -> Result<Value> {
        let ((section, field), _) = known(name)?;
        Ok(self.section(section)?.remove(field).unwrap_or_default())
    }

    /// Changes a setting. Values are `true` or `false`; US dollars; a number of days, in `retention`
    /// also `forever`; a number of bytes, also as `10GB` or `512MiB`; patterns as JSON; roles as
    /// JSON or separated by commas.
    ///
    /// ```
    /// let mut settings = decklog::Settings::default();
    /// settings.set("privacy.redact_pii", "true")?;
    /// settings.set("retention.max_bytes", "10GB")?;
    /// assert!(settings.privacy.redact_pii);
    /// assert_eq!(settings.retention.max_bytes, Some(10_000_000_000));
    /// # Ok::<(), decklog::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for an unknown name or an invalid
    /// value.
    pub fn set(&mut self, name: &str, value: &str) -> Result<()> {
        let (place, form) = known(name)?;
        self.put(place, Some(form.parse(name, value)?))
    }

    /// Resets a setting to its default.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for an unknown name.
    pub fn unset(&mut self, name: &str) -> Result<()> {
        let (place, _) = known(name)?;
        self.put(place, None)
    }

    fn put(&mut self, (section, field): (&str, &str), value: Option<Value>) -> Result<()> {
        let mut fields = self.section(section)?;
        match value {
            Some(value) => fields.insert(field.to_owned(), value),
            None => fields.remove(field),
        };
        let mut changed = self.clone();
        let read = match section {
            "privacy" => read(section, &fields).map(|privacy| changed.privacy = privacy),
            "budget" => read(section, &fields).map(|budget| changed.budget = budget),
            _ => read(section, &fields).map(|retention| changed.retention = retention),
        };
        read.map_err(|(name, reason)| Error::invalid(format!("{name} does not fit: {reason}")))?;
        changed.check()?;
        *self = changed;
        Ok(())
    }

    fn section(&self, name: &str) -> Result<Map<String, Value>> {
        match name {
            "privacy" => written(&self.privacy),
            "budget" => written(&self.budget),
            _ => written(&self.retention),
        }
    }

    /// Rejects values out of range and invalid patterns.
    pub(super) fn check(&self) -> Result<()> {
        for (name, form) in ALL {
            let days = match (form, self.get(name)?) {
                (Form::Bytes, Value::Number(bytes))
                    if bytes.as_u64().is_none_or(|bytes| bytes < BYTES_MIN) =>
                {
                    return Err(Error::invalid(format!(
                        "{name} is {bytes}: give at least {BYTES_MIN}, as less keeps nothing"
                    )));
                }
                (Form::Days | Form::Keep, Value::Number(days)) => days,
                _ => continue,
            };
            let is_fit = |days: u64| (1..=u64::from(DAYS_MAX)).contains(&days);
            if !days.as_u64().is_some_and(is_fit) {
                let else_what = if form == Form::Keep {
                    ", or \"forever\""
                } else {
                    "; privacy.auto_delete turns removal off"
                };
                return Err(Error::invalid(format!(
                    "{name} is {days}: give 1 to {DAYS_MAX} days{else_what}"
                )));
            }
        }
        if self.privacy.allowed_roles.is_empty() {
            return Err(Error::invalid(
                "privacy.allowed_roles is empty, and would let no one in: name one role at least; privacy.require_auth says whether any is asked for",
            ));
        }
        if self.privacy.patterns.is_empty() {
            return Ok(());
        }
        // The user's patterns are the only ones that can be invalid.
        let patterns = PrivacySettings {
            redact_secrets: false,
            redact_pii: false,
            ..self.privacy.clone()
        };
        Privacy::new(patterns).map(drop)
    }
}

/// The section, the field and the syntax of a setting.
fn known(name: &str) -> Result<((&'static str, &'static str), Form)> {
    let found = ALL.into_iter().find(|(known, _)| *known == name);
    let place = found.and_then(|(name, form)| Some((name.split_once('.')?, form)));
    place.ok_or_else(|| {
        let nearest = Settings::names().min_by_key(|known| distance(known, name));
        let shown: String = name.chars().take(80).collect();
        Error::invalid(format!(
            "there is no setting {shown:?}: the nearest is {}",
            nearest.unwrap_or_default()
        ))
    })
}

/// The edit distance between two names, in characters. The section of the known name is optional.
fn distance(known: &str, given: &str) -> usize {
    let letters = |known: &str| {
        let mut row: Vec<usize> = (0..=given.chars().take(80).count()).collect();
        for (i, a) in known.chars().enumerate() {
            let mut diagonal = i;
            row[0] = i + 1;
            for (j, b) in given.chars().take(80).enumerate() {
                let changed = diagonal + usize::from(a != b);
                diagonal = row[j + 1];
                row[j + 1] = changed.min(diagonal + 1).min(row[j] + 1);
            }
        }
        row.last().copied().unwrap_or_default()
    };
    let field = known.split_once('.').map_or(known, |(_, field)| field);
    letters(known).min(letters(field))
}

/// The settings of a section as in the manifest.
pub(super) fn written(section: &impl Serialize) -> Result<Map<String, Value>> {
    match serde_json::to_value(section) {
        Ok(Value::Object(fields)) => Ok(fields),
        other => Err(Error::invalid(format!("no settings: {other:?}"))),
    }
}

/// The settings of a section. If they are invalid, returns the name of an invalid one, and the
/// reason.
pub(super) fn read<T: DeserializeOwned>(
    section: &str,
    fields: &Map<String, Value>,
) -> std::result::Result<T, (String, String)> {
    let whole = |fields: &Map<String, Value>| T::deserialize(Value::Object(fields.clone()));
    whole(fields).map_err(|e| {
        // Every field has a default, so each can be parsed alone.
        let alone = fields.iter().find_map(|(name, value)| {
            let field = Map::from_iter([(name.clone(), value.clone())]);
            whole(&field).err().map(|e| (name, e))
        });
        match alone {
            Some((name, e)) => (format!("{section}.{name}"), e.to_string()),
            None => (section.to_owned(), e.to_string()),
        }
    })
}

impl Store {
    /// The store's current settings, from its manifest.
    ///
    /// # Errors
    /// [`Damaged`](crate::ErrorKind::Damaged) if the manifest cannot be parsed.
    pub fn settings(&self) -> Result<Settings> {
        let inner = self.inner();
        let manifest = manifest::read(&*inner.storage)?;
        Ok(manifest.map_or_else(
            || inner.policies.known_settings(),
            |manifest| manifest.settings,
        ))
    }

    /// Reads the settings from the manifest again, for this handle, and returns them. Only needed
    /// after the file was edited by hand; changes made with
    /// [`change_settings`](Store::change_settings) are noticed without it.
    ///
    /// # Errors
    /// [`Damaged`](crate::ErrorKind::Damaged) if the manifest cannot be parsed; and as
    /// [`check_writable`](Store::check_writable).
    pub fn reload_settings(&self) -> Result<Settings> {
        // The method's path has one lifetime, but a closure that works for every lifetime is
        // needed.
        #[allow(clippy::redundant_closure_for_method_calls)]
        self.inner().transact(|txn| txn.reload_settings())
    }

    /// Changes the settings in the manifest and returns the new ones. They are on disk when this
    /// returns, and apply to the next write of every process. Existing lines do not change.
    /// `change` runs under the write lock and must not use the store.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let store = decklog::Store::open(dir.path().join("log"))?;
    /// use decklog::retention::Keep;
    /// store.change_settings(|it| {
    ///     it.privacy.redact_pii = true;
    ///     it.retention.messages = Some(Keep::Days(30));
    /// })?;
    /// assert!(store.settings()?.privacy.redact_pii);
    /// # Ok::<(), decklog::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for an invalid setting: days other than 1
    /// to 36,525, a size limit of less than 64 KiB, an invalid pattern, or an empty list of roles.
    /// Then nothing is changed.
    pub fn change_settings(&self, change: impl FnOnce(&mut Settings)) -> Result<Settings> {
        self.inner().transact(|txn| txn.change_settings(change))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Keep;

    /// Every field has a name, and can be set and read by it.
    #[test]
    fn every_setting_has_a_name() {
        let mut settings = Settings::default();
        for (name, form) in ALL {
            let (given, expected) = match form {
                Form::Flag => ("false", Value::from(false)),
                Form::Days => ("7", Value::from(7)),
                Form::Keep => ("forever", Value::from("forever")),
                Form::Bytes => ("512 MiB", Value::from(512 << 20)),
                Form::Patterns => (
                    r#"[{"name":"t","regex":"T-[0-9]+"}]"#,
                    serde_json::json!([{"name": "t", "regex": "T-[0-9]+"}]),
                ),
                Form::Usd => ("12.50", Value::from(12.5)),
                Form::Roles => (
                    "read-only, admin,admin",
                    serde_json::json!(["admin", "read-only"]),
                ),
            };
            settings.set(name, given).unwrap();
            assert_eq!(settings.get(name).unwrap(), expected, "{name}");
        }
        let mut names = Vec::new();
        for section in ["privacy", "retention", "budget"] {
            let fields = settings.section(section).unwrap();
            names.extend(fields.keys().map(|field| format!("{section}.{field}")));
        }
        let mut known: Vec<_> = Settings::names().map(str::to_owned).collect();
        known.sort();
        names.sort();
        assert_eq!(names, known);
        for name in Settings::names() {
            settings.unset(name).unwrap();
        }
        assert_eq!(settings, Settings::default());
    }

    #[test]
    fn what_cannot_be_meant_is_refused_and_changes_nothing() {
        let mut settings = Settings::default();
        for (name, value, told) in [
            ("privacy.redact_pi", "true", "nearest is privacy.redact_pii"),
            ("redact_pii", "true", "nearest is privacy.redact_pii"),
            ("retention.message", "3", "nearest is retention.messages"),
            ("", "3", "there is no setting"),
            ("privacy.redact_pii", "yes", "give true or false"),
            ("privacy.retention_days", "0", "give 1 to 36525 days"),
            ("privacy.retention_days", "forever", "a number of days"),
            ("retention.messages", "0", "or \"forever\""),
            ("retention.messages", "99999", "or \"forever\""),
            ("retention.messages", "-1", "a number of days or forever"),
            ("retention.max_bytes", "10", "at least 65536"),
            ("retention.max_bytes", "10 GX", "as 10GB"),
            ("retention.max_bytes", "99999999999TB", "as 10GB"),
            ("budget.day", "much", "US dollars above 0"),
            ("budget.day", "0", "US dollars above 0"),
            ("budget.week", "-3", "US dollars above 0"),
            ("budget.month", "NaN", "US dollars above 0"),
            ("privacy.patterns", "TICKET", "a JSON array"),
            ("privacy.patterns", "[{}]", "privacy.patterns does not fit"),
            ("privacy.require_auth", "1", "give true or false"),
            ("privacy.allowed_roles", "", "would let no one in"),
            ("privacy.allowed_roles", "[]", "would let no one in"),
            ("privacy.allowed_roles", ",", "would let no one in"),
            ("privacy.allowed_roles", "root", "unknown role \"root\""),
            (
                "privacy.allowed_roles",
                "Admin",
                "one of read-only, developer, admin",
            ),
            (
                "privacy.allowed_roles",
                r#"["root"]"#,
                "a list of roles (unknown role \"root\"",
            ),
            ("privacy.allowed_roles", "[admin]", "a list of roles"),
        ] {
            let e = settings.clone().set(name, value).unwrap_err().to_string();
            assert!(e.contains(told), "{name} {value}: {e}");
        }
        settings.retention.errors = Some(Keep::Days(0));
        assert!(settings.check().unwrap_err().to_string().contains("errors"));
    }
}
