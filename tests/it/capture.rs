//! Capture: a gateway records its traffic without waiting. Queued records are in the log, once and
//! in order, after a flush or a drop. Lost records are counted and reported, whether the queue was
//! full, a rule rejected them or the store failed. No call hangs.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use decklog::capture::{CaptureOptions, CaptureStats, WhenFull};
use decklog::query::{MessageQuery, TurnQuery};
use decklog::record::{ConversationStatus, Source};
use decklog::storage::{Access, Fault, Memory, Storage};
use decklog::{
    Capture, Client, Conversation, ConversationMessage, Durability, ErrorKind, InferenceMetadata,
    Kind, Record, Role, Store,
};
use uuid::Uuid;

use super::support::{DAY_1, Spy, all_lines, in_memory, still, turn};

/// Longer than any step here takes, unless it hangs.
const HANGS: Duration = Duration::from_secs(60);

fn metadata(model: &str) -> InferenceMetadata {
    InferenceMetadata {
        config: Some("fast".into()),
        models_used: vec![model.into()],
        total_latency_ms: Some(850),
        tokens_by_model: [(
            model.to_owned(),
            decklog::record::TokenCount {
                tokens_in: 30,
                tokens_out: 8,
            },
        )]
        .into(),
        ..InferenceMetadata::default()
    }
}

fn contents(store: &Store, conversation: Uuid) -> Vec<String> {
    let query = MessageQuery {
        limit: usize::MAX,
        ..MessageQuery::default()
    };
    let messages = store.messages(conversation, &query).unwrap().items;
    messages.into_iter().map(|found| found.content).collect()
}

fn check_sums(stats: CaptureStats) {
    let answered = stats.written + stats.unchanged + stats.rejected + stats.failed;
    assert_eq!(stats.accepted, answered + stats.queued, "{stats:?}");
}

/// Collects the reports of lost records: the error's kind and the record.
fn hearing(options: CaptureOptions) -> (CaptureOptions, Receiver<(ErrorKind, Record)>) {
    let (teller, told) = channel();
    let on_error = move |error: &decklog::Error, record: &Record| {
        teller.send((error.kind(), record.clone())).unwrap();
    };
    (options.on_error(on_error), told)
}

/// Blocks the writer in the middle of an append until the gate is opened, or dropped by a failed
/// test.
#[derive(Default)]
struct Gate {
    state: Arc<GateState>,
}

/// Whether the writer arrived, and whether the gate is open.
type GateState = (Mutex<(bool, bool)>, Condvar);

fn pass((state, changed): &GateState) {
    let mut state = state.lock().unwrap();
    state.0 = true;
    changed.notify_all();
    while !state.1 {
        state = changed.wait(state).unwrap();
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.open();
    }
}

impl Gate {
    fn closed_on(spy: &Spy) -> Gate {
        let gate = Gate::default();
        let at_gate = Arc::clone(&gate.state);
        spy.hook(move |operation, _| {
            if operation == "append" {
                pass(&at_gate);
            }
            Ok(())
        });
        gate
    }

    /// Returns when the writer waits at the gate.
    fn wait_for_writer(&self) {
        let (state, changed) = &*self.state;
        let state = state.lock().unwrap();
        let (state, _) = changed
            .wait_timeout_while(state, HANGS, |state| !state.0)
            .unwrap();
        assert!(state.0, "the writer never came");
    }

    fn close(&self) {
        *self.state.0.lock().unwrap() = (false, false);
    }

    fn open(&self) {
        let (state, changed) = &*self.state;
        state.lock().unwrap().1 = true;
        changed.notify_all();
    }
}

/// A store whose writer waits at a gate with turn 0, so that all later records are queued.
fn held_up(options: impl FnOnce(CaptureOptions) -> CaptureOptions) -> (Store, Capture, Gate) {
    let spy = Spy::new(Memory::new());
    let store = still().storage(Arc::new(spy.clone())).open("m").unwrap();
    let capture = options(store.capture_options()).start().unwrap();
    let gate = Gate::closed_on(&spy);
    capture.record(turn(0, "", DAY_1)).unwrap();
    gate.wait_for_writer();
    (store, capture, gate)
}

