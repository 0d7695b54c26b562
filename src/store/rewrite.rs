//! Rewrites segments that nothing is appended to any more, leaving lines out or joining several
//! into one, while others read and write the store. What is read and written takes its time
//! without the lock; under it, files change names and those who know them move over.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use serde_json::value::RawValue;

use super::gather::{LineEnd, line_end};
use super::moves::{MovedFile, Moves, NewFile, Piece};
use super::removals::{self, Anchor, Removal, RemovalReason};
use super::{Inner, SealLog, View};
use crate::error::{Error, Result};
use crate::index::{Entry, KeyHash, Loc};
use crate::line::{LINE_BYTES_MAX, Line};
use crate::record::{Day, Kind, now};
use crate::segment::seal::{Contents, Seal, Sealer, hash_file};
use crate::segment::{Buffer, Fact, Found, SegmentName, Span, Stretch, scan, scan_span};
use crate::storage::{Access, Storage, StorageFile, append_all, full_path, is_gone, read_full};

/// So many lines are judged while the state cannot change.
const BATCH_LINES: usize = 500;
/// So many bytes are copied at a time.
const COPY_BYTES: usize = 1 << 20;

/// A line of a segment, or what stands for one.
pub(crate) struct Candidate<'a> {
    /// Without LF; empty where the line is too long to be read.
    pub bytes: &'a [u8],
    /// What the index knows of it; `None` if it holds no record.
    pub entry: Option<Entry>,
}

/// Segments, each with its length, by day and kind.
pub(crate) type Settled = BTreeMap<(Day, Kind), Vec<(SegmentName, u64)>>;

/// Whether a line stays in the log.
pub(crate) type Judge<'j> = dyn FnMut(&View<'_>, &Candidate<'_>) -> Result<bool> + 'j;

/// Segments of one day and kind, sorted into what stays and what goes.
pub(crate) struct Cut {
    day: Day,
    files: Vec<(MovedFile, Arc<dyn StorageFile>)>,
    pieces: Vec<Piece>,
    /// What goes, of each file.
    gone: Vec<Gone>,
    last_seq: u64,
    last: Option<LineEnd>,
}

/// What goes of a segment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Gone {
    pub lines: u64,
    pub bytes: u64,
    seqs: (u64, u64),
    ats: (i64, i64),
}

impl Gone {
    const NOTHING: Gone = Gone {
        lines: 0,
        bytes: 0,
        seqs: (u64::MAX, 0),
        ats: (i64::MAX, i64::MIN),
    };

    fn add(&mut self, bytes: u64, entry: Option<&Entry>) {
        self.lines += 1;
        self.bytes += bytes;
        if let Some(Entry { seq, at, .. }) = entry {
            self.seqs = (self.seqs.0.min(*seq), self.seqs.1.max(*seq));
            self.ats = (self.ats.0.min(*at), self.ats.1.max(*at));
        }
    }
}

/// What goes with the lines.
#[derive(Debug, Default)]
pub(crate) struct With {
    /// Conversations that go, and how many messages each had when that was judged.
    pub ended: Vec<(KeyHash, u64)>,
    /// The last thoughts that go of each chain.
    pub anchors: Vec<Anchor>,
}

impl Cut {
    /// What goes, of all files.
    pub(crate) fn gone(&self) -> impl Iterator<Item = (SegmentName, Gone)> {
        let names = self.files.iter().map(|(file, _)| file.name);
        let gone = names.zip(self.gone.iter().copied());
        gone.filter(|(_, gone)| gone.lines > 0)
    }

    fn changes_nothing(&self) -> bool {
        self.files.len() == 1 && self.gone().next().is_none()
    }
}

impl Inner {
    /// The segments of each day and kind that nothing is appended to any more: their days are
    /// before this one, or others of their day and kind follow. Each with its length.
    pub(crate) fn settled(&self, today: Day) -> Result<Settled> {
        let view = self.fresh()?;
        let mut settled: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for (name, place) in &view.state.by_name {
            let segment = &view.state.segments[*place as usize];
            let SegmentName { day, kind, .. } = *name;
            let grows = view.state.active(day, kind) == Some(*place) && day >= today;
            if segment.identity != 0 && !grows {
                let segments = settled.entry((day, kind)).or_default();
                segments.push((*name, segment.expected_len()));
            }
        }
        Ok(settled)
    }

