//! The amount spent today and in the last hour, computed in little time: for the status line of an
//! agent.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::budgets::Budget;
use super::query::Bucket;
use crate::collections::{Message, messages_of_day_after, read_messages};
use crate::error::Result;
use crate::record::{Day, now, usd};
use crate::store::{CacheFile, Store};

/// Where the figures are kept from one call to the next.
const FILE: CacheFile = CacheFile {
    path: "cache/spending",
    header: concat!(
        "decklog spending 1, decklog ",
        env!("CARGO_PKG_VERSION"),
        "\n"
    ),
};

const MINUTE_MS: i64 = 60_000;
const HOUR_MINUTES: i64 = 60;
/// Number of messages to read before the time limit is checked.
const AT_A_TIME: usize = 32;

/// The amount spent so far.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct SpendingNow {
    /// Cost of the current UTC day, in US dollars, recorded or computed. `None` if no message has a
    /// cost.
    pub today_usd: Option<f64>,
    /// Cost of the last 60 minutes. In the first hour of a UTC day, only that of the day.
    pub last_hour_usd: Option<f64>,
    /// Whether the figures include all messages of the day. If not, the time limit was reached, and
    /// a later call continues.
    pub is_whole: bool,
    /// The budget of the day, if one is set.
    pub budget: Option<Budget>,
}

/// The figures of a day, up to a sequence number.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Kept {
    day: Option<Day>,
    prices: u64,
    through_seq: u64,
    nano_usd: u64,
    count: u64,
    /// The cost of each minute since the epoch. Old ones are removed.
    minutes: BTreeMap<i64, u64>,
}

impl Kept {
    fn add(&mut self, message: &Message) {
        self.through_seq = message.seq;
        let computed = message.counted.computed;
        let cost = message.counted.cost_nano_usd;
        let Some(nano_usd) = cost.or((computed.count > 0).then_some(computed.nano_usd)) else {
            return;
        };
        self.count = self.count.saturating_add(1);
        self.nano_usd = self.nano_usd.saturating_add(nano_usd);
        let minute = self.minutes.entry(message.at.div_euclid(MINUTE_MS));
        let sum = minute.or_default();
        *sum = sum.saturating_add(nano_usd);
    }
}

impl Store {
    /// The amount spent today and in the last hour. Reads only messages that were added since the
    /// last call, for about `time` at most.
    ///
    /// Unlike in reports, removed messages of the day stay in the figures until the day is over.
    ///
    /// ```
    /// # use decklog::{Client, Conversation, ConversationMessage, Role, Store};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let store = Store::open(dir.path().join("log"))?;
    /// let conversation = Conversation::new(uuid::Uuid::new_v4(), Client::Cli);
    /// let mut answer = ConversationMessage::new(conversation.id, Role::Assistant, "hello");
    /// answer.cost_usd = Some(0.25);
    /// store.record(conversation)?;
    /// store.record(answer)?;
    /// let spending = store.spending_now(std::time::Duration::from_secs(1))?;
    /// assert_eq!(spending.today_usd, Some(0.25));
    /// # Ok::<(), decklog::Error>(())
    /// ```
    ///
    /// # Errors
    /// Errors of reading the messages, the settings or the store's `prices.json`.
    pub fn spending_now(&self, time: Duration) -> Result<SpendingNow> {
        let begun = Instant::now();
        let inner = self.inner();
        let at = now();
        let today = Day::of(at)?;
        let prices = inner.prices()?.fingerprint;
        let (seqs, last_seq) = messages_of_day_after(inner, today, 0)?;
        let kept: Option<Kept> = FILE.load(inner.storage());
        // Numbers after the last one were taken by a power cut, and may be others' now.
        let is_of_now = |kept: &Kept| {
            kept.day == Some(today) && kept.prices == prices && kept.through_seq <= last_seq
        };
        let mut kept = kept.filter(is_of_now).unwrap_or_else(|| Kept {
            day: Some(today),
            prices,
            ..Kept::default()
        });
        let first = seqs.partition_point(|seq| *seq <= kept.through_seq);
        let new = seqs.get(first..).unwrap_or_default();
        let mut read = 0;
        for some in new.chunks(AT_A_TIME) {
            if read > 0 && begun.elapsed() >= time {
                break;
            }
            read_messages(inner, some, |message| kept.add(&message))?;
            // Removed messages are not read.
            kept.through_seq = some.last().copied().unwrap_or(kept.through_seq);
            read += some.len();
        }
        let since = at.div_euclid(MINUTE_MS) - HOUR_MINUTES;
        kept.minutes.retain(|minute, _| *minute > since);
        if read > 0 && inner.may_cache() {
            // If it cannot be saved, the next call reads these messages again.
            let _ = FILE.save_unsynced(inner.storage(), &kept);
        }
        let hour = kept.minutes.values().copied();
        let hour = hour.fold(0, u64::saturating_add);
        let today_usd = usd(kept.nano_usd, kept.count);
        let budgets = self.settings()?.budget;
        let of_day = budgets.of(today).find(|(it, ..)| *it == Bucket::Day);
        Ok(SpendingNow {
            today_usd,
            last_hour_usd: usd(hour, kept.count),
            is_whole: read == new.len(),
            budget: of_day.map(|(period, since, budget_usd)| Budget {
                period,
                since,
                budget_usd,
                spent_usd: today_usd.unwrap_or(0.0),
            }),
        })
    }
}
