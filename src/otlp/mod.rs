//! OpenTelemetry: spans and log records become records of the log, and records become spans and log
//! records. `docs/opentelemetry.md` says what becomes what.

mod attributes;
mod batch;
mod claims;
mod events;
mod export;
mod item;
mod json;
mod log;
mod mapping;
mod message;
mod own;
mod proto;
mod receive;
mod request;
pub(crate) mod send;
#[cfg(test)]
mod tests;
mod value;

pub use receive::{Outcome, Receiver, Refusal};
pub use request::{Encoding, Signal};
pub use send::traceparent;
