//! `access.json`: HTTP access to the store, for processes that share it.

use std::sync::Arc;

use decklog::access::TokenKind;
use decklog::privacy::AccessRole;
use decklog::storage::{Access, Memory, Storage};
use decklog::{ErrorKind, ObservabilityStore, Options, Store};
use serde_json::{Value, json};

use crate::support::{DAY_1, turn};

fn text_of(storage: &dyn Storage) -> String {
    let file = storage.open("access.json", Access::Read).unwrap();
    let mut text = vec![0; usize::try_from(file.stat().unwrap().len).unwrap()];
    file.read_at(&mut text, 0).unwrap();
    String::from_utf8(text).unwrap()
}

fn write(storage: &dyn Storage, text: &str) {
    let _ = storage.remove_file("access.json");
    let file = storage.open("access.json", Access::Append).unwrap();
    file.append(text.as_bytes()).unwrap();
}

fn stored() -> (Arc<Memory>, Store) {
    let storage = Arc::new(Memory::new());
    let store = Options::default()
        .storage(storage.clone())
        .open("log")
        .unwrap();
    (storage, store)
}

/// The bytes specified in data-layout.md.
#[test]
fn only_hashes_are_kept() {
    let (storage, store) = stored();
    let (secret, info) = store
        .add_token("gateway", AccessRole::Developer, None)
        .unwrap();
    let (code, _) = store.add_login_code(AccessRole::Admin).unwrap();
    let text = text_of(&*storage);
    assert!(text.ends_with("}\n") && text.lines().count() == 1);
    let file: Value = serde_json::from_str(&text).unwrap();
    let entry = &file["entries"][0];
    let hash = sha2(secret.as_str());
    assert_eq!(
        *entry,
        json!({"id": info.id, "kind": "token", "name": "gateway", "role": "developer", "created_at": info.created_at, "sha256": hash})
    );
    assert_eq!(file["entries"][1]["sha256"], sha2(code.as_str()));
    for shown in [&secret, &code] {
        assert!(!text.contains(shown.as_str()));
        assert_eq!(format!("{shown:?}"), "Secret(dl_…)");
    }
    assert!(info.id.len() == 8 && secret.as_str().len() == 67);
    assert_ne!(secret.as_str(), code.as_str());
}

fn sha2(text: &str) -> String {
    // The only hash of a text in the public API: that of a JSON string.
    decklog::args_sha256(text)
}

#[test]
fn processes_do_not_lose_each_others_tokens() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    drop(Store::open(&path).unwrap());
    std::thread::scope(|scope| {
        for worker in 0..4 {
            let path = &path;
            scope.spawn(move || {
                let store = Store::open(path).unwrap();
                for i in 0..5 {
                    let name = format!("{worker}-{i}");
                    let (_, info) = store.add_token(&name, AccessRole::Admin, None).unwrap();
                    if i % 2 == 1 {
                        assert_eq!(store.revoke_token(&info.id).unwrap(), Some(info));
                    }
                }
            });
        }
    });
    let store = Store::options().read_only(true).open(&path).unwrap();
    let mut names: Vec<_> = store
        .tokens()
        .unwrap()
        .into_iter()
        .map(|it| it.name)
        .collect();
    names.sort();
    let expected = (0..4).flat_map(|worker| [0, 2, 4].map(|i| format!("{worker}-{i}")));
    assert_eq!(names, expected.collect::<Vec<_>>());
    assert_eq!(
        store
            .add_token("x", AccessRole::Admin, None)
            .unwrap_err()
            .kind(),
        ErrorKind::ReadOnly
    );
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = std::fs::metadata(path.join("access.json"))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}

#[test]
fn a_code_works_once_and_becomes_a_session() {
    let (_, store) = stored();
    let (token, _) = store.add_token("gateway", AccessRole::Admin, None).unwrap();
    let (code, made) = store.add_login_code(AccessRole::ReadOnly).unwrap();
    let lives_ms = made.expires_at.unwrap() - made.created_at;
    assert_eq!(lives_ms, 600_000);
    for wrong in ["", "dl_", token.as_str(), &code.as_str()[..66], &made.id] {
        assert!(store.log_in(wrong).unwrap().is_none(), "{wrong}");
    }
    let (session, info) = store.log_in(code.as_str()).unwrap().unwrap();
    assert_eq!(
        (info.kind, info.role),
        (TokenKind::Session, AccessRole::ReadOnly)
    );
    let lives_ms = info.expires_at.unwrap() - info.created_at;
    assert_eq!(lives_ms, 30 * 86_400_000);
    assert!(store.log_in(session.as_str()).unwrap().is_none());
    let kinds: Vec<_> = store.tokens().unwrap().iter().map(|it| it.kind).collect();
    assert_eq!(kinds, [TokenKind::Token, TokenKind::Session]);
    assert_eq!(store.revoke_token(&info.id).unwrap(), Some(info));
}

/// Two browsers use the same code at the same time.
#[test]
fn of_two_who_use_a_code_one_gets_in() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let store = Store::open(&path).unwrap();
    for _ in 0..10 {
        let (code, _) = store.add_login_code(AccessRole::Developer).unwrap();
        let use_it = || Store::open(&path).unwrap().log_in(code.as_str()).unwrap();
        let sessions = std::thread::scope(|scope| {
            let threads = [(); 4].map(|()| scope.spawn(use_it));
            threads.map(|thread| thread.join().unwrap())
        });
        assert_eq!(sessions.iter().flatten().count(), 1);
    }
}

