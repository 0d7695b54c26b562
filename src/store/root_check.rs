//! Checks that the store's path still leads to the directory that was opened.

use std::io;

use crate::error::{Error, ErrorKind, Result};
use crate::storage::{Storage, io_error};

/// Fails if the store's path does not lead to the directory that this handle has open. Otherwise
/// records would go to a directory that no other process opens.
///
/// # Errors
/// [`Io`](ErrorKind::Io) if nothing is at the path; [`Poisoned`](ErrorKind::Poisoned) if another
/// directory is.
pub(super) fn check(storage: &dyn Storage) -> Result<()> {
    match storage.is_in_place() {
        Ok(true) => Ok(()),
        Ok(false) => {
            let message =
                "another directory has taken the place of the store's: open the store again";
            Err(Error::new(ErrorKind::Poisoned, message).with_path(storage.root()))
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            let doing =
                "find the store's directory (move it back, or open the store at its new path)";
            Err(io_error(storage, doing, "", e))
        }
        Err(e) => Err(io_error(storage, "look at the store's directory", "", e)),
    }
}
