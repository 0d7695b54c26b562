//! Every process obeys the manifest's settings at once, and every write path applies the privacy
//! settings.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use decklog::import::Importer;
use decklog::privacy::{Pattern, PrivacySettings};
use decklog::query::ConversationQuery;
use decklog::record::ThoughtType;
use decklog::retention::Keep;
use decklog::storage::{Disk, Memory};
use decklog::thoughts::NewThought;
use decklog::{
    AckStatus, Client, CodeEditProposal, Conversation, ConversationMessage, Durability, ErrorKind,
    Event, HistoryEntry, InferenceMetadata, ObservabilityStore, ProposalStatus, ProposalStep,
    Record, Role, Settings, Store, args_sha256, event_type, verify,
};
use uuid::Uuid;

use super::support::{DAY_1, all_lines, done, failed, in_memory, request, still, turn};

/// The planted text, and its replacement.
const PLANTED: &str = "TICKET-4711";
const PLACEHOLDER: &str = "[REDACTED:ticket:1]";

fn patterns() -> Vec<Pattern> {
    vec![Pattern {
        name: "ticket".into(),
        regex: "TICKET-[0-9]+".into(),
    }]
}

fn redacting(settings: &mut Settings) {
    settings.privacy.patterns = patterns();
}

fn raw() -> Settings {
    Settings {
        privacy: PrivacySettings {
            hash_user_id: false,
            ..PrivacySettings::default()
        },
        ..Settings::default()
    }
}

/// Number of occurrences of a text in the files of a directory.
fn hits(dir: &Path, text: &str) -> usize {
    let mut found = 0;
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found += hits(&path, text);
        } else {
            let bytes = std::fs::read(&path).unwrap();
            let here = bytes
                .windows(text.len())
                .filter(|it| *it == text.as_bytes());
            found += here.count();
        }
    }
    found
}

