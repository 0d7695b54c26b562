//! The first day to keep of each kind.

use crate::privacy::PrivacySettings;
use crate::record::{Day, Kind};
use crate::store::{Keep, RetentionSettings};

const DAY_MS: i64 = 86_400_000;

/// The first day to keep of each kind; `None` keeps all.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Cutoffs {
    kinds: [Option<Day>; Kind::ALL.len()],
    errors: Option<Day>,
}

impl Cutoffs {
    /// By age only.
    pub(crate) fn at(
        now: i64,
        retention: &RetentionSettings,
        privacy: &PrivacySettings,
    ) -> Cutoffs {
        let first_day = |keep: Keep| match keep {
            Keep::Days(days) => Day::of(now.saturating_sub(i64::from(days) * DAY_MS).max(0)).ok(),
            Keep::Forever => None,
        };
        Cutoffs {
            kinds: Kind::ALL.map(|kind| first_day(retention.keep(kind, privacy))),
            errors: first_day(retention.keep_errors(privacy)),
        }
    }

    /// Like these cutoffs, but also removes everything before `day` that is not kept forever.
    pub(super) fn no_earlier_than(self, day: Day) -> Cutoffs {
        let later = |cutoff: Option<Day>| cutoff.map(|cutoff| cutoff.max(day));
        Cutoffs {
            kinds: self.kinds.map(later),
            errors: later(self.errors),
        }
    }

    /// The first day of a kind from which on all records are kept.
    pub(crate) fn last(&self, kind: Kind) -> Option<Day> {
        let cutoff = self.kinds[kind as usize];
        match kind {
            Kind::Conversations | Kind::Messages => cutoff.max(self.errors),
            _ => cutoff,
        }
    }

    /// The first day to keep for messages of a conversation whose own lines were removed.
    pub(super) fn of_rest(&self) -> Option<Day> {
        self.errors.max(self.kinds[Kind::Messages as usize])
    }

    pub(crate) fn of_conversation(&self, is_error: bool) -> Option<Day> {
        if is_error {
            self.errors
        } else {
            self.kinds[Kind::Messages as usize]
        }
    }
}
