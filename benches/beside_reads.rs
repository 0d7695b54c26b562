//! How long an append takes beside reads of a large store, alone and while another thread reads one
//! thing over and over: first appends and reads of one handle, then POSTs, each answered over one
//! connection, beside reads over another.
//!
//! `cargo bench --bench beside_reads`; `DECKLOG_BENCH_CONVERSATIONS` says how large the store is,
//! `DECKLOG_BENCH_SECONDS` how long each row takes, and `DECKLOG_BENCH_RUNS` of how many runs of a row
//! the medians are. `DECKLOG_BENCH_POSTS=0` leaves the POSTs out.

// A bench says what went wrong by stopping there.
#![allow(clippy::expect_used)]

mod scratch;
mod tiny;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use decklog::http::{Options, Server};
use decklog::query::{ConversationQuery, Order, SearchQuery};
use decklog::record::{ConversationStatus, ThoughtType};
use decklog::thoughts::NewThought;
use decklog::{
    Client, Conversation, ConversationMessage, Event, Record, Role, Store, Timestamp, event_type,
};
use uuid::Uuid;

use scratch::{count, in_scratch_dir};

/// When the store begins.
const DAY_1: i64 = 1_766_793_600_000;
const THOUGHTS: usize = 20_000;

fn main() {
    in_scratch_dir("beside", measure);
}

fn measure(dir: &Path) {
    let conversations = count("DECKLOG_BENCH_CONVERSATIONS", tiny::size(300_000, 300));
    let store = Store::open(dir.join("log")).expect("a store");
    let large = fill(&store, conversations);
    appends(&store, large, Uuid::from_u128(large.as_u128() + 1));
    if count("DECKLOG_BENCH_POSTS", 1) == 0 {
        return;
    }
    let server = Server::bind(
        store,
        "127.0.0.1:0".parse().expect("an address"),
        &Options::default(),
    );
    let server = server.expect("a port");
    let (addr, stop) = (server.local_addr(), server.stop_handle());
    let serving = std::thread::spawn(move || server.run().expect("served"));
    let half = conversations / 2;
    let reads = [
        String::new(),
        "/conversations?status=error&limit=1".to_owned(),
        "/conversations?project=app-1&limit=1".to_owned(),
        "/conversations?client=web&limit=1".to_owned(),
        "/conversations?session_id=session-7".to_owned(),
        "/conversations?user_id=user-7&limit=1".to_owned(),
        "/conversations?status=completed&project=app-1&client=cli&limit=1".to_owned(),
        format!("/conversations?limit=1&offset={half}&order=asc"),
        "/conversations?limit=100".to_owned(),
        format!("/conversations/{large}"),
        format!("/conversations/{large}/messages?limit=1000"),
        "/events/1/tree".to_owned(),
        "/events?event_type=reply.sent&limit=1".to_owned(),
        "/thoughts/verify?task_id=task".to_owned(),
        "/analytics/errors".to_owned(),
        "/analytics/dashboard".to_owned(),
        "/metrics".to_owned(),
        "/readyz".to_owned(),
    ];
    println!(
        "{:<64} {:>8} {:>8} {:>8} {:>10} {:>10}",
        "ms a POST, beside", "median", "p99", "max", "read", "KB"
    );
    for read in reads {
        row(addr, &read, large);
    }
    stop.stop();
    serving.join().expect("the server ends");
}

