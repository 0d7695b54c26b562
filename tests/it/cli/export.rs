//! `decklog export` and `report`.

use std::collections::BTreeSet;
use std::fs;

use decklog::Kind;

use super::*;
use crate::layout::write_example;
use crate::support::still;

/// The lists, with the kind of each.
pub const LISTS: [(&str, Kind); 10] = [
    ("turns", Kind::ConversationTurns),
    ("calls", Kind::ToolCalls),
    ("proposals", Kind::CodeEditProposals),
    ("conversations", Kind::Conversations),
    ("messages", Kind::Messages),
    ("events", Kind::Events),
    ("inbox", Kind::Inbox),
    ("history", Kind::History),
    ("thoughts", Kind::ThoughtRecords),
    ("rollups", Kind::Rollups),
];

/// Three records of each kind but rollups, which are derived, one on each of three days.
pub fn three_days(log: &Log) {
    let mut lines = Vec::new();
    for n in 1..=3 {
        let time = format!("2025-12-{:02}T12:00:00Z", 8 + n);
        let at_noon = decklog::record::epoch_ms(&time).unwrap();
        let of_noon = |line: String| line.replace("2025-12-27T08:00:00Z", &time);
        lines.extend([
            turn(n, at_noon, "x"),
            request(10 + n, at_noon, "edit", "{}"),
            format!(
                r#"{{"kind":"code_edit_proposals","op":"pending","request_id":"{}","created_at":{at_noon},"confidence":0.5,"diffs_json":[]}}"#,
                id(20 + n)
            ),
            of_noon(conversation(30 + n)),
            message(40 + n, 30 + n, "x").replace("2025-12-27T08:00:01Z", &time),
            event(None, "agent.started", at_noon),
            format!(r#"{{"kind":"inbox","update_id":{n},"created_at":{at_noon}}}"#),
            format!(
                r#"{{"kind":"history","chat_id":-7,"role":"user","text":"x","created_at":{at_noon}}}"#
            ),
            of_noon(thought("t", "x")),
        ]);
    }
    log.record(&lines);
}

/// The names of the columns, and the rows.
fn table(text: &str) -> (Vec<String>, Vec<Vec<String>>) {
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let row = |row: &csv::StringRecord| row.iter().map(str::to_owned).collect();
    let names = row(reader.headers().unwrap());
    let rows = reader.records().map(|it| row(&it.unwrap())).collect();
    (names, rows)
}

/// What a cell holds of a value: texts as they are, and JSON.
fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[test]
fn every_list_has_a_column_for_each_field() {
    let log = Log::new();
    write_example(&still().open(log.path()).unwrap());
    // The turn of the example is retracted, and no conversation has a cost.
    let paid = message(92, 91, "x").replace('}', r#","cost_usd":0.5}"#);
    log.record(&[turn(90, 1000, "x"), conversation(91), paid]);
    for (list, kind) in LISTS {
        let records = objects(&log.ok(&["export", "jsonl", list]));
        assert!(!records.is_empty(), "{list}");
        let (names, rows) = table(&log.ok(&["export", "csv", list]));
        assert_eq!(rows.len(), records.len(), "{list}");
        let fields = kind.schema().fields;
        let of_schema: Vec<&str> = fields.iter().map(|field| field.name).collect();
        assert_eq!(names[..of_schema.len()], of_schema);
        let all: BTreeSet<&String> = names.iter().collect();
        assert_eq!(all.len(), names.len(), "{names:?}");
        for (record, row) in records.iter().zip(&rows) {
            let record = record.as_object().unwrap();
            for name in record.keys() {
                assert!(names.contains(name), "{list} has no column {name}");
            }
            for (name, found) in names.iter().zip(row) {
                let value = record.get(name).unwrap_or(&Value::Null);
                let field = fields.iter().find(|field| field.name == name);
                let is_time = field.is_some_and(|it| it.type_name == "epoch_ms")
                    || name == "updated_at" && value.is_i64();
                match value.as_i64().filter(|_| is_time) {
                    Some(at) => {
                        let expected = decklog::Timestamp::from_ms(at).unwrap();
                        assert_eq!(found, expected.as_str(), "{list} {name}");
                    }
                    // The bytes of JSON are kept, so its spaces may differ.
                    None if value.is_object() || value.is_array() => {
                        let json: Value = serde_json::from_str(found).unwrap();
                        assert_eq!(json, *value, "{list} {name}");
                    }
                    None if field.is_some_and(|it| it.type_name == "rfc3339") => {
                        let at = |text: &str| decklog::record::epoch_ms(text).unwrap();
                        assert!(found.ends_with('Z'), "{list} {name}: {found}");
                        assert_eq!(at(found), at(value.as_str().unwrap()), "{list} {name}");
                    }
                    None => assert_eq!(*found, cell(value), "{list} {name}"),
                }
            }
        }
        let markdown = log.ok(&["export", "markdown", list]);
        assert_eq!(markdown.lines().count(), rows.len() + 2, "{markdown}");
        assert!(markdown.starts_with("| "), "{markdown}");
    }
}

#[test]
fn every_list_is_exported_by_time_and_by_the_name_of_its_kind() {
    let log = Log::new();
    three_days(&log);
    for (list, kind) in LISTS {
        let export = |name: &str, times: &[&str]| -> Vec<Value> {
            let args: Vec<&str> = [&["export", "jsonl", name], times].concat();
            objects(&log.ok(&args))
        };
        let all = export(list, &[]);
        assert_eq!(all.len(), 3, "{list}");
        assert_eq!(export(kind.stem(), &[]), all);
        let is_latest_first = ["calls", "proposals", "conversations"].contains(&list);
        let (early, late) = if is_latest_first {
            (&all[1..], &all[..2])
        } else {
            (&all[..2], &all[1..])
        };
        assert_eq!(export(list, &["--since", "2025-12-10"]), late, "{list}");
        assert_eq!(export(list, &["--until", "2025-12-11"]), early, "{list}");
        let range = ["--since", "2025-12-10", "--until", "2025-12-11"];
        let middle = export(list, &range);
        assert_eq!(middle.len(), 1, "{list}");
        assert!(late.contains(&middle[0]) && early.contains(&middle[0]));
        // The start of a range is in it, its end is not.
        if kind != Kind::Rollups {
            let noon = "2025-12-10T12:00:00Z";
            assert_eq!(export(list, &["--since", noon]), late, "{list}");
            assert_eq!(export(list, &["--until", noon]).len(), 1, "{list}");
        }
        let args = [&["export", "csv", list][..], &range].concat();
        assert_eq!(table(&log.ok(&args)).1.len(), 1, "{list}");
    }
}

#[test]
fn filters_and_limits_are_those_of_the_lists() {
    let log = Log::imported();
    let calls = objects(&log.ok(&["export", "jsonl", "calls", "--tool", "Bash"]));
    assert_eq!(calls, log.json(&["calls", "--tool", "Bash"]));
    let (_, rows) = table(&log.ok(&["export", "csv", "calls", "--status", "failed"]));
    assert_eq!(rows.len(), 3);
    let (names, rows) = table(&log.ok(&["export", "csv", "rollups", "--since", "2030-01-01"]));
    assert!(names.contains(&"tokens_in".to_owned()) && rows.is_empty());
    let (names, rows) = table(&log.ok(&["export", "csv", "history", "--chat", "-7"]));
    assert!(names.contains(&"chat_id".to_owned()) && rows.is_empty());
    // A conversation is exported as its messages.
    let (_, rows) = table(&log.ok(&["export", "csv", "latest"]));
    let shown = log.json(&["show", "latest"]);
    assert_eq!(rows.len(), shown.len() - 1);
    assert_eq!(objects(&log.ok(&["export", "jsonl", "latest"])), shown[1..]);
}

#[test]
fn the_entries_of_all_chats_are_listed() {
    let log = Log::new();
    let entry = |chat: i64, at: i64, text: &str| {
        format!(
            r#"{{"kind":"history","chat_id":{chat},"role":"user","created_at":{at},"text":"{text}"}}"#
        )
    };
    log.record(&[
        entry(1, 1000, "a"),
        entry(-2, 2000, "b"),
        entry(1, 3000, "c"),
    ]);
    let texts = |args: &[&str]| -> Vec<String> {
        let args: Vec<&str> = ["export", "jsonl", "history"]
            .iter()
            .chain(args)
            .copied()
            .collect();
        let entries = objects(&log.ok(&args));
        entries
            .iter()
            .map(|it| it["text"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(texts(&[]), ["a", "b", "c"]);
    assert_eq!(texts(&["--chat", "-2"]), ["b"]);
    assert_eq!(texts(&["--chat", "1", "--order", "desc"]), ["c", "a"]);
    assert_eq!(texts(&["--since", "2000", "--until", "3000"]), ["b"]);
}

#[test]
fn texts_of_any_kind_come_through() {
    let log = Log::new();
    let texts = [
        "a,b",
        "\"quoted\"",
        "two\nlines",
        "\r\n",
        "=1+1",
        "+1",
        "-1",
        "@x",
        "'",
        " ",
        "é日本🙂",
        "\t=1",
        "\u{1b}[31m",
    ];
    let turns = texts
        .iter()
        .zip(1..)
        .map(|(text, n)| turn(n, i64::from(n), text));
    log.record(&turns.collect::<Vec<_>>());
    let contents = |text: &str| -> Vec<String> {
        let (names, rows) = table(text);
        let place = names.iter().position(|name| name == "content").unwrap();
        rows.into_iter().map(|mut row| row.remove(place)).collect()
    };
    assert_eq!(contents(&log.ok(&["export", "csv", "turns"])), texts);
    let guarded = log.ok(&["export", "csv", "turns", "--spreadsheet"]);
    let guarded = contents(guarded.strip_prefix('\u{feff}').unwrap());
    for (text, guarded) in texts.iter().zip(guarded) {
        let is_formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
        let mark = if is_formula { "'" } else { "" };
        assert_eq!(guarded, format!("{mark}{text}"));
    }
    // A terminal is shown no control characters.
    let shown = log.ok(&["export", "csv", "turns", "--color", "always"]);
    assert!(
        shown.contains("\\u{1b}[31m") && !shown.contains('\u{1b}'),
        "{shown}"
    );
}

#[test]
fn a_file_is_written_as_a_whole_or_not_at_all() {
    let log = Log::imported();
    let dir = log.dir.path().join("out");
    std::fs::create_dir(&dir).unwrap();
    let path = dir.join("a b.csv");
    let file = path.to_str().unwrap();
    let export = ["export", "csv", "calls", "-o", file];
    let told = log.ok(&export);
    let bytes = std::fs::read(&path).unwrap();
    assert!(told.starts_with(&format!("wrote {file} (")), "{told}");
    assert_eq!(bytes, log.ok(&["export", "csv", "calls"]).as_bytes());
    std::fs::write(&path, "mine").unwrap();
    let output = log.run(&export);
    assert_eq!(code(&output), USAGE);
    assert!(err(&output).contains("--force"), "{}", err(&output));
    assert_eq!(std::fs::read(&path).unwrap(), b"mine");
    let report = log.json(&["export", "csv", "calls", "-o", file, "--force"]);
    assert_eq!(
        (&report[0]["bytes"], &report[0]["file"]),
        (&bytes.len().into(), &file.into())
    );
    assert_eq!(std::fs::read(&path).unwrap(), bytes);

    // Without a result, nothing is written.
    let none = dir.join("none");
    let unknown = id(77);
    let output = log.run(&["export", "markdown", &unknown, "-o", none.to_str().unwrap()]);
    assert_eq!((code(&output), out(&output)), (FINDINGS, String::new()));
    assert!(err(&output).contains(&unknown), "{}", err(&output));
    let missing = dir.join("no").join("file");
    let output = log.run(&["export", "csv", "calls", "-o", missing.to_str().unwrap()]);
    assert_eq!(code(&output), STORE);
    let output = log.run(&[
        "export",
        "csv",
        "calls",
        "--force",
        "-o",
        dir.to_str().unwrap(),
    ]);
    assert_eq!(code(&output), USAGE);
    let names = std::fs::read_dir(&dir)
        .unwrap()
        .map(|it| it.unwrap().file_name());
    assert_eq!(names.collect::<Vec<_>>(), ["a b.csv"]);
}

/// Bug: the link itself was replaced by a file.
#[test]
#[cfg(unix)]
fn a_symbolic_link_stays_and_the_file_that_it_names_is_written() {
    use std::os::unix::fs::symlink;

    let log = Log::imported();
    let at = |name: &str| log.dir.path().join(name);
    fs::create_dir(at("links")).unwrap();
    fs::create_dir(at("files")).unwrap();
    // Relative to the directory of the link, and through another link.
    symlink("../files/calls.csv", at("links/first")).unwrap();
    symlink(at("links/first"), at("second")).unwrap();
    symlink("loop", at("loop")).unwrap();
    symlink(log.file("new.csv"), at("inside")).unwrap();
    let export = |name: &str, options: &[&str]| {
        let file = at(name);
        let args = ["export", "csv", "calls", "-o", file.to_str().unwrap()];
        log.run(&[&args[..], options].concat())
    };
    let expected = log.ok(&["export", "csv", "calls"]);
    let names = |dir: &str| -> Vec<_> {
        let entries = fs::read_dir(at(dir)).unwrap();
        entries.map(|it| it.unwrap().file_name()).collect()
    };
    for (link, options) in [
        ("second", &[][..]),
        ("second", &["--force"]),
        ("links/first", &["--force"]),
    ] {
        let output = export(link, options);
        assert_eq!((code(&output), err(&output)), (OK, String::new()), "{link}");
        let written = fs::read_to_string(at("files/calls.csv")).unwrap();
        assert_eq!(written, expected);
        assert!(at("second").is_symlink() && at("links/first").is_symlink());
        assert_eq!(names("files"), ["calls.csv"]);
        assert_eq!(names("links"), ["first"]);
        fs::write(at("files/calls.csv"), "old").unwrap();
    }
    // Without --force, the file is kept.
    assert_eq!(code(&export("second", &[])), USAGE);
    assert_eq!(fs::read(at("files/calls.csv")).unwrap(), b"old");
    let output = export("inside", &["--force"]);
    assert_eq!(code(&output), USAGE);
    assert!(err(&output).contains("directory of the log"));
    assert!(!log.file("new.csv").exists());
    let output = export("loop", &[]);
    assert_eq!(code(&output), STORE);
    assert!(err(&output).contains("links"), "{}", err(&output));
}

#[test]
fn a_dash_is_standard_output() {
    let log = Log::imported();
    let expected = log.ok(&["export", "csv", "calls"]);
    let printed = log.command(&["export", "csv", "calls", "-o", "-"]);
    let printed = { printed }.current_dir(log.dir.path()).output().unwrap();
    assert_eq!((code(&printed), out(&printed)), (OK, expected));
    assert!(!log.dir.path().join("-").exists());
    let output = log.run(&["export", "csv", "calls", "-o", "-", "--json"]);
    assert_eq!(code(&output), USAGE);
    #[cfg(feature = "page")]
    {
        let html = log.ok(&["report", "--html", "-", "2025-12-09"]);
        assert!(html.starts_with("<!DOCTYPE html>"));
        let output = log.run(&["report", "--html", "-", "--json"]);
        assert_eq!((code(&output), out(&output)), (USAGE, String::new()));
    }
}

#[test]
fn what_cannot_be_exported_is_told() {
    let log = Log::imported();
    for (args, words) in [
        (&["export", "csv"][..], "name a conversation"),
        (
            &["export", "markdown", "latest", "calls"],
            "a conversation or a list",
        ),
        (&["export", "csv", "calls", "--json"], "export jsonl"),
        (&["export", "csv", "inbox", "--counts"], "decklog inbox"),
        (&["export", "csv", "calls", "--force"], "--output"),
        (&["export", "csv", "nosuchkind"], "nosuchkind"),
    ] {
        let output = log.run(args);
        assert!([USAGE, FINDINGS].contains(&code(&output)), "{args:?}");
        assert!(err(&output).contains(words), "{args:?}: {}", err(&output));
        assert_eq!(out(&output), "", "{args:?}");
    }
    let help = log.ok(&["export", "csv", "calls", "--help"]);
    assert!(
        help.contains("--tool") && !help.contains("--long"),
        "{help}"
    );
}

#[test]
#[cfg(feature = "page")]
fn a_report_is_an_export_to_html() {
    let log = Log::imported();
    let dir = log.dir.path();
    let page = |name: &str, args: &[&str]| {
        let path = dir.join(name);
        let file = ["--force", path.to_str().unwrap()];
        let option = if args[0] == "report" { "--html" } else { "-o" };
        let args: Vec<&str> = args
            .iter()
            .copied()
            .chain([file[0], option, file[1]])
            .collect();
        log.ok(&args);
        std::fs::read_to_string(path).unwrap()
    };
    // It ends with the time of writing.
    let start = |html: &str| html.split("Written by").next().unwrap().to_owned();
    for what in ["latest", "7f2abd2d", "2025-12-09"] {
        let report = page("report.html", &["report", what]);
        let export = page("export.html", &["export", "html", what]);
        assert_eq!(start(&report), start(&export));
        assert!(report.starts_with("<!DOCTYPE html>"));
        let printed = log.ok(&["export", "html", what]);
        assert_eq!(start(&printed), start(&export));
    }
    let output = log.run(&["export", "html", "00000000"]);
    assert_eq!((code(&output), out(&output)), (FINDINGS, String::new()));
}

#[cfg(feature = "page")]
mod markdown {
    use proptest::prelude::*;
    use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag};

    use super::*;

    /// What a reader of Markdown makes of a transcript.
    #[derive(Debug, Default)]
    struct Read {
        headings: Vec<String>,
        /// Contents of blocks of code.
        code: Vec<String>,
        /// All text that is shown.
        text: String,
        html: Vec<String>,
    }

    fn read(markdown: &str) -> Read {
        let mut read = Read::default();
        let (mut heading, mut code) = (None, None);
        for event in Parser::new_ext(markdown, Options::all() - Options::ENABLE_SMART_PUNCTUATION) {
            match event {
                Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                Event::End(pulldown_cmark::TagEnd::Heading(_)) => {
                    read.headings.extend(heading.take());
                }
                Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(_))) => {
                    code = Some(String::new());
                }
                Event::End(pulldown_cmark::TagEnd::CodeBlock) => read.code.extend(code.take()),
                Event::Start(
                    tag @ (Tag::Link { .. }
                    | Tag::Image { .. }
                    | Tag::Table(_)
                    | Tag::FootnoteDefinition(_)),
                ) => {
                    panic!("{tag:?} in {markdown}");
                }
                Event::FootnoteReference(_) | Event::InlineMath(_) | Event::DisplayMath(_) => {
                    panic!("{event:?} in {markdown}");
                }
                Event::Html(html) | Event::InlineHtml(html) => {
                    read.html.push(html.trim().to_owned());
                }
                Event::Text(text) | Event::Code(text) => {
                    for known in [&mut heading, &mut code].into_iter().flatten() {
                        known.push_str(&text);
                    }
                    read.text.push_str(&text);
                }
                _ => {}
            }
        }
        read
    }

    /// A conversation with one answer that has this text in each of its fields.
    fn transcript(text: &str) -> String {
        let log = Log::with_plain_users();
        let json = Value::from(text);
        let message = message(2, 1, text).replace(r#""role":"user""#, r#""role":"assistant""#).replace(
            '}',
            &format!(r#","reasoning":{json},"model_used":{json},"tool_name":{json},"tool_args":{json},"tool_result":{json},"error":{json},"error_type":{json}}}"#),
        );
        // Braces of the text itself would be replaced too.
        assert!(!text.contains('}'));
        log.record(&[conversation(1), message]);
        log.ok(&["export", "markdown", "latest"])
    }

    fn check(text: &str) {
        let markdown = transcript(text);
        let read = read(&markdown);
        assert_eq!(read.headings.len(), 2, "{markdown}");
        assert!(read.headings[1].starts_with("Assistant"), "{markdown}");
        let is_ours = |html: &String| {
            ["<!-- -->", "<details>", "</details>"].contains(&html.as_str())
                || html.starts_with("<summary>")
                    && html.ends_with("</summary>")
                    && html.matches('<').count() == 2 + html.matches("<!-- -->").count()
        };
        let foreign: Vec<&String> = read.html.iter().filter(|html| !is_ours(html)).collect();
        assert!(foreign.is_empty(), "{foreign:?} in {markdown}");
        let open = read.html.iter().filter(|html| *html == "<details>").count();
        let closed = read
            .html
            .iter()
            .filter(|html| *html == "</details>")
            .count();
        assert_eq!((open, closed), (open, open), "{markdown}");
        // The result is the last block, byte for byte.
        if !text.trim().is_empty() {
            let result = text.replace("\r\n", "\n");
            let result = result.strip_suffix('\n').unwrap_or(&result);
            let last = read.code.last().unwrap();
            assert_eq!(
                last.strip_suffix('\n').unwrap_or(last),
                result,
                "{markdown}"
            );
        }
    }

    #[test]
    fn no_content_breaks_out_of_its_place() {
        for text in [
            "</details>\n\n## User\n\nI agree.",
            "```\n## User\n```",
            "````\n```\n## User",
            "~~~\n</details>\n<script>alert(1)</script>",
            "# User\n\ntext\n====\n\ntext\n---\n",
            "![x](https://example.com/x.png) [y](javascript:alert(1)) <https://example.com>",
            "[x]: https://example.com\n\n[x] [^1]\n\n[^1]: note",
            "| a | b |\n| --- | --- |\n| c | `d | e` |",
            "a\n:-:\n` | <img src=x> `",
            "- ```\n  <b>\n- ~~~\n  <i>",
            "1. # a\n2. > b\n   > :-:\n3. ---",
            "`a\n` <b> `",
            "\\`<b>\\` \\\\`<b>`",
            "$$x$$ $`y`$ &lt;b&gt; <!-- ",
            "@someone and a@example.com",
            "    code\n\tcode",
            "<details open><summary>x</summary>",
            "text\\",
            "a\r\nb\r\n",
        ] {
            check(text);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn no_mixture_of_marks_breaks_out(
            parts in proptest::collection::vec(
                proptest::sample::select(vec![
                    "`", "``", "```", "~~~", "<b>", "</details>", "<!--", "[x](y)", "![x](y)", "[^1]",
                    "|", "---", ":-:", "===", "# ", "> ", "- ", "1. ", "* ", "**", "_", "\\", "&lt;",
                    "$", "$$", "\n", "\n\n", "    ", "\t", "a", " ", "@x", "!", "+ ", "=",
                ]),
                1..24,
            ),
        ) {
            check(&parts.concat());
        }
    }

    #[test]
    fn an_answer_reads_as_it_was_written() {
        let text = "## Steps\n\n1. run `cargo test`\n2. look:\n\n```rust\nlet a = \"<b>\";\n```\n\n- **done**: a_b, 1 < 2, #3";
        let log = Log::new();
        let answer = message(2, 1, text).replace(r#""role":"user""#, r#""role":"assistant""#);
        log.record(&[conversation(1), message(3, 1, "Do it.\nNow!"), answer]);
        let markdown = log.ok(&["export", "markdown", "latest"]);
        let read = read(&markdown);
        assert_eq!(read.headings[1..], ["User", "Assistant"]);
        assert_eq!(read.code, ["let a = \"<b>\";\n"]);
        for words in [
            "Steps",
            "cargo test",
            "done",
            ": a_b, 1 < 2, #3",
            "Do it.",
            "Now!",
        ] {
            assert!(read.text.contains(words), "{words}: {markdown}");
        }
        assert!(
            markdown.contains("1. run `cargo test`") && markdown.contains("- **done**"),
            "{markdown}"
        );
    }
}

#[test]
fn a_file_of_the_log_is_not_written_over() {
    let log = Log::imported();
    let segment = log.file("2025-12-09/messages.0001.jsonl");
    let before = fs::read(&segment).unwrap();
    for path in [
        segment.clone(),
        log.file("new.csv"),
        log.file("decklog.json"),
    ] {
        let path = path.to_str().unwrap();
        let output = log.run(&["export", "csv", "messages", "-o", path, "--force"]);
        assert_eq!(code(&output), USAGE, "{path}");
        assert!(
            err(&output).contains("is in the directory of the log"),
            "{}",
            err(&output)
        );
    }
    assert_eq!(fs::read(&segment).unwrap(), before);
    assert!(!log.file("new.csv").exists());
    let outside = log.dir.path().join("out.csv");
    log.ok(&["export", "csv", "messages", "-o", outside.to_str().unwrap()]);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = fs::metadata(&outside).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}
