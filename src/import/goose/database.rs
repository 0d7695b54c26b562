//! The database of Goose.

use std::collections::BTreeSet;

use rusqlite::Row;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;
use xxhash_rust::xxh3::xxh3_64;

use super::FORMAT;
use super::content::fill;
use crate::import::agent::Whole;
use crate::import::database::{Database, number, real, text};
use crate::import::facts::{Facts, Tokens};
use crate::import::heading::Origin;
use crate::import::ids::foreign_id;
use crate::import::step::{Step, Thread};
use crate::record::{Role, now};

/// After this time, the sums of a session are taken for its last.
const LEFT_MS: i64 = 86_400_000;
/// After this time, the answer is written of which the tokens are.
const LATE_MS: i64 = 60_000;

/// How far the database was read. The row numbers are never given again.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Mark {
    message: i64,
    usage: i64,
    /// The sessions of which the sums are still to come.
    open: BTreeSet<String>,
}

struct Session {
    id: String,
    title: Option<String>,
    model: Option<String>,
    thread: Thread,
    updated: Option<i64>,
    sums: (Option<Tokens>, Option<f64>),
}

struct Message {
    id: Option<String>,
    role: String,
    json: String,
    at: i64,
    metadata: Option<String>,
}

struct Usage {
    row: i64,
    at: i64,
    model: Option<String>,
    tokens: Option<Tokens>,
    cost: Option<f64>,
}

pub(super) fn read(whole: &mut Whole<'_, '_>) -> Result<(), String> {
    let database = Database::open(whole.path)?;
    if !database.has_table("sessions")? || !database.has_table("messages")? {
        return Err("not a database of Goose: it has no table of sessions".to_owned());
    }
    let has_ledger = database.has_table("usage_ledger")?;
    let before = whole.cursor.take();
    let known: Option<Mark> = before
        .as_deref()
        .and_then(|cursor| serde_json::from_str(cursor).ok());
    let mut mark = Mark {
        message: last(&database, "messages")?,
        usage: if has_ledger {
            last(&database, "usage_ledger")?
        } else {
            0
        },
        open: BTreeSet::new(),
    };
    // Fewer rows than before: it is another database.
    let known = known.filter(|it| it.message <= mark.message && it.usage <= mark.usage);
    let changed = match &known {
        Some(known) => Some(changed(&database, known, has_ledger)?),
        None => None,
    };
    let mut line = 0;
    for session in database.rows("SELECT * FROM sessions ORDER BY id", &[], session)? {
        let is_changed = |changed: &BTreeSet<String>| changed.contains(&session.id);
        if !changed.as_ref().is_none_or(is_changed) {
            continue;
        }
        let messages = messages(&database, &session.id)?;
        let usages = if has_ledger {
            usages(&database, &session.id)?
        } else {
            Vec::new()
        };
        if database.has_changed() {
            whole.unfinished();
            whole.cursor = before;
            return Ok(());
        }
        let id = session.id.clone();
        if !hand_over(whole, &mut line, session, messages, usages) {
            mark.open.insert(id);
            whole.unfinished();
        }
        if whole.is_stopped() {
            return Ok(());
        }
    }
    whole.cursor = serde_json::to_string(&mark).ok();
    Ok(())
}

fn last(database: &Database, table: &str) -> Result<i64, String> {
    let query = format!("SELECT max(id) AS id FROM {table}");
    let rows = database.rows(&query, &[], |row| number(row, "id"))?;
    Ok(rows.into_iter().flatten().next().unwrap_or(0))
}

/// The sessions that have changed since.
fn changed(
    database: &Database,
    known: &Mark,
    has_ledger: bool,
) -> Result<BTreeSet<String>, String> {
    let mut changed = known.open.clone();
    let tables = [("messages", known.message), ("usage_ledger", known.usage)];
    for (table, row) in tables.into_iter().take(1 + usize::from(has_ledger)) {
        let query = format!("SELECT DISTINCT session_id FROM {table} WHERE id > ?1");
        let ids = database.rows(&query, &[&row], |row| text(row, "session_id"))?;
        changed.extend(ids.into_iter().flatten());
    }
    Ok(changed)
}

