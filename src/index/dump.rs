//! Saves the index as pieces of a file, and uses a saved one. The caller identifies the store, the
//! version and the files. What is read is not trusted.

use std::sync::{Arc, OnceLock};

use super::blob::{Blob, Out, Source};
use super::bytes::{Codec, In};
use super::groups::Groups;
use super::keyed::Keyed;
use super::list::SavedList;
use super::rows::Rows;
use super::shape::Shape;
use super::slots::Slots;
use super::table::Table;
use super::{Index, Totals};
use crate::line::Op;
use crate::record::{Kind, NUMBER_MAX};

/// The numbers of operations in a dump are indexes into this array.
pub(super) const OPS: [Op; 19] = [
    Op::Asserted,
    Op::Retracted,
    Op::Requested,
    Op::Completed,
    Op::Failed,
    Op::Pending,
    Op::Approved,
    Op::Denied,
    Op::Applied,
    Op::Reverted,
    Op::Created,
    Op::Updated,
    Op::Added,
    Op::Logged,
    Op::Queued,
    Op::InProgress,
    Op::Done,
    Op::Recorded,
    Op::Rolled,
];

/// A part of the index with pieces of its own.
pub(super) trait Part: Sized {
    /// What tells parts of the same type apart.
    type Of: Copy + std::fmt::Debug;

    /// An empty part.
    fn new(of: Self::Of) -> Self;

