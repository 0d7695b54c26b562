//! What a store's manifest says of privacy. Every process that writes the store obeys it.

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

/// What is kept of what agents hand over; in `decklog.json` under `privacy`.
// Each is a switch of its own.
#[allow(clippy::struct_excessive_bools)]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PrivacySettings {
    /// Whether contents, arguments and outcomes are kept. If not, each is replaced by its length
    /// and its SHA-256; tokens, times and the like stay. Default: true.
    pub store_content: bool,
    /// Whether the arguments and outcomes of tool calls are kept, where contents are; so are the
    /// contents of turns and messages of tools, which are outcomes. Error
    /// messages of calls and the diffs of proposals are contents, and are kept. Default: true.
    pub store_payloads: bool,
    /// Whether keys, tokens and passwords are replaced by placeholders such as
    /// `[REDACTED:github_token:1]`. Default: true.
    pub redact_secrets: bool,
    /// The same for e-mail addresses, card numbers, IBANs, phone numbers, social security numbers
    /// of the US and IP addresses. Default: false.
    pub redact_pii: bool,
    /// The same for whatever these patterns match. Default: none.
    pub patterns: Vec<Pattern>,
    /// Whether a `user_id` is replaced by its HMAC-SHA-256, under a key that is kept outside the
    /// store. Default: true.
    pub hash_user_id: bool,
    /// How many days messages, turns and tool calls are kept, where `retention` says nothing else.
    /// Default: 90.
    pub retention_days: u32,
    /// Whether what is past its time is removed by itself, once a day, by a process that writes
    /// the store. Default: true.
    pub auto_delete: bool,
    /// Whether the HTTP service asks for a token. Who opens the directory itself, as a library or
    /// the command line does, is asked for nothing: there the modes of the files decide. Default:
    /// false.
    pub require_auth: bool,
    /// The roles whose tokens the HTTP service takes, at least one. Default: admin and developer.
    pub allowed_roles: Vec<AccessRole>,
}

impl PrivacySettings {
    /// All settings that keep less of a record: any of what is kept now left out, redacted or
    /// hashed.
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
            // A flag that is strict already makes no other settings.
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

/// A pattern of one's own to redact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pattern {
    /// What stands in the placeholder: lower-case letters, digits and underscores.
    pub name: String,
    /// A regular expression, in the syntax of the `regex` crate.
    pub regex: String,
}
