//! A snapshot: the state at one moment, with access to its lines.

use std::cell::{Cell, Ref, RefCell};

use parking_lot::RwLockReadGuard;

use super::read_ahead::ReadAhead;
use super::state::{Segment, State};
use crate::error::{Error, ErrorKind, Result};
use crate::index::{Extent, Hasher, Index, Loc, Row, RowId, Table};
#[cfg(feature = "rows")]
use crate::line::add_line;
#[cfg(feature = "http")]
use crate::line::object_of;
use crate::line::{
    Decoded, Envelope, LINE_BYTES_MAX, Line, Reason, TypedRecord, Value, classify, decode,
    decode_as, envelope_of_own, is_intact, piece_at,
};
use crate::record::{Day, Kind};
use crate::segment::{Damage, DamageCounts, Report, SegmentName, Window};
use crate::storage::{full_path, io_error};
use crate::store::Inner;
use crate::store::commit::reentrancy::ReentrancyGuard;
use crate::store::maintain::removals::Anchor;

/// Read access to a store, at one moment or in a transaction.
pub(crate) trait Reads {
    fn index(&self) -> &Index;
    fn hasher(&self) -> Hasher;
    /// The record at a location.
    fn read(&self, kind: Kind, loc: Loc) -> Result<Decoded>;

    /// The record at a location; `None` if it has another type.
    fn read_as<T: TypedRecord>(&self, loc: Loc) -> Result<Option<T>> {
        self.read(T::KIND, loc).map(|decoded| T::of(decoded.record))
    }

    fn table(&self, kind: Kind) -> &Table {
        self.index().table(kind)
    }

    /// The anchors of removed thoughts of a task, in order.
    fn anchors(&self, task_id: &str) -> impl Iterator<Item = &Anchor>;

    /// The greatest event id assigned before any removal; 0 if nothing was removed.
    fn removed_events(&self) -> i64;

    /// The row of a key, if the log has lines with that key.
    fn find(&self, kind: Kind, key: [&str; 2]) -> Option<(RowId, Row)> {
        let table = self.table(kind);
        let id = table.find(self.hasher().key(key))?;
        table.row(id).map(|row| (id, *row))
    }
}

