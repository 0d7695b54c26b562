//! Rewrites segments that are no longer appended to: removes lines, or joins several segments into
//! one.
//!
//! Reading and writing happen without the lock. Under the lock, files are renamed. Handles that
//! know the files relocate their index entries.

mod apply;
mod plan;
mod recovery;

use std::collections::BTreeMap;

pub(crate) use self::plan::Candidate;
use super::removals::Anchor;
use crate::error::Result;
use crate::index::KeyHash;
use crate::record::{Day, Kind};
use crate::segment::SegmentName;
use crate::storage::Storage;
use crate::store::Inner;

/// Segments, each with its length, by day and kind.
pub(crate) type Settled = BTreeMap<(Day, Kind), Vec<(SegmentName, u64)>>;

/// Information that is recorded together with removed lines.
#[derive(Debug, Default)]
pub(crate) struct Dependents {
    /// The conversations to remove, with their number of messages when that was decided.
    pub ended: Vec<(KeyHash, u64)>,
    /// The last removed thought of each chain.
    pub anchors: Vec<Anchor>,
}

impl Inner {
    /// The segments of each day and kind that are no longer appended to, each with its length:
    /// their day is before `today`, or a later segment of the same day and kind exists.
    pub(crate) fn settled(&self, today: Day) -> Result<Settled> {
        let view = self.snapshot()?;
        let mut settled: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for (place, segment) in view.state.present_in_order() {
            let SegmentName { day, kind, .. } = segment.name;
            let grows = view.state.active(day, kind) == Some(place) && day >= today;
            if !grows {
                let segments = settled.entry((day, kind)).or_default();
                segments.push((segment.name, segment.expected_len()));
            }
        }
        Ok(settled)
    }

    /// Size of the segments that count towards the size limit, by day and kind, in bytes.
    pub(crate) fn capped_bytes(&self) -> Result<BTreeMap<(Day, Kind), u64>> {
        let view = self.snapshot()?;
        let mut bytes = BTreeMap::new();
        for segment in view.state.present() {
            let SegmentName { day, kind, .. } = segment.name;
            if kind.is_capped() {
                *bytes.entry((day, kind)).or_default() += segment.expected_len();
            }
        }
        Ok(bytes)
    }

    /// All existing segments.
    pub(crate) fn segments(&self) -> Result<Vec<SegmentName>> {
        let view = self.snapshot()?;
        Ok(view.state.present().map(|segment| segment.name).collect())
    }
}

/// Removes an abandoned file. If that fails, the next rewrite replaces it.
fn discard(storage: &dyn Storage, path: &str) {
    let _ = storage.remove_file(path);
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;
    use std::sync::Arc;

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

    /// Open handles do not read segments again after a rewrite: neither the one that rewrites, nor
    /// one that sees each rewrite, nor one that sees many at once.
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
            let query = crate::query::TurnQuery {
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
            progress: Some(&mut progress),
            ..CompactOptions::default()
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
        // Without the relocations, a handle that missed a rewrite reads the segments again.
        for note in memory.read_dir("cache/moves").unwrap() {
            memory
                .remove_file(&format!("cache/moves/{}", note.name))
                .unwrap();
        }
        let fresh = open(600);
        assert_eq!(turns(&fresh), turns(&store));
    }
}
