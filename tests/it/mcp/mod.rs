//! The MCP server, over the pipes of a process of its own.

mod client;
mod hostile;
mod parties;
mod prompts;
mod readme;
mod resources;
mod subscriptions;
mod thoughts;
mod tools;
