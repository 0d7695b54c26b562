//! Tables of prices, in the form of the data of `genai-prices`.

use std::sync::OnceLock;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::FILE;
use super::matching::{Name, Rule, with_long_dates};
use super::rates::ModelPrices;
use crate::error::{Error, Result};

/// The providers of a table, in its order. Other members of the form are not read.
#[derive(Debug, Deserialize)]
pub(super) struct Table(Vec<Provider<Models>>);

#[derive(Debug, Deserialize)]
#[allow(clippy::struct_field_names)] // The names of the table.
struct Provider<M> {
    id: String,
    /// The models that belong to this provider if no provider is named.
    #[serde(default)]
    model_match: Option<Rule>,
    /// Other names of the provider.
    #[serde(default)]
    provider_match: Option<Rule>,
    #[serde(default)]
    fallback_model_providers: Vec<String>,
    models: M,
}

/// The models of a provider, parsed when one of them is looked up, because few providers are
/// needed.
#[derive(Debug, Deserialize)]
#[serde(from = "Box<RawValue>")]
struct Models {
    text: Box<RawValue>,
    all: OnceLock<Vec<Model>>,
}

impl From<Box<RawValue>> for Models {
    fn from(text: Box<RawValue>) -> Models {
        Models {
            text,
            all: OnceLock::new(),
        }
    }
}

impl Models {
    /// The models. A test reads all of the built-in table, and a store's file is checked first.
    fn all(&self) -> &[Model] {
        let read = || serde_json::from_str(self.text.get()).unwrap_or_default();
        self.all.get_or_init(read)
    }
}

#[derive(Debug, Deserialize)]
struct Model {
    id: String,
    #[serde(rename = "match")]
    rule: Rule,
    /// Parsed when the model is found, because most are never needed.
    prices: Box<RawValue>,
}

impl Model {
    fn prices(&self) -> serde_json::Result<ModelPrices> {
        serde_json::from_str(self.prices.get())
    }
}

impl Table {
    pub(super) fn read(bytes: &[u8]) -> serde_json::Result<Table> {
        serde_json::from_slice(bytes)
    }

    /// The table of a store's file, in which every price and pattern is valid.
    pub(super) fn checked(bytes: &[u8]) -> Result<Table> {
        let invalid = |what: String| Error::invalid(format!("{FILE}: {what}"));
        let not_of_form = |error| {
            invalid(format!(
                "{error}: give a JSON array of providers, each with id and models, as docs/cost.md shows"
            ))
        };
        let whole: Vec<Provider<Vec<Model>>> =
            serde_json::from_slice(bytes).map_err(not_of_form)?;
        for provider in &whole {
            let id = &provider.id;
            for model in &provider.models {
                let checked = model
                    .prices()
                    .map_err(|_| {
                        "prices: give an object of prices, or an array of prices with constraints"
                            .to_owned()
                    })
                    .and_then(|prices| prices.check())
                    .and_then(|()| model.rule.check());
                checked.map_err(|what| {
                    invalid(format!("provider {id}, model {}: {what}", model.id))
                })?;
            }
            let rules = [&provider.model_match, &provider.provider_match];
            for rule in rules.into_iter().flatten() {
                rule.check()
                    .map_err(|what| invalid(format!("provider {id}: {what}")))?;
            }
        }
        Table::read(bytes).map_err(not_of_form)
    }

    /// The prices of a model by its name, as agents record it.
    ///
    /// A plain name is a model of the first provider whose `model_match` it matches. If the model
    /// is not found, the part before the first slash names the provider. If that provider is
    /// unknown, as for gateways, the rest is treated as a plain name. Bedrock's names begin with a
    /// region and a provider, separated by dots.
    pub(super) fn find(&self, model: &str) -> Option<ModelPrices> {
        let long = with_long_dates(model);
        [Some(model), long.as_deref()]
            .into_iter()
            .flatten()
            .find_map(|model| self.find_as_named(model))
    }

    fn find_as_named(&self, model: &str) -> Option<ModelPrices> {
        let name = Name::new(model);
        let is_its =
            |it: &&Provider<Models>| it.model_match.as_ref().is_some_and(|it| it.matches(&name));
        let alone = self.0.iter().find(is_its);
        if let Some(found) = alone.and_then(|provider| self.of(provider, &name)) {
            return Some(found);
        }
        if model.contains("anthropic.claude")
            && let Some(found) = self.0.iter().find(|it| it.id == "aws")
            && let Some(found) = self.of(found, &name)
        {
            return Some(found);
        }
        let (provider, rest) = model.split_once('/')?;
        let found = self.provider(provider);
        let found = found.and_then(|provider| self.of(provider, &Name::new(rest)));
        found.or_else(|| self.find_as_named(rest))
    }

    fn provider(&self, id: &str) -> Option<&Provider<Models>> {
        let by_id = self.0.iter().find(|it| it.id.eq_ignore_ascii_case(id));
        let name = Name::new(id);
        let is = |it: &&Provider<Models>| {
            it.provider_match
                .as_ref()
                .is_some_and(|it| it.matches(&name))
        };
        by_id.or_else(|| self.0.iter().find(is))
    }

    /// The prices of a provider's model, or of those whose models it offers.
    fn of(&self, provider: &Provider<Models>, name: &Name<'_>) -> Option<ModelPrices> {
        let others = provider.fallback_model_providers.iter();
        let others = others.filter_map(|id| self.0.iter().find(|it| it.id == *id));
        let mut all = [provider].into_iter().chain(others);
        let model = all.find_map(|it| {
            it.models
                .all()
                .iter()
                .find(|model| model.rule.matches(name))
        })?;
        let prices = model.prices().ok()?;
        let prices = if model.id.contains("claude") {
            prices.of_anthropic()
        } else {
            prices
        };
        prices.is_by_token().then_some(prices)
    }
}

#[cfg(test)]
impl Table {
    /// Every model that a name alone can find, as its provider, its id and its own rule's texts.
    pub(super) fn ids(&self) -> Vec<(&str, &str)> {
        let of = |it: &'_ Provider<Models>| it.models.all().len();
        let mut ids = Vec::with_capacity(self.0.iter().map(of).sum());
        for provider in &self.0 {
            ids.extend(
                provider
                    .models
                    .all()
                    .iter()
                    .map(|it| (&*provider.id, &*it.id)),
            );
        }
        ids
    }
}
