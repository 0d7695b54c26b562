//! Detects a fork. A child that is forked without exec has copies of its parent's handles, none of
//! its threads, and shares its locks.

use std::path::Path;

use crate::error::{Error, ErrorKind};

/// The error if a store is used in such a child.
pub(super) fn forked(root: &Path) -> Error {
    let message = "the store was opened before this process was forked: open another one here";
    Error::new(ErrorKind::Poisoned, message).with_path(root)
}

/// The process that created this value.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Process(u32);

impl Default for Process {
    fn default() -> Process {
        Process(std::process::id())
    }
}

impl Process {
    /// Whether this is a copy in a forked child.
    pub(crate) fn is_another(self) -> bool {
        std::process::id() != self.0
    }
}
