//! Random records of every kind, as hostile as the types allow, and a plain model of the log that
//! accepted them.

#![allow(
    clippy::cast_sign_loss,
    clippy::unwrap_used,
    clippy::cast_possible_wrap,
    clippy::cast_precision_loss
)]

use std::collections::{BTreeMap, BTreeSet};

use decklog::query::{
    CallQuery, ConversationQuery, EventQuery, MessageQuery, ProposalQuery, RollupQuery, TaskQuery,
    TurnQuery,
};
use decklog::record::{
    ContentType, ConversationStats, ConversationStatus, Day, GIVEN_NUMBER_MAX, IdHashes, InboxStep,
    MessageSums, Rollup, Sketch, Source, TaskStatus, ThoughtType, ToolCall,
};
use decklog::{
    Ack, Client, CodeEditProposal, Conversation, ConversationMessage, ConversationTurn, Event,
    HistoryEntry, InboxTask, Kind, ProposalStatus, ProposalStep, Record, Role, Store,
    ThoughtRecord, Timestamp, ToolCallDone, ToolCallReq, ToolStatus, TurnKind, Validity,
    args_sha256,
};
use uuid::Uuid;

use super::support::{DAY_1, DAY_MS, Rng};

/// The last millisecond of 9999-12-31.
pub const AT_MAX: i64 = 253_402_300_799_999;

pub fn some<T>(rng: &mut Rng, value: impl FnOnce(&mut Rng) -> T) -> Option<T> {
    if rng.one_in(2) {
        Some(value(rng))
    } else {
        None
    }
}

pub fn uuid(rng: &mut Rng) -> Uuid {
    Uuid::from_u64_pair(rng.next(), rng.next())
}

/// A text composed of fragments that are difficult somewhere.
pub fn text(rng: &mut Rng) -> String {
    const PIECES: [&str; 26] = [
        "",
        "a",
        "\"",
        "\\",
        "\\\"",
        "\n",
        "\r\n",
        "\t",
        "\0",
        "\u{1}",
        "\u{1f}",
        "\u{7f}",
        "\u{85}",
        "\u{2028}",
        "\u{2029}",
        "\u{feff}",
        "\u{fffd}",
        "🦀",
        "👩‍👩‍👧",
        "e\u{301}",
        "\u{10ffff}",
        "\\u0000",
        "\\ud800",
        ",\"crc\":\"00000000\"}",
        "{\"seq\":1,",
        "null",
    ];
    (0..rng.below(6)).map(|_| *rng.pick(&PIECES)).collect()
}

pub fn name(rng: &mut Rng) -> String {
    if rng.one_in(12) {
        return "n".repeat(1024);
    }
    text(rng)
}

fn name_not_empty(rng: &mut Rng) -> String {
    Some(name(rng))
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "x".into())
}

pub fn payload(rng: &mut Rng) -> String {
    const PAYLOADS: [&str; 25] = [
        "",
        "null",
        "true",
        "1",
        "-0.0",
        "1e400",
        "\"x\"",
        "{}",
        "[]",
        " {}",
        "{} ",
        "{\n}",
        "[1,\r2]",
        "{a}",
        "{\"a\":}",
        "not json",
        "[ 1 ,\t2 , { \"b\" : [ ] } ]",
        "{\"a\":{\"b\":{\"c\":[1,2.50,\"\\u00e9\\n\"]}},\"a\":1}",
        "[1e400]",
        "[123456789012345678901234567890,0.1000000000000000055511151231257827]",
        "{\"crc\":\"00000000\"}",
        "[\"\\ud83d\\ude00\"]",
        "{\"\u{2028}\":\"\u{7f}\"}",
        "[NaN]",
        "{\"seq\":0}",
    ];
    match rng.below(8) {
        0 => text(rng),
        1 => serde_json::to_string(&BTreeMap::from([(text(rng), text(rng))])).unwrap(),
        2 => "[".repeat(63) + &"]".repeat(63),
        _ => (*rng.pick(&PAYLOADS)).to_owned(),
    }
}

pub fn fraction(rng: &mut Rng) -> f64 {
    const SPECIAL: [f64; 8] = [
        0.0,
        -0.0,
        1.0,
        5e-324,
        f64::MIN_POSITIVE,
        f64::EPSILON,
        0.1 + 0.2,
        1.0 - f64::EPSILON / 2.0,
    ];
    if rng.one_in(3) {
        return *rng.pick(&SPECIAL);
    }
    (rng.next() >> 11) as f64 / (1u64 << 53) as f64
}

