//! `decklog record`

use std::io::{self, IsTerminal};

use decklog::human::counted;
use decklog::{Ack, AckStatus, Durability, Error, Warning, ndjson};
use serde::Serialize;

use super::context::Context;
use super::exit::{Exit, Failure};
use super::output;
use super::stdin::Ahead;

/// Record JSON objects from standard input, one per line
///
/// A record has the field names of the files and its kind: conversation_turns, tool_calls,
/// code_edit_proposals, conversations, messages, events, inbox, history, thought_records or
/// rollups. The kind of a turn is turn_kind. op is requested, completed, failed or retracted for a
/// tool call; pending, approved, denied, applied or reverted for a proposal; queued, in_progress,
/// done or failed for a task of the inbox. Optional, with a default from the log: id and time of
/// messages, events, tasks, history entries and thoughts; the sequence of a message; the hashes of
/// a thought; args_sha256 of a call with arguments; the times of a conversation. The time of a
/// reverted proposal is at. To change a conversation, give all its fields, with its created_at:
/// missing fields are removed. Rejected lines are reported by number; the others are recorded.
///
/// Lines of a store's files are valid input: their fields identify their kind.
#[derive(Debug, clap::Args)]
#[command(after_help = r#"Example:
  decklog record --ack < records.jsonl

Its lines, folded here:
  {"kind":"conversation_turns","turn_kind":"user","id":"67e55044-10b1-426f-9247-bb680e5fe0c8",
   "message_id":"67e55044-10b1-426f-9247-bb680e5fe0c8","created_at":1766832000123,"content":"hi"}
  {"kind":"tool_calls","op":"requested","request_id":"0f5d3f3e-8f1c-4f0e-9f0b-0d3a5c1f7e11",
   "call_id":"call_1","parent_id":"67e55044-10b1-426f-9247-bb680e5fe0c8","vendor":"anthropic",
   "tool_name":"read_file","started_at":1766832000200,"arguments_json":{"path":"a.txt"}}
  {"kind":"tool_calls","op":"completed","request_id":"0f5d3f3e-8f1c-4f0e-9f0b-0d3a5c1f7e11",
   "call_id":"call_1","ended_at":1766832000237,"latency_ms":37,"outcome_json":{"lines":12}}
  {"kind":"code_edit_proposals","request_id":"0f5d3f3e-8f1c-4f0e-9f0b-0d3a5c1f7e11",
   "created_at":1766832000250,"confidence":0.9,"diffs_json":[{"file":"a.txt","+":"hi"}]}
  {"kind":"code_edit_proposals","op":"approved",
   "request_id":"0f5d3f3e-8f1c-4f0e-9f0b-0d3a5c1f7e11","decided_at":1766832001000}
  {"kind":"code_edit_proposals","op":"applied","commit_hash":"4b825dc",
   "request_id":"0f5d3f3e-8f1c-4f0e-9f0b-0d3a5c1f7e11","applied_at":1766832002000}
  {"kind":"code_edit_proposals","op":"reverted",
   "request_id":"0f5d3f3e-8f1c-4f0e-9f0b-0d3a5c1f7e11","at":1766832003000}
  {"kind":"conversations","id":"9d1c6a52-3b0e-4a83-8f57-2c1f0f5f4a10","client":"cli","project":"x"}
  {"kind":"messages","conversation_id":"9d1c6a52-3b0e-4a83-8f57-2c1f0f5f4a10",
   "role":"assistant","content":"2","model_used":"small-1","tokens_in":12,"tokens_out":1}
  {"kind":"events","event_type":"agent.started","payload":{"agent":"coder"}}
  {"kind":"events","event_type":"turn.started","parent_id":1}
  {"kind":"inbox","update_id":7001,"chat_id":-1001234,"text":"deploy","message_date":1766832000}
  {"kind":"inbox","op":"in_progress","id":1}
  {"kind":"inbox","op":"failed","id":1,"error":"no such host"}
  {"kind":"history","chat_id":-1001234,"role":"user","text":"hi"}
  {"kind":"thought_records","task_id":"fix-the-build","agent_id":"coder","type":"plan",
   "content":"Read the error first."}
  {"kind":"rollups","day":"2025-09-01","model_used":"small-1","through_seq":900,"messages":4,
   "requests":2,"tokens_in":24,"tokens_out":2,"latency_ms_sum":850,"latency_count":1,
   "latency_sketch":[[342,1]],"context_utilization_sum":0.25,"context_utilization_count":1,
   "compressed":0,"errors":0,"conversations":2,"active_conversations":2}"#)]