fn session(row: &Row<'_>) -> Session {
    let id = text(row, "id").unwrap_or_default();
    let mut thread = Thread::new(FORMAT, &id);
    thread.cwd = text(row, "working_dir").filter(|path| !path.is_empty());
    thread.vendor = text(row, "provider_name").filter(|name| !name.is_empty());
    let parent = text(row, "parent_session_id").filter(|parent| !parent.is_empty());
    thread.parent = parent.map(|parent| foreign_id("goose:session", &parent));
    let config = text(row, "model_config_json");
    let config = config.and_then(|json| serde_json::from_str::<Value>(&json).ok());
    let model = config.and_then(|it| Some(it.get("model_name")?.as_str()?.to_owned()));
    let titles = [text(row, "name"), text(row, "description")];
    let sums = Tokens {
        input: count(row, "accumulated_input_tokens"),
        output: count(row, "accumulated_output_tokens"),
        cache_read: count(row, "accumulated_cache_read_tokens"),
        cache_write: count(row, "accumulated_cache_write_tokens"),
        ..Tokens::default()
    };
    Session {
        id,
        title: titles.into_iter().flatten().find(|title| !title.is_empty()),
        model,
        thread,
        updated: text(row, "updated_at").and_then(|at| time_of(&at)),
        sums: (
            with_cache(sums, number(row, "accumulated_total_tokens")),
            real(row, "accumulated_cost").filter(|cost| *cost > 0.0),
        ),
    }
}

fn count(row: &Row<'_>, column: &str) -> u64 {
    let count = number(row, column).and_then(|count| u64::try_from(count).ok());
    count.unwrap_or(0)
}

/// The tokens with those of the cache in the input. Where the total shows that they are in it
/// already, they are not added. `None` without tokens.
fn with_cache(mut tokens: Tokens, total: Option<i64>) -> Option<Tokens> {
    let total = total.and_then(|total| u64::try_from(total).ok());
    let cached = tokens.cache_read.saturating_add(tokens.cache_write);
    let is_within = total.is_some_and(|total| {
        total
            < tokens
                .input
                .saturating_add(tokens.output)
                .saturating_add(cached)
    });
    if !is_within || tokens.input < cached {
        tokens.input = tokens.input.saturating_add(cached);
    }
    (tokens != Tokens::default()).then_some(tokens)
}

/// Epoch milliseconds of a time as SQLite writes it, which is UTC.
fn time_of(text: &str) -> Option<i64> {
    let text = text.trim();
    let parsed = chrono::NaiveDateTime::parse_from_str(text, "%Y-%m-%d %H:%M:%S%.f");
    let time = parsed.map(|time| time.and_utc());
    let time = time.or_else(|_| text.parse::<chrono::DateTime<chrono::Utc>>());
    time.ok().map(|time| time.timestamp_millis())
}

/// Epoch milliseconds. Goose writes seconds; versions in between wrote milliseconds.
fn ms(at: i64) -> i64 {
    if at.abs() > 100_000_000_000 {
        at
    } else {
        at.saturating_mul(1000)
    }
}

fn messages(database: &Database, session: &str) -> Result<Vec<Message>, String> {
    let query = "SELECT * FROM messages WHERE session_id = ?1 ORDER BY id";
    database.rows(query, &[&session], |row| Message {
        id: text(row, "message_id").filter(|id| !id.is_empty()),
        role: text(row, "role").unwrap_or_default(),
        json: text(row, "content_json").unwrap_or_default(),
        at: ms(number(row, "created_timestamp").unwrap_or(0)),
        metadata: text(row, "metadata_json"),
    })
}

fn usages(database: &Database, session: &str) -> Result<Vec<Usage>, String> {
    let query = "SELECT * FROM usage_ledger WHERE session_id = ?1 ORDER BY id";
    database.rows(query, &[&session], |row| {
        let tokens = Tokens {
            input: count(row, "input_tokens"),
            output: count(row, "output_tokens"),
            cache_read: count(row, "cache_read_tokens"),
            cache_write: count(row, "cache_write_tokens"),
            ..Tokens::default()
        };
        Usage {
            row: number(row, "id").unwrap_or(0),
            at: ms(number(row, "created_timestamp").unwrap_or(0)),
            model: text(row, "model").filter(|model| !model.is_empty()),
            tokens: with_cache(tokens, number(row, "total_tokens")),
            cost: real(row, "cost").filter(|cost| *cost > 0.0),
        }
    })
}