pub fn number(rng: &mut Rng) -> i64 {
    *rng.pick(&[
        0,
        1,
        2,
        37,
        i64::from(u32::MAX) + 1,
        (1 << 53) + 1,
        i64::MAX - 1,
        i64::MAX,
    ])
}

pub fn at(rng: &mut Rng) -> i64 {
    match rng.below(20) {
        0 => 0,
        1 => AT_MAX,
        _ => DAY_1 + rng.below(3) as i64 * DAY_MS + rng.below(50_000) as i64,
    }
}

/// An instant not before `from`, in one of its many notations.
pub fn timestamp(rng: &mut Rng, from: i64) -> Timestamp {
    let at = (from + rng.below(100_000) as i64).min(AT_MAX);
    let (day, ms) = (at.div_euclid(DAY_MS), at.rem_euclid(DAY_MS));
    let date = decklog::record::Day::of(day * DAY_MS).unwrap();
    let (hour, minute, second) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1000 % 60);
    let (t, z) = *rng.pick(&[("T", "Z"), ("t", "z"), ("T", "+00:00"), ("T", "-00:00")]);
    let digits = *rng.pick(&["", "000", "000000", "999999999"]);
    let text = format!(
        "{date}{t}{hour:02}:{minute:02}:{second:02}.{:03}{digits}{z}",
        ms % 1000
    );
    match rng.below(4) {
        0 => Timestamp::from_ms(at).unwrap(),
        // 5:45 hours east of UTC, where it is another day.
        1 if hour >= 19 && minute >= 15 && at < AT_MAX - DAY_MS => {
            let date = decklog::record::Day::of((day + 1) * DAY_MS).unwrap();
            let (hour, minute) = (hour - 19, minute - 15);
            format!(
                "{date}T{hour:02}:{minute:02}:{second:02}.{:03}+04:45",
                ms % 1000
            )
            .parse()
            .unwrap()
        }
        _ => text.parse().unwrap(),
    }
}

/// The columns that rollups of a day are grouped by.
type Group = [Option<String>; 4];

/// The expected contents of a log that accepted some records.
#[derive(Debug, Default, Clone)]
pub struct Mirror {
    /// Whether keys get new versions and retractions too.
    with_versions: bool,
    /// The last version of each, and whether it is not retracted.
    turns: BTreeMap<Uuid, (ConversationTurn, bool)>,
    calls: BTreeMap<(Uuid, String), (ToolCall, bool)>,
    proposals: BTreeMap<Uuid, (CodeEditProposal, bool)>,
    conversations: BTreeMap<Uuid, (u64, Conversation)>,
    messages: Vec<(u64, ConversationMessage)>,
    events: BTreeMap<i64, Event>,
    tasks: BTreeMap<i64, InboxTask>,
    history: BTreeMap<i64, HistoryEntry>,
    thoughts: Vec<ThoughtRecord>,
    rollups: BTreeMap<(Day, Group), Rollup>,
    lines: u64,
}

impl Mirror {
    pub fn new(with_versions: bool) -> Mirror {
        Mirror {
            with_versions,
            ..Mirror::default()
        }
    }

    /// A record that the log must accept.
    pub fn any(&self, rng: &mut Rng, kind: Kind) -> Record {
        match kind {
            Kind::ConversationTurns => self.any_turn(rng).into(),
            Kind::ToolCalls => self.any_call(rng),
            Kind::CodeEditProposals => self.any_proposal(rng),
            Kind::Conversations => self.any_conversation(rng).into(),
            Kind::Messages if self.conversations.is_empty() => self.any_conversation(rng).into(),
            Kind::Messages => self.any_message(rng).into(),
            Kind::Events => with!(
                Event::new(
                    one_of(rng, &self.events).map(|event| event.id),
                    *rng.pick(&["a.b", "worker.spawned", "A-1.b_2.c", "x.started"]),
                ),
                id: new_id(rng, &self.events),
                created_at: at(rng),
                payload: some(rng, payload),
            )
            .into(),
            Kind::Inbox => self.any_task(rng),
            Kind::History => with!(
                HistoryEntry::new(
                    *rng.pick(&[i64::MIN, -1, 0, 1, i64::MAX]),
                    *rng.pick(Role::ALL),
                    text(rng),
                ),
                id: new_id(rng, &self.history),
                created_at: at(rng),
            )
            .into(),
            Kind::ThoughtRecords => self.any_thought(rng).into(),
            Kind::Rollups => self.any_rollup(rng).into(),
            _ => panic!("{kind} is new"),
        }
    }

