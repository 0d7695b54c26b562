//! One binary for all integration tests: it compiles and links once.

mod import;
mod layout;
