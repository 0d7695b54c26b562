//! Erased data is in no file of the store.

mod damage;

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use decklog::query::ConversationQuery;
use decklog::record::ConversationStatus;
use decklog::retention::{EraseOptions, Erased, ErasedPart, Erasure};
use decklog::storage::{Disk, Fault, Memory};
use decklog::{
    Client, CodeEditProposal, Conversation, ConversationMessage, ConversationTurn, ErrorKind,
    Record, Role, Store, Timestamp, ToolCallReq, replay, verify,
};
use uuid::Uuid;

use super::rewrites::files;
use super::support::{DAY_1, DAY_1_NAME, DAY_MS, count, done, request, still, turn};

pub fn erase(store: &Store, what: &Erasure) -> Erased {
    store.erase(what, EraseOptions::default()).unwrap()
}

/// The files under a directory that contain these bytes.
pub fn holding(dir: &Path, text: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    each_file(dir, &mut |path, bytes| {
        if memchr::memmem::find(bytes, text.as_bytes()).is_some() {
            found.push(path.to_owned());
        }
    });
    found
}

/// All files under a directory, except files that are removed meanwhile.
pub fn each_file(dir: &Path, sink: &mut dyn FnMut(&Path, &[u8])) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            each_file(&path, sink);
            continue;
        }
        match fs::read(&path) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
            read => sink(&path, &read.unwrap()),
        }
    }
}

/// A conversation of a user over two days, with the turns and tool calls of its thread. All texts
/// contain `word`.
pub fn conversation(id: u128, user: &str, word: &str) -> Vec<Record> {
    let talk = Uuid::from_u128(id);
    let time = |days: i64| Timestamp::from_ms(DAY_1 + days * DAY_MS).unwrap();
    let mut records: Vec<Record> = vec![
        with!(Conversation::new(talk, Client::Web),
            user_id: Some(user.into()),
            created_at: time(0),
            updated_at: time(0),
        )
        .into(),
    ];
    for number in 0..8u128 {
        let day = i64::from(number > 3);
        let message = with!(ConversationMessage::new(
                talk,
                Role::User,
                format!("message {number} of {word}, at length"),
            ),
            id: Uuid::from_u128(id + 100 + number),
            timestamp: time(day),
        );
        records.push(message.into());
        let mut said = turn(
            id + 200 + number,
            &format!("turn {number} of {word}"),
            DAY_1 + day * DAY_MS,
        );
        said.thread_id = Some(talk);
        said.message_id = Uuid::from_u128(id + 100 + number);
        let req = ToolCallReq {
            parent_id: said.id,
            args_sha256: decklog::args_sha256(&format!("{{\"ask\":\"{word}\"}}")),
            arguments_json: Some(format!("{{\"ask\":\"{word}\"}}")),
            ..request(id + 300 + number, "call", DAY_1 + day * DAY_MS)
        };
        let mut outcome = done(&req);
        outcome.outcome_json = Some(format!("[\"the outcome of {word}\"]"));
        records.extend([said.into(), req.into(), outcome.into()]);
    }
    records
}

pub fn record(store: &Store, records: Vec<Record>) {
    for answer in store.record_batch(records).unwrap() {
        answer.unwrap();
    }
}

fn is_whole(store: &Store, id: u128, word: &str) {
    let talk = Uuid::from_u128(id);
    let (_, stats) = store.get_conversation(talk).unwrap().unwrap();
    assert_eq!(stats.message_count, 8);
    for number in 0..8u128 {
        let message = store
            .get_message(Uuid::from_u128(id + 100 + number))
            .unwrap();
        assert!(message.unwrap().content.contains(word));
        assert!(
            store
                .get_turn(Uuid::from_u128(id + 200 + number))
                .unwrap()
                .is_some()
        );
        let call = store
            .get_tool_call(Uuid::from_u128(id + 300 + number), "call")
            .unwrap();
        assert!(
            call.unwrap()
                .1
                .unwrap()
                .outcome_json
                .unwrap()
                .contains(word)
        );
    }
}

