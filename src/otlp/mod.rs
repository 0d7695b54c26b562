//! OpenTelemetry: spans and log records become records of the log. `docs/opentelemetry.md` says
//! what becomes what.

#![allow(dead_code)]

mod export;
mod json;
mod message;
mod own;
mod proto;
mod request;
pub(crate) mod send;

pub use send::traceparent;