    fn any_turn(&self, rng: &mut Rng) -> ConversationTurn {
        let known = one_of(rng, &self.turns).filter(|_| self.with_versions);
        let mut turn = ConversationTurn {
            id: known.map_or_else(|| uuid(rng), |(turn, _)| turn.id),
            parent_id: some(rng, uuid),
            message_id: uuid(rng),
            kind: *rng.pick(TurnKind::ALL),
            content: text(rng),
            created_at: Validity::at(at(rng)),
            thread_id: some(rng, uuid),
        };
        turn.created_at.is_valid = known.is_none() || rng.one_in(2);
        turn
    }

    fn any_call(&self, rng: &mut Rng) -> Record {
        let known = one_of(rng, &self.calls);
        if let Some(((req, None), true)) = known
            && rng.one_in(2)
        {
            let mut done = ToolCallDone {
                request_id: req.request_id,
                call_id: req.call_id.clone(),
                ended_at: Validity::at(at(rng)),
                latency_ms: number(rng),
                outcome_json: some(rng, payload),
                error_kind: some(rng, name),
                error_msg: some(rng, text),
                status: *rng.pick(&[ToolStatus::Completed, ToolStatus::Failed]),
            };
            if done.status == ToolStatus::Completed {
                (done.error_kind, done.error_msg) = (None, None);
            }
            return done.into();
        }
        let known = known
            .filter(|_| self.with_versions)
            .map(|((req, _), _)| req);
        let arguments = some(rng, payload);
        let hashed = arguments.clone().unwrap_or_else(|| payload(rng));
        let mut req = ToolCallReq {
            request_id: known.map_or_else(|| uuid(rng), |req| req.request_id),
            call_id: known.map_or_else(|| name_not_empty(rng), |req| req.call_id.clone()),
            parent_id: uuid(rng),
            vendor: name(rng),
            tool_name: name(rng),
            args_sha256: args_sha256(&hashed),
            arguments_json: arguments,
            started_at: Validity::at(at(rng)),
        };
        req.started_at.is_valid = known.is_none() || rng.one_in(2);
        req.into()
    }

    fn any_proposal(&self, rng: &mut Rng) -> Record {
        use ProposalStatus::{Applied, Approved, Denied, Pending, Reverted};
        if let Some((known, true)) = one_of(rng, &self.proposals) {
            let next = match known.status {
                Pending => Some(*rng.pick(&[Approved, Denied])),
                Approved => Some(Applied),
                Applied => Some(Reverted),
                Denied | Reverted => None,
            };
            if let Some(next) = next {
                let mut step = ProposalStep::new(known.request_id, next, at(rng));
                if next == Applied {
                    step.commit_hash = some(rng, name_not_empty);
                }
                return step.into();
            }
            if self.with_versions && rng.one_in(2) {
                let mut taken_back = known.clone();
                taken_back.created_at = Validity::retracted(at(rng));
                taken_back.status = Pending;
                (taken_back.decided_at, taken_back.applied_at) = (None, None);
                taken_back.commit_hash = None;
                return taken_back.into();
            }
        }
        CodeEditProposal {
            confidence: some(rng, fraction),
            ..CodeEditProposal::new(uuid(rng), payload(rng), at(rng))
        }
        .into()
    }

    fn any_conversation(&self, rng: &mut Rng) -> Conversation {
        let known = one_of(rng, &self.conversations).filter(|_| self.with_versions);
        let created_at = if let Some((_, known)) = known {
            known.created_at.clone()
        } else {
            let at = at(rng);
            timestamp(rng, at)
        };
        let id = known.map_or_else(|| uuid(rng), |(_, known)| known.id);
        with!(Conversation::new(id, *rng.pick(Client::ALL)),
            workspace: some(rng, name),
            project: some(rng, name),
            user_id: some(rng, name),
            session_id: some(rng, name),
            parent_id: some(rng, uuid),
            agent: some(rng, name),
            parent_call_id: some(rng, name),
            title: some(rng, name),
            status: *rng.pick(ConversationStatus::ALL),
            updated_at: timestamp(rng, created_at.at()),
            created_at,
            last_error: some(rng, text),
        )
    }

