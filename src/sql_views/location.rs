//! Where the objects are.

use std::path::Path;

use crate::error::{Error, Result};

/// A place with objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Location {
    /// The absolute path of a directory, without a slash at its end.
    Directory(String),
    /// A URL: its scheme, and the rest without a slash at its end.
    Url(String, String),
}

impl Location {
    /// The only location.
    pub(super) fn only<'a>(mut given: impl Iterator<Item = &'a str>) -> Result<Location> {
        match (given.next(), given.next()) {
            (Some(location), None) => Location::parse(location),
            _ => Err(Error::invalid(
                "give one location: the directory or URL that the log was shipped to",
            )),
        }
    }

    pub(super) fn parse(given: &str) -> Result<Location> {
        let text = given.trim();
        let unfit = |problem: &str| Error::invalid(format!("the location {text:?} {problem}"));
        // Not every engine can name such a file in a pattern.
        if text.contains('\\') || text.contains(char::is_control) {
            return Err(unfit("has a backslash or a control character"));
        }
        let (scheme, rest) = match text.split_once("://") {
            Some(("file", path)) if path.contains(['%', '?', '#']) => {
                return Err(unfit(
                    "has escaped characters: give the path of the directory",
                ));
            }
            Some(("file", path)) => ("file", path),
            Some(("postgres" | "postgresql", _)) => {
                return Err(unfit(
                    "is a database: give the engine postgresql for its tables",
                ));
            }
            Some((scheme, rest)) if is_scheme(scheme) => (scheme, rest),
            _ => ("file", text),
        };
        if scheme != "file" {
            if rest.contains(['?', '#']) {
                return Err(unfit("has a query or a fragment"));
            }
            let rest = rest.trim_end_matches('/');
            if rest.is_empty() {
                return Err(unfit("names no bucket"));
            }
            return Ok(Location::Url(scheme.to_owned(), rest.to_owned()));
        }
        Ok(Location::Directory(absolute(rest)?))
    }

    /// As a path or a URL, with `escape` applied to what is not the scheme.
    pub(super) fn escaped(&self, escape: impl Fn(char) -> Option<String>) -> String {
        let (mut text, rest) = match self {
            Location::Directory(path) => (String::new(), path),
            Location::Url(scheme, rest) => (format!("{scheme}://"), rest),
        };
        for char in rest.chars() {
            match escape(char) {
                Some(escaped) => text.push_str(&escaped),
                None => text.push(char),
            }
        }
        text
    }
}

fn is_scheme(scheme: &str) -> bool {
    let is_part = |char: char| char.is_ascii_alphanumeric() || "+-.".contains(char);
    scheme.starts_with(|first: char| first.is_ascii_alphabetic()) && scheme.chars().all(is_part)
}

/// A path as an engine in another directory finds it.
pub(super) fn absolute(path: &str) -> Result<String> {
    if path.contains(char::is_control) {
        let message = format!("the location {path:?} has a control character");
        return Err(Error::invalid(message));
    }
    let absolute = std::path::absolute(path)
        .map_err(|e| Error::io("find the absolute path of", Path::new(path), e))?;
    let text = absolute.to_str().map(|text| text.trim_end_matches('/'));
    let text = text.ok_or_else(|| Error::invalid("the current directory is not UTF-8"))?;
    Ok(text.to_owned())
}

/// A text as a literal of standard SQL.
pub(super) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// A text as a literal of an engine with escapes.
pub(super) fn backslashed(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}