#[test]
fn no_way_in_leads_past_the_gate() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let mut settings = raw();
    redacting(&mut settings);
    let store = Store::options()
        .settings(settings)
        .sidecar_bytes_min(0)
        .open(&path)
        .unwrap();
    let said = |what: &str| format!("{what} says {PLANTED} and {PLANTED} again");
    let json = |what: &str| format!(r#"{{"{what}": "{PLANTED}"}}"#);

    // Records of every kind, alone and in batches.
    store.record(turn(1, &said("a turn"), DAY_1)).unwrap();
    store
        .upsert_conversation_turn(turn(2, &said("the trait"), DAY_1))
        .unwrap();
    let call = |id, name: &str| {
        let mut req = request(id, name, DAY_1);
        req.arguments_json = Some(json(name));
        req.args_sha256 = args_sha256(&json(name));
        req
    };
    store.record_tool_call_requested(call(3, "one")).unwrap();
    let mut outcome = done(&call(3, "one"));
    outcome.outcome_json = Some(json("outcome"));
    store.record_tool_call_done(outcome.clone()).unwrap();
    // Records are compared in their stored form.
    assert_eq!(store.record(outcome).unwrap().status, AckStatus::Unchanged);
    let mut failure = failed(&call(4, "two"));
    failure.error_msg = Some(said("a failure"));
    let proposal = Uuid::from_u128(5);
    let talk = Uuid::from_u128(6);
    let mut message = ConversationMessage::new(talk, Role::Tool, said("a message"));
    message.tool_args = Some(json("args"));
    message.tool_result = Some(said("a result"));
    message.error = Some(said("an error"));
    let batch: Vec<Record> = vec![
        call(4, "two").into(),
        failure.into(),
        CodeEditProposal::new(proposal, json("diff"), DAY_1).into(),
        Conversation::new(talk, Client::Api).into(),
        message.into(),
        HistoryEntry::new(7, Role::User, said("a chat")).into(),
        with!(Event::new(None, event_type::AGENT_STARTED), payload: Some(json("payload"))).into(),
    ];
    for answer in store.record_batch(batch).unwrap() {
        answer.unwrap();
    }
    store
        .log_event(None, event_type::AGENT_STARTED, Some(&json("event")))
        .unwrap();

    // Records created under the lock.
    let step = |status| ProposalStep::new(proposal, status, DAY_1 + 1);
    store.record(step(ProposalStatus::Approved)).unwrap();
    store
        .record(ProposalStep {
            commit_hash: Some(PLANTED.into()),
            ..step(ProposalStatus::Applied)
        })
        .unwrap();
    store.record(step(ProposalStatus::Reverted)).unwrap();
    let changed = store
        .update_conversation(talk, |it| it.last_error = Some(said("an update")))
        .unwrap();
    assert!(changed.last_error.unwrap().contains(PLACEHOLDER));
    let inbox = store.inbox();
    inbox.enqueue(1, Some(&json("task"))).unwrap();
    inbox.enqueue(2, Some(&json("task"))).unwrap();
    let task = inbox.claim().unwrap().unwrap();
    inbox.retry(&task, &said("a retry")).unwrap();
    let task = inbox.claim().unwrap().unwrap();
    inbox.fail(&task, &said("a worker")).unwrap();
    let thoughts = store.thoughts();
    for _ in 0..3 {
        let thought = NewThought {
            thought_type: ThoughtType::Plan,
            task_id: "t".into(),
            agent_id: "a".into(),
            content: said("a thought"),
        };
        // Its hash is computed from the stored form.
        let kept = thoughts.create(thought).unwrap();
        assert!(kept.content.contains(PLACEHOLDER));
        assert_eq!(kept.hash, kept.computed_hash());
    }
    assert!(thoughts.verify_chain("t").unwrap().is_intact());
    drop(thoughts);

    // Records from a gateway.
    let other = Uuid::from_u128(8);
    let asked = |of| [ConversationMessage::new(of, Role::User, said("a question"))];
    let metadata = InferenceMetadata::default();
    store
        .capture_request(Conversation::new(other, Client::Web), asked(other))
        .unwrap();
    store
        .capture_response(other, said("an answer"), &metadata)
        .unwrap();
    store
        .capture_error(other, "timeout", said("an error"), None)
        .unwrap();
    let capture = store.capture().unwrap();
    let third = Uuid::from_u128(9);
    capture
        .capture_request(Conversation::new(third, Client::Web), asked(third))
        .unwrap();
    capture
        .capture_response(third, said("an answer"), &metadata)
        .unwrap();
    capture
        .capture_error(third, "timeout", said("an error"), None)
        .unwrap();
    let mut stream = capture.response(third);
    stream.push("TICKET-");
    stream.push("4711");
    stream.finish(&metadata).unwrap();
    capture.record(turn(10, &said("a turn"), DAY_1)).unwrap();
    capture.flush().unwrap();
    assert_eq!(capture.stats().rejected, 0);
    drop(capture);

    // Sessions of other agents.
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/claude-code-session.jsonl");
    let session = std::fs::read_to_string(sample).unwrap();
    let planted = dir
        .path()
        .join("7f2abd2d-7cfc-4447-9ddd-3ca8d14e02e9.jsonl");
    std::fs::write(&planted, session.replace("myapp", PLANTED)).unwrap();
    let mut importer = Importer::new(&store).expired(decklog::import::Expired::Expire);
    importer.path(&planted).unwrap();
    assert!(importer.finish().unwrap().added > 0);

    let of = |name: &str| path.join("..").join(name);
    drop(store);
    // The command line.
    let lines = dir.path().join("lines");
    let line = format!(
        r#"{{"kind":"history","chat_id":1,"role":"user","text":"{PLANTED}"}}
{{"kind":"inbox","op":"in_progress","id":2}}
{{"kind":"inbox","op":"failed","id":2,"error":"{PLANTED}"}}
"#
    );
    std::fs::write(&lines, line).unwrap();
    let run = |args: &[&str], input: Option<&Path>| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_decklog"));
        command.args(args).env("DECKLOG_STORE", &path);
        if let Some(input) = input {
            command.stdin(std::fs::File::open(input).unwrap());
        }
        let output = command.output().unwrap();
        assert!(output.status.success(), "{args:?}: {output:?}");
    };
    run(&["record"], Some(&lines));
    let session = session
        .replace("7f2abd2d", "8f2abd2d")
        .replace("f370ce0f", "e370ce0f");
    std::fs::write(of("again.jsonl"), session.replace("myapp", PLANTED)).unwrap();
    run(
        &["import", "--expire", of("again.jsonl").to_str().unwrap()],
        None,
    );

    assert_eq!(hits(&path, PLANTED), 0);
    assert!(
        hits(&path, PLACEHOLDER) >= 50,
        "{}",
        hits(&path, PLACEHOLDER)
    );
    assert!(verify(&Disk::new(&path)).unwrap().is_clean());
}

