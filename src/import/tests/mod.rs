//! The import from files to a log in memory.
