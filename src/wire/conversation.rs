//! A conversation as answers have it.

use serde::Serialize;
use utoipa::ToSchema;

use crate::record::{Conversation, ConversationStats};

/// A conversation, and what its messages add up to.
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
