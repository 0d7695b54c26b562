//! Records removed by retention or erasure do not return unless requested, and an import loses
//! nothing without notice.

use std::fs;
use std::path::{Path, PathBuf};

use decklog::analytics::{Analytics, AnalyticsQuery, UsageSums};
use decklog::import::{Expired, Importer, Report, foreign_id, named};
use decklog::query::ConversationQuery;
use decklog::retention::{EraseOptions, Erasure, Keep, RetainOptions, RetentionSettings};
use decklog::{AckStatus, Client, Conversation, ErrorKind, Settings, Store, replay};
use uuid::Uuid;

use super::erase::{conversation, erase, holding, record};
use super::support::{DAY_1, plain_users, still, turn};

/// From the sample session: its id and its text.
const SESSION: &str = "7f2abd2d-7cfc-4447-9ddd-3ca8d14e02e9";
const CALL: &str = "toolu_01GLEN5BsyXUTQaQV2fdQ9ea";

fn samples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data")
}

fn import(store: &Store, expired: Expired, restore: bool) -> decklog::Result<Report> {
    let mut importer = Importer::new(store)
        .expired(expired)
        .restore_erased(restore);
    importer.path(&samples())?;
    importer.finish()
}

fn usage(store: &Store) -> UsageSums {
    let analytics: Analytics = store.analytics();
    analytics.usage(&AnalyticsQuery::default()).unwrap().total
}

fn retain(store: &Store) {
    store.retain(RetainOptions::default()).unwrap();
}

fn conversations(store: &Store) -> u64 {
    let query = ConversationQuery::default();
    store.conversations(&query).unwrap().items.len() as u64
}

#[test]
fn an_import_that_retention_would_remove_stops_before_it_writes() {
    let dir = tempfile::tempdir().unwrap();
    let store = still().open(dir.path().join("log")).unwrap();
    let error = import(&store, Expired::Refuse, false).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    let text = error.to_string();
    for words in [
        "3 conversations with ",
        " turns before ",
        " records of tool calls before ",
        "(privacy.retention_days is 90 days)",
        "nothing was imported",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert_eq!(store.counts().unwrap().last_seq, 0);

    // The error names the setting that causes it, and only the records that would be removed.
    let change = |change: fn(&mut RetentionSettings)| {
        store
            .change_settings(|settings| change(&mut settings.retention))
            .unwrap();
    };
    change(|retention| {
        retention.messages = Some(Keep::Days(60));
        retention.tool_calls = Some(Keep::Forever);
        retention.conversation_turns = Some(Keep::Days(36_525));
    });
    let text = import(&store, Expired::Refuse, false)
        .unwrap_err()
        .to_string();
    assert!(text.contains("(retention.messages is 60 days)"), "{text}");
    assert!(
        !text.contains("tool calls") && !text.contains("turns"),
        "{text}"
    );
    change(|retention| {
        retention.messages = Some(Keep::Days(36_525));
        retention.max_bytes = Some(65_536);
    });
    let long = turn(9, &"long ".repeat(20_000), decklog::Timestamp::now().at());
    store.record(long).unwrap();
    let text = import(&store, Expired::Refuse, false)
        .unwrap_err()
        .to_string();
    assert!(
        text.contains("(retention.max_bytes is 65536 bytes)"),
        "{text}"
    );
    change(|retention| retention.max_bytes = None);
    assert!(import(&store, Expired::Refuse, false).unwrap().added > 0);
}

#[test]
fn what_is_to_be_kept_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let store = still().open(dir.path().join("log")).unwrap();
    let added = import(&store, Expired::Keep, false).unwrap().added;
    let retention = store.settings().unwrap().retention;
    let keeps = [
        retention.conversation_turns,
        retention.tool_calls,
        retention.messages,
        retention.errors,
    ];
    assert_eq!(keeps, [Some(Keep::Forever); 4]);
    retain(&store);
    assert_eq!(store.counts().unwrap().last_seq, added);
    assert_eq!(conversations(&store), 3);
    // Every later import adds only records that are kept.
    assert_eq!(import(&store, Expired::Refuse, false).unwrap().added, 0);

    let settings = Settings {
        retention: RetentionSettings::forever(),
        ..plain_users()
    };
    let other = still().settings(settings).open(dir.path().join("other"));
    let other = other.unwrap();
    import(&other, Expired::Refuse, false).unwrap();
    retain(&other);
    assert_eq!(conversations(&other), 3);
}

