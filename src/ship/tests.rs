//! What is in object storage is what was in the log, whatever fails on the way.

#![allow(
    clippy::unwrap_used,
    clippy::too_many_lines,
    clippy::cast_possible_wrap,
    clippy::case_sensitive_file_extension_comparisons
)]

mod failing;
#[cfg(feature = "parquet")]
mod parquet;
mod races;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path as FilePath;
use std::sync::Arc;

use futures_util::TryStreamExt as _;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt as _};
use uuid::Uuid;

use self::failing::Failing;
use super::{Destination, ShipOptions, Shipper};
use crate::retention::{CompactOptions, EraseOptions, Erasure};
use crate::{
    Client, Conversation, ConversationMessage, Record, Role, Store, Timestamp, ToolCallDone,
    ToolCallReq, ToolStatus, Validity, event_type,
};

const DAY_1: i64 = 1_766_793_600_000;
const DAY_MS: i64 = 86_400_000;

/// A log that changes at random.
struct Log {
    store: Store,
    random: u64,
    now: i64,
    conversations: Vec<Uuid>,
    erased: BTreeSet<String>,
}

impl Log {
    fn new(dir: &FilePath, seed: u64) -> Log {
        let options = Store::options().segment_bytes_max(4 << 10).upkeep(false);
        Log {
            store: options.open(dir.join("log")).unwrap(),
            random: seed,
            now: DAY_1,
            conversations: Vec::new(),
            erased: BTreeSet::new(),
        }
    }

    fn below(&mut self, n: u64) -> u64 {
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(99);
        (self.random >> 33) % n
    }

    /// A word that occurs in the lines of one conversation only.
    fn word(id: Uuid) -> String {
        format!("word-{}", id.simple())
    }

    fn converse(&mut self) {
        let id = Uuid::from_u128(u128::from(self.random) << 64 | self.conversations.len() as u128);
        let time = |ms| Timestamp::from_ms(ms).unwrap();
        let mut talk = Conversation::new(id, Client::Cli);
        talk.created_at = time(self.now);
        talk.updated_at = time(self.now);
        let mut records: Vec<Record> = vec![talk.into()];
        for nth in 0..=self.below(6) {
            let text = format!("{} {nth} ü\n\"quoted\"", Log::word(id));
            let message = ConversationMessage::new(id, Role::User, text);
            records.push(message.timestamp(time(self.now + nth as i64)).into());
        }
        let request = ToolCallReq {
            started_at: Validity::at(self.now),
            arguments_json: Some(format!("{{\"of\":\"{}\"}}", Log::word(id))),
            ..ToolCallReq::new(id, "call", "vendor", "tool")
        };
        let done = ToolCallDone {
            ended_at: Validity::at(self.now + DAY_MS / 2),
            ..ToolCallDone::new(id, "call", ToolStatus::Completed)
        };
        records.extend([request.into(), done.into()]);
        for ack in self.store.record_batch(records).unwrap() {
            ack.unwrap();
        }
        self.conversations.push(id);
    }

    /// One random change.
    fn change(&mut self) {
        match self.below(12) {
            0..6 => self.converse(),
            6 => {
                self.now += DAY_MS / 3;
                self.converse();
            }
            7 => {
                // A late fact, for a day that may be sealed.
                let now = std::mem::replace(&mut self.now, DAY_1);
                self.converse();
                self.now = now;
            }
            8 => drop(self.store.seal_at(self.now).unwrap()),
            9 if !self.conversations.is_empty() => {
                let place = self.below(self.conversations.len() as u64) as usize;
                let id = self.conversations.swap_remove(place);
                let what = Erasure::Conversation(id);
                self.store.erase(&what, EraseOptions::default()).unwrap();
                self.erased.insert(Log::word(id));
            }
            10 => drop(self.store.compact(CompactOptions::default()).unwrap()),
            _ => drop(
                self.store
                    .log_event(None, event_type::AGENT_STARTED, None)
                    .unwrap(),
            ),
        }
    }
}