fn is_gone(store: &Store, id: u128) {
    assert_eq!(store.get_conversation(Uuid::from_u128(id)).unwrap(), None);
    for number in 0..8u128 {
        let message = store
            .get_message(Uuid::from_u128(id + 100 + number))
            .unwrap();
        assert_eq!(message, None);
        assert_eq!(
            store.get_turn(Uuid::from_u128(id + 200 + number)).unwrap(),
            None
        );
        let call = store
            .get_tool_call(Uuid::from_u128(id + 300 + number), "call")
            .unwrap();
        assert_eq!(call, None);
    }
}

#[test]
fn a_conversation_goes_with_all_that_belongs_to_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    // The segment must not be sealed when it is full, because this test writes to it directly.
    let store = Store::options()
        .upkeep(false)
        .segment_bytes_max(2_000)
        .open(&path)
        .unwrap();
    for (id, user, word) in [
        (1_000, "ann", "pear"),
        (2_000, "bob", "quince"),
        (3_000, "ann", "plum"),
    ] {
        record(&store, conversation(id, user, word));
    }
    let other = Store::open(&path).unwrap();
    is_whole(&other, 1_000, "pear");
    // Other files that may contain the data: the quarantine of a repair, leftovers of a killed
    // rewrite, a torn line, and files of other programs.
    let segment = path.join(DAY_1_NAME).join("messages.0001.jsonl");
    let bytes = fs::read(&segment).unwrap();
    let of_it = bytes
        .windows(12)
        .position(|at| at == b"message 0 of")
        .unwrap();
    fs::create_dir_all(path.join("quarantine")).unwrap();
    let quarantined = path.join("quarantine/2025-12-27-messages.0001.jsonl.1");
    let torn = &bytes[of_it..of_it + 40];
    fs::write(&quarantined, [torn, b"\nsomething else\n"].concat()).unwrap();
    fs::write(path.join(DAY_1_NAME).join("turns.0001.jsonl.tmp"), b"mine").unwrap();
    fs::write(
        path.join(DAY_1_NAME).join("messages.0001.jsonl.tmp"),
        &bytes,
    )
    .unwrap();
    fs::write(path.join("notes.txt"), torn).unwrap();
    let last = fs::read_dir(path.join("2025-12-28")).unwrap();
    let last = last
        .map(|file| file.unwrap().path())
        .filter(|file| file.to_str().unwrap().contains("/messages."));
    let last = last.max().unwrap();
    {
        let mut file = fs::OpenOptions::new().append(true).open(&last).unwrap();
        std::io::Write::write_all(&mut file, &bytes[..of_it + 20]).unwrap();
    }

    let erased = erase(&store, &Erasure::Conversation(Uuid::from_u128(1_000)));
    assert_eq!(erased.foreign, ["notes.txt"]);
    assert!(!erased.is_interrupted);
    assert_eq!(holding(&path, "pear"), [path.join("notes.txt")]);
    assert_eq!(fs::read(&quarantined).unwrap(), b"something else\n");
    assert_eq!(
        fs::read(path.join(DAY_1_NAME).join("turns.0001.jsonl.tmp")).unwrap(),
        b"mine"
    );
    let fresh = Store::open(&path).unwrap();
    for handle in [&store, &other, &fresh] {
        is_gone(handle, 1_000);
        is_whole(handle, 2_000, "quince");
        is_whole(handle, 3_000, "plum");
        assert_eq!(handle.damage().unwrap(), []);
    }
    let found = verify(&Disk::new(&path)).unwrap();
    assert_eq!(found.damage, []);
    let again = erase(&store, &Erasure::Conversation(Uuid::from_u128(1_000)));
    assert_eq!(again.parts, []);
    // The same conversation may be recorded again.
    record(&other, conversation(1_000, "ann", "pear"));
    is_whole(&store, 1_000, "pear");
}

