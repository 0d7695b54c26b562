//! Reports by tool, project and session, compared with lists of all calls and conversations.

use std::collections::BTreeMap;

use decklog::analytics::{Analytics, AnalyticsQuery, SpendSort, ToolSums, ToolsReport};
use decklog::query::{CallQuery, ConversationQuery};
use decklog::record::{Day, ToolCall, Validity};
use decklog::storage::Memory;
use decklog::{
    CallStatus, Client, Conversation, ConversationMessage, Durability, ErrorKind, Role, Store,
    Timestamp, ToolCallDone, ToolCallReq, ToolStatus,
};
use uuid::Uuid;

use crate::support::{DAY_1, DAY_MS, Rng, count, in_memory};

const TOOLS: [&str; 4] = ["bash", "read", "edit", "mcp\u{1b}[2J"];

fn call_id(nth: usize) -> (Uuid, String) {
    let request_id = Uuid::from_u128(7 + nth as u128 / 3);
    (request_id, format!("call {}", nth % 3))
}

/// One of the first calls requested, again and again, ended or retracted.
fn change(rng: &mut Rng, store: &Store, calls: usize) {
    let nth = rng.below(calls);
    let (request_id, call_id) = call_id(nth);
    let at = DAY_1 + rng.below(3 * DAY_MS as usize) as i64;
    let request = |tool: &str, started_at| ToolCallReq {
        started_at,
        arguments_json: Some("{}".into()),
        ..ToolCallReq::new(request_id, call_id.as_str(), "v", tool)
    };
    let status = *rng.pick(&[
        ToolStatus::Completed,
        ToolStatus::Completed,
        ToolStatus::Failed,
    ]);
    let done = ToolCallDone {
        ended_at: Validity::at(at),
        latency_ms: (rng.next() >> (40 + rng.below(20))) as i64,
        ..ToolCallDone::new(request_id, call_id.as_str(), status)
    };
    let known = store.get_tool_call(request_id, &call_id).unwrap();
    let recorded = match (known, rng.below(20)) {
        (Some((known, _)), 0) => store.record(ToolCallReq {
            started_at: Validity::retracted(at),
            ..known
        }),
        (Some(_), 1) => store.record(request(TOOLS[rng.below(4)], Validity::at(at))),
        (Some((_, None)), 2..12) => store.record(done),
        (Some(_), _) => return,
        (None, _) => store.record(request(TOOLS[nth % 7 % 4], Validity::at(at))),
    };
    if let Err(e) = recorded {
        assert_ne!(e.kind(), ErrorKind::Io, "{e}");
    }
}

/// The sums of calls, computed plainly.
fn plain(calls: &[&ToolCall]) -> [u64; 6] {
    let of = |status| {
        let calls = calls.iter();
        calls
            .filter(|(_, done)| CallStatus::of(done.as_ref()) == status)
            .count() as u64
    };
    let latencies = calls
        .iter()
        .filter_map(|(_, done)| Some(done.as_ref()?.latency_ms as u64));
    [
        calls.len() as u64,
        of(CallStatus::Completed),
        of(CallStatus::Failed),
        of(CallStatus::Requested),
        latencies.clone().sum(),
        latencies.max().unwrap_or(0),
    ]
}

fn numbers(sums: &ToolSums) -> [u64; 6] {
    let latency = &sums.latency_ms;
    let in_buckets: u64 = latency.histogram.iter().map(|bucket| bucket.calls).sum();
    assert_eq!(in_buckets, latency.count);
    assert_eq!(latency.count, sums.completed + sums.failed);
    assert!(latency.p95.unwrap_or(0.0) <= latency.max.unwrap_or(0) as f64);
    let sum = latency.avg.unwrap_or(0.0) * latency.count as f64;
    [
        sums.calls,
        sums.completed,
        sums.failed,
        sums.running,
        sum.round() as u64,
        latency.max.unwrap_or(0),
    ]
}

fn days(since: i64, until: i64) -> AnalyticsQuery {
    let day = |nth: i64| Some(Day::of(DAY_1 + nth * DAY_MS).unwrap());
    AnalyticsQuery {
        since: day(since),
        until: day(until),
        ..AnalyticsQuery::default()
    }
}

