//! Shared by the HTTP service and the MCP server: the JSON of requests and answers, pages, and
//! notification of new records.

pub(crate) mod chain;
pub(crate) mod conversation;
pub(crate) mod feed;
pub(crate) mod fields;
pub(crate) mod history;
pub(crate) mod issues;
pub(crate) mod new;
#[cfg(feature = "http")]
pub(crate) mod pages;
