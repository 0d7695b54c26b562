//! Reports on what projects and conversations used. Unlike other reports, they are only of messages
//! in the log, because a rollup does not have the sums of each conversation.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::Analytics;
use super::cost::CostSums;
use super::query::{AnalyticsQuery, Defaults, Scope, SpendSort};
use super::rows::Costs;
use crate::collections::{Message, projects_of};
use crate::error::Result;
use crate::record::{Computed, Counted, Tally, is_default};

/// The sums of some messages of a conversation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "[u64; 13]", into = "[u64; 13]")]
pub(super) struct Spent([u64; 13]);

/// The place of the number of messages that record a cost.
const COST_COUNT: usize = 8;
/// The place of the number of messages whose cost was computed.
const COMPUTED_COUNT: usize = 11;

impl From<[u64; 13]> for Spent {
    fn from(sums: [u64; 13]) -> Spent {
        Spent(sums)
    }
}

impl From<Spent> for [u64; 13] {
    fn from(spent: Spent) -> [u64; 13] {
        spent.0
    }
}

/// What the conversations of a day used, by model and git branch.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct DaySpent {
    /// Numbers of models and branches, from 1; 0 is none.
    names: BTreeMap<String, u32>,
    pub conversations: HashMap<Uuid, Vec<PartSpent>>,
}

/// What a conversation used of a model on a branch.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct PartSpent {
    pub model: u32,
    pub branch: u32,
    pub spent: Spent,
}

impl DaySpent {
    pub(super) fn add(&mut self, message: &Message) {
        let model = self.number(message.group[0].as_deref());
        let branch = self.number(message.branch.as_deref());
        let parts = self.conversations.entry(message.conversation).or_default();
        // A conversation has few parts, and the last one is usually meant.
        let mut found = parts.iter_mut().rev();
        let spent = Spent::of(&message.counted);
        match found.find(|part| (part.model, part.branch) == (model, branch)) {
            Some(part) => part.spent.add(&spent),
            None => parts.push(PartSpent {
                model,
                branch,
                spent,
            }),
        }
    }

    fn number(&mut self, name: Option<&str>) -> u32 {
        let Some(name) = name else { return 0 };
        if let Some(number) = self.names.get(name) {
            return *number;
        }
        let number = self.names.len() as u32 + 1;
        self.names.insert(name.to_owned(), number);
        number
    }

    /// The names by their numbers.
    pub(super) fn names(&self) -> Vec<Option<&str>> {
        let mut names = vec![None; self.names.len() + 1];
        for (name, number) in &self.names {
            if let Some(place) = names.get_mut(*number as usize) {
                *place = Some(&**name);
            }
        }
        names
    }
}

impl Spent {
    pub(super) fn of(message: &Counted) -> Spent {
        Spent([
            1,
            message.tokens_in,
            message.tokens_out,
            message.tokens_cache_write,
            message.tokens_cache_write_1h,
            message.tokens_cache_read,
            message.tokens_reasoning,
            message.cost_nano_usd.unwrap_or(0),
            u64::from(message.cost_nano_usd.is_some()),
            u64::from(message.is_error),
            message.computed.nano_usd,
            message.computed.count,
            message.computed.unpriced,
        ])
    }

    pub(super) fn add(&mut self, other: &Spent) {
        for (sum, more) in self.0.iter_mut().zip(other.0) {
            *sum = sum.saturating_add(more);
        }
    }

    /// The sums of a group, in all roles.
    pub(super) fn of_tally(tally: &Tally) -> Spent {
        let Tally { all, computed, .. } = tally;
        Spent([
            tally.messages,
            all.tokens_in,
            all.tokens_out,
            all.tokens_cache_write,
            all.tokens_cache_write_1h,
            all.tokens_cache_read,
            all.tokens_reasoning,
            all.cost_nano_usd,
            all.cost_count,
            all.errors,
            computed.nano_usd,
            computed.count,
            computed.unpriced,
        ])
    }

    /// Equal shares of these sums; the first have what is left over.
    pub(super) fn shares(self, count: u64) -> impl Iterator<Item = Spent> {
        let count = count.max(1);
        (0..count).map(move |nth| {
            let mut share = self.0.map(|sum| sum / count + u64::from(nth < sum % count));
            // If they have a cost together, each has one.
            for place in [COST_COUNT, COMPUTED_COUNT] {
                share[place] = share[place].max(self.0[place].min(1));
            }
            Spent(share)
        })
    }

    /// Number of messages without a price.
    pub(super) fn unpriced(&self) -> u64 {
        self.0[12]
    }

    /// The greatest cost comes first.
    pub(super) fn by_cost(&self) -> Reverse<(u64, u64)> {
        self.order(SpendSort::Cost)
    }

