//! Numbers, durations and texts as people read them, for what is shown on a screen.
//!
//! ```
//! use decklog::human;
//!
//! assert_eq!(human::count(12_345), "12,345");
//! assert_eq!(human::short(12_345.0), "12.3 k");
//! assert_eq!(human::duration(271_000), "4 m 31 s");
//! assert_eq!(human::dollars(0.0042), "$0.0042");
//! ```

use std::borrow::Cow;

use serde_json::Value;

/// A number with its digits in groups of three: `12,345`.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A large number in a few characters: `950`, `12.3 k`, `4.5 M`.
pub fn short(number: f64) -> String {
    let units = [(1e9, "G"), (1e6, "M"), (1e3, "k")];
    // 999.95 would be shown as 1000.0.
    let unit = units
        .iter()
        .find(|(size, _)| number.abs() >= size * 0.99995);
    match unit {
        Some((size, unit)) => format!("{:.1} {unit}", number / size),
        None if number.fract() == 0.0 => format!("{number:.0}"),
        None => format!("{number:.1}"),
    }
}

/// A size in bytes: `512 B`, `1.2 MB`.
pub fn bytes(number: u64) -> String {
    let size = short(float(number));
    match size.split_once(' ') {
        Some((size, unit)) => format!("{size} {unit}B"),
        None => format!("{size} B"),
    }
}

/// A duration in milliseconds: `850 ms`, `4.6 s`, `4 m 31 s`, `2 h 5 m`, `3 d 4 h`.
pub fn duration(ms: i64) -> String {
    let (sign, ms) = (if ms < 0 { "-" } else { "" }, ms.unsigned_abs());
    let seconds = (ms + 500) / 1000;
    let text = match ms {
        0..=999 => format!("{ms} ms"),
        1_000..=59_949 => {
            let tenths = (ms + 50) / 100;
            format!("{}.{} s", tenths / 10, tenths % 10)
        }
        _ if seconds < 3_600 => format!("{} m {} s", seconds / 60, seconds % 60),
        _ if seconds < 86_400 => format!("{} h {} m", seconds / 3_600, seconds / 60 % 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds / 3_600 % 24),
    };
    format!("{sign}{text}")
}

/// A duration of an average, in milliseconds.
pub fn average(ms: f64) -> String {
    #[allow(clippy::cast_possible_truncation)] // Saturates.
    duration(ms.round() as i64)
}

/// A cost in US dollars: `$0.0042`, `$12.34`.
pub fn dollars(cost: f64) -> String {
    if cost != 0.0 && cost.abs() < 0.1 {
        format!("${cost:.4}")
    } else {
        format!("${cost:.2}")
    }
}

/// A fraction in per cent.
pub fn percent(fraction: f64) -> String {
    format!("{:.1} %", fraction * 100.0)
}

/// A word with its number: `1 message`, `2 messages`, `2 matches`.
pub fn counted(number: u64, word: &str) -> String {
    let ending = match word {
        _ if number == 1 => "",
        _ if word.ends_with("ch") => "es",
        _ => "s",
    };
    format!("{} {word}{ending}", count(number))
}

/// The nearest floating-point number.
#[allow(clippy::cast_precision_loss)] // It is rounded to a few digits when it is shown.
pub fn float(number: u64) -> f64 {
    number as f64
}

/// The start of a text on one line, with single spaces between its words. A text of more than
/// `chars_max` characters is cut and ends with `…`.
pub fn one_line(text: &str, chars_max: usize) -> String {
    let mut line = String::new();
    let mut chars = 0;
    // Of a long text, only its start is read.
    for word in text.split_whitespace() {
        let space = (!line.is_empty()).then_some(' ');
        for c in space.into_iter().chain(word.chars()) {
            if chars == chars_max {
                line.push('…');
                return line;
            }
            line.push(c);
            chars += 1;
        }
    }
    line
}

/// The members of a tool's arguments that say what it does. The first of them stands for all.
const TELLING: [&str; 10] = [
    "command",
    "cmd",
    "file_path",
    "path",
    "pattern",
    "query",
    "url",
    "skill",
    "description",
    "prompt",
];

/// What the arguments of a tool say, in short: the command, the path or the like of a JSON object,
/// else the arguments as they are.
pub fn tool_arguments(arguments: &str) -> Cow<'_, str> {
    let object: Option<Value> = serde_json::from_str(arguments).ok();
    let telling = TELLING.iter().find_map(|name| {
        let value = object.as_ref()?.get(name)?;
        match value {
            Value::String(text) if !text.trim().is_empty() => Some(text.clone()),
            Value::Array(words) => {
                let words = words.iter().map(Value::as_str);
                Some(words.collect::<Option<Vec<&str>>>()?.join(" "))
            }
            _ => None,
        }
    });
    telling.map_or(Cow::Borrowed(arguments.trim()), Cow::Owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_as_people_write_them() {
        let counts = [0, 999, 1_000, 1_234_567].map(count);
        assert_eq!(counts, ["0", "999", "1,000", "1,234,567"]);
        let shorts = [0.0, 7.5, 950.0, 999.95, 12_345.0, 4.5e6, 2e9].map(short);
        assert_eq!(
            shorts,
            ["0", "7.5", "950", "1.0 k", "12.3 k", "4.5 M", "2.0 G"]
        );
        let durations = [
            0,
            999,
            1_000,
            59_949,
            59_950,
            271_000,
            3_599_499,
            7_500_000,
            273_600_000,
        ]
        .map(duration);
        let expected = [
            "0 ms",
            "999 ms",
            "1.0 s",
            "59.9 s",
            "1 m 0 s",
            "4 m 31 s",
            "59 m 59 s",
            "2 h 5 m",
            "3 d 4 h",
        ];
        assert_eq!(durations, expected);
        assert_eq!(duration(i64::MIN).chars().next(), Some('-'));
        assert_eq!(
            [0.0, 0.0042, 12.345].map(dollars),
            ["$0.00", "$0.0042", "$12.35"]
        );
        assert_eq!(bytes(1_234_567), "1.2 MB");
        assert_eq!(counted(1, "match"), "1 match");
        assert_eq!(
            [counted(2, "match"), counted(0, "line")],
            ["2 matches", "0 lines"]
        );
    }

    #[test]
    fn a_long_text_is_cut_at_its_limit() {
        assert_eq!(one_line("  a\n b\tc ", 10), "a b c");
        assert_eq!(one_line("äöü äöü", 4), "äöü …");
        // A word ends exactly at the limit.
        assert_eq!(one_line("äöü äöü", 3), "äöü…");
        assert_eq!(one_line("äöü ", 3), "äöü");
    }

    #[test]
    fn arguments_say_what_is_done() {
        let shown = [
            r#"{"description":"List","command":"ls -l"}"#,
            r#"{"command":["bash","-lc","ls"]}"#,
            r#"{"command":" ","path":"a"}"#,
            r#"{"n":1}"#,
            "*** Begin Patch",
        ]
        .map(tool_arguments);
        let expected = ["ls -l", "bash -lc ls", "a", r#"{"n":1}"#, "*** Begin Patch"];
        assert_eq!(shown, expected);
    }
}