    fn any_message(&self, rng: &mut Rng) -> ConversationMessage {
        let place = rng.below(self.conversations.len());
        let (_, conversation) = self.conversations.values().nth(place).unwrap();
        let taken: BTreeSet<i64> = self.sequences(conversation.id).collect();
        let last = taken.last().copied().unwrap_or(0);
        let sequence = match rng.below(30) {
            0 => GIVEN_NUMBER_MAX,
            1..6 => rng.below(40) as i64,
            _ => last.saturating_add(1),
        };
        let is_free = !taken.contains(&sequence);
        let sequence = is_free.then_some(sequence).filter(|_| rng.one_in(2));
        let at = at(rng);
        let (tokens_in, tokens_out) = (some(rng, number), some(rng, number));
        let third = |rng: &mut Rng, of: Option<i64>| of.filter(|_| rng.one_in(2)).map(|n| n / 3);
        let tokens_cache_write = third(rng, tokens_in);
        with!(ConversationMessage::new(conversation.id, *rng.pick(Role::ALL), text(rng)),
            id: uuid(rng),
            sequence,
            timestamp: timestamp(rng, at),
            source: *rng.pick(Source::ALL),
            content_type: *rng.pick(ContentType::ALL),
            model_used: some(rng, name),
            config_used: some(rng, name),
            orchestration_mode: some(rng, name),
            task_type: some(rng, name),
            git_branch: some(rng, name),
            tokens_in,
            tokens_out,
            tokens_cache_write,
            tokens_cache_write_1h: third(rng, tokens_cache_write),
            tokens_cache_read: third(rng, tokens_in),
            tokens_reasoning: third(rng, tokens_out),
            latency_ms: some(rng, number),
            context_utilization: some(rng, fraction),
            cost_usd: some(rng, |rng| fraction(rng) * 1e3),
            handoff_steps: some(rng, number),
            compression_applied: some(rng, |rng| rng.one_in(2)),
            error_type: some(rng, name),
            error: rng.one_in(6).then(|| text(rng)),
            tool_name: some(rng, name),
            tool_call_id: some(rng, name),
            models_in_chain: some(rng, |rng| (0..rng.below(3)).map(|_| name(rng)).collect()),
            part_of: some(rng, uuid),
            reasoning: some(rng, text),
            tool_args: some(rng, payload),
            tool_result: some(rng, text),
            inference_metadata: some(rng, payload),
        )
    }

    fn any_task(&self, rng: &mut Rng) -> Record {
        use TaskStatus::{Done, Failed, InProgress, Queued};
        let known = one_of(rng, &self.tasks).filter(|_| rng.one_in(2));
        let next = match known.map(|task| task.status) {
            Some(Queued) => Some(InProgress),
            Some(InProgress) => Some(*rng.pick(&[Done, Failed, Queued])),
            _ => None,
        };
        if let (Some(task), Some(status)) = (known, next) {
            let attempt = task.attempts + i64::from(status == InProgress);
            return InboxStep {
                id: task.id,
                status,
                at: at(rng),
                attempt: some(rng, |_| attempt).unwrap_or(0),
                error: some(rng, text),
            }
            .into();
        }
        let update_id = match rng.below(10) {
            0 => i64::MIN,
            1 => GIVEN_NUMBER_MAX,
            _ => rng.next() as i64 >> 12,
        };
        let is_new = self.tasks.values().all(|task| task.update_id != update_id);
        let at = at(rng);
        let chat_id = some(rng, |rng| rng.next() as i64);
        // A chat message has both.
        let (message_text, message_date) = (text(rng), rng.next() as i64);
        with!(InboxTask::new(
                if is_new {
                    update_id
                } else {
                    rng.next() as i64 >> 12
                },
                some(rng, payload),
            ),
            id: new_id(rng, &self.tasks),
            chat_id,
            text: some(rng, text).or(chat_id.map(|_| message_text)),
            message_date: some(rng, |rng| rng.next() as i64).or(chat_id.map(|_| message_date)),
            created_at: at,
            updated_at: at,
        )
        .into()
    }

    fn any_thought(&self, rng: &mut Rng) -> ThoughtRecord {
        let at = at(rng);
        let id = format!("{}{}", text(rng), uuid(rng));
        let mut thought = ThoughtRecord {
            id,
            task_id: (*rng.pick(&["t", "\"\u{2028}\\", "🦀"])).into(),
            prev_hash: String::new(),
            hash: String::new(),
            thought_type: *rng.pick(ThoughtType::ALL),
            agent_id: name_not_empty(rng),
            timestamp: timestamp(rng, at),
            content: text(rng),
        };
        if rng.one_in(3) {
            self.chain(&mut thought);
        }
        thought
    }

