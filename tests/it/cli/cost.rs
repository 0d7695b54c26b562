//! `decklog stats cost` and the price table.

mod plain;
mod spending;

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
    let note = "$0.00 recorded by agents, $0.0754 computed from the price table\n";
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
            "cannot be grouped by config, mode",
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
            "provider p, model m\\u{1b}[2J: input_mtok: give a number of at least 0",
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
