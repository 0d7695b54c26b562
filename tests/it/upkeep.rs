//! Upkeep: compaction and retention keep exactly the records that they must, as seen by every
//! handle on the store, whether it was open meanwhile or not.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::path::Path;

use decklog::query::{ConversationQuery, MessageQuery, TaskQuery};
use decklog::record::{ConversationStatus, ThoughtType};
use decklog::retention::{CompactOptions, Compacted, RetainOptions, Retained};
use decklog::storage::Disk;
use decklog::{
    Client, CodeEditProposal, Conversation, ConversationMessage, ErrorKind, Event, HistoryEntry,
    InboxTask, Kind, ProposalStatus, ProposalStep, Record, Role, Store, ThoughtRecord, Timestamp,
    Validity, verify,
};
use uuid::Uuid;

use super::support::{DAY_1, DAY_MS, Rng, count, done, failed, request, turn};

pub fn compact(store: &Store, now: i64) -> Compacted {
    let options = CompactOptions {
        now,
        ..CompactOptions::default()
    };
    store.compact(options).unwrap()
}

pub fn retain(store: &Store, now: i64) -> Retained {
    let options = RetainOptions {
        now,
        ..RetainOptions::default()
    };
    store.retain(options).unwrap()
}

/// All current records of a store, by kind and key, without history.
pub fn said(store: &Store) -> BTreeMap<(Kind, String), String> {
    let mut said = BTreeMap::new();
    let mut add = |kind, key: String, what: String| {
        assert_eq!(said.insert((kind, key), what), None);
    };
    let all = usize::MAX;
    for turn in store
        .turns(&decklog::query::TurnQuery {
            limit: all,
            ..Default::default()
        })
        .unwrap()
        .items
    {
        assert_eq!(store.get_turn(turn.id).unwrap().as_ref(), Some(&turn));
        add(
            Kind::ConversationTurns,
            turn.id.to_string(),
            format!("{turn:?}"),
        );
    }
    for call in store
        .tool_calls(&decklog::query::CallQuery {
            limit: all,
            ..Default::default()
        })
        .unwrap()
        .items
    {
        let key = (call.0.request_id, call.0.call_id.clone());
        assert_eq!(
            store.get_tool_call(key.0, &key.1).unwrap().as_ref(),
            Some(&call)
        );
        add(Kind::ToolCalls, format!("{key:?}"), format!("{call:?}"));
    }
    for proposal in store
        .proposals(&decklog::query::ProposalQuery {
            limit: all,
            ..Default::default()
        })
        .unwrap()
        .items
    {
        let key = proposal.request_id.to_string();
        add(Kind::CodeEditProposals, key, format!("{proposal:?}"));
    }
    let conversations = ConversationQuery {
        limit: all,
        ..Default::default()
    };
    let conversations = store.conversations(&conversations).unwrap();
    assert_eq!(conversations.items.len(), conversations.total);
    for (conversation, stats) in conversations.items {
        let id = conversation.id;
        let query = MessageQuery {
            limit: all,
            ..MessageQuery::default()
        };
        let messages = store.messages(id, &query).unwrap().items;
        assert_eq!(messages.len() as u64, stats.message_count);
        for message in messages {
            assert_eq!(
                store.get_message(message.id).unwrap().as_ref(),
                Some(&message)
            );
            add(
                Kind::Messages,
                message.id.to_string(),
                format!("{message:?}"),
            );
        }
        add(
            Kind::Conversations,
            id.to_string(),
            format!("{conversation:?} {stats:?}"),
        );
    }
    for event in store
        .events(&decklog::query::EventQuery {
            limit: all,
            ..Default::default()
        })
        .unwrap()
        .items
    {
        add(Kind::Events, event.id.to_string(), format!("{event:?}"));
    }
    for task in store
        .inbox()
        .list(&TaskQuery {
            limit: all,
            ..TaskQuery::default()
        })
        .unwrap()
        .items
    {
        add(Kind::Inbox, task.id.to_string(), format!("{task:?}"));
    }
    for chat in 0..3 {
        for entry in store.history(chat, all).unwrap() {
            add(Kind::History, entry.id.to_string(), format!("{entry:?}"));
        }
    }
    for thought in store.thoughts().list(None, None).unwrap() {
        add(
            Kind::ThoughtRecords,
            thought.id.clone(),
            format!("{thought:?}"),
        );
    }
    said
}

