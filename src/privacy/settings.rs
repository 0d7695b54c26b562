//! The privacy settings in a store's manifest. Every process that writes to the store applies them.

use serde::{Deserialize, Serialize};

use crate::record::words;

words! {
    /// Who may do what over HTTP. Each may also do what those before it may.
    #[derive(PartialOrd, Ord)]
    AccessRole ("role") {
        /// Reads.
        ReadOnly = "read-only",
        /// Also records and changes.
        Developer = "developer",
        /// Also erases.
        Admin = "admin",
    }
}

/// Privacy settings: which parts of the input are stored; in `decklog.json` under `privacy`.
// The switches are independent.
#[allow(clippy::struct_excessive_bools)]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PrivacySettings {
    /// Whether contents, arguments and outcomes are stored. If false, each is replaced by its
    /// length and its SHA-256; tokens, times and similar fields are kept. Default: true.
    pub store_content: bool,
    /// Whether arguments and outcomes of tool calls are stored, provided `store_content` is true.
    /// The contents of turns and messages of tools are outcomes as well. Error messages of calls
    /// and the diffs of proposals are contents and are stored. Default: true.
    pub store_payloads: bool,
    /// Whether keys, tokens and passwords are replaced by placeholders such as
    /// `[REDACTED:github_token:1]`. Default: true.
    pub redact_secrets: bool,
    /// Whether e-mail addresses, card numbers, IBANs, phone numbers, US social security numbers and
    /// IP addresses are replaced by placeholders. Default: false.
    pub redact_pii: bool,
    /// Additional patterns. Their matches are replaced by placeholders. Default: none.
    pub patterns: Vec<Pattern>,
    /// Whether a `user_id` is replaced by its HMAC-SHA-256. The key is stored outside the store.
    /// Default: true.
    pub hash_user_id: bool,
    /// Retention period of messages, turns and tool calls in days, unless `retention` overrides it.
    /// Default: 90.
    pub retention_days: u32,
    /// Whether expired data is removed automatically, once a day, by a process that writes to the
    /// store. Default: true.
    pub auto_delete: bool,
    /// Whether the HTTP service requires a token. Direct access to the directory, by the library or
    /// the command line, requires none; file modes control it. Default: false.
    pub require_auth: bool,
    /// Roles whose tokens the HTTP service accepts, at least one. Default: admin and developer.
    pub allowed_roles: Vec<AccessRole>,
}

impl PrivacySettings {
    /// All settings that are stricter than these: at least one more kind of data is omitted,
    /// redacted or hashed.
    pub(crate) fn stricter(&self) -> impl Iterator<Item = PrivacySettings> {
        const FLAGS: u32 = 5;
        let changed = move |set: u32| {
            let is_set = |flag: u32| set & (1 << flag) != 0;
            let settings = PrivacySettings {
                store_content: self.store_content && !is_set(0),
                store_payloads: self.store_payloads && !is_set(1),
                redact_secrets: self.redact_secrets || is_set(2),
                redact_pii: self.redact_pii || is_set(3),
                hash_user_id: self.hash_user_id || is_set(4),
                ..self.clone()
            };
            // A flag that is already strict yields no other settings.
            let made = [
                self.store_content != settings.store_content,
                self.store_payloads != settings.store_payloads,
                self.redact_secrets != settings.redact_secrets,
                self.redact_pii != settings.redact_pii,
                self.hash_user_id != settings.hash_user_id,
            ];
            let changes = made.into_iter().filter(|made| *made).count();
            (changes == set.count_ones() as usize).then_some(settings)
        };
        (1..1 << FLAGS).filter_map(changed)
    }
}

impl Default for PrivacySettings {
    fn default() -> PrivacySettings {
        PrivacySettings {
            store_content: true,
            store_payloads: true,
            redact_secrets: true,
            redact_pii: false,
            patterns: Vec::new(),
            hash_user_id: true,
            retention_days: 90,
            auto_delete: true,
            require_auth: false,
            allowed_roles: vec![AccessRole::Admin, AccessRole::Developer],
        }
    }
}

/// A custom pattern to redact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pattern {
    /// The name in the placeholder: lower-case letters, digits and underscores.
    pub name: String,
    /// A regular expression, in the syntax of the `regex` crate.
    pub regex: String,
}