fn check(analytics: &Analytics, store: &Store, query: &AnalyticsQuery) -> ToolsReport {
    let report = analytics.tools(query).unwrap();
    let all = CallQuery {
        since: query.since.map(|day| day.bounds_ms().0),
        until: query.until.map(|day| day.bounds_ms().0),
        limit: usize::MAX,
        ..CallQuery::default()
    };
    let calls = store.tool_calls(&all).unwrap().items;
    let mut by_tool: BTreeMap<&str, Vec<&ToolCall>> = BTreeMap::new();
    for call in &calls {
        by_tool.entry(&call.0.tool_name).or_default().push(call);
    }
    assert_eq!(report.row_count, by_tool.len());
    for row in &report.rows {
        let expected = plain(&by_tool[&*row.tool_name]);
        assert_eq!(numbers(&row.sums), expected, "{}", row.tool_name);
    }
    let most_first = |rows: &[decklog::analytics::ToolRow]| {
        rows.is_sorted_by(|a, b| a.sums.calls >= b.sums.calls)
    };
    assert!(most_first(&report.rows));
    assert_eq!(
        numbers(&report.total),
        plain(&calls.iter().collect::<Vec<_>>())
    );
    report
}

/// A handle that follows the log says the same as a new one, and as the list of all calls: after
/// outcomes, retractions, and requests of other times and tools.
#[test]
fn calls_are_summed_as_they_stand() {
    let mut rng = Rng::seeded("calls_are_summed_as_they_stand");
    for _ in 0..count("DECKLOG_ANALYTICS_CASES", 4) {
        let store = in_memory(&Memory::new(), Durability::Process);
        let analytics = store.analytics();
        let calls = 1 + rng.below(300);
        for _ in 0..12 {
            for _ in 0..rng.below(200) {
                change(&mut rng, &store, calls);
            }
            let all = AnalyticsQuery::default();
            for query in [&all, &days(1, 2), &days(0, 2), &days(3, 3)] {
                let followed = check(&analytics, &store, query);
                assert_eq!(followed, store.analytics().tools(query).unwrap());
            }
        }
    }
}

#[test]
fn a_tool_has_rates_and_a_histogram() {
    let store = in_memory(&Memory::new(), Durability::Process);
    for nth in 0..100 {
        let (id, call) = (Uuid::from_u128(nth), "c");
        let request = ToolCallReq {
            started_at: Validity::at(DAY_1),
            arguments_json: Some("{}".into()),
            ..ToolCallReq::new(id, call, "v", if nth < 90 { "read" } else { "bash" })
        };
        store.record(request).unwrap();
        let status = if nth % 10 == 0 {
            ToolStatus::Failed
        } else {
            ToolStatus::Completed
        };
        let done = ToolCallDone {
            latency_ms: if nth == 89 { 9_000 } else { 40 },
            ..ToolCallDone::new(id, call, status)
        };
        if nth != 99 {
            store.record(done).unwrap();
        }
    }
    let analytics = store.analytics();
    let report = analytics.tools(&AnalyticsQuery::default()).unwrap();
    let [read, bash] = &report.rows[..] else {
        panic!("{report:?}")
    };
    assert_eq!((&*read.tool_name, &*bash.tool_name), ("read", "bash"));
    let latency = &read.sums.latency_ms;
    assert_eq!(read.sums.failure_rate, Some(0.1));
    assert_eq!(
        (latency.max, latency.avg),
        (Some(9_000), Some((89.0 * 40.0 + 9_000.0) / 90.0))
    );
    assert!((latency.p95.unwrap() - 40.0).abs() <= 0.4, "{latency:?}");
    let calls = |upto| {
        let mut buckets = latency.histogram.iter();
        buckets
            .find(|bucket| bucket.up_to_ms == upto)
            .unwrap()
            .calls
    };
    assert_eq!(
        (calls(Some(50)), calls(Some(10_000)), calls(None)),
        (89, 1, 0)
    );
    assert_eq!((bash.sums.calls, bash.sums.running), (10, 1));
    assert_eq!(bash.sums.failure_rate, Some(1.0 / 9.0));
    let first = AnalyticsQuery {
        limit: Some(1),
        ..AnalyticsQuery::default()
    };
    let report = analytics.tools(&first).unwrap();
    assert_eq!(
        (report.rows.len(), report.row_count, report.total.calls),
        (1, 2, 100)
    );
    for query in [
        AnalyticsQuery {
            group: Some(vec![decklog::analytics::Dimension::Model]),
            ..first.clone()
        },
        AnalyticsQuery {
            sort: Some(SpendSort::Cost),
            ..first
        },
    ] {
        let refused = analytics.tools(&query).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidInput);
    }
}