/// From the acknowledged change on, no process and no handle writes by the old settings.
#[test]
fn a_change_is_obeyed_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let open = || Store::options().settings(raw()).open(&path).unwrap();
    let handles = [open(), open()];
    let is_over = AtomicBool::new(false);
    let mut acknowledged = 0;
    std::thread::scope(|scope| {
        for (thread, store) in handles.iter().enumerate() {
            for part in 0..2 {
                let is_over = &is_over;
                scope.spawn(move || {
                    let mut number = 0;
                    while !is_over.load(Ordering::Relaxed) {
                        let id = ((thread * 2 + part) as u128) << 64 | number;
                        number += 1;
                        if number % 3 == 0 {
                            let batch = [turn(id, PLANTED, DAY_1).into()];
                            store.record_batch(batch).unwrap().remove(0).unwrap();
                        } else {
                            store.record(turn(id, PLANTED, DAY_1)).unwrap();
                        }
                    }
                });
            }
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
        let status = Command::new(env!("CARGO_BIN_EXE_decklog"))
            .args(["config", "set", "privacy.patterns"])
            .arg(r#"[{"name":"ticket","regex":"TICKET-[0-9]+"}]"#)
            .env("DECKLOG_STORE", &path)
            .output()
            .unwrap();
        acknowledged = open().health().unwrap().last_seq;
        std::thread::sleep(std::time::Duration::from_millis(100));
        is_over.store(true, Ordering::Relaxed);
        assert!(status.status.success(), "{status:?}");
    });
    let lines = all_lines(&handles[0]);
    let is_raw = |record: &Record| matches!(record, Record::Turn(turn) if turn.content == PLANTED);
    let raw = lines.iter().filter(|(_, record)| is_raw(record)).count();
    assert!(raw > 0 && raw < lines.len(), "{raw} of {}", lines.len());
    // No record by the old settings after the first one by the new settings.
    assert!(lines[..raw].iter().all(|(_, record)| is_raw(record)));
    assert!(lines[raw].0 <= acknowledged + 1);
    assert!(lines.last().unwrap().0 > acknowledged);
}

/// Also if HEAD, which announces the change, is recreated.
#[test]
fn a_change_is_obeyed_where_head_is_made_anew() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let open = || Store::options().settings(raw()).open(&path).unwrap();
    let (one, two) = (open(), open());
    let content = |store: &Store, id| {
        store.record(turn(id, PLANTED, DAY_1)).unwrap();
        let turn = store.get_turn(Uuid::from_u128(id)).unwrap().unwrap();
        turn.content
    };
    assert_eq!(content(&one, 1), PLANTED);
    for id in 2..6 {
        std::thread::sleep(std::time::Duration::from_millis(30));
        if id % 2 == 0 {
            std::fs::remove_file(path.join("HEAD")).unwrap();
        } else {
            std::fs::write(path.join("HEAD"), "").unwrap();
        }
        let expected = if id % 2 == 0 { PLACEHOLDER } else { PLANTED };
        let changed = two.change_settings(|it| {
            it.privacy.patterns = if id % 2 == 0 { patterns() } else { Vec::new() };
        });
        assert_eq!(changed.unwrap(), one.settings().unwrap());
        assert_eq!(content(&one, id), expected, "{id}");
    }
}

