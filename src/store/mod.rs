//! stub: the signatures only
use crate::error::Result;
use crate::record::{Record, ToolCall};
use std::path::Path;
use uuid::Uuid;
/// What became of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ack {
    /// seq of the line that holds the fact
    pub seq: u64,
    /// added or unchanged
    pub status: AckStatus,
}
/// Whether a line was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AckStatus {
    /// a line was added
    Added,
    /// the log already said so
    Unchanged,
}
/// A store (cheap to clone, shared between threads).
#[derive(Debug, Clone)]
pub struct Store(());
impl Store {
    /// open or create
    pub fn open(_path: impl AsRef<Path>) -> Result<Store> {
        unimplemented!()
    }
    /// Records one
    pub fn record(&self, _record: impl Into<Record>) -> Result<Ack> {
        unimplemented!()
    }
    /// Records many under one lock; outer error: nothing acknowledged; inner: that record rejected.
    pub fn record_batch(&self, _records: Vec<Record>) -> Result<Vec<Result<Ack>>> {
        unimplemented!()
    }
    /// one call
    pub fn get_tool_call(&self, _request_id: Uuid, _call_id: &str) -> Result<Option<ToolCall>> {
        unimplemented!()
    }
}
