//! Errors of SQLite, with what to do.

use rusqlite::{Error as SqlError, ErrorCode};

use super::columns;
use crate::error::Error;
use crate::record::Kind;

/// The error for statements that do more than read.
pub(super) fn not_reading() -> Error {
    Error::invalid("the statement does not read the log: only SELECT statements are allowed")
}

/// An error of preparing or evaluating a statement.
pub(super) fn of_sql(error: &SqlError, sql: &str) -> Error {
    let (message, place) = match error {
        SqlError::SqlInputError { msg, offset, .. } => (msg.clone(), usize::try_from(*offset).ok()),
        SqlError::SqliteFailure(failure, _)
            if failure.code == ErrorCode::AuthorizationForStatementDenied =>
        {
            return not_reading();
        }
        SqlError::SqliteFailure(_, Some(message)) => (message.clone(), None),
        other => (other.to_string(), None),
    };
    if message.ends_with("may not be modified") {
        return not_reading();
    }
    let place = place.and_then(|place| sql.get(..place)).map(|before| {
        let line = before.matches('\n').count() + 1;
        let column = before
            .chars()
            .rev()
            .take_while(|char| *char != '\n')
            .count()
            + 1;
        format!(" (line {line}, column {column})")
    });
    let advice = advice(&message, sql).map(|advice| format!(": {advice}"));
    Error::invalid(format!(
        "{message}{}{}",
        place.unwrap_or_default(),
        advice.unwrap_or_default()
    ))
}

/// The names that may be meant.
fn advice(message: &str, sql: &str) -> Option<String> {
    if let Some(name) = message.strip_prefix("no such table: ") {
        let known = Kind::ALL.map(Kind::stem);
        return Some(match nearest(name, known.into_iter()) {
            Some(nearest) => format!("did you mean {nearest}?"),
            None => format!("the tables are {}", known.join(", ")),
        });
    }
    let name = message.strip_prefix("no such column: ")?;
    let name = name.rsplit_once('.').map_or(name, |(_, name)| name);
    let words: Vec<String> = sql
        .split(|char: char| !(char.is_alphanumeric() || char == '_'))
        .map(str::to_lowercase)
        .collect();
    let used = Kind::ALL.into_iter();
    let used = used.filter(|kind| words.iter().any(|word| word == kind.stem()));
    let names = used.flat_map(columns).map(|column| column.name);
    match nearest(name, names) {
        Some(nearest) => Some(format!("did you mean {nearest}?")),
        None => Some("'decklog sql --tables' lists the columns".to_owned()),
    }
}

/// The name that is most like another one, if any is.
fn nearest(name: &str, known: impl Iterator<Item = &'static str>) -> Option<&'static str> {
    let name = name.to_lowercase();
    let distances = known.map(|known| (distance(&name, known), known));
    let (distance, known) = distances.min()?;
    (distance * 3 <= known.len()).then_some(known)
}

/// The number of characters to insert, delete or replace to make one text of the other.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (nth, char) in one.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], nth + 1);
        for (place, known) in other.iter().enumerate() {
            let replaced = diagonal + usize::from(char != *known);
            diagonal = row[place + 1];
            row[place + 1] = replaced.min(diagonal + 1).min(row[place] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn like_names_are_found() {
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("abc", "abc"), 0);
        assert_eq!(distance("model", "mdoel"), 2);
        assert_eq!(distance("kitten", "sitting"), 3);
        let names = || ["messages", "conversations", "events"].into_iter();
        assert_eq!(nearest("mesages", names()), Some("messages"));
        assert_eq!(nearest("Message", names()), Some("messages"));
        assert_eq!(nearest("x", names()), None);
    }
}
