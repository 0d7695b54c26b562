//! The log that LLM agents keep.
//!
//! Conversation turns, tool calls, edit proposals, conversations and their messages, events, tasks,
//! chats and chained thoughts, in date-partitioned JSONL files that grep and jq read, with an index
//! in memory, the guarantees of a database, and no server to run. Any number of threads and
//! processes may share one directory.
//!
//! ```
//! use decklog::Store;
//!
//! # let dir = tempfile::tempdir().unwrap();
//! # let path = dir.path().join("log");
//! let store = Store::open(&path)?;
//! let run = store.run("anthropic");
//! run.user("How long is main.rs?")?;
//! let turn = run.assistant("I will look.")?;
//! let arguments = serde_json::json!({ "path": "src/main.rs" });
//! let call = turn.call("toolu_1", "count_lines", &arguments)?;
//! let lines = call.run(|| Ok::<_, std::io::Error>(12))?;
//! assert_eq!(lines.unwrap(), 12);
//!
//! let (request, outcome) = store.get_tool_call(turn.id(), "toolu_1")?.expect("recorded above");
//! assert_eq!(request.arguments_json, Some(arguments.to_string()));
//! assert_eq!(outcome.unwrap().outcome_json.as_deref(), Some("12"));
//! # Ok::<(), decklog::Error>(())
//! ```
//!
//! - [`Store::run`] is the handle for the loop of an agent: turns, calls, and their outcomes.
//! - [`Store`] opens a log, records and queries every kind of [`Record`]; [`ObservabilityStore`] is
//!   the trait to code against for turns and tool calls.
//! - [`inbox`] hands out tasks, [`thoughts`] keeps hash chains, [`tree`] draws events and sessions.
//! - [`query`] has the filters and pages of lists.
//! - [`Store::search`] finds text in all records.
//! - [`Store::analytics`] makes reports: tokens, latencies, errors, conversations.
//! - [`Store::rollups`] has daily totals of messages, including removed messages.
//! - [`Store::capture`] returns a handle for logging that never waits for the disk.
//! - [`verify()`] checks every byte; [`Store::repair`] repairs damage.
//! - [`Store::seal`] makes finished segments read-only and hashes them; [`Store::prove`] proves
//!   that a line was in the log.
//! - [`ndjson`] records the output of other programs, one JSON object per line.
//! - [`import`] reads the sessions of agents; [`replay`] reads the records of a day.
//! - [`storage`] has the trait for file access: the disk by default, other implementations for
//!   tests.

// `rows` alone has the columns of records, and no rows.
#![cfg_attr(
    all(feature = "rows", not(any(feature = "ship", feature = "sql"))),
    allow(dead_code)
)]

#[cfg(feature = "http")]
pub mod access;
pub mod analytics;
#[cfg(feature = "arrow")]
mod arrow_rows;
#[cfg(feature = "tokio")]
mod asynchronous;
pub mod atif;
#[cfg(feature = "bindings")]
pub mod bindings;
pub mod capture;
mod collections;
mod error;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz;
#[cfg(feature = "http")]
pub mod http;
pub mod human;
pub mod import;
mod index;
mod line;
#[cfg(feature = "mcp")]
pub mod mcp;
pub mod ndjson;
#[cfg(feature = "otlp")]
pub mod otlp;
// Without the service, only reports are made.
#[cfg(feature = "page")]
#[cfg_attr(not(feature = "http"), allow(dead_code))]
pub mod page;
#[cfg(feature = "prices")]
mod prices;
#[cfg(not(feature = "prices"))]
#[path = "prices/none.rs"]
mod prices;
pub mod privacy;
pub mod record;
pub mod replay;
#[cfg(feature = "wire")]
mod wire;
pub mod schema {
    //! The schema of each kind, as returned by [`Kind::schema`](crate::Kind::schema).

    pub use crate::line::{FieldSchema, KindSchema};
    pub use crate::record::declare::{Class, Place};
}
#[cfg(feature = "parquet")]
mod parquet_rows;
pub mod retention;
pub mod run;
mod segment;
#[cfg(feature = "ship")]
pub mod ship;
#[cfg(feature = "tracing")]
pub mod spans;
#[cfg(feature = "sql")]
pub mod sql;
#[cfg(feature = "rows")]
pub mod sql_views;
pub mod storage;
mod store;

pub mod health {
    //! The state of a store: counts, sizes, damage, verification and repair.

    pub use crate::segment::repair::Repaired;
    pub use crate::segment::{Damage, DamageClass, DamageCounts};
    pub use crate::store::{
        Counts, Health, KindCounts, LastVerification, LockState, SyncTimes, Usage, Verification,
        VerifyOptions, verify_with,
    };
}
pub mod inbox {
    //! Tasks, each held by one worker at a time.

    pub use crate::collections::{Inbox, TaskCounts};
}
pub mod lines {
    //! The lines of a log in their order, as they are written.

    pub use crate::line::LINE_BYTES_MAX;
    pub use crate::store::{Follow, LogLine, SeqRange};
}
pub mod query {
    //! Queries of lists and searches, and their results.

    pub use crate::collections::{
        AsOf, CallQuery, ConversationList, ConversationQuery, ConversationSort, Cursor, EventQuery,
        Found, HistoryQuery, MessageQuery, Order, PAGE_LIMIT, Page, ProposalQuery, RollupQuery,
        SearchCursor, SearchMatch, SearchProgress, SearchQuery, TaskQuery, ThoughtQuery, TurnQuery,
    };
}
pub mod seal {
    //! Seals, which show later changes, and proofs that a line was there.

    pub use crate::segment::seal::{Digest, PROOF_VERSION, Proof, Seal, SealHead, SealReason};
}
pub mod thoughts {
    //! Chained thoughts and their verification.

    pub use crate::collections::{ChainBreak, ChainCheck, NewThought, Thoughts};
}
pub mod tree {
    //! Events and sessions as trees, and state derived from a supervisor's events.

    pub use crate::collections::{
        EventNode, EventTree, SessionItem, SessionNode, SessionTree, SpanStatus, SupervisorState,
    };
}

#[doc(inline)]
pub use capture::Capture;
pub use collections::{Ack, AckStatus, ObservabilityStore, Resume, Warning};
pub use error::{DbError, Error, ErrorKind, Result};
#[doc(inline)]
pub use record::{
    CallStatus, Client, CodeEditProposal, Conversation, ConversationMessage, ConversationTurn,
    Event, HistoryEntry, InboxTask, InferenceMetadata, Key, Kind, ProposalStatus, ProposalStep,
    Record, Role, ThoughtRecord, Timestamp, ToolCallDone, ToolCallReq, ToolStatus, TurnKind,
    Validity, args_sha256, event_type,
};
#[doc(inline)]
pub use run::Run;
pub use store::{Durability, Options, Settings, Store, verify};

// Re-exported because ids are [`uuid::Uuid`]s.
pub use uuid;

/// Compiles and runs the README's example.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// Compiles and runs the examples of the embedding guide.
#[cfg(doctest)]
#[doc = include_str!("../docs/embedding.md")]
struct Embedding;
