//! `decklog stats cost`, the table of prices, budgets and the status line.

mod plain;

use decklog::analytics::CostQuery;
use decklog::{Store, Timestamp};
use serde_json::json;

use super::*;

/// Prices in whole US dollars of a million tokens, so that sums of them are exact.
const PRICES: &str = r#"[{"id":"mine","model_match":{"starts_with":"own-"},"models":[
    {"id":"own-1","match":{"equals":"own-1"},"prices":{"input_mtok":2,"cache_write_mtok":3,
     "cache_write_1h_mtok":5,"cache_read_mtok":1,"output_mtok":7,"output_reasoning_mtok":11}},
    {"id":"own-2","match":{"equals":"own-2"},"prices":[
     {"prices":{"input_mtok":13,"output_mtok":17}},
     {"constraint":{"start_date":"2025-12-22"},"prices":{"input_mtok":19,"output_mtok":23}}]}]}]"#;

/// Those of own-1 as the prices of gpt-5.
fn prices_of_gpt_5() -> String {
    PRICES.replace("own-1", "gpt-5").replace("own-", "gpt-")
}

/// The figures of docs/cost.md, where they are compared with those of another program.
#[test]
fn sessions_of_agents_have_known_costs() {
    let log = Log::keeping_all();
    for name in [
        "claude-code-session.jsonl",
        "claude-code-subagent.jsonl",
        "codex-rollout.jsonl",
    ] {
        log.ok(&["import", samples().join(name).to_str().unwrap()]);
    }
    let rows = |by: &str, columns: std::ops::Range<usize>| -> Vec<String> {
        let text = log.ok(&["stats", "cost", "--by", by, "--csv"]);
        let lines = text.lines().skip(1);
        let row = |line: &str| line.split(',').collect::<Vec<_>>()[columns.clone()].join(",");
        lines.map(row).collect()
    };
    let models = [
        "claude-sonnet-4-5-20250929,14,561,5158,0,93553,974,0,0,0.0637014,0.0637014",
        "gpt-5.1-codex-max,20,3828,0,0,22912,408,128,0,0.011729,0.011729",
        ",18,0,0,0,0,0,0,0,,",
    ];
    assert_eq!(rows("model", 0..11), models);
    // The sub-agent counts with the session that started it.
    let sessions = [
        "7f2abd2d-7cfc-4447-9ddd-3ca8d14e02e9,24,561,5158,0,93553,974",
        "019b04ae-b1c6-7c72-a134-a4c2de66058c,28,3828,0,0,22912,408",
    ];
    let mut found = rows("session", 0..8);
    for row in &mut found {
        *row = row.replace(
            "add myapp directory and create myapp/hoge.py which shows result of print(1+1).,",
            "",
        );
    }
    assert_eq!(found, sessions);
    let tools = [
        "Bash,claude-code,7,34,4380,0,44524,560,0,0,0.0382842,0.0382842",
        "(none),claude-code,15,513,320,0,33001,288,0,0,0.0169593,0.0169593",
        "Write,claude-code,2,14,458,0,16028,126,0,0,0.0084579,0.0084579",
        "shell_command,codex,12,2787,0,0,12288,304,128,0,0.00805975,0.00805975",
        "(none),codex,13,402,0,0,7552,64,0,0,0.0020865,0.0020865",
        "apply_patch,codex,3,639,0,0,3072,40,0,0,0.00158275,0.00158275",
    ];
    assert_eq!(rows("tool,agent", 0..12), tools);
    let months = [
        "2025-12-01,agent-sample,claude,24,561,5158,0,93553,974,0,0,0.0637014,0.0637014",
        "2025-12-01,agent-sample,codex,28,3828,0,0,22912,408,128,0,0.011729,0.011729",
    ];
    assert_eq!(rows("month,project,branch", 0..13), months);
    let text = log.ok(&["stats", "cost"]);
    let note = "$0.00 recorded by agents, $0.0754 computed by the table of prices\n";
    assert!(text.ends_with(note), "{text}");
    let json = &log.json(&["stats", "cost", "--by", "agent"])[0];
    assert_eq!(json["by"], json!(["agent"]));
    assert_eq!(json["rows"][0]["agent"], "claude-code");
    assert_eq!(json["rows"][1]["cost_usd"], 0.011_729);
    assert_eq!(json["unpriced"], json!([]));
    for (args, told) in [
        (
            &["stats", "cost", "--by", "day,month"][..],
            "several periods",
        ),
        (
            &["stats", "cost", "--by", "mode"][..],
            "no rows by config, mode",
        ),
        (
            &["stats", "cost", "--group", "model"][..],
            "--by instead of",
        ),
        (
            &["stats", "cost", "--limit", "100001"][..],
            "at most 100000",
        ),
        (
            &[
                "stats",
                "cost",
                "--since",
                "2026-01-02",
                "--until",
                "2026-01-01",
            ][..],
            "must be later",
        ),
    ] {
        let output = log.run(args);
        assert_eq!(code(&output), USAGE, "{args:?}");
        assert!(err(&output).contains(told), "{args:?}: {}", err(&output));
    }
}