#[test]
fn all_of_a_user_goes_and_nothing_of_others() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let store = Store::open(&path).unwrap();
    for (id, user, word) in [
        (1_000, "ann", "pear"),
        (2_000, "bob", "quince"),
        (3_000, "ann", "plum"),
    ] {
        record(&store, conversation(id, user, word));
    }
    let before = fs::metadata(path.join(DAY_1_NAME))
        .unwrap()
        .modified()
        .unwrap();
    let dry = EraseOptions {
        dry_run: true,
        ..EraseOptions::default()
    };
    let would_go = store.erase(&Erasure::User("ann".into()), dry).unwrap();
    assert_eq!(
        fs::metadata(path.join(DAY_1_NAME))
            .unwrap()
            .modified()
            .unwrap(),
        before
    );
    let erased = erase(&store, &Erasure::User("ann".into()));
    let sum = |erased: &Erased| -> u64 { erased.parts.iter().map(|part| part.lines).sum() };
    assert_eq!((sum(&would_go), sum(&erased)), (66, 66));
    for word in ["pear", "plum"] {
        assert_eq!(holding(&path, word), Vec::<PathBuf>::new());
    }
    is_gone(&store, 1_000);
    is_gone(&store, 3_000);
    is_whole(&store, 2_000, "quince");
}

fn of_user(store: &Store, user: &str) -> decklog::Result<usize> {
    let query = ConversationQuery {
        user_id: Some(user.into()),
        ..ConversationQuery::default()
    };
    store.conversations(&query).map(|found| found.total)
}

fn try_erase(store: &Store, what: &Erasure, dry_run: bool) -> decklog::Result<Erased> {
    let options = EraseOptions {
        dry_run,
        ..EraseOptions::default()
    };
    store.erase(what, options)
}

#[test]
fn a_user_is_forgotten_whether_the_id_was_hashed_or_not() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let key = dir.path().join("key");
    let open = || Store::options().user_id_key(&key).open(&path).unwrap();
    let store = open();
    record(&store, conversation(1_000, "ann", "pear"));
    record(&store, conversation(2_000, "bob", "quince"));
    store
        .change_settings(|it| it.privacy.hash_user_id = false)
        .unwrap();
    record(&store, conversation(3_000, "ann", "plum"));
    assert_eq!(holding(&path, "\"ann\"").len(), 1);
    for store in [&store, &open()] {
        assert_eq!(of_user(store, "ann").unwrap(), 2);
        assert_eq!(of_user(store, "bob").unwrap(), 1);
    }
    erase(&store, &Erasure::User("ann".into()));
    for word in ["pear", "plum", "\"ann\""] {
        assert_eq!(holding(&path, word), Vec::<PathBuf>::new());
    }
    is_gone(&store, 1_000);
    is_gone(&store, 3_000);
    is_whole(&store, 2_000, "quince");
}

#[test]
fn without_its_key_no_user_is_said_to_be_unknown() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let key = dir.path().join("key");
    let open = || Store::options().user_id_key(&key).open(&path).unwrap();
    let store = open();
    // No id was hashed yet, so a key finds nothing.
    assert_eq!(of_user(&store, "ann").unwrap(), 0);
    let nothing = try_erase(&store, &Erasure::User("ann".into()), true).unwrap();
    assert_eq!(nothing.parts, []);
    assert!(!key.exists());
    record(&store, conversation(1_000, "ann", "pear"));
    fs::rename(&key, dir.path().join("elsewhere")).unwrap();
    for hashes in [true, false] {
        let store = open();
        store
            .change_settings(|it| it.privacy.hash_user_id = hashes)
            .unwrap();
        let refused = [
            of_user(&store, "ann").map(|_| ()),
            try_erase(&store, &Erasure::User("ann".into()), true).map(|_| ()),
            try_erase(&store, &Erasure::User("ann".into()), false).map(|_| ()),
        ];
        for refused in refused {
            let e = refused.unwrap_err();
            assert_eq!((e.kind(), e.path()), (ErrorKind::UserIdKey, Some(&*key)));
            assert!(e.to_string().contains("from a copy"), "{e}");
        }
        assert!(!key.exists());
    }
    fs::rename(dir.path().join("elsewhere"), &key).unwrap();
    assert_eq!(of_user(&open(), "ann").unwrap(), 1);
    erase(&open(), &Erasure::User("ann".into()));
    assert_eq!(holding(&path, "pear"), Vec::<PathBuf>::new());
}

