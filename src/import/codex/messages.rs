//! Messages in a rollout file: role and parts of the content.

use super::shape::{Part, Payload};
use super::{Here, Rollout};
use crate::collections::of_prompt;
use crate::import::facts::{Facts, Others, joined};
use crate::import::heading::{Heading, Of, Origin};
use crate::import::json::{self, Raw};
use crate::record::{Role, TurnKind};

impl Rollout {
    pub(super) fn message(
        &mut self,
        here: Here,
        payload: &Payload<'_>,
    ) -> Result<Option<Facts<'static>>, String> {
        let role = json::owned_text(payload.role)?.unwrap_or_else(|| "(no role)".to_owned());
        let kind = match role.as_str() {
            "user" => TurnKind::User,
            "assistant" => TurnKind::Assistant,
            "developer" | "system" => TurnKind::System,
            _ => {
                let what = format!("response_item.message.{role}");
                return Ok(Some(Facts::not_understood(what)));
            }
        };
        let mut texts = Vec::new();
        let mut others = Others::default();
        match json::owned_text(payload.content)? {
            Some(text) => texts.push(text),
            None if parts(payload.content, &mut texts, &mut others)? => {}
            None => return Ok(None),
        }
        let content = joined(texts.iter().map(String::as_str), &others);
        let kind = match kind {
            TurnKind::User if is_environment(&content) => TurnKind::SysInfo,
            kind => kind,
        };
        let role = match kind {
            TurnKind::User => Role::User,
            TurnKind::Assistant => Role::Assistant,
            _ => Role::System,
        };
        let prompt = of_prompt(&content).filter(|_| kind == TurnKind::User);
        let mut facts = self.turn(here, kind, role, content)?;
        if let Some(prompt) = prompt
            && self.prompted.insert(self.session)
        {
            let of = Of::ConversationRef(self.session);
            facts
                .headings
                .extend(Heading::titled(of, Origin::Prompt, &prompt));
        }
        facts
            .not_understood
            .extend(others.under("response_item.message"));
        Ok(Some(facts))
    }
}

/// Splits a content into its texts and the types of all other parts. Returns whether the value is a
/// content or null.
pub(super) fn parts(
    raw: Raw<'_>,
    texts: &mut Vec<String>,
    others: &mut Others,
) -> Result<bool, String> {
    let Some(items) = json::array(raw)? else {
        return Ok(raw.get().is_none());
    };
    for item in items {
        let Some(part) = json::object::<Part<'_>>(item)? else {
            others.count("(not an object)");
            continue;
        };
        match json::owned_text(part.text)? {
            Some(text) => texts.push(text),
            None => others.count(json::type_name(part.kind)?),
        }
    }
    Ok(true)
}

/// Whether it is environment information that the client sends in the user's role.
fn is_environment(content: &str) -> bool {
    let Some(tag) = content.trim_start().strip_prefix('<') else {
        return false;
    };
    let end = tag.find(|c: char| c == '>' || c.is_whitespace());
    let name = end.and_then(|end| tag.get(..end)).unwrap_or_default();
    ["environment_context", "user_instructions"]
        .iter()
        .any(|known| name.eq_ignore_ascii_case(known))
}
