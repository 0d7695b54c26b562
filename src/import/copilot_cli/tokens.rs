//! The tokens of a session. A message states only its output. The rest is stated for each model
//! when the client ends, for what was used since it started.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::shape::{Data, Metric, Usage};
use crate::import::facts::Tokens;
use crate::import::json;

/// From this time on, in epoch milliseconds, a session costs what it uses: 2026-06-01. Before it,
/// the units were reported and not paid.
const PAID_FROM_MS: i64 = 1_780_272_000_000;
/// A unit costs a cent.
const NANO_UNITS_PER_DOLLAR: f64 = 1e11;

/// What the messages have stated so far, by model.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Meter {
    models: BTreeMap<String, Stated>,
    /// The total cost at the last end of the client, in billionths of a unit.
    nano_units: u64,
    /// When the session began.
    pub(super) began_at: Option<i64>,
}

#[derive(Default, Serialize, Deserialize)]
struct Stated {
    output: u64,
    /// The latest response, and the sub-agent that got it.
    response: Option<Uuid>,
    agent: Option<String>,
}

/// What a model used beyond what the messages stated.
pub(super) struct Used {
    pub(super) model: String,
    pub(super) tokens: Tokens,
    /// The object that states it.
    pub(super) usage: String,
    /// The latest response of the model, and the sub-agent that got it.
    pub(super) response: Option<Uuid>,
    pub(super) agent: Option<String>,
    pub(super) cost_usd: Option<f64>,
}

/// The name of a model without its provider.
fn bare(model: &str) -> &str {
    model.rsplit('/').next().unwrap_or(model)
}

impl Meter {
    /// A message states the output tokens of its model.
    pub(super) fn add(
        &mut self,
        model: Option<&str>,
        (response, agent): (Uuid, Option<&str>),
        output: u64,
    ) {
        let model = bare(model.unwrap_or_default());
        let stated = self.models.entry(model.to_owned()).or_default();
        stated.output = stated.output.saturating_add(output);
        stated.response = Some(response);
        stated.agent = agent.map(str::to_owned);
    }

    /// Another client resumed the session. What the messages stated before, and the end of a client
    /// did not, is not in its counts.
    pub(super) fn restart(&mut self) {
        self.models.clear();
    }

    /// The client ended. It starts to count from 0 when the session is resumed.
    pub(super) fn end(&mut self, data: &Data<'_>) -> Result<Vec<Used>, String> {
        let metrics = json::members(data.metrics)?.unwrap_or_default();
        let mut used = Vec::new();
        for (model, metric) in metrics {
            let metric = json::member::<Metric<'_>>(metric)?.unwrap_or_default();
            let Some(usage) = json::member::<Usage<'_>>(metric.usage)? else {
                continue;
            };
            let stated = self.models.remove(bare(&model)).unwrap_or_default();
            let number = |raw| json::number(raw).unwrap_or(0);
            used.push(Used {
                tokens: Tokens {
                    input: number(usage.input),
                    cache_read: number(usage.cache_read),
                    cache_write: number(usage.cache_write),
                    output: number(usage.output).saturating_sub(stated.output),
                    reasoning: number(usage.reasoning),
                    ..Tokens::default()
                },
                model,
                usage: metric.usage.get().unwrap_or_default().to_owned(),
                response: stated.response,
                agent: stated.agent,
                cost_usd: None,
            });
        }
        if used.is_empty() {
            return Ok(used);
        }
        // The output of messages that name no model, or one that is named otherwise here.
        let mut others = 0_u64;
        for stated in std::mem::take(&mut self.models).into_values() {
            others = others.saturating_add(stated.output);
        }
        for used in &mut used {
            let left = used.tokens.output.saturating_sub(others);
            others = others.saturating_sub(used.tokens.output);
            used.tokens.output = left;
        }
        if let (Some(first), Some(cost)) = (used.first_mut(), self.cost(data)) {
            first.cost_usd = Some(cost);
        }
        used.retain(|used| used.tokens != Tokens::default() || used.cost_usd.is_some());
        Ok(used)
    }

    /// The cost since the client last ended, in US dollars. It states the total of the session.
    #[allow(clippy::cast_precision_loss)] // Billionths of a cent.
    fn cost(&mut self, data: &Data<'_>) -> Option<f64> {
        let total = json::number(data.nano_aiu)?;
        let before = std::mem::replace(&mut self.nano_units, total);
        let is_paid = self.began_at.is_some_and(|at| at >= PAID_FROM_MS);
        let nano_units = total.checked_sub(before).unwrap_or(total);
        is_paid.then(|| nano_units as f64 / NANO_UNITS_PER_DOLLAR)
    }
}
