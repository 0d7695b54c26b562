//! A snapshot: the state at one moment, and the lines that it points to.

use std::cell::{Cell, RefCell};
use std::sync::RwLockReadGuard;

use super::state::{Segment, State};
use crate::error::{Error, ErrorKind, Result};
use crate::index::{Extent, Hasher, Index, Loc, Row, RowId, Table};
#[cfg(feature = "http")]
use crate::line::object_of;
use crate::line::{
    Decoded, LINE_BYTES_MAX, Line, Reason, TypedRecord, classify, decode, decode_as, is_intact,
    piece_at,
};
use crate::record::{Day, Kind};
use crate::segment::{Damage, DamageCounts, Report, SegmentName, Window};
use crate::storage::full_path;
use crate::store::Inner;
use crate::store::commit::reentrancy::ReentrancyGuard;
use crate::store::maintain::removals::Anchor;

/// What the rules look things up in: the store at one moment, or in a transaction.
pub(crate) trait Reads {
    fn index(&self) -> &Index;
    fn hasher(&self) -> Hasher;
    /// The record at a place.
    fn read(&self, kind: Kind, loc: Loc) -> Result<Decoded>;

    /// The record at a place; `None` if it is of another type.
    fn read_as<T: TypedRecord>(&self, loc: Loc) -> Result<Option<T>> {
        self.read(T::KIND, loc).map(|decoded| T::of(decoded.record))
    }

    fn table(&self, kind: Kind) -> &Table {
        self.index().table(kind)
    }

    /// What is kept of thoughts that were removed, of one task, in order.
    fn anchors(&self, task_id: &str) -> impl Iterator<Item = &Anchor>;

    /// The greatest id of an event that was given before any was removed; else 0.
    fn removed_events(&self) -> i64;

    /// The row of a key, if the log has lines of it.
    fn find(&self, kind: Kind, key: [&str; 2]) -> Option<(RowId, Row)> {
        let table = self.table(kind);
        let id = table.find(self.hasher().key(key))?;
        table.row(id).map(|row| (id, *row))
    }
}

/// The state of a store at one moment, to read from.
pub(crate) struct Snapshot<'a> {
    pub(in crate::store) inner: &'a Inner,
    pub(in crate::store) state: RwLockReadGuard<'a, State>,
    window: RefCell<Window>,
    _reentrancy_guard: ReentrancyGuard,
    bytes_read: Cell<usize>,
}

impl Reads for Snapshot<'_> {
    fn index(&self) -> &Index {
        &self.state.index
    }

    fn anchors(&self, task_id: &str) -> impl Iterator<Item = &Anchor> {
        self.state.removals.anchors_of(task_id)
    }

    fn removed_events(&self) -> i64 {
        self.state.removals.marks.events
    }

    fn hasher(&self) -> Hasher {
        self.inner.hasher
    }

    fn read(&self, kind: Kind, loc: Loc) -> Result<Decoded> {
        let mut window = self.window.borrow_mut();
        let line = self.intact_line(&mut window, loc)?;
        self.inner.decode(&self.state, kind, loc, line)
    }

    #[inline]
    fn read_as<T: TypedRecord>(&self, loc: Loc) -> Result<Option<T>> {
        let mut window = self.window.borrow_mut();
        let line = self.intact_line(&mut window, loc)?;
        match decode_as(line) {
            Ok(record) => Ok(record),
            Err(reason) => self
                .inner
                .decode_piece(&self.state, loc, line, &reason, decode_as),
        }
    }
}

