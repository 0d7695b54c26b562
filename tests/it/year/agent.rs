//! An agent that works every day, and the expected contents of its log under retention, computed
//! only from its actions.

use std::collections::{BTreeMap, HashMap, HashSet};

use decklog::record::{ConversationStatus, Day, InboxStep, Rollup, TaskStatus, ThoughtType};
use decklog::{
    Client, CodeEditProposal, Conversation, ConversationMessage, Event, HistoryEntry, InboxTask,
    Kind, ProposalStatus, ProposalStep, Record, Role, ThoughtRecord, Timestamp, ToolCallReq,
};
use uuid::Uuid;

use crate::support::{DAY_1, DAY_MS, Rng, done, failed, request, turn};

/// The first day, in days since 1970.
pub const FIRST_DAY: i64 = DAY_1 / DAY_MS;
/// Number of tasks. Each has thoughts for a number of days, and then none for twice as many.
const THOUGHT_TASKS: i64 = 6;
const AWAKE_DAYS: i64 = 40;

fn time(ms: i64) -> Timestamp {
    Timestamp::from_ms(ms).unwrap()
}

/// Work to continue on another day.
#[derive(Clone)]
enum Later {
    Call(ToolCallReq),
    Turn(u128),
    Tree { root: i64, parent: i64 },
    Talk(Uuid),
    Retry(Uuid),
    Task(i64),
    Proposal(Uuid),
}

pub struct Agent {
    rng: Rng,
    pub today: i64,
    next: u128,
    next_event: i64,
    next_task: i64,
    later: BTreeMap<i64, Vec<Later>>,
    records: Vec<Record>,
    pub known: Known,
}

/// Everything recorded, until it expires.
#[derive(Default)]
pub struct Known {
    turns: HashMap<u128, i64>,
    /// The day of the request, and the last day.
    calls: HashMap<Uuid, (i64, i64)>,
    talks: HashMap<Uuid, Talk>,
    /// The days of each tree's events.
    trees: HashMap<i64, Vec<i64>>,
    /// Of kinds whose records expire separately, by kind and day.
    others: BTreeMap<(Kind, i64), u64>,
    sums: BTreeMap<(i64, Option<String>, Option<String>), Sum>,
    /// The active conversations of each day.
    active: BTreeMap<i64, HashSet<Uuid>>,
    pub messages_ever: u64,
}

struct Talk {
    created_at: i64,
    /// The days of its messages.
    messages: Vec<i64>,
    last: i64,
    is_error: bool,
}

/// The totals of messages of a day and group.
#[derive(Default)]
struct Sum {
    counts: [u64; 8],
    utilization: f64,
    conversations: HashSet<Uuid>,
}

/// Retention periods in days.
#[derive(Clone, Copy)]
pub struct Keep {
    pub days: i64,
    pub error_days: i64,
    pub rollup_days: i64,
    pub thought_days: i64,
}

impl Keep {
    pub const DEFAULT: Keep = Keep {
        days: 90,
        error_days: 30,
        rollup_days: 365,
        thought_days: i64::MAX / 2,
    };
}

impl Agent {
    pub fn new(rng: Rng) -> Agent {
        Agent {
            rng,
            today: FIRST_DAY,
            next: 0,
            next_event: 1,
            next_task: 1,
            later: BTreeMap::new(),
            records: Vec::new(),
            known: Known::default(),
        }
    }

    /// The last millisecond of the day.
    pub fn evening(&self) -> i64 {
        (self.today + 1) * DAY_MS - 1
    }

    /// At least this many records of the day, in an order that a log accepts.
    pub fn work(&mut self, records: usize) -> Vec<Record> {
        for later in self.later.remove(&self.today).unwrap_or_default() {
            self.go_on(later);
        }
        while self.records.len() < records {
            match self.rng.below(20) {
                0..6 => self.begin_talk(),
                6..9 => self.say(),
                9..13 => self.call(),
                13..16 => self.begin_tree(),
                16 => self.queue(),
                17 => self.chat(),
                18 => self.think(),
                _ => self.propose(),
            }
        }
        std::mem::take(&mut self.records)
    }

    fn put_off(&mut self, days: i64, later: Later) {
        self.later.entry(self.today + days).or_default().push(later);
    }

