//! What reports cost over many messages of 90 days, beside SQLite's GROUP BY over the same rows
//! with the index that suits it best; percentiles are not asked of SQLite. Also what it takes to
//! read the log first, to find that nothing is new, and to take in one message.
//!
//! `DECKLOG_BENCH_MESSAGES=1000000 cargo bench --bench analytics`

// What SQLite does here does not fail, and the numbers are small.
#![allow(clippy::expect_used)]
#![allow(
    clippy::cast_possible_wrap,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    clippy::items_after_statements,
    clippy::too_many_lines
)]

mod tiny;

use std::hint::black_box;
use std::time::{Duration, Instant};

use decklog::analytics::{Analytics, AnalyticsQuery, Bucket, Dimension};
use decklog::record::Day;
use decklog::{
    Client, Conversation, ConversationMessage, Record, Result, Role, Settings, Store, Timestamp,
};
use rusqlite::Connection;
use uuid::Uuid;

const DAYS: i64 = 90;
const DAY_MS: i64 = 86_400_000;
const ROUNDS: usize = 21;
const MODELS: [&str; 6] = ["big-2", "small-1", "local", "big-3", "vision", "old-1"];
const CONFIGS: [&str; 4] = ["default", "fast", "careful", "cheap"];
const MODES: [&str; 3] = ["single", "cascade", "vote"];
const TASKS: [&str; 8] = [
    "code", "chat", "edit", "plan", "search", "review", "test", "other",
];

struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    /// The first ones more often.
    fn skewed<'a>(&mut self, names: &[&'a str]) -> &'a str {
        let n = names.len() as u64;
        names[self.below(n).min(self.below(n)) as usize]
    }
}

fn main() -> Result<()> {
    let count = std::env::var("DECKLOG_BENCH_MESSAGES").ok();
    let count = count
        .and_then(|text| text.parse().ok())
        .unwrap_or(tiny::size(100_000, 1_000));
    let dir = std::env::temp_dir().join(format!("decklog-analytics-{}", Uuid::new_v4()));
    let measured = measure(&dir.join("log"), count);
    let _ = std::fs::remove_dir_all(&dir);
    measured
}

