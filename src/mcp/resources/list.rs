//! Lists resources, newest of each type first: conversations, days, runs, and tasks with thoughts.
//! Each resource that exists at the first page is on exactly one page.

use rmcp::model::{ListResourcesResult, Resource};

use super::super::answer::Fault;
use super::super::reach::Reach;
use super::super::uri::{CONVERSATION, RUN, Subject, THOUGHTS};
use super::{JSON, NDJSON};
use crate::collections::{Cursor, EventQuery, Order, Page};
use crate::error::Result;
use crate::record::{Conversation, Day, Event, Kind, ThoughtRecord, Timestamp};
use crate::store::{KindOfDay, Store};

/// Resources on a page.
const PAGE_MAX: usize = 50;

/// The position of a list: the type, and the last resource.
#[derive(Debug, Clone, Copy)]
enum Place {
    Conversations(Option<Cursor>),
    Days(Option<(Day, Kind)>),
    Runs(Option<Cursor>),
    Tasks(Option<Cursor>),
}

impl Place {
    fn parse(text: &str) -> Option<Place> {
        let (sort, after) = text.split_at_checked(1)?;
        let after = Some(after).filter(|after| !after.is_empty());
        let cursor = || after.map(str::parse).transpose().ok();
        match sort {
            "c" => cursor().map(Place::Conversations),
            "d" if after.is_none() => Some(Place::Days(None)),
            "d" => {
                let (day, kind) = after?.split_once('/')?;
                Some(Place::Days(Some((
                    day.parse().ok()?,
                    Kind::from_stem(kind)?,
                ))))
            }
            "r" => cursor().map(Place::Runs),
            "t" => cursor().map(Place::Tasks),
            _ => None,
        }
    }

    fn to_text(self) -> String {
        let (sort, after) = match self {
            Place::Conversations(after) => ('c', after),
            Place::Days(Some((day, kind))) => return format!("d{day}/{}", kind.stem()),
            Place::Days(None) => ('d', None),
            Place::Runs(after) => ('r', after),
            Place::Tasks(after) => ('t', after),
        };
        after.map_or_else(|| sort.to_string(), |after| format!("{sort}{after}"))
    }
}

/// A page of the list of resources.
pub(in crate::mcp) fn list(
    store: &Store,
    reach: Reach,
    cursor: Option<&str>,
) -> Result<ListResourcesResult, Fault> {
    let place = cursor.map_or(Some(Place::Conversations(None)), Place::parse);
    let mut place = place.ok_or_else(|| {
        Fault::of_field(
            "cursor",
            "must be the nextCursor of an earlier page, unchanged",
        )
    })?;
    let mut found = Vec::new();
    loop {
        let next = some(store, reach, place, PAGE_MAX - found.len(), &mut found)?;
        match next {
            Some(next) if found.len() < PAGE_MAX => place = next,
            next => {
                let mut page = ListResourcesResult::with_all_items(found);
                page.next_cursor = next.map(Place::to_text);
                return Ok(page);
            }
        }
    }
}

/// Adds a limited number of resources of one type; returns the next position.
fn some(
    store: &Store,
    reach: Reach,
    place: Place,
    limit: usize,
    found: &mut Vec<Resource>,
) -> Result<Option<Place>> {
    match place {
        Place::Conversations(_) if !reach.covers(CONVERSATION) => Ok(Some(Place::Days(None))),
        Place::Runs(_) if !reach.covers(RUN) => Ok(Some(Place::Tasks(None))),
        Place::Tasks(_) if !reach.covers(THOUGHTS) => Ok(None),
        Place::Conversations(after) => {
            let page = store.conversation_page(limit, after)?;
            found.extend(page.items.iter().map(conversation));
            let more = page.next.map(|next| Place::Conversations(Some(next)));
            Ok(more.or(Some(Place::Days(None))))
        }
        Place::Days(after) => {
            let days = store.kinds_of_days(limit, after)?;
            let shown = days.iter().filter(|it| reach.covers(&[it.kind]));
            found.extend(shown.map(day));
            let last = days.last().filter(|_| days.len() == limit);
            let more = last.map(|last| Place::Days(Some((last.day, last.kind))));
            Ok(more.or(Some(Place::Runs(None))))
        }
        Place::Runs(after) => {
            let page = runs(store, limit, after)?;
            found.extend(page.items.iter().map(run));
            let more = page.next.map(|next| Place::Runs(Some(next)));
            Ok(more.or(Some(Place::Tasks(None))))
        }
        Place::Tasks(after) => {
            let page = store.thoughts().tasks(limit, after)?;
            found.extend(page.items.iter().map(task));
            Ok(page.next.map(|next| Place::Tasks(Some(next))))
        }
    }
}

/// Events without a parent, newest first.
pub(super) fn runs(store: &Store, limit: usize, after: Option<Cursor>) -> Result<Page<Event>> {
    store.events(&EventQuery {
        roots: true,
        order: Order::NewestFirst,
        limit,
        after,
        ..EventQuery::default()
    })
}

/// A resource with its uri as name. Titles have no text of agents, since models read the list.
fn resource(subject: &Subject, title: String, mime_type: &str) -> Resource {
    let uri = subject.to_string();
    let name = uri.trim_start_matches("decklog://").to_owned();
    Resource::new(uri, name)
        .with_title(title)
        .with_mime_type(mime_type)
}

fn conversation(found: &Conversation) -> Resource {
    let title = format!(
        "Conversation of {} ({}, {})",
        found.created_at, found.client, found.status
    );
    resource(&Subject::Conversation(found.id), title, JSON)
}

fn day(found: &KindOfDay) -> Resource {
    let KindOfDay { day, kind, bytes } = *found;
    let what = kind.stem().replace('_', " ");
    let title = format!("The {what} of {day}");
    resource(&Subject::Day(day, kind), title, NDJSON).with_size(bytes)
}

fn run(found: &Event) -> Resource {
    let at = Timestamp::from_ms(found.created_at);
    let at = at.map_or_else(|_| found.created_at.to_string(), |at| at.to_string());
    let title = format!("{} at {at}, with the events under it", found.event_type);
    resource(&Subject::Tree(found.id), title, JSON)
}

fn task(first: &ThoughtRecord) -> Resource {
    let title = format!("Thoughts of a task since {}", first.timestamp);
    resource(&Subject::Thoughts(first.task_id.clone()), title, JSON)
}
