//! Everything that is tested from the outside, as one binary.

// A helper that cannot help fails the test that called it.
#![allow(clippy::unwrap_used)]

mod cli;
mod import;