fn at(ms: i64) -> Timestamp {
    Timestamp::from_ms(ms).unwrap()
}

/// An agent's daily work with every kind of record, some of which spans several days.
pub struct Life {
    rng: Rng,
    next: u128,
    pub now: i64,
    conversations: Vec<(Uuid, i64)>,
    turns: Vec<u128>,
    /// Requested, without an outcome yet.
    open_calls: Vec<decklog::ToolCallReq>,
    proposals: Vec<(Uuid, ProposalStatus)>,
    events: Vec<i64>,
    next_event: i64,
    next_update: i64,
}

impl Life {
    pub fn new(rng: Rng) -> Life {
        Life {
            rng,
            next: 1,
            now: DAY_1,
            conversations: Vec::new(),
            turns: Vec::new(),
            open_calls: Vec::new(),
            proposals: Vec::new(),
            events: Vec::new(),
            next_event: 1,
            next_update: 1,
        }
    }

    fn id(&mut self) -> Uuid {
        self.next += 1;
        Uuid::from_u128(self.next << 64 | 0x4000 << 48 | self.next)
    }

    fn up_to(&mut self, bound: i64) -> i64 {
        self.rng.next().cast_signed().rem_euclid(bound)
    }

    /// A time on this day.
    fn some_time(&mut self) -> i64 {
        self.now + self.up_to(DAY_MS / 2)
    }

    /// The records of one day, in an order that a log accepts.
    pub fn live(&mut self, things: usize) -> Vec<Record> {
        let mut records: Vec<Record> = Vec::new();
        for _ in 0..things {
            let time = self.some_time();
            match self.rng.below(9) {
                0 => {
                    let id = self.id();
                    let mut conversation = Conversation::new(id, Client::Cli);
                    conversation.created_at = at(time);
                    conversation.updated_at = at(time);
                    records.push(conversation.into());
                    self.conversations.push((id, time));
                }
                1 | 2 if !self.conversations.is_empty() => {
                    let back = self.rng.below(8).min(self.conversations.len() - 1);
                    let place = self.conversations.len() - 1 - back;
                    let (id, began) = self.conversations[place];
                    if self.rng.one_in(6) {
                        let mut changed = Conversation::new(id, Client::Cli);
                        changed.created_at = at(began);
                        changed.updated_at = at(time.max(began));
                        changed.status = ConversationStatus::Completed;
                        changed.project = Some(format!("p{}", self.rng.below(9)));
                        records.push(changed.into());
                    } else {
                        let text = format!("message {}", self.next);
                        let message = with!(ConversationMessage::new(id, Role::Assistant, text),
                            id: self.id(),
                            timestamp: at(time),
                            tokens_in: Some(self.up_to(99)),
                            model_used: Some(format!("m{}", self.rng.below(3))),
                            error: self.rng.one_in(9).then(|| "failed".into()),
                        );
                        records.push(message.into());
                    }
                }
                3 => {
                    let known = self.rng.one_in(3) && !self.turns.is_empty();
                    let id = if known {
                        *self.rng.pick(&self.turns)
                    } else {
                        self.next += 1;
                        self.turns.push(self.next);
                        self.next
                    };
                    let mut turn = turn(id, &format!("said at {time}"), time);
                    if known && self.rng.one_in(3) {
                        turn.created_at = Validity::retracted(time);
                    }
                    records.push(turn.into());
                }
                4 => {
                    self.next += 1;
                    let req = request(self.next, "c", time);
                    if self.rng.one_in(3) {
                        self.open_calls.push(req.clone());
                        records.push(req.into());
                    } else {
                        let outcome = done(&req);
                        records.extend([req.into(), outcome.into()]);
                    }
                }
                5 if !self.open_calls.is_empty() => {
                    let place = self.rng.below(self.open_calls.len());
                    let mut req = self.open_calls.swap_remove(place);
                    req.started_at = Validity::at(time);
                    records.push(failed(&req).into());
                }
                6 => {
                    let step =
                        (!self.proposals.is_empty()).then(|| self.rng.below(self.proposals.len()));
                    if let Some(place) = step.filter(|_| self.rng.one_in(2)) {
                        let (id, status) = self.proposals[place];
                        let next = match status {
                            ProposalStatus::Pending => ProposalStatus::Approved,
                            ProposalStatus::Approved => ProposalStatus::Applied,
                            _ => ProposalStatus::Reverted,
                        };
                        self.proposals[place].1 = next;
                        if status != ProposalStatus::Reverted {
                            records.push(ProposalStep::new(id, next, time).into());
                        }
                    } else {
                        let id = self.id();
                        self.proposals.push((id, ProposalStatus::Pending));
                        let edit = CodeEditProposal::new(id, "{\"edit\":1}", time);
                        records.push(edit.into());
                    }
                }
                7 => {
                    let parent = (!self.events.is_empty() && !self.rng.one_in(3)).then(|| {
                        self.events
                            [self.events.len() - 1 - self.rng.below(5).min(self.events.len() - 1)]
                    });
                    let id = self.next_event;
                    self.next_event += 1;
                    self.events.push(id);
                    records.push(
                        with!(Event::new(parent, "agent.started"),
                            id,
                            created_at: time,
                        )
                        .into(),
                    );
                }
                _ => match self.rng.below(3) {
                    0 => {
                        let mut task = InboxTask::new(self.next_update, None);
                        task.created_at = time;
                        self.next_update += 1;
                        records.push(task.into());
                    }
                    1 => records.push(
                        with!(HistoryEntry::new(self.up_to(3), Role::User, format!("history {time}")),
                            created_at: time,
                        )
                        .into(),
                    ),
                    _ => {
                        let id = self.id().to_string();
                        records.push(
                            ThoughtRecord {
                                id,
                                task_id: format!("t{}", self.rng.below(3)),
                                prev_hash: String::new(),
                                hash: String::new(),
                                thought_type: ThoughtType::Plan,
                                agent_id: "a".into(),
                                timestamp: at(time),
                                content: "thought".into(),
                            }
                            .into(),
                        );
                    }
                },
            }
        }
        self.now += DAY_MS;
        records
    }
}

