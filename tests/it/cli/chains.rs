//! `decklog thoughts verify`: detects changes to the audit trail.

use super::*;

const FILE: &str = "2025-12-27/thought_records.0001.jsonl";

/// Two chains of three and two records, interleaved.
fn chained() -> Log {
    let log = Log::new();
    let lines = [
        thought("build", "read the error"),
        thought("docs", "outline"),
        thought("build", "mend the test"),
        thought("docs", "write"),
        thought("build", "all is green"),
    ];
    log.run_with(&["record"], lines.join("\n").as_bytes());
    log
}

impl Log {
    /// Replaces bytes in the thoughts' file, where they occur exactly once.
    fn forge(&self, what: &str, with: &str) -> usize {
        let text = std::fs::read_to_string(self.file(FILE)).unwrap();
        assert_eq!(text.matches(what).count(), 1, "{what}");
        let at = text.find(what).unwrap();
        std::fs::write(self.file(FILE), text.replace(what, with)).unwrap();
        text[..at].rfind('\n').map_or(0, |end| end + 1)
    }

    /// Returns the exit code and the checks by task.
    fn verified(&self, args: &[&str]) -> (i32, Vec<Value>) {
        let args: Vec<&str> = ["thoughts", "verify", "--json"]
            .iter()
            .chain(args)
            .copied()
            .collect();
        let output = self.run(&args);
        (code(&output), objects(&out(&output)))
    }
}

#[test]
fn whole_chains_are_told_with_their_heads() {
    let log = chained();
    let (code, checks) = log.verified(&[]);
    assert_eq!(code, OK);
    let brief: Vec<(&Value, &Value, &Value)> = checks
        .iter()
        .map(|check| (&check["task_id"], &check["records"], &check["broken"]))
        .collect();
    let (build, docs) = ("build".into(), "docs".into());
    let expected = [
        (&build, &3.into(), &Value::Null),
        (&docs, &2.into(), &Value::Null),
    ];
    assert_eq!(brief, expected);
    let last = &log.json(&["thoughts", "--task", "build"])[2];
    assert_eq!(checks[0]["head"], last["hash"]);
    let text = log.ok(&["thoughts", "verify", "--task", "docs"]);
    let head = checks[1]["head"].as_str().unwrap();
    assert_eq!(text, format!("intact    docs  2 records  head {head}\n"));

    let output = log.run(&["thoughts", "verify", "--task", "nothing"]);
    assert_eq!(
        (self::code(&output), out(&output)),
        (FINDINGS, String::new())
    );
    let told = "decklog: there is no thought of task \"nothing\"\n";
    assert_eq!(err(&output), told);
    let output = log.run(&["thoughts", "verify", "--limit", "3"]);
    assert_eq!(self::code(&output), USAGE);
}

#[test]
fn one_changed_byte_is_found_in_its_record() {
    let log = chained();
    let offset = log.forge("mend the test", "bend the test");
    let (code, checks) = log.verified(&["--task", "build"]);
    assert_eq!(code, FINDINGS);
    let broken = &checks[0]["broken"];
    assert_eq!(
        (&broken["position"], &broken["file"]),
        (&2.into(), &FILE.into())
    );
    assert_eq!(broken["offset"], offset);
    let second = &log_thoughts(&log, "build")[1];
    assert_eq!(broken["id"], second["id"]);
    assert!(
        broken["reason"]
            .as_str()
            .unwrap()
            .starts_with("its hash is ")
    );

    let output = log.run(&["thoughts", "verify"]);
    assert_eq!(self::code(&output), FINDINGS);
    let text = out(&output);
    assert!(text.contains("broken    build  3 records  head "), "{text}");
    let place = format!(
        "record 2, id {}, {FILE} at byte {offset}: its hash is ",
        second["id"].as_str().unwrap()
    );
    assert!(text.contains(&place), "{text}");
    assert!(
        text.contains(&format!("altered   {FILE} at byte {offset}, ")),
        "{text}"
    );
}

/// Thoughts that can be read are listed, whatever is reported about others.
fn log_thoughts(log: &Log, task: &str) -> Vec<Value> {
    objects(&out(&log.run(&["thoughts", "--task", task, "--json"])))
}

#[test]
fn a_last_record_that_is_no_json_any_more_is_missed() {
    let log = chained();
    // The bracket at the start of its line.
    let text = std::fs::read_to_string(log.file(FILE)).unwrap();
    let offset = text.trim_end().rfind('\n').unwrap() + 1;
    let mut bytes = text.into_bytes();
    bytes[offset] = b'[';
    std::fs::write(log.file(FILE), bytes).unwrap();

    // The rest of the chain is valid, but the chain is not complete.
    for args in [&[][..], &["--task", "build"], &["--task", "docs"]] {
        let (code, checks) = log.verified(args);
        assert_eq!(code, FINDINGS, "{args:?}");
        for check in &checks {
            assert_eq!(
                (&check["records"], &check["broken"]),
                (&2.into(), &Value::Null)
            );
            assert_eq!(check["damage"][0]["offset"], offset);
            assert_eq!(check["damage"][0]["class"], "damaged");
        }
    }
    let output = log.run(&["thoughts", "verify"]);
    assert_eq!(code(&output), FINDINGS);
    let text = out(&output);
    assert!(text.contains("unsure    build  2 records  head "), "{text}");
    assert!(
        text.contains(&format!("damaged   {FILE} at byte {offset}, ")),
        "{text}"
    );
}

#[test]
fn a_record_taken_out_breaks_the_chain_after_it() {
    let log = chained();
    let text = std::fs::read_to_string(log.file(FILE)).unwrap();
    let kept: Vec<&str> = text
        .lines()
        .filter(|line| !line.contains("mend the test"))
        .collect();
    std::fs::write(log.file(FILE), kept.join("\n") + "\n").unwrap();
    let (code, checks) = log.verified(&[]);
    assert_eq!(code, FINDINGS);
    assert_eq!(checks[0]["broken"]["position"], 2);
    let reason = checks[0]["broken"]["reason"].as_str().unwrap();
    assert!(reason.starts_with("its prev_hash is "), "{reason}");
    assert_eq!(checks[1]["broken"], Value::Null);
}

#[test]
fn damage_that_leaves_no_chain_is_found_too() {
    let log = Log::new();
    log.run_with(&["record"], thought("build", "the only one").as_bytes());
    let mut bytes = std::fs::read(log.file(FILE)).unwrap();
    bytes[0] = b'[';
    std::fs::write(log.file(FILE), bytes).unwrap();
    let (code, checks) = log.verified(&[]);
    assert_eq!(code, FINDINGS);
    assert_eq!((&checks[0]["records"], checks.len()), (&0.into(), 1));
    assert_eq!(checks[0]["damage"][0]["offset"], 0);
    assert_eq!(log.verified(&["--task", "build"]).0, FINDINGS);
    let text = out(&log.run(&["thoughts", "verify"]));
    assert!(
        text.starts_with("unsure    no task can be read  0 records"),
        "{text}"
    );
}