    fn id(&mut self) -> u128 {
        self.next += 1;
        self.next << 64 | 0x4000_8000_0000_0000 | self.next
    }

    fn up_to(&mut self, bound: i64) -> i64 {
        self.rng.next().cast_signed().rem_euclid(bound)
    }

    fn now(&mut self) -> i64 {
        self.today * DAY_MS + self.up_to(DAY_MS)
    }

    fn go_on(&mut self, later: Later) {
        let now = self.now();
        match later {
            Later::Call(req) => {
                let mut outcome = if self.rng.one_in(3) {
                    failed(&req)
                } else {
                    done(&req)
                };
                outcome.ended_at.at = now;
                self.known.calls.get_mut(&req.request_id).unwrap().1 = self.today;
                self.records.push(outcome.into());
            }
            Later::Turn(id) => {
                self.known.turns.insert(id, self.today);
                self.records.push(turn(id, "what was meant", now).into());
            }
            Later::Tree { root, parent } => {
                let id = self.event(Some(parent), root);
                if self.rng.one_in(3) {
                    self.put_off(1, Later::Tree { root, parent: id });
                }
            }
            Later::Talk(id) => self.talk(id),
            Later::Retry(id) => {
                self.update(id, ConversationStatus::Active);
                self.known.talks.get_mut(&id).unwrap().is_error = false;
                self.talk(id);
            }
            Later::Task(id) => self.finish(id),
            Later::Proposal(id) => {
                let step = ProposalStep::new(id, ProposalStatus::Approved, now);
                self.records.push(step.into());
            }
        }
    }

    fn begin_talk(&mut self) {
        let (id, now) = (Uuid::from_u128(self.id()), self.now());
        let conversation = with!(Conversation::new(id, Client::Cli),
            created_at: time(now),
            updated_at: time(now),
            project: Some(format!("p{}", self.rng.below(9))),
        );
        self.records.push(conversation.into());
        let talk = Talk {
            created_at: now,
            messages: Vec::new(),
            last: self.today,
            is_error: false,
        };
        self.known.talks.insert(id, talk);
        self.talk(id);
    }

    fn update(&mut self, id: Uuid, status: ConversationStatus) {
        let now = self.now();
        let today = self.today;
        let talk = self.known.talks.get_mut(&id).unwrap();
        talk.last = today;
        let changed = with!(Conversation::new(id, Client::Cli),
            created_at: time(talk.created_at),
            updated_at: time(now.max(talk.created_at)),
            status,
        );
        self.records.push(changed.into());
    }

    /// Some questions and answers, sometimes continued on another day.
    fn talk(&mut self, id: Uuid) {
        for _ in 0..=self.rng.below(3) {
            self.message(id, Role::User, false);
            self.message(id, Role::Assistant, false);
        }
        if self.rng.one_in(10) {
            self.message(id, Role::Assistant, true);
            if self.rng.one_in(4) {
                self.put_off(1, Later::Retry(id));
            }
        } else if self.rng.one_in(5) {
            let days = 1 + self.up_to(20);
            self.put_off(days, Later::Talk(id));
        } else if self.rng.one_in(2) {
            self.update(id, ConversationStatus::Completed);
        }
    }

    fn message(&mut self, talk: Uuid, role: Role, is_error: bool) {
        // Some reach the log a day late.
        let is_late = self.today > FIRST_DAY && self.rng.one_in(20);
        let day = self.today - i64::from(is_late);
        let at = day * DAY_MS + self.up_to(DAY_MS);
        let is_answer = role == Role::Assistant;
        let mut any = |bound| is_answer.then(|| self.rng.below(bound) as u32);
        let text = format!("message {} of {at}", self.next);
        let message = with!(ConversationMessage::new(talk, role, text),
            timestamp: time(at),
            model_used: any(3).map(|n| format!("model-{n}")),
            config_used: any(2).map(|n| format!("config-{n}")),
            tokens_in: any(5_000).map(i64::from),
            tokens_out: any(900).map(i64::from),
            latency_ms: any(9_000).map(i64::from),
            context_utilization: any(9).map(|n| f64::from(n) / 8.0),
            compression_applied: any(9).map(|n| n == 0),
            error: is_error.then(|| "the model did not answer".into()),
        );
        let message = with!(message, id: Uuid::from_u128(self.id()));
        self.known.count(&message, day);
        self.records.push(message.into());
    }

