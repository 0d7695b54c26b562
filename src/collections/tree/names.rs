//! The names in payloads that pair ends with starts: call, tool or task.

use std::borrow::Cow;

use serde_json::Value;
use serde_json::value::RawValue;

use super::spans::{PROCESS, what};
use crate::record::Event;

/// The names in an event's payload.
#[derive(Debug)]
pub(super) struct Names<'a> {
    /// The call id; for a process, the `pid`.
    pub call: Name<'a>,
    /// The tool; for an agent, the task.
    pub tool: Name<'a>,
}

impl Names<'_> {
    pub fn of(event: &Event) -> Names<'_> {
        #[derive(Default, serde::Deserialize)]
        struct Payload<'a> {
            #[serde(borrow)]
            call_id: Option<&'a RawValue>,
            #[serde(borrow)]
            pid: Option<&'a RawValue>,
            #[serde(borrow)]
            tool_name: Option<&'a RawValue>,
            #[serde(borrow)]
            task_id: Option<&'a RawValue>,
        }
        let payload = event.payload.as_deref().map(serde_json::from_str);
        let payload: Payload<'_> = payload.and_then(Result::ok).unwrap_or_default();
        let what = what(event);
        let call = match what {
            Some(PROCESS) => payload.pid,
            _ => payload.call_id,
        };
        let tool = match what {
            Some("agent") => payload.task_id,
            _ => payload.tool_name,
        };
        Names {
            call: call.map_or(Name::Missing, Name::read),
            tool: tool.map_or(Name::Missing, Name::read),
        }
    }
}

impl Name<'_> {
    fn read(json: &RawValue) -> Name<'_> {
        let json = json.get();
        // Any other value may be written in several ways.
        if json.starts_with('"') && !json.contains('\\') {
            return Name::Is(Cow::Borrowed(json));
        }
        match serde_json::from_str::<Value>(json) {
            Ok(value) => Name::Is(Cow::Owned(value.to_string())),
            Err(_) => Name::Missing,
        }
    }
}

/// A name in a payload, as JSON.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Name<'a> {
    /// Any name, or none.
    Any,
    /// No name.
    Missing,
    Is(Cow<'a, str>),
}

/// The call and the tool that a start must have.
pub(super) type Wanted<'a> = [Name<'a>; 2];

/// The starts that an end may belong to, best match first: the one with its call, one with its
/// tool, one that names no other call and no other tool.
pub(super) fn wanted(end: Names<'_>) -> [Option<Wanted<'_>>; 3] {
    let other = |name: &Name<'_>| match name {
        Name::Is(_) => Name::Missing,
        Name::Any | Name::Missing => Name::Any,
    };
    let (other_call, other_tool) = (other(&end.call), other(&end.tool));
    let is_named = |name: &Name<'_>| matches!(name, Name::Is(_));
    let of_call = is_named(&end.call).then_some([end.call, Name::Any]);
    let of_tool = is_named(&end.tool).then_some([other_call.clone(), end.tool]);
    let other = [other_call, other_tool];
    [of_call, of_tool, Some(other)]
}
