//! Errors in whole files and in lines of any format.

use std::cell::RefCell;
use std::fs;

use super::log::MemoryLog;
use super::{broken, counts, import, import_path, sample};
use crate::error::ErrorKind;
use crate::import::{Format, Importer};

const USER: &str = r#"{"type":"user","uuid":"u1","sessionId":"s","timestamp":"2025-12-09T19:47:42.930Z","message":{"role":"user","content":"hi"}}"#;

#[test]
fn broken_lines_are_named_by_number_and_the_rest_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.jsonl");
    let mut bytes = format!("\u{feff}{USER}\r\n\r\n{{\"type\":\r\n").into_bytes();
    bytes.extend_from_slice(b"{\"type\":\"user\xff\"}\n");
    bytes.extend_from_slice(b"[1]\n7\nnull\n{}\n{\"type\":5}\n");
    let late = USER
        .replace("u1", "u2")
        .replace("2025-12-09T", "12/09/2025 ");
    bytes.extend_from_slice(late.as_bytes());
    bytes.extend_from_slice(format!("\n{}", USER.replace("u1", "u3")).as_bytes());
    fs::write(&path, bytes).unwrap();

    let log = MemoryLog::default();
    let report = import_path(&log, &path);
    assert_eq!((report.turns, report.messages, report.lines), (2, 2, 10));
    assert_eq!(report.added, 2 + 2 + 1);
    assert_eq!(counts(&report), [("(no type)", 2), ("(not an object)", 3)]);
    let broken = broken(&report);
    let lines: Vec<u64> = broken.iter().map(|(line, _)| *line).collect();
    assert_eq!(lines, [3, 4, 10]);
    assert!(broken[0].1.contains("column 8"), "{}", broken[0].1);
    assert_eq!(broken[1].1, "not UTF-8 at byte 13");
    assert!(broken[2].1.contains("12/09/2025"), "{}", broken[2].1);
    assert!(report.broken[0].file.ends_with("x.jsonl"));
}

#[test]
fn a_line_past_the_limit_is_broken_and_the_next_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.jsonl");
    let lengthy = USER.replace("hi", &"x".repeat(1000)).replace("u1", "u2");
    fs::write(
        &path,
        [&lengthy, USER].map(|line| format!("{line}\n")).concat(),
    )
    .unwrap();
    let log = MemoryLog::default();
    let mut importer = Importer::over(&log);
    importer.line_bytes_max = 500;
    importer.path(&path).unwrap();
    let report = importer.finish().unwrap();
    assert_eq!((report.lines, report.turns), (2, 1));
    let reason = format!("the line has {} bytes: at most 500 are read", lengthy.len());
    assert_eq!(broken(&report), [(1, reason.as_str())]);
}

#[test]
fn a_file_of_unknown_format_is_refused_alone_and_reported_in_a_folder() {
    let dir = tempfile::tempdir().unwrap();
    let unknown = dir.path().join("a.jsonl");
    fs::write(&unknown, "{\"seq\":1}\n").unwrap();
    fs::write(dir.path().join("b.jsonl"), USER).unwrap();
    fs::write(dir.path().join("empty.jsonl"), "\n").unwrap();
    let log = MemoryLog::default();

    let report = import_path(&log, dir.path());
    assert_eq!((report.files, report.turns), (2, 1));
    let [broken] = report.broken.as_slice() else {
        panic!("{:?}", report.broken)
    };
    assert_eq!(
        (broken.line, broken.file.as_str()),
        (0, unknown.to_str().unwrap())
    );
    assert!(broken.reason.contains("--format"), "{}", broken.reason);

    let err = Importer::over(&log).path(&unknown).unwrap_err();
    assert_eq!(err.kind(), ErrorKind::InvalidInput);
    assert_eq!(err.path(), Some(unknown.as_path()));
    assert!(err.to_string().contains("--format"), "{err}");

    let mut importer = Importer::over(&log).format(Some(Format::Codex));
    importer.path(&unknown).unwrap();
    assert_eq!(counts(&importer.finish().unwrap()), [("(no type)", 1)]);

    let err = Importer::over(&log)
        .path(&dir.path().join("none"))
        .unwrap_err();
    assert_eq!(err.kind(), ErrorKind::Io);
}