    /// How long the segments of each day are.
    pub(crate) fn bytes_by_day(&self) -> Result<BTreeMap<Day, u64>> {
        let view = self.fresh()?;
        let mut bytes = BTreeMap::new();
        for segment in &view.state.segments {
            if segment.identity != 0 {
                *bytes.entry(segment.name.day).or_default() += segment.expected_len();
            }
        }
        Ok(bytes)
    }

    /// Every segment that there is.
    pub(crate) fn segments(&self) -> Result<Vec<SegmentName>> {
        let view = self.fresh()?;
        let segments = view.state.segments.iter();
        let there = segments.filter(|segment| segment.identity != 0);
        Ok(there.map(|segment| segment.name).collect())
    }

    /// Calls `sink` for every line of a segment, also a last one without LF; for none if it is gone.
    pub(crate) fn each_line(&self, name: SegmentName, sink: &mut dyn FnMut(&[u8])) -> Result<()> {
        let path = name.path();
        let storage = &*self.storage;
        let io = |e| Error::io("read the segment", &full_path(storage, &path), e);
        let file = match storage.open(&path, Access::Read) {
            Ok(file) => file,
            Err(e) if is_gone(&e) => return Ok(()),
            Err(e) => return Err(io(e)),
        };
        let mut line = |found: Stretch<'_>| {
            if let Stretch::Line { bytes, .. } = found {
                sink(bytes);
            }
        };
        let (from, all) = (0, u64::MAX);
        let span = Span {
            from,
            stop: all,
            until: all,
        };
        let mut buffer = Buffer::default();
        let scanned = scan_span(
            &*file,
            name.kind,
            span,
            LINE_BYTES_MAX,
            &mut buffer,
            &mut line,
        );
        let scanned = scanned.map_err(io)?;
        if let Some(tail) = scanned.tail.filter(|tail| tail.len < LINE_BYTES_MAX as u64) {
            let mut bytes = vec![0; tail.len as usize];
            let read = read_full(&*file, &mut bytes, scanned.end).map_err(io)?;
            sink(&bytes[..read]);
        }
        Ok(())
    }

    /// Reads segments of one day and kind, in the order of their numbers, and has each line
    /// judged. `None` if one of them is not there any more, or has no LF at its end.
    pub(crate) fn cut(&self, names: &[SegmentName], judge: &mut Judge<'_>) -> Result<Option<Cut>> {
        let Some(first) = names.first().copied() else {
            return Ok(None);
        };
        let mut cut = Cut {
            day: first.day,
            files: Vec::new(),
            pieces: Vec::new(),
            gone: Vec::new(),
            last_seq: 0,
            last: None,
        };
        let storage = &*self.storage;
        for (name, number) in names.iter().copied().zip(0..) {
            let path = name.path();
            let io = |e| Error::io("read the segment", &full_path(storage, &path), e);
            let place = {
                let view = self.fresh()?;
                let place = view.state.by_name.get(&name).copied();
                let known = place.map(|place| &view.state.segments[place as usize]);
                match known.filter(|known| known.identity != 0 && known.tail.is_none()) {
                    Some(known) => {
                        cut.last_seq = cut.last_seq.max(known.last_seq);
                        place.unwrap_or(0)
                    }
                    None => return Ok(None),
                }
            };
            let file = match storage.open(&path, Access::Read) {
                Ok(file) => file,
                Err(e) if is_gone(&e) => return Ok(None),
                Err(e) => return Err(io(e)),
            };
            let stat = file.stat().map_err(io)?;
            // What it holds beyond that, the index could not tell the place of.
            if stat.len >= u64::from(u32::MAX) {
                return Ok(None);
            }
            let end = self.judge_all(&mut cut, (number, place, name), &*file, judge)?;
            if end != stat.len {
                return Ok(None);
            }
            let identity = stat.identity;
            cut.files.push((
                MovedFile {
                    name,
                    identity,
                    end,
                },
                file,
            ));
        }
        Ok(Some(cut))
    }

    /// Judges the lines of one segment; where they end.
    fn judge_all(
        &self,
        cut: &mut Cut,
        (number, place, name): (u32, u32, SegmentName),
        file: &dyn StorageFile,
        judge: &mut Judge<'_>,
    ) -> Result<u64> {
        let mut batch = Batch {
            number,
            bytes: Vec::new(),
            lines: Vec::new(),
        };
        cut.gone.push(Gone::NOTHING);
        let mut failed = None;
        let mut sink = |found: Found<'_>| {
            batch.take(self, (name.kind, place), &found);
            if batch.lines.len() >= BATCH_LINES || batch.bytes.len() >= COPY_BYTES {
                failed = failed.take().or(batch.judge(self, cut, judge).err());
            }
        };
        let scanned = scan(file, name.kind, 0, u64::MAX, LINE_BYTES_MAX, &mut sink);
        let path = || full_path(&*self.storage, &name.path());
        let scanned = scanned.map_err(|e| Error::io("read the segment", &path(), e))?;
        match failed {
            Some(e) => return Err(e),
            None => batch.judge(self, cut, judge)?,
        }
        Ok(if scanned.tail.is_some() {
            u64::MAX
        } else {
            scanned.end
        })
    }

    /// Puts what stays in the place of what was cut, by the last one's name, and notes what went;
    /// `false`, and nothing done, if the segments are not sealed or changed meanwhile.
    pub(crate) fn apply(&self, cut: &Cut, reason: RemovalReason, with: &With) -> Result<bool> {
        if cut.changes_nothing() {
            return Ok(true);
        }
        let storage = &*self.storage;
        let Some((last, _)) = cut.files.last() else {
            return Ok(true);
        };
        let target = last.name;
        let temporary = format!("{}.tmp", target.path());
        let io = |e| {
            Error::io(
                "rewrite the segment",
                &full_path(storage, &target.path()),
                e,
            )
        };
        let written = if cut.pieces.is_empty() {
            None
        } else {
            let written = cut.write(storage, target, &temporary);
            let written = written.inspect_err(|_| discard(storage, &temporary));
            Some(written.map_err(io)?)
        };
        let to = written.map(|(identity, contents)| NewFile {
            file: MovedFile {
                name: target,
                identity,
                end: contents.bytes,
            },
            last_seq: cut.last_seq,
            last: cut.last,
        });
        let contents = written.map(|(_, contents)| contents);
        let is_noted = self.note(cut, reason, &with.anchors, contents.as_ref())?;
        if !is_noted || !self.put_in_place(cut, to, &temporary, with)? {
            discard(storage, &temporary);
            return Ok(false);
        }
        let dir = cut.day.to_string();
        storage.sync_dir(&dir).map_err(io)?;
        // Their lines stand in the new file by now, also after a power cut.
        for (file, _) in &cut.files {
            if to.is_some() && file.name != target {
                remove_if_there(storage, &file.name.path()).map_err(io)?;
            }
        }
        if cut.files.len() > 1 {
            storage.sync_dir(&dir).map_err(io)?;
        }
        self.leave_day(cut.day, reason)?;
        Ok(true)
    }

    fn put_in_place(
        &self,
        cut: &Cut,
        to: Option<NewFile>,
        temporary: &str,
        with: &With,
    ) -> Result<bool> {
        let moves = Moves {
            from: cut.files.iter().map(|(file, _)| *file).collect(),
            to,
            pieces: cut.pieces.clone(),
            ended: with.ended.iter().map(|(key, _)| *key).collect(),
        };
        let txn = self.begin()?;
        if txn.still_has(&with.ended) {
            return txn.replace(&moves, temporary);
        }
        txn.commit()?;
        Ok(false)
    }

    /// Notes what goes and seals what takes its place, so that both are on disk before anything
    /// changes; `false`, and nothing noted, if not all of it is sealed.
    fn note(
        &self,
        cut: &Cut,
        reason: RemovalReason,
        anchors: &[Anchor],
        contents: Option<&Contents>,
    ) -> Result<bool> {
        let storage = &*self.storage;
        let mut log = self.seals();
        let txn = self.begin()?;
        log.refresh(storage)?;
        let sealed = cut.files.iter().map(|(file, _)| {
            let found = storage.stat(&file.name.path());
            let is_closed = found.is_ok_and(|found| found.is_read_only);
            log.seals_of(file.name).next().filter(|_| is_closed)
        });
        let Some(sealed) = sealed.collect::<Option<Vec<&Seal>>>() else {
            txn.commit()?;
            return Ok(false);
        };
        let replaces = sealed.iter().map(|seal| seal.seal).collect();
        let mut removals: Vec<Removal> = Vec::new();
        for (name, gone) in cut.gone() {
            removals.push(Removal {
                lines: gone.lines,
                bytes: gone.bytes,
                first_seq: gone.seqs.0.min(gone.seqs.1),
                last_seq: gone.seqs.1,
                first_at: gone.ats.0.min(gone.ats.1),
                last_at: gone.ats.1,
                ..Removal::new(reason, name.path(), txn.marks())
            });
        }
        if let Some(first) = removals.first_mut() {
            first.anchors = anchors.to_vec();
            if contents.is_none() {
                first.seals = sealed.into_iter().map(raw).collect();
            }
        }
        let file = append_all_of(storage, &removals)?;
        if let (Some(contents), Some((last, _))) = (contents, cut.files.last()) {
            let reason = reason.into();
            log.append(storage, now(), last.name, contents, reason, replaces)?;
        }
        txn.commit()?;
        log.settle(storage)?;
        sync_removals(storage, file)?;
        Ok(true)
    }

    /// Removes a day's directory if it has no segments any more; its seals are kept with what was
    /// removed.
    fn leave_day(&self, day: Day, reason: RemovalReason) -> Result<()> {
        let storage = &*self.storage;
        let dir = day.to_string();
        let io = |e| Error::io("remove the directory", &full_path(storage, &dir), e);
        let seals = format!("{dir}/{}", SealLog::FILE);
        let is_left = || match storage.read_dir(&dir) {
            Ok(entries) => Ok(entries.iter().all(|entry| entry.name == SealLog::FILE)),
            Err(e) if is_gone(&e) => Ok(false),
            Err(e) => Err(io(e)),
        };
        if !is_left()? {
            return Ok(());
        }
        let mut log = self.seals();
        let txn = self.begin()?;
        log.refresh(storage)?;
        let left: Vec<_> = log.only_in(&seals).map(raw).collect();
        let mut file = None;
        if !left.is_empty() {
            let removal = Removal {
                seals: left,
                ..Removal::new(reason, seals.clone(), txn.marks())
            };
            file = append_all_of(storage, &[removal])?;
        }
        txn.commit()?;
        sync_removals(storage, file)?;
        // Someone may be about to write a late fact there, or to seal one.
        let txn = self.begin()?;
        log.refresh(storage)?;
        if is_left()? && log.only_in(&seals).next().is_none() {
            remove_if_there(storage, &seals).map_err(io)?;
            storage.remove_dir(&dir).map_err(io)?;
        }
        txn.commit()?;
        storage.sync_dir("").map_err(io)
    }

    /// Removes what someone left who was interrupted: files that were written in part, and
    /// segments that were joined to another one. No one else rewrites meanwhile.
    pub(crate) fn clear_up(&self) -> Result<()> {
        self.discard_leftovers(&self.beside()?.leftovers)?;
        self.finish_joins()
    }

    /// Removes segments whose lines stand in another one.
    fn finish_joins(&self) -> Result<()> {
        let storage = &*self.storage;
        let mut log = self.seals();
        log.refresh(storage)?;
        for name in self.segments()? {
            let (Some(own), Some(by)) = (log.gone(name), log.joined_to(name)) else {
                continue;
            };
            let path = name.path();
            let io = |e| Error::io("read the segment", &full_path(storage, &path), e);
            let holds = |seal: &Seal, name: SegmentName| {
                let file = storage.open(&name.path(), Access::Read)?;
                let (sha256, _) = hash_file(&*file)?;
                io::Result::Ok(sha256 == seal.sha256)
            };
            let Some(into) = SealLog::segment_of(by) else {
                continue;
            };
            if !holds(own, name).map_err(io)? || !holds(by, into).map_err(io)? {
                continue;
            }
            storage.sync_dir(&name.day.to_string()).map_err(io)?;
            let mut txn = self.begin()?;
            remove_if_there(storage, &path).map_err(io)?;
            txn.look_again()?;
            txn.commit()?;
            storage.sync_dir(&name.day.to_string()).map_err(io)?;
        }
        Ok(())
    }
}