/// Records checked under the old settings are checked again. Bug: a handle with outdated settings
/// rejected whole batches, hours after a change.
#[test]
fn the_first_call_after_a_change_obeys_it_whichever_way_it_goes() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let other = Store::options().settings(raw()).open(&path).unwrap();
    let told = |id: u128| {
        with!(ConversationMessage::new(Uuid::from_u128(1), Role::User, "said in full"),
            id: Uuid::from_u128(id),
        )
    };
    other
        .record(Conversation::new(Uuid::from_u128(1), Client::Api))
        .unwrap();
    let handles: Vec<Store> = (0..4).map(|_| Store::open(&path).unwrap()).collect();
    let [one, batch, captured, imported] = &handles[..] else {
        panic!()
    };
    let capture = captured.capture().unwrap();
    let session = dir.path().join("session.jsonl");
    let mut next = 100;
    for (round, is_kept) in [false, true, false, true].into_iter().enumerate() {
        other
            .change_settings(|it| it.privacy.store_content = is_kept)
            .unwrap();
        let from = next;
        one.record(told(next)).unwrap();
        next += 1;
        let many: Vec<Record> = (next..next + 200).map(|id| told(id).into()).collect();
        next += 200;
        for answer in batch.record_batch(many).unwrap() {
            answer.unwrap();
        }
        capture.record(told(next)).unwrap();
        capture.flush().unwrap();
        next += 1;
        let is_as_set = |content: &str| (content == "said in full") == is_kept;
        for id in from..next {
            let found = other.get_message(Uuid::from_u128(id)).unwrap().unwrap();
            assert!(is_as_set(&found.content), "{round} {id}: {}", found.content);
        }
        let line = format!(
            r#"{{"type":"user","uuid":"{}","sessionId":"{}","timestamp":"2025-12-27T10:00:00Z","message":{{"role":"user","content":"said in full"}}}}"#,
            Uuid::from_u128(5_000 + round as u128),
            Uuid::from_u128(6_000 + round as u128),
        );
        std::fs::write(&session, line + "\n").unwrap();
        let mut importer = Importer::new(imported).expired(decklog::import::Expired::Expire);
        importer.path(&session).unwrap();
        importer.finish().unwrap();
        let said = imported.last_lines(100).unwrap();
        let is_kept_there = said.iter().any(|line| {
            let is_of = line
                .text
                .contains(&Uuid::from_u128(5_000 + round as u128).to_string());
            is_of && line.text.contains("said in full")
        });
        assert_eq!(is_kept_there, is_kept, "{round}");
    }
}

#[test]
fn a_change_where_head_is_no_shared_memory_survives_a_power_cut() {
    let memory = Memory::new();
    let one = in_memory(&memory, Durability::Process);
    let two = in_memory(&memory, Durability::Process);
    one.record(turn(1, PLANTED, DAY_1)).unwrap();
    let settings = two.change_settings(redacting).unwrap();
    one.record(turn(2, PLANTED, DAY_1)).unwrap();
    let found = one.get_turn(Uuid::from_u128(2)).unwrap().unwrap();
    assert_eq!(found.content, PLACEHOLDER);
    let after = in_memory(&memory.after_power_cut(|_| 0), Durability::Process);
    assert_eq!(after.settings().unwrap(), settings);
}

