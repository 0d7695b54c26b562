//! The prices of a model, and what a call costs by them.

use serde::Deserialize;

use crate::record::Day;

const DAY_MS: i64 = 86_400_000;

/// The tokens of a call. As in a message, `input` includes what was written to a cache or read from
/// one, `cache_write` includes what is kept for one hour, and `output` includes the reasoning.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Tokens {
    pub input: u64,
    pub cache_write: u64,
    pub cache_write_1h: u64,
    pub cache_read: u64,
    pub output: u64,
    pub reasoning: u64,
    /// The length of the prompt, which selects the price tier. It differs from `input` in sums of
    /// several calls.
    pub prompt: u64,
}

/// The prices of a model: constant, or by time. If several apply, the last one is used.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub(super) enum ModelPrices {
    Always(Rates),
    ByTime(Vec<Timed>),
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct Timed {
    #[serde(default)]
    constraint: Option<Constraint>,
    prices: Rates,
}

/// When prices apply.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
enum Constraint {
    /// From the start of this UTC day.
    From { start_date: Day },
    /// From one time of the day, as `16:30:00Z`, to before another one.
    Daily {
        start_time: String,
        end_time: String,
    },
}

/// Prices in US dollars per million tokens. A kind of tokens without a price has the price of the
/// kind that includes it.
#[derive(Debug, Clone, Default, Deserialize)]
pub(super) struct Rates {
    input_mtok: Option<Rate>,
    cache_write_mtok: Option<Rate>,
    cache_write_1h_mtok: Option<Rate>,
    cache_read_mtok: Option<Rate>,
    output_mtok: Option<Rate>,
    output_reasoning_mtok: Option<Rate>,
    /// Whether a cache write of one hour costs twice the price of input.
    #[serde(skip)]
    is_anthropic: bool,
}

/// A price, or prices by the length of the prompt. All tokens have the price of the last tier whose
/// start the prompt exceeds.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
enum Rate {
    Flat(f64),
    Tiered { base: f64, tiers: Vec<Tier> },
}

#[derive(Debug, Clone, Deserialize)]
struct Tier {
    start: f64,
    price: f64,
}

impl ModelPrices {
    pub(super) fn nano_usd(&self, at: i64, tokens: &Tokens) -> Option<u64> {
        self.at(at)?.nano_usd(tokens)
    }

    fn at(&self, at: i64) -> Option<&Rates> {
        match self {
            ModelPrices::Always(rates) => Some(rates),
            ModelPrices::ByTime(all) => {
                let applies = |it: &&Timed| it.constraint.as_ref().is_none_or(|it| it.has(at));
                let found = all.iter().rev().find(applies).or(all.first());
                found.map(|it| &it.prices)
            }
        }
    }

    fn rates(&self) -> Vec<&Rates> {
        match self {
            ModelPrices::Always(rates) => vec![rates],
            ModelPrices::ByTime(all) => all.iter().map(|it| &it.prices).collect(),
        }
    }

    /// Marks these as prices of Anthropic's models.
    pub(super) fn of_anthropic(mut self) -> ModelPrices {
        match &mut self {
            ModelPrices::Always(rates) => rates.is_anthropic = true,
            ModelPrices::ByTime(all) => {
                for it in all.iter_mut() {
                    it.prices.is_anthropic = true;
                }
            }
        }
        self
    }

    /// Whether there is a price per token. A table also has models with other prices.
    pub(super) fn is_by_token(&self) -> bool {
        let is = |it: &&Rates| it.input_mtok.is_some() || it.output_mtok.is_some();
        self.rates().iter().any(is)
    }

    /// Refuses what cannot be a price.
    pub(super) fn check(&self) -> Result<(), String> {
        if let ModelPrices::ByTime(all) = self {
            let always = all.iter().filter(|it| it.constraint.is_none()).count();
            if always != 1 {
                return Err(format!(
                    "{always} of its prices have no constraint: give exactly one without"
                ));
            }
            for Timed { constraint, .. } in all {
                if let Some(Constraint::Daily {
                    start_time,
                    end_time,
                }) = constraint
                {
                    for time in [start_time, end_time] {
                        ms_of_day(time).ok_or_else(|| {
                            format!("{time:?} is not a time of day such as 16:30:00Z")
                        })?;
                    }
                }
            }
        }
        self.rates().into_iter().try_for_each(Rates::check)
    }
}

