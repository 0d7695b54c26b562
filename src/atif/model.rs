//! The objects of an ATIF document, as far as decklog reads and writes them.

// The names of the format.
#![allow(clippy::struct_field_names)]

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// The version that is written.
pub(crate) const VERSION: &str = "ATIF-v1.7";
/// The start of every version that is read.
pub(crate) const VERSION_PREFIX: &str = "ATIF-v1.";
/// The member of each `extra` in which decklog keeps what ATIF has no field for.
pub(crate) const OWN: &str = "decklog";

pub(crate) type Extra = Option<Map<String, Value>>;

/// The member of decklog in an `extra`.
pub(crate) fn own(extra: &Extra) -> Option<&Map<String, Value>> {
    extra.as_ref()?.get(OWN)?.as_object()
}

/// An `extra` with only decklog's member.
pub(crate) fn extra(own: Map<String, Value>) -> Map<String, Value> {
    Map::from_iter([(OWN.to_owned(), Value::Object(own))])
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Trajectory {
    pub(crate) schema_version: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) session_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) trajectory_id: Option<String>,
    pub(crate) agent: Agent,
    pub(crate) steps: Vec<Step>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) notes: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) final_metrics: Option<FinalMetrics>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) continued_trajectory_ref: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) extra: Extra,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) subagent_trajectories: Option<Vec<Trajectory>>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Agent {
    pub(crate) name: String,
    pub(crate) version: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) model_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tool_definitions: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) extra: Extra,
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Step {
    pub(crate) step_id: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) timestamp: Option<String>,
    pub(crate) source: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) model_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reasoning_effort: Option<Value>,
    pub(crate) message: Content,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reasoning_content: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tool_calls: Option<Vec<ToolCall>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) observation: Option<Observation>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) metrics: Option<Metrics>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) is_copied_context: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) llm_call_count: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) extra: Extra,
}

/// A text, or the parts of a message with images or sounds.
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Content {
    Text(String),
    Parts(Vec<Part>),
}

impl Default for Content {
    fn default() -> Content {
        Content::Text(String::new())
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Part {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) source: Option<Value>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ToolCall {
    pub(crate) tool_call_id: String,
    pub(crate) function_name: String,
    /// An object.
    pub(crate) arguments: Box<RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) extra: Extra,
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Observation {
    pub(crate) results: Vec<ObservationResult>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct ObservationResult {
    /// The call of the same step that this is the result of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) source_call_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) content: Option<Content>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) subagent_trajectory_ref: Option<Vec<SubagentRef>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) extra: Extra,
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct SubagentRef {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) trajectory_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) session_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) trajectory_path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) extra: Extra,
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Metrics {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) prompt_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) completion_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cached_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cost_usd: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) extra: Extra,
    /// Such as the ids of tokens, which are only read.
    #[serde(flatten)]
    pub(crate) others: Map<String, Value>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct FinalMetrics {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) total_prompt_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) total_completion_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) total_cached_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) total_cost_usd: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) total_steps: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) extra: Extra,
}