/// A daily import of a machine's history into a log with a retention period.
#[test]
fn what_may_expire_is_counted_once_at_whatever_number_of_imports() {
    let dir = tempfile::tempdir().unwrap();
    let store = still().open(dir.path().join("log")).unwrap();
    import(&store, Expired::Expire, false).unwrap();
    let once = usage(&store);
    assert!(once.tokens_in > 0);
    // While the log has all records, nothing is added.
    assert_eq!(import(&store, Expired::Refuse, false).unwrap().added, 0);
    for _ in 0..3 {
        retain(&store);
        assert_eq!((conversations(&store), usage(&store)), (0, once));
        assert!(import(&store, Expired::Refuse, false).is_err());
        assert!(import(&store, Expired::Expire, false).unwrap().added > 0);
        assert_eq!((conversations(&store), usage(&store)), (3, once));
    }
}

/// The ids of the session's conversations: its own and that of its sub-agent.
fn talks() -> [Uuid; 2] {
    let agent = foreign_id("claude-code:agent", &format!("{SESSION}:0c4c3cf8"));
    [SESSION.parse().unwrap(), agent]
}

#[test]
fn an_erased_conversation_comes_back_only_when_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let store = still().open(&path).unwrap();
    let all = import(&store, Expired::Expire, false).unwrap();
    let [session, agent] = talks();
    assert!(store.get_conversation(agent).unwrap().is_some());
    erase(&store, &Erasure::Conversation(session));
    assert!(store.get_conversation(agent).unwrap().is_none());
    let again = import(&store, Expired::Expire, false).unwrap();
    assert_eq!((again.added, again.erased), (0, 2));
    assert!(again.left_out > 0 && again.turns < all.turns);
    let removals = fs::read_to_string(path.join("removals.jsonl")).unwrap();
    assert!(removals.contains("\"erased\":[{\"id\":\""));
    for store in [store, still().open(&path).unwrap()] {
        let again = import(&store, Expired::Expire, false).unwrap();
        assert_eq!(
            (again.added, again.erased, again.left_out > 30),
            (0, 2, true)
        );
        // The third file.
        assert_eq!((again.conversations, again.unchanged), (0, 1));
        assert_eq!(conversations(&store), 1);
        assert_eq!(holding(&path, SESSION), Vec::<PathBuf>::new());
        assert_eq!(holding(&path, &agent.to_string()), Vec::<PathBuf>::new());
    }

    let store = still().open(&path).unwrap();
    let back = import(&store, Expired::Expire, true).unwrap();
    assert_eq!((back.erased, back.left_out), (0, 0));
    // The file with nothing erased is unchanged.
    assert_eq!((back.unchanged, back.turns), (1, all.turns - 11));
    assert_eq!(conversations(&store), 3);
    // It stays: the next import finds it without the option.
    drop(store);
    let store = still().open(&path).unwrap();
    let after = import(&store, Expired::Expire, false).unwrap();
    assert_eq!((after.added, after.left_out), (0, 0));
    // Until it is erased again.
    erase(&store, &Erasure::Conversation(session));
    assert!(import(&store, Expired::Expire, false).unwrap().left_out > 0);
    assert!(store.get_conversation(session).unwrap().is_none());
    assert!(
        decklog::verify(&decklog::storage::Disk::new(&path))
            .unwrap()
            .is_clean()
    );
}

const FORK: Uuid = Uuid::from_u128(0xf0f0);
const SHARED_WORDS: &str = "add myapp directory";
const OWN_WORDS: &str = "and now something else";

/// Writes the session and a fork of it: all of its lines under another id, and one more.
fn write_forked(dir: &Path) -> [PathBuf; 2] {
    let session = fs::read_to_string(samples().join("claude-code-session.jsonl")).unwrap();
    let last: serde_json::Value = serde_json::from_str(session.lines().last().unwrap()).unwrap();
    let own = serde_json::json!({
        "type": "user",
        "uuid": Uuid::from_u128(0xf0f1),
        "parentUuid": last["uuid"],
        "sessionId": FORK,
        "timestamp": "2025-12-10T08:00:00.000Z",
        "message": {"role": "user", "content": OWN_WORDS},
    });
    let forked = session.replace(SESSION, &FORK.to_string());
    let forked = format!("{}\n{own}\n", forked.trim_end());
    [("session", session), ("fork", forked)].map(|(name, text)| {
        let path = dir.join(format!("{name}.jsonl"));
        fs::write(&path, text).unwrap();
        path
    })
}

