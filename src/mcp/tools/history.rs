//! Entries of chats.

use super::super::answer::Fault;
use super::super::bound::PAGE_BYTES_MAX;
use super::Call;
use super::given::{FromChar, Limit, Put, limit, recorded};
use crate::record::Kind;
use crate::wire::fields::AnyInt;
use crate::wire::history::Entries;
use crate::wire::new::NewEntry;

tools! {
    /// Appends an entry to the history of a chat. Returns its id.
    history_append("Append to a chat's history", Adds) => append(NewEntry)

    /// Reads the last entries of a chat's history, earliest first.
    history_list("Read a chat's history", Reads, [Kind::History]) => list(List {
        /// The chat.
        chat_id: AnyInt,
        /// Maximum number of entries, counted from the last one. Default: 100.
        limit: Option<Limit>,
        /// Only entries before this id: `before` of an earlier answer.
        before: Option<AnyInt>,
        /// First character to show of truncated texts. Default: 0.
        from_char: Option<FromChar>,
    })
}

fn append(call: &Call<'_>, given: NewEntry) -> Result<Put, Fault> {
    let (_, mut ack) = recorded(call, given)?;
    // Entries are answered without warnings.
    ack.warning = None;
    Ok(ack.into())
}

fn list(call: &Call<'_>, given: List) -> Result<Entries, Fault> {
    let before = given.before.map_or(i64::MAX, |id| id.0);
    let (chat_id, limit) = (given.chat_id.0, limit(given.limit));
    Ok(Entries::read(
        call.store,
        chat_id,
        before,
        limit,
        PAGE_BYTES_MAX,
    )?)
}