    pub(super) fn costs(self) -> CostSums {
        let sums = self.sums(0);
        CostSums {
            messages: sums.messages,
            tokens_in: sums.tokens_in,
            tokens_input: sums.tokens_input,
            tokens_cache_write: sums.tokens_cache_write,
            tokens_cache_write_1h: sums.tokens_cache_write_1h,
            tokens_cache_read: sums.tokens_cache_read,
            tokens_out: sums.tokens_out,
            tokens_reasoning: sums.tokens_reasoning,
            cost_usd: sums.cost_usd,
            cost_computed_usd: sums.cost_computed_usd,
            unpriced: sums.unpriced,
        }
    }

    /// The greatest comes first.
    fn order(&self, sort: SpendSort) -> Reverse<(u64, u64)> {
        let [
            _,
            tokens_in,
            tokens_out,
            _,
            _,
            _,
            _,
            nano_usd,
            _,
            _,
            computed,
            ..,
        ] = self.0;
        let nano_usd = nano_usd.saturating_add(computed);
        let tokens = tokens_in.saturating_add(tokens_out);
        Reverse(match sort {
            SpendSort::Cost => (nano_usd, tokens),
            SpendSort::Tokens => (tokens, nano_usd),
        })
    }

    pub(super) fn sums(self, conversations: u64) -> SpendSums {
        let [
            messages,
            tokens_in,
            tokens_out,
            write,
            hour,
            read,
            reasoning,
            nano_usd,
            cost_count,
            errors,
            computed_nano_usd,
            computed_count,
            unpriced,
        ] = self.0;
        let costs = Costs {
            recorded_nano_usd: nano_usd,
            recorded: cost_count,
            computed: Computed {
                nano_usd: computed_nano_usd,
                count: computed_count,
                unpriced,
            },
        };
        SpendSums {
            conversations,
            messages,
            tokens_in,
            tokens_input: tokens_in.saturating_sub(write.saturating_add(read)),
            tokens_cache_write: write,
            tokens_cache_write_1h: hour,
            tokens_cache_read: read,
            tokens_out,
            tokens_reasoning: reasoning,
            cost_usd: costs.usd(),
            cost_computed_usd: costs.computed_usd(),
            unpriced,
            errors,
        }
    }
}

/// What conversations used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "wire", derive(utoipa::ToSchema))]
pub struct SpendSums {
    /// Number of distinct conversations with a message in these days.
    pub conversations: u64,
    /// Number of messages, in any role.
    pub messages: u64,
    /// Prompt tokens.
    pub tokens_in: u64,
    /// The part of `tokens_in` that was neither written to a cache nor read from one.
    pub tokens_input: u64,
    /// The part of `tokens_in` that was written to a cache.
    pub tokens_cache_write: u64,
    /// The part of `tokens_cache_write` that is kept for one hour.
    pub tokens_cache_write_1h: u64,
    /// The part of `tokens_in` that was read from a cache.
    pub tokens_cache_read: u64,
    /// Answer tokens.
    pub tokens_out: u64,
    /// The part of `tokens_out` used for reasoning.
    pub tokens_reasoning: u64,
    /// Cost in US dollars. Absent if no message has a cost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// The part of `cost_usd` that was computed from the price table, for messages that record no
    /// cost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_computed_usd: Option<f64>,
    /// Number of messages with tokens, without a recorded cost and without a price of their model.
    /// Their cost is not in `cost_usd`.
    #[serde(skip_serializing_if = "is_default")]
    pub unpriced: u64,
    /// Number of messages with an error, in any role.
    pub errors: u64,
}

/// What the conversations of a project used.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "wire", derive(utoipa::ToSchema))]
pub struct ProjectRow {
    /// The project. Absent for conversations without a project.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// The sums of its conversations.
    #[serde(flatten)]
    pub sums: SpendSums,
}

/// What a conversation used.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "wire", derive(utoipa::ToSchema))]
pub struct SessionRow {
    /// The conversation's id.
    pub conversation_id: Uuid,
    /// Its title, else the start of its first prompt. Absent if it has neither.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Its project.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// The sums of its messages in these days.
    #[serde(flatten)]
    pub sums: SpendSums,
}

