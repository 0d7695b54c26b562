//! Conversations and their messages: sequence numbers assigned by the log or by the client, sums
//! that depend only on the messages, and many concurrent writers in one conversation.

#![allow(clippy::unwrap_used, clippy::cast_possible_wrap)]

use std::collections::HashMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use decklog::query::{ConversationQuery, ConversationSort, MessageQuery, Order};
use decklog::record::{ConversationStats, ConversationStatus, GIVEN_NUMBER_MAX};
use decklog::retention::{EraseOptions, Erasure};
use decklog::storage::{Disk, Memory, Storage};
use decklog::tree::SessionItem;
use decklog::{
    AckStatus, Client, Conversation, ConversationMessage, ConversationTurn, Durability, ErrorKind,
    InferenceMetadata, Kind, Record, Role, Store, Timestamp, ToolCallReq, TurnKind, verify,
};
use uuid::Uuid;

use super::anything::{Mirror, name};
use super::support::{DAY_1, DAY_MS, Rng, count, in_memory, request, still, turn};

const ALL: MessageQuery = MessageQuery {
    from_sequence: None,
    until_sequence: None,
    since: None,
    until: None,
    role: None,
    model_used: None,
    config_used: None,
    error: None,
    order: Order::OldestFirst,
    limit: usize::MAX,
    after: None,
};

fn ms(at: i64) -> Timestamp {
    Timestamp::from_ms(DAY_1 + at).unwrap()
}

fn conversation(id: u128, at: i64) -> Conversation {
    with!(Conversation::new(Uuid::from_u128(id), Client::Api),
        created_at: ms(at),
        updated_at: ms(at),
    )
}

fn message(of: Uuid, id: u128, sequence: Option<i64>) -> ConversationMessage {
    with!(ConversationMessage::new(of, Role::User, format!("message {id}")),
        id: Uuid::from_u128(id),
        sequence,
        timestamp: ms(id as i64),
    )
}

fn two_handles() -> (Memory, Store, Store) {
    let memory = Memory::new();
    let one = in_memory(&memory, Durability::Process);
    let two = in_memory(&memory, Durability::Process);
    (memory, one, two)
}

