//! What a later import knows more of a message: an earlier one may have come while the session was
//! still running. Supplements of a message are numbered, so that what they add up to can be told.

use crate::error::Result;
use crate::import::batch::Log;
use crate::import::facts::Tokens;
use crate::import::ids::named;
use crate::record::ConversationMessage;

/// What is now known of a message beyond what the log has of it, as a message of its own.
pub(super) fn supplement(
    log: &dyn Log,
    known: ConversationMessage,
    mut now: ConversationMessage,
) -> Result<Option<ConversationMessage>> {
    let id = known.id;
    let mut tokens = tokens_of(&known);
    let mut has_call = known.tool_name.is_some();
    let mut content = known.content;
    for n in 1_u64.. {
        now.id = named("import:more", &format!("{id}:{n}"));
        let Some(more) = log.get_message(now.id)? else {
            break;
        };
        tokens = tokens.plus(tokens_of(&more));
        has_call |= more.tool_name.is_some();
        if !more.content.is_empty() && !content.is_empty() {
            content.push_str("\n\n");
        }
        content.push_str(&more.content);
    }
    let grown = tokens_of(&now).beyond(tokens);
    // A content that the log changed or left out is no part of this one, and is not told again.
    let rest = now.content.strip_prefix(content.as_str()).unwrap_or("");
    let rest = rest.strip_prefix("\n\n").unwrap_or(rest);
    let says_more = !content.is_empty() && !rest.is_empty();
    let calls = !has_call && now.tool_name.is_some();
    if grown == Tokens::default() && !says_more && !calls {
        return Ok(None);
    }
    if has_call {
        now.tool_name = None;
        now.tool_args = None;
    }
    Ok(Some(ConversationMessage {
        // A resumed session repeats responses of another one: they stay with that.
        conversation_id: known.conversation_id,
        tokens_in: Some(count(grown.input)),
        tokens_out: Some(count(grown.output)),
        content: rest.to_owned(),
        tool_result: None,
        error: None,
        error_type: None,
        ..now
    }))
}

pub(super) fn tokens_of(message: &ConversationMessage) -> Tokens {
    let of = |count: Option<i64>| count.and_then(|n| u64::try_from(n).ok()).unwrap_or(0);
    Tokens {
        input: of(message.tokens_in),
        output: of(message.tokens_out),
    }
}

pub(super) fn count(tokens: u64) -> i64 {
    i64::try_from(tokens).unwrap_or(i64::MAX)
}
