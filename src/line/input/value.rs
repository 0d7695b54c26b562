//! Field values as given by clients: checked by class and converted to the form of lines.

use std::borrow::Cow;

use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use crate::record::declare::{CheckWord, Class};
use crate::record::{Day, GIVEN_NUMBER_MAX, epoch_ms, exact, has_lone_surrogate};

/// Converts a number or time to the form of lines, if it is given in another form.
pub(super) fn normal(class: Class, json: &str) -> Option<Cow<'static, str>> {
    match class {
        Class::Validity if json.starts_with('{') => {
            #[derive(serde::Deserialize)]
            #[serde(deny_unknown_fields)]
            struct Full<'a> {
                #[serde(borrow)]
                at: &'a RawValue,
                is_valid: bool,
            }
            let Full { at, is_valid } = serde_json::from_str(json).ok()?;
            let at = whole_number(at.get())?;
            Some(format!("{{\"at\":{at},\"is_valid\":{is_valid}}}").into())
        }
        // A repeated field is an id or a time.
        Class::Validity | Class::OwnMillis | Class::Millis | Class::Repeated => {
            moment(json).or_else(|| whole_number(json))
        }
        Class::Id | Class::Sequence | Class::Int | Class::Count | Class::Elapsed => {
            whole_number(json)
        }
        _ => None,
    }
}

/// Converts RFC 3339 or a day to epoch milliseconds.
fn moment(json: &str) -> Option<Cow<'static, str>> {
    let json = json.starts_with('"').then_some(json)?;
    let at = moment_of_text(&serde_json::from_str::<Cow<'_, str>>(json).ok()?).ok()?;
    Some(at.to_string().into())
}

/// Checks that a number is within the bounds for clients.
pub(super) fn check_bounds(class: Class, json: &str) -> Result<(), String> {
    let Ok(number) = json.parse::<i64>() else {
        return Ok(());
    };
    match class {
        Class::Millis | Class::OwnMillis | Class::Validity => {
            Day::of(number).map(drop).map_err(|e| e.reason())
        }
        Class::Id | Class::Sequence if number > GIVEN_NUMBER_MAX => Err(format!(
            "{number} is out of bounds: give one from 0 to {GIVEN_NUMBER_MAX}"
        )),
        _ => Ok(()),
    }
}

fn moment_of_text(text: &str) -> Result<i64, String> {
    if text.parse::<i64>().is_ok() {
        return Err("epoch milliseconds are a number, not a text".to_owned());
    }
    epoch_ms(text).map_err(|e| e.reason())
}

/// Converts an integer that is written as a fraction: languages without integers write 5 as `5.0`.
fn whole_number(json: &str) -> Option<Cow<'static, str>> {
    let is_fraction = json.contains(['.', 'e', 'E']);
    let number = is_fraction.then(|| json.parse().ok())??;
    exact(number).map(|number| number.to_string().into())
}

/// Checks one field alone; returns the reason if it is invalid. `check_word` checks the word of an
/// enumeration.
pub(crate) fn check(class: Class, check_word: Option<CheckWord>, json: &str) -> Result<(), String> {
    let is_text = json.starts_with('"');
    let checked = match class {
        Class::Millis | Class::OwnMillis | Class::Validity if is_text => {
            return serde_json::from_str::<Cow<'_, str>>(json)
                .map_err(|e| e.to_string())
                .and_then(|text| moment_of_text(&text).map(drop));
        }
        Class::Arguments | Class::Payload | Class::Metadata if !is_text => {
            serde_json::from_str::<IgnoredAny>(json).map(drop)
        }
        _ => check_word.map_or_else(|| class.check(json), |check_word| check_word(json)),
    };
    checked.map_err(|e| {
        if has_lone_surrogate(json.as_bytes()) {
            return "a lone surrogate is no text".to_owned();
        }
        let reason = e.to_string();
        // The parser's message may repeat the input before it says what is expected.
        if json.len() > SHOWN_BYTES_MAX {
            clipped(&reason).to_owned()
        } else {
            readable(&reason).to_owned()
        }
    })
}

/// Maximum length of input that an error repeats, in bytes.
const SHOWN_BYTES_MAX: usize = 80;

/// The start of the input, as much as an error shows.
pub(super) fn clipped(text: &str) -> &str {
    &text[..text.floor_char_boundary(SHOWN_BYTES_MAX)]
}

/// Removes the parser's position, which refers to the field alone and not to the client's text.
pub(super) fn readable(reason: &str) -> &str {
    let message = reason.split_once(" at line ");
    message.map_or(reason, |(message, _)| message)
}
