//! Lines and events beside the items of responses: other agents, speech, reviews, names.

use xxhash_rust::xxh3::xxh3_64;

use super::shape::Payload;
use super::{Here, Rollout};
use crate::import::facts::Facts;
use crate::import::heading::{Heading, Of, Origin};
use crate::import::ids::foreign_id;
use crate::import::json::{self, Raw};
use crate::record::{Role, TurnKind};

impl Rollout {
    /// A message from another agent. It has the role of a user. One that only the provider can read
    /// has no content.
    pub(super) fn agent_said(
        &mut self,
        here: Here,
        payload: &Payload<'_>,
    ) -> Result<Option<Facts<'static>>, String> {
        let text = json::owned_text(payload.content)?.filter(|text| !text.is_empty());
        text.map(|text| self.turn(here, TurnKind::User, Role::User, text))
            .transpose()
    }

    /// What was said in a conversation by voice. Its model is another one, which is not named.
    pub(super) fn realtime(
        &mut self,
        here: Here,
        payload: &Payload<'_>,
    ) -> Result<Facts<'static>, String> {
        let kind = json::type_name(payload.kind)?;
        match &*kind {
            "transcript_segment" => {}
            // The state of the session, and references to items that have lines of their own.
            "realtime_session_started" | "realtime_session_closed" | "bem_item_promoted" => {
                return Ok(Facts::default());
            }
            _ => return Ok(Facts::not_understood(format!("realtime_item.{kind}"))),
        }
        let role = json::text(payload.role)?;
        let (kind, role) = match role.as_deref() {
            Some("user") => (TurnKind::User, Role::User),
            Some("assistant") => (TurnKind::Assistant, Role::Assistant),
            _ => return Ok(Facts::not_understood("realtime_item.transcript_segment")),
        };
        let Some(text) = json::owned_text(payload.text)? else {
            return Ok(Facts::not_understood("realtime_item.transcript_segment"));
        };
        let mut facts = self.turn_unless_empty(here, kind, role, text)?;
        if let Some(said) = &mut facts.said {
            said.message.model_used = None;
        }
        Ok(facts)
    }

    /// Reasoning as the model wrote it. An item that follows may repeat it.
    pub(super) fn raw_reasoning(
        &mut self,
        here: Here,
        payload: &Payload<'_>,
    ) -> Result<Option<Facts<'static>>, String> {
        let Some(text) = json::owned_text(payload.text)? else {
            return Ok(None);
        };
        self.raw.push(xxh3_64(text.as_bytes()));
        self.reasoning(here, text).map(Some)
    }

    /// Removes the reasoning that was reported before its item.
    pub(super) fn without_raw(&mut self, texts: &mut Vec<String>) {
        let raw = std::mem::take(&mut self.raw);
        texts.retain(|text| !raw.contains(&xxh3_64(text.as_bytes())));
    }

    /// The start of a review: what is to be reviewed.
    pub(super) fn review(
        &mut self,
        here: Here,
        payload: &Payload<'_>,
    ) -> Result<Option<Facts<'static>>, String> {
        let text = json::owned_text(payload.prompt)?.or(json::owned_text(payload.hint)?);
        text.map(|text| self.turn_unless_empty(here, TurnKind::SysInfo, Role::System, text))
            .transpose()
    }

    /// The user took back prompts and what followed them. All of it stays in the log.
    pub(super) fn rolled_back(
        &mut self,
        here: Here,
        payload: &Payload<'_>,
    ) -> Result<Option<Facts<'static>>, String> {
        let turns = json::number(payload.num_turns);
        let text = turns.map(|turns| format!("[thread_rolled_back {turns}]"));
        text.map(|text| self.turn(here, TurnKind::SysInfo, Role::System, text))
            .transpose()
    }

    /// The name of a session.
    pub(super) fn named(&self, payload: &Payload<'_>) -> Result<Option<Facts<'static>>, String> {
        let mut facts = Facts::default();
        let thread = json::text(payload.thread_id)?;
        let thread = thread.map_or(self.session, |id| foreign_id("codex:session", &id));
        // Without a name, it is removed.
        if let Some(name) = json::text(payload.thread_name.or(payload.name))? {
            let of = Of::ConversationRef(thread);
            facts
                .headings
                .extend(Heading::titled(of, Origin::User, &name));
        }
        Ok(Some(facts))
    }

    /// What an agent did that a call of this session started.
    pub(super) fn activity(
        &self,
        activity: Raw<'_>,
        agent: Raw<'_>,
        call: Raw<'_>,
    ) -> Result<Facts<'static>, String> {
        match json::text(activity)?.as_deref() {
            Some("started") => self.started(agent, call),
            _ => Ok(Facts::default()),
        }
    }
}
