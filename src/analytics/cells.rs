//! The sums of days by the dimensions of a report. Rows are built from them.

use std::collections::{BTreeMap, HashMap};

use super::query::Dimension;
use crate::collections::DaySum;
use crate::record::{Computed, Group, MessageSums, Sketch, Tally};

/// Numbers for groups, so that many days are combined quickly.
#[derive(Debug, Default)]
pub(super) struct Groups {
    numbers: HashMap<Group, u32>,
    names: Vec<Group>,
}

impl Groups {
    fn number(&mut self, group: [Option<&str>; 4]) -> u32 {
        let group = group.map(|name| name.map(str::to_owned));
        *self.numbers.entry(group).or_insert_with_key(|group| {
            self.names.push(group.clone());
            self.names.len() as u32 - 1
        })
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
    /// The dimensions of reports with default settings.
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

    /// The sums of a day by these dimensions.
    pub(super) fn cells(self, day: &DaySum, groups: &mut Groups) -> Vec<Cell> {
        let mut cells: BTreeMap<[Option<&str>; 4], Tally> = BTreeMap::new();
        for (group, tally) in day.tallies() {
            let name = |nth: usize| group[nth].as_deref().filter(|_| self.0[nth]);
            let names = std::array::from_fn(name);
            cells.entry(names).or_default().merge(tally);
        }
        let cell = |(names, tally): (_, Tally)| Cell {
            group: groups.number(names),
            answers: tally.answers(),
            computed: tally.computed,
            computed_of_answers: tally.computed_of_answers(),
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

/// The sums of the messages of one day and group.
#[derive(Debug)]
pub(super) struct Cell {
    pub group: u32,
    pub messages: u64,
    /// Messages in the role `assistant` that are not a part of another message's answer.
    pub answered: u64,
    /// The sums of messages in any role, without the distribution of latencies.
    pub all: MessageSums,
    /// The sums of answers only.
    pub answers: MessageSums,
    /// Computed costs of messages in any role, and of answers only.
    pub computed: Computed,
    pub computed_of_answers: Computed,
}

impl Cell {
    /// Errors of messages other than answers. Each takes the place of an answer.
    pub(super) fn unanswered(&self) -> u64 {
        self.all.errors.saturating_sub(self.answers.errors)
    }

    /// The requests that were answered or failed without an answer.
    pub(super) fn requests(&self) -> u64 {
        self.answered.saturating_add(self.unanswered())
    }
}
