//! Lists that are kept up row by row say what a look at all rows says.

use std::collections::HashMap;

use proptest::prelude::*;

use super::dump::OPS;
use super::entry::{KeyHash, Measured};
use super::shape::Shape;
use super::*;
use crate::line::{LOOKUPS_MAX, Op};

#[test]
fn every_kind_has_its_own_table() {
    for (place, kind) in Kind::ALL.into_iter().enumerate() {
        assert_eq!(kind as usize, place);
    }
}

#[test]
fn every_op_has_its_own_number() {
    for (number, op) in (0..).zip(OPS) {
        assert_eq!(op as u8, number);
    }
}

fn ops(kind: Kind) -> &'static [Op] {
    match kind {
        Kind::ConversationTurns => &[Op::Asserted, Op::Asserted, Op::Retracted],
        Kind::ToolCalls => &[
            Op::Requested,
            Op::Requested,
            Op::Completed,
            Op::Failed,
            Op::Retracted,
        ],
        Kind::CodeEditProposals => &[
            Op::Pending,
            Op::Retracted,
            Op::Approved,
            Op::Applied,
            Op::Reverted,
        ],
        Kind::Conversations => &[Op::Created, Op::Updated],
        Kind::Messages | Kind::History => &[Op::Added],
        Kind::Events => &[Op::Logged],
        Kind::Inbox => &[Op::Queued, Op::InProgress, Op::Done, Op::Failed],
        Kind::ThoughtRecords => &[Op::Recorded],
        Kind::Rollups => &[Op::Rolled],
    }
}

/// Lines as a log may have them, and more: few keys or many, few values or many, times in order
/// or backwards or not.
pub(super) fn lines(len: usize) -> impl Strategy<Value = (Kind, Vec<Entry>)> {
    let kind = prop::sample::select(Kind::ALL.to_vec());
    let shape = (kind, 1..2000u64, 1..40u32, 1..300i64, -2..3i64);
    shape.prop_flat_map(move |(kind, keys, values, times, step)| {
        let line = (
            0..keys,
            prop::array::uniform5(0..values),
            0..times,
            prop::sample::select(ops(kind)),
            any::<bool>(),
        );
        prop::collection::vec(line, 0..len).prop_map(move |lines| {
            let entry = |(seq, (key, lookups, at, op, skewed)): (u64, (_, _, _, _, _))| {
                entry(
                    kind,
                    seq,
                    key,
                    lookups,
                    at + step * seq.cast_signed(),
                    op,
                    skewed,
                )
            };
            (kind, (1..).zip(lines).map(entry).collect())
        })
    })
}

fn entry(
    kind: Kind,
    seq: u64,
    key: u64,
    lookups: [u32; LOOKUPS_MAX],
    at: i64,
    op: Op,
    skewed: bool,
) -> Entry {
    // Half of the lines have the same values, so that there are great groups and small ones.
    let mut lookups = lookups.map(|hash| if skewed { hash.min(1) } else { hash });
    if kind == Kind::Inbox && op != Op::Queued {
        lookups[0] = 0;
    }
    Entry {
        seq,
        at,
        loc: Loc {
            segment: 1,
            offset: seq as u32,
        },
        key: KeyHash {
            // Some keys share a tag, and some more than that.
            hash: ((key % 97) << 32) | (key % 2),
            check: key as u32,
        },
        lookups,
        op,
        is_altered: false,
        number: at / 2,
        sums: sums(kind, lookups[0], seq).map(Box::new),
    }
}

fn sums(kind: Kind, hash: u32, seq: u64) -> Option<Sums> {
    match kind {
        Kind::Messages => Some(Sums::Message(Measured {
            conversation: KeyHash {
                hash: hash.into(),
                check: hash,
            },
            model: Some(seq % 3).filter(|model| *model > 0),
            config: Some(seq % 5),
            tokens_in: seq,
            tokens_out: 2,
            latency_ms: 3,
            is_error: seq.is_multiple_of(7),
        })),
        Kind::Inbox => Some(Sums::Update(seq.cast_signed())),
        _ => None,
    }
}