fn measure(path: &std::path::Path, count: u64) -> Result<()> {
    let mut settings = Settings::default();
    settings.privacy.redact_secrets = false;
    let store = Store::options()
        .settings(settings)
        .upkeep(false)
        .open(path)?;
    let lite = Connection::open_in_memory().expect("SQLite opens");
    let first = (Timestamp::now().at() / DAY_MS - DAYS + 1) * DAY_MS;
    fill(&store, &lite, first, count)?;

    let before = resident_kb();
    let analytics = store.analytics();
    let began = Instant::now();
    analytics.catch_up()?;
    println!(
        "{count} messages: read in {:.2} s",
        began.elapsed().as_secs_f64()
    );
    let nothing = median(|| analytics.catch_up())?;
    println!("to find nothing new: {:.1} µs", nothing.as_secs_f64() * 1e6);
    println!("report                         ms (first)   SQLite ms    ratio");

    let all = AnalyticsQuery {
        since: Day::of(first).ok(),
        ..AnalyticsQuery::default()
    };
    let full = AnalyticsQuery {
        group: Some(Dimension::ALL.to_vec()),
        ..all.clone()
    };
    let weekly = AnalyticsQuery {
        bucket: Some(Bucket::Week),
        ..all.clone()
    };
    let recent = AnalyticsQuery::default();
    let week = format!("at >= {}", first + (DAYS - 7) * DAY_MS);
    let today = format!("at >= {}", first + (DAYS - 1) * DAY_MS);
    let sums = "count(*), sum(is_request), sum(tokens_in), sum(tokens_out)";
    let model_sums =
        "count(*), avg(latency_ms), sum(tokens_in), sum(tokens_out), avg(context), sum(is_error)";
    type Ask<'a> = Box<dyn Fn(&Analytics) -> Result<()> + 'a>;
    let reports: Vec<(&str, Ask<'_>, String)> = vec![
        (
            "usage",
            Box::new(|it| it.usage(&all).map(drop)),
            format!("select day, model, config, {sums} from m group by day, model, config"),
        ),
        (
            "usage, by week",
            Box::new(|it| it.usage(&weekly).map(drop)),
            format!("select day / 7, model, config, {sums} from m group by 1, 2, 3"),
        ),
        (
            "models, 7 days",
            Box::new(|it| it.models(&recent).map(drop)),
            format!(
                "select model, config, {model_sums} from m where is_request and {week} group by 1, 2"
            ),
        ),
        (
            "models",
            Box::new(|it| it.models(&all).map(drop)),
            format!("select model, config, {model_sums} from m where is_request group by 1, 2"),
        ),
        (
            "models, by all four",
            Box::new(|it| it.models(&full).map(drop)),
            format!(
                "select model, config, mode, task, {model_sums} from m where is_request group by 1, 2, 3, 4"
            ),
        ),
        (
            "errors",
            Box::new(|it| it.errors(&all).map(drop)),
            "select model, error_type, count(*) from m where is_error group by 1, 2".into(),
        ),
        (
            "latency",
            Box::new(|it| it.latency(&all).map(drop)),
            "select mode, count(*), avg(latency_ms) from m where is_request group by 1".into(),
        ),
        (
            "tasks",
            Box::new(|it| it.tasks(&all).map(drop)),
            "select task, count(*) from m where is_request group by 1".into(),
        ),
        (
            "context",
            Box::new(|it| it.context(&all).map(drop)),
            "select model, count(context), avg(context) from m where is_request group by 1".into(),
        ),
        (
            "compression",
            Box::new(|it| it.compression(&all).map(drop)),
            "select model, count(*), sum(compressed) from m where is_request group by 1".into(),
        ),
        (
            "active",
            Box::new(|it| it.active(&all).map(drop)),
            "select day, count(distinct conversation) from m group by 1".into(),
        ),
        (
            "active, by week",
            Box::new(|it| it.active(&weekly).map(drop)),
            "select day / 7, count(distinct conversation) from m group by 1".into(),
        ),
        (
            "dashboard, today",
            Box::new(|it| it.dashboard(&recent).map(drop)),
            format!("select model, {model_sums} from m where {today} group by 1"),
        ),
        (
            "dashboard",
            Box::new(|it| it.dashboard(&all).map(drop)),
            format!("select model, {model_sums} from m group by 1"),
        ),
    ];
    for (name, ask, sql) in &reports {
        let began = Instant::now();
        ask(&analytics)?;
        let first = began.elapsed();
        let ours = median(|| ask(&analytics))?;
        let theirs = lite_median(&lite, sql);
        println!(
            "{name:<24} {:>10.3} {:>9.3} {:>11.1} {:>7.0}×",
            millis(ours),
            millis(first),
            millis(theirs),
            theirs.as_secs_f64() / ours.as_secs_f64()
        );
    }
    let mut rng = Rng(7);
    let last = first + (DAYS - 1) * DAY_MS;
    let id = Uuid::from_u128(7);
    store.record(conversation(id, last))?;
    let after_one = median_of(tiny::size(ROUNDS, 3), || {
        store.record(message(&mut rng, id, last))?;
        let began = Instant::now();
        analytics.dashboard(&recent)?;
        Ok(began.elapsed())
    })?;
    println!(
        "dashboard after one more message: {:.3} ms",
        millis(after_one)
    );
    println!(
        "kept in memory, about: {} MB",
        (resident_kb().saturating_sub(before)) / 1024
    );
    black_box(analytics);
    Ok(())
}

fn conversation(id: Uuid, at: i64) -> Conversation {
    let at = Timestamp::from_ms(at).expect("a time");
    Conversation::new(id, Client::Api)
        .created_at(at.clone())
        .updated_at(at)
}

/// Every other message is an answer, in its group.
fn message(rng: &mut Rng, conversation_id: Uuid, at: i64) -> ConversationMessage {
    let role = if rng.below(2) == 0 {
        Role::User
    } else {
        Role::Assistant
    };
    let text = "What is said here is of no concern to any sum.";
    let mut message = ConversationMessage::new(conversation_id, role, text)
        .id(Uuid::from_u64_pair(rng.next(), rng.next()))
        .timestamp(Timestamp::from_ms(at).expect("a time"));
    if role == Role::Assistant {
        message.model_used = Some(rng.skewed(&MODELS).into());
        message.config_used = Some(rng.skewed(&CONFIGS).into());
        message.orchestration_mode = Some(rng.skewed(&MODES).into());
        message.task_type = Some(rng.skewed(&TASKS).into());
        message.tokens_in = Some(rng.below(8_000) as i64);
        message.tokens_out = Some(rng.below(2_000) as i64);
        message.latency_ms = Some((200 + (rng.next() >> (48 + rng.below(8)))) as i64);
        message.context_utilization = Some(rng.below(1_000) as f64 / 1_000.0);
        message.compression_applied = Some(rng.below(10) == 0);
        if rng.below(25) == 0 {
            message.error = Some("it failed".into());
            message.error_type = Some(rng.skewed(&["timeout", "refused", "quota"]).into());
        }
    }
    message
}

