//! The current records and their order are the same in every process and after every operation:
//! before and after a compaction, on handles open meanwhile or not, and in a store into which the
//! remaining lines were replayed.

#![allow(clippy::cast_possible_wrap, clippy::cast_sign_loss)]

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::path::Path;

use decklog::query::{
    CallQuery, ConversationQuery, Cursor, EventQuery, MessageQuery, Order, ProposalQuery,
    TaskQuery, TurnQuery,
};
use decklog::record::{ConversationStatus, InboxStep, TaskStatus, ThoughtType};
use decklog::retention::CompactOptions;
use decklog::{
    CallStatus, Client, CodeEditProposal, Conversation, ConversationMessage, ErrorKind, Event,
    HistoryEntry, InboxTask, ProposalStatus, ProposalStep, Record, Role, Store, ThoughtRecord,
    Timestamp, ToolCallDone, ToolCallReq, ToolStatus, TurnKind, Validity, replay,
};
use uuid::Uuid;

use super::support::{DAY_1, DAY_MS, Rng, count, request, turn};
use super::upkeep::compact;

const DAYS: i64 = 6;
const ORDERS: [Order; 2] = [Order::OldestFirst, Order::NewestFirst];

fn id(n: usize) -> Uuid {
    Uuid::from_u128(0x4000 << 64 | n as u128)
}

fn instant(at: i64) -> Timestamp {
    Timestamp::from_ms(at).unwrap()
}

/// A random record with one of a few keys and times. The log may reject it.
fn any(rng: &mut Rng, day: i64) -> Record {
    let at = DAY_1 + day * DAY_MS + rng.below(3) as i64;
    let is_valid = !rng.one_in(4);
    let text = (*rng.pick(&["one", "two"])).to_owned();
    let key = rng.below(5);
    match rng.below(14) {
        0 | 1 => decklog::ConversationTurn {
            id: id(key),
            parent_id: rng.one_in(2).then(|| id(rng.below(5))),
            thread_id: Some(id(rng.below(2))),
            kind: *rng.pick(&[TurnKind::User, TurnKind::Assistant]),
            created_at: Validity { at, is_valid },
            ..turn(1, &text, at)
        }
        .into(),
        2 | 3 => ToolCallReq {
            parent_id: id(rng.below(2)),
            tool_name: text,
            started_at: Validity { at, is_valid },
            ..request(key as u128 + 1, "c", at)
        }
        .into(),
        4 => ToolCallDone {
            request_id: request(key as u128 + 1, "c", at).request_id,
            call_id: "c".into(),
            ended_at: Validity::at(at),
            latency_ms: 1,
            outcome_json: Some(text),
            error_kind: None,
            error_msg: None,
            status: *rng.pick(&[ToolStatus::Completed, ToolStatus::Failed]),
        }
        .into(),
        5 => CodeEditProposal {
            created_at: Validity { at, is_valid },
            ..CodeEditProposal::new(id(key), text, at)
        }
        .into(),
        6 => {
            let to = *rng.pick(&ProposalStatus::ALL[1..]);
            ProposalStep::new(id(key), to, at).into()
        }
        7 => {
            let began = DAY_1 + key as i64 % 2;
            let conversation = with!(Conversation::new(id(key), Client::Cli),
                created_at: instant(began),
                updated_at: instant(at.max(began)),
                status: *rng.pick(ConversationStatus::ALL),
                last_error: rng.one_in(3).then_some(text),
            );
            if rng.one_in(2) {
                return Record::ConversationUpdated(conversation);
            }
            conversation.into()
        }
        8 | 9 => with!(ConversationMessage::new(
                id(key),
                *rng.pick(&[Role::User, Role::Assistant]),
                text.clone(),
            ),
            id: Uuid::from_u128(u128::from(rng.next())),
            timestamp: instant(at),
            model_used: rng.one_in(2).then(|| text.clone()),
            tokens_in: Some(1),
            error: rng.one_in(3).then(|| text.clone()),
        )
        .into(),
        10 => {
            let types = ["agent.started", "revision.promoted", "worker.spawned"];
            with!(Event::new(
                    rng.one_in(2).then(|| rng.below(9) as i64 + 1),
                    *rng.pick(&types),
                ),
                created_at: at,
            )
            .into()
        }
        11 => with!(InboxTask::new(rng.below(9) as i64, Some(text)),
            created_at: at,
            updated_at: at,
        )
        .into(),
        12 => InboxStep {
            id: rng.below(9) as i64 + 1,
            status: *rng.pick(TaskStatus::ALL),
            at,
            attempt: 0,
            error: rng.one_in(3).then_some(text),
        }
        .into(),
        _ if rng.one_in(2) => with!(HistoryEntry::new(rng.below(2) as i64, Role::User, text),
            created_at: at,
        )
        .into(),
        _ => ThoughtRecord {
            id: Uuid::from_u128(u128::from(rng.next())).to_string(),
            task_id: text,
            prev_hash: String::new(),
            hash: String::new(),
            thought_type: ThoughtType::Plan,
            agent_id: "a".into(),
            timestamp: instant(at),
            content: String::new(),
        }
        .into(),
    }
}