fn turn_ids(store: &Store) -> Vec<u128> {
    let query = TurnQuery {
        limit: usize::MAX,
        ..TurnQuery::default()
    };
    let turns = store.turns(&query).unwrap().items;
    turns.iter().map(|turn| turn.id.as_u128()).collect()
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < HANGS, "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn each_thread_finds_its_records_in_its_order() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let options = store.capture_options().when_full(WhenFull::Wait);
    let capture = options.queue_records_max(50).start().unwrap();
    let conversation = Conversation::new(Uuid::new_v4(), Client::Api);
    let id = conversation.id;
    capture.record(conversation).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let capture = capture.clone();
            scope.spawn(move || {
                for number in 0..200 {
                    let content = format!("{thread} {number}");
                    let message = ConversationMessage::new(id, Role::User, content);
                    capture.record(message).unwrap();
                    check_sums(capture.stats());
                }
            });
        }
    });
    capture.flush().unwrap();
    let contents = contents(&store, id);
    assert_eq!(contents.len(), 800);
    for thread in 0..4 {
        let prefix = format!("{thread} ");
        let own = contents
            .iter()
            .filter_map(|text| text.strip_prefix(&prefix));
        assert!(own.eq((0..200).map(|number| number.to_string())));
    }
    let stats = capture.stats();
    check_sums(stats);
    assert_eq!((stats.queued, stats.written, stats.refused), (0, 801, 0));
}

#[test]
fn records_are_written_without_being_asked_for_also_after_a_pause() {
    let store = in_memory(&Memory::new(), Durability::Process);
    let capture = store.capture().unwrap();
    for id in 0..3 {
        capture.record(turn(id, "", DAY_1)).unwrap();
        wait_until("it is never written", || {
            capture.stats().written == id as u64 + 1
        });
        // Long enough for the writer thread to fall asleep.
        std::thread::sleep(Duration::from_millis(200));
    }
    assert_eq!(turn_ids(&store), [0, 1, 2]);
}

#[test]
fn dropping_the_last_handle_writes_all_that_waits() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let capture = store.capture().unwrap();
    let of_thread = |thread: u128| (0..1000).map(move |number| thread * 1000 + number);
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let capture = capture.clone();
            scope.spawn(move || {
                for id in of_thread(thread) {
                    capture.record(turn(id, "text", DAY_1)).unwrap();
                }
            });
        }
    });
    drop(capture);
    drop(store);
    let store = Store::open(dir.path()).unwrap();
    assert_eq!(all_lines(&store).len(), 8000);
    let mut ids = turn_ids(&store);
    ids.sort_unstable();
    assert!(ids.into_iter().eq((0..8).flat_map(of_thread)));
}

#[test]
fn a_full_queue_refuses_at_once_and_loses_nothing_that_it_took() {
    let (store, capture, gate) = held_up(|options| options.queue_records_max(10));
    for id in 1..10 {
        capture.record(turn(id, "", DAY_1)).unwrap();
    }
    for id in 10..15 {
        let refused = capture.record(turn(id, "", DAY_1)).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::QueueFull);
        assert!(refused.to_string().contains("full"), "{refused}");
    }
    let stats = capture.stats();
    check_sums(stats);
    assert_eq!((stats.accepted, stats.queued, stats.refused), (10, 10, 5));
    gate.open();
    capture.flush().unwrap();
    assert_eq!(turn_ids(&store), (0..10).collect::<Vec<_>>());
    capture.record(turn(10, "", DAY_1)).unwrap();
    drop(capture);
    assert_eq!(turn_ids(&store).len(), 11);
}

#[test]
fn a_request_is_queued_whole_or_not_at_all() {
    let (store, capture, gate) = held_up(|options| options.queue_records_max(3));
    let request = |messages: usize| {
        let conversation = Conversation::new(Uuid::new_v4(), Client::Api);
        let message = ConversationMessage::new(conversation.id, Role::User, "?");
        let copy = || with!(message.clone(), id: Uuid::new_v4());
        let messages: Vec<_> = (0..messages).map(|_| copy()).collect();
        capture.capture_request(conversation, messages)
    };
    assert_eq!(request(2).unwrap_err().kind(), ErrorKind::QueueFull);
    assert_eq!(capture.stats().refused, 3);
    request(1).unwrap();
    gate.open();
    capture.flush().unwrap();
    let lines = || store.last_lines(usize::MAX).unwrap().len();
    assert_eq!(lines(), 3);
    // A record longer than the queue is accepted when the queue is empty.
    request(7).unwrap();
    capture.flush().unwrap();
    assert_eq!(lines(), 11);
}