/// Imports files in one run, whatever retention would remove of them.
fn import_files(store: &Store, paths: &[&PathBuf]) -> Report {
    import_files_with(Importer::new(store), paths)
}

fn import_files_with(importer: Importer<'_>, paths: &[&PathBuf]) -> Report {
    let mut importer = importer.expired(Expired::Expire);
    for path in paths {
        importer.path(path).unwrap();
    }
    importer.finish().unwrap()
}

fn import_file(store: &Store, path: &Path, restore: bool) -> Report {
    let mut importer = Importer::new(store)
        .expired(Expired::Expire)
        .restore_erased(restore);
    importer.path(path).unwrap();
    importer.finish().unwrap()
}

/// A fork contains the lines of its original session.
#[test]
fn an_erased_conversation_does_not_come_back_through_a_fork() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let [session, fork] = write_forked(dir.path());
    let store = still().open(&path).unwrap();
    import_file(&store, &session, false);
    let id = SESSION.parse().unwrap();
    let erased = erase(&store, &Erasure::Conversation(id));
    assert!(erased.continued.is_empty());
    for store in [store, still().open(&path).unwrap()] {
        let found = import_file(&store, &fork, false);
        assert!(found.left_out > 30, "{}", found.left_out);
        assert_eq!(holding(&path, SHARED_WORDS), Vec::<PathBuf>::new());
        assert_eq!(
            store
                .get_conversation(FORK)
                .unwrap()
                .unwrap()
                .1
                .message_count,
            1
        );
    }
    assert!(!holding(&path, OWN_WORDS).is_empty());
    // Nor from a copy of a log with the fork.
    let other = still().open(dir.path().join("other")).unwrap();
    import_file(&other, &fork, false);
    other.sync().unwrap();
    let store = still().open(&path).unwrap();
    for day in ["2025-12-09", "2025-12-10"] {
        let mut replay = replay::day(other.path(), day.parse().unwrap()).unwrap();
        replay.prepare_for(&store).unwrap();
        let records = replay.lines;
        store.record_replayed(records).unwrap();
    }
    assert_eq!(holding(&path, SHARED_WORDS), Vec::<PathBuf>::new());

    let back = import_file(&store, &fork, true);
    assert_eq!(back.left_out, 0);
    assert!(!holding(&path, SHARED_WORDS).is_empty());
    assert_eq!(import_file(&store, &session, false).left_out, 0);
}

/// A fork and its session have messages with equal ids, and either may be imported first.
#[test]
fn a_fork_counts_once_when_it_comes_back_before_its_session() {
    let dir = tempfile::tempdir().unwrap();
    let [session, fork] = write_forked(dir.path());
    let open = |name: &str| still().open(dir.path().join(name)).unwrap();
    let all = {
        let store = open("all");
        for file in [&session, &fork] {
            import_file(&store, file, false);
        }
        usage(&store)
    };

    // After retention removed either or both.
    let (forever, a_day) = (Keep::Forever, Keep::Days(1));
    for (messages, turns) in [(a_day, forever), (a_day, a_day), (forever, a_day)] {
        let store = open(&format!("retained, {messages:?} and {turns:?}"));
        let settings = |it: &mut Settings| {
            it.retention.messages = Some(messages);
            it.retention.conversation_turns = Some(turns);
            it.retention.rollups = Some(Keep::Forever);
        };
        store.change_settings(settings).unwrap();
        for order in [[&session, &fork], [&fork, &session], [&session, &fork]] {
            import_files(&store, &order);
            assert_eq!(usage(&store), all, "{messages:?}, {turns:?}");
            retain(&store);
            assert_eq!(usage(&store), all, "{messages:?}, {turns:?}");
        }
    }

    // Also if a replay has the lines as the session's.
    let (of_fork, of_both) = (open("of the fork"), open("of both"));
    import_file(&of_fork, &fork, false);
    for file in [&session, &fork] {
        import_file(&of_both, file, false);
    }
    of_both.sync().unwrap();
    let mut replay = replay::dir(of_both.path()).unwrap();
    replay.prepare_for(&of_fork).unwrap();
    let records = replay.lines;
    of_fork.record_replayed(records).unwrap();
    for order in [[&session, &fork], [&fork, &session]] {
        let all_files = Importer::new(&of_fork).reread(true);
        let report = import_files_with(all_files, &order);
        assert_eq!(usage(&of_fork), all);
        let summary = UsageSums {
            messages: report.messages,
            requests: report.api_responses,
            tokens_in: report.tokens_in,
            tokens_out: report.tokens_out,
            tokens_input: report.tokens_in - report.tokens_cache_write - report.tokens_cache_read,
            tokens_cache_write: report.tokens_cache_write,
            tokens_cache_read: report.tokens_cache_read,
            tokens_reasoning: report.tokens_reasoning,
            // Computed from the tokens.
            ..all
        };
        assert_eq!(summary, all);
    }
}

