//! `/metrics` is accepted by a strict `OpenMetrics` parser, and its values are right.

use std::collections::BTreeMap;

use serde_json::json;

use super::Service;
use super::sse::Events;

/// The contents of `/metrics`: values by name and labels, as written.
struct Scrape(BTreeMap<String, String>);

impl Scrape {
    fn of(service: &Service) -> Scrape {
        let answer = service.client().get("/metrics");
        assert_eq!(answer.status, 200);
        let media_type = answer.header("content-type").unwrap();
        assert!(media_type.starts_with("application/openmetrics-text"));
        Scrape::read(answer.text())
    }

    fn read(text: &str) -> Scrape {
        let body = text.strip_suffix("# EOF\n").expect("it ends");
        let (mut types, mut values) = (BTreeMap::new(), BTreeMap::new());
        let mut family = String::new();
        for line in body.lines() {
            if let Some(described) = line.strip_prefix("# ") {
                let mut words = described.splitn(3, ' ');
                let (what, name, rest) = (words.next(), words.next(), words.next());
                let (name, rest) = (name.unwrap(), rest.unwrap());
                assert!(!rest.is_empty(), "{line}");
                match what.unwrap() {
                    "HELP" | "UNIT" => {}
                    "TYPE" => {
                        let known = types.insert(name.to_owned(), rest.to_owned());
                        assert!(known.is_none(), "described twice: {line}");
                    }
                    _ => panic!("{line}"),
                }
                name.clone_into(&mut family);
                continue;
            }
            let (series, value) = line.rsplit_once(' ').unwrap();
            let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
            let labels = labels.strip_suffix('}').unwrap();
            for label in labels.split("\",").filter(|label| !label.is_empty()) {
                let (key, text) = label.split_once("=\"").unwrap();
                let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
                assert!(!key.is_empty() && key.chars().all(is_name), "{line}");
                assert!(!text.trim_end_matches('"').contains(['"', '\\']), "{line}");
            }
            let suffix = name.strip_prefix(family.as_str());
            let suffix = suffix.unwrap_or_else(|| panic!("not described: {line}"));
            let suffixes: &[&str] = match types[&family].as_str() {
                "gauge" => &[""],
                "counter" => &["_total"],
                "histogram" => &["_bucket", "_sum", "_count"],
                other => panic!("{other}: {line}"),
            };
            assert!(suffixes.contains(&suffix), "{line}");
            let number: f64 = value.parse().unwrap();
            assert!(number.is_finite() && number >= 0.0, "{line}");
            let known = values.insert(series.to_owned(), value.to_owned());
            assert!(known.is_none(), "said twice: {line}");
        }
        let scrape = Scrape(values);
        scrape.check_histograms();
        scrape
    }

    /// Buckets are cumulative, and the last one counts everything.
    fn check_histograms(&self) {
        let mut buckets: BTreeMap<String, Vec<(f64, u64)>> = BTreeMap::new();
        for (series, value) in &self.0 {
            if let Some((name, labels)) = series.split_once("_bucket{") {
                let (start, rest) = labels.split_once("le=\"").unwrap();
                let (bound, rest) = rest.split_once('"').unwrap();
                let labels = format!("{start}{rest}");
                let labels = labels.trim_end_matches('}').trim_matches(',');
                let of = buckets.entry(format!("{name} {labels}")).or_default();
                let bound = bound.replace("+Inf", "inf").parse().unwrap();
                of.push((bound, value.parse().unwrap()));
            }
        }
        assert!(!buckets.is_empty());
        for (of, mut buckets) in buckets {
            buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
            assert!(buckets.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1), "{of}");
            let (name, labels) = of.split_once(' ').unwrap();
            let count = if labels.is_empty() {
                format!("{name}_count")
            } else {
                format!("{name}_count{{{labels}}}")
            };
            let last = buckets.last().unwrap();
            assert!(last.0.is_infinite(), "{of}");
            assert_eq!(last.1, self.get(&count), "{of}");
        }
    }

    #[track_caller]
    fn get(&self, series: &str) -> u64 {
        let value = self.0.get(series);
        let value = value.unwrap_or_else(|| panic!("{series} is not there: {:?}", self.0.keys()));
        value.parse().unwrap()
    }
}

