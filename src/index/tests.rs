//! Checks that incrementally maintained lists match a scan of all rows.

use std::collections::HashMap;

use proptest::prelude::*;

use super::dump::OPS;
use super::entry::{KeyHash, Measured, Said};
use super::shape::Shape;
use super::*;
use crate::line::{LOOKUPS_MAX, Op};
use crate::record::{ConversationStatus, Role};

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

fn states(kind: Kind) -> &'static [Op] {
    match kind {
        Kind::Conversations => &[Op::Created, Op::Completed, Op::Failed],
        kind => ops(kind),
    }
}

/// Lines as in a log, and unusual ones: few or many keys, few or many values, times ascending,
/// descending or mixed.
pub(super) fn lines(len: usize) -> impl Strategy<Value = (Kind, Vec<Entry>)> {
    let kind = prop::sample::select(Kind::ALL.to_vec());
    let shape = (kind, 1..2000u64, 1..40u32, 1..300i64, -2..3i64);
    shape.prop_flat_map(move |(kind, keys, values, times, step)| {
        let line = (
            0..keys,
            prop::array::uniform7(0..values),
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
    // Half of the lines share their values, so that there are large and small groups.
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
            // Some keys share a tag, and some share even more bits.
            hash: ((key % 97) << 32) | (key % 2),
            check: key as u32,
        },
        lookups,
        op,
        is_altered: false,
        number: at / 2,
        sums: sums(kind, lookups, seq).map(Box::new),
    }
}

fn sums(kind: Kind, lookups: [u32; LOOKUPS_MAX], seq: u64) -> Option<Sums> {
    let hash = lookups[0];
    match kind {
        Kind::Conversations => Some(Sums::Conversation(Said {
            status: STATUSES[seq as usize % 3],
            // Some values share one half of their hash.
            checks: lookups.map(|hash| if hash == 3 { seq as u32 % 2 } else { hash }),
        })),
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
            cost_nano_usd: Some(seq * 7).filter(|_| seq % 3 == 1),
            is_error: seq.is_multiple_of(7),
            is_failure: seq.is_multiple_of(5) || seq.is_multiple_of(7),
            role: [
                None,
                Some(Role::User),
                Some(Role::Assistant),
                Some(Role::Tool),
            ][seq as usize % 4],
            has_task_type: seq % 8 == 1,
        })),
        Kind::Inbox => Some(Sums::Update(seq.cast_signed())),
        _ => None,
    }
}

const STATUSES: [ConversationStatus; 3] = [
    ConversationStatus::Active,
    ConversationStatus::Completed,
    ConversationStatus::Error,
];

fn conversation_of(entry: &Entry) -> Option<KeyHash> {
    match entry.sums.as_deref() {
        Some(Sums::Message(measured)) => Some(measured.conversation),
        _ => None,
    }
}

