//! The findings of a verification and their texts.

use std::collections::BTreeMap;

use crate::segment::seal::{Contents, Seal};
use crate::segment::{Damage, DamageClass, Report, SegmentName, each_fact};
use crate::storage::Storage;
use crate::store::maintain::seal::SealLog;
use crate::store::maintain::seq_set::SeqRange;

/// A finding if a seal's hash matches but its other fields do not.
pub(super) fn odd(name: SegmentName, seal: &Seal, contents: &Contents) -> Option<Damage> {
    (seal.contents() != *contents).then(|| {
        let reason = format!(
            "the bytes are those of seal {}, but what it says of their lines, or its Merkle root, is not right",
            seal.seal
        );
        Report::new(DamageClass::Chain, (0, contents.bytes), reason).in_segment(name)
    })
}

pub(super) fn changed(name: SegmentName, seal: &Seal, contents: &Contents) -> Damage {
    let (sealed, found) = (seal.bytes, contents.bytes);
    let how = match found.cmp(&sealed) {
        std::cmp::Ordering::Less => format!("it is {} bytes shorter", sealed - found),
        std::cmp::Ordering::Equal => "it is as long, with other bytes".to_owned(),
        std::cmp::Ordering::Greater => format!("it is {} bytes longer", found - sealed),
    };
    let reason = format!(
        "the segment was changed after it was sealed: {how} (it has {} lines, and seal {} says {}); put back a copy with SHA-256 {}, or take it as it is with 'decklog repair --accept-edits'",
        contents.lines, seal.seal, seal.lines, seal.sha256
    );
    Report::new(DamageClass::Changed, (0, found), reason).in_segment(name)
}

/// The gaps that `removals.jsonl` does not account for.
pub(super) fn unaccounted(gaps: Vec<SeqRange>, log: &SealLog) -> Vec<SeqRange> {
    let removals = log.removals();
    let mut removed = removals.seqs.clone();
    removed.sort_unstable_by_key(|range| range.first);
    let mut union: Vec<SeqRange> = Vec::new();
    for range in removed {
        match union.last_mut() {
            Some(last) if range.first <= last.last.saturating_add(1) => {
                last.last = last.last.max(range.last);
            }
            _ => union.push(range),
        }
    }
    let is_accounted = |gap: &&SeqRange| {
        let place = union.partition_point(|range| range.last < gap.first);
        let within = union.get(place);
        within.is_some_and(|range| range.first <= gap.first && gap.last <= range.last)
    };
    let accounted = gaps.iter().filter(is_accounted);
    let missing = accounted.fold(0u64, |sum, gap| {
        sum.saturating_add(gap.last - gap.first + 1)
    });
    if missing > removals.all_lines() {
        return gaps;
    }
    let rest = gaps.iter().filter(|gap| !is_accounted(gap));
    rest.copied().collect()
}

/// The segments with lines that repeat a sequence number: the copies. The number of an altered line
/// may be wrong, so it makes no other line a copy.
pub(super) fn copies(
    storage: &dyn Storage,
    names: &[SegmentName],
    repeats: &[SeqRange],
) -> Vec<Damage> {
    // Each range is a single number.
    let mut seen: BTreeMap<u64, bool> = repeats.iter().map(|one| (one.first, false)).collect();
    let mut found = Vec::new();
    for name in names.iter().copied() {
        let (mut count, mut first) = (0, 0);
        let scanned = each_fact(storage, name, &mut |fact| {
            if fact.is_altered {
                return;
            }
            let Some(is_seen) = seen.get_mut(&fact.envelope.seq) else {
                return;
            };
            if std::mem::replace(is_seen, true) {
                if count == 0 {
                    first = fact.offset;
                }
                count += 1;
            }
        });
        // A segment that cannot be read was reported before.
        if let Ok(scanned) = scanned
            && count > 0
        {
            found.push(Report::repeated(count, first, scanned.end).in_segment(name));
        }
    }
    found
}
