//! The cost of calls, by period, model, project, session, branch, tool and agent.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use serde::Serialize;
use uuid::Uuid;

use super::query::{Bucket, ROWS_DEFAULT, ROWS_MAX};
use super::spending::Spent;
use super::{Analytics, Cache};
use crate::collections::{ConversationFacts, Message, facts_of, messages_of_day, tools_of_several};
use crate::error::{Error, Result};
use crate::record::{Day, is_default, words};

/// Maximum number of models without a price that a report names.
const UNPRICED_MAX: usize = 100;
/// The tool of a response that called none.
const NO_TOOL: &str = "(none)";

words! {
    /// A column to group a cost report by.
    #[derive(PartialOrd, Ord)]
    CostBy("by") {
        /// A UTC day.
        Day = "day",
        /// An ISO week, from Monday on.
        Week = "week",
        /// A calendar month.
        Month = "month",
        /// The model.
        Model = "model",
        /// The project of the conversation.
        Project = "project",
        /// The main conversation: sub-agents count with the one that started them.
        Session = "session",
        /// The git branch of the messages.
        Branch = "branch",
        /// The tools that a response called.
        Tool = "tool",
        /// The program that ran the conversation.
        Agent = "agent",
    }
}

impl CostBy {
    fn bucket(self) -> Option<Bucket> {
        match self {
            CostBy::Day => Some(Bucket::Day),
            CostBy::Week => Some(Bucket::Week),
            CostBy::Month => Some(Bucket::Month),
            _ => None,
        }
    }
}

/// Query of a cost report. The default is all days, by day.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CostQuery {
    /// Only this UTC day and later ones.
    pub since: Option<Day>,
    /// Only days before this one.
    pub until: Option<Day>,
    /// Columns to group by: at most one period, and any others. An empty list groups by day.
    pub by: Vec<CostBy>,
    /// Maximum number of rows; 0 returns only the totals. Default: 1,000. Maximum: 100,000.
    pub limit: Option<usize>,
}

/// The group of a row. A field is absent if the report does not group by it, or if the messages
/// have no value for it.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[cfg_attr(feature = "wire", derive(utoipa::ToSchema))]
pub struct CostKey {
    /// The first day of the period, even if the report begins later.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "wire", schema(value_type = Option<String>, format = Date))]
    pub bucket: Option<Day>,
    /// The model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_used: Option<String>,
    /// The project.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// The main conversation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conversation_id: Option<Uuid>,
    /// The git branch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub git_branch: Option<String>,
    /// The tool; `(none)` for responses that called none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_name: Option<String>,
    /// The program that ran the conversations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
}

/// Tokens by kind, and their cost. Cache writes kept for five minutes are `tokens_cache_write`
/// minus `tokens_cache_write_1h`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "wire", derive(utoipa::ToSchema))]
pub struct CostSums {
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
    /// Cost in US dollars, recorded or computed. Absent if no message has a cost.
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
}

/// A row of a cost report.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "wire", derive(utoipa::ToSchema))]
pub struct CostRow {
    /// The group of the row.
    #[serde(flatten)]
    pub of: CostKey,
    /// The title of a row by session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Its sums.
    #[serde(flatten)]
    pub sums: CostSums,
}

/// A model without a price.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "wire", derive(utoipa::ToSchema))]
pub struct UnpricedModel {
    /// The model. Absent for messages that name none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_used: Option<String>,
    /// Number of its messages with tokens and without a cost.
    pub messages: u64,
}

/// The cost of calls.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "wire", derive(utoipa::ToSchema))]
pub struct CostReport {
    /// The first UTC day; left out if there is no first one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "wire", schema(value_type = Option<String>, format = Date))]
    pub since: Option<Day>,
    /// The day after the last one; left out if there is no last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "wire", schema(value_type = Option<String>, format = Date))]
    pub until: Option<Day>,
    /// The columns that the rows are grouped by.
    pub by: Vec<CostBy>,
    /// The rows, sorted by period, earliest first; then by cost and tokens, largest first.
    pub rows: Vec<CostRow>,
    /// Number of rows without the limit.
    pub row_count: usize,
    /// The totals of all rows, including those past the limit.
    pub total: CostSums,
    /// The models of messages without a cost, most messages first. Maximum: 100.
    pub unpriced: Vec<UnpricedModel>,
}

/// The smallest groups that a report adds up.
struct Part<'a> {
    day: Day,
    model: Option<&'a str>,
    branch: Option<&'a str>,
    tool: Option<&'a str>,
    conversation: Option<Uuid>,
    spent: Spent,
}

/// A message's day, model, branch and conversation, and what was spent.
type Spending = (Day, Option<String>, Option<String>, Uuid, Spent);

/// A response of a model: its messages in the days of a report, and the tools that they call.
#[derive(Default)]
struct Response {
    messages: Vec<Spending>,
    tools: Vec<String>,
}

