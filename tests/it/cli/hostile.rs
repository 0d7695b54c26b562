//! The program handles hostile input like the library: from standard input, from session files, and
//! from files of other programs. It ends with one of its exit codes, names the invalid lines and
//! the reasons, keeps the others, and its memory use is bounded.
//!
//! `DECKLOG_HOSTILE_MB` tries everything everywhere, and skips a line of ten times this many
//! megabytes.

use decklog::storage::Disk;
use decklog::{Record, Store, ndjson, verify};

use super::super::hostile::{check_files, some_of, texts};
use super::super::support::count;
use super::*;

/// A valid line of each kind and step, in an order that the log accepts.
fn good_lines() -> Vec<String> {
    let id = id(1);
    vec![
        turn(1, 1000, "said"),
        request(1, 1000, "tool", "{}"),
        failed(1, 2000, "why").replace(
            r#""error_kind""#,
            r#""outcome_json":[],"error_kind""#,
        ),
        format!(r#"{{"kind":"code_edit_proposals","op":"pending","request_id":"{id}","created_at":1000,"confidence":0.5,"diffs_json":[]}}"#),
        format!(r#"{{"kind":"code_edit_proposals","op":"approved","request_id":"{id}","decided_at":2000}}"#),
        format!(r#"{{"kind":"code_edit_proposals","op":"applied","request_id":"{id}","applied_at":3000,"commit_hash":"c"}}"#),
        format!(r#"{{"kind":"conversations","id":"{id}","client":"cli","workspace":"w","project":"p","user_id":"u","session_id":"s","status":"active","created_at":"2025-12-27T08:00:00Z","updated_at":"2025-12-27T08:00:00Z","last_error":"e"}}"#),
        format!(r#"{{"kind":"messages","id":"{id}","conversation_id":"{id}","sequence":1,"timestamp":"2025-12-27T08:00:01Z","role":"user","source":"user","content_type":"text","model_used":"m","config_used":"c","orchestration_mode":"o","task_type":"t","tokens_in":1,"tokens_out":2,"latency_ms":3,"context_utilization":0.5,"handoff_steps":1,"compression_applied":true,"error_type":"e","error":"e","tool_name":"t","models_in_chain":["m"],"content":"c","tool_args":{{}},"tool_result":"r","inference_metadata":{{}}}}"#),
        r#"{"kind":"events","op":"logged","id":1,"event_type":"a.b","created_at":1000,"payload":{}}"#.to_owned(),
        r#"{"kind":"events","op":"logged","id":2,"parent_id":1,"event_type":"a.c","created_at":1000,"payload":{}}"#.to_owned(),
        r#"{"kind":"inbox","op":"queued","id":1,"update_id":1,"created_at":1000,"payload":{}}"#.to_owned(),
        r#"{"kind":"inbox","op":"in_progress","id":1,"attempts":1,"locked_at":2000}"#.to_owned(),
        r#"{"kind":"inbox","op":"failed","id":1,"attempts":1,"at":3000,"error":"e"}"#.to_owned(),
        r#"{"kind":"history","op":"added","id":1,"chat_id":1,"role":"user","created_at":1000,"text":"c"}"#.to_owned(),
        r#"{"kind":"thought_records","op":"recorded","id":"t","task_id":"t","type":"plan","agent_id":"a","timestamp":"2025-12-27T08:00:00Z","content":"c"}"#.to_owned(),
    ]
}

/// JSON values to be used in place of others.
fn values() -> Vec<String> {
    let odd = [
        "null",
        "true",
        "0",
        "-1",
        "-0",
        "1.0",
        "1e3",
        "0.5",
        "1e-400",
        "1e400",
        "1E+9999",
        "NaN",
        "Infinity",
        "9007199254740993",
        "9223372036854775807",
        "9223372036854775808",
        "-9223372036854775808",
        "-9223372036854775809",
        "18446744073709551616",
        "253402300799999",
        "253402300800000",
        "\"\"",
        "\"x\"",
        "\"1\"",
        "\"1969-12-31T23:59:59Z\"",
        "\"10000-01-01T00:00:00Z\"",
        "\"2025-02-30T00:00:00Z\"",
        "\"9999-12-31T23:59:59.999999999Z\"",
        "\"00000000-0000-4000-8000-00000000000\"",
        "\"../..\"",
        "\"\\u0000\"",
        "\"\\ud800\"",
        "\"\\ud83d\\ude00\"",
        "\"\\x\"",
        "\"\u{2028}\u{7f}\"",
        "\"\u{feff}\"",
        "[]",
        "[1]",
        "[null]",
        "[\"\\ud800\"]",
        "{}",
        "{\"at\":1000,\"is_valid\":false}",
        "{\"at\":1000,\"is_valid\":true,\"at\":1}",
        "{\"a\":1,\"\\u0061\":2}",
        "{\"\\ud800\":1}",
        "{\"n\":[9007199254740993,1e400,-0,1E+9999]}",
        "'x'",
        "",
        "1 2",
        "[",
        "\"",
    ];
    let mut values: Vec<String> = odd.iter().map(|value| (*value).to_owned()).collect();
    values.push("[".repeat(10_000) + &"]".repeat(10_000));
    values.push("{\"a\":".repeat(10_000) + "0" + &"}".repeat(10_000));
    values.push("[".repeat(10_000));
    values.push(format!("\"{}\"", "x".repeat(2_000)));
    values.push(format!("[1e{}]", "9".repeat(400)));
    values
}

/// The members of a line, with the raw JSON of each.
fn members(line: &str) -> Vec<(String, String)> {
    let object: serde_json::Map<String, Value> = serde_json::from_str(line).unwrap();
    let members = object.into_iter();
    members
        .map(|(name, value)| (name, value.to_string()))
        .collect()
}

fn line_of(members: &[(String, String)]) -> String {
    let member = |(name, json): &(String, String)| format!("\"{name}\":{json}");
    let members: Vec<String> = members.iter().map(member).collect();
    format!("{{{}}}", members.join(","))
}

/// Every field of every kind with every value, left out, and repeated.
fn hostile_lines() -> Vec<String> {
    let mut lines = Vec::new();
    for good in good_lines() {
        let good = members(&good);
        for (place, (name, json)) in good.iter().enumerate() {
            for value in some_of(values(), place) {
                let mut line = good.clone();
                line[place].1 = value;
                lines.push(line_of(&line));
            }
            let mut line = good.clone();
            line.remove(place);
            lines.push(line_of(&line));
            let escaped = format!("\\u{:04x}{}", name.as_bytes()[0], &name[1..]);
            for again in [name.clone(), escaped] {
                let mut line = good.clone();
                line.push((again, json.clone()));
                lines.push(line_of(&line));
            }
        }
        for (name, value) in [
            ("crc", "\"00000000\""),
            ("seq", "99"),
            ("seq", "-1"),
            ("at", "1e3"),
            ("op", "\"sung\""),
            ("", "1"),
            ("\\u0000", "1"),
            ("\\ud800", "1"),
            ("file", "\"../../x\""),
        ] {
            let mut line = good.clone();
            line.push((name.to_owned(), value.to_owned()));
            lines.push(line_of(&line));
        }
    }
    let unbroken = |text: &String| !text.contains('\n') && !text.trim().is_empty();
    lines.extend(texts().into_iter().filter(unbroken));
    lines
}

/// `record` treats a line the same alone and among others, accepts what the library accepts, and
/// reports rejected lines with their numbers.
#[test]
fn record_keeps_a_line_or_tells_what_is_wrong_with_it() {
    let log = Log::new();
    let first = good_lines();
    log.record(&first);
    let lines = hostile_lines();
    let mut child = spawn(&mut log.command(&["record", "--ack"]));
    let mut input = child.stdin.take().unwrap();
    let text = lines.join("\n");
    // In a thread, because answers arrive before all input is written.
    let writer = std::thread::spawn(move || input.write_all(text.as_bytes()).unwrap());
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    assert_eq!(code(&output), FINDINGS, "{}", err(&output));
    let acks = objects(&out(&output));
    assert_eq!(acks.len(), lines.len());

    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path().join("log")).unwrap();
    for line in &first {
        store.record(Record::from_json(line).unwrap()).unwrap();
    }
    let told = err(&output);
    let mut told = told.lines();
    let mut next_seq = first.len() as u64;
    for ((number, line), ack) in lines.iter().enumerate().zip(&acks) {
        assert_eq!(ack["line"], number as u64 + 1);
        let input = ndjson::Input {
            line: 1,
            text: Ok(line.clone()),
        };
        let mut answers = ndjson::record(&store, vec![input]).unwrap();
        match answers.pop().unwrap().1 {
            Ok(kept) => {
                assert_eq!(ack["status"], kept.status.as_str(), "{line:.300}: {ack}");
                assert_eq!(ack["seq"], kept.seq, "{line:.300}");
                if ack["status"] == "added" {
                    next_seq += 1;
                    assert_eq!(ack["seq"], next_seq);
                }
            }
            Err(e) => {
                let reason = e.to_string();
                assert_eq!(ack["status"], "rejected", "{line:.300}: {e}");
                // Generated ids differ.
                let told = told.next().unwrap();
                let start = format!("decklog: line {}: ", number + 1);
                assert!(told.starts_with(&start), "{told:.300}");
                assert!((10..2_000).contains(&reason.len()), "{reason:.300}");
            }
        }
    }
    assert_eq!(told.next(), None);
    drop(store);
    for path in [log.path(), dir.path().join("log")] {
        check_files(&path);
        let found = verify(&Disk::new(path)).unwrap();
        assert_eq!(found.good_lines, next_seq);
    }
    // Every command that shows them succeeds.
    for args in [
        ["tail", "-n", "100000"].as_slice(),
        &["turns"],
        &["calls"],
        &["proposals"],
        &["conversations"],
        &["events"],
        &["tree"],
        &["inbox"],
        &["history", "1"],
        &["thoughts"],
        &["rollups"],
        &["search", "e"],
        &["search", "e", "--long"],
    ] {
        assert_eq!(code(&log.run(args)), OK, "{args:?}");
        log.json(args);
    }
}

/// Session files with hostile values in place of each of their values.
#[test]
fn import_keeps_what_it_can_and_tells_the_rest() {
    let log = Log::new();
    let folder = log.dir.path().join("sessions");
    std::fs::create_dir(&folder).unwrap();
    for name in ["claude-code-session.jsonl", "codex-rollout.jsonl"] {
        let text = std::fs::read_to_string(samples().join(name)).unwrap();
        // The first line of each shape: a message, a call, its result, its usage.
        let lines: Vec<&str> = text.lines().collect();
        for (number, value) in values().into_iter().enumerate() {
            let mut hostile: Vec<String> =
                lines[..2].iter().map(|line| (*line).to_owned()).collect();
            for line in lines.iter().filter(|line| line.len() < 3_000).take(14) {
                let json: Value = serde_json::from_str(line).unwrap();
                let places = places(&json);
                // Different ones for each value, so that all are covered.
                for place in places.iter().skip(number % 5).step_by(5) {
                    hostile.push(with(&json, place, &value));
                }
            }
            let file = folder.join(format!("{number}-{name}"));
            std::fs::write(file, hostile.join("\n")).unwrap();
        }
    }
    let first = log.run(&["import", folder.to_str().unwrap(), "--json"]);
    assert!([OK, FINDINGS].contains(&code(&first)), "{}", err(&first));
    let report = objects(&out(&first)).pop().unwrap();
    assert!(report["added"].as_u64().unwrap() > 0);
    for broken in report["broken"].as_array().unwrap() {
        assert!(broken["line"].as_u64().unwrap() > 0, "{broken}");
        let reason = broken["reason"].as_str().unwrap();
        assert!((10..2_000).contains(&reason.len()), "{reason:.300}");
    }
    check_files(&log.path());
    let again = log.run(&["import", folder.to_str().unwrap(), "--json"]);
    let again = objects(&out(&again)).pop().unwrap();
    assert_eq!(again["added"], 0);
    assert_eq!(again["broken"], report["broken"]);
}

/// JSON pointers to every value in a JSON value.
fn places(json: &Value) -> Vec<String> {
    fn go(json: &Value, at: &str, found: &mut Vec<String>) {
        match json {
            Value::Object(members) => {
                for (name, value) in members {
                    let at = format!("{at}/{name}");
                    found.push(at.clone());
                    go(value, &at, found);
                }
            }
            Value::Array(items) => {
                for (place, value) in items.iter().enumerate() {
                    let at = format!("{at}/{place}");
                    found.push(at.clone());
                    go(value, &at, found);
                }
            }
            _ => {}
        }
    }
    let mut found = Vec::new();
    go(json, "", &mut found);
    found
}

/// The line with another raw value at this pointer.
fn with(json: &Value, place: &str, raw: &str) -> String {
    const MARK: &str = "\u{e000}here\u{e000}";
    let mut json = json.clone();
    if let Some(value) = json.pointer_mut(place) {
        *value = MARK.into();
    }
    json.to_string().replace(&format!("\"{MARK}\""), raw)
}

/// Lines added to a segment manually: everything else stays readable, nothing panics, and `repair`
/// leaves a clean store.
#[test]
fn lines_put_in_by_hand_are_told_and_harm_no_others() {
    let log = Log::new();
    let first = good_lines();
    log.record(&first);
    let before = log.json(&["tail", "-n", "1000"]);
    let mut files = 0;
    for day in ["1970-01-01", "2025-12-27"] {
        for file in std::fs::read_dir(log.file(day)).unwrap() {
            let path = file.unwrap().path();
            let mut bytes = std::fs::read(&path).unwrap();
            let own = bytes.clone();
            let line = own.split_inclusive(|byte| *byte == b'\n').next().unwrap();
            let line = std::str::from_utf8(line).unwrap().trim_end().to_owned();
            let good = members(&line);
            for (place, _) in good.iter().enumerate() {
                for value in some_of(values(), place) {
                    let mut line = good.clone();
                    line[place].1 = value;
                    bytes.extend_from_slice(line_of(&line).as_bytes());
                    bytes.push(b'\n');
                }
            }
            for text in some_of(texts(), files) {
                bytes.extend_from_slice(text.as_bytes());
                bytes.push(b'\n');
            }
            for raw in [
                &b"\xff\xfe\n"[..],
                b"\xc0\x80{\"seq\":1}\n",
                b"\xed\xa0\x80\n",
                b"{\"seq\":1,\"at\":0,\"op\":\"\xf8\"}\n",
                b"\0\0\0\0\n",
                b"\r\n",
                b"{\"seq\":18446744073709551615",
            ] {
                bytes.extend_from_slice(raw);
            }
            std::fs::write(&path, bytes).unwrap();
            files += 1;
        }
    }
    assert!(files >= 9);
    let found = verify(&Disk::new(log.path())).unwrap();
    assert!(!found.damage.is_empty());
    // Existing records are there, and every valid record can be shown.
    let shown = [
        ["tail", "-n", "1000000"].as_slice(),
        &["turns"],
        &["calls"],
        &["proposals"],
        &["conversations"],
        &["messages", &id(1)],
        &["show", &id(1)],
        &["events"],
        &["tree"],
        &["inbox"],
        &["history", "1"],
        &["thoughts"],
        &["rollups"],
        &["get", "turns", &id(1)],
        &["get", "calls", &id(1), "call_1"],
        &["replay", "1970-01-01"],
        &["replay", "2025-12-27"],
        &["verify"],
        &["thoughts", "verify"],
    ];
    for args in shown {
        let as_text = matches!(args[0], "tail" | "calls" | "verify");
        for more in [&["--json"][..], &[]].iter().take(1 + usize::from(as_text)) {
            let args: Vec<&str> = args.iter().chain(*more).copied().collect();
            let output = log.run(&args);
            assert!(
                [OK, FINDINGS].contains(&code(&output)),
                "{args:?}: {:.600}",
                err(&output)
            );
            assert!(!err(&output).contains("panicked"), "{}", err(&output));
        }
    }
    let tail = log.run(&["tail", "-n", "1000000", "--json"]);
    let tail = out(&tail);
    for line in &before {
        let seq = format!("\"seq\":{},", line["seq"]);
        assert!(tail.lines().any(|told| told.contains(&seq)), "{line}");
    }
    let other = Log::new();
    let into = other.path();
    let day = log.file("1970-01-01");
    let args = [
        "replay",
        day.to_str().unwrap(),
        "--into",
        into.to_str().unwrap(),
    ];
    let replayed = log.run(&args);
    assert!(
        [OK, FINDINGS].contains(&code(&replayed)),
        "{:.600}",
        err(&replayed)
    );
    check_files(&into);
    for options in [&["repair"][..], &["repair", "--accept-edits"]] {
        let repaired = log.run(options);
        assert!(
            [OK, FINDINGS].contains(&code(&repaired)),
            "{:.600}",
            err(&repaired)
        );
    }
    let after = log.run_with(&["record"], turn(99, 5000, "after").as_bytes());
    assert_eq!(code(&after), OK, "{}", err(&after));
    assert_eq!(code(&log.run(&["get", "turns", &id(99)])), OK);
}

/// A manifest with any content is read or refused, and never overwritten.
#[test]
fn a_manifest_is_read_or_refused() {
    let log = Log::new();
    log.record(&good_lines());
    let path = log.file("decklog.json");
    let own = std::fs::read_to_string(&path).unwrap();
    let mut manifests: Vec<Vec<u8>> = texts().into_iter().map(String::into_bytes).collect();
    for value in values() {
        for name in ["format", "store_id"] {
            let line = members(&own).into_iter();
            let line: Vec<_> = line
                .map(|(known, json)| {
                    if known == name {
                        (known, value.clone())
                    } else {
                        (known, json)
                    }
                })
                .collect();
            manifests.push(line_of(&line).into_bytes());
        }
    }
    manifests.push(own.replace('{', "{\"format\":1,").into_bytes());
    manifests.push(b"\xff\xfe{\0}\0".to_vec());
    manifests.push(own.repeat(2).into_bytes());
    manifests.push(vec![b' '; 3 << 20]);
    for manifest in manifests {
        std::fs::write(&path, &manifest).unwrap();
        let opened = Store::open(log.path());
        if let Err(e) = opened {
            let told = e.to_string();
            assert!(told.contains("decklog.json"), "{told}");
            assert!((20..1_000).contains(&told.len()), "{told:.300}");
            let kinds = [decklog::ErrorKind::Damaged, decklog::ErrorKind::NewerFormat];
            assert!(kinds.contains(&e.kind()), "{told}");
        }
        assert_eq!(std::fs::read(&path).unwrap(), manifest);
    }
    std::fs::write(&path, own).unwrap();
    check_files(&log.path());
}

/// Peak memory of a process, in KiB.
fn peak_kib(child: &Child) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let words = line.and_then(|line| line.split_whitespace().nth(1));
    words.unwrap().parse().unwrap()
}

/// A line of any length is skipped without holding it in memory, and the lines around it are kept.
#[test]
fn a_line_longer_than_memory_is_passed_over() {
    const LEAST_MB: usize = 80;
    // Memory for lines read ahead, and for the program itself.
    const PEAK_KIB_MAX: u64 = 320 << 10;
    let mb = LEAST_MB.max(count("DECKLOG_HOSTILE_MB", 0) as usize * 10);
    for (start, end) in [
        (
            r#"{"kind":"history","chat_id":1,"role":"user","text":""#,
            r#""}"#,
        ),
        ("[", "]"),
    ] {
        let log = Log::new();
        let mut child = spawn(&mut log.command(&["record", "--ack"]));
        let mut input = child.stdin.take().unwrap();
        let next_ack = lines_of(child.stdout.take().unwrap());
        let ack = || serde_json::from_str::<Value>(&next_ack()).unwrap();
        writeln!(input, "{}", turn(1, 1000, "before")).unwrap();
        assert_eq!(ack()["status"], "added");
        write!(input, "{start}").unwrap();
        let part = "[".repeat(1 << 20);
        for _ in 0..mb {
            input.write_all(part.as_bytes()).unwrap();
        }
        writeln!(input, "{end}").unwrap();
        writeln!(input, "{}", turn(2, 1000, "after")).unwrap();
        let refused = ack();
        assert_eq!(
            (&refused["line"], &refused["status"]),
            (&2.into(), &"rejected".into())
        );
        let bytes = (mb << 20) + start.len() + end.len();
        let reason = refused["reason"].as_str().unwrap();
        assert!(
            reason.contains(&format!("the line has {bytes} bytes")),
            "{reason}"
        );
        assert_eq!(ack()["status"], "added");
        if cfg!(target_os = "linux") {
            let peak = peak_kib(&child);
            println!("a line of {mb} MiB: at the most {peak} KiB");
            assert!(peak < PEAK_KIB_MAX, "{peak} KiB");
        }
        drop(input);
        assert_eq!(child.wait().unwrap().code(), Some(FINDINGS));
        check_files(&log.path());
    }
}

/// A readable line above the limit of a log line is refused, at the exact byte.
#[test]
fn a_record_is_refused_past_the_limit_and_kept_at_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let store = Store::open(&path).unwrap();
    let history = |id: i64, len: usize| {
        Record::History(
            with!(decklog::HistoryEntry::new(1, decklog::Role::User, "x".repeat(len)),
                id,
                created_at: 1000,
            ),
        )
    };
    store.record(history(1, 0)).unwrap();
    let empty = std::fs::read(path.join("1970-01-01/history.0001.jsonl")).unwrap();
    let most = decklog::lines::LINE_BYTES_MAX - empty.len();
    let error = store.record(history(2, most + 1)).unwrap_err();
    assert_eq!(error.kind(), decklog::ErrorKind::InvalidInput);
    let told = error.to_string();
    assert!(
        told.contains("16777217 bytes") && told.contains("16777216"),
        "{told}"
    );
    assert_eq!(store.record(history(2, most)).unwrap().seq, 2);
    let kept = store.history(1, 10).unwrap();
    assert_eq!(kept.last().unwrap().text.len(), most);
    drop(store);
    let found = verify(&Disk::new(&path)).unwrap();
    assert!(found.is_clean(), "{:?}", found.damage);
    assert_eq!(Store::open(&path).unwrap().history(1, 10).unwrap(), kept);
}