/// Records those that the log accepts.
fn record(store: &Store, records: Vec<Record>) {
    for answer in store.record_batch(records).unwrap() {
        if let Err(e) = answer {
            let is_judged = [
                ErrorKind::Lifecycle,
                ErrorKind::NotFound,
                ErrorKind::Conflict,
            ]
            .contains(&e.kind());
            assert!(is_judged, "{e}");
        }
    }
}

/// A list, read page by page from a cursor.
type Walk<'a> = Box<dyn Fn(&Store, Option<Cursor>) -> (Vec<String>, Option<Cursor>) + 'a>;

fn texts<T: Debug>(
    page: decklog::Result<decklog::query::Page<T>>,
) -> (Vec<String>, Option<Cursor>) {
    let page = page.unwrap();
    let items = page.items.iter().map(|item| format!("{item:?}"));
    (items.collect(), page.next)
}

/// The lists that have cursors, also as of a time.
fn walks(limit: usize, as_of: &[i64]) -> Vec<Walk<'static>> {
    let mut walks: Vec<Walk<'static>> = Vec::new();
    for order in ORDERS {
        for (thread, parent) in [(None, None), (Some(id(0)), None), (None, Some(id(1)))] {
            let query = move |after| TurnQuery {
                thread_id: thread,
                parent_id: parent,
                order,
                limit,
                after,
                ..TurnQuery::default()
            };
            walks.push(Box::new(move |store, after| {
                texts(store.turns(&query(after)))
            }));
            for at in as_of.iter().copied() {
                walks.push(Box::new(move |store, after| {
                    texts(store.as_of(at).turns(&query(after)))
                }));
            }
        }
        for (status, parent) in [
            (None, None),
            (None, Some(id(0))),
            (Some(CallStatus::Requested), None),
            (Some(CallStatus::Completed), None),
        ] {
            let query = move |after| CallQuery {
                parent_id: parent,
                status,
                order,
                limit,
                after,
                ..CallQuery::default()
            };
            walks.push(Box::new(move |store, after| {
                texts(store.tool_calls(&query(after)))
            }));
            for at in as_of.iter().copied() {
                walks.push(Box::new(move |store, after| {
                    texts(store.as_of(at).tool_calls(&query(after)))
                }));
            }
        }
        for status in ProposalStatus::ALL.iter().copied().map(Some).chain([None]) {
            let query = move |after| ProposalQuery {
                status,
                order,
                limit,
                after,
                ..ProposalQuery::default()
            };
            walks.push(Box::new(move |store, after| {
                texts(store.proposals(&query(after)))
            }));
            for at in as_of.iter().copied() {
                walks.push(Box::new(move |store, after| {
                    texts(store.as_of(at).proposals(&query(after)))
                }));
            }
        }
        for (parent_id, roots) in [(None, false), (None, true), (Some(1), false)] {
            walks.push(Box::new(move |store, after| {
                texts(store.events(&EventQuery {
                    parent_id,
                    roots,
                    order,
                    limit,
                    after,
                    ..EventQuery::default()
                }))
            }));
        }
        for status in TaskStatus::ALL.iter().copied().map(Some).chain([None]) {
            walks.push(Box::new(move |store, after| {
                texts(store.inbox().list(&TaskQuery {
                    status,
                    order,
                    limit,
                    after,
                    ..TaskQuery::default()
                }))
            }));
        }
        for conversation in 0..5 {
            walks.push(Box::new(move |store, after| {
                let query = MessageQuery {
                    order,
                    limit,
                    after,
                    ..MessageQuery::default()
                };
                texts(store.messages(id(conversation), &query))
            }));
        }
        walks.push(Box::new(move |store, after| {
            texts(store.thoughts().page(&decklog::query::ThoughtQuery {
                order,
                limit,
                after,
                ..Default::default()
            }))
        }));
    }
    walks
}