/// Records what is accepted; some are not, such as the retraction of a retracted turn.
pub fn record(store: &Store, records: Vec<Record>) {
    for answer in store.record_batch(records).unwrap() {
        if let Err(e) = answer {
            let is_judged = [
                ErrorKind::Lifecycle,
                ErrorKind::NotFound,
                ErrorKind::Conflict,
            ]
            .contains(&e.kind());
            assert!(is_judged, "{e}");
        }
    }
}

fn open(path: &Path, segment_bytes: u64) -> Store {
    // A handle that closes leaves a sidecar, which the next one reads.
    let options = Store::options().sidecar_bytes_min(0).upkeep(false);
    let mut settings = decklog::Settings::default();
    settings.retention.events = Some(decklog::retention::Keep::Days(90));
    let options = options.settings(settings);
    let options = options.segment_bytes_max(segment_bytes);
    options.open(path).unwrap()
}

fn check_sound(store: &Store) {
    assert_eq!(store.damage().unwrap(), []);
    let found = verify(&Disk::new(store.path())).unwrap();
    assert_eq!((found.damage, found.repeats), (vec![], vec![]));
    for check in store.thoughts().verify_chains().unwrap() {
        assert!(check.is_intact(), "{check:?}");
    }
}

#[test]
fn compaction_leaves_what_stands() {
    let mut rng = Rng::seeded("compaction_leaves_what_stands");
    for round in 0..count("DECKLOG_UPKEEP_ROUNDS", 4) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let (writer, store) = (open(&path, 3_000), open(&path, 20_000));
        let mut life = Life::new(Rng(rng.next()));
        for _ in 0..12 {
            record(&writer, life.live(60));
        }
        // One handle that is queried in between, and one that is not.
        let (reader, sleeper) = (open(&path, 3_000), open(&path, 3_000));
        let mut follow = reader.follow(0).unwrap();
        while !follow
            .next_lines(std::time::Duration::ZERO)
            .unwrap()
            .is_empty()
        {}
        let before = said(&store);
        assert_eq!(said(&sleeper), before);
        let len = |store: &Store| store.health().unwrap().bytes();
        let long = len(&store);
        let mut parts = 0;
        let mut look = |_: &_| {
            parts += 1;
            assert_eq!(said(&reader), before, "round {round}, part {parts}");
            ControlFlow::Continue(())
        };
        let options = CompactOptions {
            now: life.now,
            progress: Some(&mut look),
            ..CompactOptions::default()
        };
        let compacted = store.compact(options).unwrap();
        assert!(
            compacted.parts.iter().any(|part| part.joined > 1),
            "{compacted:?}"
        );
        assert!(
            compacted.parts.iter().any(|part| part.lines > 0),
            "{compacted:?}"
        );
        assert!(len(&store) < long);
        for handle in [&store, &reader, &sleeper, &open(&path, 3_000)] {
            assert_eq!(said(handle), before);
            check_sound(handle);
        }
        assert_eq!(follow.next_lines(std::time::Duration::ZERO).unwrap(), []);
        assert_eq!(compact(&store, life.now), Compacted::default());
        // All of them continue to work.
        for handle in [&reader, &sleeper, &store] {
            record(handle, life.live(40));
        }
        let after = said(&store);
        assert_eq!(said(&reader), after);
        assert_eq!(said(&open(&path, 3_000)), after);
        assert!(
            !follow
                .next_lines(std::time::Duration::ZERO)
                .unwrap()
                .is_empty()
        );
        check_sound(&sleeper);
        drop((writer, store, reader, sleeper, follow));
        assert!(path.join("cache/index").exists());
        assert_eq!(said(&open(&path, 3_000)), after);
    }
}

