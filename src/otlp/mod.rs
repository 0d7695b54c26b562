//! OpenTelemetry: spans and log records become records of the log. `docs/opentelemetry.md` says
//! what becomes what.

#![allow(dead_code)]

mod batch;
mod events;
mod item;
mod json;
mod log;
mod mapping;
mod message;
mod proto;
mod receive;
mod request;
#[cfg(test)]
mod tests;
mod value;

pub(crate) use receive::{Outcome, Receiver};
pub(crate) use request::{Encoding, Signal};