/// Records erased from a store are also erased for stores that are filled from it. Records that
/// were brought back there stay.
#[test]
fn tombstones_go_along_with_a_replay() {
    let dir = tempfile::tempdir().unwrap();
    let old = still().open(dir.path().join("old")).unwrap();
    let all = import(&old, Expired::Keep, false).unwrap().added;
    let session: Uuid = SESSION.parse().unwrap();
    erase(&old, &Erasure::Conversation(session));
    old.sync().unwrap();

    let new = still().open(dir.path().join("new")).unwrap();
    let replay_old = || {
        let mut replay = replay::dir(old.path()).unwrap();
        let left_out = replay.prepare_for(&new).unwrap();
        let records = replay.lines;
        new.record_replayed(records).unwrap();
        new.sync().unwrap();
        left_out
    };
    assert_eq!(replay_old(), 0);
    let again = import(&new, Expired::Keep, false).unwrap();
    assert_eq!(again.added, 0);
    assert!(again.left_out > 0 && again.left_out < all);
    assert!(new.get_conversation(session).unwrap().is_none());

    // New tombstones are added with the same key, and both are found.
    let (other, ..) = {
        let query = ConversationQuery::default();
        new.conversations(&query).unwrap().items.remove(0)
    };
    let other = other.id;
    erase(&new, &Erasure::Conversation(other));
    assert!(import(&new, Expired::Keep, false).unwrap().left_out > again.left_out);
    let back = import(&new, Expired::Keep, true).unwrap();
    assert!(back.added > 0 && back.left_out == 0);
    assert!(new.get_conversation(session).unwrap().is_some());
    // Records that were brought back stay, also after the next replay of the old store.
    assert_eq!(replay_old(), 0);
    assert_eq!(import(&new, Expired::Keep, false).unwrap().left_out, 0);

    // A store with tombstones of its own adopts those of another store, which have another key.
    let third = still().open(dir.path().join("third")).unwrap();
    import(&third, Expired::Keep, false).unwrap();
    erase(&third, &Erasure::Conversation(other));
    let mut replay = replay::dir(old.path()).unwrap();
    assert!(replay.prepare_for(&third).unwrap() > 0);
    for (id, is_there) in [(other, false), (session, true)] {
        assert_eq!(third.get_conversation(id).unwrap().is_some(), is_there);
    }
    erase(&third, &Erasure::Conversation(session));
    assert_eq!(import(&third, Expired::Keep, false).unwrap().added, 0);
}

/// Replays a whole store into another one; returns the number of records left out.
fn replay_all(from: &Store, into: &Store) -> u64 {
    from.sync().unwrap();
    let mut replay = replay::dir(from.path()).unwrap();
    let left_out = replay.prepare_for(into).unwrap();
    let records = replay.lines.into_iter().map(|line| line.record);
    record(into, records.collect());
    into.sync().unwrap();
    left_out
}