pub struct Args {
    /// Print {"line", "seq", "status"} for each record when it is acknowledged
    ///
    /// status is added, unchanged or rejected; a rejected record has a reason and no seq. "assigned"
    /// has the id of an event, a task or a history entry, or the sequence of a message. "warning"
    /// reports a probable mistake in an accepted record, such as a time in seconds.
    #[arg(long)]
    ack: bool,
    /// When a record is acknowledged
    #[arg(long, value_enum, default_value_t)]
    durability: Durability,
}

#[derive(Serialize)]
struct AckLine<'a> {
    line: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    seq: Option<u64>,
    status: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    assigned: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    warning: Option<&'static str>,
}

/// The results of records.
#[derive(Debug, Default, Serialize)]
pub struct Tally {
    pub added: u64,
    pub unchanged: u64,
    pub rejected: u64,
}

impl Tally {
    pub fn count(&mut self, answer: Result<AckStatus, ()>) {
        match answer {
            Ok(AckStatus::Added) => self.added += 1,
            Ok(AckStatus::Unchanged) => self.unchanged += 1,
            Err(()) => self.rejected += 1,
        }
    }

    pub fn in_words(&self) -> String {
        let (unchanged, rejected) = (self.unchanged, self.rejected);
        let added = counted(self.added, "record");
        format!("{added} added, {unchanged} unchanged, {rejected} rejected")
    }
}

pub fn run(args: &Args, context: &mut Context) -> Result<Exit, Failure> {
    let store = context.open_to_write(args.durability)?;
    if io::stdin().is_terminal() {
        output::say("reading records from the terminal, one JSON object a line; Ctrl-D ends");
    }
    let cannot_read = |e| Failure::store(format!("cannot read standard input: {e}"));
    let ahead = Ahead::start().map_err(cannot_read)?;
    let mut tally = Tally::default();
    let mut answers_are_read = args.ack;
    loop {
        let batch = ahead.take().map_err(cannot_read)?;
        let (Some(first), Some(last)) = (batch.first(), batch.last()) else {
            break;
        };
        let lines = format!("lines {} to {} are not acknowledged", first.line, last.line);
        let answers = ndjson::record(&store, batch);
        let answers = answers.map_err(|e| Failure::from(e).in_front(&lines))?;
        for (line, answer) in &answers {
            tally.count(answer.as_ref().map(|ack| ack.status).map_err(drop));
            if let Err(reason) = answer {
                output::say(&format!("line {line}: {reason}"));
            }
        }
        if answers_are_read {
            match acknowledge(context, &answers) {
                // Later records are still recorded.
                Err(Failure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
                    answers_are_read = false;
                }
                other => other?,
            }
        }
    }
    store.sync()?;
    if !args.ack {
        context.print(&tally, &tally.in_words())?;
    }
    Ok(Exit::with_findings(tally.rejected > 0))
}

fn acknowledge(
    context: &mut Context,
    answers: &[(u64, Result<Ack, Error>)],
) -> Result<(), Failure> {
    for (line, answer) in answers {
        let ack = answer.as_ref().ok();
        context.out.json(&AckLine {
            line: *line,
            seq: ack.map(|ack| ack.seq),
            status: ack.map_or("rejected", |ack| ack.status.as_str()),
            assigned: ack.and_then(|ack| ack.assigned),
            reason: answer.as_ref().err().map(Error::to_string),
            warning: ack.and_then(|ack| ack.warning).map(Warning::as_str),
        })?;
    }
    Ok(context.out.flush()?)
}
