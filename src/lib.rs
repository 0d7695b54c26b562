//! The log that LLM agents keep.
//!
//! Conversation turns, tool calls, edit proposals, conversations and their messages, events, tasks,
//! chats and chained thoughts, in date-partitioned JSONL files that grep and jq read, with an index
//! in memory, the guarantees of a database, and no server to run. Any number of threads and
//! processes may share one directory.
//!
//! ```
//! use decklog::{ObservabilityStore, Store, ToolCallDone, ToolCallReq, ToolStatus, Validity, args_sha256};
//! use uuid::Uuid;
//!
//! # let dir = tempfile::tempdir().unwrap();
//! # let path = dir.path().join("log");
//! let store = Store::open(&path)?;
//! let (request_id, parent_id) = (Uuid::new_v4(), Uuid::new_v4());
//! let arguments = r#"{"path":"src/main.rs"}"#;
//! store.record_tool_call_requested(ToolCallReq {
//!     request_id,
//!     call_id: "call_1".into(),
//!     parent_id,
//!     vendor: "anthropic".into(),
//!     tool_name: "read_file".into(),
//!     args_sha256: args_sha256(arguments),
//!     arguments_json: Some(arguments.into()),
//!     started_at: Validity::at(1_766_832_000_123),
//! })?;
//! store.record_tool_call_done(ToolCallDone {
//!     request_id,
//!     call_id: "call_1".into(),
//!     ended_at: Validity::at(1_766_832_000_160),
//!     latency_ms: 37,
//!     outcome_json: Some(r#"{"lines":12}"#.into()),
//!     error_kind: None,
//!     error_msg: None,
//!     status: ToolStatus::Completed,
//! })?;
//! let (request, outcome) = store.get_tool_call(request_id, "call_1")?.expect("recorded above");
//! assert_eq!(request.arguments_json.as_deref(), Some(arguments));
//! assert_eq!(outcome.map(|done| done.latency_ms), Some(37));
//! # Ok::<(), decklog::Error>(())
//! ```
//!
//! - [`Store::run`] is the handle for the loop of an agent: turns, calls, and their outcomes.
//! - [`Store`] opens a log, records and queries every kind of [`Record`]; [`ObservabilityStore`] is
//!   the trait to code against for turns and tool calls.
//! - [`Inbox`] hands out tasks, [`Thoughts`] keeps chains, [`EventTree`] and [`SessionTree`] are
//!   what happened, as trees.
//! - [`Store::search`] finds a text in all that was recorded.
//! - [`Store::analytics`] makes reports: tokens, latencies, errors, conversations.
//! - [`Store::rollups`] tells what messages add up to, by day, also those that are gone.
//! - [`Store::capture`] gives a handle to log with that never waits for the disk.
//! - [`verify()`] checks every byte; [`Store::repair`] mends what is damaged.
//! - [`Store::seal`] closes what is written and hashes it; [`Store::prove`] proves that a line was
//!   there.
//! - [`ndjson`] records what other programs hand over, line by line.
//! - [`import`] reads the sessions of Claude Code and Codex; [`replay`] reads a day back.
//! - [`storage`] is where the bytes go, the disk unless a test says otherwise.

#[cfg(feature = "http")]
mod access;
mod analytics;
#[cfg(feature = "tokio")]
mod asynchronous;
mod capture;
mod collections;
mod error;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz;
#[cfg(feature = "http")]
pub mod http;
pub mod import;
mod index;
mod line;
#[cfg(feature = "mcp")]
pub mod mcp;
pub mod ndjson;
mod privacy;
mod record;
pub mod replay;
#[cfg(feature = "wire")]
mod wire;
pub mod schema {
    //! The schema of each kind, which [`Kind::schema`](crate::Kind::schema) gives.

    pub use crate::line::{FieldSchema, KindSchema};
    pub use crate::record::declare::{Class, Place};
}
mod retention;
pub mod run;
mod segment;
#[cfg(feature = "tracing")]
pub mod spans;
pub mod storage;
mod store;

#[cfg(feature = "http")]
pub use access::{Secret, TokenInfo, TokenKind};
pub use analytics::{
    ActiveReport, ActiveRow, Analytics, AnalyticsQuery, Bucket, CompressionReport, CompressionRow,
    CompressionSums, ContextReport, ContextRow, ContextSums, DashboardMetrics, Dimension,
    ErrorCount, ErrorRow, ErrorSample, ErrorSums, ErrorsReport, LatencyMs, LatencyReport,
    LatencyRow, LatencySums, ModelRow, ModelSums, ModelsReport, ROWS_DEFAULT, ROWS_MAX, RowKey,
    Scope, TaskRow, TaskSums, TasksReport, TurnRow, TurnSums, UsageReport, UsageRow, UsageSums,
};
pub use capture::{Capture, CaptureOptions, CaptureStats, ResponseStream, WhenFull};
pub use collections::{
    Ack, AckStatus, AsOf, CallQuery, ChainBreak, ChainCheck, ConversationList, ConversationQuery,
    Cursor, EventNode, EventQuery, EventTree, Found, Inbox, MessageQuery, NewThought,
    ObservabilityStore, Order, PAGE_LIMIT, Page, ProposalQuery, RollupQuery, SearchCursor,
    SearchMatch, SearchProgress, SearchQuery, SessionItem, SessionNode, SessionTree, SpanStatus,
    SupervisorState, TaskCounts, TaskQuery, ThoughtQuery, Thoughts, TurnQuery, Warning,
};
pub use error::{DbError, Error, ErrorKind, Result};
pub use line::LINE_BYTES_MAX;
pub use privacy::{AccessRole, Pattern, PrivacySettings, UserIdKey};
pub use record::{
    CallStatus, Client, ClientName, CodeEditProposal, ContentType, Conversation,
    ConversationMessage, ConversationStats, ConversationStatus, ConversationTurn, Day, Event,
    GENESIS_HASH, GIVEN_NUMBER_MAX, HistoryEntry, IdHashes, InboxStep, InboxTask,
    InferenceMetadata, JSON_DEPTH_MAX, Kind, MessageSums, NAME_BYTES_MAX, ProposalStatus,
    ProposalStep, Record, Role, Rollup, Sketch, Source, TaskStatus, ThoughtRecord, ThoughtType,
    Timestamp, TokenCount, ToolCall, ToolCallDone, ToolCallReq, ToolCallView, ToolStatus, TurnKind,
    Validity, args_sha256, epoch_ms, event_type, payload_json,
};
pub use retention::{
    CompactOptions, Compacted, CompactedPart, EraseOptions, Erased, ErasedPart, Erasure,
    RetainOptions, Retained, RetainedPart,
};
pub use run::Run;
pub use segment::repair::Repaired;
pub use segment::seal::{Digest, PROOF_VERSION, Proof, Seal, SealHead, SealReason};
pub use segment::{Damage, DamageClass, DamageCounts};
pub use store::{
    Counts, Durability, Follow, Health, Keep, KindCounts, LockState, LogLine, NextRemoval, Options,
    RemovalReason, Removed, RetentionSettings, SeqRange, Settings, Store, SyncTimes, Usage,
    Verification, VerifyOptions, verify, verify_with,
};

// Ids are of its types.
pub use uuid;

/// The README's example must compile and run, too.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// And that of the guide to embedding.
#[cfg(doctest)]
#[doc = include_str!("../docs/embedding.md")]
struct Embedding;