/// The records in a store were recorded after its erasures, and are replayed. What the other store
/// erased stays erased.
#[test]
fn what_was_recorded_again_is_replayed() {
    let dir = tempfile::tempdir().unwrap();
    let open = |name: &str| {
        let options = still().settings(plain_users());
        options.open(dir.path().join(name)).unwrap()
    };
    let (old, copy, early) = (open("old"), open("copy"), open("early"));
    let pear = || conversation(1_000, "ann", "pear");
    let plum = || conversation(2_000, "bob", "plum");
    for store in [&old, &copy] {
        record(store, [pear(), plum()].concat());
    }
    let talk = Erasure::Conversation(Uuid::from_u128(1_000));
    let request = Erasure::Request(Uuid::from_u128(2_300));
    for what in [&talk, &request] {
        erase(&old, what);
    }
    assert_eq!(replay_all(&old, &early), 0);
    assert_eq!(conversations(&early), 1);
    let of_request = |store: &Store| {
        let request = Uuid::from_u128(2_300);
        decklog::ObservabilityStore::get_tool_call(store, request, "call").unwrap()
    };
    assert!(of_request(&early).is_none());
    record(&old, [pear(), plum()].concat());

    // Whether the tombstones arrive with the records or earlier.
    let late = open("late");
    for store in [&late, &late, &early] {
        assert_eq!(replay_all(&old, store), 0);
        assert_eq!(conversations(store), 2);
        assert!(of_request(store).is_some());
        let counts = [&old, store].map(usage);
        assert_eq!(counts[0], counts[1]);
    }
    // The tombstones were copied too: records from other sources are still left out.
    assert!(replay_all(&copy, &late) > 0);
    // They are passed on from there.
    let third = open("third");
    assert_eq!(replay_all(&late, &third), 0);
    assert_eq!(conversations(&third), 2);
    assert!(replay_all(&copy, &third) > 0);

    // An erasure here applies whatever was erased there.
    erase(&late, &talk);
    for from in [&old, &early, &old] {
        assert!(replay_all(from, &late) > 0);
        assert_eq!(conversations(&late), 1);
        assert_eq!(holding(late.path(), "pear"), Vec::<PathBuf>::new());
        erase(&old, &talk);
        record(&old, pear());
    }
    assert_eq!(replay_all(&old, &early), 0);
    assert_eq!(conversations(&early), 2);
}

/// Leftovers of an interrupted erasure are not recorded elsewhere, except records made after it.
#[test]
fn a_replay_leaves_out_what_is_to_be_erased_still() {
    let dir = tempfile::tempdir().unwrap();
    let open = |name: &str| {
        let options = still().settings(plain_users());
        options.open(dir.path().join(name)).unwrap()
    };
    let (old, new) = (open("old"), open("new"));
    record(&old, conversation(1_000, "ann", "pear"));
    record(&old, conversation(2_000, "bob", "plum"));
    let mut stop = |_: &_| std::ops::ControlFlow::Break(());
    let talk = Erasure::Conversation(Uuid::from_u128(1_000));
    let begun = old
        .erase(
            &talk,
            EraseOptions {
                progress: Some(&mut stop),
                ..EraseOptions::default()
            },
        )
        .unwrap();
    assert!(begun.is_interrupted);
    assert!(!holding(old.path(), "pear").is_empty());
    assert!(replay_all(&old, &new) > 0);
    assert_eq!(conversations(&new), 1);
    assert_eq!(holding(new.path(), "pear"), Vec::<PathBuf>::new());

    erase(&old, &talk);
    record(&old, conversation(1_000, "ann", "pear"));
    assert_eq!(replay_all(&old, &new), 0);
    assert_eq!(conversations(&new), 2);
}

/// A line of a session that was forked in its middle.
fn said(session: Uuid, line: u128, block: &serde_json::Value, tokens_out: u64) -> String {
    let id = |n: u128| Uuid::from_u128(0xabc0_0000 + n);
    let role = if tokens_out > 0 { "assistant" } else { "user" };
    let mut message = serde_json::json!({"role": role, "content": [block]});
    if tokens_out > 0 {
        message["id"] = "msg_x".into();
        message["model"] = "small-1".into();
        message["usage"] = serde_json::json!({"input_tokens": 100, "output_tokens": tokens_out});
    }
    serde_json::json!({
        "type": role,
        "uuid": id(line),
        "parentUuid": (line > 1).then(|| id(line - 1)),
        "sessionId": session,
        "timestamp": format!("2026-11-20T10:00:0{line}.000Z"),
        "message": message,
    })
    .to_string()
}