/// The days with records of each entity, by the key that retention uses.
fn days(store: &Store) -> BTreeMap<(Kind, String), BTreeSet<i64>> {
    let mut days: BTreeMap<(Kind, String), BTreeSet<i64>> = BTreeMap::new();
    let mut roots: BTreeMap<i64, i64> = BTreeMap::new();
    for (_, record) in super::support::all_lines(store) {
        let kind = record.kind();
        let (kind, key) = match &record {
            Record::Message(message) => (Kind::Conversations, message.conversation_id.to_string()),
            Record::Event(event) => {
                let root = event.parent_id.map_or(event.id, |parent| roots[&parent]);
                roots.insert(event.id, root);
                (kind, root.to_string())
            }
            _ => (kind, record.key()),
        };
        days.entry((kind, key))
            .or_default()
            .insert(record.at() / DAY_MS);
    }
    days
}

#[test]
fn retention_removes_what_is_over_and_no_more() {
    let mut rng = Rng::seeded("retention_removes_what_is_over_and_no_more");
    for _ in 0..count("DECKLOG_UPKEEP_ROUNDS", 4) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let store = open(&path, 3_000);
        let mut life = Life::new(Rng(rng.next()));
        for _ in 0..12 {
            record(&store, life.live(60));
        }
        let (reader, sleeper) = (open(&path, 3_000), open(&path, 3_000));
        assert_eq!(said(&reader), said(&sleeper));
        let known = days(&store);
        // By then the first five of the twelve days are more than 90 days old, and all of them more
        // than 30.
        let now = life.now + 83 * DAY_MS;
        let retained = retain(&store, now);
        assert!(!retained.parts.is_empty());
        for handle in [&store, &reader, &sleeper, &open(&path, 3_000)] {
            let left = days(handle);
            for ((kind, key), days) in &known {
                let last = days.last().unwrap();
                let age = now / DAY_MS - last;
                let is_left = left.get(&(*kind, key.clone()));
                match kind {
                    Kind::ConversationTurns | Kind::ToolCalls | Kind::Events => {
                        assert_eq!(is_left, (age <= 90).then_some(days), "{kind} {key}");
                    }
                    Kind::Conversations => {
                        let id = key.parse().unwrap();
                        let stands = handle.get_conversation(id).unwrap();
                        let is_error = is_left.is_some()
                            && stands.unwrap().0.status == ConversationStatus::Error;
                        assert!(!is_error || age <= 30);
                        assert!(
                            is_left.is_none_or(|left| left == days && age <= 90),
                            "{key}"
                        );
                    }
                    _ => assert_eq!(is_left, Some(days), "{kind} {key}"),
                }
            }
            check_sound(handle);
        }
        let left = said(&store);
        assert_eq!(said(&reader), left);
        assert_eq!(retain(&sleeper, now).parts, []);
        // No handle assigns a number again, even if all records are removed.
        let next = store.log_event(None, "agent.started", None).unwrap();
        assert!(next >= life.next_event);
        let after = said(&store);
        drop((store, reader, sleeper));
        assert!(path.join("cache/index").exists());
        assert_eq!(said(&open(&path, 3_000)), after);
    }
}

