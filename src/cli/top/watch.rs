//! What `decklog top` shows, kept up to date by following the log.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use decklog::analytics::{Analytics, AnalyticsQuery, TodayReport};
use decklog::lines::{Follow, LogLine};
use decklog::query::CallQuery;
use decklog::record::Day;
use decklog::uuid::Uuid;
use decklog::{CallStatus, Kind, Result, Store, Timestamp};
use serde::{Deserialize, Serialize};

/// Length of the history of rates, in seconds.
pub const HISTORY_SECONDS: usize = 60;
/// Number of seconds of which the records per second are the average.
const RATE_SECONDS: usize = 10;
/// Number of minutes in which the busiest conversations are counted.
pub const BUSY_MINUTES: usize = 10;
/// Number of lines before the start that are counted, if they are recent.
const LINES_BEFORE: usize = 1_000;
/// Age of the oldest errors, in milliseconds.
const ERRORS_MS: i64 = 24 * 60 * 60 * 1_000;
/// Minimum time between two reports, in milliseconds.
const REPORT_MS: i64 = 1_000;
/// Maximum number of rows of each list.
const ROWS_MAX: usize = 50;
/// Maximum number of characters of a text.
const TEXT_CHARS_MAX: usize = 300;

/// Everything that is shown at a time.
#[derive(Debug, Clone, Serialize)]
pub struct View {
    /// The store's path.
    pub store: String,
    /// Average number of records per second in the last ten seconds.
    pub records_per_second: f64,
    /// Tokens of the messages of the last minute.
    pub tokens_per_minute: u64,
    /// Records in each of the last sixty seconds, latest last.
    pub records: Vec<u64>,
    #[serde(flatten)]
    pub report: TodayReport,
    /// Calls without an outcome, latest first.
    pub running: Vec<Running>,
    /// Messages and calls that failed in the last 24 hours, latest first.
    pub errors: Vec<Failed>,
    /// Conversations with the most messages in the last ten minutes.
    pub busiest: Vec<Busy>,
}

#[derive(Debug, Clone, Serialize)]
pub struct Running {
    pub tool_name: String,
    pub started_at: i64,
    pub arguments: String,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Failed {
    pub at: i64,
    /// The model or the tool.
    pub what: String,
    pub error: String,
}

#[derive(Debug, Clone, Serialize)]
pub struct Busy {
    pub conversation_id: Uuid,
    pub title: String,
    pub messages: u64,
    pub tokens: u64,
}

/// The parts of a line that count.
#[derive(Debug, Deserialize)]
struct Counted {
    at: Option<i64>,
    conversation_id: Option<Uuid>,
    tokens_in: Option<u64>,
    tokens_out: Option<u64>,
}

/// Messages and tokens.
type Counts = (u64, u64);

/// Follows a log.
pub struct Watch {
    store: Store,
    analytics: Analytics,
    follow: Follow,
    /// Records and tokens by the second in which they came, earliest first.
    seconds: VecDeque<(i64, Counts)>,
    /// Messages and tokens of conversations by the minute in which they came, earliest first.
    minutes: VecDeque<(i64, HashMap<Uuid, Counts>)>,
    titles: HashMap<Uuid, String>,
    view: View,
    /// When the reports were made, and whether something came since that changes them.
    reported_at: i64,
    has_messages: bool,
    has_calls: bool,
}

impl Watch {
    pub fn new(store: &Store) -> Result<Watch> {
        let last = store.last_lines(LINES_BEFORE)?;
        let seq = last.last().map_or(0, |line| line.seq);
        let analytics = store.analytics();
        let mut watch = Watch {
            view: View {
                store: store.path().display().to_string(),
                records_per_second: 0.0,
                tokens_per_minute: 0,
                records: Vec::new(),
                report: analytics.today()?,
                running: Vec::new(),
                errors: Vec::new(),
                busiest: Vec::new(),
            },
            analytics,
            follow: store.follow(seq)?,
            store: store.clone(),
            seconds: VecDeque::new(),
            minutes: VecDeque::new(),
            titles: HashMap::new(),
            reported_at: i64::MIN,
            has_messages: true,
            has_calls: true,
        };
        // Of lines before the start, only their own time is known.
        let now = Timestamp::now().at();
        for line in &last {
            watch.count(line, None, now);
        }
        Ok(watch)
    }

