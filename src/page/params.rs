//! The query of a page's address: read, checked, and written into links.

use std::fmt::Display;
use std::str::FromStr;

use form_urlencoded::{Serializer, parse};

use crate::record::Day;

/// A parameter that cannot be used: its name and the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Invalid {
    pub name: &'static str,
    pub reason: String,
}

/// The parameters of an address. Empty values count as absent: a form sends its empty fields.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Params(Vec<(String, String)>);

impl Params {
    pub fn parse(query: &str) -> Params {
        let pairs = parse(query.as_bytes()).into_owned();
        Params(pairs.filter(|(_, value)| !value.is_empty()).collect())
    }

    pub fn of(pairs: &[(&str, &str)]) -> Params {
        let pairs = pairs.iter();
        Params(
            pairs
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
        )
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        let pair = self.0.iter().find(|(known, _)| known == name);
        pair.map(|(_, value)| value.as_str())
    }

    /// The value of a parameter as a text of the caller's own; `None` if it is absent.
    pub fn text(&self, name: &str) -> Option<String> {
        self.get(name).map(str::to_owned)
    }

    pub fn read<T: FromStr<Err: Display>>(&self, name: &'static str) -> Result<Option<T>, Invalid> {
        let value = self.get(name).map(str::parse).transpose();
        value.map_err(|reason: T::Err| Invalid {
            name,
            reason: reason.to_string(),
        })
    }

    /// A day of the period; a form sends it as `YYYY-MM-DD`.
    pub fn day(&self, name: &'static str) -> Result<Option<Day>, Invalid> {
        self.read(name)
    }

    /// The link to this page with one parameter changed, or removed if there is no value. A change
    /// of a filter returns to the first page.
    pub fn link(&self, path: &str, name: &str, value: Option<&str>) -> String {
        let kept = self.0.iter();
        let kept = kept.filter(|(known, _)| known != name && !is_place(known));
        let mut query = Serializer::new(String::new());
        query.extend_pairs(kept);
        if let Some(value) = value {
            query.append_pair(name, value);
        }
        address(path, &query.finish())
    }

    /// The first millisecond of the period's days, and the first after them.
    pub fn days(&self) -> Result<(Option<i64>, Option<i64>), Invalid> {
        let since = self.day("since")?.map(|day| day.bounds_ms().0);
        let until = self.day("until")?.map(|day| day.bounds_ms().1);
        Ok((since, until))
    }

    /// The link to the next part of a list, if there is one.
    pub fn next(&self, path: &str, next: Option<impl Display>) -> Option<String> {
        Some(self.link(path, "after", Some(&next?.to_string())))
    }

    /// The parameters other than these, as hidden fields of a form need them.
    pub fn others<'a>(&'a self, names: &'a [&str]) -> impl Iterator<Item = (&'a str, &'a str)> {
        let pairs = self.0.iter().map(|(name, value)| (&**name, &**value));
        pairs.filter(|(name, _)| !names.contains(name) && !is_place(name))
    }
}

/// Parameters that name a place in a list, which belongs to one choice of the filters.
fn is_place(name: &str) -> bool {
    matches!(name, "after" | "offset" | "from" | "until_sequence")
}

/// The link to a page with these parameters.
pub(super) fn href(path: &str, pairs: &[(&str, &str)]) -> String {
    let mut query = Serializer::new(String::new());
    query.extend_pairs(pairs);
    address(path, &query.finish())
}

fn address(path: &str, query: &str) -> String {
    if query.is_empty() {
        path.to_owned()
    } else {
        format!("{path}?{query}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_changes_one_parameter_and_returns_to_the_first_page() {
        let params = Params::parse("tool=Bash&status=&since=2026-01-01&after=1-2");
        assert_eq!(params.get("status"), None);
        assert_eq!(
            params.link("/ui/calls", "tool", Some("a&b=\"c\"")),
            "/ui/calls?since=2026-01-01&tool=a%26b%3D%22c%22"
        );
        assert_eq!(
            params.link("/ui/calls", "tool", None),
            "/ui/calls?since=2026-01-01"
        );
        assert!(params.day("since").unwrap().is_some());
        assert_eq!(
            Params::parse("since=x").day("since").unwrap_err().name,
            "since"
        );
    }
}