fn ship(log: &Log, objects: Arc<dyn ObjectStore>) -> crate::Result<super::Shipped> {
    let destination = Destination::of_test("test", objects);
    Shipper::new(&log.store, &destination, ShipOptions::default())?.ship()
}

/// The files of a store that hold facts.
fn files(dir: &FilePath) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if path.is_dir() && name.starts_with("20") {
            for entry in fs::read_dir(&path).unwrap() {
                let path = entry.unwrap().path();
                let file = path.file_name().unwrap().to_str().unwrap();
                found.insert(format!("{name}/{file}"), fs::read(&path).unwrap());
            }
        } else if ["decklog.json", "removals.jsonl"].contains(&&*name) {
            found.insert(name, fs::read(&path).unwrap());
        }
    }
    found
}

fn wait<T>(future: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.build().unwrap().block_on(future)
}

fn list(objects: &InMemory) -> Vec<ObjectMeta> {
    wait(objects.list(None).try_collect()).unwrap()
}

fn get(objects: &InMemory, location: &Path) -> bytes::Bytes {
    wait(async { objects.get(location).await?.bytes().await }).unwrap()
}

fn put(objects: &InMemory, location: &Path, bytes: Vec<u8>) {
    wait(objects.put(location, bytes.into())).unwrap();
}

/// Checks that the objects are exactly those of the log, and that nothing erased is in them.
fn check(log: &Log, objects: &Arc<InMemory>) {
    let destination = Destination::of_test("test", Arc::clone(objects) as Arc<dyn ObjectStore>);
    let found = destination.verify(None).unwrap();
    assert!(found[0].is_clean(), "{:?}", found[0].damage);

    let dir = tempfile::tempdir().unwrap();
    let again = dir.path().join("again");
    let pulled = destination
        .pull(None, &again, &super::Progress::default())
        .unwrap();
    assert!(pulled.verification.is_clean(), "{:?}", pulled.verification);
    let (here, there) = (files(log.store.path()), files(&again));
    let names = |files: &BTreeMap<String, Vec<u8>>| files.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&here), names(&there));
    assert!(here == there, "some file differs");

    let mut lines = 0;
    for meta in list(objects) {
        let name = meta.location.to_string();
        let mut bytes = get(objects, &meta.location).to_vec();
        if name.ends_with(".zst") {
            bytes = zstd::stream::decode_all(&*bytes).unwrap();
            lines += memchr::memchr_iter(b'\n', &bytes).count();
        }
        let text = String::from_utf8_lossy(&bytes);
        for word in &log.erased {
            assert!(!text.contains(word), "{word} is still in {name}");
        }
    }
    let segments = here
        .iter()
        .filter(|(name, _)| name.starts_with("20") && !name.contains("seals"));
    let here: usize = segments
        .map(|(_, bytes)| memchr::memchr_iter(b'\n', bytes).count())
        .sum();
    assert_eq!(lines, here, "each line is in one object");
}

#[test]
fn objects_follow_a_log_that_changes() {
    for seed in 1..=4 {
        let dir = tempfile::tempdir().unwrap();
        let mut log = Log::new(dir.path(), seed);
        let objects = Arc::new(InMemory::new());
        for _ in 0..12 {
            for _ in 0..=log.below(6) {
                log.change();
            }
            let shipped = ship(&log, Arc::clone(&objects) as Arc<dyn ObjectStore>).unwrap();
            assert!(shipped.unlike_seal.is_empty());
            check(&log, &objects);
            let again = ship(&log, Arc::clone(&objects) as Arc<dyn ObjectStore>).unwrap();
            assert_eq!((again.objects_written, again.objects_removed), (0, 0));
        }
    }
}

#[test]
fn a_run_that_ends_anywhere_is_completed_by_the_next() {
    for takes_effect in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let mut log = Log::new(dir.path(), 7);
        let objects = Arc::new(InMemory::new());
        let mut operations = 1;
        loop {
            log.change();
            let failing = Arc::new(Failing::at(&objects, operations, takes_effect));
            let shipped = ship(&log, failing);
            let is_over = shipped.is_ok() && operations > 60;
            if operations % 3 == 0 || is_over {
                ship(&log, Arc::clone(&objects) as Arc<dyn ObjectStore>).unwrap();
                check(&log, &objects);
            }
            if is_over {
                break;
            }
            operations += 1;
        }
    }
}

