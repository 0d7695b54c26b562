//! Finds the record that a person names by its id, by the start of its id, or as `latest`.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use uuid::Uuid;

use super::conversations::PARENT;
use super::seqs::each_row;
use super::{EVERYWHERE, collision, not_found};
use crate::error::{Error, ErrorKind, Result};
use crate::human::one_line;
use crate::index::{Row, RowId, Select};
use crate::record::{Key, Kind};
use crate::store::{Reads, Snapshot, Store};

/// Minimum number of characters of the start of an id.
const START_CHARS_MIN: usize = 4;
/// Number of records that an error names if their ids have the same start.
const NAMED: usize = 3;

impl Store {
    /// The key of the record that a person names:
    /// - its whole id, which is not looked up in the log;
    /// - the start of its id, at least 4 characters, if no other record of this kind has it. For a
    ///   tool call, the id of its request or its call id;
    /// - `latest`: the latest record of this kind. For conversations, the latest that is not of a
    ///   sub-agent.
    ///
    /// The start of an id is compared with all records of the kind, of which the lines are read.
    ///
    /// ```
    /// # use decklog::{Client, Conversation, Key, Kind, Store};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let store = Store::open(dir.path().join("log"))?;
    /// let conversation = Conversation::new(uuid::Uuid::new_v4(), Client::Api);
    /// store.record(conversation.clone())?;
    /// let key = Key::Conversation(conversation.id);
    /// let start = &conversation.id.to_string()[..8];
    /// assert_eq!(store.find_key(Kind::Conversations, start)?, key);
    /// assert_eq!(store.find_key(Kind::Conversations, "latest")?, key);
    /// # Ok::<(), decklog::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`InvalidInput`](ErrorKind::InvalidInput) if the text cannot be the start of an id, or
    /// several records have this start; [`NotFound`](ErrorKind::NotFound) if no record has it, or
    /// there is no latest one.
    pub fn find_key(&self, kind: Kind, text: &str) -> Result<Key> {
        if text == "latest" {
            let latest = self.inner().with_snapshot(|view| latest(view, kind))?;
            return latest.ok_or_else(|| not_found(format!("the log has no {}", kind.stem())));
        }
        let whole = Key::of_parts(kind, [text.to_owned(), String::new()]);
        let is_whole = match kind {
            Kind::ToolCalls => false,
            Kind::ThoughtRecords => {
                let inner = self.inner();
                inner.with_snapshot(|view| Ok(view.find(kind, [text, ""]).is_some()))?
            }
            _ => true,
        };
        match whole.filter(|_| is_whole) {
            Some(key) => Ok(key),
            None => self.with_start(kind, text, 2),
        }
    }

    /// The model request of tool calls that a person names: by its whole id, which is not looked up
    /// in the log, by the start of its id, or as `latest`, the request of the latest call.
    ///
    /// # Errors
    /// As for [`find_key`](Store::find_key).
    pub fn find_request(&self, text: &str) -> Result<Uuid> {
        if let Ok(id) = Uuid::try_parse(text) {
            return Ok(id);
        }
        let key = match text {
            "latest" => self.find_key(Kind::ToolCalls, text)?,
            _ => self.with_start(Kind::ToolCalls, text, 1)?,
        };
        match key {
            Key::ToolCall { request_id, .. } => Ok(request_id),
            _ => Err(collision()),
        }
    }

    /// The only record of a kind whose id is this text or, if there is none, begins with it. The
    /// first `parts` parts of the keys are compared.
    fn with_start(&self, kind: Kind, text: &str, parts: usize) -> Result<Key> {
        let is_number = matches!(kind, Kind::Events | Kind::Inbox | Kind::History);
        let is_text = kind == Kind::ThoughtRecords || parts == 2 && kind == Kind::ToolCalls;
        let is_of_uuid = |c: char| c.is_ascii_hexdigit() || c == '-';
        let can_be = is_text || text.chars().all(is_of_uuid);
        if is_number || !can_be || text.chars().count() < START_CHARS_MIN {
            let what = if is_number {
                "the number"
            } else {
                "the id, or at least its first 4 characters,"
            };
            let message = format!(
                "{:?} names none of the {}: give {what} or 'latest'",
                one_line(text, 80),
                kind.stem()
            );
            return Err(Error::new(ErrorKind::InvalidInput, message));
        }
        // UUIDs are in lower case in the log. Other ids are as they were given.
        let lower = text.to_ascii_lowercase();
        let (mut exact, mut begun) = (BTreeSet::new(), BTreeSet::new());
        let compare = |view: &Snapshot<'_>, id| {
            let row = view.table(kind).row(id).filter(|row| row.stands());
            let Some(row) = row else {
                return Ok(ControlFlow::Continue(()));
            };
            let mut key = view.key(kind, row.asserted)?;
            key.iter_mut().skip(parts).for_each(String::clear);
            let begins = |part: &String| part.starts_with(text) || part.starts_with(&lower);
            let these = if key.iter().any(|part| part == text) {
                &mut exact
            } else if key.iter().any(begins) {
                &mut begun
            } else {
                return Ok(ControlFlow::Continue(()));
            };
            if these.len() <= NAMED {
                these.insert(key);
            }
            Ok(ControlFlow::Continue(()))
        };
        each_row(self.inner(), kind, Select::All, EVERYWHERE, true, compare)?;
        let found = if exact.is_empty() { begun } else { exact };
        let keys = found.into_iter();
        let mut keys: Vec<Key> = keys.filter_map(|it| Key::of_parts(kind, it)).collect();
        let text = one_line(text, 80);
        match keys.len() {
            0 => Err(not_found(format!(
                "none of the {} begins with {text:?}",
                kind.stem()
            ))),
            1 => Ok(keys.remove(0)),
            _ => {
                let more = if keys.len() > NAMED { ", …" } else { "" };
                let names = keys
                    .iter()
                    .take(NAMED)
                    .map(|key| one_line(&key.to_string(), 120));
                let names: Vec<String> = names.collect();
                let message = format!(
                    "several of the {} begin with {text:?}: give more characters ({}{more})",
                    kind.stem(),
                    names.join(", ")
                );
                Err(Error::new(ErrorKind::InvalidInput, message))
            }
        }
    }
}