/// A record made before a change of settings equals the same record after it.
#[test]
fn the_same_again_after_a_change_is_the_same() {
    let memory = Memory::new();
    let store = in_memory(&memory, Durability::Process);
    let talk = Uuid::from_u128(1);
    let mut outcome = failed(&request(2, "c", DAY_1));
    outcome.error_msg = Some(PLANTED.into());
    let proposal = Uuid::from_u128(3);
    let applied = ProposalStep {
        commit_hash: Some(PLANTED.into()),
        ..ProposalStep::new(proposal, ProposalStatus::Applied, DAY_1 + 2)
    };
    let records: Vec<Record> = vec![
        turn(1, PLANTED, DAY_1).into(),
        request(2, "c", DAY_1).into(),
        outcome.into(),
        with!(Conversation::new(talk, Client::Api), project: Some(PLANTED.into())).into(),
        ConversationMessage::new(talk, Role::User, PLANTED).into(),
        with!(HistoryEntry::new(7, Role::User, PLANTED), id: 1).into(),
        with!(Event::new(None, event_type::AGENT_STARTED),
            id: 1,
            payload: Some(format!("{PLANTED}!")),
        )
        .into(),
        CodeEditProposal::new(proposal, PLANTED, DAY_1).into(),
        ProposalStep::new(proposal, ProposalStatus::Approved, DAY_1 + 1).into(),
        applied.into(),
    ];
    let put = || store.record_batch(records.clone()).unwrap();
    let are_all = |status| put().into_iter().all(|ack| ack.unwrap().status == status);
    assert!(are_all(AckStatus::Added));
    store.change_settings(redacting).unwrap();
    for (record, ack) in records.iter().zip(put()) {
        let ack = ack.unwrap_or_else(|e| panic!("{record:?}: {e}"));
        assert_eq!(ack.status, AckStatus::Unchanged, "{record:?}");
    }
    // Content of an older line is not copied unredacted into a new one.
    let reverted = ProposalStep::new(proposal, ProposalStatus::Reverted, DAY_1 + 3);
    store.record(reverted).unwrap();
    let found = store.get_proposal(proposal).unwrap().unwrap();
    assert_eq!(found.commit_hash.as_deref(), Some(PLACEHOLDER));
    let changed = store.update_conversation(talk, |it| it.client = Client::Web);
    assert_eq!(changed.unwrap().project.as_deref(), Some(PLACEHOLDER));
}

