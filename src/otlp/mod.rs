//! OpenTelemetry: spans and log records become records of the log. `docs/opentelemetry.md` says
//! what becomes what.

#![allow(dead_code)]

mod json;
mod message;
mod proto;
mod request;