/// Bug: a lost key was replaced by the next record with a user id, and the earlier records of that
/// user could no longer be found.
#[test]
fn a_lost_key_is_not_replaced_unasked() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let (key, copy) = (dir.path().join("key"), dir.path().join("copy"));
    let open = || Store::options().user_id_key(&key).open(&path).unwrap();
    let long_open = open();
    record(&long_open, conversation(1_000, "ann", "pear"));
    let expected = long_open.user_id_key().unwrap().expected.unwrap();
    let manifest = fs::read_to_string(path.join("decklog.json")).unwrap();
    let member = format!(r#""user_id_key":"{expected}""#);
    assert!(manifest.contains(&member), "{manifest}");
    fs::rename(&key, &copy).unwrap();

    let refused = |store: &Store, found: &str| {
        let ann = Erasure::User("ann".into());
        let unhashed = with!(Conversation::new(Uuid::from_u128(9), Client::Cli),
            user_id: Some("ann".into()),
        );
        let batch = store.record_batch([unhashed.clone().into()]).unwrap();
        let errors = [
            store.record(unhashed).unwrap_err(),
            batch.into_iter().next().unwrap().unwrap_err(),
            store
                .update_conversation(Uuid::from_u128(1_000), |it| it.user_id = Some("eve".into()))
                .unwrap_err(),
            of_user(store, "ann").unwrap_err(),
            of_user(store, "nobody").unwrap_err(),
            try_erase(store, &ann, true).unwrap_err(),
            try_erase(store, &ann, false).unwrap_err(),
        ];
        for e in errors {
            assert_eq!((e.kind(), e.path()), (ErrorKind::UserIdKey, Some(&*key)));
            let e = e.to_string();
            for told in [&*expected, found, "DECKLOG_USER_ID_KEY", "--replace"] {
                assert!(e.contains(told), "{told}: {e}");
            }
        }
        // Records that need no key are recorded as usual. So is a change that keeps the user id.
        let changed = store.update_conversation(Uuid::from_u128(1_000), |it| {
            it.status = ConversationStatus::Completed;
        });
        assert!(changed.unwrap().user_id.unwrap().starts_with("hmac:"));
        is_whole(store, 1_000, "pear");
    };
    refused(&open(), "no such file");
    assert!(!key.exists());
    // Another store creates a key there, which is not this store's key.
    let other = Store::options().user_id_key(&key);
    let other = other.open(dir.path().join("other")).unwrap();
    record(&other, conversation(2_000, "bob", "quince"));
    let found = other.user_id_key().unwrap().found.unwrap();
    assert_ne!(found, expected);
    refused(&open(), &found);
    // A handle that had loaded the key continues to use it.
    record(&long_open, conversation(3_000, "ann", "plum"));

    // The key is restored while the store is open.
    let store = open();
    refused(&store, &found);
    fs::rename(&copy, &key).unwrap();
    assert_eq!(of_user(&store, "ann").unwrap(), 2);
    erase(&store, &Erasure::User("ann".into()));
    for word in ["pear", "plum"] {
        assert_eq!(holding(&path, word), Vec::<PathBuf>::new());
    }
}

