//! The parts of a message.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::session::{Failure, ms};
use crate::import::facts::Tokens;
use crate::import::json::compact;

/// A part of a message, by its type.
pub(super) enum Part {
    Text(Text),
    Reasoning(Text),
    Tool(Tool),
    File(FilePart),
    Subtask(Subtask),
    Compaction,
    Retry(Retry),
    StepStart,
    StepFinish(Finish),
    /// Known, and without content: `snapshot` and `patch` are states of files, `agent` is a name
    /// that the text mentions.
    Nothing,
    Unknown(String),
}

#[derive(Deserialize)]
struct Kind {
    r#type: String,
}

#[derive(Deserialize)]
#[allow(clippy::struct_field_names)] // As in the document.
pub(super) struct Text {
    #[serde(default)]
    pub(super) text: String,
    synthetic: Option<bool>,
    time: Option<Time>,
}

#[derive(Default, Deserialize)]
struct Time {
    start: Option<f64>,
    end: Option<f64>,
    created: Option<f64>,
}

#[derive(Deserialize)]
#[allow(clippy::struct_field_names)] // As in the document.
pub(super) struct Tool {
    #[serde(rename = "callID")]
    pub(super) call_id: String,
    pub(super) tool: String,
    state: State,
}

#[derive(Deserialize)]
struct State {
    status: String,
    input: Option<Box<RawValue>>,
    /// The arguments as far as the model wrote them.
    raw: Option<String>,
    output: Option<String>,
    error: Option<String>,
    #[serde(default)]
    time: Time,
    metadata: Option<Box<RawValue>>,
    attachments: Option<Vec<FilePart>>,
}

/// What is read of a tool's metadata. The rest is for the display.
#[derive(Default, Deserialize)]
struct Metadata {
    exit: Option<f64>,
    #[serde(rename = "sessionId", alias = "sessionID")]
    session: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct FilePart {
    #[serde(default)]
    mime: String,
    filename: Option<String>,
    #[serde(default)]
    url: String,
}

#[derive(Deserialize)]
pub(super) struct Subtask {
    pub(super) prompt: String,
}

#[derive(Deserialize)]
pub(super) struct Retry {
    pub(super) error: Option<Failure>,
    #[serde(default)]
    time: Time,
}

/// The end of a request.
#[derive(Deserialize)]
pub(super) struct Finish {
    pub(super) cost: Option<f64>,
    pub(super) tokens: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
struct Counts {
    total: Option<f64>,
    input: Option<f64>,
    output: Option<f64>,
    reasoning: Option<f64>,
    #[serde(default)]
    cache: Cache,
}

#[derive(Default, Deserialize)]
struct Cache {
    read: Option<f64>,
    write: Option<f64>,
}

fn read<T: DeserializeOwned>(json: &str) -> Result<T, String> {
    serde_json::from_str(json).map_err(|e| e.to_string())
}

impl Part {
    pub(super) fn read(json: &str) -> Result<Part, String> {
        let kind: Kind = read(json)?;
        Ok(match kind.r#type.as_str() {
            "text" => Part::Text(read(json)?),
            "reasoning" => Part::Reasoning(read(json)?),
            "tool" => Part::Tool(read(json)?),
            "file" => Part::File(read(json)?),
            "subtask" => Part::Subtask(read(json)?),
            "retry" => Part::Retry(read(json)?),
            "step-finish" => Part::StepFinish(read(json)?),
            "step-start" => Part::StepStart,
            "compaction" => Part::Compaction,
            "snapshot" | "patch" | "agent" => Part::Nothing,
            _ => Part::Unknown(kind.r#type),
        })
    }

    /// The type, of a part where it is not expected.
    pub(super) fn kind(&self) -> &str {
        match self {
            Part::Text(_) => "text",
            Part::Reasoning(_) => "reasoning",
            Part::Tool(_) => "tool",
            Part::File(_) => "file",
            Part::Subtask(_) => "subtask",
            Part::Compaction => "compaction",
            Part::Retry(_) => "retry",
            Part::StepStart => "step-start",
            Part::StepFinish(_) => "step-finish",
            Part::Nothing => "snapshot",
            Part::Unknown(kind) => kind,
        }
    }

