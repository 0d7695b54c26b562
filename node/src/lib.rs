//! The native part of the JavaScript package `decklog`. The package's JavaScript files are the public
//! API, and document it. They give values as bytes (see `wire`) and take JSON.

// Of each method, the arguments are what JavaScript calls it with.
#![allow(
    clippy::inherent_to_string,
    clippy::needless_pass_by_value,
    clippy::new_without_default,
    clippy::too_many_arguments,
    missing_docs
)]

mod ack;
mod batch;
mod capture;
mod errors;
mod inbox;
mod list;
mod log;
mod names;
mod options;
mod otlp;
mod page;
mod queued;
mod run;
mod tasks;
mod thoughts;
mod wire;
