//! The steps of one conversation.

mod step;

use std::collections::{HashMap, HashSet};

use serde_json::Value;
use uuid::Uuid;

use super::model::{Content, ObservationResult, Step, SubagentRef, extra};
use super::own::{self, Own};
use crate::collections::{CallQuery, MessageQuery, Order, TurnQuery};
use crate::error::Result;
use crate::record::{
    ConversationMessage, ConversationTurn, Role, ToolCallDone, ToolCallReq, TurnKind,
};
use crate::store::Store;

type Recorded = (ToolCallReq, Option<ToolCallDone>);

/// The steps so far of a conversation.
pub(super) struct Steps {
    talk: Uuid,
    drafts: Vec<Draft>,
    /// The latest step with a call of this id, and its position there.
    calls: HashMap<String, (usize, usize)>,
    turns: HashMap<Uuid, Vec<ConversationTurn>>,
    /// The recorded calls that are in no step yet.
    recorded: Vec<Recorded>,
    /// The calls that messages name.
    named: HashSet<String>,
}

#[derive(Default)]
struct Draft {
    at: i64,
    source: &'static str,
    /// The response of the model that the step is.
    response: Option<Uuid>,
    messages: Vec<ConversationMessage>,
    /// A turn without a message.
    turn: Option<ConversationTurn>,
    calls: Vec<DraftCall>,
    results: Vec<ObservationResult>,
    /// Calls that no response of the model asked for.
    is_dispatch: bool,
}

struct DraftCall {
    id: String,
    name: String,
    arguments: own::Arguments,
    own: Option<Own>,
    done: Option<ToolCallDone>,
}

impl DraftCall {
    fn recorded((req, done): Recorded) -> DraftCall {
        let (arguments, own) = own::of_call(&req);
        DraftCall {
            id: req.call_id,
            name: req.tool_name,
            arguments,
            own: Some(own),
            done,
        }
    }
}

impl Steps {
    /// Reads a conversation.
    pub(super) fn read(store: &Store, talk: Uuid) -> Result<Steps> {
        let query = MessageQuery {
            limit: usize::MAX,
            order: Order::OldestFirst,
            ..MessageQuery::default()
        };
        let messages = store.messages(talk, &query)?.items;
        let (turns, others) = turns_of(store, talk, &messages)?;
        let ids = turns.values().flatten().chain(&others).map(|turn| turn.id);
        let mut recorded = Vec::new();
        for parent in std::iter::once(talk).chain(ids) {
            let query = CallQuery {
                parent_id: Some(parent),
                order: Order::OldestFirst,
                limit: usize::MAX,
                ..CallQuery::default()
            };
            recorded.extend(store.tool_calls(&query)?.items);
        }
        recorded.sort_by_key(|(req, _)| req.started_at.at);
        let named = messages.iter().filter(|it| it.role == Role::Assistant);
        let named = named.filter_map(|message| message.tool_call_id.clone());
        let mut steps = Steps {
            talk,
            drafts: Vec::new(),
            calls: HashMap::new(),
            turns,
            recorded,
            named: named.collect(),
        };
        let mut others = others.into_iter().peekable();
        for message in messages {
            let at = message.timestamp.at();
            while let Some(turn) = others.next_if(|turn| turn.created_at.at < at) {
                steps.turn(turn);
            }
            steps.message(message);
        }
        others.for_each(|turn| steps.turn(turn));
        let rest = std::mem::take(&mut steps.recorded);
        steps.dispatch(rest);
        steps.give_outcomes();
        Ok(steps)
    }

    fn last(&mut self) -> Option<&mut Draft> {
        self.drafts.last_mut()
    }

    fn message(&mut self, message: ConversationMessage) {
        let turns = self.turns.get(&message.id);
        let turns: Vec<Uuid> = turns.into_iter().flatten().map(|turn| turn.id).collect();
        if message.role == Role::Tool
            && let Some(place) = message
                .tool_call_id
                .as_ref()
                .and_then(|id| self.calls.get(id))
        {
            let (step, call) = *place;
            self.observe(step, call, &message);
            self.dispatch_of(&turns);
            return;
        }
        let source = match message.role {
            Role::Assistant => "agent",
            Role::User => "user",
            Role::System | Role::Tool => "system",
        };
        let response = (source == "agent").then(|| message.part_of.unwrap_or(message.id));
        let model = &message.model_used;
        let is_same = |step: &Draft| {
            let models = step.messages.iter().filter_map(|it| it.model_used.as_ref());
            response.is_some()
                && step.response == response
                && models.chain(model).is_sorted_by(|a, b| a == b)
        };
        if !self.drafts.last().is_some_and(is_same) {
            self.drafts.push(Draft {
                at: message.timestamp.at(),
                source,
                response,
                ..Draft::default()
            });
        }
        if source == "agent" {
            self.calls_of(&message, &turns);
        }
        if let Some(step) = self.last() {
            step.messages.push(message);
        }
        self.dispatch_of(&turns);
    }

