//! Erasure of data in damaged segments.

use std::fs;
use std::path::{Path, PathBuf};

use decklog::retention::Erasure;
use decklog::{ErrorKind, Store};
use uuid::Uuid;

use super::super::support::{DAY_1, DAY_1_NAME, DAY_MS, still};
use super::{conversation, erase, holding, is_gone, is_whole, of_user, record, try_erase};

/// A log of two users on disk, and the path of one segment.
fn log_of_two(dir: &Path, segment: &str) -> (Store, PathBuf) {
    let path = dir.join("log");
    let store = still().open(&path).unwrap();
    record(&store, conversation(1_000, "ann", "pear"));
    record(&store, conversation(2_000, "bob", "quince"));
    (store, path.join(DAY_1_NAME).join(segment))
}

fn set_read_only(path: &Path, is_read_only: bool) {
    let mut permissions = fs::metadata(path).unwrap().permissions();
    permissions.set_readonly(is_read_only);
    fs::set_permissions(path, permissions).unwrap();
}

/// Replaces the bytes of a segment, sealed or not, as another program would.
fn change(segment: &Path, changed: impl FnOnce(Vec<u8>) -> Vec<u8>) {
    set_read_only(segment, false);
    let bytes = fs::read(segment).unwrap();
    fs::write(segment, changed(bytes)).unwrap();
}

fn lines(bytes: &[u8]) -> Vec<&[u8]> {
    bytes.split_inclusive(|byte| *byte == b'\n').collect()
}

#[test]
fn what_leads_to_a_segment_that_cannot_be_rewritten_stays() {
    let dir = tempfile::tempdir().unwrap();
    let (store, messages) = log_of_two(dir.path(), "messages.0001.jsonl");
    let mut whole = 0;
    change(&messages, |mut bytes| {
        whole = bytes.len() as u64;
        bytes.extend_from_slice(b"{\"seq\":9");
        bytes
    });
    set_read_only(&messages, true);
    // Also with a handle that does not know of it.
    let open = || still().open(store.path()).unwrap();
    for store in [store.clone(), open(), open()] {
        let e = try_erase(&store, &Erasure::User("ann".into()), false).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Damaged, "{e}");
        assert_eq!((e.path(), e.offset()), (Some(&*messages), Some(whole)));
        assert!(e.to_string().contains("run 'decklog repair' first"), "{e}");
        assert_eq!(of_user(&store, "ann").unwrap(), 1);
    }
    drop(store);
    let path = dir.path().join("log");
    let store = still().open(&path).unwrap();
    store.repair().unwrap();
    erase(&store, &Erasure::User("ann".into()));
    assert_eq!(holding(&path, "pear"), Vec::<PathBuf>::new());
    is_gone(&store, 1_000);
    is_whole(&store, 2_000, "quince");
}

#[test]
fn a_damaged_line_takes_no_records_of_others_along() {
    let dir = tempfile::tempdir().unwrap();
    let (store, messages) = log_of_two(dir.path(), "messages.0001.jsonl");
    let path = store.path().to_owned();
    drop(store);
    // The last line of ann and the first of bob.
    let mut glued_at = 0;
    change(&messages, |bytes| {
        let lines = lines(&bytes);
        let is_bobs = |line: &&[u8]| memchr::memmem::find(line, b"quince").is_some();
        let first_bobs = lines.iter().position(is_bobs).unwrap();
        glued_at = lines[..first_bobs - 1].concat().len() as u64;
        let end = lines[..first_bobs].concat().len() - 1;
        [&bytes[..end], &bytes[end + 1..]].concat()
    });
    let before = holding(&path, "pear");
    let store = still().open(&path).unwrap();
    for dry_run in [true, false] {
        let what = Erasure::Conversation(Uuid::from_u128(1_000));
        let e = try_erase(&store, &what, dry_run).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Damaged, "{e}");
        assert_eq!((e.path(), e.offset()), (Some(&*messages), Some(glued_at)));
        assert!(e.to_string().contains("run 'decklog repair' first"), "{e}");
        assert_eq!(holding(&path, "pear"), before);
    }
    store.repair().unwrap();
    erase(&store, &Erasure::Conversation(Uuid::from_u128(1_000)));
    assert_eq!(holding(&path, "pear"), Vec::<PathBuf>::new());
    is_gone(&store, 1_000);
    is_whole(&store, 2_000, "quince");
}