#[test]
fn what_happened_is_counted() {
    let service = Service::start();
    let client = service.client();
    let before = Scrape::of(&service);
    assert_eq!(before.get("decklog_last_seq"), 0);
    assert_eq!(before.get("decklog_fsync_seconds_count"), 0);
    let begun = client
        .post("/conversations", &json!({"client": "api"}))
        .expect(201);
    let path = format!("/conversations/{}/messages", begun["id"].as_str().unwrap());
    let message = json!({"id": uuid::Uuid::new_v4(), "role": "user", "content": "hi"});
    client.post(&path, &message).expect(201);
    client.post(&path, &message).expect(200);
    let other = json!({"role": "user", "content": "ho", "sequence": 1});
    client.post(&path, &other).expect(409);
    client
        .post(
            &format!("{path}?wait=disk"),
            &json!({"role": "user", "content": "ho"}),
        )
        .expect(201);
    // More than fits into the queue.
    let body = b"{\"kind\":\"events\",\"event_type\":\"test.said\"}";
    let lines = client.with("Content-Type", "application/x-ndjson");
    assert_eq!(lines.send("POST", "/records", body).status, 200);
    let stream = Events::open(&client, "", None);
    let now = Scrape::of(&service);
    for (series, value) in [
        ("decklog_last_seq", 4),
        ("decklog_store_readable", 1),
        ("decklog_store_poisoned", 0),
        ("decklog_queue_length", 0),
        ("decklog_queue_records_total{outcome=\"written\"}", 3),
        ("decklog_queue_records_total{outcome=\"unchanged\"}", 1),
        ("decklog_queue_records_total{outcome=\"rejected\"}", 1),
        ("decklog_queue_records_total{outcome=\"refused\"}", 0),
        ("decklog_queue_records_total{outcome=\"failed\"}", 0),
        ("decklog_lines_appended_total{kind=\"messages\"}", 2),
        ("decklog_lines_appended_total{kind=\"events\"}", 1),
        ("decklog_lines_appended_total{kind=\"inbox\"}", 0),
        ("decklog_records{kind=\"messages\"}", 2),
        ("decklog_segments{kind=\"conversations\"}", 1),
        ("decklog_damage{class=\"torn\"}", 0),
        ("decklog_http_streams", 1),
        (
            "decklog_http_request_seconds_count{method=\"POST\",route=\"/records\",status=\"200\"}",
            1,
        ),
        (
            "decklog_http_request_seconds_count{method=\"POST\",route=\"/conversations/{id}/messages\",status=\"409\"}",
            1,
        ),
    ] {
        assert_eq!(now.get(series), value, "{series}");
    }
    assert!(now.get("decklog_fsync_seconds_count") >= 1);
    assert!(now.get("decklog_http_connections") >= 2);
    let health = service.store.health().unwrap();
    let bytes = |kind: &str| now.get(&format!("decklog_segment_bytes{{kind=\"{kind}\"}}"));
    let all: u64 = decklog::Kind::ALL
        .iter()
        .map(|kind| bytes(kind.stem()))
        .sum();
    assert_eq!(all, health.bytes());
    drop(stream);
}

/// Monitoring of damage uses this metric.
#[test]
fn damage_is_counted() {
    let service = Service::start();
    let seq = service.store.log_event(None, "test.said", None).unwrap();
    assert_eq!(seq, 1);
    let file = service.store.last_lines(1).unwrap()[0].file.clone();
    let path = service.store.path().join(file);
    let mut file = std::fs::File::options().append(true).open(path).unwrap();
    std::io::Write::write_all(&mut file, b"no line\n").unwrap();
    service.store.log_event(None, "test.said", None).unwrap();
    assert_eq!(
        Scrape::of(&service).get("decklog_damage{class=\"damaged\"}"),
        1
    );
}

#[test]
fn budgets_are_told_of() {
    let service = Service::start();
    let series = |what: &str, period: &str| format!("decklog_{what}_usd{{period=\"{period}\"}}");
    assert!(
        !Scrape::of(&service)
            .0
            .contains_key(&series("budget", "day"))
    );
    service
        .store
        .change_settings(|it| {
            it.budget.day = decklog::analytics::Usd::new(0.25);
            it.budget.month = decklog::analytics::Usd::new(20.0);
        })
        .unwrap();
    let client = service.client();
    let begun = client
        .post("/conversations", &json!({"client": "api"}))
        .expect(201);
    let path = format!("/conversations/{}/messages", begun["id"].as_str().unwrap());
    let message = json!({"role": "assistant", "content": "hi", "cost_usd": 0.5});
    client.post(&path, &message).expect(201);
    let now = Scrape::of(&service);
    for (what, period, usd) in [
        ("budget", "day", 0.25),
        ("spent", "day", 0.5),
        ("budget", "month", 20.0),
        ("spent", "month", 0.5),
    ] {
        let found = now.0[&series(what, period)].parse::<f64>();
        assert_eq!(found, Ok(usd), "{what} {period}");
    }
    assert!(!now.0.contains_key(&series("budget", "week")));
}