fn talk_of(entry: &Entry) -> Option<KeyHash> {
    match entry.sums.as_deref() {
        Some(Sums::Message(measured)) => Some(measured.conversation),
        _ => None,
    }
}

/// The rows that a walk should give, by a look at all of them.
fn expected(table: &Table, kind: Kind, select: Select, from: Position, to: Position) -> Vec<RowId> {
    let ids = (0..).map(RowId).take_while(|id| table.row(*id).is_some());
    let is_selected = |id: &RowId| {
        let row = table.row(*id).unwrap();
        row.stands()
            && match select {
                Select::All => true,
                Select::Lookup(field, 0) if !Shape::of(kind).posts(field, 0) => {
                    // No list has the rows without a value, unless all rows are looked at.
                    !Shape::of(kind).posted.contains(&field) && table.has_lookup(*id, field, 0)
                }
                Select::Lookup(field, hash) => table.has_lookup(*id, field, hash),
                Select::State(state) => row.state == state,
            }
    };
    let mut positions: Vec<Position> = ids
        .filter(is_selected)
        .map(|id| table.place(select, id).unwrap())
        .filter(|position| (from..to).contains(position))
        .collect();
    positions.sort();
    positions.into_iter().map(|position| position.row).collect()
}

fn check(table: &Table, kind: Kind, bounds: [(i64, u32); 2]) -> Result<(), TestCaseError> {
    let [from, to] = bounds.map(|(at, row)| Position {
        at,
        row: RowId(row),
    });
    let fields = 0..Shape::of(kind).width;
    let lookups = fields.flat_map(|field| (0..4).map(move |hash| Select::Lookup(field, hash)));
    let states = ops(kind).iter().map(|op| Select::State(*op));
    for select in lookups.chain(states).chain([Select::All]) {
        for (from, to) in [
            (Position::FIRST, Position::END),
            (from, to),
            (to, from),
            (Position::before(from.at), Position::before(to.at)),
        ] {
            let rows = expected(table, kind, select, from, to);
            let walk = || table.walk(select, from, to);
            prop_assert_eq!(&walk().collect::<Vec<_>>(), &rows, "{:?}", select);
            let mut backwards: Vec<_> = walk().rev().collect();
            backwards.reverse();
            prop_assert_eq!(&backwards, &rows, "{:?}", select);
            let (mut both, mut ends) = (walk(), (Vec::new(), Vec::new()));
            while let Some(row) = both.next() {
                ends.0.push(row);
                ends.1.extend(both.next_back());
            }
            ends.0.extend(ends.1.into_iter().rev());
            prop_assert_eq!(&ends.0, &rows, "{:?}", select);
        }
    }
    let all = expected(table, kind, Select::All, Position::FIRST, Position::END);
    prop_assert_eq!(table.len(), all.len());
    Ok(())
}

fn rows(table: &Table) -> Vec<Row> {
    (0..)
        .map_while(|id| table.row(RowId(id)).copied())
        .collect()
}

/// As many segments as the lines are in.
const SEGMENTS: u32 = 2;

fn dumped(index: &Index) -> Vec<u8> {
    let mut bytes = Vec::new();
    index.dump(&mut bytes).unwrap();
    bytes
}

