//! Imports of running sessions: whatever parts of the files the first imports saw, the final log
//! equals that of a single import of the complete files.

use std::fs;

use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Value, json};

use super::log::MemoryLog;
use super::messages::{answer, call, result, text, user};
use super::{codex, import_path, sample};

/// A file: its name and all of its bytes.
type File = (String, Vec<u8>);

/// One import step: a file, and how much of it exists.
type Step = (Index, Index);

fn steps() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec((any::<Index>(), any::<Index>()), 0..12)
}

/// Imports parts of the files as they grow, then the rest of each, and compares.
fn grown_as_whole(files: &[File], steps: &[Step], order: &[Index]) {
    let dir = tempfile::tempdir().unwrap();
    let write = |(name, bytes): &File, len: usize| {
        let path = dir.path().join(name);
        fs::write(&path, &bytes[..len]).unwrap();
        path
    };
    let grown = MemoryLog::default();
    let mut lens = vec![0; files.len()];
    for (file, len) in steps {
        let file = file.index(files.len());
        let all = files[file].1.len();
        lens[file] = len.index(all + 1).max(lens[file]);
        let path = write(&files[file], lens[file]);
        let report = import_path(&grown, &path);
        assert_eq!(
            report.broken,
            [],
            "{} bytes of {}",
            lens[file],
            path.display()
        );
        assert_eq!(import_path(&grown, &path).added, 0);
    }
    let mut left: Vec<&File> = files.iter().collect();
    for at in order {
        if left.is_empty() {
            break;
        }
        let file = left.remove(at.index(left.len()));
        import_path(&grown, &write(file, file.1.len()));
    }
    for file in left {
        import_path(&grown, &write(file, file.1.len()));
    }
    let whole = MemoryLog::default();
    let report = import_path(&whole, dir.path());
    assert_eq!((report.broken.len(), report.unfinished), (0, 0));
    assert_eq!(grown.content(), whole.content());
    assert_eq!(import_path(&grown, dir.path()).added, 0);
    let (tokens_in, tokens_out, requests) = whole.usage();
    assert_eq!(
        (report.tokens_in, report.tokens_out, report.api_responses),
        (tokens_in, tokens_out, requests)
    );
}

fn samples() -> Vec<File> {
    let read = |name: &str| (name.to_owned(), fs::read(sample(name)).unwrap());
    [
        "claude-code-session.jsonl",
        "claude-code-subagent.jsonl",
        "codex-rollout.jsonl",
    ]
    .map(read)
    .into()
}

fn lines(lines: impl IntoIterator<Item = String>) -> Vec<u8> {
    lines
        .into_iter()
        .map(|line| line + "\n")
        .collect::<String>()
        .into()
}

/// A step of a Claude Code session: a line of one of three responses with additional output, a
/// call, its result, a user's text, or a line that is not a message.
#[derive(Debug, Clone)]
enum Said {
    Text(u8, u64),
    Call(u8, u64),
    Result,
    User,
    Attachment,
}

fn session() -> impl Strategy<Value = Vec<Said>> {
    let said = prop_oneof![
        (0..3_u8, 0..20_u64).prop_map(|(response, more)| Said::Text(response, more)),
        (0..3_u8, 0..20_u64).prop_map(|(response, more)| Said::Call(response, more)),
        Just(Said::Result),
        Just(Said::User),
        Just(Said::Attachment),
    ];
    prop::collection::vec(said, 1..12)
}

/// A session, a fork of it, and a sub-agent.
fn claude_code(said: &[Said], forked_at: usize, of_fork: &[Said]) -> Vec<File> {
    let mut outputs = [0; 3];
    let mut lines_of = |session: &str, said: &[Said]| -> Vec<Value> {
        let mut open = Vec::new();
        let line = |(n, said): (usize, &Said)| {
            let id = format!("{session}{n}");
            let mut line = match said {
                Said::Text(response, more) | Said::Call(response, more) => {
                    outputs[usize::from(*response)] += more;
                    let output = outputs[usize::from(*response)];
                    let block = match said {
                        Said::Call(..) => {
                            open.push(id.clone());
                            call(&id, "Read")
                        }
                        _ => text(&id),
                    };
                    answer(&id, &format!("{session}r{response}"), block, 100, output)
                }
                Said::Result => match open.pop() {
                    Some(call) => result(&id, &call),
                    None => user(&id, "nothing"),
                },
                Said::User => user(&id, "go on"),
                Said::Attachment => {
                    let mut line = user(&id, "a file");
                    line["type"] = json!("attachment");
                    line
                }
            };
            line["sessionId"] = json!(session);
            line["parentUuid"] = json!(n.checked_sub(1).map(|before| format!("{session}{before}")));
            line
        };
        said.iter().enumerate().map(line).collect()
    };
    let whole = lines_of("s1", said);
    let copied = whole.iter().take(forked_at).map(|line| {
        let mut line = line.clone();
        line["sessionId"] = json!("s2");
        line["forkedFrom"] = json!({"sessionId": "s1", "messageUuid": line["uuid"]});
        line
    });
    let fork: Vec<Value> = copied.chain(lines_of("s2", of_fork)).collect();
    let agent = lines_of("s3", of_fork).into_iter().map(|mut line| {
        line["sessionId"] = json!("s1");
        line["isSidechain"] = json!(true);
        line["agentId"] = json!("x7");
        line
    });
    let agent: Vec<Value> = agent.collect();
    [("s1", whole), ("s2", fork), ("agent-x7", agent)]
        .map(|(name, of)| {
            (
                format!("{name}.jsonl"),
                lines(of.iter().map(Value::to_string)),
            )
        })
        .into()
}