/// Two processes with different keys, neither of which has hashed an id yet. The first one to do so
/// wins.
#[test]
fn the_first_key_of_a_store_is_its_only_one() {
    let dir = tempfile::tempdir().unwrap();
    let open = |key: &str| {
        let options = Store::options().user_id_key(dir.path().join(key));
        options.open(dir.path().join("log")).unwrap()
    };
    let (one, two) = (open("one"), open("two"));
    for (store, n) in [(&one, 1), (&two, 2)] {
        store
            .record(Conversation::new(Uuid::from_u128(n), Client::Cli))
            .unwrap();
    }
    record(&one, conversation(1_000, "ann", "pear"));
    let e = two.record(conversation(2_000, "ann", "plum").remove(0));
    assert_eq!(e.unwrap_err().kind(), ErrorKind::UserIdKey);
    assert_eq!(of_user(&one, "ann").unwrap(), 1);
    let e = of_user(&two, "ann").unwrap_err();
    assert_eq!(e.kind(), ErrorKind::UserIdKey);
    // A user who knows the consequences continues with the other key.
    let key = two.replace_user_id_key().unwrap();
    assert_eq!(key.found, key.expected);
    record(&two, conversation(2_000, "ann", "plum"));
    assert_eq!(of_user(&two, "ann").unwrap(), 1);
    let e = one.record(conversation(3_000, "ann", "fig").remove(0));
    assert_eq!(e.unwrap_err().kind(), ErrorKind::UserIdKey);
}

/// Hashed user ids are replayed with the fingerprint of their key, whichever key is present.
#[test]
fn a_replay_takes_over_whose_key_the_user_ids_are_hashed_under() {
    let dir = tempfile::tempdir().unwrap();
    let open = |name: &str, key: &str| {
        let options = Store::options().user_id_key(dir.path().join(key));
        options.open(dir.path().join(name)).unwrap()
    };
    let one = open("one", "key of one");
    record(&one, conversation(1_000, "ann", "pear"));
    one.sync().unwrap();
    let fingerprint = one.user_id_key().unwrap().expected;
    let replay_into = |store: &Store, from: &Path| -> decklog::Result<()> {
        let mut replay = replay::dir(from)?;
        replay.prepare_for(store)?;
        let records = replay.lines;
        store.record_replayed(records)?;
        store.sync()
    };

    // Store two has a key, which another store uses.
    record(
        &open("three", "key of two"),
        conversation(2_000, "ann", "plum"),
    );
    let two = open("two", "key of two");
    replay_into(&two, one.path()).unwrap();
    assert_eq!(two.user_id_key().unwrap().expected, fingerprint);
    let refused = [
        two.record(conversation(3_000, "ann", "fig").remove(0))
            .map(drop),
        of_user(&two, "ann").map(drop),
        try_erase(&two, &Erasure::User("ann".into()), false).map(drop),
    ];
    for refused in refused {
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::UserIdKey);
    }
    drop(two);
    let two = open("two", "key of one");
    assert_eq!(of_user(&two, "ann").unwrap(), 1);

    // Keys are not mixed: the ids of three are hashed under another key.
    let three = open("three", "key of two");
    let before = three.counts().unwrap().last_seq;
    for from in [one.path().to_path_buf(), day_of(&one)] {
        let e = replay_into(&three, &from).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::UserIdKey, "{e}");
    }
    assert_eq!(three.counts().unwrap().last_seq, before);

    // Each id names its key, also in a copied day without a manifest, and in a record given as
    // input.
    let copied = dir.path().join("copied");
    fs::rename(day_of(&one), &copied).unwrap();
    let four = open("four", "key of two");
    replay_into(&four, &copied).unwrap();
    assert_eq!(four.user_id_key().unwrap().expected, fingerprint);
    let talk = two.get_conversation(Uuid::from_u128(1_000)).unwrap();
    let five = open("five", "key of two");
    five.record(talk.unwrap().0).unwrap();
    assert_eq!(five.user_id_key().unwrap().expected, fingerprint);
}