#[test]
fn a_place_is_given_or_taken_once() {
    let (memory, one, two) = two_handles();
    let talk = conversation(1, 0);
    let id = talk.id;
    let err = one.record(message(id, 1, None)).unwrap_err();
    assert_eq!(err.kind(), ErrorKind::NotFound);
    assert!(err.to_string().contains(&id.to_string()), "{err}");
    assert_eq!(verify(&memory).unwrap().good_lines, 0);

    one.record(talk).unwrap();
    let assigned = |store: &Store, message: ConversationMessage| {
        let ack = store.record(message).unwrap();
        assert_eq!(ack.status, AckStatus::Added);
        ack.assigned
    };
    assert_eq!(assigned(&one, message(id, 1, None)), Some(1));
    assert_eq!(assigned(&two, message(id, 2, None)), Some(2));
    assert_eq!(assigned(&one, message(id, 3, Some(0))), Some(0));
    assert_eq!(assigned(&two, message(id, 4, Some(10))), Some(10));
    assert_eq!(assigned(&one, message(id, 5, Some(7))), Some(7));
    assert_eq!(assigned(&two, message(id, 6, None)), Some(11));

    // The same message again, with and without its sequence, through either handle.
    for (nth, place) in [(1, 1), (2, 2), (3, 0), (4, 10), (5, 7), (6, 11)] {
        for (store, sequence) in [(&one, None), (&two, Some(place))] {
            let ack = store.record(message(id, nth, sequence)).unwrap();
            assert_eq!(
                (ack.status, ack.assigned),
                (AckStatus::Unchanged, Some(place))
            );
        }
    }
    let conflict = |message: ConversationMessage, words: &[&str]| {
        let err = two.record(message).unwrap_err();
        assert_eq!(err.kind(), ErrorKind::Conflict, "{err}");
        for word in words {
            assert!(err.to_string().contains(word), "{word}: {err}");
        }
    };
    let holder = Uuid::from_u128(4).to_string();
    conflict(message(id, 7, Some(10)), &["sequence 10", &holder]);
    conflict(message(id, 4, Some(9)), &["message 10", &id.to_string()]);
    let mut other = message(id, 4, None);
    other.content = "something else".into();
    conflict(other, &["the first stands"]);
    one.record(conversation(2, 0)).unwrap();
    conflict(message(Uuid::from_u128(2), 4, None), &[&id.to_string()]);

    // The highest number that a client can set is not the last one.
    assert_eq!(
        assigned(&one, message(id, 8, Some(GIVEN_NUMBER_MAX))),
        Some(GIVEN_NUMBER_MAX)
    );
    assert_eq!(
        assigned(&two, message(id, 9, None)),
        Some(GIVEN_NUMBER_MAX + 1)
    );
    assert_eq!(assigned(&one, message(id, 10, Some(3))), Some(3));
    for sequence in [GIVEN_NUMBER_MAX + 3, i64::MAX - 1, i64::MAX] {
        let err = one.record(message(id, 11, Some(sequence))).unwrap_err();
        assert_eq!(
            (err.kind(), err.field()),
            (ErrorKind::InvalidInput, Some("sequence"))
        );
    }

    let places = |query: &MessageQuery| -> Vec<i64> {
        let messages = two.messages(id, query).unwrap().items;
        messages
            .iter()
            .map(|message| message.sequence.unwrap())
            .collect()
    };
    let all = [
        0,
        1,
        2,
        3,
        7,
        10,
        11,
        GIVEN_NUMBER_MAX,
        GIVEN_NUMBER_MAX + 1,
    ];
    assert_eq!(places(&ALL), all);
    let mut rng = Rng::seeded("message pages");
    let last = GIVEN_NUMBER_MAX;
    let bounds = [
        i64::MIN,
        -1,
        0,
        1,
        3,
        5,
        10,
        11,
        12,
        last,
        last + 1,
        i64::MAX,
    ];
    for _ in 0..300 {
        let query = MessageQuery {
            from_sequence: rng.one_in(2).then(|| *rng.pick(&bounds)),
            until_sequence: rng.one_in(2).then(|| *rng.pick(&bounds)),
            order: *rng.pick(&[Order::OldestFirst, Order::NewestFirst]),
            limit: rng.below(10),
            ..MessageQuery::default()
        };
        let is_wanted = |place: &i64| {
            query.from_sequence.is_none_or(|from| *place >= from)
                && query.until_sequence.is_none_or(|until| *place < until)
        };
        let mut expected: Vec<i64> = all.into_iter().filter(is_wanted).collect();
        if query.order == Order::NewestFirst {
            expected.reverse();
        }
        expected.truncate(query.limit);
        assert_eq!(places(&query), expected, "{query:?}");
        // The bounds also apply to the messages of all conversations, in order of time.
        let mut of_all = two.messages(None, &query).unwrap().items;
        of_all.sort_by_key(|message| message.sequence);
        assert_eq!(of_all.len(), expected.len(), "{query:?}");
        assert!(
            of_all.iter().all(|it| is_wanted(&it.sequence.unwrap())),
            "{query:?}"
        );
    }
}

#[test]
fn sums_follow_from_the_messages_whoever_asks() {
    let mut rng = Rng::seeded("sums");
    let (memory, one, two) = two_handles();
    let mut mirror = Mirror::new(true);
    for batch in 0..25 {
        let store = if rng.one_in(2) { &one } else { &two };
        for _ in 0..=rng.below(8) {
            let kind = if rng.one_in(6) {
                Kind::Conversations
            } else {
                Kind::Messages
            };
            let record = mirror.any(&mut rng, kind);
            let ack = store.record(record.clone()).unwrap();
            mirror.take(record, ack);
        }
        mirror.check(&one);
        mirror.check(&two);
        if batch % 5 == 0 {
            mirror.check(&in_memory(&memory, Durability::Process));
        }
    }
}