#[test]
fn what_has_expired_is_refused_and_goes() {
    let (storage, store) = stored();
    assert_eq!(
        store
            .add_token("late", AccessRole::Admin, Some(1))
            .unwrap_err()
            .kind(),
        ErrorKind::InvalidInput
    );
    let (code, info) = store.add_login_code(AccessRole::Admin).unwrap();
    let mut file: Value = serde_json::from_str(&text_of(&*storage)).unwrap();
    file["entries"][0]["expires_at"] = json!(info.created_at - 1);
    write(&*storage, &file.to_string());
    assert!(store.log_in(code.as_str()).unwrap().is_none());
    assert!(store.tokens().unwrap().is_empty());
    assert!(text_of(&*storage).contains(&info.id));
    store.add_token("next", AccessRole::Admin, None).unwrap();
    assert!(!text_of(&*storage).contains(&info.id));
}

#[test]
fn what_a_newer_version_wrote_is_kept() {
    let (storage, store) = stored();
    let (_, info) = store.add_token("a", AccessRole::Admin, None).unwrap();
    let mut file: Value = serde_json::from_str(&text_of(&*storage)).unwrap();
    file["policy"] = json!({"x": [1]});
    file["entries"][0]["last_used"] = json!(7);
    write(&*storage, &file.to_string());
    let (_, other) = store.add_token("b", AccessRole::Admin, None).unwrap();
    let file: Value = serde_json::from_str(&text_of(&*storage)).unwrap();
    assert_eq!(file["policy"], json!({"x": [1]}));
    assert_eq!(file["entries"][0]["last_used"], 7);
    assert_eq!(store.tokens().unwrap(), [info, other]);
}

#[test]
fn a_file_that_does_not_read_lets_no_one_in() {
    let (storage, store) = stored();
    let (code, _) = store.add_login_code(AccessRole::Admin).unwrap();
    let whole = text_of(&*storage);
    for text in [
        String::new(),
        "null".to_owned(),
        "{}".to_owned(),
        whole[..whole.len() / 2].to_owned(),
        whole.replace("admin", "owner"),
        whole.replace("code", "skeleton"),
        whole.replace("sha256\":\"", "sha256\":\"0"),
        whole.clone() + &whole,
        whole.clone() + &" ".repeat(1 << 20),
    ] {
        write(&*storage, &text);
        let shown: String = text.chars().take(80).collect();
        for found in [
            store.log_in(code.as_str()).err(),
            store.tokens().err(),
            store.add_token("a", AccessRole::Admin, None).err(),
            store.revoke_token("12345678").err(),
        ] {
            let e = found.expect(&shown);
            assert_eq!(e.kind(), ErrorKind::Damaged, "{shown}: {e}");
            assert!(e.to_string().contains("access.json"), "{e}");
            assert!(!e.to_string().contains(code.as_str()), "{e}");
        }
        assert_eq!(text_of(&*storage), text);
    }
    // The log is not affected.
    store
        .upsert_conversation_turn(turn(1, "hello", DAY_1))
        .unwrap();
    write(&*storage, &whole);
    assert!(store.log_in(code.as_str()).unwrap().is_some());
}

#[test]
fn there_is_room_for_a_thousand() {
    let (storage, store) = stored();
    let (_, info) = store.add_token("a", AccessRole::Admin, None).unwrap();
    let mut file: Value = serde_json::from_str(&text_of(&*storage)).unwrap();
    let entry = file["entries"][0].clone();
    file["entries"] = (0..1000).map(|_| entry.clone()).collect();
    write(&*storage, &file.to_string());
    let e = store.add_token("b", AccessRole::Admin, None).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::InvalidInput);
    assert!(e.to_string().contains("revoke"), "{e}");
    assert!(store.revoke_token(&info.id).unwrap().is_some());
    store.add_token("b", AccessRole::Admin, None).unwrap();
}

/// A token printed by an agent is stored in no file.
#[test]
fn a_token_is_redacted_wherever_it_is_logged() {
    let (_, store) = stored();
    for n in 0..50 {
        let name = format!("agent {n}");
        let (secret, _) = store.add_token(&name, AccessRole::Admin, None).unwrap();
        let secret = secret.as_str();
        for (i, text) in [
            secret.to_owned(),
            format!("curl -H 'Authorization: Bearer {secret}' http://127.0.0.1:8084/"),
            format!("open http://127.0.0.1:8084/login?code={secret}."),
            format!("Cookie: decklog_session={secret}; theme=dark"),
            format!("{{\"env\":{{\"DECKLOG\":\"{secret}\"}}}}"),
        ]
        .iter()
        .enumerate()
        {
            let id = n * 10 + i as u128 + 1;
            store
                .upsert_conversation_turn(turn(id, text, DAY_1))
                .unwrap();
        }
    }
    for turn in store.list_conversation_since(0, 1000).unwrap() {
        let content = turn.content;
        assert!(
            !content.contains("dl_") && content.contains("[REDACTED:"),
            "{content}"
        );
    }
}
