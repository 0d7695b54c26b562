//! The fast path of reading: a line in canonical form, with no member that this version does not
//! know, to the record it holds. Where it is sure, it says what the parser would say.

use super::cursor::{Cursor, Read, Unsure};
use super::{Decoded, Op, member, split_crc};
use crate::record::{
    CodeEditProposal, Conversation, ConversationMessage, ConversationTurn, Event, HistoryEntry,
    InboxStep, InboxTask, Kind, MessageSums, ProposalStatus, ProposalStep, Record, Rollup,
    TaskStatus, ThoughtRecord, Timestamp, ToolCallDone, ToolCallReq, ToolStatus, Validity,
};

/// The record of a canonical line; whether its checksum holds is not asked.
#[inline] // Records are long to move.
pub(super) fn decode(kind: Kind, line: &[u8]) -> Read<Decoded> {
    let (covered, _) = split_crc(line).ok_or(Unsure)?;
    let mut line = Cursor::of_texts(covered)?;
    let (seq, at, op) = line.head(kind)?;
    let line = &mut line;
    let record = match (kind, op) {
        (Kind::ConversationTurns, _) => Record::Turn(turn(line, op)?),
        (Kind::ToolCalls, Op::Completed) => Record::CallDone(outcome(line, ToolStatus::Completed)?),
        (Kind::ToolCalls, Op::Failed) => Record::CallDone(outcome(line, ToolStatus::Failed)?),
        (Kind::ToolCalls, _) => Record::CallRequested(request(line, op)?),
        (Kind::Events, _) => Record::Event(event(line)?),
        (Kind::History, _) => Record::History(entry(line)?),
        (Kind::Messages, _) => Record::Message(Box::new(message(line)?)),
        (Kind::Conversations, Op::Updated) => Record::ConversationUpdated(conversation(line)?),
        (Kind::Conversations, _) => Record::Conversation(conversation(line)?),
        (Kind::CodeEditProposals, _) => match step_status(op) {
            None => Record::Proposal(proposal(line, op)?),
            Some(status) => Record::ProposalStep(proposal_step(line, status, at)?),
        },
        (Kind::Inbox, _) => task(line, op, at)?,
        (Kind::ThoughtRecords, _) => Record::Thought(thought(line)?),
        (Kind::Rollups, _) => Record::Rollup(Box::new(rollup(line)?)),
    };
    line.end()?;
    Ok(Decoded {
        seq: Some(seq),
        op,
        record,
    })
}

/// The time of an assertion or its retraction.
fn validity(line: &mut Cursor<'_>, op: Op) -> Read<Validity> {
    let at = line.integer()?;
    Ok(Validity {
        at,
        is_valid: op != Op::Retracted,
    })
}

#[inline]
pub(super) fn turn(line: &mut Cursor<'_>, op: Op) -> Read<ConversationTurn> {
    Ok(ConversationTurn {
        id: line.need_uuid(member!("id"))?,
        parent_id: line.may_uuid(member!("parent_id"))?,
        message_id: line.need_uuid(member!("message_id"))?,
        thread_id: line.may_uuid(member!("thread_id"))?,
        kind: line.need(member!("kind"), Cursor::word)?,
        created_at: line.need(member!("created_at"), |line| validity(line, op))?,
        content: line.need(member!("content"), Cursor::text)?,
    })
}

#[inline]
pub(super) fn request(line: &mut Cursor<'_>, op: Op) -> Read<ToolCallReq> {
    Ok(ToolCallReq {
        request_id: line.need_uuid(member!("request_id"))?,
        call_id: line.need(member!("call_id"), Cursor::text)?,
        parent_id: line.need_uuid(member!("parent_id"))?,
        vendor: line.need(member!("vendor"), Cursor::text)?,
        tool_name: line.need(member!("tool_name"), Cursor::text)?,
        started_at: line.need(member!("started_at"), |line| validity(line, op))?,
        args_sha256: line.need(member!("args_sha256"), Cursor::text)?,
        arguments_json: line.may(member!("arguments_json"), Cursor::payload)?,
    })
}

#[inline]
pub(super) fn outcome(line: &mut Cursor<'_>, status: ToolStatus) -> Read<ToolCallDone> {
    let request_id = line.need_uuid(member!("request_id"))?;
    let call_id = line.need(member!("call_id"), Cursor::text)?;
    // For those who grep: it is the request's.
    line.may_uuid(member!("parent_id"))?;
    Ok(ToolCallDone {
        request_id,
        call_id,
        ended_at: line.need(member!("ended_at"), |line| line.integer().map(Validity::at))?,
        latency_ms: line.need(member!("latency_ms"), Cursor::integer)?,
        error_kind: line.may(member!("error_kind"), Cursor::text)?,
        error_msg: line.may(member!("error_msg"), Cursor::text)?,
        outcome_json: line.may(member!("outcome_json"), Cursor::payload)?,
        status,
    })
}