#[test]
fn a_run_that_was_killed_is_continued_by_the_next() {
    let dir = tempfile::tempdir().unwrap();
    let mut log = Log::new(dir.path(), 29);
    for _ in 0..12 {
        log.converse();
        log.now += DAY_MS;
    }
    log.store.seal_at(log.now - 3 * DAY_MS).unwrap();
    let all = ship(&log, Arc::new(InMemory::new()))
        .unwrap()
        .objects_written;
    let mut most = 0;
    for operations in (1..).step_by(3) {
        let objects = Arc::new(InMemory::new());
        let failing = Failing::at(&objects, operations, true);
        let shipped = ship(&log, Arc::new(failing));
        let metas = list(&objects);
        let names = metas.iter().map(|meta| meta.location.as_ref());
        let there = names.filter(|name| name.starts_with("kind=")).count() as u64;
        let next = ship(&log, Arc::clone(&objects) as Arc<dyn ObjectStore>).unwrap();
        // What is written again is of one day.
        let of_day = all / 12;
        assert!(
            next.objects_written + there <= all + of_day,
            "{there}: {next:?}"
        );
        check(&log, &objects);
        most = most.max(there);
        if shipped.is_ok() {
            break;
        }
    }
    assert!(most == all && all > 30, "{most} of {all}");
}

#[test]
fn followers_list_objects_once() {
    let dir = tempfile::tempdir().unwrap();
    let mut log = Log::new(dir.path(), 3);
    let objects = Arc::new(InMemory::new());
    let destination = Destination::of_test("test", Arc::clone(&objects) as Arc<dyn ObjectStore>);
    let options = ShipOptions {
        follows: true,
        ..ShipOptions::default()
    };
    let mut shipper = Shipper::new(&log.store, &destination, options).unwrap();
    for _ in 0..60 {
        log.change();
        shipper.ship().unwrap();
        check(&log, &objects);
    }
    // Another one takes over.
    drop(shipper);
    log.change();
    ship(&log, Arc::clone(&objects) as Arc<dyn ObjectStore>).unwrap();
    check(&log, &objects);
}

#[test]
fn a_lost_state_and_foreign_objects_do_no_harm() {
    let dir = tempfile::tempdir().unwrap();
    let mut log = Log::new(dir.path(), 5);
    for _ in 0..20 {
        log.change();
    }
    let objects = Arc::new(InMemory::new());
    let to = || Arc::clone(&objects) as Arc<dyn ObjectStore>;
    ship(&log, to()).unwrap();
    let state = format!("_decklog/store={}/store.json", log.store.inner().store_id());
    let state = Path::from(state);
    wait(objects.delete(&state)).unwrap();
    log.change();
    ship(&log, to()).unwrap();
    check(&log, &objects);

    // A manifest from elsewhere cannot name files outside the store.
    let text = String::from_utf8(get(&objects, &state).to_vec()).unwrap();
    let forged = text.replace("\"decklog.json\":{", "\"../escaped\":{");
    assert_ne!(text, forged);
    put(&objects, &state, forged.into_bytes());
    let again = dir.path().join("again");
    let pulled = Destination::of_test("test", to()).pull(None, &again, &super::Progress::default());
    let error = pulled.unwrap_err().to_string();
    assert!(
        error.contains("\"../escaped\" is no file of a store"),
        "{error}"
    );
    assert!(!dir.path().join("escaped").exists());
}