/// Hands over a session. Returns whether its sums are not still to come.
fn hand_over(
    whole: &mut Whole<'_, '_>,
    line: &mut u64,
    session: Session,
    messages: Vec<Message>,
    usages: Vec<Usage>,
) -> bool {
    whole.begin_session();
    let mut thread = session.thread;
    let title = session.title.as_deref();
    let heading = Facts {
        headings: title
            .and_then(|title| thread.titled(Origin::Model, title))
            .into_iter()
            .collect(),
        ..Facts::default()
    };
    *line += 1;
    whole.take(*line, vec![heading]);
    let mut answers = Vec::new();
    for message in messages {
        *line += 1;
        match say(
            whole,
            *line,
            &mut thread,
            &message,
            session.model.as_deref(),
        ) {
            Ok(answer) => answers.extend(answer.map(|id| (message.at, id))),
            Err(reason) => whole.broken(*line, format!("session {}: {reason}", session.id)),
        }
    }
    let has_ledger = !usages.is_empty();
    for usage in usages {
        // The message of the answer may be written after its tokens.
        if now().saturating_sub(usage.at) <= LATE_MS {
            return false;
        }
        *line += 1;
        let key = format!("usage:{}", usage.row);
        let mut step = Step::new(thread.key(FORMAT, &key), usage.at, Role::Assistant);
        let answer = answers.iter().rfind(|(at, _)| *at <= usage.at);
        step.part_of = answer.map(|(_, id)| *id);
        step.model = usage.model.or_else(|| session.model.clone());
        step.tokens = usage.tokens;
        step.cost_usd = usage.cost;
        take(whole, *line, &mut thread, step);
    }
    let (tokens, cost) = session.sums;
    let Some(tokens) = tokens.filter(|_| !has_ledger) else {
        return true;
    };
    let Some(at) = session.updated else {
        return true;
    };
    if now().saturating_sub(at) <= LEFT_MS {
        return false;
    }
    *line += 1;
    let mut step = Step::new(thread.key(FORMAT, "sums"), at, Role::Assistant);
    step.model = session.model;
    step.tokens = Some(tokens);
    step.cost_usd = cost;
    take(whole, *line, &mut thread, step);
    true
}

fn take(whole: &mut Whole<'_, '_>, line: u64, thread: &mut Thread, step: Step) {
    match thread.facts(FORMAT, step) {
        Ok(facts) => whole.take(line, vec![facts]),
        Err(reason) => whole.broken(line, reason),
    }
}

fn say(
    whole: &mut Whole<'_, '_>,
    line: u64,
    thread: &mut Thread,
    message: &Message,
    model: Option<&str>,
) -> Result<Option<Uuid>, String> {
    let role = match message.role.as_str() {
        "user" => Role::User,
        "assistant" => Role::Assistant,
        role => {
            whole.take(line, vec![Facts::not_understood(format!("message.{role}"))]);
            return Ok(None);
        }
    };
    let hash = xxh3_64(message.json.as_bytes());
    let id = message.id.clone().unwrap_or_else(|| message.at.to_string());
    let key = format!("{id}:{hash:016x}");
    let mut step = Step::new(thread.key(FORMAT, &key), message.at, role);
    let results = fill(&mut step, &message.json)?;
    // Only the model sees it.
    let metadata = message.metadata.as_deref();
    let metadata = metadata.and_then(|json| serde_json::from_str::<Value>(json).ok());
    let is_hidden = metadata.is_some_and(|it| it.get("userVisible") == Some(&Value::Bool(false)));
    step.is_harness = role == Role::User && is_hidden;
    if role == Role::Assistant {
        step.model = model.map(str::to_owned);
    }
    let answer = (role == Role::Assistant).then_some(step.id);
    let has_words = !step.texts.is_empty() || !step.calls.is_empty() || !step.reasoning.is_empty();
    if has_words || results.is_empty() || !step.others.is_empty() {
        take(whole, line, thread, step);
    }
    for result in results {
        let key = format!("{key}:{}", result.call_id);
        let mut step = Step::new(thread.key(FORMAT, &key), message.at, Role::Tool);
        step.result = Some(result);
        take(whole, line, thread, step);
    }
    Ok(answer)
}
