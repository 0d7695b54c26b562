//! Updates the state for rewritten segments without reading them again.

use std::io;

use super::{Segment, State};
use crate::error::Result;
use crate::index::Loc;
use crate::record::Kind;
use crate::segment::SegmentName;
use crate::storage::{Storage, io_error};
use crate::store::commit::head::Head;
use crate::store::maintain::removals;
use crate::store::view::relocations::{self, RelocatedFile, Relocations};

impl State {
    /// Reads what the segments do not contain, before they are read from the start: the number of
    /// rewrites, and the summary of removals with the numbers that were assigned. The segments may
    /// include later rewrites, too.
    pub(super) fn begin_anew(&mut self, storage: &dyn Storage, head: Option<&Head>) -> Result<()> {
        let io = |name, e| io_error(storage, "read", name, e);
        let moved = head.map_or(Ok(0), Head::moved);
        self.moved = Some(moved.map_err(|e| io("HEAD", e))?);
        self.removals = removals::read(storage).map_err(|e| io(removals::NAME, e))?;
        Ok(())
    }

    /// Applies the rewrites since the last call, and one that was just done and is not published
    /// yet. Returns whether there were any.
    pub(super) fn can_relocate(&mut self, storage: &dyn Storage, head: Option<&Head>) -> bool {
        let before = self.moved;
        let can_tell = head.is_none_or(|head| self.relocate(storage, head).unwrap_or(false));
        let next = self.moved.map_or(0, |moved| moved + 1);
        if can_tell
            && Relocations::read(storage, next)
                .is_some_and(|relocations| self.apply_relocations(storage, &relocations))
        {
            self.moved = Some(next);
        }
        can_tell && self.moved != before
    }

    /// Applies the rewrites since the last call. If their relocations are not available, the state
    /// becomes stale.
    pub(super) fn relocate(&mut self, storage: &dyn Storage, head: &Head) -> io::Result<bool> {
        let moved = head.moved()?;
        let known = self.moved.unwrap_or(moved);
        let missed = moved
            .checked_sub(known)
            .filter(|missed| *missed <= relocations::KEPT);
        let mut numbers = known + 1..=moved;
        let can_tell = missed.is_some()
            && numbers.all(|number| {
                Relocations::read(storage, number)
                    .is_some_and(|relocations| self.apply_relocations(storage, &relocations))
            });
        self.moved = Some(moved);
        self.is_stale |= !can_tell;
        Ok(can_tell)
    }

    /// Applies one rewrite. Returns `false` if its segments differ from the known ones.
    pub(super) fn apply_relocations(
        &mut self,
        storage: &dyn Storage,
        relocations: &Relocations,
    ) -> bool {
        let known = |file: &RelocatedFile| {
            let place = *self.by_name.get(&file.name)?;
            let segment = &self.segments[place as usize];
            (segment.identity == file.identity).then_some((place, segment))
        };
        let is_new = |file: &RelocatedFile| {
            let to = relocations.to.map(|new| new.file.identity);
            to == Some(file.identity)
        };
        let has_new = relocations.to.is_none_or(|new| known(&new.file).is_some());
        if has_new
            && !relocations
                .from
                .iter()
                .any(|file| known(file).is_some() && !is_new(file))
        {
            // The state was read after this rewrite.
            return true;
        }
        let places = relocations.from.iter().map(|file| {
            let (place, segment) = known(file)?;
            (segment.end == file.end && segment.tail.is_none()).then_some(place)
        });
        let Some(places) = places.collect::<Option<Vec<u32>>>() else {
            return false;
        };
        let Some(kind) = relocations.from.first().map(|file| file.name.kind) else {
            return true;
        };
        let to = match &relocations.to {
            Some(new) => self.place(new.file.name),
            None => u32::MAX,
        };
        // Records that depend on removed lines need the removals' anchors and watermarks.
        if matches!(kind, Kind::ThoughtRecords | Kind::Events) {
            let Ok(summary) = removals::read(storage) else {
                return false;
            };
            self.removals = summary;
        }
        let taken_over =
            self.index
                .relocate(kind, relocations.map(&places, to), &relocations.ended)
                && self.move_damage(relocations, &places, to);
        if !taken_over {
            self.forget();
            return false;
        }
        for place in places {
            let segment = &mut self.segments[place as usize];
            *segment = Segment::unknown(segment.name);
        }
        if let Some(new) = &relocations.to {
            self.segments[to as usize] = Segment {
                end: new.file.end,
                identity: new.file.identity,
                last_seq: new.last_seq,
                last: new.last,
                is_sealed: true,
                ..Segment::unknown(new.file.name)
            };
        }
        let others = relocations.from.iter().filter(|file| !is_new(file));
        self.obsolete.extend(others);
        let grown = self.segments.iter().zip(0..);
        let grown = grown.filter(|(segment, _)| segment.last_seq > 0);
        let grown = grown.map(|(segment, place)| (segment.last_seq, place));
        let grown = grown.collect();
        self.append_order.clear();
        self.note_grown(grown);
        self.covered = 0;
        self.in_base = 0;
        true
    }

    /// Updates the positions of reported damage. Returns `false` if some of it was removed.
    fn move_damage(&mut self, relocations: &Relocations, places: &[u32], to: u32) -> bool {
        let to = relocations.map(places, to);
        let paths: Vec<String> = relocations
            .from
            .iter()
            .map(|file| file.name.path())
            .collect();
        self.damage.iter_mut().all(|damage| {
            let Some(file) = paths.iter().position(|path| *path == damage.file) else {
                return true;
            };
            let now = to(Loc {
                segment: places[file],
                offset: damage.offset as u32,
            });
            damage.offset = now.offset.into();
            if let Some(new) = &relocations.to {
                damage.file = new.file.name.path();
            }
            now.is_some()
        })
    }

    /// Whether all lines of a file are in another one.
    pub(super) fn is_obsolete(&self, name: SegmentName, identity: u64) -> bool {
        let mut obsolete = self.obsolete.iter();
        obsolete.any(|file| (file.name, file.identity) == (name, identity))
    }
}
