//! A page as one file, to keep or to send: it loads nothing and needs no service.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use maud::{Markup, html};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use super::layout::{Page, SCRIPT, STYLE};
use super::{Refusal, Site, conversation, overview, run};
use crate::error::{Error, ErrorKind, Result};
use crate::record::{Day, now};
use crate::store::Store;

/// What a report is about.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Report {
    /// The charts of a period, and its conversations.
    Period {
        /// The first UTC day. Default: 29 days ago.
        since: Option<Day>,
        /// The day after the last one. Default: the day after today.
        until: Option<Day>,
    },
    /// A conversation: its transcript and its waterfall.
    Conversation(Uuid),
    /// A run: an event and the events below it.
    Run(i64),
}

impl Store {
    /// A report as one HTML document that needs no other file. Its content is escaped; scripts in
    /// it cannot run. A conversation has at most its latest 5,000 messages.
    ///
    /// ```
    /// # use decklog::{Client, Conversation, ConversationMessage, Role, Store};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let store = Store::open(dir.path().join("log"))?;
    /// use decklog::page::Report;
    ///
    /// let conversation = Conversation::new(uuid::Uuid::new_v4(), Client::Cli);
    /// let id = conversation.id;
    /// store.record(conversation)?;
    /// store.record(ConversationMessage::new(id, Role::User, "What is 1 + 1?"))?;
    /// let html = store.html_report(&Report::Conversation(id))?;
    /// assert!(html.starts_with("<!DOCTYPE html>") && html.contains("What is 1 + 1?"));
    /// # Ok::<(), decklog::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`NotFound`](ErrorKind::NotFound) if the log has no such conversation or run; otherwise the
    /// error of reading the log.
    pub fn html_report(&self, of: &Report) -> Result<String> {
        let site = Site {
            store: self,
            analytics: &self.analytics(),
        };
        let made = match of {
            Report::Period { since, until } => overview::report(&site, *since, *until),
            Report::Conversation(id) => conversation::report(&site, *id),
            Report::Run(id) => run::report(&site, *id),
        };
        let (title, main) = made.map_err(|refusal| match refusal {
            Refusal::Missing(what) => Error::new(ErrorKind::NotFound, what),
            Refusal::Invalid(invalid) => Error::invalid(invalid.reason),
            Refusal::Failed(error) => error,
        })?;
        let main = html! {
            (main)
            p.soft { "Written by decklog " (super::text::time(now())) }
        };
        Ok(without_links(&in_one_file(title, main)))
    }
}

fn in_one_file(title: String, main: Markup) -> String {
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{}'; script-src 'sha256-{}'; img-src data:; base-uri 'none'; form-action 'none'",
        hash(STYLE),
        hash(SCRIPT)
    );
    Page::new(title, "", main).in_one_file(&policy)
}

/// The SHA-256 of a text in base64, as a content security policy has it.
fn hash(text: &str) -> String {
    BASE64.encode(Sha256::digest(text.as_bytes()))
}

/// Removes the addresses of other pages. In escaped content, `"` does not occur as it is.
fn without_links(html: &str) -> String {
    let mut out = String::with_capacity(html.len());
    let mut rest = html;
    while let Some(at) = rest.find(" href=\"") {
        let (before, link) = rest.split_at(at);
        out.push_str(before);
        let address = &link[" href=\"".len()..];
        let end = address.find('"').map_or(address.len(), |end| end + 1);
        let is_here = !address.starts_with(['/', '?']);
        let (link, after) = link.split_at(" href=\"".len() + end);
        if is_here {
            out.push_str(link);
        }
        rest = after;
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_is_in_base64() {
        assert_eq!(hash("abc"), "ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=");
    }

    #[test]
    fn links_to_other_pages_are_removed() {
        let html = r##"<a href="/ui/x">a</a> <a href="#b">b</a> <a href="?c">c</a> <a href="https://e.com/">d</a>"##;
        let expected = r##"<a>a</a> <a href="#b">b</a> <a>c</a> <a href="https://e.com/">d</a>"##;
        assert_eq!(without_links(html), expected);
    }
}
