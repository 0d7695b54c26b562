//! The syntax of settings' values, as people write them.

use serde_json::Value;

use crate::error::{Error, Result};
use crate::privacy::AccessRole;
use crate::store::Usd;

/// The syntax of a setting's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Flag,
    Days,
    Keep,
    Bytes,
    Patterns,
    Roles,
    Usd,
}

impl Form {
    /// Parses the value. The name is for error messages.
    pub(super) fn parse(self, name: &str, text: &str) -> Result<Value> {
        let text = text.trim();
        let wrong = |what: &str| Error::invalid(format!("{name} is {text:?}: give {what}"));
        match self {
            Form::Flag => match text {
                "true" => Ok(Value::Bool(true)),
                "false" => Ok(Value::Bool(false)),
                _ => Err(wrong("true or false")),
            },
            Form::Days | Form::Keep => {
                if self == Form::Keep && text == "forever" {
                    return Ok(Value::from(text));
                }
                let what = if self == Form::Keep {
                    "a number of days or forever"
                } else {
                    "a number of days"
                };
                let days = text.parse::<u32>();
                days.map(Value::from).map_err(|_| wrong(what))
            }
            Form::Bytes => parse_bytes(text)
                .map(Value::from)
                .ok_or_else(|| wrong("a number of bytes, such as 10GB or 512MiB")),
            Form::Usd => {
                let usd = text.trim_start_matches('$').parse::<f64>().ok();
                let usd = usd.and_then(Usd::new);
                usd.map(|usd| Value::from(usd.get()))
                    .ok_or_else(|| wrong("US dollars above 0, such as 20 or 12.50"))
            }
            Form::Patterns => serde_json::from_str(text).map_err(|e| {
                let example = r#"[{"name":"ticket","regex":"TICKET-[0-9]+"}]"#;
                wrong(&format!("a JSON array, as {example} ({e})"))
            }),
            Form::Roles => {
                let given = if text.starts_with('[') {
                    serde_json::from_str(text)
                        .map_err(|e| wrong(&format!("a list of roles ({e})")))?
                } else {
                    let words = text
                        .split(',')
                        .map(str::trim)
                        .filter(|word| !word.is_empty());
                    words.map(str::parse).collect::<Result<Vec<AccessRole>>>()?
                };
                // Sort the roles and remove duplicates.
                let has = |role: &AccessRole| given.contains(role);
                let roles = AccessRole::ALL.iter().rev().copied().filter(has);
                Ok(roles.map(AccessRole::as_str).collect())
            }
        }
    }
}

/// Parses a number of bytes, with or without a unit.
fn parse_bytes(text: &str) -> Option<u64> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let factor = match &*unit.trim().to_ascii_lowercase() {
        "" | "b" => 1,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        "kib" => 1 << 10,
        "mib" => 1 << 20,
        "gib" => 1 << 30,
        "tib" => 1 << 40,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_units() {
        for (text, bytes) in [
            ("1048576", Some(1 << 20)),
            ("10GB", Some(10_000_000_000)),
            ("1 gib", Some(1 << 30)),
            ("2TB", Some(2_000_000_000_000)),
            ("GB", None),
            ("1.5GB", None),
            ("18446744073709551616", None),
        ] {
            assert_eq!(parse_bytes(text), bytes, "{text}");
        }
    }
}
