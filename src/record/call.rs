//! Tool calls: requests and outcomes.

use std::borrow::Cow;

use serde::Serialize;
use uuid::Uuid;

use super::declare::record;
use super::time::Validity;
use super::words::words;
use super::{args_sha256, check_sha256, payload};
use crate::error::{Error, Result};

words! {
    /// The outcome status of a tool call.
    ToolStatus("status") {
        /// The tool ran and returned.
        Completed = "completed",
        /// The tool failed or never ran.
        Failed = "failed",
    }
}

words! {
    /// The status of a tool call.
    CallStatus("status") {
        /// Requested, no outcome yet.
        Requested = "requested",
        /// Ended with [`ToolStatus::Completed`].
        Completed = "completed",
        /// Ended with [`ToolStatus::Failed`].
        Failed = "failed",
    }
}

impl CallStatus {
    /// The status of a call with this outcome.
    pub fn of(done: Option<&ToolCallDone>) -> CallStatus {
        match done.map(|done| done.status) {
            None => CallStatus::Requested,
            Some(ToolStatus::Completed) => CallStatus::Completed,
            Some(ToolStatus::Failed) => CallStatus::Failed,
        }
    }
}

record! {
    /// A tool call request. Key: (`request_id`, `call_id`).
    ///
    /// [`args_sha256`] computes the hash of the arguments. If the hash is empty, the log computes
    /// it from `arguments_json`. A prefix `sha256:` is dropped. A `started_at` that is not valid
    /// retracts the call.
    #[derive(Eq)]
    #[cfg_attr(feature = "wire", derive(utoipa::ToSchema))]
    pub struct ToolCallReq {
        /// The model request that asked for the call.
        [uuid, key] request_id: Uuid,
        /// The vendor's id of the call, unique within the request.
        [text_id, key] call_id: String,
        /// The turn that made the call.
        [uuid, lookup] parent_id: Uuid,
        /// The vendor of the tool or model, such as `anthropic`.
        [name, lookup] vendor: String,
        /// The tool's name.
        [name, lookup] tool_name: String,
        /// The start time.
        [validity] started_at: Validity,
        /// SHA-256 of the arguments as canonical JSON. This or `arguments_json` is required. If
        /// both are given, they must match.
        [hash, filled] args_sha256: String = "computed from `arguments_json`",
        /// The arguments, stored byte for byte.
        [arguments] arguments_json: Option<String>,
    }
}

impl ToolCallReq {
    /// A request with the current time. Its `request_id` is the turn's id. The caller sets the
    /// arguments or their hash.
    ///
    /// ```
    /// use decklog::{Store, ToolCallDone, ToolCallReq, ToolStatus};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let store = Store::open(dir.path().join("log"))?;
    /// # let turn_id = decklog::uuid::Uuid::new_v4();
    /// let request = ToolCallReq {
    ///     arguments_json: Some(r#"{"path":"a.rs"}"#.into()),
    ///     ..ToolCallReq::new(turn_id, "toolu_1", "anthropic", "read_file")
    /// };
    /// store.record(request)?;
    /// store.record(ToolCallDone::new(turn_id, "toolu_1", ToolStatus::Completed))?;
    /// # Ok::<(), decklog::Error>(())
    /// ```
    pub fn new(
        parent_id: Uuid,
        call_id: impl Into<String>,
        vendor: impl Into<String>,
        tool_name: impl Into<String>,
    ) -> ToolCallReq {
        ToolCallReq {
            request_id: parent_id,
            call_id: call_id.into(),
            parent_id,
            vendor: vendor.into(),
            tool_name: tool_name.into(),
            started_at: Validity::now(),
            args_sha256: String::new(),
            arguments_json: None,
        }
    }

    pub(super) fn check(&mut self) -> Result<()> {
        if self.args_sha256.is_empty() {
            let arguments = self.arguments_json.as_deref().ok_or_else(|| {
                let message = "args_sha256 and arguments_json are both missing: give one of them";
                Error::invalid(message).with_field("args_sha256")
            })?;
            self.args_sha256 = args_sha256(arguments);
        }
        let given = &self.args_sha256;
        let hex = given.strip_prefix("sha256:").unwrap_or(given);
        check_sha256("args_sha256", hex)?;
        if hex.len() < given.len() {
            self.args_sha256 = hex.to_owned();
        }
        self.args_sha256.make_ascii_lowercase();
        Ok(())
    }

    /// Checks the hash of a validated request against its arguments, if it has them in full.
    pub(crate) fn check_hash(&self) -> Result<()> {
        let Some(arguments) = &self.arguments_json else {
            return Ok(());
        };
        let computed = args_sha256(arguments);
        if computed == self.args_sha256 {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "args_sha256 is {}, but the SHA-256 of arguments_json as canonical JSON is {computed}: give one of them, or both that agree",
            self.args_sha256
        ))
        .with_field("args_sha256"))
    }
}

record! {
    /// The outcome of a tool call. Its `ended_at` must be valid: an outcome cannot be retracted.
    #[derive(Eq)]
    #[cfg_attr(feature = "wire", derive(utoipa::ToSchema))]
    pub struct ToolCallDone {
        /// The model request that asked for the call.
        [uuid, key] request_id: Uuid,
        /// The call's id within the request.
        [text_id, key; parent_id] call_id: String,
        /// The end time.
        [validity] ended_at: Validity,
        /// Latency, in milliseconds.
        [elapsed] latency_ms: i64 = "from its start to its end",
        /// The error class, such as `timeout`. Failed calls only.
        [label] error_kind: Option<String>,
        /// The error message. Failed calls only.
        [content] error_msg: Option<String>,
        /// The tool's output, stored byte for byte.
        [arguments] outcome_json: Option<String>,
        /// The outcome status.
        [op] status: ToolStatus,
    }
}

