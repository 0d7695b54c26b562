//! `decklog verify` and `repair`, and damaged stores.

use super::*;

#[test]
fn damage_is_told_with_its_place_and_repaired() {
    let log = Log::imported();
    assert_eq!(log.json(&["verify"])[0]["clean"], true);
    let last = || {
        decklog::Store::open(log.path())
            .unwrap()
            .last_verification()
            .unwrap()
    };
    assert!(last().is_clean() && last().good_lines > 0);
    let name = "2025-12-09/tool_calls.0001.jsonl";
    let mut bytes = std::fs::read(log.file(name)).unwrap();
    let second = bytes.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    let third = second
        + bytes[second..]
            .iter()
            .position(|byte| *byte == b'\n')
            .unwrap();
    // A digit is changed, so that the line is still a valid record.
    let field = b"\"latency_ms\":";
    let found = bytes[second..]
        .windows(field.len())
        .position(|part| part == field);
    let flipped = second + found.unwrap() + field.len();
    assert!(flipped < third);
    bytes[flipped] = if bytes[flipped] == b'1' { b'3' } else { b'1' };
    std::fs::write(log.file(name), &bytes).unwrap();

    let output = log.run(&["verify", "--json"]);
    assert_eq!(code(&output), FINDINGS);
    let found = objects(&out(&output));
    assert_eq!(found[0]["finding"], "damage");
    assert_eq!(found[0]["file"], name);
    assert_eq!(found[0]["offset"], second);
    assert_eq!(found[0]["length"], third - second);
    assert_eq!(found[0]["class"], "altered");
    assert_eq!(found.last().unwrap()["clean"], false);
    let text = out(&log.run(&["verify"]));
    assert!(
        text.contains(&format!("altered   {name} at byte {second}, ")),
        "{text}"
    );

    // Every command that reads the log reports the change.
    for command in ["turns", "calls", "tail"] {
        let told = err(&log.run(&[command]));
        assert!(told.contains("1 place in the log"), "{command}: {told}");
    }

    let output = log.run(&["repair"]);
    assert_eq!(code(&output), FINDINGS);
    assert!(
        out(&output).contains("1 rewritten line not changed"),
        "{}",
        out(&output)
    );
    let text = log.ok(&["repair", "--accept-edits"]);
    assert!(
        text.contains(&format!("{name}: 1 rewritten line accepted")),
        "{text}"
    );
    log.ok(&["verify"]);
    assert_eq!(log.ok(&["repair"]), "nothing to repair\n");
}

#[test]
fn what_is_no_line_goes_to_quarantine() {
    let log = Log::imported();
    let name = "2025-12-09/conversation_turns.0001.jsonl";
    let mut file = std::fs::File::options()
        .append(true)
        .open(log.file(name))
        .unwrap();
    file.write_all(b"half a line").unwrap();
    std::fs::write(log.file("2025-12-09/notes.txt"), "mine").unwrap();

    let output = log.run(&["verify"]);
    assert_eq!(code(&output), FINDINGS);
    assert!(out(&output).contains("torn      "), "{}", out(&output));
    assert!(
        out(&output).contains("note      2025-12-09/notes.txt does not belong"),
        "{}",
        out(&output)
    );
    let done = log.json(&["repair"]);
    assert_eq!(done[0]["file"], name);
    let quarantine = log.file(done[0]["quarantine"].as_str().unwrap());
    assert_eq!(std::fs::read(quarantine).unwrap(), b"half a line");
    assert_eq!(done[1]["quarantined_bytes"], 11);
    log.ok(&["verify"]);
}

#[cfg(unix)]
#[test]
fn a_store_that_may_not_be_written_is_read() {
    use std::os::unix::fs::PermissionsExt;
    let log = Log::imported();
    let modes = |dir: u32, file: u32| {
        for entry in ["2025-12-09", ""] {
            let dir_path = log.file(entry);
            for file_path in std::fs::read_dir(&dir_path).unwrap() {
                let path = file_path.unwrap().path();
                if path.is_file() {
                    std::fs::set_permissions(path, PermissionsExt::from_mode(file)).unwrap();
                }
            }
            std::fs::set_permissions(dir_path, PermissionsExt::from_mode(dir)).unwrap();
        }
    };
    modes(0o500, 0o400);
    log.ok(&["verify"]);
    assert_eq!(log.json(&["calls"]).len(), 9);
    modes(0o700, 0o600);
}

#[test]
fn a_store_that_is_not_there_is_told() {
    let log = Log::new();
    let path = log.path();
    for args in [
        &["turns"][..],
        &["calls"],
        &["proposals"],
        &["conversations"],
        &["messages", &id(1)],
        &["show", &id(1)],
        &["events"],
        &["tree", "1"],
        &["inbox"],
        &["history", "1"],
        &["thoughts"],
        &["rollups"],
        &["thoughts", "verify"],
        &["tail"],
        &["search", "e"],
        &["verify"],
        &["repair"],
        &["replay", "2025-12-09"],
        &["get", "turns", &id(1)],
    ] {
        let output = log.run(args);
        assert_eq!(code(&output), STORE, "{args:?}");
        let expected = format!(
            "decklog: there is no store here: check the path, or import or record something first: {}\n",
            path.display()
        );
        assert_eq!(err(&output), expected, "{args:?}");
        assert!(!path.exists(), "{args:?}");
    }
    // An option overrides the environment.
    let output = log.run(&["turns", "--store", "/nonexistent/elsewhere"]);
    assert!(err(&output).contains("/nonexistent/elsewhere"));
}
