//! The MCP server, over the pipes of a process of its own.

mod client;
mod hostile;
mod parties;
mod thoughts;
mod tools;