#[test]
fn a_caller_waits_for_room_where_it_was_told_to() {
    let wait = |options: CaptureOptions| options.queue_records_max(3).when_full(WhenFull::Wait);
    let (store, capture, gate) = held_up(wait);
    for id in 1..3 {
        capture.record(turn(id, "", DAY_1)).unwrap();
    }
    let is_through = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for id in 3..50 {
                capture.record(turn(id, "", DAY_1)).unwrap();
            }
            is_through.store(true, Ordering::SeqCst);
        });
        std::thread::sleep(Duration::from_millis(50));
        assert!(!is_through.load(Ordering::SeqCst));
        assert_eq!(capture.stats().accepted, 3);
        gate.open();
    });
    capture.flush().unwrap();
    assert_eq!(turn_ids(&store), (0..50).collect::<Vec<_>>());
    assert_eq!(capture.stats().refused, 0);
}

#[test]
fn the_texts_that_wait_are_bounded_too() {
    let (store, capture, gate) = held_up(|options| options.queue_bytes_max(1000));
    capture.record(turn(1, &"x".repeat(600), DAY_1)).unwrap();
    let refused = capture.record(turn(2, &"x".repeat(401), DAY_1));
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::QueueFull);
    capture.record(turn(3, &"x".repeat(400), DAY_1)).unwrap();
    gate.open();
    capture.flush().unwrap();
    // Longer than the limit, and alone in the queue.
    capture.record(turn(4, &"x".repeat(5000), DAY_1)).unwrap();
    capture.flush().unwrap();
    // Written records no longer use queue space.
    gate.close();
    capture.record(turn(5, "", DAY_1)).unwrap();
    gate.wait_for_writer();
    capture.record(turn(6, &"x".repeat(1000), DAY_1)).unwrap();
    gate.open();
    capture.flush().unwrap();
    assert_eq!(turn_ids(&store), [0, 1, 3, 4, 5, 6]);
    check_sums(capture.stats());
}

#[test]
fn what_is_wrong_by_itself_is_told_to_the_caller() {
    let store = in_memory(&Memory::new(), Durability::Process);
    let capture = store.capture().unwrap();
    let id = Uuid::new_v4();
    let kind = |result: decklog::Result<()>| result.unwrap_err().kind();
    let beyond = InferenceMetadata {
        context_utilization: Some(1.5),
        ..InferenceMetadata::default()
    };
    let response = capture.capture_response(id, "text", &beyond);
    assert_eq!(kind(response.map(|_| ())), ErrorKind::InvalidInput);
    let too_long = turn(1, &"x".repeat(17 << 20), DAY_1);
    assert_eq!(kind(capture.record(too_long)), ErrorKind::InvalidInput);
    let stranger = ConversationMessage::new(Uuid::new_v4(), Role::User, "?");
    let request = capture.capture_request(Conversation::new(id, Client::Api), [stranger]);
    assert_eq!(kind(request), ErrorKind::InvalidInput);
    assert_eq!(capture.stats(), CaptureStats::default());
    assert!(capture.last_error().is_none());
}

#[test]
fn what_the_log_rejects_is_counted_and_told() {
    let store = in_memory(&Memory::new(), Durability::Process);
    let (options, told) = hearing(store.capture_options());
    let capture = options.start().unwrap();
    let conversation = Conversation::new(Uuid::new_v4(), Client::Api);
    let first =
        with!(ConversationMessage::new(conversation.id, Role::User, "first"), sequence: Some(1));
    let second = with!(ConversationMessage::new(conversation.id, Role::User, "second"),
        sequence: Some(1),
    );
    let homeless = ConversationMessage::new(Uuid::new_v4(), Role::User, "third");
    let id = conversation.id;
    let messages = [first.clone(), second.clone(), first];
    capture.capture_request(conversation, messages).unwrap();
    capture.record(homeless.clone()).unwrap();
    let other = capture.clone();
    assert_eq!(capture.flush().unwrap_err().kind(), ErrorKind::NotFound);
    // Each handle reports it once.
    capture.flush().unwrap();
    other.flush().unwrap_err();
    other.flush().unwrap();

    let told: Vec<_> = told.try_iter().collect();
    let expected = [
        (ErrorKind::Conflict, Record::from(second)),
        (ErrorKind::NotFound, Record::from(homeless)),
    ];
    assert_eq!(told, expected);
    assert_eq!(capture.last_error().unwrap().kind(), ErrorKind::NotFound);
    let stats = capture.stats();
    check_sums(stats);
    let counts = (stats.written, stats.unchanged, stats.rejected, stats.failed);
    assert_eq!(counts, (2, 1, 2, 0));
    assert_eq!(contents(&store, id), ["first"]);
}