/// Half a line of unknown origin, joined to a complete line of another user.
#[test]
fn what_is_glued_to_others_records_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let (store, messages) = log_of_two(dir.path(), "messages.0001.jsonl");
    let path = store.path().to_owned();
    drop(store);
    change(&messages, |bytes| {
        let lines = lines(&bytes);
        let is_bobs = |line: &&[u8]| memchr::memmem::find(line, b"quince").is_some();
        let bobs = lines.iter().position(is_bobs).unwrap();
        let torn = &lines[0][lines[0].len() / 2..lines[0].len() - 1];
        let bob = lines[bobs].strip_suffix(b"\n").unwrap();
        let rest = [&lines[..bobs], &lines[bobs + 1..]].concat().concat();
        [&rest, bob, b" ", torn, b"\n"].concat()
    });
    let store = still().open(&path).unwrap();
    let what = Erasure::Conversation(Uuid::from_u128(1_000));
    let e = try_erase(&store, &what, false).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Damaged, "{e}");
    store.repair().unwrap();
    erase(&store, &what);
    assert_eq!(holding(&path, "pear"), Vec::<PathBuf>::new());
    is_whole(&store, 2_000, "quince");
}

#[test]
fn a_line_that_was_split_goes_with_all_its_pieces() {
    for repairs_first in [false, true] {
        for cuts in [&[1][..], &[1, 20]] {
            let dir = tempfile::tempdir().unwrap();
            let (store, messages) = log_of_two(dir.path(), "messages.0001.jsonl");
            let path = store.path().to_owned();
            drop(store);
            // In the text of the second message. Its first fragment contains the ids.
            change(&messages, |bytes| {
                let text = memchr::memmem::find(&bytes, b"message 1 of pear").unwrap();
                let mut bytes = bytes;
                for cut in cuts.iter().rev() {
                    bytes.insert(text + cut, b'\n');
                }
                bytes
            });
            let store = still().open(&path).unwrap();
            if repairs_first {
                store.repair().unwrap();
            }
            assert_eq!(holding(&path, "essage 1 of pear").len(), 1);
            let what = Erasure::Conversation(Uuid::from_u128(1_000));
            let would_go = try_erase(&store, &what, true).unwrap();
            assert_eq!(try_erase(&store, &what, false).unwrap(), would_go);
            assert_eq!(holding(&path, "pear"), Vec::<PathBuf>::new());
            // Nor fragments that are too short to be recognized by their text.
            let quarantined = fs::read_dir(path.join("quarantine"));
            assert_eq!(quarantined.map_or(0, Iterator::count), 0);
            let bytes = fs::read(&messages).unwrap();
            assert!(
                lines(&bytes)
                    .iter()
                    .all(|line| line.starts_with(b"{\"seq\":"))
            );
            is_whole(&store, 2_000, "quince");
        }
    }
}

#[test]
fn what_is_torn_in_a_sealed_segment_is_told_by_who_sealed_it() {
    let dir = tempfile::tempdir().unwrap();
    let (store, messages) = log_of_two(dir.path(), "messages.0001.jsonl");
    store.seal_at(DAY_1 + 3 * DAY_MS).unwrap();
    change(&messages, |mut bytes| {
        bytes.extend_from_slice(b"{\"seq\":9");
        bytes
    });
    set_read_only(&messages, true);
    let e = try_erase(&store, &Erasure::User("ann".into()), false).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Damaged, "{e}");
    assert_eq!(e.path(), Some(&*messages));
    assert!(e.to_string().contains("run 'decklog repair' first"), "{e}");
    assert_eq!(of_user(&store, "ann").unwrap(), 1);
}