/// Asks a table everything and takes lines in: it must not fail, whatever it says.
fn use_it(index: &mut Index, kind: Kind, entries: &[Entry]) {
    for entry in entries {
        index.table(kind).find(entry.key);
    }
    let table = index.table(kind);
    for row in rows(table) {
        let locs = [row.asserted, row.done];
        assert!(
            locs.iter()
                .all(|loc| !loc.is_some() || loc.segment < SEGMENTS)
        );
    }
    for select in (0..4)
        .flat_map(|hash| (0..LOOKUPS_MAX).map(move |field| Select::Lookup(field, hash)))
        .chain(ops(kind).iter().map(|op| Select::State(*op)))
        .chain([Select::All])
    {
        let (from, to) = (Position::before(0), Position::before(100));
        for id in table
            .walk(select, from, to)
            .rev()
            .chain(table.walk(select, to, from))
        {
            assert!(table.row(id).unwrap().asserted.is_some());
        }
    }
    for entry in entries {
        index.apply(kind, entry);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn lists_say_what_the_rows_say(
        (kind, entries) in lines(3000),
        bounds in prop::array::uniform2((-900..900i64, 0..400u32)),
        built in 0..3000usize,
    ) {
        let mut one_by_one = Index::new();
        let mut keys = HashMap::new();
        for entry in &entries {
            one_by_one.apply(kind, entry);
            let next = RowId(keys.len() as u32);
            let row = *keys.entry(entry.key).or_insert(next);
            prop_assert_eq!(one_by_one.table(kind).find(entry.key), Some(row));
        }
        check(one_by_one.table(kind), kind, bounds)?;

        // Built at once, as much as there was, and gone on with.
        let (first, rest) = entries.split_at(built.min(entries.len()));
        let mut lines = Kind::ALL.map(|_| Vec::new());
        lines[kind as usize] = first.chunks(700).map(<[Entry]>::to_vec).collect();
        let mut at_once = Index::build(lines);
        check(at_once.table(kind), kind, bounds)?;
        for entry in rest {
            at_once.apply(kind, entry);
        }
        check(at_once.table(kind), kind, bounds)?;
        prop_assert_eq!(rows(at_once.table(kind)), rows(one_by_one.table(kind)));
        for (key, row) in keys {
            prop_assert_eq!(at_once.table(kind).find(key), Some(row));
        }
    }

    #[test]
    fn what_was_dumped_goes_on_as_it_was(
        (kind, entries) in lines(3000),
        bounds in prop::array::uniform2((-900..900i64, 0..400u32)),
        until in 0..3000usize,
    ) {
        let (first, rest) = entries.split_at(until.min(entries.len()));
        let mut index = Index::new();
        for entry in first {
            index.apply(kind, entry);
        }
        let mut loaded = Index::load(&dumped(&index), SEGMENTS).unwrap();
        check(loaded.table(kind), kind, bounds)?;
        for entry in rest {
            index.apply(kind, entry);
            loaded.apply(kind, entry);
        }
        let (table, known) = (loaded.table(kind), index.table(kind));
        check(table, kind, bounds)?;
        prop_assert_eq!(rows(table), rows(known));
        prop_assert_eq!(table.number_max(), known.number_max());
        prop_assert_eq!(loaded.update_id_max(), index.update_id_max());
        for entry in &entries {
            let row = known.find(entry.key);
            prop_assert_eq!(table.find(entry.key), row);
            prop_assert_eq!(row.map(|row| table.history(row)), row.map(|row| known.history(row)));
            let of_one = talk_of(entry).map(|key| (loaded.talks().get(key), index.talks().get(key)));
            prop_assert!(of_one.is_none_or(|(one, other)| one == other));
        }
    }

    #[test]
    fn no_dump_can_make_it_fail(
        (kind, entries) in lines(300),
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<prop::sample::Index>(),
        aligned in any::<bool>(),
    ) {
        let mut index = Index::new();
        for entry in &entries {
            index.apply(kind, entry);
        }
        let bytes = dumped(&index);
        prop_assert!(Index::load(&bytes[..cut.index(bytes.len())], SEGMENTS).is_none());
        let mut flipped = bytes.clone();
        for (place, value) in flips {
            // Most bytes are high ones, and most numbers low.
            let place = place.index(bytes.len());
            flipped[if aligned { place / 4 * 4 } else { place }] = value;
        }
        if let Some(mut index) = Index::load(&flipped, SEGMENTS) {
            dumped(&index);
            let table = index.table(kind).squeezed();
            prop_assert!(table.len() <= index.table(kind).len());
            index.tables[kind as usize] = table;
            use_it(&mut index, kind, &entries);
        }
    }
}

/// What a table says of a key, and of where its lines stand.
fn said(table: &Table, entry: &Entry) -> Option<(Loc, Loc, Op, bool, Vec<Loc>)> {
    let id = table.find(entry.key)?;
    let row = table.row(id)?;
    let history = table.history(id).unwrap_or_default().to_vec();
    Some((row.asserted, row.done, row.state, row.is_retracted, history))
}

/// Where the rows of a walk stand, which tells them; those of one moment or number in any order.
fn walked(table: &Table, select: Select) -> Vec<(i64, Loc)> {
    let place = |id| table.place(select, id).unwrap().at;
    let rows = table.walk(select, Position::FIRST, Position::END);
    let mut rows: Vec<_> = rows
        .map(|id| (place(id), table.row(id).unwrap().asserted))
        .collect();
    assert!(rows.is_sorted_by_key(|(at, _)| *at));
    rows.sort_unstable();
    rows
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Of lines that were taken away, whole keys and what was superseded, an index knows no more
    /// than one that is built of those that are left.
    #[test]
    fn lines_that_move_or_go_leave_what_is_left(
        (kind, mut entries) in lines(2000),
        gone in prop::collection::hash_set(0..40u64, 0..30),
        drops_superseded in any::<bool>(),
    ) {
        let is_gone = |entry: &Entry| match talk_of(entry) {
            Some(talk) => gone.contains(&talk.hash),
            None => gone.contains(&(u64::from(entry.key.check) % 40)),
        };
        // A message has one conversation.
        let mut known = std::collections::HashSet::new();
        entries.retain(|entry| kind != Kind::Messages || known.insert(entry.key));
        let mut index = Index::new();
        for entry in &entries {
            index.apply(kind, entry);
        }
        let superseded = |entry: &Entry| {
            let table = index.table(kind);
            let id = table.find(entry.key).unwrap();
            let row = table.row(id).unwrap();
            let history = table.history(id).unwrap_or_default();
            let is_old = history.contains(&entry.loc) && row.asserted != entry.loc;
            drops_superseded && Shape::of(kind).assertion == super::shape::Which::Last
                && row.stands() && is_old
        };
        let left: Vec<&Entry> = entries
            .iter()
            .filter(|entry| !is_gone(entry) && !superseded(entry))
            .collect();
        let places: HashMap<Loc, Loc> = left
            .iter()
            .zip(0..)
            .map(|(entry, offset)| (entry.loc, Loc { segment: 0, offset }))
            .collect();
        let to = |loc: Loc| places.get(&loc).copied().unwrap_or(Loc::NONE);
        let ended: Vec<KeyHash> = entries
            .iter()
            .filter(|entry| is_gone(entry))
            .filter_map(talk_of)
            .collect();
        let mut built = Index::new();
        for entry in left {
            built.apply(kind, &Entry { loc: to(entry.loc), ..entry.clone() });
        }
        prop_assert!(index.relocate(kind, to, &ended));
        let (table, expected) = (index.table(kind), built.table(kind));
        prop_assert_eq!(table.len(), expected.len());
        for entry in &entries {
            prop_assert_eq!(said(table, entry), said(expected, entry));
            if let Some(talk) = talk_of(entry) {
                prop_assert_eq!(index.talks().get(talk), built.talks().get(talk));
            }
        }
        let fields = 0..Shape::of(kind).width;
        let lookups = fields.flat_map(|field| (0..40).map(move |hash| Select::Lookup(field, hash)));
        let states = ops(kind).iter().map(|op| Select::State(*op));
        let mut bytes = Vec::new();
        index.dump(&mut bytes).unwrap();
        let loaded = Index::load(&bytes, 1).unwrap();
        for select in lookups.chain(states).chain([Select::All]) {
            let rows = walked(expected, select);
            prop_assert_eq!(&walked(table, select), &rows, "{:?}", select);
            prop_assert_eq!(&walked(loaded.table(kind), select), &rows, "{:?}", select);
        }
        // What is gone takes no room that grows, and none in a file.
        prop_assert!(table.spare_rows() <= table.by_key.len().max(3));
        let kept = loaded.table(kind);
        prop_assert!(kept.spare_rows() <= kept.rows.len() / 8);
        // And goes on.
        for entry in &entries {
            let again = Entry { seq: entry.seq + 10_000, ..entry.clone() };
            index.apply(kind, &again);
            built.apply(kind, &again);
        }
        prop_assert_eq!(index.table(kind).len(), built.table(kind).len());
        check(index.table(kind), kind, [(-900, 0), (900, 400)])?;
    }
}