/// Measures appends to one conversation beside the longest reads of the same handle, of which some
/// are of another.
fn appends(store: &Store, large: Uuid, other: Uuid) {
    type Read<'a> = (&'a str, &'a (dyn Fn() + Sync));
    let all = ConversationQuery::default();
    let of = |query: ConversationQuery| {
        let list = store.conversations(&query).expect("listed");
        assert!(list.items.len() <= query.limit);
    };
    let two_fields = ConversationQuery {
        status: Some(ConversationStatus::Completed),
        project: Some("app-1".to_owned()),
        limit: 1,
        ..all.clone()
    };
    let below = ConversationQuery {
        workspace: Some("/home/me".to_owned()),
        ..all.clone()
    };
    let far = ConversationQuery {
        offset: count("DECKLOG_BENCH_CONVERSATIONS", tiny::size(300_000, 300)) / 2,
        order: Order::OldestFirst,
        ..all.clone()
    };
    let search = |text: &str| {
        let query = SearchQuery {
            text: text.to_owned(),
            ..SearchQuery::default()
        };
        store.search(&query).expect("searched");
    };
    let reads: [Read<'_>; 13] = [
        ("nothing", &|| std::thread::sleep(Duration::from_millis(1))),
        ("a busy thread", &|| {
            let began = Instant::now();
            while began.elapsed() < Duration::from_millis(1) {}
        }),
        ("conversations, the latest 100", &|| of(all.clone())),
        ("conversations by status and project", &|| {
            of(two_fields.clone());
        }),
        ("conversations of a directory", &|| of(below.clone())),
        ("conversations from the middle on", &|| of(far.clone())),
        ("session tree", &|| {
            store.session_tree(large).expect("drawn");
        }),
        ("event tree", &|| {
            store.event_tree(1).expect("drawn");
        }),
        ("search, nothing found", &|| search("no one said this")),
        ("first report", &|| {
            store.analytics().catch_up().expect("read");
        }),
        ("chain of thoughts", &|| {
            store.thoughts().verify_chain("task").expect("checked");
        }),
        ("last 100 lines", &|| {
            store.last_lines(100).expect("read");
        }),
        ("first lines of a follower", &|| {
            let mut follow = store.follow(0).expect("followed");
            follow.next_lines(Duration::ZERO).expect("read");
        }),
    ];
    println!(
        "{:<40} {:>8} {:>8} {:>8} {:>10}",
        "ms an append, beside", "median", "p99", "max", "read"
    );
    for (name, read) in reads {
        let runs = count("DECKLOG_BENCH_RUNS", tiny::size(5, 1));
        let runs: Vec<[f64; 4]> = (0..runs).map(|_| beside(store, other, read)).collect();
        let [median, p99, max, read] =
            [0, 1, 2, 3].map(|of| at(&sorted(runs.iter().map(|run| run[of]).collect()), 0.5));
        println!("{name:<40} {median:>8.3} {p99:>8.3} {max:>8.2} {read:>10.2}");
    }
}

/// Appends beside one read over and over: the median time, the 99th percentile and the longest; and
/// the median time of a read.
fn beside(store: &Store, conversation: Uuid, read: &(dyn Fn() + Sync)) -> [f64; 4] {
    let lasts = Duration::from_secs(count("DECKLOG_BENCH_SECONDS", tiny::size(3, 1)) as u64);
    let lasts = tiny::size(lasts, lasts / 20);
    let is_over = AtomicBool::new(false);
    let (appends, reads) = std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut times = Vec::new();
            while !is_over.load(Ordering::Relaxed) || times.is_empty() {
                let began = Instant::now();
                read();
                times.push(ms(began));
            }
            times
        });
        let (mut times, began) = (Vec::new(), Instant::now());
        while began.elapsed() < lasts || !reader.is_finished() {
            is_over.store(began.elapsed() >= lasts, Ordering::Relaxed);
            let message = ConversationMessage::new(conversation, Role::User, "What is 1 + 1?");
            let asked = Instant::now();
            store.record(message).expect("recorded");
            times.push(ms(asked));
            std::thread::sleep(Duration::from_micros(500));
        }
        (times, reader.join().expect("read"))
    });
    let (appends, reads) = (sorted(appends), sorted(reads));
    let [median, p99, max] = [0.5, 0.99, 1.0].map(|part| at(&appends, part));
    [median, p99, max, at(&reads, 0.5)]
}

/// Measures POSTs beside one read.
fn row(addr: SocketAddr, read: &str, conversation: Uuid) {
    let lasts = Duration::from_secs(count("DECKLOG_BENCH_SECONDS", tiny::size(3, 1)) as u64);
    let is_over = AtomicBool::new(false);
    let (posts, reads) = std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut connection = Connection::to(addr);
            let mut times = Vec::new();
            while !is_over.load(Ordering::Relaxed) && !read.is_empty() {
                let request = format!("GET {read} HTTP/1.1\r\nHost: {addr}\r\n\r\n");
                let began = Instant::now();
                let bytes = connection.ask(&request);
                times.push((ms(began), bytes));
            }
            times
        });
        let mut connection = Connection::to(addr);
        let body = r#"{"role":"user","content":"What is 1 + 1?"}"#;
        let request = format!(
            "POST /conversations/{conversation}/messages HTTP/1.1\r\nHost: {addr}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let (mut times, began) = (Vec::new(), Instant::now());
        while began.elapsed() < lasts || times.len() < 10 {
            let asked = Instant::now();
            connection.ask(&request);
            times.push(ms(asked));
            std::thread::sleep(Duration::from_micros(500));
        }
        is_over.store(true, Ordering::Relaxed);
        (times, reader.join().expect("read"))
    });
    let name = if read.is_empty() { "nothing" } else { read };
    let kilobytes = reads.last().map_or(0, |(_, bytes)| bytes / 1_000);
    let reads = sorted(reads.into_iter().map(|(time, _)| time).collect());
    let posts = sorted(posts);
    println!(
        "{name:<64} {:>8.2} {:>8.2} {:>8.2} {:>10.2} {kilobytes:>10}",
        at(&posts, 0.5),
        at(&posts, 0.99),
        at(&posts, 1.0),
        at(&reads, 0.5),
    );
}