    fn say(&mut self) {
        let (id, now) = (self.id(), self.now());
        self.known.turns.insert(id, self.today);
        self.records
            .push(turn(id, &format!("said at {now}"), now).into());
        if self.rng.one_in(9) {
            self.put_off(1, Later::Turn(id));
        }
    }

    fn call(&mut self) {
        let (id, now) = (self.id(), self.now());
        let req = request(id, "call_1", now);
        self.known
            .calls
            .insert(req.request_id, (self.today, self.today));
        self.records.push(req.clone().into());
        if self.rng.one_in(6) {
            self.put_off(1, Later::Call(req));
        } else {
            let mut outcome = done(&req);
            outcome.ended_at.at = now.max(self.today * DAY_MS);
            self.records.push(outcome.into());
        }
    }

    fn begin_tree(&mut self) {
        let root = self.event(None, self.next_event);
        let mut parent = root;
        for _ in 0..self.rng.below(3) {
            parent = self.event(Some(parent), root);
        }
        if self.rng.one_in(4) {
            self.put_off(1, Later::Tree { root, parent });
        }
    }

    /// The log assigns consecutive ids.
    fn event(&mut self, parent_id: Option<i64>, root: i64) -> i64 {
        let event = with!(Event::new(parent_id, "turn.started"),
            created_at: self.now(),
        );
        self.records.push(event.into());
        self.known.trees.entry(root).or_default().push(self.today);
        self.next_event += 1;
        self.next_event - 1
    }

