//! `decklog du`: bytes by kind and day.

use super::*;

#[test]
fn every_byte_is_counted_once() {
    let log = Log::imported();
    log.record(&[turn(1, 1000, "of another day")]);
    let len = |name: &str| std::fs::metadata(log.file(name)).map_or(0, |it| it.len());
    let report = &log.json(&["du"])[0];
    let usage = report["usage"].as_array().unwrap();
    let mut sum = 0;
    for one in usage {
        let (day, kind) = (one["day"].as_str().unwrap(), one["kind"].as_str().unwrap());
        let bytes = one["bytes"].as_u64().unwrap();
        assert_eq!(bytes, len(&format!("{day}/{kind}.0001.jsonl")), "{one}");
        assert_eq!(one["segments"], 1);
        sum += bytes;
    }
    assert!(usage.len() > 4 && report["bytes"] == sum, "{report}");
    for by in ["day", "kind"] {
        let report = &log.json(&["du", "--by", by])[0];
        let parts = report["usage"].as_array().unwrap();
        assert!(parts.len() < usage.len(), "{report}");
        assert!(parts.iter().all(|part| part[by].is_string()), "{report}");
        let bytes = parts.iter().map(|part| part["bytes"].as_u64().unwrap());
        assert_eq!(bytes.sum::<u64>(), sum);
        assert_eq!(report["bytes"], sum);
    }

    // Files other than segments.
    std::fs::remove_file(log.file("cache/imports")).unwrap();
    for dir in ["cache/moves", "quarantine"] {
        std::fs::create_dir_all(log.file(dir)).unwrap();
    }
    let day = usage[0]["day"].as_str().unwrap();
    let beside = [
        ("cache/moves/7", "cache"),
        ("quarantine/it", "quarantine"),
        (&*format!("{day}/seals.jsonl"), "seals"),
        ("removals.jsonl", "removals"),
    ];
    for (number, (file, _)) in beside.iter().enumerate() {
        std::fs::write(log.file(file), "x".repeat(1000 + number)).unwrap();
    }
    let report = &log.json(&["du"])[0];
    for (number, (_, name)) in beside.iter().enumerate() {
        assert_eq!(report[format!("{name}_bytes")], 1000 + number, "{report}");
    }
    assert_eq!(report["bytes"], sum);
    let text = log.ok(&["du"]);
    let last: Vec<Vec<&str>> = text
        .lines()
        .rev()
        .take(5)
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(last[0], ["removals", "1,003"]);
    assert_eq!(last[3], ["cache", "1,000"]);
    assert_eq!(last[4][..2], ["total", &*usage.len().to_string()]);
}