    fn read(of: Self::Of, root: &mut In<'_>, source: &Arc<Source>) -> Option<Self>;

    /// Writes what `out` does not keep.
    fn dump(&self, out: &mut Out<'_>, root: &mut Vec<u8>);

    /// Drops what can be read again.
    fn evict(&mut self);
}

/// A part that may be in a saved index. It is read when it is first used.
#[derive(Debug)]
pub(super) struct Saved<T: Part> {
    of: T::Of,
    /// Where its root is, if it was saved and did not change since.
    root: Option<(Blob, Arc<Source>)>,
    part: OnceLock<T>,
}

impl<T: Part> Saved<T> {
    pub(super) fn new(of: T::Of) -> Saved<T> {
        Saved {
            of,
            root: None,
            part: T::new(of).into(),
        }
    }

    fn decode(of: T::Of, root: &mut In<'_>, source: &Arc<Source>) -> Option<Saved<T>> {
        Some(Saved {
            of,
            root: Some((Blob::decode(root)?, Arc::clone(source))),
            part: OnceLock::new(),
        })
    }

    #[inline]
    pub(super) fn get(&self) -> &T {
        self.part.get_or_init(|| {
            let read = |(blob, source): &(Blob, Arc<Source>)| {
                source.load(*blob, |root| T::read(self.of, root, source))
            };
            let part = self.root.as_ref().and_then(read);
            part.unwrap_or_else(|| T::new(self.of))
        })
    }

    #[inline]
    pub(super) fn change<A>(&mut self, change: impl FnOnce(&mut T) -> A) -> A {
        self.get();
        self.root = None;
        if let Some(part) = self.part.get_mut() {
            return change(part);
        }
        let mut part = T::new(self.of);
        let answer = change(&mut part);
        self.part = part.into();
        answer
    }

    fn evict(&mut self) {
        match self.part.get_mut() {
            Some(_) if self.root.is_some() => self.part = OnceLock::new(),
            Some(part) => part.evict(),
            None => {}
        }
    }

    fn dump(&self, out: &mut Out<'_>) -> Blob {
        match &self.root {
            Some((blob, _)) if out.keeps(*blob) => *blob,
            _ => {
                let mut root = Vec::new();
                self.get().dump(out, &mut root);
                out.put(&root)
            }
        }
    }
}

impl Index {
    /// Saves the index. `root` is what [`open`](Index::open) needs. A delta has what is not in the
    /// base that the index was opened from.
    pub(crate) fn dump(&self, out: &mut Out<'_>, root: &mut Vec<u8>) {
        for table in &self.tables {
            table.dump(out).encode(root);
        }
        self.totals.conversations.dump(out).encode(root);
        let id = self.totals.update_id_max;
        (id.is_some(), id.unwrap_or(0)).encode(root);
    }

    /// Opens a saved index. Nothing but the root is read yet. `None` if it is not valid. Bytes that
    /// were tampered with may produce wrong results, but never a panic.
    pub(crate) fn open(root: &mut In<'_>, source: &Arc<Source>) -> Option<Index> {
        let mut tables = Vec::with_capacity(Kind::ALL.len());
        for kind in Kind::ALL {
            tables.push(Saved::decode(kind, root, source)?);
        }
        let conversations = Saved::decode((), root, source)?;
        let (has_update_id, update_id_max) = <(bool, i64)>::decode(root)?;
        Some(Index {
            source: Some(Arc::clone(source)),
            tables: tables.try_into().ok()?,
            totals: Totals {
                conversations,
                update_id_max: has_update_id.then_some(update_id_max),
                said: Vec::new(),
            },
        })
    }

    /// Whether a part of the saved index could not be read, so that answers may be wrong.
    pub(crate) fn is_broken(&self) -> bool {
        self.source
            .as_ref()
            .is_some_and(|source| source.is_broken())
    }

    /// The id of the base that the index was opened from, if it was.
    pub(crate) fn base_id(&self) -> Option<u64> {
        self.source.as_ref().map(|source| source.base_id())
    }

    /// Makes the index broken: it has an entry that cannot be right.
    pub(crate) fn note_broken(&self) {
        if let Some(source) = &self.source {
            source.note_broken();
        }
    }

    /// Number of bytes of the saved index in memory that [`evict`](Self::evict) frees.
    pub(crate) fn loaded(&self) -> usize {
        self.source.as_ref().map_or(0, |source| source.loaded())
    }

    /// Drops what can be read again.
    pub(crate) fn evict(&mut self) {
        for table in &mut self.tables {
            table.evict();
        }
        self.totals.conversations.evict();
        if let Some(source) = &self.source {
            source.note_dropped();
        }
    }
}

impl Part for Table {
    type Of = Kind;

    fn new(kind: Kind) -> Table {
        Table::new(kind)
    }

    fn evict(&mut self) {
        self.rows.evict();
        self.by_key.evict();
        self.all.evict();
        self.by_lookup.iter_mut().for_each(Groups::evict);
        for (_, list) in &mut self.by_state {
            list.evict();
        }
        self.history.evict();
    }

    fn dump(&self, out: &mut Out<'_>, root: &mut Vec<u8>) {
        // Saves no dead rows, if they are many. A delta refers to rows by their ids in the base.
        if !out.is_delta() && self.spare_rows() > self.rows.len() / 8 {
            let squeezed = self.squeezed();
            if squeezed.spare_rows() == 0 {
                squeezed.dump(out, root);
                return;
            }
        }
        let source = self.source.as_ref();
        self.rows.dump(out, root);
        self.number_max.encode(root);
        self.by_key.dump(out, root);
        self.all.dump(source, out, root);
        for groups in &self.by_lookup {
            groups.dump(out, root);
        }
        (self.by_state.len() as u64).encode(root);
        for (state, list) in &self.by_state {
            state.encode(root);
            list.dump(source, out, root);
        }
        self.history.dump(out, root);
    }

    fn read(kind: Kind, root: &mut In<'_>, source: &Arc<Source>) -> Option<Table> {
        let shape = Shape::of(kind);
        let rows = Rows::read(shape, root, source)?;
        let number_max = i64::decode(root).filter(|number| *number <= NUMBER_MAX)?;
        let by_key = Slots::read(root, source, false)?;
        let all = SavedList::decode(root)?;
        let groups = shape.posted.iter();
        let groups = groups.map(|_| Groups::read(shape.lookup_order, root, source));
        Some(Table {
            source: Some(Arc::clone(source)),
            rows,
            number_max,
            by_key,
            all,
            by_lookup: groups.collect::<Option<_>>()?,
            by_state: Vec::decode(root)?,
            history: Keyed::read(root, source)?,
        })
    }
}