/// If a fork has the start of a response, the rest still belongs to its session.
#[test]
fn an_erasure_takes_the_rest_of_a_response_that_a_fork_has_the_start_of() {
    let dir = tempfile::tempdir().unwrap();
    let store = still().open(dir.path().join("log")).unwrap();
    let lines = |session| {
        let text = |text: &str| serde_json::json!({"type": "text", "text": text});
        let call = serde_json::json!({"type": "tool_use", "id": "toolu_9", "name": "Bash", "input": {"command": "hidden plan"}});
        let result = serde_json::json!({"type": "tool_result", "tool_use_id": "toolu_9", "content": "hidden end"});
        [
            said(session, 1, &text("ask"), 0),
            said(session, 2, &text("shared start"), 10),
            said(session, 3, &text("hidden words"), 40),
            said(session, 4, &call, 90),
            said(session, 5, &result, 0),
        ]
    };
    let session = SESSION.parse().unwrap();
    let [fork, whole] =
        [("a", &lines(FORK)[..2]), ("b", &lines(session)[..])].map(|(name, lines)| {
            let path = dir.path().join(format!("{name}.jsonl"));
            fs::write(&path, lines.join("\n")).unwrap();
            path
        });
    import_file(&store, &fork, false);
    import_file(&store, &whole, false);
    assert_eq!(usage(&store).tokens_out, 90);
    let erased = erase(&store, &Erasure::Conversation(session));
    assert_eq!(erased.continued, [FORK]);
    for words in ["hidden", "toolu_9", SESSION] {
        assert_eq!(
            holding(store.path(), words),
            Vec::<PathBuf>::new(),
            "{words}"
        );
    }
    assert!(!holding(store.path(), "shared start").is_empty());
    // None of it returns, and that is not reported as broken.
    let again = import_file(&store, &whole, false);
    assert_eq!((again.added, again.broken), (0, Vec::new()));
}

/// Messages shared by two sessions are in the one recorded first. Erasing the other one reports
/// that.
#[test]
fn an_erasure_says_which_conversation_has_the_rest() {
    let dir = tempfile::tempdir().unwrap();
    let [session, fork] = write_forked(dir.path());
    let store = still().open(dir.path().join("log")).unwrap();
    import_file(&store, &session, false);
    import_file(&store, &fork, false);
    let erased = erase(&store, &Erasure::Conversation(FORK));
    assert_eq!(erased.continued, [SESSION.parse::<Uuid>().unwrap()]);
    assert_eq!(holding(store.path(), OWN_WORDS), Vec::<PathBuf>::new());
    assert!(!holding(store.path(), SHARED_WORDS).is_empty());
}

/// The key is stored next to the hashes, so a new manifest loses nothing.
#[test]
fn what_was_erased_stays_out_when_the_manifest_is_lost() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let store = still().open(&path).unwrap();
    import(&store, Expired::Expire, false).unwrap();
    let [session, agent] = talks();
    erase(&store, &Erasure::Conversation(session));
    erase(&store, &Erasure::Conversation(agent));
    drop(store);
    fs::remove_file(path.join("decklog.json")).unwrap();
    let store = still().open(&path).unwrap();
    let again = import(&store, Expired::Expire, false).unwrap();
    assert_eq!((again.added, again.erased), (0, 2));
    // Later erasures use the same key.
    let [codex] = &store
        .conversations(&ConversationQuery::default())
        .unwrap()
        .items[..]
    else {
        panic!("there is one left");
    };
    erase(&store, &Erasure::Conversation(codex.0.id));
    let again = import(&store, Expired::Expire, false).unwrap();
    assert_eq!((again.added, again.erased), (0, 3));
}

