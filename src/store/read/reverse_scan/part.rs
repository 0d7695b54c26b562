//! What a reverse scan knows of one segment.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::segment::{SegmentName, Window};
use crate::storage::StorageFile;

/// A segment that is not read completely.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part {
    /// The segment's index in the store's list.
    pub(super) place: u32,
    pub(super) name: SegmentName,
    pub(super) identity: u64,
    pub(super) end: u64,
    /// Bytes from this offset on were read, or are excluded.
    pub(super) left: u64,
    /// An upper bound on the sequence numbers of the lines before `left`.
    pub(super) bound: u64,
    /// Whether all lines are as decklog wrote them, as far as known, so that sequence numbers
    /// ascend.
    pub(super) is_plain: bool,
    /// Whether the offset at which the requested lines end is known.
    pub(super) is_placed: bool,
}

/// Why a part could not be read in strides.
pub(super) enum Stopped {
    /// A line is not as decklog writes it.
    NotPlain,
    Failed(Error),
}

impl From<Error> for Stopped {
    fn from(error: Error) -> Stopped {
        Stopped::Failed(error)
    }
}

impl Part {
    /// The segment's index and identity.
    pub(super) fn file(&self) -> (u32, u64) {
        (self.place, self.identity)
    }

    /// To read lines of the part.
    pub(super) fn window(&self, file: &Arc<dyn StorageFile>) -> Result<Window> {
        let mut window = Window::default();
        window.turn_to(self.place, self.identity, || {
            Ok::<_, Error>(Arc::clone(file))
        })?;
        Ok(window)
    }

    /// Makes the part be read line by line, since its sequence numbers can be in any order.
    pub(super) fn distrust(&mut self) {
        self.is_plain = false;
        self.left = self.end;
        self.bound = u64::MAX;
    }
}