#[test]
fn a_store_that_fails_anywhere_is_told_of_every_record() {
    let run = |memory: &Memory, at: Option<(u64, Fault)>| {
        let store = in_memory(memory, Durability::Disk);
        let (options, told) = hearing(store.capture_options());
        let capture = options.start().unwrap();
        if let Some((operation, fault)) = at {
            memory.fail_at(memory.operations() + operation, fault);
        }
        let started = memory.operations();
        for id in 0..6 {
            capture.record(turn(id, "text", DAY_1)).unwrap();
            if id % 2 == 1 {
                let _ = capture.flush();
            }
        }
        let flushed = capture.clone();
        let is_well = flushed.flush().is_ok() && told_none(&capture);
        let stats = capture.stats();
        check_sums(stats);
        assert_eq!(is_well, stats.failed == 0);
        drop((capture, flushed));
        assert_eq!((stats.accepted, stats.queued), (6, 0));
        let lost: Vec<_> = told.try_iter().map(|(_, record)| record).collect();
        assert_eq!(lost.len() as u64, stats.failed + stats.rejected);
        (memory.operations() - started, stats, lost)
    };
    let (operations, stats, _) = run(&Memory::new(), None);
    assert_eq!(stats.written, 6);
    let mut failures = 0;
    let faults = [
        Fault::Gone,
        Fault::Error(io::ErrorKind::Other),
        Fault::Short(1),
    ];
    let cases = faults
        .into_iter()
        .flat_map(|fault| (0..operations).map(move |operation| (operation, fault)));
    for case in cases {
        let memory = Memory::new();
        let (_, stats, lost) = run(&memory, Some(case));
        failures += stats.failed;
        memory.heal();
        let store = in_memory(&memory.after_power_cut(|_| 0), Durability::Process);
        store.record_batch([]).unwrap();
        let kept = turn_ids(&store);
        for id in 0..6 {
            let is_lost = lost.contains(&Record::from(turn(id, "text", DAY_1)));
            let is_kept = kept.contains(&id);
            assert!(is_kept || is_lost, "{case:?}: {id} is gone in silence");
        }
        assert!(kept.len() as u64 >= stats.written);
    }
    assert!(failures > operations, "nothing failed");
}

fn told_none(capture: &Capture) -> bool {
    capture.last_error().is_none()
}

#[test]
fn while_another_process_holds_the_lock_records_wait() {
    let memory = Memory::new();
    let store = still()
        .lock_timeout(Duration::from_millis(20))
        .storage(Arc::new(memory.clone()))
        .open("m")
        .unwrap();
    let capture = store.capture().unwrap();
    let other_process = memory.open("LOCK", Access::Append).unwrap();
    assert!(other_process.try_lock().unwrap());
    capture.record(turn(1, "", DAY_1)).unwrap();
    assert_eq!(capture.flush().unwrap_err().kind(), ErrorKind::Locked);
    let stats = capture.stats();
    check_sums(stats);
    assert!((stats.queued, stats.failed) == (1, 0) && stats.lock_retries > 0);
    other_process.unlock().unwrap();
    // An earlier attempt may still report the lock.
    wait_until("the record waits", || capture.flush().is_ok());
    assert_eq!(turn_ids(&store), [1]);
    assert!(capture.last_error().is_none());
}

#[test]
fn a_drop_gives_up_on_the_lock_in_the_end() {
    let memory = Memory::new();
    let store = still()
        .lock_timeout(Duration::from_millis(20))
        .storage(Arc::new(memory.clone()))
        .open("m")
        .unwrap();
    let (options, told) = hearing(store.capture_options());
    let capture = options.drain_timeout(Duration::from_millis(100)).start();
    let capture = capture.unwrap();
    let other_process = memory.open("LOCK", Access::Append).unwrap();
    assert!(other_process.try_lock().unwrap());
    // Several batches, each of which would wait for the lock by itself.
    for id in 0..3000 {
        capture.record(turn(id, "", DAY_1)).unwrap();
    }
    let started = Instant::now();
    drop(capture);
    assert!(started.elapsed() >= Duration::from_millis(100));
    let told: Vec<_> = told.try_iter().collect();
    assert_eq!(told.len(), 3000);
    assert!(told.iter().all(|(kind, _)| *kind == ErrorKind::Locked));
    drop(other_process);
    assert_eq!(turn_ids(&store), []);
}

