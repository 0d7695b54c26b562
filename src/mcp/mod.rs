//! The MCP server: agents write and read their own log.
//!
//! [`Server`] answers over standard input and output ([`Server::serve_stdio`], which `decklog mcp`
//! runs) and, with the feature `http`, at `/mcp` of the service. It implements
//! [`rmcp::ServerHandler`], so it can also be served by hand or wrapped.

mod answer;
mod bound;
mod capacity;
mod hangup;
mod lines;
mod log;
mod prompts;
mod reach;
mod resources;
mod schema;
mod server;
mod stdio;
mod subscriptions;
mod tools;
mod uri;

pub use rmcp;

pub use self::server::{Server, role};
pub use self::stdio::serve_stdio;
pub use self::tools::Tools;

/// The role of an HTTP caller, set by the service in a request's extensions.
#[cfg(feature = "http")]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Caller(pub(crate) crate::privacy::AccessRole);