/// A record that was stored in reduced form still equals the original once the settings are
/// relaxed.
#[test]
fn the_same_again_after_settings_were_relaxed_is_no_conflict() {
    let talk = Uuid::from_u128(1);
    let secret = format!("{PLANTED} ann@example.com");
    let mut outcome = failed(&request(2, "c", DAY_1));
    outcome.error_msg = Some(secret.clone());
    outcome.outcome_json = Some(format!(r#"{{"mail":"{secret}"}}"#));
    let message = with!(ConversationMessage::new(talk, Role::User, &*secret),
        id: Uuid::from_u128(4),
        tool_args: Some(format!(r#"["{secret}"]"#)),
    );
    let facts: Vec<Record> = vec![
        outcome.clone().into(),
        message.clone().into(),
        with!(HistoryEntry::new(7, Role::User, &*secret), id: 1).into(),
        with!(Event::new(None, event_type::AGENT_STARTED),
            id: 1,
            payload: Some(secret.clone()),
        )
        .into(),
    ];
    let strict: [fn(&mut Settings); 4] = [
        |it| it.privacy.store_content = false,
        |it| it.privacy.store_payloads = false,
        |it| it.privacy.redact_pii = true,
        |it| {
            it.privacy.store_payloads = false;
            it.privacy.redact_pii = true;
        },
    ];
    for strict in strict {
        let memory = Memory::new();
        let store = in_memory(&memory, Durability::Process);
        let loose = store.settings().unwrap();
        store.change_settings(strict).unwrap();
        store.record(request(2, "c", DAY_1)).unwrap();
        store.record(Conversation::new(talk, Client::Api)).unwrap();
        let put = || store.record_batch(facts.clone()).unwrap();
        for ack in put() {
            assert_eq!(ack.unwrap().status, AckStatus::Added);
        }
        let lines = all_lines(&store);
        store.change_settings(|it| *it = loose.clone()).unwrap();
        for (record, ack) in facts.iter().zip(put()) {
            let ack = ack.unwrap_or_else(|e| panic!("{record:?}: {e}"));
            assert_eq!(ack.status, AckStatus::Unchanged, "{record:?}");
        }
        assert_eq!(all_lines(&store), lines);
        // Different content is a conflict as usual.
        let other = with!(message.clone(), content: format!("{secret}!"));
        let mut ended = outcome.clone();
        ended.error_msg = Some("other".into());
        for other in [Record::from(other), ended.into()] {
            let error = store.record(other).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
        }
    }
}

#[test]
fn an_error_from_before_a_change_is_not_written_anew() {
    let memory = Memory::new();
    let store = in_memory(&memory, Durability::Process);
    let inbox = store.inbox();
    inbox.enqueue(1, None).unwrap();
    let task = inbox.claim().unwrap().unwrap();
    inbox.retry(&task, PLANTED).unwrap();
    store.change_settings(redacting).unwrap();
    inbox.claim().unwrap().unwrap();
    let last = store.last_lines(1).unwrap();
    assert!(last[0].text.contains(PLACEHOLDER), "{}", last[0].text);
    assert!(!last[0].text.contains(PLANTED), "{}", last[0].text);
}

#[test]
fn a_user_is_found_by_either_form_of_the_id() {
    let dir = tempfile::tempdir().unwrap();
    let open = || {
        let options = Store::options().settings(raw());
        options.user_id_key(dir.path().join("key"))
    };
    let store = open().open(dir.path().join("log")).unwrap();
    let talk = |id, user: &str| Conversation::new(Uuid::from_u128(id), Client::Api).user_id(user);
    let of = |user: &str| {
        let query = ConversationQuery {
            user_id: Some(user.into()),
            ..ConversationQuery::default()
        };
        let found = store.conversations(&query).unwrap();
        assert_eq!(found.total, found.items.len());
        let mut ids: Vec<_> = found.items.iter().map(|(it, _)| it.id.as_u128()).collect();
        ids.sort_unstable();
        ids
    };
    store.record(talk(1, "ann")).unwrap();
    store.record(talk(2, "bob")).unwrap();
    let hashing = open().open(dir.path().join("log")).unwrap();
    hashing
        .change_settings(|it| it.privacy.hash_user_id = true)
        .unwrap();
    assert_eq!((of("ann"), of("bob")), (vec![1], vec![2]));
    hashing.record(talk(3, "ann")).unwrap();
    hashing.record(talk(4, "eve")).unwrap();
    // The first handle has not written since the change, but knows it.
    assert_eq!((of("ann"), of("bob")), (vec![1, 3], vec![2]));
    assert_eq!((of("eve"), of("nobody")), (vec![4], vec![]));
}

#[test]
fn a_store_is_made_with_settings_and_keeps_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let bad = |change: fn(&mut Settings)| {
        let mut settings = Settings::default();
        change(&mut settings);
        let opened = Store::options().settings(settings).open(&path);
        assert_eq!(opened.unwrap_err().kind(), ErrorKind::InvalidInput);
        assert!(!path.exists());
    };
    bad(|it| it.privacy.retention_days = 0);
    bad(|it| it.retention.events = Some(Keep::Days(40_000)));
    bad(|it| it.retention.max_bytes = Some(1));
    bad(|it| {
        it.privacy.patterns = vec![Pattern {
            name: "open".into(),
            regex: "(".into(),
        }];
    });
    let mut settings = Settings::default();
    settings.privacy.redact_pii = true;
    settings.retention.messages = Some(Keep::Forever);
    let store = Store::options().settings(settings.clone()).open(&path);
    assert_eq!(store.unwrap().settings().unwrap(), settings);
    let store = Store::open(&path).unwrap();
    assert_eq!(store.settings().unwrap(), settings);

    let manifest = || std::fs::read_to_string(path.join("decklog.json")).unwrap();
    let before = manifest();
    let refused = store.change_settings(|it| it.privacy.retention_days = 0);
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidInput);
    assert_eq!(manifest(), before);
    let reader = Store::options().read_only(true).open(&path).unwrap();
    let refused = reader.change_settings(redacting);
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::ReadOnly);
    assert_eq!(manifest(), before);
}

#[test]
fn what_another_version_wrote_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    std::fs::create_dir(&path).unwrap();
    let id = "67e55044-10b1-426f-9247-bb680e5fe0c8";
    let file = path.join("decklog.json");
    let manifest =
        || -> serde_json::Value { serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap() };
    // A manifest of an older version.
    std::fs::write(&file, format!(r#"{{"format":1,"store_id":"{id}"}}"#)).unwrap();
    let store = Store::open(&path).unwrap();
    assert_eq!(store.settings().unwrap(), Settings::default());
    drop(store);
    // A manifest of a newer version.
    let text = format!(
        r#"{{"format":1,"sealing":{{"on":true}},"store_id":"{id}","privacy":{{"redact_pii":true,"redact_faces":[1,2.5]}},"retention":{{"messages":7,"events":9,"weather":"forever"}}}}"#
    );
    std::fs::write(&file, text).unwrap();
    let store = Store::open(&path).unwrap();
    let changed = store.change_settings(|it| {
        it.privacy.redact_pii = false;
        it.retention.messages = None;
        it.retention.max_bytes = Some(1 << 30);
    });
    assert_eq!(changed.unwrap().retention.events, Some(Keep::Days(9)));
    let found = manifest();
    assert_eq!(found["sealing"]["on"], true);
    assert_eq!(found["privacy"]["redact_faces"].to_string(), "[1,2.5]");
    assert_eq!(found["privacy"]["redact_pii"], false);
    let retention = serde_json::json!({"events": 9, "weather": "forever", "max_bytes": 1 << 30});
    assert_eq!(found["retention"], retention);
    assert_eq!(found["store_id"], id);
    drop(store);

    // Settings that cannot be obeyed stop writers, but not readers.
    for (settings, told) in [
        (r#""privacy":{"redact_pii":"yes"}"#, "privacy.redact_pii"),
        (r#""privacy":7"#, "does not read"),
        (
            r#""privacy":{"retention_days":0}"#,
            "privacy.retention_days",
        ),
        (r#""retention":{"messages":"never"}"#, "retention.messages"),
        (
            r#""privacy":{"patterns":[{"name":"x","regex":"("}]}"#,
            "mend it",
        ),
    ] {
        let text = format!(r#"{{"format":1,"store_id":"{id}",{settings}}}"#);
        std::fs::write(&file, text).unwrap();
        let e = Store::open(&path).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Damaged, "{e}");
        assert!(e.to_string().contains(told), "{told}: {e}");
        assert!(e.to_string().contains("decklog.json"), "{e}");
    }
    let text = format!(r#"{{"format":1,"store_id":"{id}"}}"#);
    std::fs::write(&file, text).unwrap();
    let store = still().open(&path).unwrap();
    store.record(turn(1, "x", DAY_1)).unwrap();
    let other = still().open(&path).unwrap();
    std::fs::write(&file, "{\"format\":1}").unwrap();
    // Also with a handle that was already open, at its next check.
    let refused = other.record(turn(2, "x", DAY_1)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Damaged, "{refused}");
    let reader = Store::options().read_only(true).open(&path).unwrap();
    assert_eq!(reader.damage().unwrap()[0].file, "decklog.json");
    assert_eq!(reader.list_conversation_since(0, 9).unwrap().len(), 1);
    // A refusal leaves nothing to recover.
    store.record(turn(3, "x", DAY_1)).unwrap();
    assert_eq!(
        store.health().unwrap().lock,
        decklog::health::LockState::Free
    );
}