/// A manual edit changes the cost of a message. The edited value counts.
#[test]
fn a_message_that_was_edited_counts_as_it_stands() {
    let (memory, store, other) = two_handles();
    let talk = conversation(1, 0);
    let id = talk.id;
    store.record(talk).unwrap();
    for nth in 1..=3 {
        let answer = with!(message(id, nth, None),
            tokens_in: Some(100),
            tokens_out: Some(20),
            latency_ms: Some(7),
            model_used: Some(format!("model-{nth}")),
        );
        store.record(answer).unwrap();
    }
    let path = "2025-12-27/messages.0001.jsonl";
    let text = String::from_utf8(memory.bytes(path).unwrap()).unwrap();
    let text = text
        .replacen("\"tokens_in\":100", "\"tokens_in\" : 1", 1)
        .replacen("model-2", "model-\\u0031", 1);
    memory.put_bytes(path, text.into_bytes());
    let check = |store: &Store| {
        let (_, stats) = store.get_conversation(id).unwrap().unwrap();
        assert_eq!((stats.message_count, stats.total_tokens_in), (3, 201));
        assert_eq!((stats.total_tokens_out, stats.total_latency_ms), (60, 21));
        assert_eq!(stats.models_used, ["model-1", "model-3"]);
    };
    let reopened = in_memory(&memory, Durability::Process);
    check(&reopened);
    reopened.repair_and_accept_edits().unwrap();
    assert!(verify(&memory).unwrap().is_clean());
    for store in [
        &reopened,
        &store,
        &other,
        &in_memory(&memory, Durability::Process),
    ] {
        store.refresh().unwrap();
        store.record_batch([]).unwrap();
        check(store);
        assert_eq!(
            store.messages(id, &ALL).unwrap().items[0].tokens_in,
            Some(1)
        );
    }
}

#[test]
fn an_error_stands_until_someone_says_otherwise() {
    let (memory, one, two) = two_handles();
    let talk = conversation(1, 0);
    let id = talk.id;
    one.record(talk.clone()).unwrap();
    let read = |store: &Store| {
        let (found, _) = store.get_conversation(id).unwrap().unwrap();
        let by_status = ConversationQuery {
            status: Some(found.status),
            ..ConversationQuery::default()
        };
        assert_eq!(store.conversations(&by_status).unwrap().items[0].0, found);
        (
            found.status,
            found.last_error,
            found.updated_at.at() - DAY_1,
        )
    };
    let failing = |nth, error: &str| with!(message(id, nth, None), error: Some(error.into()));
    let error = |text: &str| Some(text.to_owned());
    one.record(failing(50, "first")).unwrap();
    two.record(failing(40, "second")).unwrap();
    one.record(message(id, 60, None)).unwrap();
    for store in [&one, &two, &in_memory(&memory, Durability::Process)] {
        assert_eq!(
            read(store),
            (ConversationStatus::Error, error("second"), 60)
        );
    }
    let updated = two
        .update_conversation(id, |it| {
            (it.status, it.last_error) = (ConversationStatus::Active, None);
            it.updated_at = ms(70);
        })
        .unwrap();
    assert_eq!(read(&one), (ConversationStatus::Active, None, 70));
    assert_eq!(one.get_conversation(id).unwrap().unwrap().0, updated);
    one.record(message(id, 80, None)).unwrap();
    assert_eq!(read(&two), (ConversationStatus::Active, None, 80));
    // An empty error text is an error too.
    one.record(failing(75, "")).unwrap();
    for store in [&one, &two, &in_memory(&memory, Durability::Process)] {
        assert_eq!(read(store), (ConversationStatus::Error, error(""), 80));
    }
}

/// Bug: one error marked a conversation as failed although it later succeeded.
#[test]
fn an_answer_without_an_error_clears_the_status() {
    use ConversationStatus::{Active, Completed, Error};
    let (memory, one, two) = two_handles();
    let talk = conversation(1, 0);
    let id = talk.id;
    one.record(talk).unwrap();
    let answer = |nth, error: Option<&str>| {
        with!(message(id, nth, None),
            error: error.map(str::to_owned),
            role: Role::Assistant,
        )
    };
    let check = |status, error: Option<&str>| {
        for store in [&one, &two, &in_memory(&memory, Durability::Process)] {
            let (found, _) = store.get_conversation(id).unwrap().unwrap();
            let stands = (found.status, found.last_error.as_deref());
            assert_eq!(stands, (status, error));
        }
    };
    one.record(answer(10, Some("overloaded"))).unwrap();
    check(Error, Some("overloaded"));
    // A user's message is not an answer.
    two.record(message(id, 20, None)).unwrap();
    check(Error, Some("overloaded"));
    two.record(answer(30, None)).unwrap();
    check(Active, None);
    // Also if an unrelated change recorded the error.
    one.record(answer(40, Some("again"))).unwrap();
    two.update_conversation(id, |it| it.project = Some("shop".into()))
        .unwrap();
    check(Error, Some("again"));
    one.record(answer(50, None)).unwrap();
    check(Active, None);
    // A status set by a later line is kept.
    two.update_conversation(id, |it| it.status = Completed)
        .unwrap();
    one.record(answer(60, None)).unwrap();
    check(Completed, None);
    two.update_conversation(id, |it| it.status = Error).unwrap();
    check(Error, None);
}

