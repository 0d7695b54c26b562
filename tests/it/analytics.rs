//! Analytics: every figure of a report is compared with totals computed from all messages, by other
//! code and without sketches, for any grouping, any history of the log and any writer.
//!
//! `DECKLOG_ANALYTICS_MESSAGES` sets the number of random messages, and `DECKLOG_ANALYTICS_CASES`
//! the number of logs that are changed at random.

#![allow(
    clippy::cast_possible_wrap,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss
)]

mod changes;
mod plain;
mod tools;

use std::path::Path;

use decklog::analytics::{Analytics, AnalyticsQuery, Bucket, Dimension};
use decklog::import::Importer;
use decklog::query::{ConversationQuery, MessageQuery};
use decklog::record::Day;
use decklog::storage::Memory;
use decklog::{
    Client, Conversation, ConversationMessage, Durability, ErrorKind, Record, Role, Store,
    Timestamp,
};
use uuid::Uuid;

use super::support::{DAY_1, DAY_MS, Rng, count, in_memory, still};

/// Every message that is in the log.
fn messages(store: &Store) -> Vec<ConversationMessage> {
    let all = ConversationQuery {
        limit: usize::MAX,
        ..ConversationQuery::default()
    };
    let conversations = store.conversations(&all).unwrap().items;
    let of = |(conversation, _): (Conversation, _)| {
        let all = MessageQuery {
            limit: usize::MAX,
            ..MessageQuery::default()
        };
        store.messages(conversation.id, &all).unwrap().items
    };
    conversations.into_iter().flat_map(of).collect()
}

/// A random message as from a gateway, on one of these days. A few groups have most of the
/// messages.
fn message(rng: &mut Rng, conversation_id: Uuid, at: i64) -> ConversationMessage {
    let role = *rng.pick(&[
        Role::User,
        Role::Assistant,
        Role::Assistant,
        Role::Assistant,
        Role::Tool,
        Role::System,
    ]);
    let skewed = |rng: &mut Rng, names: &[&str]| {
        let place = rng.below(names.len()).min(rng.below(names.len()));
        (!rng.one_in(10)).then(|| names[place].to_owned())
    };
    let spoke = role == Role::Assistant || rng.one_in(4);
    let failed = rng.one_in(12);
    let mut message = with!(ConversationMessage::new(conversation_id, role, "words"),
        id: Uuid::from_u64_pair(rng.next(), rng.next()),
        timestamp: Timestamp::from_ms(at).unwrap(),
        tokens_in: rng.one_in(2).then(|| rng.below(10_000) as i64),
        error: failed.then(|| "it \u{1b}[31mfailed".to_owned()),
        error_type: rng
            .one_in(3)
            .then(|| (*rng.pick(&["timeout", "refused", "quota"])).to_owned()),
    );
    if spoke {
        message.model_used = skewed(rng, &["small-1", "big-2", "big \"3\"", "local", "m5", "m6"]);
        message.config_used = skewed(rng, &["fast", "cheap", "careful", "default"]);
        message.orchestration_mode = skewed(rng, &["single", "cascade", "vote"]);
        message.task_type = skewed(rng, &["code", "chat", "plan", "edit", "search"]);
        message.tokens_out = Some(rng.below(3_000) as i64);
        let share = |of: Option<i64>, part| of.map(|tokens| tokens / part);
        message.tokens_cache_write = share(message.tokens_in, 5).filter(|_| rng.one_in(2));
        message.tokens_cache_write_1h =
            share(message.tokens_cache_write, 3).filter(|_| rng.one_in(2));
        message.tokens_cache_read = share(message.tokens_in, 2).filter(|_| rng.one_in(2));
        message.tokens_reasoning = share(message.tokens_out, 3).filter(|_| rng.one_in(2));
        message.cost_usd = rng.one_in(2).then(|| rng.below(1_000) as f64 / 7e3);
        let latency = (rng.next() >> (45 + rng.below(15))) as i64;
        message.latency_ms = (!rng.one_in(9)).then_some(latency);
        let used = (rng.next() >> 11) as f64 / (1u64 << 53) as f64;
        message.context_utilization = (!rng.one_in(5)).then_some(used);
        message.compression_applied = rng.one_in(2).then(|| rng.one_in(3));
        // The request may be of any group and day.
        let part_of = Uuid::from_u64_pair(rng.next(), rng.next());
        message.part_of = rng.one_in(3).then_some(part_of);
    }
    message
}

fn conversation(id: Uuid, at: i64) -> Conversation {
    with!(Conversation::new(id, Client::Api),
        created_at: Timestamp::from_ms(at).unwrap(),
        updated_at: Timestamp::from_ms(at).unwrap(),
    )
}