#[inline]
pub(super) fn event(line: &mut Cursor<'_>) -> Read<Event> {
    Ok(Event {
        id: line.need(member!("id"), Cursor::integer)?,
        parent_id: line.may(member!("parent_id"), Cursor::integer)?,
        event_type: line.need(member!("event_type"), Cursor::text)?,
        created_at: line.need(member!("created_at"), Cursor::integer)?,
        payload: line.may(member!("payload"), Cursor::payload)?,
    })
}

#[inline]
pub(super) fn entry(line: &mut Cursor<'_>) -> Read<HistoryEntry> {
    Ok(HistoryEntry {
        id: line.need(member!("id"), Cursor::integer)?,
        chat_id: line.need(member!("chat_id"), Cursor::integer)?,
        role: line.need(member!("role"), Cursor::word)?,
        created_at: line.need(member!("created_at"), Cursor::integer)?,
        content: line.need(member!("content"), Cursor::text)?,
    })
}

#[inline]
pub(super) fn message(line: &mut Cursor<'_>) -> Read<ConversationMessage> {
    Ok(ConversationMessage {
        id: line.need_uuid(member!("id"))?,
        conversation_id: line.need_uuid(member!("conversation_id"))?,
        sequence: line.may(member!("sequence"), Cursor::integer)?,
        timestamp: line.need(member!("timestamp"), Cursor::word::<Timestamp>)?,
        role: line.need(member!("role"), Cursor::word)?,
        source: line.need(member!("source"), Cursor::word)?,
        content_type: line.need(member!("content_type"), Cursor::word)?,
        model_used: line.may(member!("model_used"), Cursor::text)?,
        config_used: line.may(member!("config_used"), Cursor::text)?,
        orchestration_mode: line.may(member!("orchestration_mode"), Cursor::text)?,
        task_type: line.may(member!("task_type"), Cursor::text)?,
        tokens_in: line.may(member!("tokens_in"), Cursor::integer)?,
        tokens_out: line.may(member!("tokens_out"), Cursor::integer)?,
        latency_ms: line.may(member!("latency_ms"), Cursor::integer)?,
        context_utilization: line.may(member!("context_utilization"), Cursor::fraction)?,
        handoff_steps: line.may(member!("handoff_steps"), Cursor::integer)?,
        compression_applied: line.may(member!("compression_applied"), Cursor::flag)?,
        error_type: line.may(member!("error_type"), Cursor::text)?,
        error: line.may(member!("error"), Cursor::text)?,
        tool_name: line.may(member!("tool_name"), Cursor::text)?,
        models_in_chain: line.may(member!("models_in_chain"), Cursor::texts)?,
        content: line.need(member!("content"), Cursor::text)?,
        tool_args: line.may(member!("tool_args"), Cursor::payload)?,
        tool_result: line.may(member!("tool_result"), Cursor::text)?,
        inference_metadata: line.may(member!("inference_metadata"), Cursor::payload)?,
    })
}

fn conversation(line: &mut Cursor<'_>) -> Read<Conversation> {
    Ok(Conversation {
        id: line.need_uuid(member!("id"))?,
        workspace: line.may(member!("workspace"), Cursor::text)?,
        project: line.may(member!("project"), Cursor::text)?,
        client: line.need(member!("client"), Cursor::word)?,
        user_id: line.may(member!("user_id"), Cursor::text)?,
        session_id: line.may(member!("session_id"), Cursor::text)?,
        status: line.need(member!("status"), Cursor::word)?,
        created_at: line.need(member!("created_at"), Cursor::word::<Timestamp>)?,
        updated_at: line.need(member!("updated_at"), Cursor::word::<Timestamp>)?,
        last_error: line.may(member!("last_error"), Cursor::text)?,
    })
}

fn step_status(op: Op) -> Option<ProposalStatus> {
    match op {
        Op::Approved => Some(ProposalStatus::Approved),
        Op::Denied => Some(ProposalStatus::Denied),
        Op::Applied => Some(ProposalStatus::Applied),
        Op::Reverted => Some(ProposalStatus::Reverted),
        _ => None,
    }
}

fn proposal(line: &mut Cursor<'_>, op: Op) -> Read<CodeEditProposal> {
    Ok(CodeEditProposal {
        request_id: line.need_uuid(member!("request_id"))?,
        created_at: line.need(member!("created_at"), |line| validity(line, op))?,
        confidence: line.may(member!("confidence"), Cursor::fraction)?,
        diffs_json: line.need(member!("diffs_json"), Cursor::payload)?,
        status: ProposalStatus::Pending,
        decided_at: None,
        applied_at: None,
        commit_hash: None,
    })
}

fn proposal_step(line: &mut Cursor<'_>, status: ProposalStatus, at: i64) -> Read<ProposalStep> {
    let mut step = ProposalStep {
        request_id: line.need_uuid(member!("request_id"))?,
        status,
        at,
        decided_at: line.may(member!("decided_at"), Cursor::integer)?,
        applied_at: line.may(member!("applied_at"), Cursor::integer)?,
        commit_hash: line.may(member!("commit_hash"), Cursor::text)?,
    };
    // A step's own time stands in a field of its own, too.
    let own = match status {
        ProposalStatus::Applied => step.applied_at.take(),
        ProposalStatus::Approved | ProposalStatus::Denied => step.decided_at.take(),
        ProposalStatus::Pending | ProposalStatus::Reverted => None,
    };
    step.at = own.unwrap_or(at);
    Ok(step)
}

