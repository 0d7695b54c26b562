//! Which kinds of records a client may read, by whichever way: those that a tool which it is offered
//! reads.

use super::answer::Fault;
use crate::record::Kind;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reach([bool; Kind::ALL.len()]);

impl Reach {
    pub(super) fn covers(self, kinds: &[Kind]) -> bool {
        kinds.iter().all(|kind| self.0[*kind as usize])
    }

    /// Refuses what is not covered.
    pub(super) fn check(self, kinds: &[Kind]) -> Result<(), Fault> {
        if self.covers(kinds) {
            return Ok(());
        }
        let message =
            "no tool that this server offers reads this, so it is not offered as a resource";
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
