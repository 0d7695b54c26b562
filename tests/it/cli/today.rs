//! `decklog` without a command.

use decklog::Timestamp;

use super::*;

const DAY_MS: i64 = 86_400_000;

fn at(days_ago: i64) -> Timestamp {
    Timestamp::from_ms(Timestamp::now().at() - days_ago * DAY_MS).unwrap()
}

fn answer(n: u32, days_ago: i64, more: &str) -> String {
    let (own, conversation, at) = (id(100 + n), id(1), at(days_ago));
    format!(
        r#"{{"kind":"messages","id":"{own}","conversation_id":"{conversation}","role":"assistant","content":"2","timestamp":"{at}","tokens_in":12000,"tokens_cache_read":9000,"tokens_out":500,"cost_usd":0.5,"latency_ms":2000{more}}}"#
    )
}

fn log() -> Log {
    let log = Log::keeping_all();
    let (first, second, began) = (id(1), id(2), at(3));
    log.record(&[
        format!(
            r#"{{"kind":"conversations","id":"{first}","client":"cli","created_at":"{began}","title":"日本語の \u001b[2J title"}}"#
        ),
        format!(
            r#"{{"kind":"conversations","id":"{second}","client":"cli","created_at":"{began}","parent_id":"{first}","title":"of a sub-agent"}}"#
        ),
        answer(1, 0, r#","error":"gone""#),
        answer(2, 0, ""),
        answer(3, 1, ""),
        answer(4, 2, ""),
        answer(5, 2, ""),
        answer(6, 2, ""),
        request(1, at(0).at(), "bash", "{}"),
        // Its agent was stopped.
        request(2, at(2).at(), "bash", "{}"),
    ]);
    log
}

#[test]
fn today_stands_beside_the_usual_day() {
    let log = log();
    let command = || {
        let mut command = log.command(&[]);
        command
            .current_dir(log.dir.path())
            .env("DECKLOG_STORE", "log");
        command
    };
    snapshots::check_command("today", command);
    let found = log.json(&[]);
    assert_eq!(found.len(), 1);
    let found = &found[0];
    assert_eq!(found["exists"], true);
    assert_eq!(found["running_calls"], 1);
    assert_eq!(found["usual_days"], 2);
    assert_eq!(found["today"]["messages"], 2);
    assert_eq!(found["today"]["error_rate"], 0.5);
    assert_eq!(found["usual"]["cost_usd"], 1.0);
    assert_eq!(found["conversations"].as_array().unwrap().len(), 1);
    assert_eq!(
        found["conversations"][0]["shown_title"],
        "日本語の \u{1b}[2J title"
    );
}

#[test]
fn without_a_store_it_says_how_to_begin() {
    let log = Log::new();
    let text = log.ok(&[]);
    let start = format!("There is no log yet at {}\n", log.path().display());
    assert!(text.starts_with(&start), "{text}");
    for expected in ["decklog watch ", "decklog demo ", "decklog --help"] {
        assert!(text.contains(expected), "{text}");
    }
    let found = log.json(&[]);
    assert_eq!(found[0]["exists"], false);
    assert!(!log.path().exists());
    // What cannot be read is no missing store.
    std::fs::write(log.path(), "a file").unwrap();
    assert_eq!(code(&log.run(&[])), STORE);
}

#[test]
fn an_old_history_shows_its_conversations_in_place_of_zeros() {
    let log = Log::keeping_all();
    let (own, conversation, began) = (id(9), id(8), at(60));
    log.record(&[
        format!(
            r#"{{"kind":"conversations","id":"{conversation}","client":"cli","created_at":"{began}","title":"long ago"}}"#
        ),
        format!(
            r#"{{"kind":"messages","id":"{own}","conversation_id":"{conversation}","role":"user","content":"2","timestamp":"{began}"}}"#
        ),
    ]);
    let text = log.ok(&[]);
    assert!(
        text.contains("No messages today or in the 28 days before. For all days: decklog stats"),
        "{text}"
    );
    assert!(
        text.contains("60 d ago") && text.contains("long ago"),
        "{text}"
    );
    assert!(!text.contains("input tokens"), "{text}");
}
