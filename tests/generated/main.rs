//! The files of the bindings that are generated from the declarations of the records.

#![allow(clippy::unwrap_used)]

mod python;
mod typescript;

use std::fmt::Write as _;
use std::path::Path;

use decklog::Kind;
use decklog::bindings::RecordSchema;

/// The method that lists a kind, and what it lists.
fn list_of(kind: Kind) -> (&'static str, &'static str) {
    match kind {
        Kind::ConversationTurns => ("turns", "the turns that are not retracted"),
        Kind::ToolCalls => ("tool_calls", "the tool calls that are not retracted"),
        Kind::CodeEditProposals => ("proposals", "the proposed edits that are not retracted"),
        Kind::Conversations => ("conversations", "the conversations"),
        Kind::Messages => ("messages", "the messages"),
        Kind::Events => ("events", "the events"),
        Kind::Inbox => ("tasks", "the tasks of the inbox"),
        Kind::History => ("history_entries", "the messages of chats"),
        Kind::ThoughtRecords => ("thought_records", "the thoughts"),
        Kind::Rollups => ("rollups", "the daily sums of messages"),
        other => panic!("{other} has no list"),
    }
}

/// The name of the type of the records that reads return of a kind.
fn name_read(types: &[RecordSchema], kind: Kind) -> &'static str {
    let mut of_kind = types.iter().filter(|it| it.kind == kind && it.is_read);
    of_kind.next().unwrap().name
}

/// Compares a file with what is generated, or writes it.
fn check(path: &str, generated: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        std::fs::write(&path, generated).unwrap();
        return;
    }
    let known = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        known == generated,
        "{} is stale: run UPDATE_SNAPSHOTS=1 cargo test --all-features --test generated",
        path.display()
    );
}

/// A text in lines of at most this length, each after a prefix.
fn wrapped(text: &str, prefix: &str, width: usize) -> String {
    let mut out = String::new();
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty() && prefix.len() + line.len() + 1 + word.len() > width {
            let _ = writeln!(out, "{prefix}{line}");
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line += word;
    }
    if !line.is_empty() {
        let _ = writeln!(out, "{prefix}{line}");
    }
    out
}

/// What each class is, for its documentation.
fn described(name: &str) -> &'static str {
    match name {
        "ConversationTurn" => "A turn of a conversation.",
        "ToolCall" => "A tool call and, once it has one, its outcome. Returned by reads.",
        "ToolCallReq" => "The request of a tool call.",
        "ToolCallDone" => "The outcome of a tool call.",
        "CodeEditProposal" => "A proposed edit and its decisions.",
        "ProposalStep" => {
            "A step of a proposed edit: its approval, denial, application or reversal."
        }
        "Conversation" => "A conversation. Reads return it with the totals of its messages.",
        "ConversationMessage" => "A message of a conversation.",
        "Event" => "An event of a supervisor or an agent.",
        "InboxTask" => "A task of the inbox.",
        "HistoryEntry" => "A message of a chat.",
        "ThoughtRecord" => "A thought, chained to the one before it by its hash.",
        "Rollup" => {
            "The sums over a day's messages of one model, configuration, mode and task type."
        }
        other => panic!("{other} has no description"),
    }
}

/// Without the links of rustdoc.
fn plain(text: &str) -> String {
    text.replace("[`", "`").replace("`]", "`")
}
