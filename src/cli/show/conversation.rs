//! Conversations, with totals of their messages.

use std::io;

use decklog::Conversation;
use decklog::human::{count, counted};
use decklog::record::{ConversationStats, ConversationView};

use super::moment;
use super::{Shown, field, optional};
use crate::cli::output::Output;
use crate::cli::time;

impl Shown for (Conversation, ConversationStats) {
    const COLUMNS: &'static str = "CONVERSATION                        |CREATED                |STATUS   |>MESSAGES|>    TOKENS IN/OUT|CLIENT|PROJECT, TITLE, WORKSPACE, SESSION";

    fn cells(&self) -> Vec<String> {
        let (conversation, stats) = self;
        let tokens = [stats.total_tokens_in, stats.total_tokens_out].map(count);
        let names = [
            &conversation.project,
            &conversation.title,
            &conversation.workspace,
            &conversation.session_id,
        ];
        let names: Vec<&str> = names.into_iter().flatten().map(String::as_str).collect();
        vec![
            conversation.id.to_string(),
            time::shown(conversation.created_at.at()),
            conversation.status.to_string(),
            count(stats.message_count),
            tokens.join("/"),
            conversation.client.to_string(),
            names.join("  "),
        ]
    }

    fn in_full(&self, out: &mut Output) -> io::Result<()> {
        let (conversation, stats) = self;
        out.line(&format!("conversation {}", conversation.id))?;
        optional(out, "title", conversation.title.as_ref())?;
        field(out, "client", conversation.client)?;
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
            "{}, {} in, {} out, {} ms",
            counted(stats.message_count, "message"),
            counted(stats.total_tokens_in, "token"),
            counted(stats.total_tokens_out, "token"),
            count(stats.total_latency_ms)
        );
        field(out, "totals", totals)?;
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

    fn json(&self, out: &mut Output) -> io::Result<()> {
        out.json(&ConversationView::from(self))
    }
}
