//! What decklog is measured against.

pub mod files;
pub mod redb;
pub mod sqlite;
pub mod sqlite_talk;