/// The numbers of a manifest may come from elsewhere.
#[test]
fn a_manifest_whose_numbers_cannot_be_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let mut log = Log::new(dir.path(), 9);
    for _ in 0..10 {
        log.change();
    }
    let objects = Arc::new(InMemory::new());
    let to = || Arc::clone(&objects) as Arc<dyn ObjectStore>;
    ship(&log, to()).unwrap();
    let destination = Destination::of_test("test", to());
    let id = log.store.inner().store_id();
    let location = Path::from(format!("_decklog/store={id}/store.json"));
    let read = |location: &Path| -> serde_json::Value {
        serde_json::from_slice(&get(&objects, location)).unwrap()
    };
    let state = read(&location);
    let days: Vec<&String> = state["days"].as_object().unwrap().keys().collect();
    let huge = u64::MAX - 1;
    for (name, number, reason) in [
        ("to", huge, "more bytes than a day can have"),
        ("lines", huge, "is no part of a segment"),
        ("from", huge, "is no part of a segment"),
    ] {
        let mut state = state.clone();
        for day in &days {
            let entry = &mut state["days"][day.as_str()]["manifest"];
            let mut manifest = read(&Path::from(entry.as_str().unwrap()));
            for object in manifest["objects"].as_array_mut().unwrap() {
                for piece in object["pieces"].as_array_mut().unwrap() {
                    piece[name] = number.into();
                }
            }
            let bytes = serde_json::to_vec(&manifest).unwrap();
            let hash = crate::segment::seal::Digest::of(&bytes).to_string();
            let object = format!("_decklog/store={id}/{day}.{}.json", &hash[..16]);
            put(&objects, &Path::from(object.as_str()), bytes);
            *entry = object.into();
        }
        put(&objects, &location, serde_json::to_vec(&state).unwrap());
        let again = dir.path().join("again");
        let pulled = destination.pull(None, &again, &super::Progress::default());
        let error = pulled.unwrap_err().to_string();
        assert!(error.contains(reason), "{name}: {error}");
        let found = destination.verify(None).unwrap();
        assert_eq!(found[0].damage.len(), days.len(), "{found:?}");
        assert!(found[0].damage.iter().all(|it| it.reason.contains(reason)));
        assert!(!again.exists());
    }
    put(&objects, &location, serde_json::to_vec(&state).unwrap());
    assert!(destination.verify(None).unwrap()[0].is_clean());
}

#[test]
fn a_changed_object_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let mut log = Log::new(dir.path(), 11);
    for _ in 0..15 {
        log.change();
    }
    let objects = Arc::new(InMemory::new());
    let to = || Arc::clone(&objects) as Arc<dyn ObjectStore>;
    ship(&log, to()).unwrap();
    let destination = Destination::of_test("test", to());
    let mut metas = list(&objects);
    metas.retain(|meta| !meta.location.as_ref().ends_with("store.json"));
    for meta in metas {
        let whole = get(&objects, &meta.location).to_vec();
        let mut flipped = whole.clone();
        let middle = flipped.len() / 2;
        flipped[middle] ^= 1;
        for changed in [Some(flipped), None] {
            match changed {
                Some(bytes) => put(&objects, &meta.location, bytes),
                None => wait(objects.delete(&meta.location)).unwrap(),
            }
            let found = destination.verify(None).unwrap();
            assert!(!found[0].is_clean(), "{}", meta.location);
        }
        put(&objects, &meta.location, whole);
    }
    assert!(destination.verify(None).unwrap()[0].is_clean());
}

#[test]
fn the_seals_of_a_segment_that_was_not_copied_are() {
    let dir = tempfile::tempdir().unwrap();
    let mut log = Log::new(dir.path(), 29);
    let objects = Arc::new(InMemory::new());
    log.converse();
    log.store.seal_at(DAY_1 + 2 * DAY_MS).unwrap();
    ship(&log, Arc::clone(&objects) as Arc<dyn ObjectStore>).unwrap();
    // Erasing seals the segment that is erased from, which has these lines alone.
    log.converse();
    let id = log.conversations.pop().unwrap();
    for what in [Erasure::Conversation(id), Erasure::Request(id)] {
        log.store.erase(&what, EraseOptions::default()).unwrap();
    }
    log.erased.insert(Log::word(id));
    ship(&log, Arc::clone(&objects) as Arc<dyn ObjectStore>).unwrap();
    check(&log, &objects);
}