    /// Waits up to `timeout` for new lines. Returns the current view.
    pub fn look(&mut self, timeout: Duration) -> Result<&View> {
        let lines = self.follow.next_lines(timeout)?;
        let now = Timestamp::now().at();
        for line in &lines {
            self.has_messages |= matches!(line.kind, Kind::Messages | Kind::Rollups);
            self.has_calls |= line.kind == Kind::ToolCalls;
            self.count(line, Some(now), now);
        }
        self.forget_before(now);
        self.set_rates(now);
        if now.saturating_sub(self.reported_at) >= REPORT_MS {
            self.reported_at = now;
            self.report(now)?;
        }
        Ok(&self.view)
    }

    /// Counts a line at the time at which it came, or else at its own.
    fn count(&mut self, line: &LogLine, came_at: Option<i64>, now: i64) {
        let is_message = line.kind == Kind::Messages;
        let counted = (came_at.is_none() || is_message)
            .then(|| serde_json::from_str::<Counted>(&line.text).ok())
            .flatten();
        let own = counted.as_ref().and_then(|it| it.at);
        let Some(at) = came_at.or(own.filter(|at| *at <= now)) else {
            return;
        };
        let tokens = counted.as_ref().filter(|_| is_message).map_or(0, |it| {
            let (tokens_in, tokens_out) = (it.tokens_in, it.tokens_out);
            tokens_in
                .unwrap_or(0)
                .saturating_add(tokens_out.unwrap_or(0))
        });
        let conversation = counted
            .filter(|_| is_message)
            .and_then(|it| it.conversation_id);
        let second = at.div_euclid(1_000);
        if let Some(counts) = slot(&mut self.seconds, second, HISTORY_SECONDS) {
            add(counts, tokens);
        }
        if let Some(id) = conversation {
            let minute = at.div_euclid(60_000);
            if let Some(counts) = slot(&mut self.minutes, minute, BUSY_MINUTES) {
                add(counts.entry(id).or_default(), tokens);
            }
        }
    }

    fn forget_before(&mut self, now: i64) {
        let first = now
            .div_euclid(1_000)
            .saturating_sub_unsigned(HISTORY_SECONDS as u64);
        while self.seconds.front().is_some_and(|(at, _)| *at <= first) {
            self.seconds.pop_front();
        }
        let first = now
            .div_euclid(60_000)
            .saturating_sub_unsigned(BUSY_MINUTES as u64);
        while self.minutes.front().is_some_and(|(at, _)| *at <= first) {
            self.minutes.pop_front();
        }
    }

    #[allow(clippy::cast_precision_loss)] // It is rounded when it is shown.
    fn set_rates(&mut self, now: i64) {
        let end = now.div_euclid(1_000);
        let mut records = vec![0; HISTORY_SECONDS];
        let mut tokens: u64 = 0;
        for (at, (count, more)) in &self.seconds {
            let age = usize::try_from(end.saturating_sub(*at)).unwrap_or(0);
            let place = HISTORY_SECONDS.checked_sub(age + 1);
            if let Some(bucket) = place.and_then(|place| records.get_mut(place)) {
                *bucket += count;
                tokens = tokens.saturating_add(*more);
            }
        }
        let latest: u64 = records.iter().rev().take(RATE_SECONDS).sum();
        self.view.records_per_second = latest as f64 / RATE_SECONDS as f64;
        self.view.tokens_per_minute = tokens;
        self.view.records = records;
    }

    /// Renews what is asked of the store, if it changed.
    fn report(&mut self, now: i64) -> Result<()> {
        let is_new_day = Day::of(now)? != self.view.report.day;
        if self.has_messages || is_new_day {
            self.view.report = self.analytics.today()?;
        }
        // Calls also end by their age.
        let running = self.store.running_calls(ROWS_MAX)?.into_iter();
        self.view.running = running
            .map(|call| Running {
                arguments: text(call.arguments_json.as_deref().unwrap_or_default()),
                tool_name: text(&call.tool_name),
                started_at: call.started_at.at,
            })
            .collect();
        if self.has_messages || self.has_calls {
            self.view.errors = self.errors(now)?;
        }
        self.view.busiest = self.busiest()?;
        (self.has_messages, self.has_calls) = (false, false);
        Ok(())
    }

