//! One binary for all integration tests: it compiles and links once.

// A test says what went wrong by stopping there.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod import;
mod layout;