/// An answer with tokens at a time.
fn answer(n: u32, model: &str, at: &str, tokens: &str) -> String {
    let (own, conversation) = (id(n), id(1));
    format!(
        r#"{{"kind":"messages","id":"{own}","conversation_id":"{conversation}","role":"assistant","content":"2","model_used":"{model}","timestamp":"{at}",{tokens}}}"#
    )
}

fn costs(log: &Log, by: &str) -> Vec<(Value, Value)> {
    let report = &log.json(&["stats", "cost", "--by", by])[0];
    let rows = report["rows"].as_array().unwrap().iter();
    let name = |row: &Value| row.get("bucket").or(row.get("model_used")).cloned();
    rows.map(|row| (name(row).unwrap_or_default(), row["cost_usd"].clone()))
        .collect()
}

#[test]
fn prices_are_those_of_the_time_and_of_each_kind_of_tokens() {
    let log = Log::keeping_all();
    log.record(&[
        conversation(1),
        // Prompts above 200,000 tokens had a price of their own until 2026-03-12.
        answer(
            11,
            "claude-opus-4-6",
            "2026-03-12T23:59:59Z",
            r#""tokens_in":1000000"#,
        ),
        answer(
            12,
            "claude-opus-4-6",
            "2026-03-13T00:00:00Z",
            r#""tokens_in":1000000"#,
        ),
        // 60,000 tokens at 3.75 and 40,000 at 6 US dollars a million.
        answer(
            13,
            "claude-sonnet-4-5",
            "2026-03-14T00:00:00Z",
            r#""tokens_in":100000,"tokens_cache_write":100000,"tokens_cache_write_1h":40000"#,
        ),
        // What the agent recorded goes before the prices.
        answer(
            14,
            "claude-sonnet-4-5",
            "2026-03-15T00:00:00Z",
            r#""tokens_in":100000,"cost_usd":0.5"#,
        ),
        answer(
            15,
            "claude-sonnet-4-5",
            "2026-03-16T00:00:00Z",
            r#""tokens_in":9,"cost_usd":0"#,
        ),
    ]);
    let days = [
        ("2026-03-12", 10.0),
        ("2026-03-13", 5.0),
        ("2026-03-14", 0.465),
        ("2026-03-15", 0.5),
        ("2026-03-16", 0.0),
    ];
    let expected = days.map(|(day, usd)| (json!(day), json!(usd)));
    assert_eq!(costs(&log, "day"), expected);
    let csv = log.ok(&[
        "stats",
        "cost",
        "--by",
        "day",
        "--csv",
        "--since",
        "2026-03-14",
    ]);
    assert!(
        csv.contains("2026-03-14,1,0,60000,40000,0,0,0,0,0.465,0.465\n"),
        "{csv}"
    );
}