    fn errors(&self, now: i64) -> Result<Vec<Failed>> {
        let since = now.saturating_sub(ERRORS_MS);
        let failed = CallQuery {
            status: Some(CallStatus::Failed),
            since: Some(since),
            limit: ROWS_MAX,
            ..CallQuery::default()
        };
        let calls = self.store.tool_calls(&failed)?.items.into_iter();
        let calls = calls.filter_map(|(request, done)| {
            let done = done?;
            let words = [done.error_kind.as_deref(), done.error_msg.as_deref()];
            let words: Vec<&str> = words.into_iter().flatten().collect();
            Some(Failed {
                at: done.ended_at.at,
                what: text(&request.tool_name),
                error: text(&words.join(": ")),
            })
        });
        let all = AnalyticsQuery {
            since: Some(Day::of(since)?),
            group: Some(Vec::new()),
            limit: Some(0),
            ..AnalyticsQuery::default()
        };
        let messages = self.analytics.errors(&all)?.samples.into_iter();
        let messages = messages.filter(|sample| sample.timestamp.at() >= since);
        let messages = messages.map(|sample| Failed {
            at: sample.timestamp.at(),
            what: text(sample.model_used.as_deref().unwrap_or("message")),
            error: text(&sample.error),
        });
        let mut errors: Vec<Failed> = calls.chain(messages).collect();
        errors.sort_by_key(|error| std::cmp::Reverse(error.at));
        errors.truncate(ROWS_MAX);
        Ok(errors)
    }

    fn busiest(&mut self) -> Result<Vec<Busy>> {
        let mut sums: HashMap<Uuid, Counts> = HashMap::new();
        for (id, (messages, tokens)) in self.minutes.iter().flat_map(|(_, of)| of) {
            let sum = sums.entry(*id).or_default();
            *sum = (sum.0 + messages, sum.1.saturating_add(*tokens));
        }
        let mut sums: Vec<(Uuid, Counts)> = sums.into_iter().collect();
        sums.sort_by_key(|(id, counts)| (std::cmp::Reverse(*counts), *id));
        sums.truncate(ROWS_MAX);
        self.titles
            .retain(|id, _| sums.iter().any(|(of, _)| of == id));
        let mut busiest = Vec::new();
        for (id, (messages, tokens)) in sums {
            let title = if let Some(title) = self.titles.get(&id) {
                title.clone()
            } else {
                let found = self.store.get_conversation(id)?;
                let title = found.map(|(found, _)| self.store.conversation_title(&found));
                let title = title.transpose()?.flatten();
                // The first prompt may come later.
                if let Some(title) = &title {
                    self.titles.insert(id, title.clone());
                }
                title.unwrap_or_else(|| id.to_string())
            };
            busiest.push(Busy {
                conversation_id: id,
                title,
                messages,
                tokens,
            });
        }
        Ok(busiest)
    }
}

/// The counts of a second or minute, which is usually the last one. `None` if it is so early that it
/// is not kept.
fn slot<T: Default>(slots: &mut VecDeque<(i64, T)>, at: i64, slots_max: usize) -> Option<&mut T> {
    let place = slots.partition_point(|(known, _)| *known < at);
    if slots.get(place).is_none_or(|(known, _)| *known != at) {
        if place == 0 && slots.len() >= slots_max {
            return None;
        }
        slots.insert(place, (at, T::default()));
        if slots.len() > slots_max {
            slots.pop_front();
        }
    }
    let place = slots.partition_point(|(known, _)| *known < at);
    slots.get_mut(place).map(|(_, counts)| counts)
}

fn add((records, sum): &mut Counts, tokens: u64) {
    *records += 1;
    *sum = sum.saturating_add(tokens);
}

/// The start of a text on one line; not escaped.
fn text(text: &str) -> String {
    decklog::human::one_line(text, TEXT_CHARS_MAX)
}
