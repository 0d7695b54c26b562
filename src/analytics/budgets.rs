//! Budgets, and the spent part of them.

use serde::Serialize;

use super::query::{Bucket, Scope};
use super::{Analytics, rows};
use crate::error::Result;
use crate::record::{Day, now};
use crate::store::BudgetSettings;

/// The part of a budget at which a note is shown.
const NOTED_FROM: f64 = 0.8;

/// A budget, and the amount spent in the current period.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "wire", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct Budget {
    /// The length of the period.
    pub period: Bucket,
    /// The first UTC day of the period.
    #[cfg_attr(feature = "wire", schema(value_type = String, format = Date))]
    pub since: Day,
    /// The budget in US dollars.
    pub budget_usd: f64,
    /// The amount spent so far, in US dollars, recorded or computed.
    pub spent_usd: f64,
}

impl Budget {
    /// The spent part of the budget; above 1 if the budget is exceeded.
    pub fn used(&self) -> f64 {
        self.spent_usd / self.budget_usd
    }

    /// Whether the budget is exceeded.
    pub fn is_over(&self) -> bool {
        self.spent_usd > self.budget_usd
    }

    /// Whether at least 80 % of it was spent.
    pub fn is_nearly_spent(&self) -> bool {
        self.used() >= NOTED_FROM
    }
}

impl BudgetSettings {
    /// The budgets that are set, each with the first day of the period that contains this day.
    pub(crate) fn of(&self, day: Day) -> impl Iterator<Item = (Bucket, Day, f64)> {
        let all = [
            (Bucket::Day, self.day, day),
            (Bucket::Week, self.week, day.monday()),
            (Bucket::Month, self.month, day.first_of_month()),
        ];
        all.into_iter()
            .filter_map(|(period, budget, since)| Some((period, since, budget?.get())))
    }
}

impl Analytics {
    /// The budgets in the store's settings, each with the amount spent in the current period. Empty
    /// if none is set; then nothing is read.
    ///
    /// # Errors
    /// As [`catch_up`](Self::catch_up).
    pub fn budgets(&self) -> Result<Vec<Budget>> {
        let settings = self.store.settings()?.budget;
        let today = Day::of(now())?;
        let mut budgets = Vec::new();
        for (period, since, budget_usd) in settings.of(today) {
            let scope = Scope {
                since: Some(since),
                until: today.next(),
                group: Vec::new(),
                bucket: Bucket::All,
            };
            let usage = self.caught_up()?.total(&scope, rows::usage);
            budgets.push(Budget {
                period,
                since,
                budget_usd,
                spent_usd: usage.cost_usd.unwrap_or(0.0),
            });
        }
        Ok(budgets)
    }
}