impl Response {
    /// Adds equal shares for each call.
    fn add_to(self, adding: &mut Adding<'_>) {
        let Response {
            messages,
            mut tools,
        } = self;
        if tools.is_empty() {
            tools.push(NO_TOOL.to_owned());
        }
        for (day, model, branch, conversation, spent) in messages {
            for (tool, share) in tools.iter().zip(spent.shares(tools.len() as u64)) {
                adding.add(&Part {
                    day,
                    model: model.as_deref(),
                    branch: branch.as_deref(),
                    tool: Some(tool),
                    conversation: Some(conversation),
                    spent: share,
                });
            }
        }
    }
}

/// The report while it is added up.
struct Adding<'q> {
    by: &'q [CostBy],
    bucket: Option<Bucket>,
    facts: HashMap<Uuid, ConversationFacts>,
    rows: HashMap<CostKey, Spent>,
    unpriced: BTreeMap<Option<String>, u64>,
    total: Spent,
}

impl Adding<'_> {
    fn add(&mut self, part: &Part<'_>) {
        let has = |by| self.by.contains(&by);
        let text = |by, text: Option<&str>| text.filter(|_| has(by)).map(str::to_owned);
        let facts = part.conversation.and_then(|id| self.facts.get(&id));
        let key = CostKey {
            bucket: self.bucket.and_then(|bucket| bucket.of(part.day)),
            model_used: text(CostBy::Model, part.model),
            project: text(CostBy::Project, facts.and_then(|it| it.project.as_deref())),
            conversation_id: facts
                .map(|it| it.main)
                .or(part.conversation)
                .filter(|_| has(CostBy::Session)),
            git_branch: text(CostBy::Branch, part.branch),
            tool_name: text(CostBy::Tool, part.tool),
            agent: text(CostBy::Agent, facts.and_then(|it| it.agent.as_deref())),
        };
        self.rows.entry(key).or_default().add(&part.spent);
        self.total.add(&part.spent);
        let unpriced = part.spent.unpriced();
        if unpriced > 0 {
            let model = part.model.map(str::to_owned);
            *self.unpriced.entry(model).or_default() += unpriced;
        }
    }
}

impl Analytics {
    /// The cost of calls. Default: all days, by day. Reports by period and model alone include
    /// messages that retention removed; the others include only messages in the log.
    ///
    /// By tool, the tokens and the cost of a response are divided equally among its calls, and the
    /// messages of the period are read. Other reports use sums in memory.
    ///
    /// ```
    /// # use decklog::{Client, Conversation, ConversationMessage, Role, Store};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let store = Store::open(dir.path().join("log"))?;
    /// use decklog::analytics::{CostBy, CostQuery};
    ///
    /// let conversation = Conversation::new(uuid::Uuid::new_v4(), Client::Api);
    /// let mut answer = ConversationMessage::new(conversation.id, Role::Assistant, "hello");
    /// answer.git_branch = Some("main".into());
    /// answer.cost_usd = Some(0.25);
    /// store.record(conversation)?;
    /// store.record(answer)?;
    /// let by = vec![CostBy::Month, CostBy::Branch];
    /// let report = store.analytics().cost(&CostQuery { by, ..CostQuery::default() })?;
    /// assert_eq!(report.rows[0].of.git_branch.as_deref(), Some("main"));
    /// assert_eq!(report.total.cost_usd, Some(0.25));
    /// # Ok::<(), decklog::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for several periods, an `until` before
    /// `since`, a limit above the maximum, or an invalid `prices.json` in the store; otherwise as
    /// [`catch_up`](Self::catch_up).
    pub fn cost(&self, query: &CostQuery) -> Result<CostReport> {
        let by = query.checked()?;
        let mut adding = Adding {
            bucket: by.iter().find_map(|by| by.bucket()),
            by: &by,
            facts: HashMap::new(),
            rows: HashMap::new(),
            unpriced: BTreeMap::new(),
            total: Spent::default(),
        };
        let is_of_sums = |by: &CostBy| by.bucket().is_some() || *by == CostBy::Model;
        if by.contains(&CostBy::Tool) {
            self.add_by_tool(query, &mut adding)?;
        } else if by.iter().all(is_of_sums) {
            let kept = self.caught_up()?;
            for (day, kept) in kept.days.iter().filter(|(day, _)| query.has(**day)) {
                for (group, tally) in kept.sum.tallies() {
                    adding.add(&Part {
                        day: *day,
                        model: group[0].as_deref(),
                        branch: None,
                        tool: None,
                        conversation: None,
                        spent: Spent::of_tally(tally),
                    });
                }
            }
        } else {
            self.add_by_conversation(query, &mut adding)?;
        }
        self.cost_report(query, adding)
    }

    fn add_by_conversation(&self, query: &CostQuery, adding: &mut Adding<'_>) -> Result<()> {
        let mut kept = self.caught_up()?;
        let ids = kept.conversation_ids(query);
        if adding.by.iter().any(|by| by.needs_facts()) {
            drop(kept);
            adding.facts = facts_of(self.store.inner(), &ids)?;
            kept = self.caught_up()?;
        }
        for (day, kept) in kept.days.iter().filter(|(day, _)| query.has(**day)) {
            let names = kept.spent.names();
            let name = |number: u32| names.get(number as usize).copied().flatten();
            for (id, parts) in &kept.spent.conversations {
                for part in parts {
                    adding.add(&Part {
                        day: *day,
                        model: name(part.model),
                        branch: name(part.branch),
                        tool: None,
                        conversation: Some(*id),
                        spent: part.spent,
                    });
                }
            }
        }
        Ok(())
    }