    /// For a day without messages, with a higher sequence number than the log has.
    fn any_rollup(&self, rng: &mut Rng) -> Rollup {
        let day = DAY_1 + (1_000 + rng.below(3) as i64) * DAY_MS;
        let mut rollup = Rollup {
            day: Day::of(day).unwrap(),
            model_used: some(rng, name),
            config_used: some(rng, name),
            orchestration_mode: some(rng, name),
            task_type: some(rng, name),
            part: 0,
            through_seq: 1 << 40,
            messages: number(rng).unsigned_abs(),
            requests: *rng.pick(&[0, 1, u64::MAX]),
            tokens_in: number(rng).unsigned_abs(),
            tokens_out: number(rng).unsigned_abs(),
            tokens_cache_write: number(rng).unsigned_abs(),
            tokens_cache_write_1h: number(rng).unsigned_abs(),
            tokens_cache_read: number(rng).unsigned_abs(),
            tokens_reasoning: number(rng).unsigned_abs(),
            cost_nano_usd: number(rng).unsigned_abs(),
            cost_count: number(rng).unsigned_abs(),
            latency_ms_sum: 0,
            latency_count: 0,
            latency_sketch: Sketch::default(),
            context_utilization_sum: fraction(rng) * 1e6,
            context_utilization_count: number(rng).unsigned_abs(),
            compressed: number(rng).unsigned_abs(),
            errors: number(rng).unsigned_abs(),
            errors_by_type: (0..rng.below(3))
                .map(|_| (name(rng), number(rng).unsigned_abs()))
                .collect(),
            conversations: number(rng).unsigned_abs(),
            active_conversations: 5,
            others: MessageSums::default(),
            message_hashes: IdHashes::default(),
            conversation_hashes: IdHashes::default(),
        };
        for _ in 0..rng.below(5) {
            let ms = number(rng).unsigned_abs();
            rollup.latency_sketch.add(ms);
            rollup.latency_ms_sum = rollup.latency_ms_sum.saturating_add(ms);
            rollup.latency_count += 1;
        }
        if !self.with_versions && self.rollups.contains_key(&key_of(&rollup)) {
            rollup.task_type = Some(uuid(rng).to_string());
        }
        if self.with_versions
            && let Some(known) = one_of(rng, &self.rollups)
        {
            rollup.day = known.day;
            rollup.model_used.clone_from(&known.model_used);
            rollup.config_used.clone_from(&known.config_used);
            rollup
                .orchestration_mode
                .clone_from(&known.orchestration_mode);
            rollup.task_type.clone_from(&known.task_type);
        }
        if let Some(known) = self.rollups.get(&key_of(&rollup)) {
            rollup.through_seq = known.through_seq + 1;
        }
        rollup
    }

    fn chain(&self, thought: &mut ThoughtRecord) {
        let mut chain = self
            .thoughts
            .iter()
            .filter(|known| known.task_id == thought.task_id);
        let last = chain.next_back().map(|known| known.hash.clone());
        thought.prev_hash = last.unwrap_or_else(|| decklog::record::GENESIS_HASH.to_owned());
        thought.hash = thought.computed_hash();
    }

    pub fn sequences(&self, conversation: Uuid) -> impl Iterator<Item = i64> {
        let messages = self.messages.iter().map(|(_, message)| message);
        let own = messages.filter(move |message| message.conversation_id == conversation);
        own.map(|message| message.sequence.unwrap())
    }