/// The key of the latest record of a kind.
fn latest(view: &Snapshot<'_>, kind: Kind) -> Result<Option<Key>> {
    let table = view.table(kind);
    let rows = || {
        let (first, end) = EVERYWHERE;
        let rows = table.walk(Select::All, first, end).rev();
        rows.filter(|id| table.row(*id).is_some_and(Row::stands))
    };
    let is_of_user = |id: &RowId| kind != Kind::Conversations || table.value(*id, PARENT).is_none();
    let found = rows().find(is_of_user).or_else(|| rows().next());
    let Some(row) = found.and_then(|id| table.row(id)) else {
        return Ok(None);
    };
    Ok(Key::of_parts(kind, view.key(kind, row.asserted)?))
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::record::{Client, Conversation, ToolCallReq};

    fn conversation(id: &str, parent: Option<Uuid>, created_at: i64) -> Conversation {
        Conversation {
            parent_id: parent,
            created_at: crate::record::Timestamp::from_ms(created_at).unwrap(),
            ..Conversation::new(Uuid::parse_str(id).unwrap(), Client::Api)
        }
    }

    #[test]
    fn a_start_names_one_record_or_says_which() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path().join("log")).unwrap();
        let ids = [
            "67e55044-10b1-426f-9247-bb680e5fe0c8",
            "67e55044-20b1-426f-9247-bb680e5fe0c8",
            "0a1b2c3d-20b1-426f-9247-bb680e5fe0c8",
        ];
        let find = |text: &str| store.find_key(Kind::Conversations, text);
        assert_eq!(find("latest").unwrap_err().kind(), ErrorKind::NotFound);
        let [first, second, third] = ids.map(|id| Uuid::parse_str(id).unwrap());
        store
            .record(conversation(ids[0], None, 1_700_000_000_000))
            .unwrap();
        store
            .record(conversation(ids[1], None, 1_700_000_000_001))
            .unwrap();
        // The latest of all, but of a sub-agent.
        store
            .record(conversation(ids[2], Some(first), 1_700_000_000_002))
            .unwrap();
        assert_eq!(find("latest").unwrap(), Key::Conversation(second));
        assert_eq!(find("0A1B").unwrap(), Key::Conversation(third));
        assert_eq!(find("67e55044-1").unwrap(), Key::Conversation(first));
        let whole = Uuid::new_v4();
        assert_eq!(find(&whole.to_string()).unwrap(), Key::Conversation(whole));
        let several = find("67e5").unwrap_err();
        assert_eq!(several.kind(), ErrorKind::InvalidInput);
        assert!(
            ids[..2].iter().all(|id| several.to_string().contains(id)),
            "{several}"
        );
        assert!(!several.to_string().contains('…'), "{several}");
        assert_eq!(find("ffff").unwrap_err().kind(), ErrorKind::NotFound);
        for odd in ["67e", "", "\u{1b}", "no-uuid"] {
            assert_eq!(
                find(odd).unwrap_err().kind(),
                ErrorKind::InvalidInput,
                "{odd}"
            );
        }
    }

    #[test]
    fn calls_are_found_by_either_id_and_a_whole_id_goes_first() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path().join("log")).unwrap();
        let request = Uuid::new_v4();
        for call in ["call_1", "call_10", "other"] {
            store
                .record(ToolCallReq {
                    arguments_json: Some("{}".into()),
                    ..ToolCallReq::new(request, call, "v", "bash")
                })
                .unwrap();
        }
        let find = |text: &str| store.find_key(Kind::ToolCalls, text);
        let key = |call: &str| Key::ToolCall {
            request_id: request,
            call_id: call.to_owned(),
        };
        assert_eq!(find("call_1").unwrap(), key("call_1"));
        assert_eq!(find("othe").unwrap(), key("other"));
        assert_eq!(find("call").unwrap_err().kind(), ErrorKind::InvalidInput);
        let start = &request.to_string()[..8];
        assert_eq!(find(start).unwrap_err().kind(), ErrorKind::InvalidInput);
        for text in [start, "latest"] {
            assert_eq!(store.find_request(text).unwrap(), request);
        }
        let other = store.find_request("call_1").unwrap_err();
        assert_eq!(other.kind(), ErrorKind::InvalidInput);
    }

    #[test]
    fn numbers_are_whole_and_thoughts_may_have_short_ids() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path().join("log")).unwrap();
        let id = store.log_event(None, "run.started", None).unwrap();
        assert_eq!(
            store.find_key(Kind::Events, "latest").unwrap(),
            Key::Event(id)
        );
        assert_eq!(store.find_key(Kind::Events, "77").unwrap(), Key::Event(77));
        assert!(store.find_key(Kind::Events, "7x").is_err());
        let thought = crate::collections::NewThought {
            thought_type: crate::record::ThoughtType::Plan,
            task_id: "task".into(),
            agent_id: "agent".into(),
            content: "text".into(),
        };
        let thought = store.thoughts().create(thought).unwrap();
        let find = |text: &str| store.find_key(Kind::ThoughtRecords, text);
        assert_eq!(find(&thought.id).unwrap(), Key::Thought(thought.id.clone()));
        assert_eq!(find("latest").unwrap(), Key::Thought(thought.id));
    }
}
