//! Budgets of a store's manifest.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// An amount in US dollars, above 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usd(u64);

/// The parts of a dollar that an amount is kept in.
const MICROS: f64 = 1e6;
/// Maximum amount, in US dollars.
const USD_MAX: f64 = 1e9;

impl Usd {
    /// An amount, rounded to millionths. `None` if it is not above 0, or above 1,000,000,000.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // It is in the range.
    pub fn new(usd: f64) -> Option<Usd> {
        let micros = (usd * MICROS).round();
        (micros >= 1.0 && usd <= USD_MAX).then_some(Usd(micros as u64))
    }

    /// The amount.
    #[allow(clippy::cast_precision_loss)] // It is at most 10^15.
    pub fn get(self) -> f64 {
        self.0 as f64 / MICROS
    }
}

impl Serialize for Usd {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.get())
    }
}

impl<'de> Deserialize<'de> for Usd {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Usd, D::Error> {
        let usd = f64::deserialize(deserializer)?;
        Usd::new(usd).ok_or_else(|| serde::de::Error::custom("give US dollars, above 0"))
    }
}

/// Budgets of the cost of calls; `budget` in `decklog.json`. A budget never stops anything:
/// `doctor`, `stats`, the status line and the metrics report it. Periods consist of UTC days.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BudgetSettings {
    /// Budget of a day. Default: none, as for the others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub day: Option<Usd>,
    /// Budget of a week, from Monday on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub week: Option<Usd>,
    /// Budget of a calendar month.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub month: Option<Usd>,
}
