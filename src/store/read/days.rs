//! Lists the days and kinds that have lines.

use crate::error::Result;
use crate::record::{Day, Kind};
use crate::segment::SegmentName;
use crate::store::Store;

/// The lines of a kind in a day's directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KindOfDay {
    pub day: Day,
    pub kind: Kind,
    /// Size of the lines, in bytes.
    pub bytes: u64,
}

impl Store {
    /// The days and kinds with lines, the latest day first, at most `limit`, after the given one.
    pub(crate) fn kinds_of_days(
        &self,
        limit: usize,
        after: Option<(Day, Kind)>,
    ) -> Result<Vec<KindOfDay>> {
        let view = self.inner().snapshot()?;
        let state = &view.state;
        let mut found: Vec<KindOfDay> = Vec::new();
        let before = after.map(|(day, kind)| SegmentName {
            day,
            kind,
            number: 0,
        });
        let segments = match before {
            Some(before) => state.by_name.range(..before),
            None => state.by_name.range(..),
        };
        for (name, id) in segments.rev() {
            let segment = &state.segments[*id as usize];
            // A removed segment has no identity.
            if segment.identity == 0 || segment.end == 0 {
                continue;
            }
            let is_full = found.len() == limit;
            match found.last_mut() {
                Some(last) if (last.day, last.kind) == (name.day, name.kind) => {
                    last.bytes += segment.end;
                }
                _ if is_full => break,
                _ => found.push(KindOfDay {
                    day: name.day,
                    kind: name.kind,
                    bytes: segment.end,
                }),
            }
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Event;

    #[test]
    fn the_latest_day_comes_first_and_none_twice() {
        let dir = tempfile::tempdir().unwrap();
        let options = Store::options().segment_bytes_max(1 << 12).upkeep(false);
        let store = options.open(dir.path().join("log")).unwrap();
        assert_eq!(store.kinds_of_days(9, None).unwrap(), []);
        for n in 0..300 {
            let mut event = Event::new(None, "test.said");
            event.created_at = 1_766_793_600_000 + n % 3 * 86_400_000;
            store.record(event).unwrap();
        }
        store
            .inbox()
            .enqueue(1, Some("later than all others"))
            .unwrap();
        let all = store.kinds_of_days(99, None).unwrap();
        let days: Vec<String> = all.iter().map(|it| it.day.to_string()).collect();
        assert_eq!(days[1..], ["2025-12-29", "2025-12-28", "2025-12-27"]);
        assert_eq!((all[0].kind, all[1].kind), (Kind::Inbox, Kind::Events));
        let mut one_by_one = Vec::new();
        let mut after = None;
        while let [next] = store.kinds_of_days(1, after).unwrap()[..] {
            after = Some((next.day, next.kind));
            one_by_one.push(next);
        }
        assert_eq!(one_by_one, all);
        let bytes: u64 = all.iter().map(|it| it.bytes).sum();
        let counts = store.counts().unwrap().kinds;
        assert_eq!(bytes, counts.iter().map(|of| of.bytes).sum::<u64>());
    }
}
