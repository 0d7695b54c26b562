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
        const FLAGS: [fn(&mut PrivacySettings); 5] = [
            |it| it.store_content = false,
            |it| it.store_payloads = false,
            |it| it.redact_secrets = true,
            |it| it.redact_pii = true,
            |it| it.hash_user_id = true,
        ];
        let mut all = vec![self.clone()];
        for set in FLAGS {
            let with_flag = all.clone().into_iter().map(|mut settings| {
                set(&mut settings);
                settings
            });
            // A flag that is already strict yields no other settings.
            let others: Vec<_> = with_flag.filter(|it| !all.contains(it)).collect();
            all.extend(others);
        }
        all.into_iter().skip(1)
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
