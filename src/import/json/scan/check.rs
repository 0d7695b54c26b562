//! Property for any text: the fast reader returns what the parser returns, or nothing.

#![allow(clippy::unwrap_used)]

use serde_json::value::RawValue;

use super::{Raw, array, object};
use crate::import::json::{self, shapes};

shapes! {
    Sample {
        a: "a",
        b: "b",
        name: "a longer name",
    }
}

fn members(sample: &Sample<'_>) -> [Option<String>; 3] {
    [sample.a, sample.b, sample.name].map(|raw| raw.get().map(str::to_owned))
}

/// Checks that a result of the fast reader equals the result of the parser.
///
/// # Panics
/// If they differ.
pub(crate) fn any_text(text: &str) {
    if let Some(quick) = object::<Sample<'_>>(text) {
        let slow = json::parsed::<Sample<'_>>(text).unwrap().unwrap();
        assert_eq!(members(&quick), members(&slow), "{text}");
    }
    if text.starts_with('[')
        && let Some(quick) = array(text)
    {
        let slow: Vec<&RawValue> = serde_json::from_str(text).unwrap();
        let slow: Vec<&str> = slow.into_iter().map(RawValue::get).collect();
        assert_eq!(quick, slow, "{text}");
    }
    if let Ok(raw) = serde_json::from_str::<Raw<'_>>(text) {
        let said = json::text(raw).ok();
        let slow = raw.string().map(serde_json::from_str::<String>).transpose();
        assert_eq!(said, slow.map(|text| text.map(Into::into)).ok(), "{text}");
        let at = json::timestamp(raw);
        if raw.get().is_none() {
            assert_eq!(at, Ok(None));
        } else {
            assert_eq!(at.ok().flatten(), slow_timestamp(raw), "{text}");
        }
    }
}

/// The time as the full date parser reads it.
fn slow_timestamp(raw: Raw<'_>) -> Option<i64> {
    let text = json::text(raw).ok()??;
    let time = chrono::DateTime::parse_from_rfc3339(&text).ok()?;
    let at = time.timestamp_millis();
    crate::record::Day::of(at).is_ok().then_some(at)
}
