//! `decklog record`: what comes on standard input is kept, and answered.

use super::*;

#[test]
fn good_lines_are_kept_and_bad_ones_told() {
    let log = Log::new();
    let input = [
        turn(1, 1000, "one").as_bytes(),
        b"\r\n\n",
        b"not json\n",
        b"\xff\xfe\n",
        failed(9, 1000, "never requested").as_bytes(),
        b"\n",
        request(2, 2000, "read", r#"{"path":"a"}"#).as_bytes(),
        b"\n",
        turn(1, 1000, "one").as_bytes(),
    ]
    .concat();
    let output = log.run_with(&["record", "--ack"], &input);
    assert_eq!(code(&output), FINDINGS);
    let acks = objects(&out(&output));
    let brief: Vec<(u64, &str, Option<u64>)> = acks
        .iter()
        .map(|ack| {
            let line = ack["line"].as_u64().unwrap();
            (line, ack["status"].as_str().unwrap(), ack["seq"].as_u64())
        })
        .collect();
    let expected = [
        (1, "added", Some(1)),
        (3, "rejected", None),
        (4, "rejected", None),
        (5, "rejected", None),
        (6, "added", Some(2)),
        (7, "unchanged", Some(1)),
    ];
    assert_eq!(brief, expected);
    assert!(
        acks[3]["reason"]
            .as_str()
            .unwrap()
            .contains("never requested")
    );
    let told = err(&output);
    assert_eq!(told.lines().count(), 3, "{told}");
    assert!(
        told.contains("decklog: line 4: not UTF-8 at byte 0\n"),
        "{told}"
    );

    let output = log.run_with(&["record"], turn(3, 1000, "three").as_bytes());
    assert_eq!(out(&output), "1 record added, 0 unchanged, 0 rejected\n");
    assert_eq!(code(&output), OK);
    assert_eq!(log.json(&["turns"]).len(), 2);
}

#[test]
fn a_program_that_waits_for_its_ack_gets_it() {
    let log = Log::new();
    let mut child = spawn(&mut log.command(&["record", "--ack", "--durability", "disk"]));
    let mut input = child.stdin.take().unwrap();
    let next_ack = lines_of(child.stdout.take().unwrap());
    for n in 1..=20 {
        writeln!(input, "{}", turn(n, 1000, "hello")).unwrap();
        let ack: Value = serde_json::from_str(&next_ack()).unwrap();
        assert_eq!((&ack["line"], &ack["seq"]), (&n.into(), &n.into()));
        // What is acknowledged is there, for others too.
        assert_eq!(log.json(&["turns"]).len() as u32, n);
    }
    drop(input);
    assert_eq!(child.wait().unwrap().code(), Some(OK));
}

#[test]
fn records_are_kept_when_no_one_reads_the_acks() {
    let log = Log::new();
    let mut child = spawn(&mut log.command(&["record", "--ack"]));
    drop(child.stdout.take());
    let mut input = child.stdin.take().unwrap();
    for n in 1..=5000 {
        writeln!(input, "{}", turn(n, 1000, "hello")).unwrap();
    }
    drop(input);
    let output = child.wait_with_output().unwrap();
    assert_eq!((code(&output), err(&output)), (OK, String::new()));
    assert_eq!(log.json(&["turns"]).len(), 5000);
}

#[test]
fn another_process_with_the_lock_has_its_own_exit_code() {
    let log = Log::new();
    log.run_with(&["record"], turn(1, 1000, "one").as_bytes());
    let file = std::fs::File::options()
        .write(true)
        .open(log.file("LOCK"))
        .unwrap();
    file.lock().unwrap();
    let output = log.run_with(&["record"], turn(2, 1000, "two").as_bytes());
    assert_eq!(code(&output), LOCKED);
    let told = err(&output);
    assert!(
        told.starts_with("decklog: lines 1 to 1 are not acknowledged: "),
        "{told}"
    );
    // Who only reads needs no lock.
    assert_eq!(log.json(&["turns"]).len(), 1);
}