/// The state of a store at one moment, for reading.
pub(crate) struct Snapshot<'a> {
    pub(in crate::store) inner: &'a Inner,
    pub(in crate::store) state: RwLockReadGuard<'a, State>,
    ahead: RefCell<ReadAhead>,
    /// Whether lines that were not read ahead may be read while the state is locked.
    reads_files: bool,
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
        let line = self.intact_line(loc)?;
        self.inner.decode(&self.state, kind, loc, &line)
    }

    #[inline]
    fn read_as<T: TypedRecord>(&self, loc: Loc) -> Result<Option<T>> {
        let line = self.intact_line(loc)?;
        match decode_as(&line) {
            Ok(record) => Ok(record),
            Err(reason) => self
                .inner
                .decode_piece(&self.state, loc, &line, &reason, decode_as),
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
            ahead: RefCell::default(),
            reads_files: true,
            _reentrancy_guard: ReentrancyGuard::of(inner),
            bytes_read: Cell::default(),
        }
    }

    /// Adds lines that were read ahead. `reads_files`: whether it may read other lines.
    pub(super) fn with_ahead(self, ahead: ReadAhead, reads_files: bool) -> Snapshot<'a> {
        Snapshot {
            ahead: RefCell::new(ahead),
            reads_files,
            ..self
        }
    }

    /// Ends the snapshot. Returns the lines read ahead and those still missing.
    pub(super) fn into_ahead(self) -> ReadAhead {
        self.ahead.into_inner()
    }

    /// Whether a part of the saved index could not be read. Then answers may be wrong, and the next
    /// snapshot is of an index that is built anew.
    pub(crate) fn is_broken(&self) -> bool {
        self.state.index.is_broken()
    }

    /// Checks that the answers so far are right.
    ///
    /// # Errors
    /// [`Damaged`](ErrorKind::Damaged) if the snapshot [`is_broken`](Self::is_broken).
    pub(crate) fn check(&self) -> Result<()> {
        if self.is_broken() {
            let message = "the saved index is damaged: repeat the call";
            let path = full_path(&*self.inner.storage, "cache/index");
            return Err(Error::new(ErrorKind::Damaged, message).with_path(&path));
        }
        Ok(())
    }

    /// Whether a line was requested that must be read first. If the caller has other results, it
    /// can return these and continue with that line the next time.
    pub(crate) fn lacks_lines(&self) -> bool {
        self.ahead.borrow().is_missing()
    }

    /// Total length of the lines read.
    pub(crate) fn bytes_read(&self) -> usize {
        self.bytes_read.get()
    }

    /// The line at a location.
    ///
    /// # Errors
    /// [`Damaged`](ErrorKind::Damaged), also if the line must be read ahead and was not.
    fn line(&self, loc: Loc) -> Result<Ref<'_, [u8]>> {
        let identity = self.state.segment_of(loc).identity;
        let ahead = self.ahead.borrow();
        let mut place = ahead.find(loc, identity);
        drop(ahead);
        if place.is_none() {
            let mut ahead = self.ahead.borrow_mut();
            ahead.miss(&self.state, loc);
            if self.reads_files {
                ahead.trim();
                self.inner.read_missing(&mut ahead)?;
                place = ahead.find(loc, identity);
            }
        }
        let Some(place) = place else {
            return Err(Error::new(ErrorKind::Damaged, "the line is not read yet"));
        };
        let line = Ref::map(self.ahead.borrow(), |ahead| ahead.line(place));
        let bytes = self.bytes_read.get();
        self.bytes_read.set(bytes.saturating_add(line.len()));
        Ok(line)
    }

    /// The line at a location. If it is not intact, it must be known to be damaged. Otherwise it
    /// changed since it was indexed, by this handle or by the writer of the sidecar.
    fn intact_line(&self, loc: Loc) -> Result<Ref<'_, [u8]>> {
        let line = self.line(loc)?;
        if !is_intact(&line) && !self.state.knows_damage(loc) {
            let (path, offset) = self.place(loc);
            let message = "the line was changed since it was indexed";
            let path = full_path(&*self.inner.storage, &path);
            let err = Error::new(ErrorKind::Damaged, message);
            return Err(err.with_path(&path).with_offset(offset));
        }
        Ok(line)
    }

    /// Adds the values of the line at a location to the row of its record, and returns the op of the
    /// line. `None` if the record must be decoded.
    #[cfg(feature = "rows")]
    pub(crate) fn add_line(
        &self,
        row: &mut crate::record::columns::Row,
        kind: Kind,
        loc: Loc,
    ) -> Result<Option<crate::line::Op>> {
        Ok(add_line(row, kind, &self.intact_line(loc)?))
    }

    /// The record at a location as JSON object, without the fields that describe the line. `None`
    /// unless the line is certainly as decklog wrote it.
    #[cfg(feature = "http")]
    pub(crate) fn read_json(&self, kind: Kind, loc: Loc) -> Result<Option<String>> {
        // `object_of` checks the checksum. On `None`, the caller decodes the line, which reports
        // damage.
        Ok(object_of(kind, &self.line(loc)?))
    }

    /// Announces that the lines of these rows will be read, so that adjacent ones are read
    /// together.
    pub(crate) fn expect(&self, kind: Kind, rows: impl Iterator<Item = RowId>) {
        let table = self.table(kind);
        let mut ahead = self.ahead.borrow_mut();
        let expected = &mut ahead.expected;
        expected.clear();
        for extent in rows.filter_map(|row| table.extent(row)) {
            let last = expected.last_mut();
            match last.and_then(|last| Some((together(*last, extent)?, last))) {
                Some((both, last)) => *last = both,
                None => expected.push(extent),
            }
        }
    }

    /// The record at a location, and whether the line is now intact.
    pub(crate) fn read_checked(&self, kind: Kind, loc: Loc) -> Result<(Decoded, bool)> {
        let line = self.line(loc)?;
        let decoded = self.inner.decode(&self.state, kind, loc, &line)?;
        let piece = piece_at(&line).and_then(|len| line.get(..len));
        let is_good = matches!(classify(kind, piece.unwrap_or(&line)), Line::Good(_));
        Ok((decoded, is_good))
    }

    /// The parts of the key in the line at a location. The index has only their hash.
    pub(crate) fn key(&self, kind: Kind, loc: Loc) -> Result<[String; 2]> {
        let line = self.intact_line(loc)?;
        let of = |envelope: &Envelope<'_>| {
            let parts = envelope.key.each_ref();
            parts
                .map(|part| String::from_utf8_lossy(part.text(&mut [0; Value::BYTES])).into_owned())
        };
        if let Some(envelope) = envelope_of_own(kind, line.strip_suffix(b"\n").unwrap_or(&line)) {
            return Ok(of(&envelope));
        }
        drop(line);
        Ok(of(&Envelope::of(&self.read(kind, loc)?.record, 0)))
    }

    /// The line at a location as text, without LF.
    pub(crate) fn line_text(&self, loc: Loc) -> Result<String> {
        let line = self.line(loc)?;
        let line = line.strip_suffix(b"\n").unwrap_or(&line);
        Ok(String::from_utf8_lossy(line).into_owned())
    }

    /// Whether a line is in a sealed segment, and so is on disk.
    pub(crate) fn is_sealed(&self, loc: Loc) -> bool {
        self.state.segment_of(loc).is_sealed
    }

    /// The segment of a line.
    pub(crate) fn segment(&self, loc: Loc) -> SegmentName {
        self.state.segment_of(loc).name
    }

    /// The day of the directory that a line is in.
    pub(crate) fn day(&self, loc: Loc) -> Day {
        self.segment(loc).day
    }

    /// The greatest sequence number of the log.
    pub(crate) fn last_seq(&self) -> u64 {
        self.state.max_seq
    }

    /// The position of a line: its file, relative to the store, and its offset.
    pub(crate) fn place(&self, loc: Loc) -> (String, u64) {
        let name = self.segment(loc);
        (name.path(), u64::from(loc.offset))
    }

    /// The damage in the files of a kind.
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

    /// Number of damaged places, listed or not.
    pub(in crate::store) fn damage_counts(&self) -> DamageCounts {
        let mut counts = self.state.damage_counts;
        for damage in self.passing() {
            counts.add(damage.class);
        }
        counts
    }

    /// Damage that can be gone at the next read.
    fn passing(&self) -> impl Iterator<Item = Damage> {
        let torn =
            self.state.segments.iter().filter_map(|segment| {
                Some(segment.tail?.report(segment.end).in_segment(segment.name))
            });
        let taken = self.state.taken.iter();
        let taken = taken.map(|name| Report::no_file().in_segment(*name));
        let files = &self.inner.manifest_damage;
        files
            .iter()
            .chain(&self.state.unreadable)
            .cloned()
            .chain(torn)
            .chain(taken)
    }
}

