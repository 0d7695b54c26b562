//! How long the texts of records are.

use crate::record::{
    CodeEditProposal, Conversation, ConversationMessage, ConversationTurn, Event, HistoryEntry,
    InboxStep, InboxTask, ProposalStep, Record, Rollup, ThoughtRecord, ToolCallDone, ToolCallReq,
};

/// Tells the texts of any length that a record has, with their lengths. Every field is named, so
/// that a new one does not compile until it is known whether it is such a text.
#[allow(clippy::too_many_lines)] // One arm for each kind.
fn each_text(record: &Record, told: &mut dyn FnMut(&'static str, usize)) {
    let len = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    match record {
        Record::Turn(ConversationTurn {
            id: _,
            parent_id: _,
            message_id: _,
            thread_id: _,
            kind: _,
            created_at: _,
            content,
        })
        | Record::Thought(ThoughtRecord {
            id: _,
            task_id: _,
            prev_hash: _,
            hash: _,
            thought_type: _,
            agent_id: _,
            timestamp: _,
            content,
        }) => told("content", content.len()),
        Record::History(HistoryEntry {
            id: _,
            chat_id: _,
            role: _,
            created_at: _,
            text,
        }) => told("text", text.len()),
        Record::CallRequested(ToolCallReq {
            request_id: _,
            call_id: _,
            parent_id: _,
            vendor: _,
            tool_name: _,
            args_sha256: _,
            arguments_json,
            started_at: _,
        }) => told("arguments_json", len(arguments_json)),
        Record::CallDone(done) => each_text_of_outcome(done, told),
        Record::Proposal(CodeEditProposal {
            request_id: _,
            created_at: _,
            confidence: _,
            status: _,
            decided_at: _,
            applied_at: _,
            commit_hash: _,
            diffs_json,
        }) => told("diffs_json", diffs_json.len()),
        Record::Conversation(conversation) | Record::ConversationUpdated(conversation) => {
            each_text_of_conversation(conversation, told);
        }
        Record::Message(message) => each_text_of_message(message, told),
        Record::Event(Event {
            id: _,
            parent_id: _,
            event_type: _,
            created_at: _,
            payload,
        }) => told("payload", len(payload)),
        Record::InboxTask(InboxTask {
            id: _,
            update_id: _,
            chat_id: _,
            text,
            message_date: _,
            created_at: _,
            updated_at: _,
            status: _,
            attempts: _,
            locked_at: _,
            error: _,
            payload,
        }) => {
            told("text", len(text));
            told("payload", len(payload));
        }
        Record::InboxStep(InboxStep {
            id: _,
            status: _,
            at: _,
            attempt: _,
            error,
        }) => told("error", len(error)),
        Record::Rollup(rollup) => each_text_of_rollup(rollup, told),
        Record::ProposalStep(ProposalStep {
            request_id: _,
            status: _,
            at: _,
            decided_at: _,
            applied_at: _,
            commit_hash: _,
        }) => {}
    }
}

fn each_text_of_outcome(done: &ToolCallDone, told: &mut dyn FnMut(&'static str, usize)) {
    let ToolCallDone {
        request_id: _,
        call_id: _,
        ended_at: _,
        latency_ms: _,
        outcome_json,
        error_kind,
        error_msg,
        status: _,
    } = done;
    for (name, text) in [
        ("outcome_json", outcome_json),
        ("error_msg", error_msg),
        ("error_kind", error_kind),
    ] {
        told(name, text.as_ref().map_or(0, String::len));
    }
}

fn each_text_of_conversation(
    conversation: &Conversation,
    told: &mut dyn FnMut(&'static str, usize),
) {
    let Conversation {
        id: _,
        workspace: _,
        project: _,
        client: _,
        user_id: _,
        session_id: _,
        parent_id: _,
        parent_call_id: _,
        title: _,
        status: _,
        created_at: _,
        updated_at: _,
        last_error,
    } = conversation;
    told("last_error", last_error.as_ref().map_or(0, String::len));
}

fn each_text_of_message(message: &ConversationMessage, told: &mut dyn FnMut(&'static str, usize)) {
    let ConversationMessage {
        id: _,
        conversation_id: _,
        sequence: _,
        timestamp: _,
        role: _,
        source: _,
        content_type: _,
        model_used: _,
        config_used: _,
        orchestration_mode: _,
        task_type: _,
        tokens_in: _,
        tokens_out: _,
        tokens_cache_write: _,
        tokens_cache_read: _,
        tokens_reasoning: _,
        latency_ms: _,
        context_utilization: _,
        handoff_steps: _,
        compression_applied: _,
        error_type: _,
        error,
        tool_name: _,
        tool_call_id: _,
        models_in_chain,
        part_of: _,
        content,
        reasoning,
        tool_args,
        tool_result,
        inference_metadata,
    } = message;
    told("content", content.len());
    for (name, text) in [
        ("reasoning", reasoning),
        ("tool_args", tool_args),
        ("tool_result", tool_result),
        ("inference_metadata", inference_metadata),
        ("error", error),
    ] {
        told(name, text.as_ref().map_or(0, String::len));
    }
    let models = models_in_chain.iter().flatten();
    told("models_in_chain", models.map(String::len).sum());
}

fn each_text_of_rollup(rollup: &Rollup, told: &mut dyn FnMut(&'static str, usize)) {
    let Rollup {
        day: _,
        model_used: _,
        config_used: _,
        orchestration_mode: _,
        task_type: _,
        part: _,
        through_seq: _,
        messages: _,
        requests: _,
        tokens_in: _,
        tokens_out: _,
        tokens_cache_write: _,
        tokens_cache_read: _,
        tokens_reasoning: _,
        latency_ms_sum: _,
        latency_count: _,
        latency_sketch: _,
        context_utilization_sum: _,
        context_utilization_count: _,
        compressed: _,
        errors: _,
        errors_by_type,
        conversations: _,
        active_conversations: _,
        others,
        message_hashes: _,
        conversation_hashes: _,
    } = rollup;
    for (name, types) in [
        ("errors_by_type", errors_by_type),
        ("others", &others.errors_by_type),
    ] {
        told(name, types.keys().map(String::len).sum());
    }
}

/// The bytes of a record's texts of any length.
pub(crate) fn text_len(record: &Record) -> usize {
    let mut sum = 0;
    each_text(record, &mut |_, len| sum += len);
    sum
}

/// The longest of them, and its length.
pub(super) fn largest_field(record: &Record) -> String {
    let mut largest: Option<(&str, usize)> = None;
    each_text(record, &mut |name, len| {
        if largest.is_none_or(|(_, most)| len >= most) {
            largest = Some((name, len));
        }
    });
    largest.map_or_else(String::new, |(name, len)| format!("{name} has {len}"))
}