#[test]
fn a_panic_of_the_thread_that_writes_is_an_error_of_later_calls() {
    let spy = Spy::new(Memory::new());
    let store = still().storage(Arc::new(spy.clone())).open("m").unwrap();
    let (options, told) = hearing(store.capture_options());
    let capture = options.start().unwrap();
    capture.record(turn(1, "", DAY_1)).unwrap();
    capture.flush().unwrap();
    spy.hook(|operation, _| {
        assert!(operation != "append", "a panic that the test asked for");
        Ok(())
    });
    capture.record(turn(2, "", DAY_1)).unwrap();
    assert_eq!(capture.flush().unwrap_err().kind(), ErrorKind::Poisoned);
    let later = capture.record(turn(3, "", DAY_1)).unwrap_err();
    assert_eq!(later.kind(), ErrorKind::Poisoned);
    let stats = capture.stats();
    check_sums(stats);
    let counts = (stats.written, stats.failed, stats.refused, stats.queued);
    assert_eq!(counts, (1, 1, 1, 0));
    drop(capture);
    let told: Vec<_> = told.try_iter().collect();
    assert_eq!(told, [(ErrorKind::Poisoned, turn(2, "", DAY_1).into())]);
    spy.unhook();
    assert_eq!(turn_ids(&store), [1]);
}

#[test]
fn callers_that_wait_for_room_are_told_of_a_panic_too() {
    let spy = Spy::new(Memory::new());
    let store = still().storage(Arc::new(spy.clone())).open("m").unwrap();
    let options = store.capture_options().queue_records_max(1);
    let capture = options.when_full(WhenFull::Wait).start().unwrap();
    let gate = Gate::default();
    let at_gate = Arc::clone(&gate.state);
    spy.hook(move |operation, _| {
        if operation == "append" {
            pass(&at_gate);
            panic!("a panic that the test asked for");
        }
        Ok(())
    });
    capture.record(turn(0, "", DAY_1)).unwrap();
    gate.wait_for_writer();
    let (teller, told) = channel();
    let waiting = capture.clone();
    let caller = std::thread::spawn(move || {
        teller.send(waiting.record(turn(1, "", DAY_1))).unwrap();
    });
    assert!(told.recv_timeout(Duration::from_millis(50)).is_err());
    gate.open();
    let refused = told.recv_timeout(HANGS).expect("it hangs").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Poisoned);
    caller.join().unwrap();
    capture.flush().unwrap_err();
    let stats = capture.stats();
    check_sums(stats);
    assert_eq!((stats.failed, stats.refused), (1, 1));
}

#[test]
fn a_panic_in_on_error_loses_no_record() {
    let store = in_memory(&Memory::new(), Durability::Process);
    let options = store.capture_options();
    let capture = options
        .on_error(|_, _| panic!("a panic that the test asked for"))
        .start()
        .unwrap();
    for id in 0..10 {
        let homeless = ConversationMessage::new(Uuid::new_v4(), Role::User, "?");
        capture.record(homeless).unwrap();
        capture.record(turn(id, "", DAY_1)).unwrap();
    }
    capture.flush().unwrap_err();
    let stats = capture.stats();
    check_sums(stats);
    assert_eq!((stats.written, stats.rejected), (10, 10));
    drop(capture);
    assert_eq!(turn_ids(&store), (0..10).collect::<Vec<_>>());
}

#[test]
fn on_error_can_use_and_drop_the_last_handle_without_a_deadlock() {
    let store = in_memory(&Memory::new(), Durability::Process);
    let handle: Arc<Mutex<Option<Capture>>> = Arc::default();
    let (teller, told) = channel();
    let taken = Arc::clone(&handle);
    let on_error = move |_: &decklog::Error, _: &Record| {
        let Some(capture) = taken.lock().unwrap().take() else {
            return;
        };
        let flushed = capture.flush().unwrap_err().kind();
        let recorded = capture.record(turn(2, "", DAY_1)).unwrap_err().kind();
        drop(capture);
        teller.send((flushed, recorded)).unwrap();
    };
    let options = store.capture_options().queue_records_max(1);
    let options = options.when_full(WhenFull::Wait).on_error(on_error);
    let capture = options.start().unwrap();
    *handle.lock().unwrap() = Some(capture.clone());
    let homeless = ConversationMessage::new(Uuid::new_v4(), Role::User, "?");
    capture.record(homeless).unwrap();
    drop(capture);
    let told = told.recv_timeout(HANGS).expect("it hangs");
    assert_eq!(told, (ErrorKind::Lifecycle, ErrorKind::QueueFull));
}