/// Records `count` messages over `days` days from `first` on, with one conversation per twenty
/// messages.
fn fill(store: &Store, rng: &mut Rng, first: i64, days: usize, count: usize) {
    let conversations: Vec<Uuid> = (0..count.div_ceil(20))
        .map(|_| Uuid::from_u64_pair(rng.next(), rng.next()))
        .collect();
    let begun = conversations
        .iter()
        .map(|id| conversation(*id, first).into());
    let said = (0..count).map(|_| {
        let at = first + rng.below(days) as i64 * DAY_MS + rng.below(DAY_MS as usize) as i64;
        let conversation = *rng.pick(&conversations);
        Record::from(message(rng, conversation, at))
    });
    let records: Vec<Record> = begun.chain(said).collect();
    for batch in records.chunks(1_000) {
        for answer in store.record_batch(batch.iter().cloned()).unwrap() {
            answer.unwrap();
        }
    }
}

/// Various queries over days from the first one.
fn queries(first: i64, days: i64) -> Vec<AnalyticsQuery> {
    use Dimension::{Config, Mode, Model, TaskType};
    let day = |n: i64| Some(Day::of(first + n * DAY_MS).unwrap());
    let all = AnalyticsQuery {
        since: day(0),
        ..AnalyticsQuery::default()
    };
    let grouped = |group: &[Dimension], bucket| AnalyticsQuery {
        group: Some(group.to_vec()),
        bucket: Some(bucket),
        ..all.clone()
    };
    vec![
        AnalyticsQuery::default(),
        all.clone(),
        grouped(&[], Bucket::All),
        grouped(&[], Bucket::Month),
        grouped(&[TaskType, Model], Bucket::All),
        grouped(&[Mode], Bucket::Week),
        AnalyticsQuery {
            until: day(days / 2),
            ..grouped(&[Model, Config, Mode, TaskType], Bucket::All)
        },
        AnalyticsQuery {
            since: day(days / 3),
            until: day(days / 3 + 1),
            ..grouped(&[Config], Bucket::Day)
        },
        AnalyticsQuery {
            until: day(days),
            limit: Some(7),
            ..grouped(&[Model, TaskType], Bucket::Day)
        },
        AnalyticsQuery {
            since: day(1),
            until: day(1),
            ..all
        },
    ]
}

/// Compares all reports with totals computed from all messages.
fn check(analytics: &Analytics, all: &[ConversationMessage], queries: &[AnalyticsQuery]) {
    let all = plain::Plain::new(all);
    for query in queries {
        println!("{query:?}");
        plain::check(analytics, &all, query);
    }
}