#[test]
fn lists_are_what_a_plain_filter_says() {
    let (memory, one, two) = two_handles();
    let mut rng = Rng::seeded("conversation lists");
    let mut known: Vec<Conversation> = Vec::new();
    let word = |rng: &mut Rng| {
        rng.one_in(3)
            .then(|| (*rng.pick(&["", "a", "b"])).to_owned())
    };
    let at = |rng: &mut Rng| rng.below(3) as i64 * DAY_MS + rng.below(5) as i64;
    // Enough conversations that index values have their own lists.
    for id in 0..400 {
        let at = at(&mut rng);
        let new = with!(conversation(id, at),
            workspace: word(&mut rng),
            project: word(&mut rng),
            client: *rng.pick(Client::ALL),
            user_id: word(&mut rng),
            session_id: word(&mut rng),
            parent_id: rng
                .one_in(3)
                .then(|| Uuid::from_u128(1000 + rng.below(3) as u128)),
            agent: word(&mut rng),
            status: *rng.pick(ConversationStatus::ALL),
        );
        one.record(new.clone()).unwrap();
        known.push(new);
        // Sometimes one moves in every list except the list by time.
        if rng.one_in(3) {
            let place = rng.below(known.len());
            let (workspace, client) = (word(&mut rng), *rng.pick(Client::ALL));
            known[place] = two
                .update_conversation(known[place].id, |it| {
                    (it.workspace, it.client) = (workspace, client);
                })
                .unwrap();
        }
        // Sometimes a message reports a failure.
        if rng.one_in(5) {
            let place = rng.below(known.len());
            let id = known[place].id;
            let failed = with!(message(id, 10_000 + known.len() as u128, None),
                error: rng.one_in(2).then(|| "timeout".to_owned()),
            );
            one.record(failed).unwrap();
            known[place] = two.get_conversation(id).unwrap().unwrap().0;
        }
    }
    check_lists(&two, &known, &mut rng);
    // A handle that opens the log lists them, from its lines or from the sidecar of the last
    // writer.
    let options = Store::options().storage(Arc::new(memory.clone()));
    let reopened = options.clone().sidecar_bytes_min(0).open("in memory");
    drop(reopened.unwrap());
    check_lists(&options.open("in memory").unwrap(), &known, &mut rng);
    assert!(memory.remove_file("cache/index").is_ok());
    for erased in known.split_off(380) {
        let options = EraseOptions::default();
        one.erase(&Erasure::Conversation(erased.id), options)
            .unwrap();
    }
    for store in [one, two, in_memory(&memory, Durability::Process)] {
        check_lists(&store, &known, &mut rng);
    }
}

/// Queries conversations by one filter and by several, and compares with a scan of all of them.
fn check_lists(store: &Store, known: &[Conversation], rng: &mut Rng) {
    let word = |rng: &mut Rng| {
        rng.one_in(4)
            .then(|| (*rng.pick(&["", "a", "b"])).to_owned())
    };
    let at = |rng: &mut Rng| rng.below(3) as i64 * DAY_MS + rng.below(5) as i64;
    let stats = known.iter().map(|it| {
        let found = store.get_conversation(it.id).unwrap().unwrap();
        (it.id, found.1)
    });
    let stats: HashMap<Uuid, ConversationStats> = stats.collect();
    for _ in 0..200 {
        let query = ConversationQuery {
            workspace: word(rng),
            project: word(rng),
            client: rng.one_in(4).then(|| *rng.pick(Client::ALL)),
            user_id: word(rng),
            session_id: word(rng),
            parent_id: rng
                .one_in(8)
                .then(|| Uuid::from_u128(1000 + rng.below(3) as u128)),
            agent: word(rng),
            status: rng.one_in(3).then(|| *rng.pick(ConversationStatus::ALL)),
            sort: rng.one_in(3).then(|| {
                *rng.pick(&[
                    ConversationSort::Newest,
                    ConversationSort::Tokens,
                    ConversationSort::Failures,
                ])
            }),
            since: rng.one_in(4).then(|| DAY_1 + at(rng)),
            until: rng.one_in(4).then(|| DAY_1 + at(rng)),
            order: *rng.pick(&[Order::OldestFirst, Order::NewestFirst]),
            limit: *rng.pick(&[0, 1, 2, 5, 1000, usize::MAX]),
            offset: *rng.pick(&[0, 0, 1, 3, 30, 59, 399, 400, usize::MAX]),
        };
        let is =
            |wanted: &Option<String>, value: &Option<String>| wanted.is_none() || wanted == value;
        let mut expected: Vec<&Conversation> = known
            .iter()
            .filter(|it| is(&query.workspace, &it.workspace) && is(&query.project, &it.project))
            .filter(|it| is(&query.user_id, &it.user_id) && is(&query.session_id, &it.session_id))
            .filter(|it| query.parent_id.is_none() || it.parent_id == query.parent_id)
            .filter(|it| query.agent.is_none() || it.agent == query.agent)
            .filter(|it| query.client.is_none_or(|client| it.client == client))
            .filter(|it| query.status.is_none_or(|status| it.status == status))
            .filter(|it| query.since.is_none_or(|since| it.created_at.at() >= since))
            .filter(|it| query.until.is_none_or(|until| it.created_at.at() < until))
            .collect();
        let key = |it: &Conversation| match query.sort {
            Some(ConversationSort::Tokens) => stats[&it.id].total_tokens_in as i64,
            Some(ConversationSort::Failures) => stats[&it.id].failure_count as i64,
            _ => 0,
        };
        // Stable: conversations with equal times stay in the order of arrival.
        match query.order {
            Order::OldestFirst => expected.sort_by_key(|it| (key(it), it.created_at.at())),
            Order::NewestFirst => expected.sort_by_key(|it| (-key(it), -it.created_at.at())),
        }
        let found = store.conversations(&query).unwrap();
        assert_eq!(found.total, expected.len(), "{query:?}");
        let part = expected.into_iter().skip(query.offset).take(query.limit);
        assert!(
            found.items.iter().map(|(found, _)| found).eq(part),
            "{query:?}"
        );
    }
}

