//! `decklog stats`: reports, as tables and as JSON.

use decklog::Store;
use decklog::analytics::{AnalyticsQuery, Bucket, Dimension};

use super::*;

const NAMES: [&str; 12] = [
    "usage",
    "models",
    "errors",
    "latency",
    "tasks",
    "context",
    "compression",
    "active",
    "dashboard",
    "projects",
    "sessions",
    "tools",
];

fn answer(n: u32, at: &str, more: &str) -> String {
    let (own, conversation) = (id(100 + n), id(1));
    format!(
        r#"{{"kind":"messages","id":"{own}","conversation_id":"{conversation}","role":"assistant","content":"2","timestamp":"{at}"{more}}}"#
    )
}

fn log() -> Log {
    let log = Log::keeping_all();
    let small = r#","model_used":"small-1","config_used":"fast","orchestration_mode":"cascade","task_type":"code","tokens_in":1200,"tokens_cache_read":900,"tokens_out":34,"cost_usd":0.25"#;
    log.record(&[
        conversation(1).replace('}', r#","project":"日本 \u001b[2J","title":"say, \"hi\""}"#),
        request(1, 1_766_822_400_000, "bash", r#"{"command":"ls"}"#),
        failed(1, 1_766_822_400_005, "gone"),
        request(2, 1_766_822_400_000, "日本語\u{202e}", "{}"),
        message(1, 1, "hello"),
        answer(
            1,
            "2025-12-27T08:00:00Z",
            &format!(r#"{small},"latency_ms":100,"context_utilization":0.25"#),
        ),
        answer(
            2,
            "2025-12-27T09:00:00Z",
            &format!(r#"{small},"latency_ms":2000,"context_utilization":0.75"#),
        ),
        answer(
            3,
            "2025-12-28T23:59:59.999Z",
            r#","model_used":"big\u001b[2J","error":"gone\nfor good\u001b[31m","error_type":"time\u202eout","compression_applied":true"#,
        ),
    ]);
    log
}

#[test]
fn json_is_what_the_library_says() {
    let log = log();
    let days = ["--since", "2025-12-27", "--until", "2025-12-29"];
    let [since, until] = [days[1], days[3]].map(|day| Some(day.parse().unwrap()));
    let query = AnalyticsQuery {
        since,
        until,
        ..AnalyticsQuery::default()
    };
    let store = Store::options().read_only(true).open(log.path()).unwrap();
    let analytics = store.analytics();
    let by_week = AnalyticsQuery {
        group: Some(vec![Dimension::Model, Dimension::TaskType]),
        bucket: Some(Bucket::Week),
        limit: Some(1),
        ..query.clone()
    };
    let json = |args: &[&str]| {
        let args: Vec<&str> = ["stats"].iter().chain(args).chain(&days).copied().collect();
        log.json(&args)
    };
    let expected = [
        serde_json::to_value(analytics.usage(&query).unwrap()),
        serde_json::to_value(analytics.models(&query).unwrap()),
        serde_json::to_value(analytics.errors(&query).unwrap()),
        serde_json::to_value(analytics.latency(&query).unwrap()),
        serde_json::to_value(analytics.tasks(&query).unwrap()),
        serde_json::to_value(analytics.context(&query).unwrap()),
        serde_json::to_value(analytics.compression(&query).unwrap()),
        serde_json::to_value(analytics.active(&query).unwrap()),
        serde_json::to_value(analytics.dashboard(&query).unwrap()),
        serde_json::to_value(analytics.projects(&query).unwrap()),
        serde_json::to_value(analytics.sessions(&query).unwrap()),
        serde_json::to_value(analytics.tools(&query).unwrap()),
    ];
    for (name, expected) in NAMES.into_iter().zip(expected) {
        assert_eq!(json(&[name]), [expected.unwrap()], "{name}");
    }
    let args = [
        "models",
        "--group",
        "task_type,model",
        "--bucket",
        "week",
        "--limit",
        "1",
    ];
    let expected = serde_json::to_value(analytics.models(&by_week).unwrap()).unwrap();
    assert_eq!(expected["rows"][0]["bucket"], "2025-12-22");
    assert_eq!(json(&args), [expected]);
}

#[test]
fn tables_are_for_people() {
    let log = log();
    let since = ["--since", "2025-12-27"];
    let text = |args: &[&str]| {
        let args: Vec<&str> = ["stats"]
            .iter()
            .chain(args)
            .chain(&since)
            .copied()
            .collect();
        log.ok(&args)
    };
    let expected = "\
MODEL         CONFIG  REQUESTS    AVG     P50    P95    P99  TOKENS IN  TOKENS OUT   COST  CONTEXT  ERRORS     RATE  REQUESTS
small-1       fast           2  1.1 s  100 ms  2.0 s  2.0 s      2,400          68  $0.50   50.0 %       0    0.0 %  ████████████████████
big\\u{1b}[2J  -              1      -       -      -      -          0           0      -        -       1  100.0 %  ██████████
total                        3  1.1 s  100 ms  2.0 s  2.0 s      2,400          68  $0.50   50.0 %       1   33.3 %
";
    assert_eq!(text(&["models"]), expected);
    let expected = "\
MODEL         ERROR TYPE       ERRORS
big\\u{1b}[2J  time\\u{202e}out       1  ████████████████████
total                               1

the latest:
2025-12-28 23:59:59.999  big\\u{1b}[2J  time\\u{202e}out  gone↵for good\\u{1b}[31m
";
    assert_eq!(text(&["errors"]), expected);
    let expected = "\
DAY         CONVERSATIONS
2025-12-27              1  ████████████████████
2025-12-28              1  ████████████████████
";
    assert_eq!(text(&["active"]), expected);
    let expected = "\
MONTH       TASK                  REQUESTS   SHARE
2025-12-01  code                         2  66.7 %  ████████████████████
2025-12-01  -                            1  33.3 %  ██████████
total                                    3  100.0 %
";
    // Columns are as wide as their widest value.
    let found = text(&["tasks", "--bucket", "month"]);
    let squeezed = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(squeezed(&found), squeezed(expected));
    let expected = "\
days           since 2025-12-27
conversations  1
messages       4
tokens         2,400 in, 68 out
latency        avg 1.1 s, p95 2.0 s
errors         33.3 %
context        50.0 %
compressed     33.3 %
models         small-1 2, big\\u{1b}[2J 1
configs        fast 2
tasks          code 2
";
    assert_eq!(text(&["dashboard"]), expected);
    for name in NAMES {
        let shown = text(&[name]);
        assert!(!shown.contains(['\u{1b}', '\u{202e}']), "{name}: {shown}");
    }
}

#[test]
fn what_makes_no_sense_is_told() {
    let log = log();
    for (args, words) in [
        (&["stats", "--by", "day,week"][..], "several periods"),
        (&["stats", "--by", "tool,day"][..], "cannot be combined"),
        (
            &["stats", "errors", "--by", "session"][..],
            "cannot be combined",
        ),
        (
            &["stats", "--by", "day", "--bucket", "day"][..],
            "cannot be used with",
        ),
        (&["stats", "--csv", "--json"][..], "not both"),
        (&["stats", "dashboard", "--csv"][..], "no table"),
        (&["stats", "weather"][..], "possible values: usage"),
        (
            &["stats", "usage", "--since", "27.12.2025"][..],
            "a day (2025-12-27)",
        ),
        (
            &["stats", "usage", "--group", "model,user"][..],
            "task_type",
        ),
        (&["stats", "usage", "--bucket", "hour"][..], "month"),
        (
            &[
                "stats",
                "usage",
                "--since",
                "2025-12-28",
                "--until",
                "2025-12-27",
            ][..],
            "until must be later",
        ),
        (
            &["stats", "active", "--group", "model"][..],
            "active has no groups: omit them",
        ),
        (
            &["stats", "projects", "--bucket", "day"][..],
            "projects has no rows by day, week or month: omit the period",
        ),
        (
            &["stats", "usage", "--limit", "1000000"][..],
            "at most 100000",
        ),
    ] {
        let output = log.run(args);
        assert_eq!(code(&output), USAGE, "{args:?}");
        assert!(err(&output).contains(words), "{args:?}: {}", err(&output));
    }
    let none = log.run(&["stats", "models", "--until", "2025-01-01"]);
    assert_eq!((code(&none), out(&none)), (OK, String::new()));
    assert!(err(&none).contains("there is nothing to report"));
    let limited = log.run(&["stats", "usage", "--limit", "1"]);
    assert!(
        err(&limited).contains("1 of 3 rows shown"),
        "{}",
        err(&limited)
    );
}

#[test]
fn rows_are_by_what_is_asked() {
    let log = log();
    let by = |by: &str| log.ok(&["stats", "--by", by]);
    assert_eq!(log.ok(&["stats"]), by("day"));
    let expected = "\
DAY         MESSAGES  REQUESTS  INPUT  CACHE READ  CACHE WRITE  WRITE 1H  OUTPUT  REASONING  TOKENS   COST
2025-12-27         3         2    600       1,800            0         0      68          0   2,468  $0.50  ████████████████████
2025-12-28         1         1      0           0            0         0       0          0       0      -
total              4         3    600       1,800            0         0      68          0   2,468  $0.50
";
    assert_eq!(by("day"), expected);
    let names = |text: &str| -> Vec<String> {
        let lines = text.lines().map(|line| line.split("  ").next().unwrap());
        lines.map(|name| name.trim().to_owned()).collect()
    };
    assert_eq!(names(&by("month")), ["MONTH", "2025-12-01", "total"]);
    assert_eq!(
        names(&by("model")),
        ["MODEL", "small-1", "big\\u{1b}[2J", "-", "total"]
    );
    assert_eq!(
        names(&by("project")),
        ["PROJECT", "日本 \\u{1b}[2J", "total"]
    );
    assert_eq!(
        names(&by("session")),
        ["CONVERSATION", &id(1)[..13], "total"]
    );
    assert_eq!(
        names(&by("tool")),
        ["TOOL", "bash", "日本語\\u{202e}", "total"]
    );
    assert!(
        by("tool").contains("100.0 %  5 ms  5 ms  5 ms  5 ms"),
        "{}",
        by("tool")
    );
    assert_eq!(log.ok(&["stats", "sessions"]), by("session"));
    let json = |args: &[&str]| log.json(args);
    let months = json(&["stats", "usage", "--bucket", "month", "--group", "model"]);
    assert_eq!(json(&["stats", "--by", "model,month"]), months);
}

#[test]
fn csv_is_for_programs() {
    let log = log();
    let expected = "\
day,model_used,messages,requests,tokens_input,tokens_cache_read,tokens_cache_write,tokens_cache_write_1h,tokens_out,tokens_reasoning,tokens,cost_usd
2025-12-27,small-1,2,2,600,1800,0,0,68,0,2468,0.5
2025-12-27,,1,0,0,0,0,0,0,0,0,
2025-12-28,big\u{1b}[2J,1,1,0,0,0,0,0,0,0,
";
    assert_eq!(log.ok(&["stats", "--by", "day,model", "--csv"]), expected);
    let sessions = log.ok(&["stats", "--by", "session", "--csv"]);
    let (id, project) = (id(1), "日本 \u{1b}[2J");
    let row = format!(r#"{id},{project},"say, ""hi""",4,600,1800,0,0,68,0,1,2468,0.5"#);
    assert_eq!(sessions.lines().nth(1), Some(&*row));
    let none = log.ok(&["stats", "--until", "2025-01-01", "--csv"]);
    assert_eq!(none.lines().count(), 1);
}

/// The same rule as that of `export csv`.
#[test]
fn csv_may_be_for_spreadsheets() {
    let log = Log::new();
    let mut lines = vec![conversation(1)];
    for (n, model) in [(2, "=1+1"), (3, "@sum"), (4, "plain"), (5, "1-2")] {
        let model = format!(r#""role":"assistant","model_used":"{model}""#);
        lines.push(message(n, 1, "said").replace(r#""role":"user""#, &model));
    }
    log.record(&lines);
    let models = |text: &str| -> Vec<String> {
        let names = text.lines().skip(1);
        let names = names.map(|line| line.split(',').next().unwrap().to_owned());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    };
    let args = ["stats", "--by", "model", "--csv"];
    let plain = log.ok(&args);
    assert!(plain.starts_with("model_used,"), "{plain}");
    assert_eq!(models(&plain), ["1-2", "=1+1", "@sum", "plain"]);
    let guarded = log.ok(&[&args[..], &["--spreadsheet"]].concat());
    assert!(guarded.starts_with("\u{feff}model_used,"), "{guarded}");
    assert_eq!(models(&guarded), ["'=1+1", "'@sum", "1-2", "plain"]);
    let output = log.run(&["stats", "--spreadsheet"]);
    assert_eq!(code(&output), USAGE);
    assert!(err(&output).contains("--csv"), "{}", err(&output));
}

#[test]
fn tables_fit_every_width() {
    let log = log();
    for by in ["day,model", "project", "session", "tool"] {
        let name = format!("stats-{}", by.replace(',', "-"));
        snapshots::check(&log, &name, &["stats", "--by", by]);
    }
    let since = ["stats", "models", "--since", "2025-12-27"];
    snapshots::check(&log, "stats-models", &since);
    snapshots::check(&log, "stats-errors", &["stats", "errors"]);
}
