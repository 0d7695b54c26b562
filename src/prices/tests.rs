use super::*;
use crate::error::ErrorKind;

/// 2025-12-09, before and after changes of prices.
const AT: i64 = 1_765_238_400_000;

fn tokens() -> Tokens {
    Tokens {
        input: 100_000,
        cache_write: 10_000,
        cache_write_1h: 4_000,
        cache_read: 80_000,
        output: 1_000,
        reasoning: 400,
        prompt: 100_000,
    }
}

fn built_in_cost(model: &str, tokens: &Tokens) -> Option<u64> {
    Prices::new(None).unwrap().nano_usd(model, AT, tokens)
}

#[test]
fn every_price_and_pattern_of_the_built_in_table_is_valid() {
    let table = Table::checked(BUILT_IN.as_bytes()).unwrap();
    assert!(table.ids().len() > 2_000);
}

/// The figures are those of `genai-prices` 0.2.1, or worked out by hand.
#[test]
fn kinds_of_tokens_have_prices_of_their_own() {
    // 10,000 at 3, 6,000 at 3.75, 4,000 at 6, 80,000 at 0.3 and 1,000 at 15 US dollars a million.
    let sonnet = built_in_cost("claude-sonnet-4-5-20250929", &tokens());
    assert_eq!(
        sonnet,
        Some(30_000_000 + 22_500_000 + 24_000_000 + 24_000_000 + 15_000_000)
    );
    // Without a price for cache writes: 20,000 at 1.25, 80,000 at 0.125 and 1,000 at 10.
    let codex = built_in_cost("gpt-5-codex", &tokens());
    assert_eq!(codex, Some(25_000_000 + 10_000_000 + 10_000_000));
}

#[test]
fn long_prompts_have_the_prices_of_their_tier() {
    let long = Tokens {
        input: 250_000,
        cache_read: 200_000,
        prompt: 250_000,
        ..tokens()
    };
    // 40,000 at 6, 6,000 at 7.5, 4,000 at 12, 200,000 at 0.6 and 1,000 at 22.5.
    let cost = built_in_cost("claude-sonnet-4-5", &long);
    assert_eq!(
        cost,
        Some(240_000_000 + 45_000_000 + 48_000_000 + 120_000_000 + 22_500_000)
    );
    let limit = Tokens {
        prompt: 200_000,
        ..long
    };
    assert!(built_in_cost("claude-sonnet-4-5", &limit) < cost);
}

#[test]
fn prices_are_those_in_force_at_the_time() {
    let prices = Prices::new(None).unwrap();
    let one = Tokens {
        input: 1_000_000,
        prompt: 0,
        ..Tokens::default()
    };
    let at = |day: &str| day.parse::<crate::record::Day>().unwrap().bounds_ms().0;
    let long = Tokens {
        prompt: 1_000_000,
        ..one
    };
    let cost = |day, tokens| prices.nano_usd("claude-opus-4-6", at(day), tokens).unwrap();
    assert_eq!(cost("2026-03-12", &long), 10_000_000_000);
    assert_eq!(cost("2026-03-13", &long), 5_000_000_000);
    assert_eq!(cost("2026-03-12", &one), 5_000_000_000);
}

#[test]
fn names_of_models_are_found_as_agents_write_them() {
    let sonnet = built_in_cost("claude-sonnet-4-20250514", &tokens());
    assert!(sonnet.is_some());
    for name in [
        "anthropic/claude-sonnet-4-20250514",
        "Anthropic/Claude-Sonnet-4-20250514",
        "some-gateway/anthropic/claude-sonnet-4-20250514",
        "us.anthropic.claude-sonnet-4-20250514-v1:0",
        "global.anthropic.claude-sonnet-4-20250514-v1:0",
        "claude-sonnet-4@20250514",
    ] {
        let found = built_in_cost(name, &tokens());
        assert!(found >= sonnet, "{name}: {found:?}");
    }
    let gpt = built_in_cost("gpt-5.2-2025-12-11", &tokens());
    assert!(gpt.is_some());
    for name in [
        "gpt-5.2",
        "gpt-5.2-20251211",
        "openai/gpt-5.2",
        "azure/gpt-5.2",
    ] {
        assert_eq!(built_in_cost(name, &tokens()), gpt, "{name}");
    }
    assert!(built_in_cost("devstral-2512", &tokens()).is_some());
    for name in [
        "",
        "small-1",
        "<synthetic>",
        "nobody/none",
        "gpt-",
        "text-embedding",
    ] {
        assert_eq!(built_in_cost(name, &tokens()), None, "{name}");
    }
}