/// A seal as it stands in its line.
fn raw(seal: &Seal) -> Box<RawValue> {
    RawValue::from_string(seal.to_line()).unwrap_or_default()
}

fn append_all_of(
    storage: &dyn Storage,
    removals: &[Removal],
) -> Result<Option<Arc<dyn StorageFile>>> {
    let mut file = None;
    for removal in removals {
        let appended = removals::append(storage, removal);
        file = Some(appended.map_err(|e| not_noted(storage, e))?);
    }
    Ok(file)
}

fn sync_removals(storage: &dyn Storage, file: Option<Arc<dyn StorageFile>>) -> Result<()> {
    let Some(file) = file else { return Ok(()) };
    let synced = file.sync().and_then(|()| storage.sync_dir(""));
    synced.map_err(|e| not_noted(storage, e))
}

fn not_noted(storage: &dyn Storage, e: io::Error) -> Error {
    let path = full_path(storage, removals::NAME);
    Error::io("note what is removed", &path, e)
}

impl Cut {
    /// Writes what stays to a file of its own, which survives the machine once it has a name that
    /// does, and no one writes any more; its identity, and what it holds under the name that it
    /// will have.
    fn write(
        &self,
        storage: &dyn Storage,
        name: SegmentName,
        path: &str,
    ) -> io::Result<(u64, Contents)> {
        remove_if_there(storage, path)?;
        let out = storage.open(path, Access::Append)?;
        let mut room = vec![0; COPY_BYTES];
        for piece in &self.pieces {
            let (_, file) = &self.files[piece.file as usize];
            let (mut at, mut left) = (u64::from(piece.start), piece.len as usize);
            while left > 0 {
                let wanted = left.min(COPY_BYTES);
                let read = read_full(&**file, &mut room[..wanted], at)?;
                if read < wanted {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                append_all(&*out, &room[..read])?;
                at += read as u64;
                left -= read;
            }
        }
        storage.set_read_only(path)?;
        // By a handle that was opened to read, which makes the mode survive as well.
        storage.open(path, Access::Read)?.sync()?;
        let contents = Sealer::of_file(&*out, name)?;
        Ok((out.stat()?.identity, contents))
    }
}

/// Lines that are judged together.
struct Batch {
    /// The file's place in [`Cut::files`].
    number: u32,
    bytes: Vec<u8>,
    lines: Vec<BatchLine>,
}

struct BatchLine {
    start: u64,
    /// With its LF.
    len: u64,
    /// Of its bytes, in those of the batch.
    range: std::ops::Range<usize>,
    entry: Option<Entry>,
}

impl Batch {
    fn take(&mut self, inner: &Inner, (kind, segment): (Kind, u32), found: &Found<'_>) {
        let mut entry = None;
        let is_damaged = matches!(
            found,
            Found::Line {
                line: Line::Damaged(_),
                ..
            }
        );
        found.facts(kind, &mut |fact: Fact<'_>| {
            let offset = fact.offset as u32;
            // Of a damaged line there may be several.
            if !is_damaged {
                entry = Some(
                    inner
                        .hasher
                        .entry(kind, fact.envelope, Loc { segment, offset }),
                );
            }
        });
        let (start, len, bytes) = match found {
            Found::Line { offset, bytes, .. } => (*offset, bytes.len() as u64 + 1, *bytes),
            Found::TooLong { offset, len } => (*offset, len + 1, &[][..]),
        };
        let from = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        self.lines.push(BatchLine {
            start,
            len,
            range: from..self.bytes.len(),
            entry,
        });
    }