#[cfg(unix)]
#[test]
fn what_cannot_be_read_in_a_folder_does_not_end_the_import() {
    let dir = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink("nowhere", dir.path().join("a.jsonl")).unwrap();
    fs::write(dir.path().join("b.jsonl"), USER).unwrap();
    let report = import_path(&MemoryLog::default(), dir.path());
    assert_eq!((report.files, report.turns), (1, 1));
    assert_eq!((report.broken.len(), report.broken[0].line), (1, 0));
}

#[test]
fn an_error_of_the_store_ends_the_import() {
    let log = MemoryLog::default();
    *log.fault.borrow_mut() = Some(ErrorKind::Locked);
    let err = Importer::over(&log).path(&sample("")).unwrap_err();
    assert_eq!(err.kind(), ErrorKind::Locked);
}

#[test]
fn batches_are_bounded_by_records_and_by_bytes() {
    let lines: Vec<String> = (0..2500)
        .map(|n| USER.replace("u1", &n.to_string()))
        .collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let log = MemoryLog::default();
    import(&log, &lines);
    assert_eq!(log.batches(), [1000, 1000, 1000, 1000, 1000, 1]);

    let large = USER.replace("hi", &"x".repeat(3 << 20));
    let lines: Vec<String> = (0..5)
        .map(|n| large.replace("u1", &n.to_string()))
        .collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let log = MemoryLog::default();
    import(&log, &lines);
    assert_eq!(log.batches(), [3, 2, 2, 2, 2]);
}

#[test]
fn a_report_does_not_grow_with_what_is_broken_or_foreign() {
    let mut lines = vec!["?".to_owned(); 10_005];
    lines.extend((0..1005).map(|n| format!("{{\"type\":\"t{n}\"}}")));
    lines.insert(0, USER.to_owned());
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let report = import(&MemoryLog::default(), &lines);
    assert_eq!(report.broken.len(), 10_001);
    let last = report.broken.last().unwrap();
    assert_eq!(
        (last.line, last.reason.as_str()),
        (10_002, "and 5 more, not listed")
    );
    assert_eq!(report.not_understood.len(), 1001);
    assert_eq!(report.not_understood["(other types)"], 5);
}

#[test]
fn progress_comes_to_the_sum_of_all_files() {
    let seen = RefCell::new(Vec::new());
    let log = MemoryLog::default();
    let mut importer = Importer::over(&log).on_progress(|p| {
        let name = p.file.file_name().unwrap().to_owned();
        seen.borrow_mut().push((name, p.bytes_done, p.bytes_total));
    });
    importer.path(&sample("")).unwrap();
    drop(importer);
    let seen = seen.into_inner();
    assert_eq!(seen.len(), 6);
    assert!(seen.is_sorted_by_key(|(_, done, _)| *done));
    let (_, done, total) = &seen[5];
    assert_eq!(done, total);
    assert_eq!(seen[0].1, 0);
}

#[test]
fn a_text_that_no_string_can_hold_and_a_member_named_twice_break_their_line() {
    let cut = USER.replace("hi", "cut \\ud83d");
    let twice = USER.replace("\"message\"", "\"uuid\":\"u3\",\"message\"");
    let report = import(&MemoryLog::default(), &[USER, &cut, &twice]);
    let broken = broken(&report);
    assert_eq!((broken[0].0, broken[1].0), (2, 3));
    assert!(broken[0].1.contains("hex escape"), "{}", broken[0].1);
    assert!(broken[1].1.contains("duplicate"), "{}", broken[1].1);
    assert_eq!(report.turns, 1);
}
