//! `/stream`: a listener gets each record once, in order, also after a disconnect and however slow
//! it is.

use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use decklog::http::Options;
use decklog::retention::{CompactOptions, EraseOptions, Erasure};
use decklog::{Client, Conversation, ConversationMessage, Event, Record, Role, Store};
use uuid::Uuid;

use super::Service;
use super::sse::{Events, Said};
use crate::support::{DAY_1, DAY_MS, Rng, done, request, turn};

fn event(store: &Store, content: &str) -> u64 {
    let mut event = Event::new(None, "test.said");
    event.payload = Some(format!("{{\"said\":\"{content}\"}}"));
    store.record(event).unwrap().seq
}

/// Records of many kinds and days, so that they are in many files.
fn mixed(n: u128) -> Vec<Record> {
    let at = DAY_1 + (n % 40) as i64 * DAY_MS;
    let call = request(n, "call", at);
    vec![
        turn(n, "said", at).into(),
        done(&call).into(),
        call.into(),
        Event::new(None, "test.said").into(),
    ]
}

/// The lines of a store as a stream sends them.
fn told(store: &Store) -> Vec<(String, u64, String)> {
    let lines = store.last_lines(usize::MAX).unwrap().into_iter();
    lines
        .map(|line| (line.kind.stem().to_owned(), line.seq, line.text))
        .collect()
}

#[test]
fn what_is_recorded_is_told_at_once_and_as_it_stands() {
    let service = Service::start();
    event(&service.store, "before");
    let mut events = Events::open(&service.client(), "", None);
    assert_eq!(events.status, 200);
    assert!(events.head.contains("content-type: text/event-stream"));
    assert!(events.head.contains("cache-control: no-store"));
    // So that a client without events resumes from where it started.
    assert_eq!(events.next().unwrap(), Said::Id(1));
    let started = Instant::now();
    event(&service.store, "now");
    let heard = events.next_event().unwrap();
    assert!(started.elapsed() < Duration::from_secs(5));
    assert_eq!(heard, told(&service.store)[1]);
    // And a posted record.
    let body = serde_json::json!({"client": "api"});
    service.client().post("/conversations", &body).expect(201);
    let heard = events.next_event().unwrap();
    assert_eq!(heard.0, "conversations");
    assert_eq!(heard, told(&service.store)[2]);
}

#[test]
fn who_resumes_hears_all_of_it_once_in_order() {
    let service = Service::start();
    let records: Vec<Record> = (1..=700).flat_map(mixed).collect();
    service.store.record_batch(records).unwrap();
    let seqs = told(&service.store);
    assert!(seqs.len() > 2_000);
    for after in [0, 1, 999, 1_000, seqs.len() as u64 - 1] {
        let mut events = Events::open(&service.client(), "", Some(after));
        for line in &seqs[after as usize..] {
            assert_eq!(events.next_event().unwrap(), *line);
        }
    }
    // The header overrides the parameter, which an `EventSource` keeps unchanged.
    let mut events = Events::open(&service.client(), "?last_event_id=3", None);
    assert_eq!(events.next_event().unwrap().1, 4);
    let mut events = Events::open(&service.client(), "?last_event_id=3", Some(9));
    assert_eq!(events.next_event().unwrap().1, 10);
    // An id beyond the last line still gets new lines.
    let mut events = Events::open(&service.client(), "", Some(i64::MAX as u64));
    assert_eq!(events.next().unwrap(), Said::Id(seqs.len() as u64));
    let seq = event(&service.store, "next");
    assert_eq!(events.next_event().unwrap().1, seq);
}