#[test]
fn a_response_is_filled_from_its_metadata() {
    let store = in_memory(&Memory::new(), Durability::Process);
    let capture = store.capture().unwrap();
    let conversation = Conversation::new(Uuid::new_v4(), Client::Api);
    let conversation_id = conversation.id;
    let question = ConversationMessage::new(conversation_id, Role::User, "1 + 1?");
    capture.capture_request(conversation, [question]).unwrap();
    let metadata = metadata("big-2");
    let id = capture.capture_response(conversation_id, "2", &metadata);
    capture.flush().unwrap();
    let message = store.get_message(id.unwrap()).unwrap().unwrap();
    assert_eq!((message.role, message.sequence), (Role::Assistant, Some(2)));
    assert_eq!(message.model_used.as_deref(), Some("big-2"));
    assert_eq!((message.tokens_in, message.tokens_out), (Some(30), Some(8)));
    assert_eq!(message.error, None);
    // The same through the store's own call.
    let id = store.capture_response(conversation_id, "2", &metadata);
    let again = store.get_message(id.unwrap()).unwrap().unwrap();
    let expected =
        with!(message, id: again.id, timestamp: again.timestamp.clone(), sequence: Some(3));
    assert_eq!(again, expected);
}

#[test]
fn an_error_is_the_state_of_its_conversation() {
    let store = in_memory(&Memory::new(), Durability::Process);
    let capture = store.capture().unwrap();
    let begin = || {
        let conversation = Conversation::new(Uuid::new_v4(), Client::Api);
        let id = conversation.id;
        capture.capture_request(conversation, []).unwrap();
        id
    };
    let (queued, waited) = (begin(), begin());
    let metadata = metadata("big-2");
    let first = capture.capture_error(queued, "timeout", "no answer", Some(&metadata));
    capture.flush().unwrap();
    let second = store.capture_error(waited, "no_route", "no model", None);
    let message = |id: decklog::Result<Uuid>| store.get_message(id.unwrap()).unwrap().unwrap();
    let (first, second) = (message(first), message(second));
    for (message, content) in [(&first, "Error: no answer"), (&second, "Error: no model")] {
        assert_eq!(
            (message.role, message.source),
            (Role::System, Source::System)
        );
        assert_eq!(message.content, content);
    }
    assert_eq!(first.model_used.as_deref(), Some("big-2"));
    assert_eq!(first.error_type.as_deref(), Some("timeout"));
    assert_eq!(second.model_used, None);
    for (id, error) in [(queued, "no answer"), (waited, "no model")] {
        let (conversation, stats) = store.get_conversation(id).unwrap().unwrap();
        assert_eq!(conversation.status, ConversationStatus::Error);
        assert_eq!(conversation.last_error.as_deref(), Some(error));
        assert_eq!(stats.message_count, 1);
    }
}

#[test]
fn a_streamed_response_becomes_one_message_however_it_ends() {
    let store = in_memory(&Memory::new(), Durability::Process);
    let capture = store.capture().unwrap();
    let conversation = Conversation::new(Uuid::new_v4(), Client::Api);
    let conversation_id = conversation.id;
    capture.capture_request(conversation, []).unwrap();
    let begin = || {
        let mut response = capture
            .response(conversation_id)
            .with_metadata(metadata("small-1"));
        response.push("one, ");
        response.push("two");
        response
    };
    let finished = begin();
    let known_id = finished.id();
    assert_eq!(finished.finish(&metadata("big-2")).unwrap(), known_id);
    let failed = begin().fail("overloaded", "503").unwrap();
    let interrupted = begin();
    let interrupted_id = interrupted.id();
    drop(interrupted);
    capture.flush().unwrap();

    assert_eq!(contents(&store, conversation_id), ["one, two"; 3]);
    let told = |id: Uuid| {
        let message = store.get_message(id).unwrap().unwrap();
        (message.model_used, message.error_type)
    };
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(told(known_id), (some("big-2"), None));
    assert_eq!(told(failed), (some("small-1"), some("overloaded")));
    let cut_off = (some("small-1"), some("interrupted"));
    assert_eq!(told(interrupted_id), cut_off);
    let (conversation, _) = store.get_conversation(conversation_id).unwrap().unwrap();
    assert_eq!(conversation.status, ConversationStatus::Error);
}

