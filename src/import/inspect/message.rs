//! A message of a sample.

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::BTreeMap;

use uuid::Uuid;
use xxhash_rust::xxh3::xxh3_64;

use super::{SAMPLE_BYTES_MAX, shape};
use crate::import::json::{self, Raw, compact};
use crate::import::step::{Call, Outcome, Step};
use crate::record::Role;

const ATTACHMENT: &str = "attachment://";

/// Texts that others name instead of repeating them.
pub(super) struct Attachments<'a> {
    by_hash: BTreeMap<String, Raw<'a>>,
    /// How many bytes may still be put where they are named.
    room: Cell<u64>,
}

impl<'a> Attachments<'a> {
    pub(super) fn of(raw: Raw<'a>) -> Result<Attachments<'a>, String> {
        Ok(Attachments {
            by_hash: json::members(raw)?.unwrap_or_default(),
            room: Cell::new(SAMPLE_BYTES_MAX),
        })
    }

    /// The JSON of an attachment, which is a string.
    fn json(&self, hash: &str) -> Result<Option<Raw<'a>>, String> {
        let Some(raw) = self.by_hash.get(hash) else {
            return Ok(None);
        };
        let bytes = raw.get().map_or(0, str::len) as u64;
        let room = self.room.get().checked_sub(bytes);
        let room = room.ok_or_else(|| {
            format!("its texts name more than {SAMPLE_BYTES_MAX} bytes of attachments")
        })?;
        self.room.set(room);
        Ok(Some(*raw))
    }

    /// The text of a string, or of the attachment that it names.
    pub(super) fn text(&self, raw: Raw<'_>) -> Result<Option<String>, String> {
        let text = json::text(raw)?;
        let hash = text.as_deref().and_then(|it| it.strip_prefix(ATTACHMENT));
        if let Some(json) = hash.map(|hash| self.json(hash)).transpose()?.flatten()
            && let Some(text) = json::owned_text(json)?
        {
            return Ok(Some(text));
        }
        Ok(text.map(Cow::into_owned))
    }

    /// JSON, with the attachments that its strings name.
    fn value(&self, json: &str) -> Result<String, String> {
        let mut value = String::new();
        let mut rest = json;
        while let Some(at) = rest.find(ATTACHMENT) {
            let (before, named) = rest.split_at(at);
            let (named, after) = named.split_at(named.find('"').unwrap_or(named.len()));
            rest = after;
            let hash = named.strip_prefix(ATTACHMENT).unwrap_or_default();
            let is_all = before.ends_with('"') && !before.ends_with("\\\"");
            let found = if is_all { self.json(hash)? } else { None };
            let text = found.and_then(Raw::get);
            let text = text.and_then(|it| it.strip_prefix('"')?.strip_suffix('"'));
            value.push_str(before);
            value.push_str(text.unwrap_or(named));
        }
        value.push_str(rest);
        Ok(compact(&value))
    }
}

/// The role of a message; `None` if it is not known.
pub(super) fn role(message: &shape::Message<'_>) -> Result<Option<Role>, String> {
    Ok(match json::text(message.role)?.as_deref() {
        Some("system") => Some(Role::System),
        Some("user") => Some(Role::User),
        Some("assistant") => Some(Role::Assistant),
        Some("tool") => Some(Role::Tool),
        _ => None,
    })
}

/// Fills a step with a message. Returns the results of the calls that the provider made itself.
pub(super) fn fill(
    step: &mut Step,
    message: &shape::Message<'_>,
    attachments: &Attachments<'_>,
) -> Result<Vec<Outcome>, String> {
    let mut results = Vec::new();
    step.reasoning.extend(attachments.text(message.reasoning)?);
    match attachments.text(message.content)? {
        Some(text) => step.texts.extend(Some(text).filter(|it| !it.is_empty())),
        None => {
            for part in json::array(message.content)?.into_iter().flatten() {
                let part: Option<shape::Part<'_>> = json::object(part)?;
                fill_part(step, &mut results, &part.unwrap_or_default(), attachments)?;
            }
        }
    }
    for call in json::array(message.calls)?.into_iter().flatten() {
        let call: shape::Call<'_> = json::object(call)?.unwrap_or_default();
        let args = call.arguments.get().map(|args| attachments.value(args));
        step.calls.push(Call {
            id: json::owned_text(call.id)?.unwrap_or_default(),
            name: json::owned_text(call.function)?.unwrap_or_default(),
            args: args.transpose()?.unwrap_or_default(),
        });
    }
    if step.role == Role::Tool
        && let Some(call_id) = json::owned_text(message.call_id)?
    {
        let error: Option<shape::Trouble<'_>> = json::member(message.error)?;
        let error = attachments.text(error.unwrap_or_default().message.or(message.tool_error))?;
        let text = std::mem::take(&mut step.texts).join("\n\n");
        step.result = Some(Outcome {
            call_id,
            text: match &error {
                Some(error) if text.is_empty() => error.clone(),
                _ => text,
            },
            error,
            ..Outcome::default()
        });
    }
    Ok(results)
}

fn fill_part(
    step: &mut Step,
    results: &mut Vec<Outcome>,
    part: &shape::Part<'_>,
    attachments: &Attachments<'_>,
) -> Result<(), String> {
    match &*json::type_name(part.kind)? {
        "text" => {
            let text = attachments.text(part.text)?;
            step.texts.extend(text.filter(|text| !text.is_empty()));
        }
        "reasoning" => {
            // Redacted reasoning is a cipher.
            let reasoning = if json::is_true(part.redacted) {
                None
            } else {
                attachments.text(part.reasoning)?
            };
            let reasoning = match reasoning.filter(|text| !text.is_empty()) {
                None => attachments.text(part.summary)?,
                reasoning => reasoning,
            };
            match reasoning {
                Some(text) => step.reasoning.push(text),
                None => step.others.count("reasoning (redacted)"),
            }
        }
        "tool_use" => {
            let id = json::owned_text(part.id)?.unwrap_or_default();
            let args = attachments.text(part.arguments)?.unwrap_or_default();
            step.calls.push(Call {
                id: id.clone(),
                name: json::owned_text(part.name)?.unwrap_or_default(),
                args: if serde_json::from_str::<serde::de::IgnoredAny>(&args).is_ok() {
                    args
                } else {
                    serde_json::to_string(&args).unwrap_or_default()
                },
            });
            results.push(Outcome {
                call_id: id,
                text: attachments.text(part.result)?.unwrap_or_default(),
                error: attachments.text(part.error)?.filter(|it| !it.is_empty()),
                ..Outcome::default()
            });
        }
        kind => step.others.count(kind),
    }
    Ok(())
}

/// A hash of what a message says, for logs of versions without ids.
pub(super) fn said(
    message: &shape::Message<'_>,
    attachments: &Attachments<'_>,
) -> Result<u64, String> {
    let role = role(message)?.unwrap_or(Role::System);
    let mut step = Step::new(Uuid::nil(), 0, role);
    fill(&mut step, message, attachments)?;
    let calls = step.calls.iter().flat_map(|call| [&call.id, &call.name]);
    let result = step.result.iter().flat_map(|it| [&it.call_id, &it.text]);
    let texts = step.texts.iter().chain(calls).chain(result);
    let texts: Vec<&str> = texts.map(String::as_str).collect();
    let text = format!("{}\0{}", role.as_str(), texts.join("\0"));
    Ok(xxh3_64(text.as_bytes()))
}
