//! Conversations, with totals of their messages.

use std::io;

use decklog::Conversation;
use decklog::record::ConversationStats;
use serde::Serialize;

use super::{Shown, count, field, grouped, optional};
use crate::cli::escape::{one_line, padded};
use crate::cli::output::Output;
use crate::cli::time;

const STATUS_COLUMNS: usize = 9;
const CLIENT_COLUMNS: usize = 6;
const MESSAGES_COLUMNS: usize = 8;
const TOKENS_COLUMNS: usize = 17;

impl Shown for (Conversation, ConversationStats) {
    const HEADING: &'static str = "CONVERSATION                          CREATED (UTC)            STATUS     MESSAGES      TOKENS IN/OUT  CLIENT  PROJECT, TITLE, WORKSPACE, SESSION";

    fn row(&self) -> String {
        let (conversation, stats) = self;
        let tokens = format!(
            "{}/{}",
            grouped(stats.total_tokens_in),
            grouped(stats.total_tokens_out)
        );
        let names = [
            &conversation.project,
            &conversation.title,
            &conversation.workspace,
            &conversation.session_id,
        ];
        let names: Vec<&str> = names.into_iter().flatten().map(String::as_str).collect();
        format!(
            "{}  {}  {}  {:>MESSAGES_COLUMNS$}  {tokens:>TOKENS_COLUMNS$}  {}  {}",
            conversation.id,
            time::shown(conversation.created_at.at()),
            padded(conversation.status.as_str(), STATUS_COLUMNS),
            grouped(stats.message_count),
            padded(conversation.client.as_str(), CLIENT_COLUMNS),
            one_line(&names.join("  "))
        )
    }

    fn in_full(&self, out: &mut Output) -> io::Result<()> {
        let (conversation, stats) = self;
        out.line(&format!("conversation {}", conversation.id))?;
        optional(out, "title", conversation.title.as_deref())?;
        field(out, "client", conversation.client.as_str())?;
        optional(out, "project", conversation.project.as_deref())?;
        optional(out, "workspace", conversation.workspace.as_deref())?;
        optional(out, "user", conversation.user_id.as_deref())?;
        optional(out, "session", conversation.session_id.as_deref())?;
        let parent = conversation.parent_id.map(|id| id.to_string());
        optional(out, "part of", parent.as_deref())?;
        optional(out, "call", conversation.parent_call_id.as_deref())?;
        field(out, "status", conversation.status.as_str())?;
        optional(out, "error", conversation.last_error.as_deref())?;
        field(out, "created", conversation.created_at.as_str())?;
        field(out, "updated", conversation.updated_at.as_str())?;
        let totals = format!(
            "{}, {} in, {} out, {} ms",
            count(stats.message_count, "message"),
            count(stats.total_tokens_in, "token"),
            count(stats.total_tokens_out, "token"),
            grouped(stats.total_latency_ms)
        );
        field(out, "totals", &totals)?;
        for (label, names) in [
            ("models", &stats.models_used),
            ("configs", &stats.configs_used),
        ] {
            if !names.is_empty() {
                field(out, label, &names.join(", "))?;
            }
        }
        Ok(())
    }

    fn json(&self, out: &mut Output) -> io::Result<()> {
        #[derive(Serialize)]
        struct Whole<'a> {
            #[serde(flatten)]
            conversation: &'a Conversation,
            #[serde(flatten)]
            stats: &'a ConversationStats,
        }
        let (conversation, stats) = self;
        out.json(&Whole {
            conversation,
            stats,
        })
    }
}