/// All answers of a store, in their order, also as of some times.
fn answers(store: &Store, as_of: &[i64]) -> Vec<String> {
    let mut answers: Vec<String> = Vec::new();
    for walk in walks(usize::MAX, as_of) {
        answers.push(format!("{:#?}", walk(store, None).0));
    }
    let mut add = |answer: &dyn Debug| answers.push(format!("{answer:#?}"));
    for order in ORDERS {
        for status in ConversationStatus::ALL
            .iter()
            .copied()
            .map(Some)
            .chain([None])
        {
            add(&store.conversations(&ConversationQuery {
                order,
                status,
                limit: usize::MAX,
                ..ConversationQuery::default()
            }));
        }
    }
    for n in 0..5 {
        add(&store.get_turn(id(n)));
        let key = request(n as u128 + 1, "c", 0).request_id;
        add(&store.get_tool_call(key, "c"));
        add(&store.get_proposal(id(n)));
        add(&store.get_conversation(id(n)));
        add(&store.session_tree(id(n)));
    }
    for event in 1..20 {
        add(&store.event_tree(event));
        add(&store.worker_sequence(event));
    }
    add(&store.current_revision());
    add(&store.inbox().counts());
    add(&store.telegram_offset());
    for chat in 0..2 {
        add(&store.history(chat, usize::MAX));
    }
    add(&store.thoughts().verify_chains());
    let mut rollups = store
        .rollups(&decklog::query::RollupQuery::default())
        .unwrap();
    for rollup in &mut rollups {
        // A sequence number of this log.
        rollup.through_seq = 0;
    }
    add(&rollups);
    answers
}

fn open(path: &Path) -> Store {
    let options = Store::options().upkeep(false).segment_bytes_max(2_000);
    options.sidecar_bytes_min(0).open(path).unwrap()
}

fn same(found: &[String], expected: &[String], what: &str) {
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        assert!(found == expected, "{what}: {found}\nnot {expected}");
    }
}

/// Records the lines that were read into a new store, which must accept all of them.
fn replayed(into: &Path, sources: &[std::path::PathBuf]) -> Store {
    let store = open(into);
    for source in sources {
        let found = replay::dir(source).unwrap();
        assert_eq!(found.unreadable, 0);
        let texts: Vec<String> = found.lines.iter().map(|line| line.text.clone()).collect();
        let records = found.lines;
        let answers = store.record_replayed(records).unwrap();
        for (answer, text) in answers.into_iter().zip(texts) {
            assert!(answer.is_ok(), "{}: {text}", answer.unwrap_err());
        }
    }
    store
}

/// The days of a store, in order.
fn days(path: &Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap());
    let is_day = |entry: &std::fs::DirEntry| {
        let name = entry.file_name();
        name.to_str()
            .unwrap()
            .parse::<decklog::record::Day>()
            .is_ok()
    };
    let days: BTreeSet<_> = entries.filter(is_day).map(|entry| entry.path()).collect();
    days.into_iter().collect()
}