#[test]
fn changes_of_two_handles_all_count() {
    let (_, one, two) = two_handles();
    let talk = conversation(1, 0);
    let id = talk.id;
    one.record(talk).unwrap();
    let start = Barrier::new(4);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (store, start) = ([&one, &two][thread % 2], &start);
            scope.spawn(move || {
                start.wait();
                for _ in 0..25 {
                    let add = |it: &mut Conversation| {
                        let had = it
                            .session_id
                            .as_deref()
                            .map_or(0, |text| text.parse().unwrap());
                        it.session_id = Some((had + 1).to_string());
                    };
                    store.update_conversation(id, add).unwrap();
                }
            });
        }
    });
    for store in [&one, &two] {
        let (found, _) = store.get_conversation(id).unwrap().unwrap();
        assert_eq!(found.session_id.as_deref(), Some("100"));
        let query = ConversationQuery {
            session_id: Some("99".into()),
            ..ConversationQuery::default()
        };
        assert_eq!(store.conversations(&query).unwrap().total, 0);
    }
}

#[test]
fn a_conversation_keeps_its_id_and_its_beginning() {
    let (memory, one, _) = two_handles();
    let talk = conversation(1, 5);
    let id = talk.id;
    one.record(talk.clone()).unwrap();
    let other = with!(talk.clone(), created_at: ms(4));
    assert_eq!(one.record(other).unwrap_err().kind(), ErrorKind::Conflict);
    let err = one
        .update_conversation(id, |it| it.created_at = ms(4))
        .unwrap_err();
    assert_eq!(err.kind(), ErrorKind::Conflict);
    let err = one
        .update_conversation(id, |it| it.updated_at = ms(4))
        .unwrap_err();
    assert_eq!(err.kind(), ErrorKind::InvalidInput);
    let err = one
        .update_conversation(Uuid::from_u128(9), |_| ())
        .unwrap_err();
    assert_eq!(err.kind(), ErrorKind::NotFound);
    let err = one
        .record(Record::ConversationUpdated(conversation(9, 0)))
        .unwrap_err();
    assert_eq!(err.kind(), ErrorKind::NotFound);
    assert_eq!(verify(&memory).unwrap().good_lines, 1);
    let moved = one.update_conversation(id, |it| {
        it.id = Uuid::from_u128(9);
        it.project = Some("p".into());
    });
    assert_eq!(moved.unwrap().id, id);
    assert_eq!(one.get_conversation(Uuid::from_u128(9)).unwrap(), None);
}

