//! The MCP server, as a separate process connected by pipes.

pub mod client;
#[cfg(target_os = "linux")]
mod full;
mod guide;
mod hostile;
mod parties;
mod prompts;
pub mod reach;
mod resources;
mod subscriptions;
mod thoughts;
mod tools;