macro_rules! reports {
    ($($(#[$doc:meta])* $report:ident of $row:ident;)+) => { $(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Serialize)]
        #[cfg_attr(feature = "wire", derive(utoipa::ToSchema))]
        pub struct $report {
            /// The query of the report, with its defaults.
            pub scope: Scope,
            /// The order of the rows.
            pub sort: SpendSort,
            /// The rows, in this order.
            pub rows: Vec<$row>,
            /// Number of rows without the limit.
            pub row_count: usize,
            /// The totals of all rows, including those past the limit.
            pub total: SpendSums,
        }
    )+ };
}

reports! {
    /// What each project used.
    ProjectsReport of ProjectRow;
    /// What each conversation used.
    SessionsReport of SessionRow;
}

const DEFAULTS: Defaults = Defaults {
    has_sort: true,
    ..Defaults::PLAIN
};

impl Analytics {
    /// What the conversations of each project used, by the messages in the log. Default: all days,
    /// by cost. It has no groups and no buckets. Messages that retention removed are not counted.
    ///
    /// ```
    /// # use decklog::{Client, Conversation, ConversationMessage, Role, Store};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let store = Store::open(dir.path().join("log"))?;
    /// use decklog::analytics::AnalyticsQuery;
    ///
    /// let mut conversation = Conversation::new(uuid::Uuid::new_v4(), Client::Api);
    /// conversation.project = Some("compiler".into());
    /// let mut answer = ConversationMessage::new(conversation.id, Role::Assistant, "hello");
    /// answer.cost_usd = Some(0.25);
    /// store.record(conversation)?;
    /// store.record(answer)?;
    /// let projects = store.analytics().projects(&AnalyticsQuery::default())?;
    /// assert_eq!(projects.rows[0].project.as_deref(), Some("compiler"));
    /// assert_eq!(projects.rows[0].sums.cost_usd, Some(0.25));
    /// # Ok::<(), decklog::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`usage`](Self::usage).
    pub fn projects(&self, query: &AnalyticsQuery) -> Result<ProjectsReport> {
        let scope = query.scope("projects", &DEFAULTS)?;
        let sort = query.sort.unwrap_or(SpendSort::Cost);
        let spent = self.spent(&scope)?;
        let ids: Vec<Uuid> = spent.iter().map(|(id, _)| *id).collect();
        let (numbers, mut names) = projects_of(self.store.inner(), &ids)?;
        // The last one is of conversations without a project.
        let mut sums = vec![(0_u64, Spent::default()); names.len() + 1];
        for (number, (_, spent)) in numbers.into_iter().zip(&spent) {
            if let Some((count, sum)) = sums.get_mut(number.unwrap_or(names.len())) {
                *count += 1;
                sum.add(spent);
            }
        }
        let total = total(&spent);
        let names = names.drain(..).map(Some).chain([None]);
        let mut rows: Vec<_> = names
            .zip(sums)
            .filter(|(_, (count, _))| *count > 0)
            .collect();
        let row_count = rows.len();
        rows.sort_by_cached_key(|(name, (_, sum))| (sum.order(sort), name.clone()));
        rows.truncate(query.rows_max());
        let rows = rows.into_iter().map(|(project, (count, sum))| ProjectRow {
            project,
            sums: sum.sums(count),
        });
        Ok(ProjectsReport {
            scope,
            sort,
            rows: rows.collect(),
            row_count,
            total,
        })
    }

    /// What each conversation used, by its messages in the log. Default: all days, by cost. It has
    /// no groups and no buckets. Messages that retention removed are not counted.
    ///
    /// # Errors
    /// As [`usage`](Self::usage).
    pub fn sessions(&self, query: &AnalyticsQuery) -> Result<SessionsReport> {
        let scope = query.scope("sessions", &DEFAULTS)?;
        let sort = query.sort.unwrap_or(SpendSort::Cost);
        let mut spent = self.spent(&scope)?;
        let (total, row_count) = (total(&spent), spent.len());
        spent.sort_unstable_by_key(|(id, sum)| (sum.order(sort), *id));
        spent.truncate(query.rows_max());
        let row = |(conversation_id, sum): (Uuid, Spent)| {
            let found = self.store.get_conversation(conversation_id)?;
            let title = found
                .as_ref()
                .map(|(it, _)| self.store.conversation_title(it));
            Ok(SessionRow {
                conversation_id,
                title: title.transpose()?.flatten(),
                project: found.and_then(|(it, _)| it.project),
                sums: sum.sums(1),
            })
        };
        Ok(SessionsReport {
            scope,
            sort,
            rows: spent.into_iter().map(row).collect::<Result<_>>()?,
            row_count,
            total,
        })
    }

    /// The sums of each conversation in these days.
    fn spent(&self, scope: &Scope) -> Result<Vec<(Uuid, Spent)>> {
        let kept = self.caught_up()?;
        let mut all: HashMap<Uuid, Spent> = HashMap::new();
        for (_, day) in kept.days(scope) {
            for (id, parts) in &day.spent.conversations {
                let sum = all.entry(*id).or_default();
                for part in parts {
                    sum.add(&part.spent);
                }
            }
        }
        Ok(all.into_iter().collect())
    }
}

fn total(spent: &[(Uuid, Spent)]) -> SpendSums {
    let mut all = Spent::default();
    for (_, spent) in spent {
        all.add(spent);
    }
    all.sums(spent.len() as u64)
}