    /// Adds the calls of a message, or of the turns that it has, to the last step.
    fn calls_of(&mut self, message: &ConversationMessage, turns: &[Uuid]) {
        let mut calls = Vec::new();
        if let Some(id) = &message.tool_call_id {
            let all = &self.recorded;
            let is_it = |(req, _): &Recorded| req.call_id == *id;
            let own = all
                .iter()
                .position(|it| is_it(it) && turns.contains(&it.0.parent_id));
            let place = own.or_else(|| all.iter().position(is_it));
            calls.push(match place {
                Some(place) => DraftCall::recorded(self.recorded.remove(place)),
                None => DraftCall {
                    id: id.clone(),
                    name: message.tool_name.clone().unwrap_or_default(),
                    arguments: own::Arguments::of(message.tool_args.as_deref()),
                    own: None,
                    done: None,
                },
            });
        }
        let named = &self.named;
        let is_own = |(req, _): &mut Recorded| {
            turns.contains(&req.parent_id) && !named.contains(&req.call_id)
        };
        let own: Vec<Recorded> = self.recorded.extract_if(.., is_own).collect();
        calls.extend(own.into_iter().map(DraftCall::recorded));
        self.add_calls(calls);
    }

    fn add_calls(&mut self, calls: Vec<DraftCall>) {
        let place = self.drafts.len().saturating_sub(1);
        let Some(step) = self.drafts.last_mut() else {
            return;
        };
        for call in calls {
            self.calls
                .insert(call.id.clone(), (place, step.calls.len()));
            step.calls.push(call);
        }
    }

    /// Adds a step for the calls of turns that are not the model's.
    fn dispatch_of(&mut self, turns: &[Uuid]) {
        let named = &self.named;
        let is_own = |(req, _): &mut Recorded| {
            turns.contains(&req.parent_id) && !named.contains(&req.call_id)
        };
        let calls = self.recorded.extract_if(.., is_own).collect();
        self.dispatch(calls);
    }

    fn dispatch(&mut self, calls: Vec<Recorded>) {
        let Some((first, _)) = calls.first() else {
            return;
        };
        self.drafts.push(Draft {
            at: first.started_at.at,
            source: "agent",
            is_dispatch: true,
            ..Draft::default()
        });
        self.add_calls(calls.into_iter().map(DraftCall::recorded).collect());
    }

    /// Adds a turn that has no message.
    fn turn(&mut self, turn: ConversationTurn) {
        let id = turn.id;
        self.drafts.push(Draft {
            at: turn.created_at.at,
            source: match turn.kind {
                TurnKind::Assistant => "agent",
                TurnKind::User => "user",
                TurnKind::System | TurnKind::SysInfo | TurnKind::Tool => "system",
            },
            turn: Some(turn),
            ..Draft::default()
        });
        self.dispatch_of(&[id]);
    }

    /// Adds the message with a call's result to the step of the call.
    fn observe(&mut self, step: usize, call: usize, message: &ConversationMessage) {
        let turns = self.turns_own(message);
        let talk_step = &mut self.drafts[step];
        let call = &mut talk_step.calls[call];
        let said = own::said(message);
        let mut own = Own::new();
        let mut of_message = own::of_message(message, &[result_field(message)]);
        if !turns.is_empty() {
            of_message.insert(own::TURNS.to_owned(), turns.into());
        }
        own.insert("message".to_owned(), of_message.into());
        if let Some(done) = call.done.take() {
            own.insert("outcome".to_owned(), own::of_result(&done, said).into());
        }
        talk_step.results.push(ObservationResult {
            source_call_id: Some(call.id.clone()),
            content: Some(Content::Text(said.to_owned())),
            extra: Some(extra(own)),
            ..ObservationResult::default()
        });
    }