    fn queue(&mut self) {
        let mut task = InboxTask::new(self.next_task, Some(r#"{"text":"hello"}"#.into()));
        task.created_at = self.now();
        self.records.push(task.into());
        self.known.one_more(Kind::Inbox, self.today);
        let id = self.next_task;
        self.next_task += 1;
        if self.rng.one_in(3) {
            self.put_off(1, Later::Task(id));
        } else {
            self.finish(id);
        }
    }

    fn finish(&mut self, id: i64) {
        for status in [TaskStatus::InProgress, TaskStatus::Done] {
            let step = InboxStep {
                id,
                status,
                at: self.now(),
                attempt: 1,
                error: None,
            };
            self.records.push(step.into());
        }
    }

    fn chat(&mut self) {
        let entry = with!(HistoryEntry::new(self.up_to(3), Role::User, "how are you?"),
            created_at: self.now(),
        );
        self.records.push(entry.into());
        self.known.one_more(Kind::History, self.today);
    }

    /// Whether a task has thoughts on a day. In the pause between two periods, all thoughts expire,
    /// as they are kept for sixty days.
    pub fn is_awake(task: i64, day: i64) -> bool {
        (day / AWAKE_DAYS + task) % 3 == 0
    }

    fn think(&mut self) {
        let task = loop {
            let task = self.up_to(THOUGHT_TASKS);
            if Agent::is_awake(task, self.today) {
                break task;
            }
        };
        let thought = ThoughtRecord {
            id: Uuid::from_u128(self.id()).to_string(),
            task_id: format!("task-{task}"),
            prev_hash: String::new(),
            hash: String::new(),
            thought_type: ThoughtType::Plan,
            agent_id: "agent".into(),
            timestamp: time(self.now()),
            content: "a thought".into(),
        };
        self.records.push(thought.into());
        self.known.one_more(Kind::ThoughtRecords, self.today);
    }

    fn propose(&mut self) {
        let (id, now) = (Uuid::from_u128(self.id()), self.now());
        self.records
            .push(CodeEditProposal::new(id, r#"{"edit":1}"#, now).into());
        self.known.one_more(Kind::CodeEditProposals, self.today);
        self.put_off(1, Later::Proposal(id));
    }
}

impl Known {
    fn one_more(&mut self, kind: Kind, day: i64) {
        *self.others.entry((kind, day)).or_default() += 1;
    }

    fn count(&mut self, message: &ConversationMessage, day: i64) {
        let talk = self.talks.get_mut(&message.conversation_id).unwrap();
        talk.messages.push(day);
        talk.last = talk.last.max(day);
        talk.is_error = match message.role {
            Role::Assistant => message.error.is_some(),
            _ => talk.is_error || message.error.is_some(),
        };
        self.messages_ever += 1;
        let (model, config) = (message.model_used.clone(), message.config_used.clone());
        let sum = self.sums.entry((day, model, config)).or_default();
        let or_none = |n: Option<i64>| n.unwrap_or(0).cast_unsigned();
        for (sum, more) in sum.counts.iter_mut().zip([
            1,
            u64::from(message.role == Role::Assistant),
            or_none(message.tokens_in),
            or_none(message.tokens_out),
            or_none(message.latency_ms),
            u64::from(message.latency_ms.is_some()),
            u64::from(message.compression_applied == Some(true)),
            u64::from(message.error.is_some()),
        ]) {
            *sum += more;
        }
        sum.utilization += message.context_utilization.unwrap_or(0.0);
        sum.conversations.insert(message.conversation_id);
        let active = self.active.entry(day).or_default();
        active.insert(message.conversation_id);
    }

    /// Drops everything that has expired by the evening of a day.
    pub fn forget(&mut self, today: i64, keep: Keep) {
        let is_left = |last: i64, days: i64| today - last <= days;
        self.turns.retain(|_, last| is_left(*last, keep.days));
        self.calls.retain(|_, (_, last)| is_left(*last, keep.days));
        self.trees
            .retain(|_, days| days.iter().any(|day| is_left(*day, keep.days)));
        self.talks.retain(|_, talk| {
            let days = if talk.is_error {
                keep.error_days
            } else {
                keep.days
            };
            is_left(talk.last, days)
        });
        self.others.retain(|(kind, day), _| {
            *kind != Kind::ThoughtRecords || is_left(*day, keep.thought_days)
        });
        self.sums
            .retain(|(day, ..), _| is_left(*day, keep.rollup_days));
    }

    /// Number of records by kind and day.
    pub fn counts(&self) -> BTreeMap<(Kind, i64), u64> {
        let mut counts = self.others.clone();
        let mut add = |kind, day| *counts.entry((kind, day)).or_default() += 1;
        for day in self.turns.values() {
            add(Kind::ConversationTurns, *day);
        }
        for (day, _) in self.calls.values() {
            add(Kind::ToolCalls, *day);
        }
        for talk in self.talks.values() {
            add(Kind::Conversations, talk.created_at / DAY_MS);
            for day in &talk.messages {
                add(Kind::Messages, *day);
            }
        }
        for day in self.trees.values().flatten() {
            add(Kind::Events, *day);
        }
        counts
    }

    pub fn messages(&self) -> u64 {
        let talks = self.talks.values();
        talks.map(|talk| talk.messages.len() as u64).sum()
    }

    /// Checks that rollups have the totals of all messages of their days, including removed ones.
    pub fn check_rollups(&self, rollups: &[Rollup]) {
        let said: Vec<_> = rollups.iter().map(said_by).collect();
        let known = self.sums.iter().map(|((day, model, config), sum)| {
            let mut counts = sum.counts.to_vec();
            counts.push(sum.conversations.len() as u64);
            counts.push(self.active[day].len() as u64);
            let day = Day::of(day * DAY_MS).unwrap();
            (day, model.clone(), config.clone(), counts, sum.utilization)
        });
        let known: Vec<_> = known.collect();
        if let Some((known, said)) = known.iter().zip(&said).find(|(known, said)| known != said) {
            panic!("the rollups say {said:?} where there was {known:?}");
        }
        assert_eq!(said.len(), known.len());
    }
}

type Said = (Day, Option<String>, Option<String>, Vec<u64>, f64);

fn said_by(rollup: &Rollup) -> Said {
    let counts = vec![
        rollup.messages,
        rollup.requests,
        rollup.tokens_in,
        rollup.tokens_out,
        rollup.latency_ms_sum,
        rollup.latency_count,
        rollup.compressed,
        rollup.errors,
        rollup.conversations,
        rollup.active_conversations,
    ];
    assert_eq!(rollup.latency_sketch.count(), rollup.latency_count);
    let (model, config) = (rollup.model_used.clone(), rollup.config_used.clone());
    (
        rollup.day,
        model,
        config,
        counts,
        rollup.context_utilization_sum,
    )
}