fn task(line: &mut Cursor<'_>, op: Op, at: i64) -> Read<Record> {
    let id = line.need(member!("id"), Cursor::integer)?;
    let status = match op {
        Op::InProgress => TaskStatus::InProgress,
        Op::Done => TaskStatus::Done,
        Op::Failed => TaskStatus::Failed,
        _ => TaskStatus::Queued,
    };
    if status == TaskStatus::Queued
        && let Some(update_id) = line.may(member!("update_id"), Cursor::integer)?
    {
        return Ok(Record::InboxTask(InboxTask {
            id,
            update_id,
            created_at: line.need(member!("created_at"), Cursor::integer)?,
            payload: line.may(member!("payload"), Cursor::payload)?,
            status,
            attempts: 0,
            locked_at: None,
            error: None,
        }));
    }
    let attempt = line.need(member!("attempts"), Cursor::integer)?;
    let claimed_at = if status == TaskStatus::InProgress {
        line.may(member!("locked_at"), Cursor::integer)?
    } else {
        None
    };
    if id == 0 {
        return Err(Unsure);
    }
    Ok(Record::InboxStep(InboxStep {
        id,
        status,
        at: claimed_at.unwrap_or(at),
        attempt,
        error: line.may(member!("error"), Cursor::text)?,
    }))
}

fn thought(line: &mut Cursor<'_>) -> Read<ThoughtRecord> {
    Ok(ThoughtRecord {
        id: line.need(member!("id"), Cursor::text)?,
        task_id: line.need(member!("task_id"), Cursor::text)?,
        prev_hash: line.need(member!("prev_hash"), Cursor::text)?,
        hash: line.need(member!("hash"), Cursor::text)?,
        thought_type: line.need(member!("type"), Cursor::word)?,
        agent_id: line.need(member!("agent_id"), Cursor::text)?,
        timestamp: line.need(member!("timestamp"), Cursor::word::<Timestamp>)?,
        content: line.need(member!("content"), Cursor::text)?,
    })
}

fn rollup(line: &mut Cursor<'_>) -> Read<Rollup> {
    Ok(Rollup {
        day: line.need(member!("day"), Cursor::word)?,
        model_used: line.may(member!("model_used"), Cursor::text)?,
        config_used: line.may(member!("config_used"), Cursor::text)?,
        orchestration_mode: line.may(member!("orchestration_mode"), Cursor::text)?,
        task_type: line.may(member!("task_type"), Cursor::text)?,
        through_seq: line.need(member!("through_seq"), Cursor::digits)?,
        messages: line.need(member!("messages"), Cursor::digits)?,
        requests: line.need(member!("requests"), Cursor::digits)?,
        tokens_in: line.need(member!("tokens_in"), Cursor::digits)?,
        tokens_out: line.need(member!("tokens_out"), Cursor::digits)?,
        latency_ms_sum: line.need(member!("latency_ms_sum"), Cursor::digits)?,
        latency_count: line.need(member!("latency_count"), Cursor::digits)?,
        latency_sketch: line.need(member!("latency_sketch"), Cursor::parsed)?,
        context_utilization_sum: line.need(member!("context_utilization_sum"), Cursor::fraction)?,
        context_utilization_count: line
            .need(member!("context_utilization_count"), Cursor::digits)?,
        compressed: line.need(member!("compressed"), Cursor::digits)?,
        errors: line.need(member!("errors"), Cursor::digits)?,
        errors_by_type: line.need(member!("errors_by_type"), Cursor::parsed)?,
        conversations: line.need(member!("conversations"), Cursor::digits)?,
        active_conversations: line.need(member!("active_conversations"), Cursor::digits)?,
        others: line.may(member!("others"), sums)?.unwrap_or_default(),
    })
}

fn sums(line: &mut Cursor<'_>) -> Read<MessageSums> {
    line.expect("{\"tokens_in\":")?;
    let sums = MessageSums {
        tokens_in: line.digits()?,
        tokens_out: line.need(member!("tokens_out"), Cursor::digits)?,
        latency_ms_sum: line.need(member!("latency_ms_sum"), Cursor::digits)?,
        latency_count: line.need(member!("latency_count"), Cursor::digits)?,
        latency_sketch: line.need(member!("latency_sketch"), Cursor::parsed)?,
        context_utilization_sum: line.need(member!("context_utilization_sum"), Cursor::fraction)?,
        context_utilization_count: line
            .need(member!("context_utilization_count"), Cursor::digits)?,
        compressed: line.need(member!("compressed"), Cursor::digits)?,
        errors: line.need(member!("errors"), Cursor::digits)?,
        errors_by_type: line.need(member!("errors_by_type"), Cursor::parsed)?,
    };
    line.expect("}").map(|()| sums)
}
