//! Retention settings of a store's manifest.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::privacy::PrivacySettings;
use crate::record::Kind;

/// How long a record is kept, counted from the record's own time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// This number of whole days.
    Days(u32),
    /// Never removed, not even by the size limit.
    Forever,
}

impl Serialize for Keep {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Keep::Days(days) => serializer.serialize_u32(*days),
            Keep::Forever => serializer.serialize_str("forever"),
        }
    }
}

impl<'de> Deserialize<'de> for Keep {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Keep, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Given {
            Days(u32),
            Word(String),
        }
        match Given::deserialize(deserializer)? {
            Given::Days(days) => Ok(Keep::Days(days)),
            Given::Word(word) if word == "forever" => Ok(Keep::Forever),
            Given::Word(_) => Err(serde::de::Error::custom(
                "give a number of days or \"forever\"",
            )),
        }
    }
}

/// How long the records of each kind are kept; `retention` in `decklog.json`. If a setting is not
/// set, the default in its description applies.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RetentionSettings {
    /// Default: [`PrivacySettings::retention_days`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conversation_turns: Option<Keep>,
    /// Default: [`PrivacySettings::retention_days`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<Keep>,
    /// Default: forever.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code_edit_proposals: Option<Keep>,
    /// Conversations with their messages. Default: [`PrivacySettings::retention_days`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub messages: Option<Keep>,
    /// Conversations whose status is `error`, with their messages: those whose last answer failed.
    /// Default: 30 days, or the value of `messages`, if that is less or forever.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub errors: Option<Keep>,
    /// Trees of events. Default: forever.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub events: Option<Keep>,
    /// Tasks that are done or failed. Default: forever.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inbox: Option<Keep>,
    /// Default: forever.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub history: Option<Keep>,
    /// Default: forever.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thought_records: Option<Keep>,
    /// Daily totals of removed messages. Default: 365 days.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rollups: Option<Keep>,
    /// Maximum size of the store's segments, in bytes, not counting rollups. Beyond it, the oldest
    /// days are removed first, except for kinds that are kept forever. Rollups are removed by age
    /// alone. Default: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_bytes: Option<u64>,
}

impl RetentionSettings {
    /// Keeps all kinds forever. This suits a log of imported history, which is often older than the
    /// default retention.
    ///
    /// ```
    /// # use decklog::{Settings, Store};
    /// # use decklog::retention::{Keep, RetentionSettings};
    /// # let dir = tempfile::tempdir().unwrap();
    /// let settings = Settings {
    ///     retention: RetentionSettings::forever(),
    ///     ..Settings::default()
    /// };
    /// let store = Store::options().settings(settings).open(dir.path().join("log"))?;
    /// assert_eq!(store.settings()?.retention.messages, Some(Keep::Forever));
    /// # Ok::<(), decklog::Error>(())
    /// ```
    pub fn forever() -> RetentionSettings {
        let mut settings = RetentionSettings {
            events: Some(Keep::Forever),
            rollups: Some(Keep::Forever),
            ..RetentionSettings::default()
        };
        settings.keep_imported();
        settings
    }

    /// Keeps the kinds that an import adds forever.
    pub(crate) fn keep_imported(&mut self) {
        let kinds = [
            &mut self.conversation_turns,
            &mut self.tool_calls,
            &mut self.messages,
            &mut self.errors,
        ];
        for keep in kinds {
            *keep = Some(Keep::Forever);
        }
    }

    /// Whether records that an import adds are never removed.
    pub(crate) fn keeps_imported(&self, privacy: &PrivacySettings) -> bool {
        let kinds = [Kind::ConversationTurns, Kind::ToolCalls, Kind::Messages];
        let keeps = kinds.map(|kind| self.keep(kind, privacy));
        let all = keeps.into_iter().chain([self.keep_errors(privacy)]);
        all.eq([Keep::Forever; 4])
    }

    /// The setting of a kind; its default, if it is not the general one; and the setting's name.
    fn of(&self, kind: Kind) -> (Option<Keep>, Option<Keep>, &'static str) {
        const FOREVER: Option<Keep> = Some(Keep::Forever);
        match kind {
            Kind::ConversationTurns => (
                self.conversation_turns,
                None,
                "retention.conversation_turns",
            ),
            Kind::ToolCalls => (self.tool_calls, None, "retention.tool_calls"),
            Kind::CodeEditProposals => {
                let name = "retention.code_edit_proposals";
                (self.code_edit_proposals, FOREVER, name)
            }
            // Conversations are kept as long as their messages.
            Kind::Conversations | Kind::Messages => (self.messages, None, "retention.messages"),
            Kind::Events => (self.events, FOREVER, "retention.events"),
            Kind::Inbox => (self.inbox, FOREVER, "retention.inbox"),
            Kind::History => (self.history, FOREVER, "retention.history"),
            Kind::ThoughtRecords => (self.thought_records, FOREVER, "retention.thought_records"),
            Kind::Rollups => (self.rollups, Some(Keep::Days(365)), "retention.rollups"),
        }
    }

    /// How long the records of a kind are kept, and the name of the setting that applies.
    pub(crate) fn keep_by(&self, kind: Kind, privacy: &PrivacySettings) -> (Keep, &'static str) {
        let (own, default, name) = self.of(kind);
        let usual = (Keep::Days(privacy.retention_days), "privacy.retention_days");
        own.or(default).map_or(usual, |keep| (keep, name))
    }

    /// How long the records of a kind are kept. Conversations are kept as long as their messages.
    pub fn keep(&self, kind: Kind, privacy: &PrivacySettings) -> Keep {
        self.keep_by(kind, privacy).0
    }

    /// The effective settings, with defaults for those that are not set.
    pub(crate) fn in_force(&self, privacy: &PrivacySettings) -> RetentionSettings {
        let keep = |kind| Some(self.keep(kind, privacy));
        RetentionSettings {
            conversation_turns: keep(Kind::ConversationTurns),
            tool_calls: keep(Kind::ToolCalls),
            code_edit_proposals: keep(Kind::CodeEditProposals),
            messages: keep(Kind::Messages),
            errors: Some(self.keep_errors(privacy)),
            events: keep(Kind::Events),
            inbox: keep(Kind::Inbox),
            history: keep(Kind::History),
            thought_records: keep(Kind::ThoughtRecords),
            rollups: keep(Kind::Rollups),
            max_bytes: self.max_bytes,
        }
    }

    /// How long conversations that ended in an error are kept.
    pub fn keep_errors(&self, privacy: &PrivacySettings) -> Keep {
        const DAYS: u32 = 30;
        self.errors
            .unwrap_or_else(|| match self.keep(Kind::Messages, privacy) {
                Keep::Days(days) => Keep::Days(days.min(DAYS)),
                Keep::Forever => Keep::Forever,
            })
    }
}