/// The key of a store is known even without the manifest. Ids hashed under an earlier key are not
/// reported as erased.
#[test]
fn a_key_is_known_by_what_was_hashed_under_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let open = |key: &str| {
        let options = Store::options().user_id_key(dir.path().join(key));
        options.open(&path).unwrap()
    };
    let ann = || Erasure::User("ann".into());
    let store = open("one");
    record(&store, conversation(1_000, "ann", "pear"));
    let first = store.user_id_key().unwrap().expected;
    drop(store);
    fs::remove_file(path.join("decklog.json")).unwrap();
    let reader = Store::options().read_only(true);
    let reader = reader
        .user_id_key(dir.path().join("one"))
        .open(&path)
        .unwrap();
    assert_eq!(reader.user_id_key().unwrap().expected, first);
    let two = open("two");
    assert_eq!(two.user_id_key().unwrap().expected, first);
    let refused = [
        two.record(conversation(2_000, "ann", "plum").remove(0))
            .map(drop),
        try_erase(&two, &ann(), false).map(drop),
    ];
    for refused in refused {
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::UserIdKey);
    }

    two.replace_user_id_key().unwrap();
    record(&two, conversation(2_000, "ann", "plum"));
    let erased = try_erase(&two, &ann(), false).unwrap();
    assert_eq!(Vec::from_iter(first.clone()), erased.other_keys);
    assert_eq!(holding(&path, "plum"), Vec::<PathBuf>::new());
    is_whole(&two, 1_000, "pear");
    let one = open("one");
    one.replace_user_id_key().unwrap();
    assert!(
        try_erase(&one, &ann(), false)
            .unwrap()
            .other_keys
            .is_empty()
    );
    assert_eq!(holding(&path, "pear"), Vec::<PathBuf>::new());
}

/// The directory of the first day that has conversations.
fn day_of(store: &Store) -> PathBuf {
    let mut days: Vec<PathBuf> = fs::read_dir(store.path())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.join("conversations.0001.jsonl").exists())
        .collect();
    days.sort_unstable();
    days.remove(0)
}

/// A store of an earlier version does not record its key. The existing key is assumed to be its
/// key, and none is created.
#[test]
fn a_store_that_has_hashed_ids_gets_no_other_key_by_itself() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let (key, copy) = (dir.path().join("key"), dir.path().join("copy"));
    let open = || Store::options().user_id_key(&key).open(&path).unwrap();
    let store = open();
    record(&store, conversation(1_000, "ann", "pear"));
    let expected = store.user_id_key().unwrap().expected.unwrap();
    drop(store);
    let manifest = path.join("decklog.json");
    let text = fs::read_to_string(&manifest).unwrap();
    let member = format!(r#""user_id_key":"{expected}","#);
    fs::write(&manifest, text.replace(&member, "")).unwrap();
    fs::rename(&key, &copy).unwrap();
    let store = open();
    assert_eq!(store.user_id_key().unwrap().expected, None);
    let new = conversation(2_000, "bob", "quince");
    let errors = [
        store.record(new[0].clone()).unwrap_err(),
        of_user(&store, "ann").unwrap_err(),
        try_erase(&store, &Erasure::User("ann".into()), false).unwrap_err(),
    ];
    for e in errors {
        assert_eq!((e.kind(), e.path()), (ErrorKind::UserIdKey, Some(&*key)));
    }
    assert!(!key.exists());
    fs::rename(&copy, &key).unwrap();
    record(&store, new);
    assert_eq!(store.user_id_key().unwrap().expected, Some(expected));
    assert_eq!(of_user(&store, "ann").unwrap(), 1);
}

