//! Writes a line, member by member, in canonical order.

use serde::Serialize;
use uuid::Uuid;

use super::{LINE_START, Op, TAIL_START, member};
use crate::error::Result;
use crate::record::{
    CodeEditProposal, Conversation, ConversationMessage, ConversationTurn, Event, Form,
    HistoryEntry, InboxStep, InboxTask, ProposalStatus, ProposalStep, Record, Rollup, TaskStatus,
    ThoughtRecord, ToolCallDone, ToolCallReq, form, push_quoted,
};

pub(super) struct LineWriter<'a> {
    pub(super) out: &'a mut Vec<u8>,
}

impl LineWriter<'_> {
    pub(super) fn begin(&mut self, seq: u64, at: i64, op: Op) {
        self.push(LINE_START);
        self.push(itoa::Buffer::new().format(seq));
        self.int(member!("at"), at);
        self.word(member!("op"), op.as_str());
    }

    /// The key's fields, what the record is found by, and the rest.
    pub(super) fn body(&mut self, record: &Record, parent_id: Option<Uuid>) -> Result<()> {
        match record {
            Record::Turn(turn) => self.turn(turn),
            Record::CallRequested(req) => return self.request(req),
            Record::CallDone(done) => return self.outcome(done, parent_id),
            Record::Proposal(proposal) => return self.proposal(proposal),
            Record::ProposalStep(step) => self.proposal_step(step),
            Record::Conversation(conversation) | Record::ConversationUpdated(conversation) => {
                self.conversation(conversation);
            }
            Record::Message(message) => return self.message(message),
            Record::Event(event) => return self.event(event),
            Record::History(entry) => self.entry(entry),
            Record::Thought(thought) => self.thought(thought),
            Record::Rollup(rollup) => self.rollup(rollup),
            Record::InboxTask(task) => return self.task(task),
            Record::InboxStep(step) => self.task_step(step),
        }
        Ok(())
    }

    fn turn(&mut self, turn: &ConversationTurn) {
        self.uuid(member!("id"), &turn.id);
        self.opt_uuid(member!("parent_id"), turn.parent_id.as_ref());
        self.uuid(member!("message_id"), &turn.message_id);
        self.opt_uuid(member!("thread_id"), turn.thread_id.as_ref());
        self.word(member!("kind"), turn.kind.as_str());
        self.int(member!("created_at"), turn.created_at.at);
        self.text(member!("content"), &turn.content);
    }

    fn request(&mut self, req: &ToolCallReq) -> Result<()> {
        self.uuid(member!("request_id"), &req.request_id);
        self.text(member!("call_id"), &req.call_id);
        self.uuid(member!("parent_id"), &req.parent_id);
        self.text(member!("vendor"), &req.vendor);
        self.text(member!("tool_name"), &req.tool_name);
        self.int(member!("started_at"), req.started_at.at);
        self.text(member!("args_sha256"), &req.args_sha256);
        self.opt_json("arguments_json", req.arguments_json.as_deref())
    }

    fn outcome(&mut self, done: &ToolCallDone, parent_id: Option<Uuid>) -> Result<()> {
        self.uuid(member!("request_id"), &done.request_id);
        self.text(member!("call_id"), &done.call_id);
        self.opt_uuid(member!("parent_id"), parent_id.as_ref());
        self.int(member!("ended_at"), done.ended_at.at);
        self.int(member!("latency_ms"), done.latency_ms);
        self.opt_text(member!("error_kind"), done.error_kind.as_deref());
        self.opt_text(member!("error_msg"), done.error_msg.as_deref());
        self.opt_json("outcome_json", done.outcome_json.as_deref())
    }

    fn proposal(&mut self, proposal: &CodeEditProposal) -> Result<()> {
        self.uuid(member!("request_id"), &proposal.request_id);
        self.int(member!("created_at"), proposal.created_at.at);
        self.opt_fraction(member!("confidence"), proposal.confidence);
        self.opt_json("diffs_json", Some(&proposal.diffs_json))
    }

    fn proposal_step(&mut self, step: &ProposalStep) {
        let ProposalStep { status, at, .. } = *step;
        let is_decision = matches!(status, ProposalStatus::Approved | ProposalStatus::Denied);
        let own = |is_own: bool| is_own.then_some(at);
        self.uuid(member!("request_id"), &step.request_id);
        self.opt_int(member!("decided_at"), own(is_decision).or(step.decided_at));
        let is_applied = status == ProposalStatus::Applied;
        self.opt_int(member!("applied_at"), own(is_applied).or(step.applied_at));
        self.opt_text(member!("commit_hash"), step.commit_hash.as_deref());
    }

    fn conversation(&mut self, conversation: &Conversation) {
        self.uuid(member!("id"), &conversation.id);
        self.opt_text(member!("workspace"), conversation.workspace.as_deref());
        self.opt_text(member!("project"), conversation.project.as_deref());
        self.word(member!("client"), conversation.client.as_str());
        self.opt_text(member!("user_id"), conversation.user_id.as_deref());
        self.opt_text(member!("session_id"), conversation.session_id.as_deref());
        self.opt_uuid(member!("parent_id"), conversation.parent_id.as_ref());
        let call = conversation.parent_call_id.as_deref();
        self.opt_text(member!("parent_call_id"), call);
        self.opt_text(member!("title"), conversation.title.as_deref());
        self.word(member!("status"), conversation.status.as_str());
        self.text(member!("created_at"), conversation.created_at.as_str());
        self.text(member!("updated_at"), conversation.updated_at.as_str());
        self.opt_text(member!("last_error"), conversation.last_error.as_deref());
    }

    fn message(&mut self, message: &ConversationMessage) -> Result<()> {
        self.uuid(member!("id"), &message.id);
        self.uuid(member!("conversation_id"), &message.conversation_id);
        self.opt_int(member!("sequence"), message.sequence);
        self.text(member!("timestamp"), message.timestamp.as_str());
        self.word(member!("role"), message.role.as_str());
        self.word(member!("source"), message.source.as_str());
        self.word(member!("content_type"), message.content_type.as_str());
        self.opt_text(member!("model_used"), message.model_used.as_deref());
        self.opt_text(member!("config_used"), message.config_used.as_deref());
        let mode = message.orchestration_mode.as_deref();
        self.opt_text(member!("orchestration_mode"), mode);
        self.opt_text(member!("task_type"), message.task_type.as_deref());
        self.opt_int(member!("tokens_in"), message.tokens_in);
        self.opt_int(member!("tokens_out"), message.tokens_out);
        self.opt_int(member!("tokens_cache_write"), message.tokens_cache_write);
        self.opt_int(member!("tokens_cache_read"), message.tokens_cache_read);
        self.opt_int(member!("tokens_reasoning"), message.tokens_reasoning);
        self.opt_int(member!("latency_ms"), message.latency_ms);
        let utilization = message.context_utilization;
        self.opt_fraction(member!("context_utilization"), utilization);
        self.opt_int(member!("handoff_steps"), message.handoff_steps);
        if let Some(is_applied) = message.compression_applied {
            self.push(member!("compression_applied"));
            self.push(if is_applied { "true" } else { "false" });
        }
        self.opt_text(member!("error_type"), message.error_type.as_deref());
        self.opt_text(member!("error"), message.error.as_deref());
        self.opt_text(member!("tool_name"), message.tool_name.as_deref());
        self.opt_text(member!("tool_call_id"), message.tool_call_id.as_deref());
        if let Some(models) = &message.models_in_chain {
            self.texts(member!("models_in_chain"), models);
        }
        self.opt_uuid(member!("part_of"), message.part_of.as_ref());
        self.text(member!("content"), &message.content);
        self.opt_text(member!("reasoning"), message.reasoning.as_deref());
        self.opt_json("tool_args", message.tool_args.as_deref())?;
        self.opt_text(member!("tool_result"), message.tool_result.as_deref());
        let metadata = message.inference_metadata.as_deref();
        self.opt_json("inference_metadata", metadata)
    }

    fn event(&mut self, event: &Event) -> Result<()> {
        self.int(member!("id"), event.id);
        self.opt_int(member!("parent_id"), event.parent_id);
        self.text(member!("event_type"), &event.event_type);
        self.int(member!("created_at"), event.created_at);
        self.opt_json("payload", event.payload.as_deref())
    }

    fn entry(&mut self, entry: &HistoryEntry) {
        self.int(member!("id"), entry.id);
        self.int(member!("chat_id"), entry.chat_id);
        self.word(member!("role"), entry.role.as_str());
        self.int(member!("created_at"), entry.created_at);
        self.text(member!("text"), &entry.text);
    }

    fn thought(&mut self, thought: &ThoughtRecord) {
        self.text(member!("id"), &thought.id);
        self.text(member!("task_id"), &thought.task_id);
        self.text(member!("prev_hash"), &thought.prev_hash);
        self.text(member!("hash"), &thought.hash);
        self.word(member!("type"), thought.thought_type.as_str());
        self.text(member!("agent_id"), &thought.agent_id);
        self.text(member!("timestamp"), thought.timestamp.as_str());
        self.text(member!("content"), &thought.content);
    }

    fn rollup(&mut self, rollup: &Rollup) {
        self.text(member!("day"), &rollup.day.to_string());
        self.opt_text(member!("model_used"), rollup.model_used.as_deref());
        self.opt_text(member!("config_used"), rollup.config_used.as_deref());
        let mode = rollup.orchestration_mode.as_deref();
        self.opt_text(member!("orchestration_mode"), mode);
        self.opt_text(member!("task_type"), rollup.task_type.as_deref());
        if rollup.part > 0 {
            self.count(member!("part"), rollup.part);
        }
        self.count(member!("through_seq"), rollup.through_seq);
        self.count(member!("messages"), rollup.messages);
        self.count(member!("requests"), rollup.requests);
        self.count(member!("tokens_in"), rollup.tokens_in);
        self.count(member!("tokens_out"), rollup.tokens_out);
        let split = [
            (member!("tokens_cache_write"), rollup.tokens_cache_write),
            (member!("tokens_cache_read"), rollup.tokens_cache_read),
            (member!("tokens_reasoning"), rollup.tokens_reasoning),
        ];
        for (member, sum) in split.into_iter().filter(|(_, sum)| *sum > 0) {
            self.count(member, sum);
        }
        self.count(member!("latency_ms_sum"), rollup.latency_ms_sum);
        self.count(member!("latency_count"), rollup.latency_count);
        self.json_of(member!("latency_sketch"), &rollup.latency_sketch);
        let sum = rollup.context_utilization_sum;
        self.json_of(member!("context_utilization_sum"), &sum);
        let count = rollup.context_utilization_count;
        self.count(member!("context_utilization_count"), count);
        self.count(member!("compressed"), rollup.compressed);
        self.count(member!("errors"), rollup.errors);
        self.json_of(member!("errors_by_type"), &rollup.errors_by_type);
        self.count(member!("conversations"), rollup.conversations);
        self.count(member!("active_conversations"), rollup.active_conversations);
        if !rollup.others.are_zero() {
            self.json_of(member!("others"), &rollup.others);
        }
        if !rollup.message_hashes.is_empty() {
            self.json_of(member!("message_hashes"), &rollup.message_hashes);
        }
        if !rollup.conversation_hashes.is_empty() {
            self.json_of(member!("conversation_hashes"), &rollup.conversation_hashes);
        }
    }

    fn task(&mut self, task: &InboxTask) -> Result<()> {
        self.int(member!("id"), task.id);
        self.int(member!("update_id"), task.update_id);
        self.int(member!("created_at"), task.created_at);
        self.opt_int(member!("chat_id"), task.chat_id);
        self.opt_int(member!("message_date"), task.message_date);
        self.opt_text(member!("text"), task.text.as_deref());
        self.opt_json("payload", task.payload.as_deref())
    }

    fn task_step(&mut self, step: &InboxStep) {
        self.int(member!("id"), step.id);
        self.int(member!("attempts"), step.attempt);
        let is_claim = step.status == TaskStatus::InProgress;
        self.opt_int(member!("locked_at"), is_claim.then_some(step.at));
        self.opt_text(member!("error"), step.error.as_deref());
    }

    #[inline(always)]
    #[allow(clippy::inline_always)] // Nearly all is constant, and is then stored without a call.
    fn push(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
    }

    fn word(&mut self, member: &'static str, word: &str) {
        self.push(member);
        self.out.push(b'"');
        self.push(word);
        self.out.push(b'"');
    }

    fn text(&mut self, member: &'static str, value: &str) {
        self.push(member);
        push_quoted(self.out, value);
    }

    fn opt_text(&mut self, member: &'static str, value: Option<&str>) {
        if let Some(value) = value {
            self.text(member, value);
        }
    }

    fn texts(&mut self, member: &'static str, values: &[String]) {
        self.push(member);
        self.out.push(b'[');
        for (place, value) in values.iter().enumerate() {
            if place > 0 {
                self.out.push(b',');
            }
            push_quoted(self.out, value);
        }
        self.out.push(b']');
    }

    fn uuid(&mut self, member: &'static str, id: &Uuid) {
        let mut text = [b'"'; 38];
        id.hyphenated().encode_lower(&mut text[1..]);
        self.push(member);
        self.out.extend_from_slice(&text);
    }

    fn opt_uuid(&mut self, member: &'static str, id: Option<&Uuid>) {
        if let Some(id) = id {
            self.uuid(member, id);
        }
    }

    fn int(&mut self, member: &'static str, value: i64) {
        self.push(member);
        self.push(itoa::Buffer::new().format(value));
    }

    fn count(&mut self, member: &'static str, value: u64) {
        self.push(member);
        self.push(itoa::Buffer::new().format(value));
    }

    fn opt_int(&mut self, member: &'static str, value: Option<i64>) {
        if let Some(value) = value {
            self.int(member, value);
        }
    }

    fn opt_fraction(&mut self, member: &'static str, value: Option<f64>) {
        if let Some(value) = value {
            self.json_of(member, &value);
        }
    }

    fn json_of(&mut self, member: &'static str, value: &impl Serialize) {
        self.push(member);
        // Writing to a Vec cannot fail.
        let _ = serde_json::to_writer(&mut *self.out, value);
    }

    fn opt_json(&mut self, name: &'static str, value: Option<&str>) -> Result<()> {
        let Some(value) = value else { return Ok(()) };
        match form(name, value)? {
            Form::Nested => self.raw(name, value),
            Form::Text => {
                self.name(name);
                push_quoted(self.out, value);
            }
        }
        Ok(())
    }

    fn name(&mut self, name: &str) {
        self.out.push(b',');
        push_quoted(self.out, name);
        self.out.push(b':');
    }

    pub(super) fn raw(&mut self, name: &str, json: &str) {
        self.name(name);
        self.push(json);
    }

    /// Seals the line that starts at `start` with its checksum and LF.
    pub(super) fn end(&mut self, start: usize) {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let crc = crc32fast::hash(self.out.get(start..).unwrap_or_default());
        let mut hex = [0; 8];
        for (place, digit) in hex.iter_mut().rev().enumerate() {
            *digit = DIGITS[(crc >> (4 * place)) as usize & 0xF];
        }
        self.out.extend_from_slice(TAIL_START);
        self.out.extend_from_slice(&hex);
        self.out.extend_from_slice(b"\"}\n");
    }
}