/// The rows that a walk should return, from a scan of all rows.
fn expected(table: &Table, kind: Kind, select: Select, from: Position, to: Position) -> Vec<RowId> {
    let ids = (0..).map(RowId).take_while(|id| table.row(*id).is_some());
    let is_selected = |id: &RowId| {
        let row = table.row(*id).unwrap();
        row.stands()
            && match select {
                Select::All => true,
                Select::Lookup(field, 0) if !Shape::of(kind).posts(field, 0) => {
                    // Rows without a value are in no list; only a scan of all rows finds them.
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
    let [from, to] = bounds.map(|(at, seq)| Position {
        seq: u64::from(seq) * 8,
        ..Position::before(at)
    });
    let fields = 0..Shape::of(kind).width;
    let lookups = fields.flat_map(|field| (0..4).map(move |hash| Select::Lookup(field, hash)));
    let states = states(kind).iter().map(|op| Select::State(*op));
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
            prop_assert_eq!(walk().count(), rows.len(), "{:?}", select);
            for skipped in [0, 1, rows.len() / 2, rows.len(), rows.len() + 1] {
                let mut rest = walk();
                prop_assert_eq!(rest.nth(skipped), rows.get(skipped).copied());
                let expected = rows.get(skipped + 1..).unwrap_or_default();
                prop_assert_eq!(&rest.collect::<Vec<_>>(), expected, "{:?}", select);
            }
        }
        let all = expected(table, kind, select, Position::FIRST, Position::END);
        let value = |row: &RowId| match select {
            Select::Lookup(field, _) => table.rows.check(*row, field),
            Select::All | Select::State(_) => 0,
        };
        let is_of_one = all
            .windows(2)
            .all(|pair| value(&pair[0]) == value(&pair[1]));
        prop_assert!(is_of_one || !table.is_of_one(select), "{:?}", select);
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

/// Number of segments that the lines are in.
const SEGMENTS: u32 = 2;

/// A file in memory.
#[derive(Clone, Default)]
pub(super) struct File(pub(super) Vec<u8>);

impl BlobFile for File {
    fn read(&self, buf: &mut [u8], offset: u64) -> bool {
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let end = start.saturating_add(buf.len());
        let found = self.0.get(start..end);
        found.map(|found| buf.copy_from_slice(found)).is_some()
    }
}

impl BlobSink for File {
    fn write(&mut self, bytes: &[u8]) -> bool {
        self.0.extend_from_slice(bytes);
        true
    }
}

/// A saved index: the id of its file, the file, and the root.
#[derive(Clone)]
struct Saved {
    id: u64,
    file: File,
    root: Vec<u8>,
}

fn saved(index: &Index, id: u64, is_delta: bool) -> Saved {
    let (mut file, mut root) = (File::default(), Vec::new());
    let mut out = Out::new(&mut file, id, 0, is_delta);
    index.dump(&mut out, &mut root);
    assert!(out.is_whole());
    Saved { id, file, root }
}

fn dumped(index: &Index) -> Saved {
    saved(index, 1, false)
}

/// Opens a saved index, with the changes in `delta`.
fn opened(base: &Saved, delta: Option<&Saved>) -> Option<Index> {
    let file = |saved: &Saved| SavedFile {
        file: Box::new(saved.file.clone()),
        id: saved.id,
    };
    let source = Source::new(file(base), delta.map(file));
    source.set_segments(SEGMENTS);
    let mut root = In {
        bytes: &delta.unwrap_or(base).root,
        segments: 0,
    };
    let index = Index::open(&mut root, &source);
    index.filter(|_| root.bytes.is_empty())
}

fn reopened(index: &Index) -> Index {
    opened(&dumped(index), None).unwrap()
}

/// Exercises all operations of a table. It may return wrong results but must not panic.
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
        .chain(states(kind).iter().map(|op| Select::State(*op)))
        .chain([Select::All])
    {
        let (from, to) = (Position::before(0), Position::before(100));
        for id in table
            .walk(select, from, to)
            .rev()
            .chain(table.walk(select, to, from))
        {
            table.row(id);
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

        // Build from a prefix of the lines, then apply the rest.
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
        first_save in prop::option::of(0..1000usize),
        second_save in prop::option::of(0..2000usize),
        evicted in prop::option::of(0..2000usize),
        is_joined in any::<bool>(),
    ) {
        let (first, rest) = entries.split_at(until.min(entries.len()));
        let mut index = Index::new();
        for entry in first {
            index.apply(kind, entry);
        }
        let base = dumped(&index);
        let mut loaded = opened(&base, None).unwrap();
        check(loaded.table(kind), kind, bounds)?;
        for (nth, entry) in rest.iter().enumerate() {
            index.apply(kind, entry);
            loaded.apply(kind, entry);
            if Some(nth) == first_save || Some(nth) == second_save {
                // The second delta also has what is in the first.
                let delta = saved(&loaded, 2 + nth as u64, true);
                prop_assert!(!loaded.is_broken());
                loaded = opened(&base, Some(&delta)).unwrap();
            } else if Some(nth) == evicted {
                loaded.evict();
            }
        }
        if is_joined {
            loaded = reopened(&loaded);
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
            let of_one = conversation_of(entry).map(|key| (loaded.conversation_totals().get(key), index.conversation_totals().get(key)));
            prop_assert!(of_one.is_none_or(|(one, other)| one == other));
        }
        prop_assert!(!loaded.is_broken());
    }

    #[test]
    fn no_dump_can_make_it_fail(
        (kind, entries) in lines(300),
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<prop::sample::Index>(),
        aligned in any::<bool>(),
        in_root in any::<bool>(),
    ) {
        let mut index = Index::new();
        for entry in &entries {
            index.apply(kind, entry);
        }
        // Pieces of a file with this id are believed, whatever they contain.
        let whole = saved(&index, 0, false);
        let mut flipped = whole.clone();
        flipped.file.0.truncate(cut.index(whole.file.0.len()));
        if let Some(mut index) = opened(&flipped, None) {
            let mut file = File::default();
            let mut out = Out::new(&mut file, 5, 0, false);
            index.dump(&mut out, &mut Vec::new());
            prop_assert!(!out.is_whole() || index.is_broken());
            use_it(&mut index, kind, &entries);
        }
        let mut flipped = whole.clone();
        for (place, value) in flips {
            // Target the high bytes: most numbers are small.
            let bytes = if in_root { &mut flipped.root } else { &mut flipped.file.0 };
            let place = place.index(bytes.len());
            bytes[if aligned { place / 4 * 4 } else { place }] = value;
        }
        if let Some(mut index) = opened(&flipped, None) {
            let table = index.table(kind).squeezed();
            prop_assert!(table.rows.len() <= index.table(kind).rows.len());
            use_it(&mut index, kind, &entries);
            let (mut file, mut root) = (File::default(), Vec::new());
            let mut out = Out::new(&mut file, 0, 0, false);
            index.dump(&mut out, &mut root);
            if out.is_whole() {
                let again = Saved { id: 0, file, root };
                use_it(&mut opened(&again, None).unwrap(), kind, &entries);
            }
        }
    }

    /// No piece that was changed is believed.
    #[test]
    fn no_byte_is_believed_unread(
        (kind, entries) in lines(300),
        place in any::<prop::sample::Index>(),
        bit in 0..8u32,
    ) {
        let mut index = Index::new();
        for entry in &entries {
            index.apply(kind, entry);
        }
        let mut flipped = dumped(&index);
        let place = place.index(flipped.file.0.len());
        flipped.file.0[place] ^= 1 << bit;
        let flipped = opened(&flipped, None).unwrap();
        let mut all = Vec::new();
        flipped.dump(&mut Out::new(&mut File::default(), 3, 0, false), &mut all);
        for kind in Kind::ALL {
            rows(flipped.table(kind));
        }
        let is_right = entries.iter().all(|entry| said(flipped.table(kind), entry) == said(index.table(kind), entry));
        prop_assert!(is_right || flipped.is_broken());
    }
}

/// What happens to a conversation in a test.
#[derive(Debug, Clone, Copy)]
enum Told {
    /// A line of the conversation itself.
    Said(ConversationStatus),
    Message {
        is_error: bool,
        is_answer: bool,
        sequence: i64,
    },
}

fn told() -> impl Strategy<Value = (u32, Told)> {
    let said = prop::sample::select(STATUSES.to_vec()).prop_map(Told::Said);
    let message = (prop::bool::weighted(0.3), any::<bool>(), 0..200i64);
    let message = message.prop_map(|(is_error, is_answer, sequence)| Told::Message {
        is_error,
        is_answer,
        sequence,
    });
    (0..12u32, prop_oneof![said, message])
}

fn told_entry(seq: u64, conversation: u32, told: Told) -> (Kind, Entry) {
    let key = |number: u64| KeyHash {
        hash: number << 32 | number,
        check: number as u32,
    };
    let plain = Entry {
        seq,
        at: seq.cast_signed() % 50,
        loc: Loc {
            segment: u32::from(matches!(told, Told::Message { .. })),
            offset: seq as u32,
        },
        key: key(conversation.into()),
        lookups: [conversation % 3 + 1; LOOKUPS_MAX],
        op: Op::Created,
        is_altered: false,
        number: seq.cast_signed(),
        sums: None,
    };
    match told {
        Told::Said(status) => {
            let checks = [0; LOOKUPS_MAX];
            let sums = Some(Box::new(Sums::Conversation(Said { status, checks })));
            (Kind::Conversations, Entry { sums, ..plain })
        }
        Told::Message {
            is_error,
            is_answer,
            sequence,
        } => {
            let measured = Measured {
                conversation: plain.key,
                model: None,
                config: None,
                tokens_in: 0,
                tokens_out: 0,
                latency_ms: 0,
                cost_nano_usd: None,
                is_error,
                is_failure: is_error,
                role: is_answer.then_some(Role::Assistant),
                has_task_type: false,
            };
            let sums = Some(Box::new(Sums::Message(measured)));
            let entry = Entry {
                key: key(1000 + seq),
                op: Op::Added,
                number: sequence,
                sums,
                ..plain
            };
            (Kind::Messages, entry)
        }
    }
}

/// The expected state of a conversation, computed from all of its events.
fn status_of(conversation: u32, told: &[(u32, Told)], are_messages_gone: bool) -> Option<Op> {
    let of_it = told.iter().filter(|(of, _)| *of == conversation);
    let (mut own, mut state) = (None, None);
    let mut said_at = -1;
    for (_, told) in of_it {
        match told {
            Told::Said(status) => {
                own = Some(status_state(*status));
                state = own;
            }
            Told::Message {
                is_error,
                is_answer,
                sequence,
            } => {
                // A message that is recorded late does not change the status.
                if !(*is_error || *is_answer) || *sequence < said_at {
                    continue;
                }
                said_at = *sequence;
                if are_messages_gone || state.is_none() {
                    continue;
                }
                state = match own {
                    _ if *is_error => Some(Op::Failed),
                    Some(Op::Failed) => Some(Op::Created),
                    own => own,
                };
            }
        }
    }
    state
}

fn check_statuses(index: &Index, told: &[(u32, Told)], gone: &[u32]) -> Result<(), TestCaseError> {
    let table = index.table(Kind::Conversations);
    for conversation in 0..12 {
        let (_, entry) = told_entry(1, conversation, Told::Said(ConversationStatus::Active));
        let row = table.find(entry.key).and_then(|row| table.row(row));
        let expected = status_of(conversation, told, gone.contains(&conversation));
        prop_assert_eq!(row.map(|row| row.state), expected);
    }
    check(table, Kind::Conversations, [(0, 0), (20, 3)])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// A conversation is listed by its own last line and the messages since, whether lines were
    /// applied one by one, built at once, loaded from a dump, or removed.
    #[test]
    fn conversations_stand_where_lines_say(
        told in prop::collection::vec(told(), 0..400),
        built in 0..400usize,
        gone in prop::collection::vec(0..12u32, 0..4),
    ) {
        let built = built.min(told.len());
        let mut one_by_one = Index::new();
        let mut lines = Kind::ALL.map(|_| vec![Vec::new()]);
        let mut rest = Vec::new();
        for (seq, (conversation, told)) in (1..).zip(&told) {
            let (kind, entry) = told_entry(seq, *conversation, *told);
            one_by_one.apply(kind, &entry);
            if seq as usize <= built {
                lines[kind as usize][0].push(entry);
            } else {
                rest.push((kind, entry));
            }
        }
        check_statuses(&one_by_one, &told, &[])?;
        let at_once = Index::build(lines);
        check_statuses(&at_once, &told[..built], &[])?;
        let mut at_once = reopened(&at_once);
        check_statuses(&at_once, &told[..built], &[])?;
        for (kind, entry) in rest {
            at_once.apply(kind, &entry);
        }
        check_statuses(&at_once, &told, &[])?;
        let keys = gone.iter().map(|gone| told_entry(1, *gone, Told::Said(STATUSES[0])).1.key);
        let ended: Vec<KeyHash> = keys.collect();
        let is_gone = |loc: Loc| loc.segment == 1 && gone.contains(&told[loc.offset as usize - 1].0);
        let to = |loc: Loc| if is_gone(loc) { Loc::NONE } else { loc };
        prop_assert!(at_once.relocate(Kind::Messages, to, &ended));
        check_statuses(&at_once, &told, &gone)?;
    }
}

/// What a table knows of a key, including the locations of its lines.
fn said(table: &Table, entry: &Entry) -> Option<(Loc, Loc, Op, bool, Vec<Loc>)> {
    let id = table.find(entry.key)?;
    let row = table.row(id)?;
    let history = table.history(id).unwrap_or_default().to_vec();
    Some((row.asserted, row.done, row.state, row.is_retracted, history))
}

/// The positions and locations of the rows of a walk.
fn walked(table: &Table, select: Select) -> Vec<((i64, u64), Loc)> {
    let place = |id| table.place(select, id).map(|place| (place.at, place.seq));
    let rows = table.walk(select, Position::FIRST, Position::END);
    let rows: Vec<_> = rows
        .map(|id| (place(id).unwrap(), table.row(id).unwrap().asserted))
        .collect();
    assert!(rows.is_sorted_by_key(|(place, _)| *place));
    rows
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// After lines are removed, both whole keys and superseded versions, the index equals one that
    /// is built from the remaining lines.
    #[test]
    fn lines_that_move_or_go_leave_what_is_left(
        (kind, mut entries) in lines(2000),
        gone in prop::collection::hash_set(0..40u64, 0..30),
        drops_superseded in any::<bool>(),
    ) {
        let is_gone = |entry: &Entry| match conversation_of(entry) {
            Some(key) => gone.contains(&key.hash),
            None => gone.contains(&(u64::from(entry.key.check) % 40)),
        };
        // A message belongs to one conversation.
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
            .filter_map(conversation_of)
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
            if let Some(key) = conversation_of(entry) {
                prop_assert_eq!(index.conversation_totals().get(key), built.conversation_totals().get(key));
            }
        }
        let fields = 0..Shape::of(kind).width;
        let lookups = fields.flat_map(|field| (0..40).map(move |hash| Select::Lookup(field, hash)));
        let states = states(kind).iter().map(|op| Select::State(*op));
        let loaded = reopened(&index);
        for select in lookups.chain(states).chain([Select::All]) {
            let rows = walked(expected, select);
            prop_assert_eq!(&walked(table, select), &rows, "{:?}", select);
            prop_assert_eq!(&walked(loaded.table(kind), select), &rows, "{:?}", select);
        }
        // The number of dead rows is bounded, in memory and in a dump.
        prop_assert!(table.spare_rows() <= table.by_key.len().max(3));
        let kept = loaded.table(kind);
        prop_assert!(kept.spare_rows() <= kept.rows.len() / 8);
        // The index can still be updated.
        for entry in &entries {
            let again = Entry { seq: entry.seq + 10_000, ..entry.clone() };
            index.apply(kind, &again);
            built.apply(kind, &again);
        }
        prop_assert_eq!(index.table(kind).len(), built.table(kind).len());
        check(index.table(kind), kind, [(-900, 0), (900, 400)])?;
    }
}
