//! The kinds of records that a client may read by any means: those that one of its tools reads.

use super::answer::Fault;
use crate::record::Kind;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reach([bool; Kind::ALL.len()]);

impl Reach {
    pub(super) fn covers(self, kinds: &[Kind]) -> bool {
        kinds.iter().all(|kind| self.0[*kind as usize])
    }

    /// Refuses other kinds.
    pub(super) fn check(self, kinds: &[Kind]) -> Result<(), Fault> {
        if self.covers(kinds) {
            return Ok(());
        }
        let message = "this resource is not offered, since no offered tool reads it";
        Err(Fault::not_found(message))
    }

    pub(super) fn kinds(self) -> impl Iterator<Item = Kind> {
        Kind::ALL
            .into_iter()
            .filter(move |kind| self.covers(&[*kind]))
    }
}

impl FromIterator<Kind> for Reach {
    fn from_iter<I: IntoIterator<Item = Kind>>(kinds: I) -> Reach {
        let mut reach = Reach([false; Kind::ALL.len()]);
        for kind in kinds {
            reach.0[kind as usize] = true;
        }
        reach
    }
}