    /// Applies an accepted record.
    pub fn take(&mut self, record: Record, ack: Ack) {
        self.lines += 1;
        assert_eq!(ack.seq, self.lines);
        let given = |id: i64, max: i64| if id == 0 { max + 1 } else { id };
        let assigned = match record {
            Record::Turn(turn) => {
                let stands = turn.created_at.is_valid;
                self.turns.insert(turn.id, (turn, stands));
                None
            }
            Record::CallRequested(req) => {
                let stands = req.started_at.is_valid;
                let known = self.calls.remove(&(req.request_id, req.call_id.clone()));
                let done = known.and_then(|((_, done), _)| done);
                self.calls
                    .insert((req.request_id, req.call_id.clone()), ((req, done), stands));
                None
            }
            Record::CallDone(done) => {
                let key = (done.request_id, done.call_id.clone());
                self.calls.get_mut(&key).unwrap().0.1 = Some(done);
                None
            }
            Record::Proposal(proposal) if !proposal.created_at.is_valid => {
                self.proposals.get_mut(&proposal.request_id).unwrap().1 = false;
                None
            }
            Record::Proposal(proposal) => {
                self.proposals.insert(proposal.request_id, (proposal, true));
                None
            }
            Record::ProposalStep(step) => {
                let (known, _) = self.proposals.get_mut(&step.request_id).unwrap();
                known.status = step.status;
                match step.status {
                    ProposalStatus::Approved | ProposalStatus::Denied => {
                        known.decided_at = Some(step.at);
                    }
                    ProposalStatus::Applied => {
                        known.applied_at = Some(step.at);
                        known.commit_hash = step.commit_hash;
                    }
                    _ => {}
                }
                None
            }
            Record::Conversation(conversation) | Record::ConversationUpdated(conversation) => {
                self.conversations
                    .insert(conversation.id, (ack.seq, conversation));
                None
            }
            Record::Message(mut message) => {
                let last = self.sequences(message.conversation_id).max().unwrap_or(0);
                message.sequence = message.sequence.or(Some(last + 1));
                let sequence = message.sequence;
                let is_answer = message.role == Role::Assistant
                    || message.role != Role::User && message.error.is_some();
                if is_answer && message.task_type.is_none() {
                    let asked = self.messages.iter().filter(|(seq, known)| {
                        known.conversation_id == message.conversation_id
                            && known.role == Role::User
                            && *seq < ack.seq
                            && known.sequence < message.sequence
                    });
                    let asked = asked.max_by_key(|(_, known)| known.sequence);
                    message.task_type = asked.and_then(|(_, asked)| asked.task_type.clone());
                }
                self.messages.push((ack.seq, *message));
                sequence
            }
            Record::Event(mut event) => {
                event.id = given(event.id, last_id(&self.events));
                let id = event.id;
                self.events.insert(id, event);
                Some(id)
            }
            Record::History(mut entry) => {
                entry.id = given(entry.id, last_id(&self.history));
                let id = entry.id;
                self.history.insert(id, entry);
                Some(id)
            }
            Record::InboxTask(mut task) => {
                task.id = given(task.id, last_id(&self.tasks));
                let id = task.id;
                self.tasks.insert(id, task);
                Some(id)
            }
            Record::InboxStep(step) => {
                let task = self.tasks.get_mut(&step.id).unwrap();
                let is_claim = step.status == TaskStatus::InProgress;
                task.attempts += i64::from(is_claim);
                task.status = step.status;
                task.locked_at = is_claim.then_some(step.at);
                task.updated_at = step.at;
                // The error of the latest failure is kept.
                task.error = step.error.or(task.error.take());
                Some(step.id)
            }
            Record::Thought(mut thought) => {
                self.chain(&mut thought);
                self.thoughts.push(thought);
                None
            }
            Record::Rollup(rollup) => {
                self.rollups.insert(key_of(&rollup), *rollup);
                None
            }
            _ => panic!("{record:?} is new"),
        };
        assert_eq!(ack.assigned, assigned);
    }

    /// The expected conversation.
    pub fn conversation(&self, id: Uuid) -> Option<(Conversation, ConversationStats)> {
        let (said, conversation) = self.conversations.get(&id)?;
        let mut conversation = conversation.clone();
        let mut stats = ConversationStats::default();
        let add = |sum: &mut u64, count: Option<i64>| {
            *sum = sum.saturating_add(count.unwrap_or(0).unsigned_abs());
        };
        let note = |names: &mut Vec<String>, name: &Option<String>| {
            let is_new = |name: &&String| !names.contains(name);
            let name = name.as_ref().filter(is_new).cloned();
            names.extend(name);
        };
        let (mut failed, mut answered, mut said_at) = (None, 0, None);
        let mut nanos: Option<u64> = None;
        for (seq, message) in &self.messages {
            if message.conversation_id != id {
                continue;
            }
            stats.message_count += 1;
            add(&mut stats.total_tokens_in, message.tokens_in);
            add(&mut stats.total_tokens_out, message.tokens_out);
            add(&mut stats.total_latency_ms, message.latency_ms);
            nanos = message.cost_usd.map_or(nanos, |usd| {
                Some(nanos.unwrap_or(0) + (usd * 1e9).round() as u64)
            });
            stats.error_count += u64::from(message.error.is_some());
            let is_failure = message.error.is_some() || message.error_type.is_some();
            stats.failure_count += u64::from(is_failure);
            note(&mut stats.models_used, &message.model_used);
            note(&mut stats.configs_used, &message.config_used);
            let says = message.error.is_some() || message.role == Role::Assistant;
            if says && message.sequence >= said_at {
                said_at = message.sequence;
                let error = message.error.clone();
                if error.is_none() {
                    answered = *seq;
                }
                failed = error.map(|error| (seq, error));
            }
            if message.timestamp.at() > conversation.updated_at.at() {
                conversation.updated_at = Timestamp::from_ms(message.timestamp.at()).unwrap();
            }
        }
        let is_news = |seq: &u64| seq > said;
        if let Some((_, error)) = failed.clone().filter(|(seq, _)| is_news(seq)) {
            conversation.status = ConversationStatus::Error;
            conversation.last_error = Some(error);
        } else if failed.is_none() && is_news(&answered) {
            if conversation.status == ConversationStatus::Error {
                conversation.status = ConversationStatus::Active;
            }
            conversation.last_error = None;
        }
        stats.total_cost_usd = nanos.map(|nanos| nanos as f64 / 1e9);
        Some((conversation, stats))
    }

