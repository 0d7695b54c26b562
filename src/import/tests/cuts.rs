//! Imports of sessions that were still running: whatever was there at the first one, the next
//! comes to what a single one comes to.

use proptest::prelude::*;
use serde_json::Value;
use uuid::Uuid;

use super::log::MemoryLog;
use super::messages::{answer, run, session, text, user};
use super::{codex, import, sample};
use crate::collections::Ack;
use crate::error::Result;
use crate::import::batch::Log;
use crate::import::ids::named;
use crate::record::{ConversationMessage, Record, ToolCall};

/// A line of a session: of one of four responses, with so much more output, or a person's.
fn steps() -> impl Strategy<Value = Vec<Option<(usize, u64)>>> {
    let step = prop::option::weighted(0.8, (0..4_usize, 0..20_u64));
    prop::collection::vec(step, 1..14)
}

proptest! {
    // Each case is some forty imports.
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn totals_are_the_last_usages_wherever_the_session_was_cut(steps in steps()) {
        let mut outputs = [0; 4];
        let mut seen = [false; 4];
        let lines: Vec<Value> = steps.iter().enumerate().map(|(n, step)| match step {
            Some((response, more)) => {
                outputs[*response] += more;
                seen[*response] = true;
                let output = outputs[*response];
                answer(&format!("a{n}"), &format!("r{response}"), text("t"), 100, output)
            }
            None => user(&format!("u{n}"), "go on"),
        }).collect();
        let input = 100 * i64::try_from(seen.iter().filter(|seen| **seen).count()).unwrap();
        let output = i64::try_from(outputs.iter().sum::<u64>()).unwrap();
        let step_by_step = MemoryLog::default();
        for cut in 0..=lines.len() {
            let log = MemoryLog::default();
            run(&log, &lines[..cut]);
            run(&log, &lines);
            let (tokens_in, tokens_out, _) = log.sums(session());
            prop_assert_eq!((tokens_in, tokens_out), (input, output), "cut at {}", cut);
            prop_assert_eq!(run(&log, &lines).added, 0);
            run(&step_by_step, &lines[..cut]);
        }
        let (tokens_in, tokens_out, _) = step_by_step.sums(session());
        prop_assert_eq!((tokens_in, tokens_out), (input, output));
        prop_assert_eq!(run(&step_by_step, &lines).added, 0);
    }
}

#[test]
fn words_that_came_later_are_added_also_where_no_token_is() {
    let lines = [
        answer("a1", "r1", text("one"), 9, 1),
        answer("a2", "r1", text("two"), 9, 1),
        answer("a3", "r1", text("three"), 9, 1),
    ];
    let log = MemoryLog::default();
    for cut in [1, 2, 3, 3, 1] {
        run(&log, &lines[..cut]);
    }
    let content: Vec<String> = log.messages().into_iter().map(|m| m.content).collect();
    assert_eq!(content, ["one", "two", "three"]);
    assert_eq!(log.sums(session()), (9, 1, 3));
}

/// A log that keeps no contents, as one may be told to.
#[derive(Default)]
struct Discreet(MemoryLog);

impl Log for Discreet {
    fn record_batch(&self, mut records: Vec<Record>) -> Result<Vec<Result<Ack>>> {
        for record in &mut records {
            if let Record::Message(message) = record {
                message.content.clear();
            }
        }
        self.0.record_batch(records)
    }

    fn get_tool_call(&self, request_id: Uuid, call_id: &str) -> Result<Option<ToolCall>> {
        self.0.get_tool_call(request_id, call_id)
    }

    fn get_message(&self, id: Uuid) -> Result<Option<ConversationMessage>> {
        self.0.get_message(id)
    }
}

#[test]
fn what_the_log_left_out_is_not_told_again() {
    let whole = std::fs::read_to_string(sample("claude-code-session.jsonl")).unwrap();
    let lines: Vec<&str> = whole.lines().collect();
    let log = Discreet::default();
    for cut in [5, lines.len()] {
        import(&log, &lines[..cut]);
        assert_eq!(import(&log, &lines[..cut]).added, 0);
    }
}

#[test]
fn no_word_is_lost_wherever_a_real_session_was_cut() {
    let whole = std::fs::read_to_string(sample("claude-code-session.jsonl")).unwrap();
    let lines: Vec<&str> = whole.lines().collect();
    let once = MemoryLog::default();
    import(&once, &lines);
    for cut in 0..lines.len() {
        let log = MemoryLog::default();
        if cut > 0 {
            import(&log, &lines[..cut]);
        }
        import(&log, &lines);
        let messages = log.messages();
        for message in once.messages() {
            let supplement = named("import:more", &format!("{}:1", message.id));
            let found = |id| messages.iter().find(|m| m.id == id);
            let first = found(message.id).unwrap();
            let more = found(supplement);
            let mut content = first.content.clone();
            if let Some(more) = more {
                content.push_str(if more.content.is_empty() { "" } else { "\n\n" });
                content.push_str(&more.content);
            }
            assert_eq!(content, message.content, "cut at {cut}");
            let tool = first
                .tool_name
                .clone()
                .or(more.and_then(|m| m.tool_name.clone()));
            assert_eq!(tool, message.tool_name, "cut at {cut}");
        }
    }
}

/// What a rollout goes on with: an answer, a call, a person's words, or tokens that grew.
#[derive(Debug, Clone)]
enum Step {
    Answer,
    Call,
    User,
    Grew(u64, u64),
}

fn rollout() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        Just(Step::Answer),
        Just(Step::Call),
        Just(Step::User),
        (0..50_u64, 0..20_u64).prop_map(|(input, output)| Step::Grew(input, output)),
    ];
    prop::collection::vec(step, 1..14)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn totals_of_a_rollout_are_its_last_wherever_it_was_cut(steps in rollout()) {
        let (mut input, mut output) = (0, 0);
        let mut lines = vec![codex::session(codex::A)];
        for (n, step) in steps.iter().enumerate() {
            lines.push(match step {
                Step::Answer => codex::message("assistant", "so"),
                Step::Call => codex::call(&format!("c{n}"), "f"),
                Step::User => codex::message("user", "go on"),
                Step::Grew(more_in, more_out) => {
                    input += more_in;
                    output += more_out;
                    codex::tokens(input, output)
                }
            });
        }
        let id = codex::A.parse().unwrap();
        let step_by_step = MemoryLog::default();
        let expected = (i64::try_from(input).unwrap(), i64::try_from(output).unwrap());
        for cut in 1..=lines.len() {
            let log = MemoryLog::default();
            codex::run(&log, &lines[..cut]);
            codex::run(&log, &lines);
            let (tokens_in, tokens_out, _) = log.sums(id);
            prop_assert_eq!((tokens_in, tokens_out), expected, "cut at {}", cut);
            prop_assert_eq!(codex::run(&log, &lines).added, 0);
            codex::run(&step_by_step, &lines[..cut]);
        }
        let (tokens_in, tokens_out, _) = step_by_step.sums(id);
        prop_assert_eq!((tokens_in, tokens_out), expected);
        prop_assert_eq!(codex::run(&step_by_step, &lines).added, 0);
    }
}