    /// When the part began.
    pub(super) fn start(&self) -> Option<i64> {
        let start = match self {
            Part::Text(text) | Part::Reasoning(text) => text.time.as_ref()?.start,
            Part::Tool(tool) => tool.state.time.start,
            _ => None,
        };
        start.map(|start| ms(Some(start)))
    }
}

impl Text {
    /// Whether opencode wrote it, such as the content of a file that the user mentioned.
    pub(super) fn is_synthetic(&self) -> bool {
        self.synthetic == Some(true)
    }
}

impl Retry {
    pub(super) fn at(&self, created: i64) -> i64 {
        self.time.created.map_or(created, |at| ms(Some(at)))
    }
}

impl Tool {
    pub(super) fn args(&self) -> String {
        let input = self.state.input.as_deref().map(RawValue::get);
        let is_empty = input.is_none_or(|input| matches!(input, "{}" | "null"));
        match &self.state.raw {
            Some(raw) if is_empty && !raw.is_empty() => raw.clone(),
            _ => input.map(compact).unwrap_or_default(),
        }
    }

    fn metadata(&self) -> Metadata {
        let metadata = self.state.metadata.as_deref();
        let metadata = metadata.and_then(|it| serde_json::from_str(it.get()).ok());
        metadata.unwrap_or_default()
    }

    /// The session of the agent that it started.
    pub(super) fn session(&self) -> Option<String> {
        (self.tool == "task").then(|| self.metadata().session)?
    }

    pub(super) fn latency_ms(&self) -> Option<i64> {
        let time = &self.state.time;
        let (start, end) = (time.start?, time.end?);
        Some(ms(Some(end - start)).max(0))
    }

    /// When the call ended, what the model saw, and the error of a call that failed. `None` if the
    /// call never ended.
    pub(super) fn outcome(&self) -> Option<(i64, String, Option<String>)> {
        let state = &self.state;
        let at = ms(state.time.end.or(state.time.start));
        match state.status.as_str() {
            "completed" => {
                let mut text = state.output.clone().unwrap_or_default();
                for file in state.attachments.iter().flatten() {
                    text.push_str("\n[file ");
                    text.push_str(file.filename.as_deref().unwrap_or(&file.mime));
                    text.push(']');
                }
                let exit = self.metadata().exit.filter(|exit| *exit != 0.0);
                let failed = match self.tool.as_str() {
                    "bash" => exit.map(|exit| format!("exit code {exit}")),
                    // Stands for a call that the model wrote wrongly.
                    "invalid" => Some(text.clone()),
                    _ => None,
                };
                Some((at, text, failed))
            }
            "error" => {
                let error = state.error.clone().unwrap_or_else(|| "error".to_owned());
                Some((at, error.clone(), Some(error)))
            }
            _ => None,
        }
    }
}

impl Finish {
    pub(super) fn is_zero(&self) -> bool {
        self.tokens()
            .is_none_or(|(tokens, _)| tokens == Tokens::default())
    }

    /// The tokens, and what was recorded of them. Where `total` shows that `reasoning` is beside
    /// `output`, it is added to it; versions without `total` counted it within. ccusage reads the
    /// same sums: it adds what `total` has beyond the parts.
    pub(super) fn tokens(&self) -> Option<(Tokens, String)> {
        let json = self.tokens.as_deref()?.get();
        let counts: Counts = serde_json::from_str(json).ok()?;
        let of = Tokens::counted;
        let (write, read) = (of(counts.cache.write), of(counts.cache.read));
        let input = of(counts.input).saturating_add(write).saturating_add(read);
        let (output, reasoning) = (of(counts.output), of(counts.reasoning));
        let with_reasoning = output.saturating_add(reasoning);
        let is_beside = of(counts.total) >= input.saturating_add(with_reasoning);
        let tokens = Tokens {
            input,
            cache_write: write,
            cache_read: read,
            output: if is_beside { with_reasoning } else { output },
            reasoning,
            ..Tokens::default()
        };
        Some((tokens, compact(json)))
    }
}

/// A file that a message names, as text. An `Err` is the type of one with its content in it.
pub(super) fn said_of_file(file: &FilePart) -> Result<String, &'static str> {
    if file.url.starts_with("data:") {
        return Err("file with data");
    }
    let name = file.filename.as_deref().unwrap_or_default();
    let words = [name, &file.mime, &file.url];
    let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
    Ok(format!("[file {}]", words.join(" ")))
}
