//! Token counts in a rollout file.

use super::shape::{Info, Payload, Total};
use super::{Here, Rollout};
use crate::import::facts::{Counted, Facts, Said, Tokens, blank_message, count, metadata};
use crate::import::json::{self, Raw};
use crate::record::Role;

impl Rollout {
    /// The tokens since the previous count. Codex repeats its totals and restarts them from 0 when
    /// it is restarted. The growth of the total is therefore used or, if there is no previous
    /// total, the tokens of the last response.
    pub(super) fn growth(&mut self, info: Raw<'_>) -> Result<Option<Tokens>, String> {
        let Some(info) = json::member::<Info<'_>>(info)? else {
            return Ok(None);
        };
        let last = json::member::<Total<'_>>(info.last_token_usage).unwrap_or_default();
        let last = last.and_then(tokens_of);
        let total = json::member::<Total<'_>>(info.total_token_usage).unwrap_or_default();
        let Some(total) = total else {
            // Some versions report only the tokens of the last response. The same numbers without
            // an item since then are a repetition.
            let before = std::mem::replace(&mut self.last, last);
            let is_again = self.response.is_none() && before == last;
            return Ok(last.map(|last| if is_again { Tokens::default() } else { last }));
        };
        let Some(total) = tokens_of(total) else {
            return Ok(None);
        };
        let before = self.totals.insert(self.session, total);
        let is_growth =
            |before: &Tokens| total.input >= before.input && total.output >= before.output;
        Ok(Some(match before.filter(is_growth) {
            Some(before) => total.beyond(before),
            // The rest of the total was counted in another file, that of the session that this one
            // continues.
            None => last.map_or(total, |last| total.or_less(last)),
        }))
    }

    pub(super) fn token_count(
        &mut self,
        here: Here,
        info: Raw<'_>,
    ) -> Result<Option<Facts<'static>>, String> {
        let (Some(raw), Some(tokens)) = (info.get(), self.growth(info)?) else {
            return Ok(None);
        };
        let told = json::member::<Info<'_>>(info)?.unwrap_or_default();
        let mut facts = self.used(here, raw, tokens)?;
        if let (Some(said), Some(model)) = (&mut facts.said, json::owned_text(told.model)?) {
            said.message.model_used = Some(model);
        }
        Ok(Some(facts))
    }

    /// The tokens of one response. Once a rollout contains such a line, its totals are ignored,
    /// because they repeat the same tokens.
    pub(super) fn usage_record(
        &mut self,
        here: Here,
        payload: &Payload<'_>,
    ) -> Result<Option<Facts<'static>>, String> {
        let total = json::member::<Total<'_>>(payload.usage)?;
        let (Some(raw), Some(tokens)) = (payload.usage.get(), total.and_then(tokens_of)) else {
            return Ok(None);
        };
        self.has_usage_records = true;
        self.used(here, raw, tokens).map(Some)
    }

    fn used(&mut self, here: Here, raw: &str, tokens: Tokens) -> Result<Facts<'static>, String> {
        let mut facts = Facts::default();
        if tokens != Tokens::default() {
            let response = self.response();
            self.response = None;
            let mut message = blank_message(response, self.session, Role::Assistant, here.at)?;
            message.model_used.clone_from(&self.model);
            message.inference_metadata = Some(metadata(raw));
            count(&mut message, tokens);
            facts.said = Some(Said {
                talk: self.talk(),
                message,
                counted: Some(Counted {
                    response,
                    line: None,
                }),
            });
        }
        Ok(facts)
    }
}

/// The tokens of a total; `None` if it has neither prompt nor output tokens.
fn tokens_of(total: Total<'_>) -> Option<Tokens> {
    let (input, output) = (json::number(total.input)?, json::number(total.output)?);
    let part = |count, most: u64| json::number(count).unwrap_or(0).min(most);
    let cache_read = part(total.cache_read, input);
    Some(Tokens {
        input,
        cache_write: part(total.cache_write, input - cache_read),
        cache_read,
        output,
        reasoning: part(total.reasoning, output),
        ..Tokens::default()
    })
}