fn fill(store: &Store, lite: &Connection, first: i64, count: u64) -> Result<()> {
    lite.execute_batch(
        "create table m (at integer, day integer, conversation integer, model text, config text,
            mode text, task text, is_request integer, tokens_in integer, tokens_out integer,
            latency_ms integer, context real, compressed integer, is_error integer, error_type text)",
    )
    .expect("SQLite makes a table");
    let mut rng = Rng(42);
    let mut batch: Vec<Record> = Vec::new();
    lite.execute_batch("begin").expect("SQLite begins");
    let mut insert = lite
        .prepare("insert into m values (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)")
        .expect("SQLite prepares");
    let mut talk = (Uuid::nil(), 0, 0);
    for nth in 0..count {
        if nth % 20 == 0 {
            // A conversation is held within a day, most of them.
            let id = Uuid::from_u64_pair(rng.next(), rng.next());
            let begun = first + rng.below((DAYS * DAY_MS) as u64) as i64;
            talk = (id, begun, nth);
            batch.push(conversation(id, begun).into());
        }
        let (id, begun, number) = talk;
        let end = first + DAYS * DAY_MS - 1;
        let at = (begun + rng.below(7_200_000) as i64).min(end);
        let one = message(&mut rng, id, at);
        insert
            .execute(rusqlite::params![
                at,
                at / DAY_MS,
                number as i64,
                one.model_used,
                one.config_used,
                one.orchestration_mode,
                one.task_type,
                one.role == Role::Assistant,
                one.tokens_in,
                one.tokens_out,
                one.latency_ms,
                one.context_utilization,
                one.compression_applied,
                one.error.is_some(),
                one.error_type
            ])
            .expect("SQLite inserts");
        batch.push(one.into());
        if batch.len() >= 1_000 || nth + 1 == count {
            for answer in store.record_batch(std::mem::take(&mut batch))? {
                answer?;
            }
        }
    }
    drop(insert);
    // Each covers what the queries beside it read.
    lite.execute_batch(
        "commit;
         create index by_day on m (day, model, config, is_request, tokens_in, tokens_out);
         create index by_at on m (at, is_request, model, config, latency_ms, tokens_in, tokens_out, context, is_error);
         create index by_model on m (is_request, model, config, mode, task, latency_ms, tokens_in, tokens_out, context, is_error, compressed);
         create index by_mode on m (is_request, mode, latency_ms);
         create index by_task on m (is_request, task);
         create index by_error on m (is_error, model, error_type);
         create index by_talk on m (day, conversation);
         analyze;",
    )
    .expect("SQLite makes indexes");
    Ok(())
}

fn lite_median(lite: &Connection, sql: &str) -> Duration {
    let mut query = lite.prepare(sql).expect("SQLite prepares");
    let mut times: Vec<Duration> = (0..3)
        .map(|_| {
            let began = Instant::now();
            let mut rows = query.query([]).expect("SQLite asks");
            while let Some(row) = rows.next().expect("SQLite answers") {
                black_box(row.get_ref(0).expect("a column"));
            }
            began.elapsed()
        })
        .collect();
    times.sort_unstable();
    times[1]
}

fn median(mut one: impl FnMut() -> Result<()>) -> Result<Duration> {
    median_of(tiny::size(ROUNDS, 3), || {
        let began = Instant::now();
        one()?;
        Ok(began.elapsed())
    })
}

fn median_of(rounds: usize, one: impl FnMut() -> Result<Duration>) -> Result<Duration> {
    let times: Result<Vec<Duration>> = std::iter::repeat_with(one).take(rounds).collect();
    let mut times = times?;
    times.sort_unstable();
    Ok(times[rounds / 2])
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// What the process has in memory; 0 where the system does not tell.
fn resident_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok())
        .unwrap_or(0)
}
