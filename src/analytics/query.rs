//! What a report is asked for.

use serde::Serialize;

use crate::error::{Error, Result};
use crate::record::{Day, now, words};

/// Default number of rows of a report.
pub const ROWS_DEFAULT: usize = 1_000;
/// Maximum number of rows that a report can be asked for.
pub const ROWS_MAX: usize = 100_000;

words! {
    /// What messages are told apart by.
    #[derive(PartialOrd, Ord)]
    Dimension("group") {
        /// The model that answered, `model_used`.
        Model = "model",
        /// The gateway's configuration, `config_used`.
        Config = "config",
        /// How models were put together, `orchestration_mode`.
        Mode = "mode",
        /// The sort of task, `task_type`.
        TaskType = "task_type",
    }
}

words! {
    /// How long the times are that a report tells of one by one. Each has the name of its first
    /// day.
    Bucket("bucket") {
        /// A UTC day.
        Day = "day",
        /// An ISO week, from Monday on.
        Week = "week",
        /// A month of the calendar.
        Month = "month",
        /// All days together.
        All = "all",
    }
}

impl Bucket {
    /// The first day of the one that a day is in; `None` for all days.
    pub(super) fn of(self, day: Day) -> Option<Day> {
        match self {
            Bucket::Day => Some(day),
            Bucket::Week => Some(day.monday()),
            Bucket::Month => Some(day.first_of_month()),
            Bucket::All => None,
        }
    }
}

/// Which days to report on, and how. What is left out has the default of each report.
///
/// ```
/// use decklog::{AnalyticsQuery, Bucket, Dimension};
/// let by_week = AnalyticsQuery {
///     since: Some("2025-12-01".parse()?),
///     group: Some(vec![Dimension::Model, Dimension::TaskType]),
///     bucket: Some(Bucket::Week),
///     ..AnalyticsQuery::default()
/// };
/// # let _ = by_week;
/// # Ok::<(), decklog::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AnalyticsQuery {
    /// Only this UTC day and later ones.
    pub since: Option<Day>,
    /// Only days before this one.
    pub until: Option<Day>,
    /// What rows are told apart by; an empty list asks for one row a bucket.
    pub group: Option<Vec<Dimension>>,
    /// How long the times are that are told one by one.
    pub bucket: Option<Bucket>,
    /// Maximum number of rows; 0 gives the totals alone. Default: 1,000; at most
    /// 100,000.
    pub limit: Option<usize>,
}

/// What a report was made of, its defaults filled in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "wire", derive(utoipa::ToSchema))]
pub struct Scope {
    /// The first UTC day; left out if there is no first one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "wire", schema(value_type = Option<String>, format = Date))]
    pub since: Option<Day>,
    /// The day after the last one; left out if there is no last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "wire", schema(value_type = Option<String>, format = Date))]
    pub until: Option<Day>,
    /// What the rows are told apart by.
    pub group: Vec<Dimension>,
    /// How long the times are that are told one by one.
    pub bucket: Bucket,
}

impl Scope {
    pub(super) fn has(&self, day: Day) -> bool {
        self.since.is_none_or(|since| since <= day) && self.until.is_none_or(|until| day < until)
    }
}

/// The defaults of a report.
pub(super) struct Defaults {
    /// The current day and as many before it; `None` for all days.
    pub days_before: Option<u32>,
    /// What it tells apart; `None` if it tells nothing apart at all.
    pub group: Option<&'static [Dimension]>,
    /// How long its times are; `None` if it tells of one.
    pub bucket: Option<Bucket>,
}

impl AnalyticsQuery {
    /// The days and groups that a report of this name is asked for.
    pub(super) fn scope(&self, report: &str, defaults: &Defaults) -> Result<Scope> {
        let (mut since, mut until) = (self.since, self.until);
        if let (None, None, Some(before)) = (since, until, defaults.days_before) {
            let today = Day::of(now())?;
            (since, until) = (Some(today.minus(before)), today.next());
        }
        if let (Some(since), Some(until)) = (since, until)
            && until < since
        {
            let message = format!("since is {since} and until is {until}: give a later until");
            return Err(Error::invalid(message));
        }
        let mut group = match (&self.group, defaults.group) {
            (Some(group), None) if !group.is_empty() => {
                let message = format!("{report} is told of all groups together: leave group out");
                return Err(Error::invalid(message));
            }
            (Some(group), _) => group.clone(),
            (None, group) => group.unwrap_or_default().to_vec(),
        };
        group.sort_unstable();
        group.dedup();
        if let (Some(_), None) = (self.bucket, defaults.bucket) {
            let message = format!("{report} is told of all days together: leave bucket out");
            return Err(Error::invalid(message));
        }
        if let Some(limit) = self.limit.filter(|limit| *limit > ROWS_MAX) {
            let message = format!("limit is {limit}: give at most {ROWS_MAX}");
            return Err(Error::invalid(message));
        }
        Ok(Scope {
            since,
            until,
            group,
            bucket: self.bucket.or(defaults.bucket).unwrap_or(Bucket::All),
        })
    }

    pub(super) fn rows_max(&self) -> usize {
        self.limit.unwrap_or(ROWS_DEFAULT)
    }
}