impl Constraint {
    fn has(&self, at: i64) -> bool {
        match self {
            Constraint::From { start_date } => start_date.bounds_ms().0 <= at,
            Constraint::Daily {
                start_time,
                end_time,
            } => {
                let now = at.rem_euclid(DAY_MS);
                match (ms_of_day(start_time), ms_of_day(end_time)) {
                    (Some(start), Some(end)) if end < start => now >= start || now < end,
                    (Some(start), Some(end)) => (start..end).contains(&now),
                    _ => false,
                }
            }
        }
    }
}

/// The time of a UTC day, as `16:30:00Z`, in milliseconds.
fn ms_of_day(text: &str) -> Option<i64> {
    let mut parts = text.strip_suffix('Z')?.split(':');
    let mut next = |max: i64| {
        let part = parts.next().filter(|part| part.len() == 2)?;
        part.parse::<i64>().ok().filter(|n| (0..max).contains(n))
    };
    let (hours, minutes, seconds) = (next(24)?, next(60)?, next(60)?);
    let is_all = parts.next().is_none();
    is_all.then_some(((hours * 60 + minutes) * 60 + seconds) * 1_000)
}

impl Rates {
    /// The cost in billionths of a US dollar. `None` if tokens of a kind have no price.
    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss
    )] // 16 digits are exact, and the conversion saturates.
    fn nano_usd(&self, tokens: &Tokens) -> Option<u64> {
        let of = |rate: &Option<Rate>| rate.as_ref().map(|rate| rate.of(tokens.prompt));
        let input = of(&self.input_mtok);
        let output = of(&self.output_mtok);
        let write = of(&self.cache_write_mtok).or(input);
        // The one place where the table is corrected: a model of Anthropic without a price for
        // cache writes of one hour has twice the price of input, as all others of Anthropic.
        let hour = of(&self.cache_write_1h_mtok);
        let twice = input.map(|rate| 2.0 * rate).filter(|_| self.is_anthropic);
        let hour = hour.or(twice).or(write);
        let read = of(&self.cache_read_mtok).or(input);
        let reasoning = of(&self.output_reasoning_mtok).or(output);
        let cached = tokens.cache_write.saturating_add(tokens.cache_read);
        let parts = [
            (tokens.input.saturating_sub(cached), input),
            (
                tokens.cache_write.saturating_sub(tokens.cache_write_1h),
                write,
            ),
            (tokens.cache_write_1h, hour),
            (tokens.cache_read, read),
            (tokens.output.saturating_sub(tokens.reasoning), output),
            (tokens.reasoning, reasoning),
        ];
        let mut cost = 0.0;
        for (count, rate) in parts.into_iter().filter(|(count, _)| *count > 0) {
            cost += rate? * count as f64;
        }
        // A millionth of a dollar for each token is 1000 billionths.
        Some((cost * 1e3).round() as u64)
    }

    fn check(&self) -> Result<(), String> {
        for (name, rate) in [
            ("input_mtok", &self.input_mtok),
            ("cache_write_mtok", &self.cache_write_mtok),
            ("cache_write_1h_mtok", &self.cache_write_1h_mtok),
            ("cache_read_mtok", &self.cache_read_mtok),
            ("output_mtok", &self.output_mtok),
            ("output_reasoning_mtok", &self.output_reasoning_mtok),
        ] {
            let is_price = |price: f64| price.is_finite() && price >= 0.0;
            let is_fit = rate.as_ref().is_none_or(|rate| match rate {
                Rate::Flat(price) => is_price(*price),
                Rate::Tiered { base, tiers } => {
                    let is_fit = |tier: &Tier| is_price(tier.start) && is_price(tier.price);
                    let is_sorted = tiers.is_sorted_by(|one, next| one.start < next.start);
                    is_price(*base) && is_sorted && tiers.iter().all(is_fit)
                }
            });
            if !is_fit {
                return Err(format!(
                    "{name}: give a number of at least 0, or a base and tiers in ascending order"
                ));
            }
        }
        Ok(())
    }
}

impl Rate {
    #[allow(clippy::cast_precision_loss)]
    fn of(&self, prompt: u64) -> f64 {
        match self {
            Rate::Flat(price) => *price,
            Rate::Tiered { base, tiers } => {
                let mut passed = tiers.iter().rev();
                let tier = passed.find(|tier| prompt as f64 > tier.start);
                tier.map_or(*base, |tier| tier.price)
            }
        }
    }
}
