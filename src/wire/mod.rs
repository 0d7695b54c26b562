//! What the HTTP service and the MCP server share: the JSON that clients send and are sent, pages, and
//! how both learn of what is new.

pub(crate) mod chain;
pub(crate) mod conversation;
pub(crate) mod feed;
pub(crate) mod fields;
pub(crate) mod history;
pub(crate) mod issues;
pub(crate) mod new;
pub(crate) mod pages;