/// Records that belong to a user only through lines in other segments: two conversations, each of
/// which names the user in another segment; an outcome through its request of the day before; and
/// the first version of a turn through its latest version.
fn entangled() -> Memory {
    let memory = Memory::new();
    let store = open_in(&memory);
    let time = |days: i64| Timestamp::from_ms(DAY_1 + days * DAY_MS).unwrap();
    let talk = |id, day, user: Option<&str>| {
        with!(Conversation::new(Uuid::from_u128(id), Client::Web),
            user_id: user.map(str::to_owned),
            project: Some("of a pear".into()),
            created_at: time(0),
            updated_at: time(day),
        )
    };
    let said = |thread: Option<u128>, day: i64| {
        let mut said = turn(7, &format!("pear on day {day}"), DAY_1 + day * DAY_MS);
        said.thread_id = thread.map(Uuid::from_u128);
        said
    };
    let req = ToolCallReq {
        parent_id: Uuid::from_u128(7),
        ..request(8, "call", DAY_1)
    };
    let mut outcome = done(&req);
    outcome.ended_at.at = DAY_1 + DAY_MS;
    outcome.outcome_json = Some("[\"the pears that were found\"]".into());
    record(&store, conversation(1_000, "ann", "quince"));
    let of_both: Vec<Record> = vec![
        talk(5, 0, None).into(),
        talk(6, 0, Some("bob")).into(),
        said(None, 0).into(),
        req.into(),
        outcome.into(),
        said(Some(5), 1).into(),
        Record::ConversationUpdated(talk(5, 1, Some("bob"))),
        Record::ConversationUpdated(talk(6, 1, None)),
    ];
    record(&store, of_both);
    memory
}

fn open_in(memory: &Memory) -> Store {
    let storage = Arc::new(memory.clone());
    still().storage(storage).open("memory").unwrap()
}

fn copy(memory: &Memory) -> Memory {
    memory.after_power_cut(|all| all)
}

fn assert_forgotten(memory: &Memory, case: &str) {
    let ids = [5, 6, 7, 8].map(|id| Uuid::from_u128(id).to_string());
    for (path, bytes) in files(memory) {
        let mut words = ids.iter().map(String::as_str).chain(["pear"]);
        let left = words.find(|word| memchr::memmem::find(&bytes, word.as_bytes()).is_some());
        assert_eq!(left, None, "{case}: {path}");
    }
    is_whole(&open_in(memory), 1_000, "quince");
}

#[test]
fn an_erasure_that_was_killed_anywhere_is_finished_by_another() {
    let base = entangled();
    let bob = Erasure::User("bob".into());
    let whole = copy(&base);
    let store = open_in(&whole);
    let would_go = try_erase(&store, &bob, true).unwrap();
    let first = whole.operations();
    let erased = try_erase(&store, &bob, false).unwrap();
    let end = whole.operations();
    drop(store);
    assert_eq!(would_go, erased);
    assert_eq!(erased.parts.iter().map(|part| part.lines).sum::<u64>(), 8);
    assert_forgotten(&whole, "whole");

    let step = count("DECKLOG_REWRITE_FAULT_STEP", 31);
    for at in (first..end).step_by(step as usize) {
        let memory = copy(&base);
        let store = open_in(&memory);
        try_erase(&store, &bob, true).unwrap();
        assert_eq!(memory.operations(), first);
        memory.fail_at(at, Fault::Gone);
        let _ = try_erase(&store, &bob, false);
        drop(store);
        memory.heal();
        let case = format!("gone at {at} of {first}..{end}");
        try_erase(&open_in(&memory), &bob, false).unwrap_or_else(|e| panic!("{case}: {e}"));
        assert_forgotten(&memory, &case);
    }

    // A caller that stops early.
    for ends_after in 1..=erased.parts.len() {
        let memory = copy(&base);
        let mut end_early = ending_after(ends_after);
        let options = EraseOptions {
            progress: Some(&mut end_early),
            ..EraseOptions::default()
        };
        let ended = open_in(&memory).erase(&bob, options).unwrap();
        assert!(ended.is_interrupted && ended.parts == erased.parts[..ends_after]);
        try_erase(&open_in(&memory), &bob, false).unwrap();
        assert_forgotten(&memory, &format!("ended after {ends_after}"));
    }
}