/// A step of a rollout: an answer, a call, its output, the client's report of its result, a user's
/// text, or growing token counts.
#[derive(Debug, Clone)]
enum Item {
    Answer,
    Call,
    Output,
    Ended(u8),
    User,
    Grew(u64, u64),
}

fn rollout() -> impl Strategy<Value = Vec<Item>> {
    let item = prop_oneof![
        Just(Item::Answer),
        Just(Item::Call),
        Just(Item::Output),
        (0..2_u8).prop_map(Item::Ended),
        Just(Item::User),
        (0..50_u64, 0..20_u64).prop_map(|(input, output)| Item::Grew(input, output)),
    ];
    prop::collection::vec(item, 0..12)
}

/// A rollout, and a fork of it.
fn rollouts(items: &[Item], forked_at: usize, of_fork: &[Item]) -> Vec<File> {
    let (mut input, mut output) = (0, 0);
    let mut items_of = |session: &str, items: &[Item]| -> Vec<String> {
        let mut open = None;
        let line = |(n, item): (usize, &Item)| match item {
            Item::Answer => codex::message("assistant", &format!("so {n}")),
            Item::Call => {
                let id = format!("{session}c{n}");
                open = Some(id.clone());
                codex::call(&id, "f")
            }
            Item::Output => match open.take() {
                Some(id) => codex::output(&id, format!("out {n}").into()),
                None => codex::message("user", "nothing"),
            },
            Item::Ended(code) => {
                let id = open.clone().unwrap_or_else(|| format!("{session}x{n}"));
                let ended = json!({"type": "exec_command_end", "call_id": id, "exit_code": code});
                codex::line("event_msg", &ended)
            }
            Item::User => codex::message("user", "go on"),
            Item::Grew(more_in, more_out) => {
                input += more_in;
                output += more_out;
                codex::tokens(input, output)
            }
        };
        items.iter().enumerate().map(line).collect()
    };
    let own = items_of("a", items);
    let at = |lines: Vec<String>, second: &str| -> Vec<String> {
        let at = |line: String| line.replace("19:55:16.336", second);
        lines.into_iter().map(at).collect()
    };
    let mut fork = vec![codex::line(
        "session_meta",
        &json!({"id": codex::B, "forked_from_id": codex::A, "timestamp": "2025-12-09T20:00:00.000Z"}),
    )];
    fork.push(codex::session(codex::A));
    fork.extend(own.iter().take(forked_at).cloned());
    let fork = [
        at(fork, "20:00:00.010"),
        at(items_of("b", of_fork), "20:00:30.000"),
    ]
    .concat();
    let whole = [vec![codex::session(codex::A)], own].concat();
    vec![
        ("rollout-a.jsonl".to_owned(), lines(whole)),
        ("rollout-b.jsonl".to_owned(), lines(fork)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn real_sessions_that_grow_come_to_what_they_are_whole(
        steps in steps(),
        order in prop::collection::vec(any::<Index>(), 3),
    ) {
        grown_as_whole(&samples(), &steps, &order);
    }

    #[test]
    fn sessions_of_claude_code_that_grow_come_to_what_they_are_whole(
        said in session(),
        forked_at in 0..12_usize,
        of_fork in session(),
        steps in steps(),
        order in prop::collection::vec(any::<Index>(), 3),
    ) {
        grown_as_whole(&claude_code(&said, forked_at, &of_fork), &steps, &order);
    }

    #[test]
    fn rollouts_that_grow_come_to_what_they_are_whole(
        items in rollout(),
        forked_at in 0..12_usize,
        of_fork in rollout(),
        steps in steps(),
        order in prop::collection::vec(any::<Index>(), 2),
    ) {
        grown_as_whole(&rollouts(&items, forked_at, &of_fork), &steps, &order);
    }
}

#[test]
fn a_real_session_that_was_cut_at_any_line_comes_to_what_it_is_whole() {
    for (name, bytes) in samples() {
        let whole = MemoryLog::default();
        import_path(&whole, &sample(&name));
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(&name);
        let ends = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
        let step_by_step = MemoryLog::default();
        for (end, _) in ends {
            let cut = MemoryLog::default();
            for until in [end, bytes.len()] {
                fs::write(&path, &bytes[..until]).unwrap();
                import_path(&cut, &path);
            }
            assert_eq!(cut.content(), whole.content(), "{name} cut at {end}");
            fs::write(&path, &bytes[..end]).unwrap();
            import_path(&step_by_step, &path);
        }
        assert_eq!(step_by_step.content(), whole.content(), "{name}");
    }
}

#[test]
fn a_last_line_that_is_not_whole_waits_and_is_not_broken() {
    let line = user("u1", "hi").to_string();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.jsonl");
    let imported = |text: &str| {
        fs::write(&path, text).unwrap();
        let report = import_path(&MemoryLog::default(), &path);
        (report.broken.len(), report.unfinished, report.turns)
    };
    for end in 1..line.len() {
        assert_eq!(imported(&line[..end]), (0, 1, 0), "{end}");
        assert_eq!(imported(&format!("{line}\n{}", &line[..end])), (0, 1, 1));
    }
    assert_eq!(imported(&line), (0, 0, 1));
    // The line is complete, so the rest will not follow.
    assert_eq!(imported(&format!("{line}\n{}\n", &line[..9])), (1, 0, 1));
    assert_eq!(imported(&format!("{line}\nrest")), (1, 0, 1));
    assert_eq!(imported(&format!("{line}\n{{\"type\":1,}}")), (1, 0, 1));
}