impl<'a> Snapshot<'a> {
    pub(in crate::store) fn new(
        inner: &'a Inner,
        state: RwLockReadGuard<'a, State>,
    ) -> Snapshot<'a> {
        Snapshot {
            inner,
            state,
            window: RefCell::default(),
            _reentrancy_guard: ReentrancyGuard::of(inner),
            bytes_read: Cell::default(),
        }
    }

    /// How long the lines are that were read, together.
    pub(crate) fn bytes_read(&self) -> usize {
        self.bytes_read.get()
    }

    fn note_read(&self, line: &[u8]) {
        let bytes = self.bytes_read.get();
        self.bytes_read.set(bytes.saturating_add(line.len()));
    }

    /// The line at a place. One that is not as decklog wrote it must be known to be so: it may
    /// have changed since it was indexed, by this handle or by who left the sidecar.
    fn intact_line<'w>(&self, window: &'w mut Window, loc: Loc) -> Result<&'w [u8]> {
        let line = self.inner.read_line(&self.state, window, loc)?;
        self.note_read(line);
        if !is_intact(line) && !self.state.knows_damage(loc) {
            let (path, offset) = self.place(loc);
            let message = "the line was changed since it was indexed";
            let path = full_path(&*self.inner.storage, &path);
            let err = Error::new(ErrorKind::Damaged, message);
            return Err(err.with_path(&path).with_offset(offset));
        }
        Ok(line)
    }

    /// The record at a place as it stands in its line, a JSON object without what says of the line;
    /// `None` where the line is not surely as decklog writes it.
    #[cfg(feature = "http")]
    pub(crate) fn read_json(&self, kind: Kind, loc: Loc) -> Result<Option<String>> {
        let mut window = self.window.borrow_mut();
        // Its checksum is looked at there; who reads another line as a record is told of damage.
        let line = self.inner.read_line(&self.state, &mut window, loc)?;
        self.note_read(line);
        Ok(object_of(kind, line))
    }

    /// These, of which `row` tells the rows, for who reads the lines of each before it takes the
    /// next: lines that stand together are read from the file at once.
    pub(crate) fn reading<T: Copy>(
        &self,
        kind: Kind,
        these: &[T],
        row: impl Fn(T) -> RowId,
    ) -> impl Iterator<Item = T> {
        let mut expected = 0;
        these.iter().enumerate().map(move |(place, this)| {
            if place == expected {
                let ahead = these[place..].iter().map(|this| row(*this));
                expected += self.expect(kind, ahead).max(1);
            }
            *this
        })
    }

    /// Has the lines of these rows read at once, as many as stand together; says how many.
    pub(crate) fn expect(&self, kind: Kind, rows: impl Iterator<Item = RowId>) -> usize {
        let table = self.table(kind);
        let mut extents = rows.map_while(|row| table.extent(row));
        let Some(mut all) = extents.next() else {
            return 0;
        };
        let mut count = 1;
        for extent in extents {
            match together(all, extent) {
                Some(both) => all = both,
                None => break,
            }
            count += 1;
        }
        let Extent {
            segment,
            start,
            end,
        } = all;
        let mut window = self.window.borrow_mut();
        window.expect(segment, u64::from(start), u64::from(end));
        count
    }

    /// The record at a place, and whether the line is as decklog wrote it, by its bytes of now.
    pub(crate) fn read_checked(&self, kind: Kind, loc: Loc) -> Result<(Decoded, bool)> {
        let mut window = self.window.borrow_mut();
        let line = self.inner.read_line(&self.state, &mut window, loc)?;
        let decoded = self.inner.decode(&self.state, kind, loc, line)?;
        let piece = piece_at(line).and_then(|len| line.get(..len));
        let is_good = matches!(classify(kind, piece.unwrap_or(line)), Line::Good(_));
        Ok((decoded, is_good))
    }

    /// Whether a line stands in a sealed segment, and so is on disk.
    pub(crate) fn is_sealed(&self, loc: Loc) -> bool {
        self.state.segments[loc.segment as usize].is_sealed
    }

    /// The segment that a line stands in.
    pub(crate) fn segment(&self, loc: Loc) -> SegmentName {
        self.state.segments[loc.segment as usize].name
    }

    /// The day in whose directory a line stands.
    pub(crate) fn day(&self, loc: Loc) -> Day {
        self.segment(loc).day
    }

    /// The greatest sequence number of the log.
    pub(crate) fn last_seq(&self) -> u64 {
        self.state.max_seq
    }

    /// Where a line stands: its file, relative to the store, and its offset.
    pub(crate) fn place(&self, loc: Loc) -> (String, u64) {
        let name = self.state.segments[loc.segment as usize].name;
        (name.path(), u64::from(loc.offset))
    }

    /// What is damaged in the files of a kind.
    pub(crate) fn damage_of(&self, kind: Kind) -> Vec<Damage> {
        let is_of_kind = |file: &str| {
            let name = file.rsplit('/').next().unwrap_or_default();
            name.split('.').next() == Some(kind.stem())
        };
        self.damage()
            .filter(|damage| is_of_kind(&damage.file))
            .collect()
    }

    pub(in crate::store) fn damage(&self) -> impl Iterator<Item = Damage> {
        self.state.damage.iter().cloned().chain(self.passing())
    }

    /// How much damage there is, listed or not.
    pub(in crate::store) fn damage_counts(&self) -> DamageCounts {
        let mut counts = self.state.damage_counts;
        for damage in self.passing() {
            counts.add(damage.class);
        }
        counts
    }

    /// Damage that may be none any more at the next look.
    fn passing(&self) -> impl Iterator<Item = Damage> {
        let torn =
            self.state.segments.iter().filter_map(|segment| {
                Some(segment.tail?.report(segment.end).in_file(segment.name))
            });
        let taken = self.state.taken.iter();
        let taken = taken.map(|name| Report::no_file().in_file(*name));
        let files = &self.inner.manifest_damage;
        files
            .iter()
            .chain(&self.state.unreadable)
            .cloned()
            .chain(torn)
            .chain(taken)
    }
}