/// Bug: a change was refused, or moved the conversation's time back, if the clock was behind that
/// of the previous writer. A change without effect was recorded.
#[test]
fn a_clock_that_is_behind_refuses_no_change() {
    let (memory, one, _) = two_handles();
    let year = 365 * DAY_MS;
    let ahead = ms(500 * year);
    let talk = with!(conversation(1, 0), created_at: ahead.clone(), updated_at: ahead.clone());
    one.record(talk.clone()).unwrap();
    assert_eq!(one.update_conversation(talk.id, |_| ()).unwrap(), talk);
    assert_eq!(verify(&memory).unwrap().good_lines, 1);
    let changed = one
        .update_conversation(talk.id, |it| it.user_id = Some("u".into()))
        .unwrap();
    assert_eq!(
        (changed.updated_at, changed.user_id),
        (ahead, Some("u".into()))
    );
}

#[test]
fn what_cannot_be_is_refused_by_name_and_nothing_is_written() {
    let (memory, store, _) = two_handles();
    store.record(conversation(1, 0)).unwrap();
    let of = Uuid::from_u128(1);
    let long = || Some("n".repeat(1025));
    let plain = || message(of, 1, None);
    let deep = || Some("[".repeat(64) + &"]".repeat(64));
    let cases: Vec<(ConversationMessage, [&str; 2])> = vec![
        (with!(plain(), tokens_in: Some(-1)), ["tokens_in", "-1"]),
        (
            with!(plain(), tokens_out: Some(i64::MIN)),
            ["tokens_out", "-9223372036854775808"],
        ),
        (
            with!(plain(), tokens_cache_write: Some(-2)),
            ["tokens_cache_write", "-2"],
        ),
        (
            with!(plain(),
                tokens_in: Some(10),
                tokens_cache_write: Some(4),
                tokens_cache_read: Some(7),
            ),
            ["tokens_in is 10", "tokens_in includes both"],
        ),
        (
            with!(plain(), tokens_out: Some(3), tokens_reasoning: Some(4)),
            ["tokens_out is 3", "tokens_out includes it"],
        ),
        (with!(plain(), latency_ms: Some(-7)), ["latency_ms", "-7"]),
        (
            with!(plain(), handoff_steps: Some(-1)),
            ["handoff_steps", "-1"],
        ),
        (with!(plain(), sequence: Some(-1)), ["sequence", "-1"]),
        (
            with!(plain(), context_utilization: Some(1.5)),
            ["context_utilization", "1.5"],
        ),
        (
            with!(plain(), context_utilization: Some(f64::NAN)),
            ["context_utilization", "NaN"],
        ),
        (
            with!(plain(), context_utilization: Some(-f64::EPSILON)),
            ["context_utilization", "-"],
        ),
        (
            with!(plain(), context_utilization: Some(f64::INFINITY)),
            ["context_utilization", "inf"],
        ),
        (with!(plain(), model_used: long()), ["model_used", "1025"]),
        (with!(plain(), config_used: long()), ["config_used", "1025"]),
        (
            with!(plain(), orchestration_mode: long()),
            ["orchestration_mode", "1025"],
        ),
        (with!(plain(), task_type: long()), ["task_type", "1025"]),
        (with!(plain(), error_type: long()), ["error_type", "1025"]),
        (with!(plain(), tool_name: long()), ["tool_name", "1025"]),
        (with!(plain(), tool_args: deep()), ["tool_args", "64"]),
        (
            with!(plain(), inference_metadata: deep()),
            ["inference_metadata", "64"],
        ),
        (
            with!(plain(), tool_args: Some("[\"\\ud800\"]".into())),
            ["tool_args", "surrogate"],
        ),
        (
            with!(plain(), timestamp: "1969-12-31T23:59:59Z".parse().unwrap()),
            ["time", "1970"],
        ),
        (
            with!(plain(), content: "x".repeat(17 << 20)),
            ["content", "too long"],
        ),
    ];
    for (message, words) in cases {
        let err = store.record(message).unwrap_err();
        assert_eq!(err.kind(), ErrorKind::InvalidInput, "{err}");
        for word in words {
            assert!(err.to_string().contains(word), "{word}: {err}");
        }
    }
    for field in ["workspace", "project", "user_id", "session_id"] {
        let mut talk = conversation(2, 0);
        match field {
            "workspace" => talk.workspace = long(),
            "project" => talk.project = long(),
            "user_id" => talk.user_id = long(),
            _ => talk.session_id = long(),
        }
        let err = store.record(talk).unwrap_err();
        assert_eq!(err.kind(), ErrorKind::InvalidInput);
        assert!(err.to_string().contains(field), "{err}");
    }
    for text in [
        "",
        "now",
        "2026-04-17",
        "2026-13-01T00:00:00Z",
        "2026-04-17T00:00:00",
        "1766832000000",
        "2026-04-17T00:00:00Z ",
    ] {
        let err = text.parse::<Timestamp>().unwrap_err();
        assert_eq!(err.kind(), ErrorKind::InvalidInput);
        assert!(err.to_string().contains(&format!("{text:?}")), "{err}");
    }
    assert_eq!(verify(&memory).unwrap().good_lines, 1);
    assert_eq!(store.messages(of, &ALL).unwrap().items, []);
    let mut rng = Rng(1);
    let longest =
        with!(plain(), model_used: Some("n".repeat(1024)), tool_name: Some(name(&mut rng)));
    store.record(longest).unwrap();
}