/// Merges two extents if they are adjacent or nearly so and short enough to be read at once.
fn together(one: Extent, other: Extent) -> Option<Extent> {
    const BETWEEN_MAX: u32 = 1 << 10;
    let (start, end) = (one.start.min(other.start), one.end.max(other.end));
    let apart = (end - start).saturating_sub(one.end - one.start + (other.end - other.start));
    let is_near = one.segment == other.segment && apart <= BETWEEN_MAX;
    let is_short = u64::from(end - start) <= Window::READ_BYTES_MAX as u64;
    (is_near && is_short).then_some(Extent { start, end, ..one })
}

impl Inner {
    /// Reads the record whose line begins at a location.
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
        let Segment { name, identity, .. } = *state.segment_of(loc);
        window.turn_to(loc.segment, identity, || {
            self.files.get(storage, loc.segment, name, identity)
        })?;
        let line = window.line(u64::from(loc.offset), LINE_BYTES_MAX);
        line.map_err(|e| io_error(storage, "read the segment", &name.path(), e))
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

    /// Decodes a whole line that has other bytes appended to it. `reason` is why all of it
    /// together could not be decoded.
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
            let name = state.segment_of(loc).name;
            let message = format!("the line does not read as a record: {}", reason.text);
            Error::new(ErrorKind::Damaged, message)
                .with_path(&full_path(&*self.storage, &name.path()))
                .with_offset(u64::from(loc.offset))
        })
    }
}