#[test]
fn breaks_lose_nothing_while_others_write() {
    let service = Service::start();
    let is_written = AtomicBool::new(false);
    let last = std::thread::scope(|scope| {
        let (store, is_written) = (&service.store, &is_written);
        let writer = scope.spawn(move || {
            for n in 0..200 {
                store
                    .record_batch((n * 5..n * 5 + 5).flat_map(mixed))
                    .unwrap();
                std::thread::sleep(Duration::from_millis(3));
            }
            is_written.store(true, Ordering::Relaxed);
        });
        let mut clients = Vec::new();
        for nth in 0..4 {
            let client = service.client();
            clients.push(scope.spawn(move || {
                let mut rng = Rng::seeded("breaks_lose_nothing_while_others_write");
                rng.0 = rng.0.wrapping_add(nth);
                let (mut heard, mut last_id) = (Vec::new(), 0);
                loop {
                    let mut events = Events::open(&client, "", Some(last_id));
                    events.timeout(Duration::from_secs(1));
                    for _ in 0..rng.below(1_000) {
                        match events.next() {
                            Ok(Said::Event { id, .. }) => heard.push(id),
                            Ok(Said::Id(_)) => {}
                            // No more lines are expected.
                            Err(_) if is_written.load(Ordering::Relaxed) => return heard,
                            Err(e) => panic!("{e}"),
                        }
                    }
                    last_id = events.last_id.unwrap();
                }
            }));
        }
        writer.join().unwrap();
        let wanted: Vec<u64> = told(store).into_iter().map(|(_, seq, _)| seq).collect();
        for client in clients {
            assert_eq!(client.join().unwrap(), wanted);
        }
        wanted.len()
    });
    assert!(last > 2_000);
}

#[test]
fn a_stream_has_what_it_was_asked_for() {
    let service = Service::start();
    let store = &service.store;
    let mine = Conversation::new(Uuid::new_v4(), Client::Api);
    let other = Conversation::new(Uuid::new_v4(), Client::Api);
    for conversation in [&mine, &other] {
        store.record(conversation.clone()).unwrap();
        let message = ConversationMessage::new(conversation.id, Role::User, "hi");
        store.record(message).unwrap();
        let mut said = turn(conversation.id.as_u128(), "said", DAY_1);
        said.thread_id = Some(conversation.id);
        store.record(said).unwrap();
    }
    event(store, "said");
    let heard = |query: &str, count: usize| {
        let mut events = Events::open(&service.client(), query, Some(0));
        let heard = (0..count).map(|_| events.next_event().unwrap());
        let heard: Vec<_> = heard.map(|(kind, id, _)| (kind, id)).collect();
        events.timeout(Duration::from_millis(300));
        assert!(events.next().is_err(), "there is more: {query}");
        let heard = heard.iter().map(|(kind, id)| (kind.as_str(), *id));
        heard
            .map(|(kind, id)| format!("{kind} {id}"))
            .collect::<Vec<_>>()
    };
    assert_eq!(heard("?kind=messages", 2), ["messages 2", "messages 5"]);
    let two = ["messages 2", "messages 5", "events 7"];
    assert_eq!(heard("?kind=messages,events", 3), two);
    let of_mine = ["conversations 1", "messages 2", "conversation_turns 3"];
    assert_eq!(heard(&format!("?conversation_id={}", mine.id), 3), of_mine);
    let upper = mine.id.to_string().to_uppercase();
    let query = format!("?conversation_id={upper}&kind=messages");
    assert_eq!(heard(&query, 1), ["messages 2"]);
}

/// A client without matching events still learns how far the log was read.
#[test]
fn what_is_left_out_is_not_looked_at_again() {
    let service = Service::start();
    let mut events = Events::open(&service.client(), "?kind=messages", None);
    assert_eq!(events.next().unwrap(), Said::Id(0));
    for _ in 0..3 {
        event(&service.store, "said");
    }
    assert_eq!(events.next().unwrap(), Said::Id(3));
}

#[test]
fn what_does_not_fit_is_told() {
    let service = Service::start();
    let client = service.client();
    for (query, field) in [
        ("?kind=nothing", "kind"),
        ("?kind=", "kind"),
        ("?conversation_id=x", "conversation_id"),
        ("?last_event_id=-1", "last_event_id"),
    ] {
        let answer = client.get(&format!("/stream{query}"));
        let problem = answer.expect(400);
        let named = problem["field"].as_str().unwrap_or_default();
        assert!(named.starts_with(field), "{query}: {problem}");
    }
    client
        .get("/stream?since=1")
        .expect_problem(400, "bad_request", Some("since"));
    for id in ["", "x", "-1", "1.5", "18446744073709551616"] {
        let answer = client.with("Last-Event-ID", id).get("/stream");
        answer.expect_problem(400, "bad_request", Some("Last-Event-ID"));
    }
    let twice = client.with("Last-Event-ID", "1").with("Last-Event-ID", "2");
    twice
        .get("/stream")
        .expect_problem(400, "bad_request", Some("Last-Event-ID"));
}

