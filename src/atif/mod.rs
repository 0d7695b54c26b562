//! Conversations as documents of ATIF, Harbor's Agent Trajectory Interchange Format, version 1.7.
//!
//! A response of a model is one step, with its reasoning, its tool calls, their results as
//! observations and its tokens. Sub-agents are embedded in the document of the conversation that
//! started them. What ATIF has no field for is in the member `decklog` of an `extra`, so that
//! [importing](crate::import) a document into another log restores the same records.

mod build;
mod export;
pub(crate) mod model;
pub(crate) mod own;