#[test]
fn the_samples_add_up() {
    let store = still()
        .storage(std::sync::Arc::new(Memory::new()))
        .open("memory")
        .unwrap();
    let analytics = store.analytics();
    check(&analytics, &[], &queries(DAY_1, 3));
    let mut importer = Importer::new(&store).expired(decklog::import::Expired::Expire);
    importer
        .path(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data"))
        .unwrap();
    importer.finish().unwrap();
    let all = messages(&store);
    assert!(all.len() >= 30, "{}", all.len());
    let first = all.iter().map(|message| message.timestamp.at()).min();
    check(&analytics, &all, &queries(first.unwrap(), 2));
    check(&store.analytics(), &all, &queries(first.unwrap(), 60));
    let tokens = analytics.usage(&AnalyticsQuery::default()).unwrap().total;
    assert!(tokens.tokens_out > 100 && tokens.requests > 5, "{tokens:?}");
}

#[test]
fn a_hundred_thousand_messages_add_up() {
    let count = count("DECKLOG_ANALYTICS_MESSAGES", 100_000) as usize;
    let mut rng = Rng::seeded("a_hundred_thousand_messages_add_up");
    let memory = Memory::new();
    let store = in_memory(&memory, Durability::Process);
    let days = 90;
    // Up to today, so that reports with default days are not empty.
    let first = (Timestamp::now().at() / DAY_MS - days + 1) * DAY_MS;
    let early = store.analytics();
    fill(&store, &mut rng, first, days as usize, count / 2);
    early.catch_up().unwrap();
    fill(&store, &mut rng, first, days as usize, count - count / 2);
    let all = messages(&store);
    assert_eq!(all.len(), count);
    check(&early, &all, &queries(first, days));
    let [early, late] =
        [early, store.analytics()].map(|of| plain::all_of(&of, &queries(first, days)));
    assert_eq!(early, late);
    // The rollups alone give the same totals, whatever the segments contained.
    for day in 0..3 {
        store
            .roll_up(Day::of(first + day * DAY_MS).unwrap())
            .unwrap();
    }
    check(&store.analytics(), &all, &queries(first, 5));
}

/// Rows add up to the total even if the request of partial answers is of another day or group, and
/// the number of failed requests is at most the number of requests.
#[test]
fn further_parts_of_answers_have_rows_where_their_request_has_none() {
    let store = in_memory(&Memory::new(), Durability::Process);
    let talk = Uuid::from_u128(1);
    store.record(conversation(talk, DAY_1)).unwrap();
    let request = Uuid::from_u128(2);
    for (n, at, model, part_of) in [
        (2, DAY_1, "small-1", None),
        (3, DAY_1, "big-2", Some(request)),
        (4, DAY_1, "big-2", Some(request)),
        (5, DAY_1 + DAY_MS, "small-1", Some(request)),
    ] {
        let answer = with!(ConversationMessage::new(talk, Role::Assistant, "words"),
            id: Uuid::from_u128(n),
            timestamp: Timestamp::from_ms(at).unwrap(),
            model_used: Some(model.to_owned()),
            part_of,
            tokens_out: Some(n as i64),
            error: part_of.map(|_| "it failed".to_owned()),
            latency_ms: part_of.map(|_| 100),
            context_utilization: part_of.map(|_| 0.5),
            compression_applied: Some(true),
        );
        store.record(answer).unwrap();
    }
    let by_day = AnalyticsQuery {
        since: Some(Day::of(DAY_1).unwrap()),
        bucket: Some(Bucket::Day),
        ..AnalyticsQuery::default()
    };
    let by_config = AnalyticsQuery {
        group: Some(vec![Dimension::Config]),
        bucket: None,
        ..by_day.clone()
    };
    let next_day = AnalyticsQuery {
        since: Some(Day::of(DAY_1 + DAY_MS).unwrap()),
        ..AnalyticsQuery::default()
    };
    let all = messages(&store);
    let check_all = || {
        let queries = [by_day.clone(), by_config.clone(), next_day.clone()];
        check(&store.analytics(), &all, &queries);
    };
    check_all();
    for day in 0..2 {
        let day = Day::of(DAY_1 + day * DAY_MS).unwrap();
        store.roll_up(day).unwrap();
    }
    check_all();

    let analytics = store.analytics();
    let models = analytics.models(&by_day).unwrap();
    let sums = models.rows.iter().map(|row| &row.sums);
    let told: Vec<_> = sums
        .map(|sums| (sums.requests, sums.tokens_out, sums.errors, sums.error_rate))
        .collect();
    assert_eq!(
        told,
        [(1, 2, 0, Some(0.0)), (0, 7, 2, None), (0, 5, 1, None)]
    );
    let total = models.total;
    assert_eq!((total.requests, total.tokens_out, total.errors), (1, 14, 3));
    assert_eq!(total.error_rate, Some(1.0));
    let errors = analytics.errors(&by_day).unwrap().total;
    assert_eq!((errors.errors, errors.failed_requests), (3, 1));
    assert_eq!(errors.error_rate, Some(1.0));
    let compressed = analytics.compression(&by_day).unwrap();
    let rates = compressed.rows.iter().map(|row| row.sums.rate);
    assert_eq!(rates.collect::<Vec<_>>(), [Some(1.0), None, None]);
    assert_eq!(compressed.total.rate, Some(1.0));
    let latency = analytics.latency(&next_day).unwrap();
    assert_eq!((latency.row_count, latency.rows[0].sums.requests), (1, 0));
    assert_eq!(latency.rows[0].sums.latency_ms, latency.total.latency_ms);
}

#[test]
fn what_cannot_be_told_is_refused() {
    let store = in_memory(&Memory::new(), Durability::Process);
    let analytics = store.analytics();
    let day = |n: i64| Some(Day::of(DAY_1 + n * DAY_MS).unwrap());
    let refused = |result: decklog::Result<()>, words: &str| {
        let error = result.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains(words), "{error}");
    };
    let backwards = AnalyticsQuery {
        since: day(1),
        until: day(0),
        ..AnalyticsQuery::default()
    };
    refused(
        analytics.models(&backwards).map(drop),
        "until must be later",
    );
    refused(
        analytics.dashboard(&backwards).map(drop),
        "until must be later",
    );
    let grouped = AnalyticsQuery {
        group: Some(vec![Dimension::Model]),
        ..AnalyticsQuery::default()
    };
    refused(
        analytics.active(&grouped).map(drop),
        "has no groups: omit them",
    );
    refused(
        analytics.dashboard(&grouped).map(drop),
        "has no groups: omit them",
    );
    let by_day = AnalyticsQuery {
        bucket: Some(Bucket::Day),
        ..AnalyticsQuery::default()
    };
    refused(
        analytics.dashboard(&by_day).map(drop),
        "by day, week or month: omit the period",
    );
    let long = AnalyticsQuery {
        limit: Some(100_001),
        ..AnalyticsQuery::default()
    };
    refused(analytics.usage(&long).map(drop), "at most 100000");
}