/// Stops after this many parts.
fn ending_after(parts: usize) -> impl FnMut(&ErasedPart) -> ControlFlow<()> {
    let mut left = parts;
    move |_| {
        left -= 1;
        match left {
            0 => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    }
}

/// A sub-agent's conversation has no user, and refers to its session.
fn record_with_agent(store: &Store) {
    let main = Uuid::from_u128(1_000);
    let sub = |records: Vec<Record>| {
        records.into_iter().map(move |record| match record {
            Record::Conversation(talk) => {
                Record::Conversation(with!(talk, user_id: None, session_id: Some(main.to_string())))
            }
            // Its turns are in the session's thread too.
            Record::Turn(said) => ConversationTurn {
                thread_id: Some(main),
                ..said
            }
            .into(),
            other => other,
        })
    };
    // Recorded before and after those of its session.
    record(store, sub(conversation(500, "", "plum")).collect());
    record(store, conversation(1_000, "ann", "pear"));
    record(store, sub(conversation(2_000, "", "fig")).collect());
    record(store, conversation(3_000, "bob", "quince"));
    store.sync().unwrap();
}

#[test]
fn a_sub_agent_is_erased_with_its_session_however_often_that_is_ended() {
    let id = |n: u128| Uuid::from_u128(n);
    for what in [
        Erasure::Conversation(id(1_000)),
        Erasure::User("ann".into()),
    ] {
        for ends_after in 1.. {
            let dir = tempfile::tempdir().unwrap();
            let key = dir.path().join("key");
            let store = still().user_id_key(key).segment_bytes_max(2_000);
            let store = store.open(dir.path().join("log")).unwrap();
            record_with_agent(&store);
            let mut end_early = ending_after(ends_after);
            let ended = store.erase(
                &what,
                EraseOptions {
                    progress: Some(&mut end_early),
                    ..EraseOptions::default()
                },
            );
            let is_over = !ended.unwrap().is_interrupted;
            erase(&store, &what);
            for word in ["pear", "plum", "fig"] {
                let held = holding(store.path(), word);
                assert_eq!(held, Vec::<PathBuf>::new(), "{what:?} {ends_after}");
            }
            is_whole(&store, 3_000, "quince");
            if is_over {
                break;
            }
        }
    }
    // A session is kept when its sub-agent is erased.
    let dir = tempfile::tempdir().unwrap();
    let store = still().user_id_key(dir.path().join("key"));
    let store = store.open(dir.path().join("log")).unwrap();
    record_with_agent(&store);
    erase(&store, &Erasure::Conversation(id(500)));
    is_gone(&store, 500);
    assert_eq!(holding(store.path(), "plum"), Vec::<PathBuf>::new());
    for (talk, word) in [(1_000, "pear"), (3_000, "quince")] {
        is_whole(&store, talk, word);
    }
    assert!(!holding(store.path(), "fig").is_empty());
}

#[test]
fn a_request_goes_with_its_proposal() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let store = Store::open(&path).unwrap();
    record(&store, conversation(1_000, "ann", "pear"));
    let id = Uuid::from_u128(1_300);
    let proposal = CodeEditProposal::new(id, "{\"edit\":\"a pear tree\"}", DAY_1);
    record(&store, vec![proposal.into()]);
    erase(&store, &Erasure::Request(id));
    assert_eq!(store.get_tool_call(id, "call").unwrap(), None);
    assert_eq!(store.get_proposal(id).unwrap(), None);
    assert_eq!(holding(&path, "a pear tree"), Vec::<PathBuf>::new());
    assert!(
        store
            .get_tool_call(Uuid::from_u128(1_301), "call")
            .unwrap()
            .is_some()
    );
}