#[test]
fn metadata_fills_a_message_and_is_kept_whole() {
    let (_, store, _) = two_handles();
    store.record(conversation(1, 0)).unwrap();
    let text = r#"{"config":"fast","orchestration_mode":"cascade","models_used":["small","big"],"handoff_steps":1,
        "compression_applied":false,"context_utilization":0.30000000000000004,"total_latency_ms":850,
        "model_latencies":{"big":800,"small":50},"tokens_by_model":{"big":{"in":30,"out":8},"small":{"in":10,"out":2}},
        "router":{"score":0.1,"tried":[null,{"a":[]}]},"note":"\u2028\"🦀"}"#;
    let metadata: InferenceMetadata = serde_json::from_str(text).unwrap();
    let answer = message(Uuid::from_u128(1), 1, None).with_metadata(&metadata);
    store.record(answer.clone()).unwrap();
    let found = store.get_message(answer.id).unwrap().unwrap();
    assert_eq!(found, with!(answer, sequence: Some(1)));
    assert_eq!(
        (found.tokens_in, found.tokens_out, found.latency_ms),
        (Some(40), Some(10), Some(850))
    );
    assert_eq!(
        (found.config_used.as_deref(), found.model_used.as_deref()),
        (Some("fast"), Some("big"))
    );
    assert_eq!(found.models_in_chain.unwrap(), ["small", "big"]);
    assert_eq!(
        (found.handoff_steps, found.compression_applied),
        (Some(1), Some(false))
    );
    assert_eq!(found.context_utilization, Some(0.1 + 0.2));
    let kept = found.inference_metadata.unwrap();
    let whole = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
    assert_eq!(whole(&kept), whole(text));
    assert_eq!(
        serde_json::from_str::<InferenceMetadata>(&kept).unwrap(),
        metadata
    );
    // A gateway omits what it does not know, or sends null.
    let text = r#"{"config":null,"models_used":null,"model_latencies":null,"context_utilization":null,
        "tokens_by_model":{"small":{"in":7}}}"#;
    let sparse: InferenceMetadata = serde_json::from_str(text).unwrap();
    let answer = message(Uuid::from_u128(1), 3, None).with_metadata(&sparse);
    assert_eq!((answer.tokens_in, answer.tokens_out), (Some(7), Some(0)));
    assert_eq!((answer.config_used, answer.models_in_chain), (None, None));
    // Empty metadata changes nothing.
    let empty = message(Uuid::from_u128(1), 2, None).with_metadata(&InferenceMetadata::default());
    assert_eq!(
        (empty.tokens_in, empty.model_used, empty.models_in_chain),
        (None, None, None)
    );
}

// Processes: this test binary, started again with one test to run.

const ENV_DIR: &str = "DECKLOG_TALK_DIR";
const ENV_WRITER: &str = "DECKLOG_TALK_WRITER";

/// Does nothing unless the test below started it as a process.
#[test]
fn process_of_a_conversation() {
    let Ok(dir) = std::env::var(ENV_DIR) else {
        return;
    };
    let store = Store::options()
        .lock_timeout(Duration::from_secs(60))
        .open(dir)
        .unwrap();
    let talk = conversation(1, 0);
    store.record(talk.clone()).unwrap();
    let mut last = 0;
    for nth in 0..count("DECKLOG_RACE_CALLS", 40) {
        let id = u128::from(count(ENV_WRITER, 0) * 1_000_000 + nth);
        let message = with!(message(talk.id, id, None), tokens_in: Some(1));
        let place = store.record(message.clone()).unwrap().assigned.unwrap();
        assert!(place > last, "{place} after {last}");
        assert_eq!(store.record(message).unwrap().assigned, Some(place));
        last = place;
    }
}

