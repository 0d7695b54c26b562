//! The fast path of reading: a line in canonical form, with no member that this version does not
//! know, to the record it holds. Where it is sure, it says what the parser would say.

use super::cursor::{Cursor, Read, Unsure};
use super::{Decoded, Op, member, split_crc};
use crate::record::{
    CodeEditProposal, ContentType, Conversation, ConversationMessage, ConversationTurn, Event,
    HistoryEntry, IdHashes, InboxStep, InboxTask, Kind, MessageSums, ProposalStatus, ProposalStep,
    Record, Role, Rollup, Source, TaskStatus, ThoughtRecord, Timestamp, ToolCallDone, ToolCallReq,
    ToolStatus, TurnKind, Validity,
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
        (Kind::ToolCalls, Op::Completed | Op::Failed) => Record::CallDone(outcome(line, op)?),
        (Kind::ToolCalls, _) => Record::CallRequested(request(line, op)?),
        (Kind::Events, _) => Record::Event(event(line, op)?),
        (Kind::History, _) => Record::History(entry(line, op)?),
        (Kind::Messages, _) => Record::Message(Box::new(message(line, op)?)),
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

/// Whether what the checksum of a line covers is surely a record in canonical form, with all that
/// the log gives, whose own time is that of its line: what [`decode`] reads has the envelope that
/// the line has. Nothing is made of it, so a scan can ask this of every line.
#[inline]
pub(super) fn is_sure(kind: Kind, covered: &[u8], at: i64) -> bool {
    let passed = || {
        let mut line = Cursor::of_texts(covered)?;
        let op = line.op(kind)?;
        let line = &mut line;
        match (kind, op) {
            (Kind::ConversationTurns, _) => pass_turn(line, at)?,
            (Kind::ToolCalls, Op::Completed | Op::Failed) => pass_outcome(line, at)?,
            (Kind::ToolCalls, _) => pass_request(line, at)?,
            (Kind::Events, _) => pass_event(line, at)?,
            (Kind::History, _) => pass_entry(line, at)?,
            (Kind::Messages, _) => pass_message(line, at)?,
            // Of the others there are few: who asks reads them.
            _ => return Err(Unsure),
        }
        line.end()
    };
    passed().is_ok()
}

/// The time of an assertion or its retraction.
fn validity(line: &mut Cursor<'_>, op: Op) -> Read<Validity> {
    let at = line.integer()?;
    Ok(Validity {
        at,
        is_valid: op != Op::Retracted,
    })
}

/// Reads a member, or passes it: then it is only looked at, and nothing is made of it.
macro_rules! one {
    (read $line:ident $op:ident $name:literal uuid) => { $line.need_uuid(member!($name))? };
    (read $line:ident $op:ident $name:literal may uuid) => { $line.may_uuid(member!($name))? };
    (read $line:ident $op:ident $name:literal own validity) => {
        $line.need(member!($name), |line| validity(line, $op))?
    };
    (read $line:ident $op:ident $name:literal own $how:ident) => { one!(read $line $op $name $how) };
    (read $line:ident $op:ident $name:literal id) => { one!(read $line $op $name integer) };
    // It is always there in a line, and need not be in input.
    (read $line:ident $op:ident $name:literal sequence) => { one!(read $line $op $name may integer) };
    (read $line:ident $op:ident $name:literal instant) => {
        $line.need(member!($name), Cursor::word::<Timestamp>)?
    };
    (read $line:ident $op:ident $name:literal word $type:ty) => {
        $line.need(member!($name), Cursor::word::<$type>)?
    };
    (read $line:ident $op:ident $name:literal may $how:ident) => {
        $line.may(member!($name), Cursor::$how)?
    };
    (read $line:ident $op:ident $name:literal $how:ident) => {
        $line.need(member!($name), Cursor::$how)?
    };

    (pass $line:ident $at:ident $name:literal own instant) => {
        $line.need(member!($name), |line| line.pass_instant($at))?
    };
    (pass $line:ident $at:ident $name:literal own $how:ident) => {
        $line.need(member!($name), |line| line.pass_integer($at))?
    };
    (pass $line:ident $at:ident $name:literal id) => { $line.need(member!($name), Cursor::pass_id)? };
    (pass $line:ident $at:ident $name:literal sequence) => { one!(read $line $at $name integer) };
    (pass $line:ident $at:ident $name:literal text) => { $line.need(member!($name), Cursor::pass_text)? };
    (pass $line:ident $at:ident $name:literal may text) => {
        $line.may(member!($name), Cursor::pass_text)?
    };
    (pass $line:ident $at:ident $name:literal may texts) => {
        $line.may(member!($name), Cursor::pass_texts)?
    };
    (pass $line:ident $at:ident $name:literal may payload) => {
        $line.may(member!($name), Cursor::pass_payload)?
    };
    (pass $line:ident $at:ident $name:literal $($how:tt)+) => { one!(read $line $at $name $($how)+) };
}

/// The members of a type of record, in canonical order: makes a function that reads them after a
/// line's head, and one that only says whether they are there, of a record whose own time is `at`.
macro_rules! members {
    (
        $read:ident($op:ident), $pass:ident: $record:ident {
            $($field:ident: $name:literal [$($how:tt)+] $(then $repeated:literal)?,)+
            $(; $rest:ident: $value:expr)?
        }
    ) => {
        #[inline]
        pub(super) fn $read(line: &mut Cursor<'_>, $op: Op) -> Read<$record> {
            let _ = $op;
            Ok($record {
                $($field: {
                    let value = one!(read line $op $name $($how)+);
                    $(line.may_uuid(member!($repeated))?;)?
                    value
                },)+
                $($rest: $value,)?
            })
        }

        #[inline]
        fn $pass(line: &mut Cursor<'_>, at: i64) -> Read<()> {
            let _ = at;
            $(
                one!(pass line at $name $($how)+);
                $(line.may_uuid(member!($repeated))?;)?
            )+
            Ok(())
        }
    };
}

members! {
    turn(op), pass_turn: ConversationTurn {
        id: "id" [uuid],
        parent_id: "parent_id" [may uuid],
        message_id: "message_id" [uuid],
        thread_id: "thread_id" [may uuid],
        kind: "kind" [word TurnKind],
        created_at: "created_at" [own validity],
        content: "content" [text],
    }
}

members! {
    request(op), pass_request: ToolCallReq {
        request_id: "request_id" [uuid],
        call_id: "call_id" [text],
        parent_id: "parent_id" [uuid],
        vendor: "vendor" [text],
        tool_name: "tool_name" [text],
        started_at: "started_at" [own validity],
        args_sha256: "args_sha256" [text],
        arguments_json: "arguments_json" [may payload],
    }
}

members! {
    outcome(op), pass_outcome: ToolCallDone {
        request_id: "request_id" [uuid],
        // The parent is for those who grep: it is the request's.
        call_id: "call_id" [text] then "parent_id",
        ended_at: "ended_at" [own validity],
        latency_ms: "latency_ms" [integer],
        error_kind: "error_kind" [may text],
        error_msg: "error_msg" [may text],
        outcome_json: "outcome_json" [may payload],
        ; status: if op == Op::Failed { ToolStatus::Failed } else { ToolStatus::Completed }
    }
}

members! {
    event(op), pass_event: Event {
        id: "id" [id],
        parent_id: "parent_id" [may integer],
        event_type: "event_type" [text],
        created_at: "created_at" [own integer],
        payload: "payload" [may payload],
    }
}

members! {
    entry(op), pass_entry: HistoryEntry {
        id: "id" [id],
        chat_id: "chat_id" [integer],
        role: "role" [word Role],
        created_at: "created_at" [own integer],
        text: "text" [text],
    }
}

members! {
    message(op), pass_message: ConversationMessage {
        id: "id" [uuid],
        conversation_id: "conversation_id" [uuid],
        sequence: "sequence" [sequence],
        timestamp: "timestamp" [own instant],
        role: "role" [word Role],
        source: "source" [word Source],
        content_type: "content_type" [word ContentType],
        model_used: "model_used" [may text],
        config_used: "config_used" [may text],
        orchestration_mode: "orchestration_mode" [may text],
        task_type: "task_type" [may text],
        tokens_in: "tokens_in" [may integer],
        tokens_out: "tokens_out" [may integer],
        tokens_cache_write: "tokens_cache_write" [may integer],
        tokens_cache_read: "tokens_cache_read" [may integer],
        tokens_reasoning: "tokens_reasoning" [may integer],
        latency_ms: "latency_ms" [may integer],
        context_utilization: "context_utilization" [may fraction],
        handoff_steps: "handoff_steps" [may integer],
        compression_applied: "compression_applied" [may flag],
        error_type: "error_type" [may text],
        error: "error" [may text],
        tool_name: "tool_name" [may text],
        tool_call_id: "tool_call_id" [may text],
        models_in_chain: "models_in_chain" [may texts],
        part_of: "part_of" [may uuid],
        content: "content" [text],
        reasoning: "reasoning" [may text],
        tool_args: "tool_args" [may payload],
        tool_result: "tool_result" [may text],
        inference_metadata: "inference_metadata" [may payload],
    }
}

fn conversation(line: &mut Cursor<'_>) -> Read<Conversation> {
    Ok(Conversation {
        id: line.need_uuid(member!("id"))?,
        workspace: line.may(member!("workspace"), Cursor::text)?,
        project: line.may(member!("project"), Cursor::text)?,
        client: line.need(member!("client"), Cursor::word)?,
        user_id: line.may(member!("user_id"), Cursor::text)?,
        session_id: line.may(member!("session_id"), Cursor::text)?,
        parent_id: line.may_uuid(member!("parent_id"))?,
        parent_call_id: line.may(member!("parent_call_id"), Cursor::text)?,
        title: line.may(member!("title"), Cursor::text)?,
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
        let created_at = line.need(member!("created_at"), Cursor::integer)?;
        return Ok(Record::InboxTask(InboxTask {
            id,
            update_id,
            created_at,
            updated_at: created_at,
            chat_id: line.may(member!("chat_id"), Cursor::integer)?,
            message_date: line.may(member!("message_date"), Cursor::integer)?,
            text: line.may(member!("text"), Cursor::text)?,
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
        part: line.may(member!("part"), Cursor::digits)?.unwrap_or(0),
        through_seq: line.need(member!("through_seq"), Cursor::digits)?,
        messages: line.need(member!("messages"), Cursor::digits)?,
        requests: line.need(member!("requests"), Cursor::digits)?,
        tokens_in: line.need(member!("tokens_in"), Cursor::digits)?,
        tokens_out: line.need(member!("tokens_out"), Cursor::digits)?,
        tokens_cache_write: line
            .may(member!("tokens_cache_write"), Cursor::digits)?
            .unwrap_or(0),
        tokens_cache_read: line
            .may(member!("tokens_cache_read"), Cursor::digits)?
            .unwrap_or(0),
        tokens_reasoning: line
            .may(member!("tokens_reasoning"), Cursor::digits)?
            .unwrap_or(0),
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
        message_hashes: line
            .may(member!("message_hashes"), hashes)?
            .unwrap_or_default(),
        conversation_hashes: line
            .may(member!("conversation_hashes"), hashes)?
            .unwrap_or_default(),
    })
}

fn hashes(line: &mut Cursor<'_>) -> Read<IdHashes> {
    IdHashes::parse(line.text()?.as_bytes()).ok_or(Unsure)
}

fn sums(line: &mut Cursor<'_>) -> Read<MessageSums> {
    line.expect("{\"tokens_in\":")?;
    let sums = MessageSums {
        tokens_in: line.digits()?,
        tokens_out: line.need(member!("tokens_out"), Cursor::digits)?,
        tokens_cache_write: line
            .may(member!("tokens_cache_write"), Cursor::digits)?
            .unwrap_or(0),
        tokens_cache_read: line
            .may(member!("tokens_cache_read"), Cursor::digits)?
            .unwrap_or(0),
        tokens_reasoning: line
            .may(member!("tokens_reasoning"), Cursor::digits)?
            .unwrap_or(0),
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
