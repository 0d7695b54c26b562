//! The web page: what a store contains, as HTML.
//!
//! Pages are rendered here, from the store, as text. They load nothing from elsewhere, and the
//! scripts of the page are not needed to read it. All content of records is escaped.

mod calls;
mod chart;
mod compare;
mod content;
mod conversation;
mod conversations;
mod edits;
mod inbox;
mod integrity;
mod layout;
mod lines;
mod message;
mod overview;
mod params;
mod report;
mod requests;
mod run;
mod runs;
mod search;
mod text;
mod thoughts;
mod tools;

use maud::Markup;
use uuid::Uuid;

#[cfg(feature = "http")]
pub(crate) use self::layout::{ICON, SCRIPT, STYLE};
pub use self::report::Report;

use self::layout::{Page, message};
use self::params::{Invalid, Params};
use crate::analytics::Analytics;
use crate::error::{Error, ErrorKind};
use crate::record::Key;
use crate::store::Store;

/// What pages are made from.
pub(crate) struct Site<'a> {
    pub store: &'a Store,
    pub analytics: &'a Analytics,
}

/// The status of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    Found,
    Invalid,
    Missing,
}

/// An address without a page, or a reason for which there is none.
enum Refusal {
    Missing(String),
    Invalid(Invalid),
    Failed(Error),
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Refusal {
        match error.kind() {
            ErrorKind::InvalidInput => Refusal::Invalid(Invalid {
                name: "query",
                reason: error.reason(),
            }),
            _ => Refusal::Failed(error),
        }
    }
}

impl From<Invalid> for Refusal {
    fn from(invalid: Invalid) -> Refusal {
        Refusal::Invalid(invalid)
    }
}

type Answer = Result<Page, Refusal>;

/// A part of a page.
type Part = Result<Markup, Refusal>;

/// The title and the content of a report.
type Reported = Result<(String, Markup), Refusal>;

/// The page at an address: its path, and its query without `?`.
///
/// # Errors
/// The error of reading the store.
pub(crate) fn answer(site: &Site<'_>, path: &str, query: &str) -> Result<(Status, String), Error> {
    let (status, page) = match page(site, path, &Params::parse(query)) {
        Ok(page) => (Status::Found, page),
        Err(Refusal::Missing(what)) => (Status::Missing, message("Not found", &what)),
        Err(Refusal::Invalid(Invalid { name, reason })) => {
            let text = format!("{name}: {reason}");
            (Status::Invalid, message("The address is not valid", &text))
        }
        Err(Refusal::Failed(error)) => return Err(error),
    };
    Ok((status, page.framed()))
}

/// A page that says why a request was refused.
#[cfg(feature = "http")]
pub(crate) fn refusal(title: &str, detail: &str) -> String {
    message(title, detail).framed()
}

fn page(site: &Site<'_>, path: &str, params: &Params) -> Answer {
    let parts: Vec<&str> = path.split('/').skip(1).collect();
    match parts[..] {
        [""] => overview::page(site, params),
        ["ui", "conversations"] => conversations::page(site, params),
        ["ui", "conversations", id] => conversation::page(site, uuid(id)?, params),
        ["ui", "conversations", id, "run"] => run::of_session(site, uuid(id)?, params),
        ["ui", "conversations", id, "requests"] => requests::page(site, uuid(id)?, params),
        ["ui", "compare"] => compare::page(site, params),
        ["ui", "runs"] => runs::page(site, params),
        ["ui", "runs", id] => run::of_event(site, number(id)?, params),
        ["ui", "calls"] => calls::page(site, params),
        ["ui", "edits"] => edits::page(site, params),
        ["ui", "thoughts"] => thoughts::page(site, params),
        ["ui", "inbox"] => inbox::page(site, params),
        ["ui", "integrity"] => integrity::page(site),
        ["ui", "search"] => search::page(site, params),
        ["ui", "lines", "messages", id] => lines::page(site, &Key::Message(uuid(id)?)),
        ["ui", "lines", "conversations", id] => lines::page(site, &Key::Conversation(uuid(id)?)),
        ["ui", "lines", "turns", id] => lines::page(site, &Key::Turn(uuid(id)?)),
        ["ui", "lines", "proposals", id] => lines::page(site, &Key::Proposal(uuid(id)?)),
        ["ui", "lines", "events", id] => lines::page(site, &Key::Event(number(id)?)),
        ["ui", "lines", "inbox", id] => lines::page(site, &Key::Task(number(id)?)),
        ["ui", "lines", "thoughts"] => lines::page(site, &Key::Thought(needed(params, "id")?)),
        ["ui", "lines", "calls", id] => {
            let (request_id, call_id) = (uuid(id)?, needed(params, "call")?);
            lines::page(
                site,
                &Key::ToolCall {
                    request_id,
                    call_id,
                },
            )
        }
        _ => Err(Refusal::Missing(format!("There is no page at {path}."))),
    }
}

fn uuid(text: &str) -> Result<Uuid, Refusal> {
    text.parse().map_err(|_| missing_id(text))
}

fn number(text: &str) -> Result<i64, Refusal> {
    text.parse().map_err(|_| missing_id(text))
}

fn missing_id(text: &str) -> Refusal {
    Refusal::Missing(format!("{text:?} is not the id of a record."))
}

fn needed(params: &Params, name: &'static str) -> Result<String, Refusal> {
    let reason = || Invalid {
        name,
        reason: "is missing".to_owned(),
    };
    Ok(params.text(name).ok_or_else(reason)?)
}