const OWN: &str = r#"[{"id":"mine","model_match":{"starts_with":"Mine-"},"models":[
    {"id":"mine-1","match":{"equals":"mine-1"},"prices":{"input_mtok":1,"output_mtok":2}},
    {"id":"free","match":{"regex":"^mine-free(?:-\\d+)?$"},"prices":{"input_mtok":0,"output_mtok":0}},
    {"id":"claude-x","match":{"contains":"claude-x"},"prices":[
        {"prices":{"input_mtok":10,"output_mtok":20,"cache_write_mtok":12.5}},
        {"constraint":{"start_time":"23:00:00Z","end_time":"01:00:00Z"},"prices":{"input_mtok":1,"output_mtok":1}}]}]},
    {"id":"openai","model_match":{"starts_with":"gpt-"},"models":[
    {"id":"gpt-5","match":{"equals":"gpt-5"},"prices":{"input_mtok":7,"output_mtok":7}}]}]"#;

#[test]
fn the_models_of_a_store_go_before() {
    let prices = Prices::new(Some(OWN.as_bytes())).unwrap();
    let one = Tokens {
        input: 1_000_000,
        prompt: 1_000_000,
        ..Tokens::default()
    };
    let cost = |model, at| prices.nano_usd(model, at, &one);
    assert_eq!(cost("mine-1", AT), Some(1_000_000_000));
    assert_eq!(cost("mine-free-7", AT), Some(0));
    assert_eq!(cost("gpt-5", AT), Some(7_000_000_000));
    // Other models of the provider are in the built-in table.
    assert_eq!(cost("gpt-5-codex", AT), Some(1_250_000_000));
    // By the time of the day, across midnight.
    let name = "mine/claude-x";
    assert_eq!(cost(name, AT), Some(1_000_000_000));
    assert_eq!(cost(name, AT + 3_600_000), Some(10_000_000_000));
    // One of Anthropic without a price for cache writes of one hour.
    let write = Tokens {
        input: 1_000_000,
        cache_write: 1_000_000,
        cache_write_1h: 500_000,
        ..one
    };
    let at = AT + 3_600_000;
    assert_eq!(
        prices.nano_usd(name, at, &write),
        Some(6_250_000_000 + 10_000_000_000)
    );
    let plain = Prices::new(None).unwrap();
    assert_ne!(plain.fingerprint, prices.fingerprint);
    assert_eq!(plain.fingerprint, Prices::new(None).unwrap().fingerprint);
}

#[test]
fn what_is_no_table_is_refused_with_its_place() {
    let model = |prices: &str| {
        format!(
            r#"[{{"id":"p","models":[{{"id":"m","match":{{"equals":"m"}},"prices":{prices}}}]}}]"#
        )
    };
    for (table, told) in [
        ("{}".to_owned(), "JSON array of providers"),
        ("[{}]".to_owned(), "missing field `id`"),
        (model("3"), "provider p, model m: prices"),
        (
            model(r#"{"input_mtok":-1}"#),
            "input_mtok: give a number of at least 0",
        ),
        (
            model(
                r#"{"output_mtok":{"base":1,"tiers":[{"start":9,"price":1},{"start":3,"price":1}]}}"#,
            ),
            "ascending",
        ),
        (model("[]"), "exactly one"),
        (
            model(
                r#"[{"prices":{}},{"constraint":{"start_time":"1:00","end_time":"02:00:00Z"},"prices":{}}]"#,
            ),
            "is not a time of day",
        ),
        (
            model("{}").replace("equals\":\"m", "regex\":\"("),
            "the pattern",
        ),
        (model("{}").replace("equals", "same"), "unknown variant"),
    ] {
        let error = Prices::new(Some(table.as_bytes())).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        let text = error.to_string();
        assert!(
            text.contains("prices.json") && text.contains(told),
            "{table}: {text}"
        );
    }
}