/// A changed line may have been a tombstone, so nothing is imported.
#[test]
fn nothing_is_imported_while_removals_are_damaged() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let store = still().open(&path).unwrap();
    import(&store, Expired::Expire, false).unwrap();
    let [session, _] = talks();
    erase(&store, &Erasure::Conversation(session));
    let removals = path.join("removals.jsonl");
    let whole = fs::read_to_string(&removals).unwrap();
    let changed = whole.replacen("\"erased\":[{\"id\":\"", "\"erased\":[{\"id\":\"0", 1);
    assert_ne!(changed, whole);
    fs::write(&removals, changed).unwrap();
    let error = import(&store, Expired::Expire, false).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Damaged);
    assert!(error.to_string().contains("decklog repair"), "{error}");
    assert!(store.get_conversation(session).unwrap().is_none());
    // A torn line from a crash is not a changed line.
    fs::write(&removals, format!("{whole}{{\"seq\":9")).unwrap();
    assert!(import(&store, Expired::Expire, false).unwrap().left_out > 0);
}

/// The log need not contain any of it: retention may have removed it first.
#[test]
fn what_is_erased_before_it_comes_does_not_come() {
    let dir = tempfile::tempdir().unwrap();
    let store = still().open(dir.path().join("log")).unwrap();
    let [session, _] = talks();
    for _ in 0..2 {
        erase(&store, &Erasure::Conversation(session));
    }
    let found = import(&store, Expired::Expire, false).unwrap();
    assert!(found.left_out > 0);
    assert_eq!(conversations(&store), 1);
    let removals = fs::read_to_string(store.path().join("removals.jsonl")).unwrap();
    assert_eq!(removals.lines().count(), 1, "{removals}");
    // Recording it directly is intended.
    let talk = Conversation::new(session, Client::Cli);
    assert_eq!(store.record(talk).unwrap().status, AckStatus::Added);
    assert!(import(&store, Expired::Expire, false).unwrap().left_out > 0);
}

#[test]
fn an_erased_request_does_not_come_back() {
    let dir = tempfile::tempdir().unwrap();
    let store = still().open(dir.path().join("log")).unwrap();
    import(&store, Expired::Expire, false).unwrap();
    let request = named("claude-code:tool_use", CALL);
    assert!(store.get_tool_call_of(request).is_some());
    erase(&store, &Erasure::Request(request));
    let again = import(&store, Expired::Expire, false).unwrap();
    assert_eq!((again.added, again.erased, again.left_out), (0, 1, 2));
    assert!(store.get_tool_call_of(request).is_none());
    import(&store, Expired::Expire, true).unwrap();
    assert!(store.get_tool_call_of(request).is_some());
}

trait CallOf {
    fn get_tool_call_of(&self, request: Uuid) -> Option<decklog::record::ToolCall>;
}

impl CallOf for Store {
    fn get_tool_call_of(&self, request: Uuid) -> Option<decklog::record::ToolCall> {
        decklog::ObservabilityStore::get_tool_call(self, request, CALL).unwrap()
    }
}

/// Days copied before an erasure do not restore what was erased since.
#[test]
fn a_replay_leaves_out_what_was_erased() {
    let dir = tempfile::tempdir().unwrap();
    let open = |name: &str| {
        let options = still().settings(plain_users());
        options.open(dir.path().join(name)).unwrap()
    };
    let (store, copy) = (open("log"), open("copy"));
    for (id, user, word) in [(1_000, "ann", "pear"), (2_000, "bob", "plum")] {
        for store in [&store, &copy] {
            record(store, conversation(id, user, word));
        }
    }
    store.sync().unwrap();
    copy.sync().unwrap();
    erase(&store, &Erasure::User("ann".into()));
    assert_eq!(holding(store.path(), "pear"), Vec::<PathBuf>::new());
    let kept = conversations(&store);
    let mut left_out = 0;
    let days = fs::read_dir(copy.path()).unwrap();
    let days = days.filter_map(|entry| {
        let name = entry.unwrap().file_name();
        name.to_str().unwrap().parse::<decklog::record::Day>().ok()
    });
    let mut days: Vec<_> = days.collect();
    days.sort_unstable();
    assert!(days.len() > 1 && days[0].bounds_ms().0 <= DAY_1);
    for day in days {
        let mut replay = replay::day(copy.path(), day).unwrap();
        left_out += replay.prepare_for(&store).unwrap();
        let records = replay.lines;
        store.record_replayed(records).unwrap();
    }
    assert!(left_out > 0);
    assert_eq!(conversations(&store), kept);
    assert_eq!(holding(store.path(), "pear"), Vec::<PathBuf>::new());
    assert!(!holding(store.path(), "plum").is_empty());
}