/// Some pages of each list are read before a compaction, by separate handles, and the rest after
/// it. Together they are the whole list.
#[test]
fn answers_are_the_same_before_and_after_a_compaction_in_every_process() {
    let mut rng = Rng::seeded("answers_are_the_same_before_and_after_a_compaction");
    for round in 0..count("DECKLOG_REPLAY_ROUNDS", 6) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let (writer, sleeper) = (open(&path), open(&path));
        for _ in 0..8 {
            let records = (0..40).map(|_| {
                let day = rng.below(DAYS as usize) as i64;
                any(&mut rng, day)
            });
            record(&writer, records.collect());
        }
        answers(&sleeper, &[]);
        let keep_days = rng.below(4) as i64;
        let now = DAY_1 + (DAYS + 1) * DAY_MS;
        let horizon = DAY_1 - DAY_1 % DAY_MS + (DAYS + 1 - keep_days) * DAY_MS;
        let as_of: Vec<i64> = (0..4).map(|n| horizon + n * DAY_MS / 2).collect();
        let before = answers(&writer, &as_of);
        let begun: Vec<_> = walks(2, &as_of)
            .iter()
            .map(|walk| walk(&writer, None))
            .collect();
        let options = CompactOptions {
            now,
            keep_days: keep_days as u32,
            ..CompactOptions::default()
        };
        let compacted = open(&path).compact(options).unwrap();
        assert!(compacted.parts.iter().any(|part| part.lines > 0));
        // One that loads the sidecar, and one without it.
        let with_sidecar = open(&path);
        let fresh = Store::options().read_only(true).open(&path).unwrap();
        for (what, store) in [
            ("writer", &writer),
            ("sleeper", &sleeper),
            ("sidecar", &with_sidecar),
            ("fresh", &fresh),
        ] {
            same(&answers(store, &as_of), &before, &format!("{round} {what}"));
            let walks = walks(2, &as_of);
            for ((walk, (first, next)), whole) in walks.iter().zip(&begun).zip(&before) {
                let (mut items, mut next) = (first.clone(), *next);
                while let Some(after) = next {
                    let (more, then) = walk(store, Some(after));
                    items.extend(more);
                    next = then;
                }
                let items = format!("{items:#?}");
                assert!(items == *whole, "{round} {what}: {items}\nnot {whole}");
            }
        }
        // Both continue in the same way.
        let more = (0..40).map(|_| any(&mut rng, DAYS)).collect();
        record(&sleeper, more);
        let after = answers(&writer, &as_of);
        drop((sleeper, with_sidecar));
        std::fs::remove_file(path.join("cache/index")).unwrap();
        for store in [&fresh, &open(&path)] {
            same(&answers(store, &as_of), &after, &format!("{round} after"));
        }
    }
}

/// Bug: the lines left by compaction could not be recorded again, because an outcome preceded the
/// remaining request of its call, and `done` preceded the claims of its task.
#[test]
fn a_store_replayed_into_an_empty_one_gives_equal_answers() {
    let mut rng = Rng::seeded("a_store_replayed_into_an_empty_one_gives_equal_answers");
    for round in 0..count("DECKLOG_REPLAY_ROUNDS", 6) {
        // By day, records were made in order of their days; as a whole, in any order.
        let in_order = round % 2 == 0;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let store = open(&path);
        for day in 0..DAYS {
            let records = (0..60).map(|_| {
                let any_day = rng.below(DAYS as usize) as i64;
                any(&mut rng, if in_order { day } else { any_day })
            });
            record(&store, records.collect());
        }
        let as_of: Vec<i64> = (0..DAYS).map(|day| DAY_1 + day * DAY_MS + 1).collect();
        for step in 0..3 {
            if step > 0 {
                compact(&store, DAY_1 + (DAYS + 4 + step) * DAY_MS);
            }
            let expected = answers(&store, &as_of);
            let into = dir.path().join(format!("whole {step}"));
            let whole = replayed(&into, std::slice::from_ref(&path));
            let what = format!("round {round}, step {step}");
            same(
                &answers(&whole, &as_of),
                &expected,
                &format!("{what}, whole"),
            );
            if in_order {
                let into = dir.path().join(format!("daily {step}"));
                let daily = replayed(&into, &days(&path));
                same(
                    &answers(&daily, &as_of),
                    &expected,
                    &format!("{what}, daily"),
                );
            }
        }
    }
}

/// Bug: a call that was requested, completed and requested again lost its outcome.
#[test]
fn a_call_that_was_requested_anew_keeps_its_outcome_through_compaction_and_replay() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let store = open(&path);
    let first = request(1, "c", DAY_1);
    let again = ToolCallReq {
        started_at: Validity::at(DAY_1 + DAY_MS),
        ..first.clone()
    };
    let outcome = super::support::done(&first);
    store.record(first.clone()).unwrap();
    store.record(outcome.clone()).unwrap();
    store.record(again.clone()).unwrap();
    compact(&store, DAY_1 + 30 * DAY_MS);
    let expected = Some((again, Some(outcome)));
    for sources in [vec![path.clone()], days(&path)] {
        let into = dir.path().join(format!("{} sources", sources.len()));
        let other = replayed(&into, &sources);
        for store in [&store, &other] {
            assert_eq!(
                store.get_tool_call(first.request_id, "c").unwrap(),
                expected
            );
        }
    }
}