#[test]
fn an_interrupted_response_that_is_refused_is_counted_and_told() {
    let (_store, capture, gate) = held_up(|options| options.queue_records_max(1));
    drop(capture.response(Uuid::new_v4()));
    assert_eq!(capture.stats().refused, 1);
    assert_eq!(capture.last_error().unwrap().kind(), ErrorKind::QueueFull);
    gate.open();
}

#[test]
fn a_conversation_is_created_once_and_then_left_as_it_is() {
    let memory = Memory::new();
    let store = in_memory(&memory, Durability::Disk);
    let capture = store.capture().unwrap();
    let id = Uuid::new_v4();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let capture = capture.clone();
            scope.spawn(move || {
                for number in 0..25 {
                    // Each with another time and another user.
                    let conversation = with!(Conversation::new(id, Client::Api),
                        user_id: Some(format!("user {thread} {number}")),
                    );
                    let message = ConversationMessage::new(id, Role::User, "?");
                    capture.capture_request(conversation, [message]).unwrap();
                }
            });
        }
    });
    capture.flush().unwrap();
    let stats = capture.stats();
    check_sums(stats);
    assert_eq!(
        (stats.written, stats.unchanged, stats.rejected),
        (101, 99, 0)
    );
    let lines = store.last_lines(usize::MAX).unwrap();
    let of_kind = |kind: Kind| lines.iter().filter(|line| line.kind == kind).count();
    assert_eq!(of_kind(Kind::Conversations), 1);
    assert_eq!(of_kind(Kind::Messages), 100);
    // A manual change is kept.
    let close = |it: &mut Conversation| it.status = ConversationStatus::Completed;
    let closed = store.update_conversation(id, close).unwrap();
    let message = ConversationMessage::new(id, Role::User, "?");
    store
        .capture_request(Conversation::new(id, Client::Cli), [message])
        .unwrap();
    let (found, stats) = store.get_conversation(id).unwrap().unwrap();
    assert_eq!(found.status, ConversationStatus::Completed);
    assert_eq!(
        (found.client, found.created_at),
        (Client::Api, closed.created_at)
    );
    assert_eq!(stats.message_count, 101);
}

#[test]
fn at_level_disk_a_request_survives_with_the_conversation_that_another_process_began() {
    let memory = Memory::new();
    let other = in_memory(&memory, Durability::Process);
    let conversation = Conversation::new(Uuid::new_v4(), Client::Api);
    let id = conversation.id;
    other.record(conversation.clone()).unwrap();
    let store = in_memory(&memory, Durability::Disk);
    let capture = store.capture().unwrap();
    let message = ConversationMessage::new(id, Role::User, "?");
    capture.capture_request(conversation, [message]).unwrap();
    capture.flush().unwrap();
    let after = memory.after_power_cut(|_| 0);
    let store = in_memory(&after, Durability::Process);
    let (_, stats) = store.get_conversation(id).unwrap().expect("it is gone");
    assert_eq!(stats.message_count, 1);
}

#[test]
fn a_store_that_is_only_read_captures_nothing() {
    let memory = Memory::new();
    drop(in_memory(&memory, Durability::Process));
    let options = Store::options().read_only(true);
    let store = options.storage(Arc::new(memory)).open("m").unwrap();
    assert_eq!(store.capture().unwrap_err().kind(), ErrorKind::ReadOnly);
}

#[test]
fn what_a_model_thinks_streams_apart() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path().join("log")).unwrap();
    let capture = store.capture().unwrap();
    let conversation = Conversation::new(Uuid::from_u128(1), Client::Api);
    let id = conversation.id;
    capture.capture_request(conversation, []).unwrap();
    let mut response = capture.response(id);
    for (thought, said) in [("A qui", ""), ("nce?", "An "), ("", "apple.")] {
        response.push_reasoning(thought);
        response.push(said);
    }
    let id = response.finish(&InferenceMetadata::default()).unwrap();
    capture.flush().unwrap();
    let message = store.get_message(id).unwrap().unwrap();
    assert_eq!(message.content, "An apple.");
    assert_eq!(message.reasoning.as_deref(), Some("A quince?"));
}
