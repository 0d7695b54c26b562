//! The sums of days by the dimensions that a report tells apart, and what rows are made of.

use std::collections::{BTreeMap, HashMap};

use super::query::Dimension;
use crate::collections::DaySum;
use crate::record::{Group, MessageSums, Sketch, Tally};

/// Groups have numbers here, as few as they are, so that many days are put together fast.
#[derive(Debug, Default)]
pub(super) struct Groups {
    numbers: HashMap<Group, u32>,
    names: Vec<Group>,
}

impl Groups {
    fn number(&mut self, group: [Option<&str>; 4]) -> u32 {
        let group = group.map(|name| name.map(str::to_owned));
        if let Some(number) = self.numbers.get(&group) {
            return *number;
        }
        let number = self.names.len() as u32;
        self.names.push(group.clone());
        self.numbers.insert(group, number);
        number
    }

    pub(super) fn len(&self) -> usize {
        self.names.len()
    }

    pub(super) fn name(&self, number: u32) -> &Group {
        &self.names[number as usize]
    }
}

/// The dimensions to group by, in the order of a [`Group`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Mask([bool; 4]);

impl Mask {
    /// Those of reports that are not told otherwise.
    pub(super) const USUAL: [Mask; 6] = [
        Mask([false; 4]),
        Mask([true, false, false, false]),
        Mask([false, true, false, false]),
        Mask([true, true, false, false]),
        Mask([false, false, true, false]),
        Mask([false, false, false, true]),
    ];

    pub(super) fn of(dimensions: &[Dimension]) -> Mask {
        let all = [
            Dimension::Model,
            Dimension::Config,
            Dimension::Mode,
            Dimension::TaskType,
        ];
        Mask(all.map(|dimension| dimensions.contains(&dimension)))
    }

    /// What a day adds up to by these.
    pub(super) fn cells(self, day: &DaySum, groups: &mut Groups) -> Vec<Cell> {
        let mut cells: BTreeMap<[Option<&str>; 4], Tally> = BTreeMap::new();
        for (group, tally) in day.tallies() {
            let mut names = [None; 4];
            for ((name, of), is_told) in names.iter_mut().zip(group).zip(self.0) {
                *name = of.as_deref().filter(|_| is_told);
            }
            cells.entry(names).or_default().merge(tally);
        }
        let cell = |(names, tally): (_, Tally)| Cell {
            group: groups.number(names),
            answers: tally.answers(),
            messages: tally.messages,
            answered: tally.requests,
            all: MessageSums {
                latency_sketch: Sketch::default(),
                ..tally.all
            },
        };
        cells.into_iter().map(cell).collect()
    }
}

/// What the messages of one day and group add up to.
#[derive(Debug)]
pub(super) struct Cell {
    pub group: u32,
    pub messages: u64,
    /// Messages in the role `assistant` that are no further part of another one's answer.
    pub answered: u64,
    /// What messages in any role add up to, but for how their latencies are spread.
    pub all: MessageSums,
    /// What answers alone add up to.
    pub answers: MessageSums,
}

impl Cell {
    /// Errors that another message than an answer has: each stands where an answer was to come.
    pub(super) fn unanswered(&self) -> u64 {
        self.all.errors.saturating_sub(self.answers.errors)
    }

    /// The requests that were answered, or that failed without an answer.
    pub(super) fn requests(&self) -> u64 {
        self.answered.saturating_add(self.unanswered())
    }
}