/// Bug: one error removed a conversation after 30 days, although it later succeeded.
#[test]
fn a_conversation_whose_last_answer_did_not_fail_is_kept_as_any_other() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir.path().join("log"), 3_000);
    let said = |talk: Uuid, id: u128, error: Option<&str>| {
        with!(ConversationMessage::new(talk, Role::Assistant, "an answer"),
            id: Uuid::from_u128(id),
            timestamp: at(DAY_1),
            error: error.map(str::to_owned),
        )
    };
    let [went_on, failed] = [1, 2].map(Uuid::from_u128);
    for id in [went_on, failed] {
        let talk = with!(Conversation::new(id, Client::Cli),
            created_at: at(DAY_1),
            updated_at: at(DAY_1),
        );
        store.record(talk).unwrap();
    }
    store.record(said(went_on, 3, Some("overloaded"))).unwrap();
    store.record(said(went_on, 4, None)).unwrap();
    store.record(said(failed, 5, None)).unwrap();
    store.record(said(failed, 6, Some("overloaded"))).unwrap();
    retain(&store, DAY_1 + 31 * DAY_MS);
    let left = |id| store.get_conversation(id).unwrap().is_some();
    assert_eq!([went_on, failed].map(left), [true, false]);
    retain(&store, DAY_1 + 91 * DAY_MS);
    assert!(!left(went_on));
}

/// Bug: the latest promoted revision was removed with its day, and the numbering of a supervisor's
/// workers restarted.
#[test]
fn retention_leaves_the_good_revision_and_the_workers_of_the_last_supervisor() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let store = open(&path, 3_000);
    let log = |parent_id, event_type: &str, day: i64| {
        let event = with!(Event::new(parent_id, event_type), created_at: DAY_1 + day * DAY_MS);
        store.record(event).unwrap().assigned.unwrap()
    };
    let promoted = |day| log(None, "revision.promoted", day);
    let old = log(None, "process.started", 0);
    log(Some(old), "worker.spawned", 0);
    promoted(0);
    let supervisor = log(None, "process.started", 1);
    log(Some(supervisor), "worker.spawned", 1);
    log(Some(supervisor), "worker.exited", 2);
    log(Some(supervisor), "worker.spawned", 3);
    let good = promoted(4);
    let run = log(None, "agent.started", 5);
    retain(&store, DAY_1 + 200 * DAY_MS);
    for store in [&store, &open(&path, 3_000)] {
        let current = store.current_revision().unwrap().map(|event| event.id);
        assert_eq!(current, Some(good));
        assert_eq!(store.worker_sequence(supervisor).unwrap(), 2);
        assert_eq!(
            store.event_tree(supervisor).unwrap().unwrap().nodes.len(),
            4
        );
        for gone in [old, run] {
            assert_eq!(store.get_event(gone).unwrap(), None);
        }
    }
    assert_eq!(
        store
            .events(&decklog::query::EventQuery::default())
            .unwrap()
            .items
            .len(),
        5
    );
    // They are removed once newer ones replace them.
    let next = promoted(150);
    log(None, "worker.spawned", 150);
    retain(&store, DAY_1 + 200 * DAY_MS);
    assert_eq!(store.get_event(good).unwrap(), None);
    assert_eq!(store.get_event(supervisor).unwrap(), None);
    assert_eq!(store.current_revision().unwrap().unwrap().id, next);
}