    fn judge(&mut self, inner: &Inner, cut: &mut Cut, judge: &mut Judge<'_>) -> Result<()> {
        let view = inner.fresh()?;
        for line in self.lines.drain(..) {
            let candidate = Candidate {
                bytes: &self.bytes[line.range],
                entry: line.entry,
            };
            if judge(&view, &candidate)? {
                cut.keep(self.number, line.start, line.len);
                cut.last = line_end(candidate.bytes);
            } else if let Some(gone) = cut.gone.last_mut() {
                gone.add(line.len, candidate.entry.as_ref());
            }
        }
        self.bytes.clear();
        Ok(())
    }
}

impl Cut {
    fn keep(&mut self, file: u32, start: u64, len: u64) {
        let (start, len) = (start as u32, len as u32);
        if let Some(last) = self.pieces.last_mut()
            && last.file == file
            && last.start + last.len == start
        {
            last.len += len;
            return;
        }
        self.pieces.push(Piece { file, start, len });
    }
}

fn remove_if_there(storage: &dyn Storage, path: &str) -> io::Result<()> {
    match storage.remove_file(path) {
        Err(e) if !is_gone(&e) => Err(e),
        _ => Ok(()),
    }
}

/// Removes a file that came to nothing; if that fails, whoever writes it again does.
fn discard(storage: &dyn Storage, path: &str) {
    let _ = storage.remove_file(path);
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use uuid::Uuid;

    use crate::retention::CompactOptions;
    use crate::storage::Memory;
    use crate::{ConversationTurn, Store, TurnKind, Validity};

    use super::*;

    fn turn(id: u128, day: i64, content: &str) -> ConversationTurn {
        ConversationTurn {
            id: Uuid::from_u128(id),
            parent_id: None,
            message_id: Uuid::from_u128(id),
            kind: TurnKind::User,
            content: content.to_owned(),
            created_at: Validity::at(day * 86_400_000 + 5),
            thread_id: None,
        }
    }

    fn generation(store: &Store) -> u64 {
        store.inner().lock_state().generation
    }

    /// Handles that were open meanwhile read nothing again: not the one that rewrites, not one
    /// that hears of each rewrite, nor one that hears of many at once.
    #[test]
    fn who_knows_the_segments_moves_over_by_the_notes() {
        let memory = Memory::new();
        let open = |bytes| {
            let options = Store::options().segment_bytes_max(bytes);
            options.storage(Arc::new(memory.clone())).open("").unwrap()
        };
        let (writer, store) = (open(600), open(4_000));
        for day in 0..12 {
            for id in 0..10 {
                let again = id % 3 == 0;
                for content in ["first", "second"].iter().take(1 + usize::from(again)) {
                    writer
                        .record(turn(100 * day + id, day as i64, content))
                        .unwrap();
                }
            }
        }
        let (awake, asleep) = (open(600), open(600));
        let turns = |store: &Store| {
            let query = crate::TurnQuery {
                limit: usize::MAX,
                ..Default::default()
            };
            store.turns(&query).unwrap().items
        };
        let before = turns(&store);
        assert_eq!((before.len(), &before), (120, &turns(&awake)));
        let generations = [&writer, &store, &awake, &asleep].map(generation);
        let mut parts = 0;
        let mut progress = |_: &_| {
            parts += 1;
            assert_eq!(turns(&awake), before);
            ControlFlow::Continue(())
        };
        let options = CompactOptions {
            now: 40 * 86_400_000,
            ..CompactOptions::now(&mut progress)
        };
        store.compact(options).unwrap();
        assert_eq!(parts, 12);
        for handle in [&writer, &store, &awake, &asleep] {
            assert_eq!(turns(handle), before);
        }
        for (handle, id) in [&writer, &store, &awake, &asleep].iter().zip(9_000..) {
            handle.record(turn(id, 50, "more")).unwrap();
        }
        assert_eq!(
            [&writer, &store, &awake, &asleep].map(generation),
            generations
        );
        // Without its note, who missed a rewrite reads what there is.
        for note in memory.read_dir("cache/moves").unwrap() {
            memory
                .remove_file(&format!("cache/moves/{}", note.name))
                .unwrap();
        }
        let fresh = open(600);
        assert_eq!(turns(&fresh), turns(&store));
    }
}