impl ToolCallDone {
    /// A `latency_ms` that makes the log compute the latency from the start and end of the call.
    /// Reads never return it.
    pub const LATENCY_UNKNOWN: i64 = i64::MIN;

    /// An outcome with the current time. The log computes its latency from the request unless it is
    /// set.
    ///
    /// ```
    /// use decklog::{ToolCallDone, ToolStatus};
    /// # let request_id = decklog::uuid::Uuid::new_v4();
    /// let timed_out = ToolCallDone {
    ///     error_kind: Some("timeout".into()),
    ///     error_msg: Some("no answer within 30 s".into()),
    ///     ..ToolCallDone::new(request_id, "toolu_1", ToolStatus::Failed)
    /// };
    /// ```
    pub fn new(request_id: Uuid, call_id: impl Into<String>, status: ToolStatus) -> ToolCallDone {
        ToolCallDone {
            request_id,
            call_id: call_id.into(),
            ended_at: Validity::now(),
            latency_ms: ToolCallDone::LATENCY_UNKNOWN,
            error_kind: None,
            error_msg: None,
            outcome_json: None,
            status,
        }
    }

    pub(super) fn check(&self) -> Result<()> {
        if !self.ended_at.is_valid {
            let message = "ended_at is not valid: an outcome cannot be retracted, retract the call by its started_at";
            return Err(Error::invalid(message).with_field("ended_at"));
        }
        if self.status == ToolStatus::Completed {
            for (name, value) in [
                ("error_kind", &self.error_kind),
                ("error_msg", &self.error_msg),
            ] {
                if value.is_some() {
                    let message = format!(
                        "{name} is of failed calls, and this one completed: leave it out, or give the status failed"
                    );
                    return Err(Error::invalid(message).with_field(name));
                }
            }
        }
        Ok(())
    }
}

/// A tool call and its outcome; `None` until the outcome is recorded.
pub type ToolCall = (ToolCallReq, Option<ToolCallDone>);

/// A tool call that is not retracted, with its outcome, as one JSON object. The field names are
/// those of the files, which store the request and the outcome in separate lines.
///
/// ```
/// # use decklog::{ToolCallReq, Validity, args_sha256};
/// # use decklog::record::ToolCallView;
/// # use uuid::Uuid;
/// let arguments = r#"{"path":"a.rs"}"#;
/// let call = (
///     ToolCallReq {
///         request_id: Uuid::nil(),
///         call_id: "call_1".into(),
///         parent_id: Uuid::nil(),
///         vendor: "anthropic".into(),
///         tool_name: "read_file".into(),
///         args_sha256: args_sha256(arguments),
///         arguments_json: Some(arguments.into()),
///         started_at: Validity::at(1_766_832_000_123),
///     },
///     None,
/// );
/// let json = serde_json::to_value(ToolCallView::from(&call)).unwrap();
/// assert_eq!(json["arguments_json"]["path"], "a.rs");
/// assert_eq!(json["status"], "requested");
/// ```
// `call_id` is the name in the files.
#[allow(clippy::struct_field_names)]
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "wire", derive(utoipa::ToSchema))]
#[cfg_attr(
    feature = "wire",
    schema(description = "A tool call and, once it has one, its outcome.")
)]
pub struct ToolCallView<'a> {
    /// The model request that asked for the call.
    pub request_id: Uuid,
    /// The call's id within the request.
    pub call_id: &'a str,
    /// The turn that made the call.
    pub parent_id: Uuid,
    /// The vendor of the tool or model.
    pub vendor: &'a str,
    /// The tool's name.
    pub tool_name: &'a str,
    /// The start time, in epoch milliseconds.
    pub started_at: i64,
    /// SHA-256 of the arguments.
    pub args_sha256: &'a str,
    /// The arguments.
    #[serde(
        serialize_with = "payload::optional::serialize",
        skip_serializing_if = "Option::is_none"
    )]
    #[cfg_attr(feature = "wire", schema(value_type = Option<serde_json::Value>))]
    pub arguments_json: Option<Cow<'a, str>>,
    /// The status of the call.
    pub status: CallStatus,
    /// The end time, in epoch milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<i64>,
    /// Latency, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_ms: Option<i64>,
    /// The error class, such as `timeout`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_kind: Option<&'a str>,
    /// The error message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_msg: Option<&'a str>,
    /// The tool's output.
    #[serde(
        serialize_with = "payload::optional::serialize",
        skip_serializing_if = "Option::is_none"
    )]
    #[cfg_attr(feature = "wire", schema(value_type = Option<serde_json::Value>))]
    pub outcome_json: Option<Cow<'a, str>>,
}

impl<'a> From<&'a ToolCall> for ToolCallView<'a> {
    fn from((req, done): &'a ToolCall) -> ToolCallView<'a> {
        let done = done.as_ref();
        ToolCallView {
            request_id: req.request_id,
            call_id: &req.call_id,
            parent_id: req.parent_id,
            vendor: &req.vendor,
            tool_name: &req.tool_name,
            started_at: req.started_at.at,
            args_sha256: &req.args_sha256,
            arguments_json: req.arguments_json.as_deref().map(Cow::Borrowed),
            status: CallStatus::of(done),
            ended_at: done.map(|done| done.ended_at.at),
            latency_ms: done.map(|done| done.latency_ms),
            error_kind: done.and_then(|done| done.error_kind.as_deref()),
            error_msg: done.and_then(|done| done.error_msg.as_deref()),
            outcome_json: done
                .and_then(|done| done.outcome_json.as_deref())
                .map(Cow::Borrowed),
        }
    }
}