#[test]
fn eight_processes_in_one_conversation_take_every_place_once() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let start = |path: &Path, writer: u64| {
        Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "conversations::process_of_a_conversation",
                "--test-threads=1",
            ])
            .env(ENV_DIR, path)
            .env(ENV_WRITER, (1 + writer).to_string())
            .stdout(Stdio::null())
            .spawn()
            .unwrap()
    };
    let children: Vec<_> = (0..8).map(|writer| start(&path, writer)).collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let lines = 8 * count("DECKLOG_RACE_CALLS", 40);
    let disk = Arc::new(Disk::new(&path));
    let found = verify(&*disk).unwrap();
    assert!(found.is_clean(), "{found:?}");
    assert_eq!(found.good_lines, lines + 1);
    let store = still().open(&path).unwrap();
    let id = Uuid::from_u128(1);
    let places: Vec<i64> = store
        .messages(id, &ALL)
        .unwrap()
        .items
        .iter()
        .map(|message| message.sequence.unwrap())
        .collect();
    assert_eq!(places, (1..=lines as i64).collect::<Vec<_>>());
    let (_, stats) = store.get_conversation(id).unwrap().unwrap();
    assert_eq!((stats.message_count, stats.total_tokens_in), (lines, lines));
}

/// Bug: with a clock that was behind, `update_conversation` returned a state that it had not
/// recorded.
#[test]
fn an_error_can_be_taken_back_under_any_clock() {
    let (_memory, one, two) = two_handles();
    let far = Timestamp::from_ms(4_000_000_000_000).unwrap();
    let talk = with!(conversation(1, 0), created_at: far.clone(), updated_at: far);
    one.record(talk.clone()).unwrap();
    one.capture_error(talk.id, "timeout", "no answer", None)
        .unwrap();
    let stands = |store: &Store| store.get_conversation(talk.id).unwrap().unwrap().0;
    assert_eq!(stands(&two).status, ConversationStatus::Error);
    // The same conversation again, as from an import, changes nothing.
    assert_eq!(
        one.record(talk.clone()).unwrap().status,
        AckStatus::Unchanged
    );
    let changed = one.update_conversation(talk.id, |it| {
        it.status = ConversationStatus::Active;
        it.last_error = None;
    });
    assert_eq!(changed.unwrap(), talk);
    assert_eq!((stands(&one), stands(&two)), (talk.clone(), talk));
}

/// Bug: an answer whose clock was behind that of its prompt was placed next to it, above it.
#[test]
fn an_answer_stands_under_its_prompt_under_any_clock() {
    let (_memory, one, _) = two_handles();
    let thread = Uuid::from_u128(7);
    let turn = |id: u128, parent: Option<u128>, kind, at| ConversationTurn {
        parent_id: parent.map(Uuid::from_u128),
        kind,
        thread_id: Some(thread),
        ..turn(id, "", DAY_1 + at)
    };
    for turn in [
        turn(1, None, TurnKind::User, 100),
        turn(2, Some(1), TurnKind::Assistant, 50),
        turn(3, Some(2), TurnKind::Assistant, 150),
        turn(4, Some(3), TurnKind::User, 20),
        turn(5, Some(4), TurnKind::Assistant, 10),
        // Turns that are their own ancestors, and one with a missing parent.
        turn(6, Some(7), TurnKind::Assistant, 200),
        turn(7, Some(6), TurnKind::Assistant, 201),
        turn(8, Some(8), TurnKind::Assistant, 202),
        turn(9, Some(99), TurnKind::Assistant, 203),
    ] {
        one.record(turn).unwrap();
    }
    one.record(ToolCallReq {
        parent_id: Uuid::from_u128(2),
        ..request(20, "call", DAY_1 + 60)
    })
    .unwrap();
    let tree = one.session_tree(thread).unwrap().unwrap();
    let shown: Vec<(u128, usize)> = tree
        .nodes
        .iter()
        .map(|node| match &node.item {
            SessionItem::Turn(turn) => (turn.id.as_u128(), node.depth),
            SessionItem::Call(call) => (call.0.request_id.as_u128(), node.depth),
            other => panic!("{other:?}"),
        })
        .collect();
    let expected = [
        (4, 0),
        (5, 1),
        (1, 0),
        (2, 1),
        (20, 2),
        (3, 1),
        (6, 0),
        (7, 1),
        (8, 0),
        (9, 0),
    ];
    assert_eq!(shown, expected);
}
