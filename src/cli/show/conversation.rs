//! Conversations, with totals of their messages.

use std::io;

use decklog::human::{count, counted, dollars, duration, float, short};
use decklog::record::{ConversationStats, ConversationStatus, ConversationView};
use decklog::uuid::Uuid;
use decklog::{Conversation, Store};
use serde::Serialize;

use super::{Shown, field, moment, name, optional};
use crate::cli::output::Output;
use crate::cli::time;

/// Columns of the start of an id, which is unique for those made in different milliseconds.
const ID_COLUMNS: usize = 13;

/// The start of an id, as other commands accept it.
pub fn short_id(id: Uuid) -> String {
    id.to_string().chars().take(ID_COLUMNS).collect()
}

/// A conversation of a list, with its title as it is shown.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub struct Listed {
    #[serde(skip)]
    pub title: Option<String>,
    pub conversation: (Conversation, ConversationStats),
}

impl Listed {
    pub fn of(
        store: &Store,
        conversation: (Conversation, ConversationStats),
    ) -> decklog::Result<Listed> {
        Ok(Listed {
            title: store.conversation_title(&conversation.0)?,
            conversation,
        })
    }
}

impl Shown for Listed {
    const COLUMNS: &'static str = "<170:CONVERSATION |170:CONVERSATION                        |BEGUN           |80:>   LASTED|72:>MESSAGES|110:>TOKENS IN|110:>    OUT|130:STATUS   |150:MODEL            |96:PROJECT         |TITLE";

    fn cells(&self) -> Vec<String> {
        let (conversation, stats) = &self.conversation;
        let short = |tokens: u64| short(float(tokens));
        let is_failed = conversation.status == ConversationStatus::Error;
        let title = self.title.as_deref().unwrap_or("(no title)");
        vec![
            short_id(conversation.id),
            conversation.id.to_string(),
            time::formatted(conversation.created_at.at(), "%Y-%m-%d %H:%M"),
            duration(conversation.lasted_ms()),
            count(stats.message_count),
            short(stats.total_tokens_in),
            short(stats.total_tokens_out),
            conversation.status.to_string(),
            name(stats.models_used.first().map(String::as_str), 17),
            name(conversation.project.as_deref(), 16),
            format!("{}{title}", if is_failed { "! " } else { "" }),
        ]
    }

    fn in_full(&self, out: &mut Output) -> io::Result<()> {
        let (conversation, stats) = &self.conversation;
        out.line(&format!("conversation {}", conversation.id))?;
        optional(out, "title", self.title.as_ref())?;
        field(out, "client", conversation.client)?;
        optional(out, "agent", conversation.agent.as_ref())?;
        optional(out, "project", conversation.project.as_ref())?;
        optional(out, "workspace", conversation.workspace.as_ref())?;
        optional(out, "user", conversation.user_id.as_ref())?;
        optional(out, "session", conversation.session_id.as_ref())?;
        optional(out, "part of", conversation.parent_id)?;
        optional(out, "call", conversation.parent_call_id.as_ref())?;
        field(out, "status", conversation.status)?;
        optional(out, "error", conversation.last_error.as_ref())?;
        field(out, "created", moment(conversation.created_at.at()))?;
        field(out, "updated", moment(conversation.updated_at.at()))?;
        let totals = format!(
            "{}, {} in, {} out, {} of latency",
            counted(stats.message_count, "message"),
            counted(stats.total_tokens_in, "token"),
            counted(stats.total_tokens_out, "token"),
            duration(i64::try_from(stats.total_latency_ms).unwrap_or(i64::MAX))
        );
        field(out, "totals", totals)?;
        optional(out, "cost", stats.total_cost_usd.map(dollars))?;
        if stats.failure_count > 0 {
            field(out, "failures", count(stats.failure_count))?;
        }
        for (label, names) in [
            ("models", &stats.models_used),
            ("configs", &stats.configs_used),
        ] {
            if !names.is_empty() {
                field(out, label, names.join(", "))?;
            }
        }
        Ok(())
    }

    fn as_json(&self) -> impl Serialize {
        ConversationView::from(&self.conversation)
    }
}