    /// Runs every query; the answers are not checked.
    pub fn ask(&self, store: &Store) -> decklog::Result<()> {
        let at = [None, Some(0), Some(DAY_1 + DAY_MS), Some(AT_MAX)];
        for id in self.turns.keys() {
            store.get_turn(*id)?;
        }
        for (request_id, call_id) in self.calls.keys() {
            store.get_tool_call(*request_id, call_id)?;
        }
        for id in self.proposals.keys() {
            store.get_proposal(*id)?;
            for at in at.into_iter().flatten() {
                store.as_of(at).get_proposal(*id)?;
            }
        }
        for at in at.into_iter().flatten() {
            store.as_of(at).turns(&TurnQuery::default())?;
            store.as_of(at).tool_calls(&CallQuery::default())?;
            store.as_of(at).proposals(&ProposalQuery::default())?;
        }
        store.turns(&TurnQuery::default())?;
        store.tool_calls(&CallQuery::default())?;
        for status in ProposalStatus::ALL.iter().copied().map(Some).chain([None]) {
            store.proposals(&ProposalQuery {
                status,
                ..ProposalQuery::default()
            })?;
        }
        store.conversations(&ConversationQuery::default())?;
        for id in self.conversations.keys() {
            store.get_conversation(*id)?;
            store.messages(*id, &MessageQuery::default())?;
        }
        for (_, message) in &self.messages {
            store.get_message(message.id)?;
        }
        store.events(&EventQuery::default())?;
        store.current_revision()?;
        for id in self.events.keys() {
            store.event_tree(*id)?;
            store.worker_sequence(*id)?;
        }
        store.inbox().list(&TaskQuery::default())?;
        store.inbox().counts()?;
        store.telegram_offset()?;
        for entry in self.history.values() {
            store.history(entry.chat_id, 3)?;
        }
        store.thoughts().list(None, None)?;
        store.thoughts().verify_chains()?;
        store.rollups(&RollupQuery::default())?;
        store.damage()?;
        Ok(())
    }

    /// Reads everything back through the typed functions, and verifies the chains.
    pub fn check(&self, store: &Store) {
        self.check_records(store);
        for check in store.thoughts().verify_chains().unwrap() {
            assert!(check.is_intact(), "{check:?}");
        }
    }