/// Both of two extents, if they are next to each other and not too long to be read at once.
fn together(one: Extent, other: Extent) -> Option<Extent> {
    const BETWEEN_MAX: u32 = 1 << 10;
    let (start, end) = (one.start.min(other.start), one.end.max(other.end));
    let apart = (end - start).saturating_sub(one.end - one.start + (other.end - other.start));
    let is_near = one.segment == other.segment && apart <= BETWEEN_MAX;
    let is_short = u64::from(end - start) <= Window::READ_BYTES_MAX as u64;
    (is_near && is_short).then_some(Extent { start, end, ..one })
}

impl Inner {
    /// Reads the record whose line starts at a place.
    pub(in crate::store) fn read(
        &self,
        state: &State,
        window: &RefCell<Window>,
        kind: Kind,
        loc: Loc,
    ) -> Result<Decoded> {
        let mut window = window.borrow_mut();
        let line = self.read_line(state, &mut window, loc)?;
        self.decode(state, kind, loc, line)
    }

    fn read_line<'w>(&self, state: &State, window: &'w mut Window, loc: Loc) -> Result<&'w [u8]> {
        let storage = &*self.storage;
        let Segment { name, identity, .. } = state.segments[loc.segment as usize];
        window.turn_to(loc.segment, identity, || {
            self.files.get(storage, loc.segment, name, identity)
        })?;
        let line = window.line(u64::from(loc.offset), LINE_BYTES_MAX);
        line.map_err(|e| Error::io("read the segment", &full_path(storage, &name.path()), e))
    }

    pub(in crate::store) fn decode(
        &self,
        state: &State,
        kind: Kind,
        loc: Loc,
        line: &[u8],
    ) -> Result<Decoded> {
        let decoded = decode(kind, line);
        decoded.or_else(|reason| {
            self.decode_piece(state, loc, line, &reason, |line| decode(kind, line))
        })
    }

    /// Decodes a whole line with other bytes glued to it, for the reason that all of it does not
    /// read as a record.
    #[cold]
    fn decode_piece<T>(
        &self,
        state: &State,
        loc: Loc,
        line: &[u8],
        reason: &Reason,
        decode: impl FnOnce(&[u8]) -> Result<T, Reason>,
    ) -> Result<T> {
        let piece = piece_at(line).and_then(|len| line.get(..len));
        piece.and_then(|piece| decode(piece).ok()).ok_or_else(|| {
            let name = state.segments[loc.segment as usize].name;
            let message = format!("the line does not read as a record: {}", reason.text);
            Error::new(ErrorKind::Damaged, message)
                .with_path(&full_path(&*self.storage, &name.path()))
                .with_offset(u64::from(loc.offset))
        })
    }
}