    fn turns_own(&self, message: &ConversationMessage) -> Vec<Value> {
        let turns = self.turns.get(&message.id).into_iter().flatten();
        let said = own::said(message);
        let own = turns.map(|turn| own::of_turn(turn, self.talk, said));
        own.map(Value::Object).collect()
    }

    /// Adds the outcomes of calls for which no message has the result.
    fn give_outcomes(&mut self) {
        for step in &mut self.drafts {
            for call in &mut step.calls {
                let Some(done) = call.done.take() else {
                    continue;
                };
                let said = done.outcome_json.clone();
                let said = said.or_else(|| done.error_msg.clone()).unwrap_or_default();
                let outcome = own::of_result(&done, &said);
                let own = Own::from_iter([("outcome".to_owned(), outcome.into())]);
                step.results.push(ObservationResult {
                    source_call_id: Some(call.id.clone()),
                    content: Some(Content::Text(said)),
                    extra: Some(extra(own)),
                    ..ObservationResult::default()
                });
            }
        }
    }

    /// Adds a reference to a sub-agent's document at the call that started the agent.
    pub(super) fn refer(&mut self, call_id: &str, id: Uuid, session: Option<String>) {
        let Some((step, call)) = self.calls.get(call_id) else {
            return;
        };
        let step = &mut self.drafts[*step];
        let id_of_call = step.calls[*call].id.clone();
        let reference = SubagentRef {
            trajectory_id: Some(id.to_string()),
            session_id: session,
            ..SubagentRef::default()
        };
        let mut results = step.results.iter_mut();
        let known = results.find(|it| it.source_call_id.as_ref() == Some(&id_of_call));
        if let Some(known) = known {
            let references = &mut known.subagent_trajectory_ref;
            references.get_or_insert_default().push(reference);
            return;
        }
        step.results.push(ObservationResult {
            source_call_id: Some(id_of_call),
            subagent_trajectory_ref: Some(vec![reference]),
            ..ObservationResult::default()
        });
    }

    /// The steps of the document. It has at least one.
    pub(super) fn finish(mut self) -> Vec<Step> {
        let drafts = std::mem::take(&mut self.drafts);
        let mut steps: Vec<Step> = (1..)
            .zip(drafts)
            .map(|(step_id, draft)| self.step(step_id, draft))
            .collect();
        if steps.is_empty() {
            steps.push(Step {
                step_id: 1,
                source: "system".to_owned(),
                extra: Some(extra(Own::new())),
                ..Step::default()
            });
        }
        steps
    }
}

/// The field of a result's message that has the text.
fn result_field(message: &ConversationMessage) -> &'static str {
    match message.tool_result {
        Some(_) => "tool_result",
        None => "content",
    }
}

type Turns = (HashMap<Uuid, Vec<ConversationTurn>>, Vec<ConversationTurn>);

/// The turns of each message, and the turns of the conversation that have no message.
fn turns_of(store: &Store, talk: Uuid, messages: &[ConversationMessage]) -> Result<Turns> {
    let ids: HashSet<Uuid> = messages.iter().map(|message| message.id).collect();
    let mut seen = HashSet::new();
    let mut turns: HashMap<Uuid, Vec<ConversationTurn>> = HashMap::new();
    let is_elsewhere = |id: Uuid| -> Result<bool> {
        let message = store.get_message(id)?;
        Ok(message.is_some_and(|message| message.conversation_id != talk))
    };
    for message in messages {
        if let Some(turn) = store.get_turn(message.id)?
            && seen.insert(turn.id)
        {
            turns.entry(message.id).or_default().push(turn);
        }
    }
    for message in messages {
        let query = TurnQuery {
            message_id: Some(message.id),
            limit: usize::MAX,
            ..TurnQuery::default()
        };
        for turn in store.turns(&query)?.items {
            if !seen.contains(&turn.id) && !is_elsewhere(turn.id)? {
                seen.insert(turn.id);
                turns.entry(message.id).or_default().push(turn);
            }
        }
    }
    let query = TurnQuery {
        thread_id: Some(talk),
        limit: usize::MAX,
        ..TurnQuery::default()
    };
    let mut others = Vec::new();
    for turn in store.turns(&query)?.items {
        let is_known = seen.contains(&turn.id) || ids.contains(&turn.id);
        // Sub-agents share the thread but have conversations of their own.
        if !is_known && !is_elsewhere(turn.id)? && !is_elsewhere(turn.message_id)? {
            others.push(turn);
        }
    }
    Ok((turns, others))
}