    /// Reads everything back through the typed functions.
    pub fn check_records(&self, store: &Store) {
        const ALL: usize = usize::MAX;
        for (id, (turn, stands)) in &self.turns {
            assert_eq!(
                store.get_turn(*id).unwrap().as_ref(),
                Some(turn).filter(|_| *stands)
            );
        }
        let query = TurnQuery {
            limit: ALL,
            ..TurnQuery::default()
        };
        let standing = self.turns.values().filter(|(_, stands)| *stands).count();
        assert_eq!(store.turns(&query).unwrap().items.len(), standing);

        for ((request_id, call_id), (call, stands)) in &self.calls {
            let found = store.get_tool_call(*request_id, call_id).unwrap();
            assert_eq!(found.as_ref(), Some(call).filter(|_| *stands));
        }
        let query = CallQuery {
            limit: ALL,
            ..CallQuery::default()
        };
        let standing = self.calls.values().filter(|(_, stands)| *stands).count();
        assert_eq!(store.tool_calls(&query).unwrap().items.len(), standing);

        for (id, (proposal, stands)) in &self.proposals {
            let found = store.get_proposal(*id).unwrap();
            assert_eq!(found.as_ref(), Some(proposal).filter(|_| *stands));
        }
        let query = ProposalQuery {
            limit: ALL,
            ..ProposalQuery::default()
        };
        let standing = self
            .proposals
            .values()
            .filter(|(_, stands)| *stands)
            .count();
        assert_eq!(store.proposals(&query).unwrap().items.len(), standing);

        for id in self.conversations.keys() {
            assert_eq!(store.get_conversation(*id).unwrap(), self.conversation(*id));
            let query = MessageQuery {
                limit: ALL,
                ..MessageQuery::default()
            };
            let messages = self.messages.iter().map(|(_, message)| message);
            let mut expected: Vec<_> = messages
                .filter(|known| known.conversation_id == *id)
                .cloned()
                .collect();
            expected.sort_by_key(|message| message.sequence);
            assert_eq!(store.messages(*id, &query).unwrap().items, expected);
        }
        let query = ConversationQuery {
            limit: ALL,
            ..ConversationQuery::default()
        };
        let found = store.conversations(&query).unwrap();
        assert_eq!(
            (found.items.len(), found.total),
            (self.conversations.len(), self.conversations.len())
        );
        for (found, stats) in found.items {
            assert_eq!(self.conversation(found.id), Some((found, stats)));
        }
        for (_, message) in &self.messages {
            assert_eq!(
                store.get_message(message.id).unwrap().as_ref(),
                Some(message)
            );
        }

        let query = EventQuery {
            limit: ALL,
            ..EventQuery::default()
        };
        let expected: Vec<_> = self.events.values().cloned().collect();
        assert_eq!(store.events(&query).unwrap().items, expected);
        for event in &expected {
            assert_eq!(store.get_event(event.id).unwrap().as_ref(), Some(event));
        }

        let query = TaskQuery {
            limit: ALL,
            ..TaskQuery::default()
        };
        let expected: Vec<_> = self.tasks.values().cloned().collect();
        assert_eq!(store.inbox().list(&query).unwrap().items, expected);
        for task in &expected {
            assert_eq!(store.inbox().get(task.id).unwrap().as_ref(), Some(task));
        }
        let update_id = self.tasks.values().map(|task| task.update_id).max();
        let offset = update_id.map_or(0, |id| id.saturating_add(1));
        assert_eq!(store.telegram_offset().unwrap(), offset);

        let chats: BTreeSet<i64> = self.history.values().map(|entry| entry.chat_id).collect();
        for chat in chats {
            let expected: Vec<_> = self
                .history
                .values()
                .filter(|entry| entry.chat_id == chat)
                .cloned()
                .collect();
            assert_eq!(store.history(chat, ALL).unwrap(), expected);
        }

        assert_eq!(store.thoughts().list(None, None).unwrap(), self.thoughts);
        for thought in &self.thoughts {
            assert_eq!(
                store.thoughts().get(&thought.id).unwrap().as_ref(),
                Some(thought)
            );
        }

        let query = RollupQuery {
            since: Some(Day::of(DAY_1 + 1_000 * DAY_MS).unwrap()),
            until: Some(Day::of(DAY_1 + 1_003 * DAY_MS).unwrap()),
        };
        let expected: Vec<_> = self.rollups.values().cloned().collect();
        assert_eq!(store.rollups(&query).unwrap(), expected);
    }
}

fn key_of(rollup: &Rollup) -> (Day, Group) {
    let group = [
        rollup.model_used.clone(),
        rollup.config_used.clone(),
        rollup.orchestration_mode.clone(),
        rollup.task_type.clone(),
    ];
    (rollup.day, group)
}

fn one_of<'a, K, V>(rng: &mut Rng, known: &'a BTreeMap<K, V>) -> Option<&'a V> {
    let place = rng.below(known.len() + 1);
    known.values().nth(place)
}

fn last_id<V>(known: &BTreeMap<i64, V>) -> i64 {
    known.keys().next_back().copied().unwrap_or(0)
}

/// An unused id, or 0 for the next one.
fn new_id<V>(rng: &mut Rng, known: &BTreeMap<i64, V>) -> i64 {
    let id = match rng.below(60) {
        0 => GIVEN_NUMBER_MAX,
        1..10 => 1 + rng.below(50) as i64,
        _ => 0,
    };
    let is_free = !known.contains_key(&id);
    if is_free {
        return id;
    }
    (1..1_000_000).find(|id| !known.contains_key(id)).unwrap()
}