fn talk(project: Option<&str>, title: &str) -> Conversation {
    let mut conversation = Conversation::new(Uuid::new_v4(), Client::Api);
    conversation.created_at = Timestamp::from_ms(DAY_1).unwrap();
    conversation.updated_at = conversation.created_at.clone();
    conversation.project = project.map(str::to_owned);
    conversation.title = (!title.is_empty()).then(|| title.to_owned());
    conversation
}

fn answer(store: &Store, of: &Conversation, day: i64, tokens: i64, cost: Option<f64>) {
    let mut message = ConversationMessage::new(of.id, Role::Assistant, "words");
    message.timestamp = Timestamp::from_ms(DAY_1 + day * DAY_MS).unwrap();
    message.tokens_in = Some(tokens);
    message.tokens_cache_read = Some(tokens / 2);
    message.tokens_out = Some(1);
    message.cost_usd = cost;
    message.error = cost.is_none().then(|| "no".to_owned());
    store.record(message).unwrap();
}

#[test]
fn projects_and_sessions_are_sorted_by_what_they_used() {
    let store = in_memory(&Memory::new(), Durability::Process);
    let analytics = store.analytics();
    let talks = [
        talk(Some("compiler"), "first"),
        talk(Some("compiler"), ""),
        talk(Some("site"), "third"),
        talk(None, "fourth"),
    ];
    for (nth, talk) in talks.iter().enumerate() {
        store.record(talk.clone()).unwrap();
        answer(&store, talk, 0, 100 * (nth as i64 + 1), None);
    }
    let mut prompt = ConversationMessage::new(talks[1].id, Role::User, "What\nis it?");
    prompt.timestamp = talks[1].created_at.clone();
    store.record(prompt).unwrap();
    analytics.catch_up().unwrap();
    answer(&store, &talks[0], 1, 10, Some(0.1));
    answer(&store, &talks[1], 1, 10, Some(0.2));
    answer(&store, &talks[2], 2, 10, Some(0.25));

    let all = AnalyticsQuery::default();
    let report = analytics.projects(&all).unwrap();
    let names: Vec<_> = report
        .rows
        .iter()
        .map(|row| row.project.as_deref())
        .collect();
    assert_eq!(names, [Some("compiler"), Some("site"), None]);
    let compiler = &report.rows[0].sums;
    assert_eq!(
        (compiler.conversations, compiler.messages, compiler.errors),
        (2, 5, 2)
    );
    assert_eq!(
        (
            compiler.tokens_in,
            compiler.tokens_input,
            compiler.tokens_cache_read
        ),
        (320, 160, 160)
    );
    // Exactly, although 0.1 + 0.2 is not 0.3.
    assert_eq!(compiler.cost_usd, Some(0.3));
    assert_eq!(report.rows[2].sums.cost_usd, None);
    assert_eq!(
        (report.total.conversations, report.total.cost_usd),
        (4, Some(0.55))
    );

    let by_tokens = AnalyticsQuery {
        sort: Some(SpendSort::Tokens),
        ..AnalyticsQuery::default()
    };
    let report = analytics.projects(&by_tokens).unwrap();
    assert_eq!(report.rows[0].project, None);

    let report = analytics.sessions(&all).unwrap();
    let titles: Vec<_> = report
        .rows
        .iter()
        .map(|row| row.title.as_deref().unwrap())
        .collect();
    assert_eq!(titles, ["third", "What is it?", "first", "fourth"]);
    assert_eq!((report.row_count, report.total.conversations), (4, 4));
    assert_eq!(report.rows[0].conversation_id, talks[2].id);
    assert_eq!(report.rows[0].project.as_deref(), Some("site"));
    let report = analytics
        .sessions(&AnalyticsQuery {
            limit: Some(1),
            ..days(0, 2)
        })
        .unwrap();
    assert_eq!((report.rows.len(), report.row_count), (1, 4));
    assert_eq!(report.rows[0].title.as_deref(), Some("What is it?"));
    assert_eq!(report.total.cost_usd, Some(0.3));

    // A conversation that is given another project counts there.
    store
        .update_conversation(talks[2].id, |it| it.project = Some("compiler".into()))
        .unwrap();
    assert_eq!(
        analytics.projects(&all).unwrap().rows[0].sums.conversations,
        3
    );
    for (conversation, stats) in store
        .conversations(&ConversationQuery::default())
        .unwrap()
        .items
    {
        let row = analytics.sessions(&all).unwrap().rows;
        let row = row
            .iter()
            .find(|row| row.conversation_id == conversation.id)
            .unwrap();
        assert_eq!(
            (stats.total_cost_usd, stats.error_count),
            (row.sums.cost_usd, row.sums.errors)
        );
    }
}
