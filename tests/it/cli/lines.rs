//! `decklog tail` and `replay`: the log line by line.

use super::*;

#[test]
fn tail_shows_the_last_lines_of_all_kinds() {
    let log = Log::imported();
    let lines = log.json(&["tail", "-n", "20"]);
    let seqs: Vec<u64> = lines
        .iter()
        .map(|line| line["seq"].as_u64().unwrap())
        .collect();
    assert_eq!(seqs, (89..=108).collect::<Vec<u64>>());
    let kinds = |stem: &str| {
        lines
            .iter()
            .filter(|line| line["file"].as_str().unwrap().contains(stem))
            .count()
    };
    for kind in ["tool_calls", "conversation_turns", "messages"] {
        assert!(kinds(&format!("{kind}.0001")) > 0, "{kind}");
    }

    let last = log.ok(&["tail", "-n", "1", "--json"]);
    let stored = std::fs::read_to_string(log.file("2025-12-09/messages.0001.jsonl")).unwrap();
    let expected = format!(
        "{{\"file\":\"2025-12-09/messages.0001.jsonl\",{}\n",
        &stored.lines().last().unwrap()[1..]
    );
    assert_eq!(last, expected);
    assert_eq!(log.ok(&["tail"]).lines().count(), 10);
    assert_eq!(log.ok(&["tail", "-n", "0"]), "");
}

#[test]
fn tail_follows_what_other_processes_write() {
    let log = Log::new();
    log.run_with(&["record"], turn(1, 1000, "first").as_bytes());
    let mut child = spawn(&mut log.command(&["tail", "-f", "-n", "1", "--json"]));
    let next = lines_of(child.stdout.take().unwrap());
    assert!(next().contains("first"));
    for (n, day) in [(2, 0), (3, 1), (4, 40)] {
        let record = turn(n, day * 86_400_000, &format!("after {n}"));
        log.run_with(&["record"], record.as_bytes());
        assert!(next().contains(&format!("after {n}")));
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_day_copied_alone_is_replayed_into_another_store() {
    let log = Log::imported();
    let copy = log.dir.path().join("copied");
    std::fs::create_dir(&copy).unwrap();
    for file in std::fs::read_dir(log.file("2025-12-09")).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), copy.join(file.file_name())).unwrap();
    }
    let other = Log::new();
    let into = other.path();
    let replay = [
        "replay",
        copy.to_str().unwrap(),
        "--into",
        into.to_str().unwrap(),
    ];
    let first = log.json(&replay);
    assert_eq!(first[0]["added"], 108);
    for list in ["calls", "turns", "conversations"] {
        let lines = log.ok(&[list, "--json"]);
        assert!(!lines.is_empty());
        assert_eq!(other.ok(&[list, "--json"]), lines);
    }
    let again = log.json(&replay);
    assert_eq!(
        (&again[0]["added"], &again[0]["unchanged"]),
        (&0.into(), &108.into())
    );

    let seqs: Vec<Value> = log
        .json(&["replay", "2025-12-09"])
        .iter()
        .map(|line| line["seq"].clone())
        .collect();
    assert_eq!(seqs, (1..=108).map(Value::from).collect::<Vec<Value>>());
    let paced = log.ok(&["replay", "2025-12-09", "--speed", "1e9"]);
    assert_eq!(paced.lines().count(), 108);
    assert_eq!(code(&log.run(&["replay", "2025-12-10"])), USAGE);
    assert_eq!(
        code(&log.run(&["replay", "2025-12-09", "--speed", "0"])),
        USAGE
    );
}
