//! The files of a task.

use std::path::Path;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::items::{Reader, UiMessage};
use crate::import::agent::{Whole, modified_ms};
use crate::import::ids::foreign_id;
use crate::import::step::Thread;
use crate::record::now;

/// What Roo Code writes about a task.
pub(super) const HISTORY_ITEM: &str = "history_item.json";
/// What Cline writes about a task.
const METADATA: &str = "task_metadata.json";
/// What the model is sent.
const REQUESTS: &str = "api_conversation_history.json";

/// After this time without a change, the tokens of an answer are complete.
const QUIET_MS: i64 = 60_000;
/// After this time, what is unfinished was left so by a program that ended.
const LEFT_MS: i64 = 86_400_000;

#[derive(Default, Deserialize)]
#[serde(default)]
struct HistoryItem {
    #[serde(rename = "parentTaskId")]
    parent: Option<String>,
    workspace: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Metadata {
    model_usage: Vec<ModelUsage>,
}

#[derive(Deserialize)]
struct ModelUsage {
    ts: f64,
    model_id: String,
}

/// What the files beside the messages say of the models and of the task.
#[derive(Default)]
pub(super) struct Models {
    /// Epoch milliseconds from which on a model is used.
    since: Vec<(i64, String)>,
    /// Epoch milliseconds of a message to the model, which names the model.
    named: Vec<(i64, String)>,
}

impl Models {
    /// The model of a request.
    pub(super) fn at(&self, at: i64) -> Option<&str> {
        let since = self.since.iter().rev().find(|(since, _)| *since <= at);
        // The message is written when the request is sent.
        let named = self.named.iter().find(|(named, _)| *named >= at);
        since.or(named).map(|(_, model)| model.as_str())
    }
}

/// How long ago the messages were written.
#[derive(Clone, Copy)]
pub(super) struct Age(Option<i64>);

impl Age {
    pub(super) fn is_quiet(self) -> bool {
        self.0.is_some_and(|ms| ms > QUIET_MS)
    }

    pub(super) fn is_left(self) -> bool {
        self.0.is_some_and(|ms| ms > LEFT_MS)
    }
}

pub(super) fn read(whole: &mut Whole<'_, '_>, format: &'static str) -> Result<(), String> {
    let path = whole.path;
    let Some(messages) = whole.json::<Vec<Box<RawValue>>>()? else {
        return Ok(());
    };
    let task = path.parent().and_then(Path::file_name);
    let Some(task) = task.and_then(|name| name.to_str()) else {
        return Err("the directory of the task has no name, which would be its id".to_owned());
    };
    let item = whole.beside(HISTORY_ITEM);
    let item = item.and_then(|json| serde_json::from_str::<HistoryItem>(&json).ok());
    let item = item.unwrap_or_default();
    let metadata = whole.beside(METADATA);
    let metadata = metadata.and_then(|json| serde_json::from_str::<Metadata>(&json).ok());
    let mut models = Models::default();
    for used in metadata.unwrap_or_default().model_usage {
        models.since.push((used.ts as i64, used.model_id));
    }
    let requests = whole.beside(REQUESTS).unwrap_or_default();
    if models.since.is_empty() {
        models.named = named_models(&requests);
    }
    let mut thread = Thread::new(format, task);
    let parent = item.parent.as_deref();
    thread.parent = parent.map(|parent| foreign_id(&format!("{format}:session"), parent));
    thread.cwd = item.workspace.or_else(|| folder(&requests));
    let age = Age(modified_ms(path).map(|at| now().saturating_sub(at)));
    let messages = messages.iter().map(|json| UiMessage::read(json.get()));
    Reader::new(whole, thread, format, models, age).read_all(messages.collect());
    Ok(())
}

/// The working directory, which the first message to the model names.
fn folder(requests: &str) -> Option<String> {
    let names = [
        "Current Workspace Directory (",
        "Current Working Directory (",
    ];
    let found = names
        .iter()
        .filter_map(|name| Some((requests.find(name)?, name.len())));
    let (at, len) = found.min()?;
    let folder = requests.get(at + len..)?;
    let folder = folder.get(..folder.find(") ").or_else(|| folder.find(')'))?)?;
    // The text is within a text of JSON.
    let folder: String = serde_json::from_str(&format!("\"{folder}\"")).ok()?;
    (!folder.contains('\n')).then_some(folder)
}

/// The models that messages to the model name, with their times.
fn named_models(requests: &str) -> Vec<(i64, String)> {
    if !requests.contains("<model>") {
        return Vec::new();
    }
    let messages: Vec<Value> = serde_json::from_str(requests).unwrap_or_default();
    let of = |message: &Value| {
        let at = message.get("ts")?.as_f64()? as i64;
        let blocks = message.get("content")?.as_array()?.iter();
        let mut texts = blocks.filter_map(|block| block.get("text")?.as_str());
        let model = texts.find_map(|text| {
            let (_, rest) = text.split_once("<model>")?;
            Some(rest.split_once("</model>")?.0.to_owned())
        })?;
        Some((at, model))
    };
    messages.iter().filter_map(of).collect()
}
