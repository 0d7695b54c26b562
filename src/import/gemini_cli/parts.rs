//! The content of a message in the form of the Gemini API: a text, or parts.

use super::shape::{FunctionCall, FunctionResponse, Part, Response};
use crate::import::facts::Others;
use crate::import::json::{self, Raw};
use crate::import::step::{Call, Outcome};

#[derive(Debug, Default)]
pub(in crate::import) struct Parts {
    pub(in crate::import) texts: Vec<String>,
    pub(in crate::import) thoughts: Vec<String>,
    pub(in crate::import) calls: Vec<Call>,
    pub(in crate::import) results: Vec<Outcome>,
    pub(in crate::import) others: Others,
}

impl Parts {
    pub(in crate::import) fn of(content: Raw<'_>) -> Result<Parts, String> {
        let mut parts = Parts::default();
        match json::array(content)? {
            Some(items) => items.into_iter().try_for_each(|item| parts.add(item))?,
            None => content.get().map_or(Ok(()), |item| parts.add(item))?,
        }
        Ok(parts)
    }

    fn add(&mut self, item: &str) -> Result<(), String> {
        let Some(part) = json::object::<Part<'_>>(item)? else {
            match serde_json::from_str::<String>(item) {
                Ok(text) => self
                    .texts
                    .extend(Some(text).filter(|text| !text.is_empty())),
                Err(_) => self.others.count("(not a part)"),
            }
            return Ok(());
        };
        let mut is_known = false;
        if let Some(text) = json::owned_text(part.text)? {
            is_known = true;
            let texts = if json::is_true(part.thought) {
                &mut self.thoughts
            } else {
                &mut self.texts
            };
            texts.extend(Some(text).filter(|text| !text.is_empty()));
        }
        if let Some(call) = json::member::<FunctionCall<'_>>(part.call)? {
            let (id, name) = (json::owned_text(call.id)?, json::owned_text(call.name)?);
            if let (Some(id), Some(name)) = (id, name) {
                is_known = true;
                let args = call.args.get().unwrap_or_default().to_owned();
                self.calls.push(Call { id, name, args });
            } else {
                self.others.count("functionCall");
                return Ok(());
            }
        }
        if let Some(response) = json::member::<FunctionResponse<'_>>(part.response)? {
            let Some(call_id) = json::owned_text(response.id)? else {
                self.others.count("functionResponse");
                return Ok(());
            };
            is_known = true;
            self.results.push(outcome(call_id, response.response)?);
        }
        for (name, member) in [
            ("inlineData", part.inline),
            ("fileData", part.file),
            ("executableCode", part.code),
            ("codeExecutionResult", part.code_result),
        ] {
            if member.get().is_some() {
                is_known = true;
                self.others.count(name);
            }
        }
        if !is_known {
            self.others.count("(unknown part)");
        }
        Ok(())
    }
}

/// The outcome of a call. A failed one is in the member `error`.
fn outcome(call_id: String, raw: Raw<'_>) -> Result<Outcome, String> {
    let response = json::member::<Response<'_>>(raw)?.unwrap_or_default();
    let error = json::owned_text(response.error)?;
    let text = match (json::owned_text(response.output)?, &error) {
        (Some(text), _) => text,
        (None, Some(error)) => error.clone(),
        (None, None) => json::text_or_bytes(raw)?.unwrap_or_default().into_owned(),
    };
    Ok(Outcome {
        call_id,
        text,
        outcome: None,
        error,
        latency_ms: None,
    })
}
