//! What payloads name: the call, tool or task that an end belongs to.

use std::borrow::Cow;

use serde_json::Value;
use serde_json::value::RawValue;

use super::spans::{PROCESS, what};
use crate::record::Event;

/// The names in an event's payload.
#[derive(Debug)]
pub(super) struct Names<'a> {
    /// The call, or of a process the `pid`.
    pub call: Name<'a>,
    /// The tool, or of an agent the task.
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
        // Others may be spelled in several ways.
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
    /// Whatever it is, or none.
    Any,
    /// There is none.
    Missing,
    Is(Cow<'a, str>),
}

/// The call and the tool that a start is to have.
pub(super) type Wanted<'a> = [Name<'a>; 2];

/// Which starts an end may belong to, the best first: that of its call, one of its tool, one
/// that names no other call and no other tool.
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
