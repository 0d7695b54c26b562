//! A conversation in answers.

use serde::Serialize;
use utoipa::ToSchema;

use crate::record::{Conversation, ConversationStats};

/// A conversation, with totals of its messages.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Whole {
    #[serde(flatten)]
    conversation: Conversation,
    #[serde(flatten)]
    stats: ConversationStats,
}

impl Whole {
    pub(crate) fn of((conversation, stats): (Conversation, ConversationStats)) -> Whole {
        Whole {
            conversation,
            stats,
        }
    }
}
