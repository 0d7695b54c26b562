//! Instants that are kept as they were written.

use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, SecondsFormat, Utc};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::error::{Error, Result};

/// An instant as RFC 3339 text, kept to the byte.
///
/// ```
/// use decklog::Timestamp;
/// let given: Timestamp = "2026-04-17T02:00:00+02:00".parse()?;
/// assert_eq!(given.as_str(), "2026-04-17T02:00:00+02:00");
/// assert_eq!(given.at(), 1_776_384_000_000);
/// assert_eq!(Timestamp::from_ms(1_776_384_000_000)?.as_str(), "2026-04-17T00:00:00.000Z");
/// # Ok::<(), decklog::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Timestamp {
    text: String,
    at: i64,
}

impl Timestamp {
    /// Now, by the system's clock, in UTC with milliseconds.
    pub fn now() -> Timestamp {
        Timestamp::of(&Utc::now())
    }

    /// An instant given in epoch milliseconds, in UTC with milliseconds.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) outside 1970 to 9999.
    pub fn from_ms(at: i64) -> Result<Timestamp> {
        super::Day::of(at)?;
        let time = DateTime::from_timestamp_millis(at);
        Ok(Timestamp::of(&time.unwrap_or_default()))
    }

    fn of(time: &DateTime<Utc>) -> Timestamp {
        Timestamp {
            text: time.to_rfc3339_opts(SecondsFormat::Millis, true),
            at: time.timestamp_millis(),
        }
    }

    /// The text, as it was given.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The instant in epoch milliseconds.
    pub fn at(&self) -> i64 {
        self.at
    }
}

impl FromStr for Timestamp {
    type Err = Error;

    fn from_str(text: &str) -> Result<Timestamp> {
        let time = DateTime::parse_from_rfc3339(text).map_err(|e| {
            let shown: String = text.chars().take(80).collect();
            Error::invalid(format!(
                "{shown:?} is no timestamp ({e}): write it as in RFC 3339, such as 2026-04-17T00:00:00Z"
            ))
        })?;
        Ok(Timestamp {
            text: text.to_owned(),
            at: time.timestamp_millis(),
        })
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}