    /// Reads the messages of the days. The parts of a response may be on several days.
    fn add_by_tool(&self, query: &CostQuery, adding: &mut Adding<'_>) -> Result<()> {
        let kept = self.caught_up()?;
        let days = kept.days.keys().filter(|day| query.has(**day));
        let days: Vec<Day> = days.copied().collect();
        let ids = kept.conversation_ids(query);
        drop(kept);
        let inner = self.store.inner();
        if adding.by.iter().any(|by| by.needs_facts()) {
            adding.facts = facts_of(inner, &ids)?;
        }
        let mut responses: HashMap<Uuid, Response> = HashMap::new();
        for day in days {
            let (mut tools, mut callers) = (Vec::new(), Vec::new());
            messages_of_day(inner, day, |message: Message| {
                let spent = Spent::of(&message.counted);
                if let Some(tool) = message.tool {
                    callers.push(message.id);
                    tools.push((message.response, tool));
                }
                let [model, ..] = message.group;
                let response = responses.entry(message.response).or_default();
                let of = message.conversation;
                let part = (day, model, message.branch, of, spent);
                response.messages.push(part);
            })?;
            // A message names only the first of its tools.
            let mut several = tools_of_several(inner, &callers)?;
            for (id, (response, first)) in callers.iter().zip(tools) {
                let tools = several.remove(id).unwrap_or_else(|| vec![first]);
                responses.entry(response).or_default().tools.extend(tools);
            }
        }
        for response in responses.into_values() {
            response.add_to(adding);
        }
        Ok(())
    }

    fn cost_report(&self, query: &CostQuery, adding: Adding<'_>) -> Result<CostReport> {
        let mut rows: Vec<(CostKey, Spent)> = adding.rows.into_iter().collect();
        let row_count = rows.len();
        rows.sort_by_cached_key(|(of, spent)| (of.bucket, spent.by_cost(), of.clone()));
        rows.truncate(query.limit.unwrap_or(ROWS_DEFAULT));
        let row = |(of, spent): (CostKey, Spent)| {
            let found = match of.conversation_id {
                Some(id) => self.store.get_conversation(id)?,
                None => None,
            };
            let title = found.map(|(found, _)| self.store.conversation_title(&found));
            Ok(CostRow {
                of,
                title: title.transpose()?.flatten(),
                sums: spent.costs(),
            })
        };
        let unpriced = adding.unpriced.into_iter();
        let model = |(model_used, messages)| UnpricedModel {
            model_used,
            messages,
        };
        let mut unpriced: Vec<UnpricedModel> = unpriced.map(model).collect();
        unpriced.sort_by_key(|model| Reverse(model.messages));
        unpriced.truncate(UNPRICED_MAX);
        Ok(CostReport {
            since: query.since,
            until: query.until,
            by: adding.by.to_vec(),
            rows: rows.into_iter().map(row).collect::<Result<_>>()?,
            row_count,
            total: adding.total.costs(),
            unpriced,
        })
    }
}

impl CostBy {
    /// Whether conversations are read for it.
    fn needs_facts(self) -> bool {
        matches!(self, CostBy::Project | CostBy::Session | CostBy::Agent)
    }
}

impl Cache {
    /// The conversations with messages in the days of a report.
    fn conversation_ids(&self, query: &CostQuery) -> Vec<Uuid> {
        let days = self.days.iter().filter(|(day, _)| query.has(**day));
        let ids = days.flat_map(|(_, kept)| kept.spent.conversations.keys());
        let mut ids: Vec<Uuid> = ids.copied().collect();
        ids.sort_unstable();
        ids.dedup();
        ids
    }
}

impl CostQuery {
    fn has(&self, day: Day) -> bool {
        self.since.is_none_or(|since| since <= day) && self.until.is_none_or(|until| day < until)
    }

    /// What to group by, in order and without duplicates.
    fn checked(&self) -> Result<Vec<CostBy>> {
        if let (Some(since), Some(until)) = (self.since, self.until)
            && until < since
        {
            let message = format!("since is {since} and until is {until}: until must be later");
            return Err(Error::invalid(message));
        }
        if let Some(limit) = self.limit.filter(|limit| *limit > ROWS_MAX) {
            let message = format!("limit is {limit}: must be at most {ROWS_MAX}");
            return Err(Error::invalid(message));
        }
        let mut by = self.by.clone();
        by.sort_unstable();
        by.dedup();
        if by.iter().filter(|by| by.bucket().is_some()).count() > 1 {
            let message = "by has several periods: give at most one of day, week and month";
            return Err(Error::invalid(message).with_field("by"));
        }
        if by.is_empty() {
            by.push(CostBy::Day);
        }
        Ok(by)
    }
}