#[test]
fn there_are_as_many_streams_as_may_be() {
    let mut options = Options::default();
    options.streams_max = 3;
    let service = Service::with(&options);
    let client = service.client();
    let open = || Events::open(&client, "", None);
    let mut three = [open(), open(), open()];
    let more = client.get("/stream");
    more.expect_problem(503, "too_many_streams", None);
    assert!(more.header("retry-after").is_some());
    event(&service.store, "said");
    for events in &mut three {
        assert_eq!(events.next_event().unwrap().1, 1);
    }
    drop(three);
    let started = Instant::now();
    while open().status != 200 {
        assert!(started.elapsed() < Duration::from_secs(20));
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn streams_end_with_the_server() {
    let service = Service::start();
    let mut streams: Vec<Events> = (0..8)
        .map(|_| Events::open(&service.client(), "", None))
        .collect();
    let started = Instant::now();
    drop(service);
    // Shorter than the timeout for other requests.
    assert!(started.elapsed() < Duration::from_secs(5));
    for events in &mut streams {
        while events.next().is_ok() {}
    }
}

/// A client that does not read is waited for without cost to others, and then disconnected.
#[test]
fn who_does_not_listen_holds_up_no_one() {
    let mut options = Options::default();
    options.take_timeout = Duration::from_secs(2);
    options.streams_max = 2;
    let service = Service::with(&options);
    let client = service.client();
    let mut deaf = client.connect();
    deaf.write_all(b"GET /stream?last_event_id=0 HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .unwrap();
    let mut events = Events::open(&client, "", Some(0));
    let text = "x".repeat(1 << 20);
    for n in 1..=24 {
        event(&service.store, &text);
        assert_eq!(events.next_event().unwrap().1, n);
    }
    // Its slot is free again.
    let started = Instant::now();
    while Events::open(&client, "", None).status != 200 {
        assert!(started.elapsed() < Duration::from_secs(20));
        std::thread::sleep(Duration::from_millis(50));
    }
    drop(deaf);
}

#[test]
fn what_was_erased_is_not_told() {
    let service = Service::start();
    let store = &service.store;
    let gone = Conversation::new(Uuid::new_v4(), Client::Api);
    store.record(gone.clone()).unwrap();
    for n in 0..50 {
        let message = ConversationMessage::new(gone.id, Role::User, format!("secret {n}"));
        store.record(message).unwrap();
        event(store, "kept");
    }
    let mut begun = Events::open(&service.client(), "", Some(0));
    for _ in 0..10 {
        begun.next_event().unwrap();
    }
    let erasure = Erasure::Conversation(gone.id);
    store.erase(&erasure, EraseOptions::default()).unwrap();
    let last = event(store, "last");
    let mut events = Events::open(&service.client(), "", Some(0));
    let mut seqs = Vec::new();
    while seqs.last() != Some(&last) {
        let (kind, seq, data) = events.next_event().unwrap();
        assert!(kind != "messages" && !data.contains("secret"), "{data}");
        seqs.push(seq);
    }
    let wanted: Vec<u64> = told(store).into_iter().map(|(_, seq, _)| seq).collect();
    assert_eq!(seqs, wanted);
    // A client in the middle continues in order.
    let mut last_seen = 0;
    while last_seen != last {
        let (_, seq, _) = begun.next_event().unwrap();
        assert!(seq > last_seen);
        last_seen = seq;
    }
}

/// Compaction by another handle moves the lines; each is still sent once.
#[test]
fn compaction_in_between_is_not_noticed() {
    let service = Service::start();
    let store = &service.store;
    store.record_batch((1..=400).flat_map(mixed)).unwrap();
    let wanted: Vec<u64> = told(store).into_iter().map(|(_, seq, _)| seq).collect();
    let mut events = Events::open(&service.client(), "", Some(0));
    let mut heard: Vec<u64> = (0..500).map(|_| events.next_event().unwrap().1).collect();
    store.seal_at(DAY_1 + 100 * DAY_MS).unwrap();
    store.compact(CompactOptions::default()).unwrap();
    heard.extend((500..wanted.len()).map(|_| events.next_event().unwrap().1));
    assert_eq!(heard, wanted);
}