#[test]
fn models_without_a_price_are_told() {
    let log = Log::keeping_all();
    let at = "2025-12-27T08:00:00Z";
    let nameless = answer(13, "", at, r#""tokens_in":7"#);
    log.record(&[
        conversation(1),
        answer(
            11,
            "nobody-1\u{202e}",
            at,
            r#""tokens_in":5,"tokens_out":5"#,
        ),
        answer(12, "nobody-1\u{202e}", at, r#""tokens_in":6"#),
        nameless.replace(r#""model_used":"","#, ""),
        answer(14, "nobody-1\u{202e}", at, r#""tokens_in":0"#),
        answer(15, "gpt-5", at, r#""tokens_in":1000000"#),
    ]);
    let text = log.ok(&["stats", "cost"]);
    let note = "not included: 3 messages without a price (nobody-1\\u{202e}, no model)";
    assert!(text.contains(note), "{text}");
    let report = &log.json(&["stats", "cost"])[0];
    let expected = json!([
        {"model_used": "nobody-1\u{202e}", "messages": 2},
        {"messages": 1},
    ]);
    assert_eq!(report["unpriced"], expected);
    assert_eq!(report["total"]["unpriced"], 3);
    assert_eq!(report["total"]["cost_usd"], 1.25);
}

/// Messages that retention removed are priced by the sums of their rollup.
#[test]
fn removed_messages_keep_their_cost() {
    let log = Log::new();
    let at = "2025-12-27T08:00:00Z";
    log.record(&[
        conversation(1),
        answer(
            11,
            "gpt-5",
            at,
            r#""tokens_in":100000,"tokens_cache_read":80000,"tokens_out":1000"#,
        ),
        answer(12, "gpt-5", at, r#""tokens_in":100000"#),
        answer(13, "nobody", at, r#""tokens_in":1"#),
    ]);
    let before = costs(&log, "model");
    assert_eq!(before[0], (json!("gpt-5"), json!(0.17)));
    log.ok(&["retain"]);
    assert_eq!(log.json(&["messages"]), [] as [Value; 0]);
    assert_eq!(costs(&log, "model"), before);
    assert_eq!(costs(&log, "session"), []);
    // They have the prices of now.
    std::fs::write(log.file("prices.json"), prices_of_gpt_5()).unwrap();
    assert_eq!(costs(&log, "model")[0], (json!("gpt-5"), json!(0.327)));
}

#[test]
fn a_message_with_several_calls_is_shared_by_all() {
    let log = Log::keeping_all();
    let at = "2025-12-27T08:00:00Z";
    let mut lines = vec![
        conversation(1),
        answer(
            11,
            "gpt-5",
            at,
            r#""cost_usd":0.9,"tokens_in":90,"tool_name":"Read""#,
        ),
        // Parallel calls whose messages are parts of one response.
        answer(
            12,
            "gpt-5",
            at,
            r#""cost_usd":0.4,"tokens_in":40,"tool_name":"Bash""#,
        ),
        answer(
            13,
            "gpt-5",
            at,
            &format!(r#""part_of":"{}","tool_name":"Edit""#, id(12)),
        ),
        answer(14, "gpt-5", at, r#""cost_usd":0.1,"tokens_in":10"#),
    ];
    for (n, parent, tool) in [
        (21, 11, "Read"),
        (22, 11, "Grep"),
        (23, 11, "Grep"),
        (24, 12, "Bash"),
        (25, 13, "Edit"),
    ] {
        let own = format!(r#""parent_id":"{}""#, id(n));
        let parent = format!(r#""parent_id":"{}""#, id(parent));
        lines.push(request(n, 1_766_822_400_000, tool, "{}").replace(&own, &parent));
    }
    log.record(&lines);
    let text = log.ok(&["stats", "cost", "--by", "tool", "--csv"]);
    let column = |line: &str| {
        let cells: Vec<&str> = line.split(',').collect();
        (
            cells[0].to_owned(),
            cells[2].to_owned(),
            cells[10].to_owned(),
        )
    };
    let found: Vec<_> = text.lines().skip(1).map(column).collect();
    let expected = [
        ("Grep", "60", "0.6"),
        ("Read", "30", "0.3"),
        ("Bash", "20", "0.2"),
        ("Edit", "20", "0.2"),
        ("(none)", "10", "0.1"),
    ];
    assert_eq!(
        found,
        expected.map(|(tool, tokens, usd)| (tool.into(), tokens.into(), usd.into()))
    );
}

#[test]
fn own_prices_count_at_once() {
    let log = Log::keeping_all();
    let at = "2025-12-27T08:00:00Z";
    log.record(&[
        conversation(1),
        answer(11, "gpt-5", at, r#""tokens_in":1000000"#),
        answer(12, "own-1", at, r#""tokens_in":1000000"#),
    ]);
    // Its sums are saved, as those of a large log are.
    let store = || {
        Store::options()
            .sidecar_bytes_min(1)
            .open(log.path())
            .unwrap()
    };
    let total = |store: &Store| {
        let report = store.analytics().cost(&CostQuery::default()).unwrap();
        (report.total.cost_usd, report.total.unpriced)
    };
    let kept = store();
    let analytics = kept.analytics();
    let told = || {
        analytics
            .cost(&CostQuery::default())
            .unwrap()
            .total
            .cost_usd
    };
    for (prices, expected) in [
        (None, (Some(1.25), 1)),
        (Some(PRICES.to_owned()), (Some(3.25), 0)),
        (Some(prices_of_gpt_5()), (Some(2.0), 1)),
        (None, (Some(1.25), 1)),
    ] {
        match prices {
            Some(prices) => std::fs::write(log.file("prices.json"), prices).unwrap(),
            None => drop(std::fs::remove_file(log.file("prices.json"))),
        }
        assert_eq!(told(), expected.0);
        let first = store();
        assert_eq!(total(&first), expected);
        drop(first);
        assert!(log.file("cache/sums").exists());
        assert_eq!(total(&store()), expected);
        assert_eq!(
            json!(expected.0),
            log.json(&["stats", "cost"])[0]["total"]["cost_usd"]
        );
        assert_eq!(
            json!(expected.0),
            log.json(&["stats"])[0]["total"]["cost_usd"]
        );
    }
}

#[test]
fn bad_prices_are_told_with_their_place() {
    let log = Log::keeping_all();
    log.record(&[conversation(1), message(11, 1, "hello")]);
    log.ok(&["doctor"]);
    for (prices, place) in [
        ("{}", "give a JSON array of providers"),
        (
            r#"[{"id":"p","models":[{"id":"m\u001b[2J","match":{"equals":"m"},"prices":{"input_mtok":-1}}]}]"#,
            "provider p, model m\\u{1b}[2J: input_mtok: give a number from 0",
        ),
    ] {
        std::fs::write(log.file("prices.json"), prices).unwrap();
        for args in [
            &["stats"][..],
            &["stats", "cost"][..],
            &["stats", "cost", "--by", "tool"][..],
        ] {
            let output = log.run(args);
            assert_eq!(code(&output), USAGE, "{args:?}");
            let told = err(&output);
            assert!(
                told.contains("prices.json") && told.contains(place),
                "{args:?}: {told}"
            );
        }
        let output = log.run(&["doctor"]);
        assert_eq!((code(&output), err(&output)), (FINDINGS, String::new()));
        let text = out(&output);
        let line = text.lines().find(|line| line.starts_with("prices "));
        assert!(line.unwrap().contains(place), "{text}");
        let report = &objects(&out(&log.run(&["doctor", "--json"])))[0];
        assert_eq!(report["findings"][0]["about"], "prices", "{report}");
        // The status line goes without what is not known.
        let output = log.run_with(&["statusline"], br#"{"cost":{"total_cost_usd":1.5}}"#);
        assert_eq!(
            (code(&output), out(&output)),
            (OK, "$1.50 session\n".to_owned())
        );
    }
    std::fs::remove_file(log.file("prices.json")).unwrap();
    assert!(log.ok(&["doctor"]).ends_with("\nall is well\n"));
    log.ok(&["stats", "cost"]);
}

/// A log with 0.5 US dollars spent now.
fn spent_now() -> Log {
    let log = Log::keeping_all();
    let now = Timestamp::now();
    log.record(&[
        conversation(1),
        answer(
            11,
            "own-1",
            &now.to_string(),
            r#""tokens_in":9,"cost_usd":0.3"#,
        ),
        answer(12, "gpt-5", &now.to_string(), r#""tokens_in":160000"#),
    ]);
    log
}

#[test]
fn budgets_are_told_of() {
    let log = spent_now();
    let set = |name: &str, value: &str| drop(log.ok(&["config", "set", name, value]));
    let without = log.ok(&["stats"]);
    set("budget.month", "1000");
    assert!(log.ok(&["doctor"]).ends_with("\nall is well\n"));
    let line = "$0.50 of $1000.00 spent this month (0.1 %)\n";
    assert_eq!(log.ok(&["stats"]), format!("{without}{line}"));
    assert!(log.ok(&["stats", "cost"]).ends_with(line));
    // Programs get them from doctor.
    assert_eq!(log.ok(&["stats", "cost", "--csv"]).lines().count(), 2);
    let report = &log.json(&["doctor"])[0];
    assert_eq!(report["budgets"][0]["period"], "month");
    assert_eq!(report["budgets"][0]["spent_usd"], 0.5);

    // A note, and no problem.
    set("budget.week", "0.6");
    let text = log.ok(&["doctor"]);
    assert!(
        text.contains("budget      $0.50 of $0.60 spent this week (83.3 %)\n"),
        "{text}"
    );
    set("budget.week", "0.5");
    assert!(log.ok(&["doctor"]).contains("this week (100.0 %)"));
    set("budget.day", "0.4");
    let output = log.run(&["doctor"]);
    assert_eq!(code(&output), FINDINGS);
    let text = out(&output);
    assert!(
        text.contains("budget      $0.50 of $0.40 spent this day (125.0 %)\n"),
        "{text}"
    );
    let report = &objects(&out(&log.run(&["doctor", "--json"])))[0];
    assert_eq!(report["good"], false);
    let periods = ["day", "week", "month"];
    for (budget, period) in report["budgets"].as_array().unwrap().iter().zip(periods) {
        assert_eq!(budget["period"], period, "{report}");
    }
    for name in ["budget.day", "budget.week", "budget.month"] {
        log.ok(&["config", "unset", name]);
    }
    assert_eq!(log.ok(&["stats"]), without);
    assert!(log.ok(&["doctor"]).ends_with("\nall is well\n"));
}

/// As Claude Code passes it.
const STATUS: &str = r#"{"hook_event_name":"Status","session_id":"abc123","transcript_path":"/t.jsonl",
    "cwd":"/w","model":{"id":"claude-opus-4-1","display_name":"Opus\u001b[2J"},
    "workspace":{"current_dir":"/w","project_dir":"/w"},"version":"1.0.80",
    "output_style":{"name":"default"},"cost":{"total_cost_usd":0.01234,"total_duration_ms":45000,
    "total_api_duration_ms":2300,"total_lines_added":156,"total_lines_removed":23}}"#;

#[test]
fn the_status_line_never_fails() {
    let log = spent_now();
    let line = |log: &Log, input: &[u8]| {
        let mut child = spawn(&mut log.command(&["statusline"]));
        // It may end before it has read everything.
        let _ = child.stdin.take().unwrap().write_all(input);
        let output = child.wait_with_output().unwrap();
        assert_eq!((code(&output), err(&output)), (OK, String::new()));
        out(&output)
    };
    let today = "$0.50 today | $0.50/h\n";
    // As in a store with an index; otherwise a reader makes no files.
    std::fs::create_dir(log.file("cache")).unwrap();
    // Twice: the second one has the figures of the first one.
    for _ in 0..2 {
        let found = line(&log, STATUS.as_bytes());
        assert_eq!(
            found,
            format!("Opus\\u{{1b}}[2J | $0.0123 session | {today}")
        );
    }
    assert!(log.file("cache/spending").exists());
    std::fs::write(log.file("cache/spending"), "damaged").unwrap();
    for input in [
        &b""[..],
        b"{",
        b"null",
        b"[1]",
        b"\xff\xfe\0",
        br#"{"model":7,"cost":{"total_cost_usd":"x"}}"#,
    ] {
        assert_eq!(line(&log, input), today, "{input:?}");
    }
    let huge = format!(
        r#"{{"model":{{"id":"m"}},"more":"{}"}}"#,
        "x".repeat(3 << 20)
    );
    assert_eq!(line(&log, huge.as_bytes()), today);
    log.ok(&["config", "set", "budget.day", "2"]);
    assert_eq!(line(&log, b""), "$0.50 today | $0.50/h | 25.0 % of $2.00\n");
    log.ok(&["config", "set", "budget.day", "0.25"]);
    assert_eq!(
        line(&log, b""),
        "$0.50 today | $0.50/h | 200.0 % of $0.25, over\n"
    );
    // What was added since counts.
    let now = Timestamp::now().to_string();
    log.record(&[answer(13, "x", &now, r#""tokens_in":9,"cost_usd":1"#)]);
    assert!(line(&log, b"").starts_with("$1.50 today | $1.50/h"));
    // Own prices count at once.
    std::fs::write(log.file("prices.json"), prices_of_gpt_5()).unwrap();
    assert!(line(&log, b"").starts_with("$1.62 today"));

    // Without a store, none is made.
    let none = Log::new();
    assert_eq!(
        line(&none, STATUS.as_bytes()),
        "Opus\\u{1b}[2J | $0.0123 session\n"
    );
    assert_eq!(line(&none, b""), "\n");
    assert!(!none.path().exists());
}

#[cfg(unix)]
#[test]
fn the_status_line_reads_a_store_that_cannot_be_written() {
    use std::os::unix::fs::PermissionsExt;

    let log = spent_now();
    let mode = |mode| {
        for dir in [log.path(), log.file("cache")] {
            if dir.exists() {
                std::fs::set_permissions(dir, std::fs::Permissions::from_mode(mode)).unwrap();
            }
        }
    };
    mode(0o555);
    for _ in 0..2 {
        let output = log.run_with(&["statusline"], b"");
        assert_eq!((code(&output), err(&output)), (OK, String::new()));
        assert_eq!(out(&output), "$0.50 today | $0.50/h\n");
    }
    mode(0o755);
}
