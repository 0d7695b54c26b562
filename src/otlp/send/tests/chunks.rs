//! A log of many chunks, with conversations that take turns, comes back equal.

use uuid::Uuid;

use super::{all_lines, items, open, records, restore};
use crate::record::{Client, Conversation, ConversationMessage, Record, Role};

#[test]
fn a_log_of_many_chunks_comes_back_equal() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir, "log");
    let mut all: Vec<Record> = Vec::new();
    for talk in 0..7 {
        all.push(Conversation::new(Uuid::from_u128(talk + 1), Client::Api).into());
    }
    for nth in 0..300 {
        for talk in 0..7 {
            let id = Uuid::from_u128(talk + 1);
            let say =
                |role, text: &str| ConversationMessage::new(id, role, format!("{nth} {text}"));
            let answer = say(Role::Assistant, &"answer ".repeat(nth));
            let part = say(Role::Assistant, "more").part_of(answer.id);
            all.push(say(Role::User, "prompt").into());
            all.push(answer.into());
            all.push(part.into());
        }
    }
    for ack in store.record_batch(all).unwrap() {
        ack.unwrap();
    }
    let lines = all_lines(&store);
    let (spans, logs) = items(&lines);
    assert_eq!(spans.len(), 7 + 7 * 300);
    let other = open(&dir, "other");
    restore(&lines, &other);
    assert!(records(&store) == records(&other));
    println!(
        "{} requests, {} spans, {} logs",
        lines.len(),
        spans.len(),
        logs.len()
    );
}
