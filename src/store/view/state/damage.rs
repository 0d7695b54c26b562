//! What a handle knows of damaged lines.

use std::collections::{BTreeMap, HashSet};
use std::ops::RangeInclusive;

use super::{DAMAGE_LISTED_MAX, Segment, State};
use crate::index::{Entry, Loc};
use crate::record::{Day, Kind};
use crate::segment::{Damage, DamageClass, Report};

/// The damaged lines of a segment.
#[derive(Debug, Clone)]
pub(in crate::store) struct KnownDamage {
    /// Whether all damage is listed. Past the limit, any line may be a damaged one.
    is_listed: bool,
    ranges: Vec<RangeInclusive<u64>>,
}

impl KnownDamage {
    pub(in crate::store) fn has(&self, offset: u64) -> bool {
        !self.is_listed || self.ranges.iter().any(|range| range.contains(&offset))
    }
}

impl State {
    /// Segments with lines that repeat a sequence number. The lines of `runs` are in order.
    pub(super) fn repeats(&self, runs: &[Vec<Entry>]) -> Vec<Damage> {
        let mut found: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
        let mut last: Option<&Entry> = None;
        for line in runs.iter().flatten().filter(|line| !line.is_altered) {
            if last.is_some_and(|last| last.seq == line.seq) {
                let offset = u64::from(line.loc.offset);
                let (first, count) = found.entry(line.loc.segment).or_insert((offset, 0));
                *first = offset.min(*first);
                *count += 1;
            }
            last = Some(line);
        }
        let report = |(segment, (first, count)): (u32, (u64, u64))| {
            let Segment { name, end, .. } = self.segments[segment as usize];
            Report::repeated(count, first, end).in_segment(name)
        };
        found.into_iter().map(report).collect()
    }

    /// Whether the line at this location is known to be damaged.
    pub(in crate::store) fn knows_damage(&self, loc: Loc) -> bool {
        let is_known = (loc.segment as usize) < self.segments.len();
        is_known && {
            let known = self.known_damage(loc.segment as usize);
            known.has(loc.offset.into())
        }
    }

    /// The known damage of a segment.
    pub(in crate::store) fn known_damage(&self, segment: usize) -> KnownDamage {
        let name = self.segments[segment].name;
        let path = if self.damage.is_empty() {
            String::new()
        } else {
            name.path()
        };
        let is_there = |damage: &&Damage| {
            // Lines of these classes are intact. Only their place or their number of copies is
            // wrong.
            let is_whole = [DamageClass::Repeated, DamageClass::Misplaced].contains(&damage.class);
            damage.file == path && !is_whole
        };
        let ranges = self.damage.iter().filter(is_there);
        let ranges = ranges.map(|damage| damage.offset..=damage.offset + damage.length);
        KnownDamage {
            is_listed: self.damage_listed[name.kind as usize] < DAMAGE_LISTED_MAX,
            ranges: ranges.collect(),
        }
    }

    /// The files of a day with damaged or repeated lines.
    pub(in crate::store) fn damaged_in(&self, day: Day) -> HashSet<&str> {
        let day = day.to_string();
        let of_day = self.damage.iter().filter(|damage| {
            damage.class != DamageClass::Misplaced && damage.file.starts_with(&day)
        });
        of_day.map(|damage| &*damage.file).collect()
    }

    /// Whether all damage of a kind is listed, so that none is only counted.
    pub(in crate::store) fn lists_all_damage(&self, kind: Kind) -> bool {
        self.damage_listed[kind as usize] < DAMAGE_LISTED_MAX
    }
}
