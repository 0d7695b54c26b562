//! Queries of reports.

use serde::Serialize;

use crate::error::{Error, Result};
use crate::record::{Day, now, words};

/// Default number of rows of a report.
pub const ROWS_DEFAULT: usize = 1_000;
/// Maximum of the `limit` of a report.
pub const ROWS_MAX: usize = 100_000;

words! {
    /// Columns to group by.
    #[derive(PartialOrd, Ord)]
    Dimension("group") {
        /// The model, `model_used`.
        Model = "model",
        /// The gateway's configuration, `config_used`.
        Config = "config",
        /// The orchestration mode, `orchestration_mode`.
        Mode = "mode",
        /// The task type, `task_type`.
        TaskType = "task_type",
    }
}

words! {
    /// Bucket size of a report. A bucket is named after its first day.
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

words! {
    /// Order of the rows of a report on spending.
    SpendSort("sort") {
        /// Greatest cost first; rows of equal cost by tokens.
        Cost = "cost",
        /// Most prompt and answer tokens first.
        Tokens = "tokens",
    }
}

impl Bucket {
    /// The first day of a day's bucket; `None` for all days.
    pub(super) fn of(self, day: Day) -> Option<Day> {
        match self {
            Bucket::Day => Some(day),
            Bucket::Week => Some(day.monday()),
            Bucket::Month => Some(day.first_of_month()),
            Bucket::All => None,
        }
    }
}

/// Period, groups and buckets of a report. Missing fields have the report's defaults.
///
/// ```
/// use decklog::analytics::{AnalyticsQuery, Bucket, Dimension};
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
    /// Columns to group by; an empty list gives one row per bucket.
    pub group: Option<Vec<Dimension>>,
    /// Bucket size.
    pub bucket: Option<Bucket>,
    /// Maximum number of rows; 0 returns only the totals. Default: 1,000. Maximum: 100,000.
    pub limit: Option<usize>,
    /// Order of the rows, of reports by project or session. Default: cost.
    pub sort: Option<SpendSort>,
}

/// The query of a report, with its defaults.
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
    /// Columns to group by.
    pub group: Vec<Dimension>,
    /// Bucket size.
    pub bucket: Bucket,
}

impl Scope {
    pub(super) fn has(&self, day: Day) -> bool {
        self.since.is_none_or(|since| since <= day) && self.until.is_none_or(|until| day < until)
    }
}

/// The defaults of a report.
pub(super) struct Defaults {
    /// The number of days before the current day to include; `None` for all days.
    pub days_before: Option<u32>,
    /// Its default groups; `None` if it has no groups.
    pub group: Option<&'static [Dimension]>,
    /// Its default bucket size; `None` if it has no buckets.
    pub bucket: Option<Bucket>,
    /// Whether its rows can be sorted.
    pub has_sort: bool,
}

impl Defaults {
    /// Those of a report over all days, without groups and buckets.
    pub(super) const PLAIN: Defaults = Defaults {
        days_before: None,
        group: None,
        bucket: None,
        has_sort: false,
    };
}

impl AnalyticsQuery {
    /// The days and groups of the report with this name.
    pub(super) fn scope(&self, report: &str, defaults: &Defaults) -> Result<Scope> {
        let (mut since, mut until) = (self.since, self.until);
        if let (None, None, Some(before)) = (since, until, defaults.days_before) {
            let today = Day::of(now())?;
            (since, until) = (Some(today.minus(before)), today.next());
        }
        if let (Some(since), Some(until)) = (since, until)
            && until < since
        {
            let message = format!("since is {since} and until is {until}: until must be later");
            return Err(Error::invalid(message));
        }
        let mut group = match (&self.group, defaults.group) {
            (Some(group), None) if !group.is_empty() => {
                let message = format!("{report} has no groups: omit them");
                return Err(Error::invalid(message).with_field("group"));
            }
            (Some(group), _) => group.clone(),
            (None, group) => group.unwrap_or_default().to_vec(),
        };
        group.sort_unstable();
        group.dedup();
        if let (Some(_), None) = (self.bucket, defaults.bucket) {
            let message = format!("{report} has no rows by day, week or month: omit the period");
            return Err(Error::invalid(message).with_field("bucket"));
        }
        if self.sort.is_some() && !defaults.has_sort {
            let message = format!("{report} has a fixed order: omit it");
            return Err(Error::invalid(message).with_field("sort"));
        }
        if let Some(limit) = self.limit.filter(|limit| *limit > ROWS_MAX) {
            let message = format!("limit is {limit}: must be at most {ROWS_MAX}");
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