fn ms(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}

fn sorted(mut times: Vec<f64>) -> Vec<f64> {
    times.sort_by(f64::total_cmp);
    times
}

fn at(times: &[f64], part: f64) -> f64 {
    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_sign_loss,
        reason = "there are few times, and the part is from 0 to 1"
    )]
    let place = (times.len() as f64 * part) as usize;
    let last = times.len().saturating_sub(1);
    times.get(place.min(last)).copied().unwrap_or(0.0)
}

struct Connection(BufReader<TcpStream>);

impl Connection {
    fn to(addr: SocketAddr) -> Connection {
        let stream = TcpStream::connect(addr).expect("connected");
        stream.set_nodelay(true).expect("set");
        Connection(BufReader::new(stream))
    }

    /// Sends a request and reads its answer; how long that is.
    fn ask(&mut self, request: &str) -> usize {
        let stream = self.0.get_mut();
        stream.write_all(request.as_bytes()).expect("sent");
        let (mut line, mut is_first, mut length) = (String::new(), true, 0);
        loop {
            line.clear();
            self.0.read_line(&mut line).expect("a head");
            assert!(
                !is_first || line.starts_with("HTTP/1.1 2"),
                "{request}{line}"
            );
            is_first = false;
            let header = line.trim().to_ascii_lowercase();
            if let Some(bytes) = header.strip_prefix("content-length:") {
                length = bytes.trim().parse().expect("a length");
            }
            if header.is_empty() {
                break;
            }
        }
        let mut left = length;
        let mut room = vec![0; 64 << 10];
        while left > 0 {
            let some = left.min(room.len());
            left -= self.0.read(&mut room[..some]).expect("a body");
        }
        length
    }
}

/// Makes conversations, each with a message, and one with many; events, thoughts. Returns the one
/// with many messages.
fn fill(store: &Store, conversations: usize) -> Uuid {
    let mut batch: Vec<Record> = Vec::new();
    let large = Uuid::from_u128(1 << 64);
    let mut add = |record: Option<Record>| {
        batch.extend(record.clone());
        if batch.len() >= 1_000 || record.is_none() {
            for answer in store
                .record_batch(std::mem::take(&mut batch))
                .expect("recorded")
            {
                answer.expect("taken");
            }
        }
    };
    for n in 0..conversations {
        let id = Uuid::from_u128(n as u128 + large.as_u128());
        let created_at = Timestamp::from_ms(DAY_1 + i64::try_from(n).unwrap_or_default() * 1_000)
            .expect("a time");
        let status = match n % 100 {
            0 => ConversationStatus::Error,
            1..50 => ConversationStatus::Completed,
            _ => ConversationStatus::Active,
        };
        let client = [Client::Cli, Client::Web, Client::Api][n % 3];
        let conversation = Conversation::new(id, client)
            .workspace(format!("/home/me/app-{}", n % 20))
            .project(format!("app-{}", n % 20))
            .user_id(format!("user-{}", n % 1_000))
            .session_id(format!("session-{n}"))
            .status(status)
            .created_at(created_at.clone())
            .updated_at(created_at.clone());
        add(Some(conversation.into()));
        let mut message = ConversationMessage::new(id, Role::Assistant, "2")
            .timestamp(created_at)
            .model_used("small-1");
        message.error = (n % 50 == 7).then(|| "timeout".to_owned());
        add(Some(message.into()));
    }
    for n in 0..conversations.min(10_000) {
        let text = "What is 1 + 1? ".repeat(20);
        let role = if n % 2 == 0 {
            Role::User
        } else {
            Role::Assistant
        };
        add(Some(ConversationMessage::new(large, role, text).into()));
    }
    // Few enough for their tree to fit an answer.
    for n in 0..(conversations / 3).min(30_000) {
        let (parent, event_type) = match n {
            0 => (None, event_type::AGENT_STARTED),
            _ => (Some(1), event_type::LLM_CALL_COMPLETED),
        };
        let at = DAY_1 + i64::try_from(n).unwrap_or_default();
        let event = Event::new(parent, event_type).created_at(at);
        add(Some(event.into()));
    }
    add(None);
    for n in 0..THOUGHTS.min(conversations) {
        let thought = NewThought {
            thought_type: ThoughtType::Decision,
            task_id: "task".to_owned(),
            agent_id: "agent".to_owned(),
            content: n.to_string(),
        };
        store.thoughts().create(thought).expect("recorded");
    }
    large
}
