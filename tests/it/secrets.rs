//! Planted secrets reach no disk: every written byte is checked, in the storage and from outside
//! the process. Also the privacy settings on the command line.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex};

use aho_corasick::AhoCorasick;
use decklog::import::Importer;
use decklog::record::ThoughtType;
use decklog::storage::{Disk, Memory};
use decklog::thoughts::NewThought;
use decklog::{
    AckStatus, Client, CodeEditProposal, Conversation, ConversationMessage, Durability, Event,
    HistoryEntry, InferenceMetadata, ObservabilityStore, ProposalStatus, ProposalStep, Record,
    Role, Store, args_sha256, event_type, verify,
};
use serde::Deserialize;
use uuid::Uuid;

use super::support::{
    DAY_1, DAY_MS, Spy, done, failed, in_memory, plain_users, request, still, turn,
};
use super::upkeep::compact;

#[derive(Deserialize)]
struct Parts {
    r#type: String,
    text: Vec<String>,
    secret: Vec<String>,
}

struct Planted {
    of: String,
    text: String,
    secret: String,
}

fn planted() -> Vec<Planted> {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/data/privacy/secrets.ndjson"
    );
    let text = std::fs::read_to_string(path).unwrap();
    let parts = text
        .lines()
        .map(|line| serde_json::from_str::<Parts>(line).unwrap());
    let whole = parts.map(|parts| Planted {
        of: parts.r#type,
        text: parts.text.concat(),
        secret: parts.secret.concat(),
    });
    whole.collect()
}

/// The forms of a secret in a file: as it is, as in a JSON string, and without its first letters,
/// which an escape may hide.
fn forms(secret: &str) -> Vec<String> {
    let quoted = serde_json::to_string(secret).unwrap();
    let mut forms = vec![secret.to_owned(), quoted[1..quoted.len() - 1].to_owned()];
    forms.extend(
        secret
            .get(4..)
            .filter(|rest| rest.len() >= 12)
            .map(str::to_owned),
    );
    forms
}

/// Searches for all secrets at once.
struct Search {
    automaton: AhoCorasick,
    secrets: Vec<String>,
}

impl Search {
    fn of(planted: &[Planted]) -> Search {
        let forms = planted.iter().flat_map(|one| {
            let of = |form| (form, format!("{}: {}", one.of, one.secret));
            forms(&one.secret).into_iter().map(of)
        });
        let (forms, secrets): (Vec<String>, Vec<String>) = forms.unzip();
        Search {
            automaton: AhoCorasick::new(forms).unwrap(),
            secrets,
        }
    }

    fn in_bytes(&self, bytes: &[u8]) -> Option<&str> {
        let found = self.automaton.find(bytes)?;
        Some(&self.secrets[found.pattern().as_usize()])
    }

    /// Fails if a file in a directory contains one of them.
    fn in_files(&self, dir: &Path) -> usize {
        let mut files = 0;
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                files += self.in_files(&path);
            } else {
                let found = self.in_bytes(&std::fs::read(&path).unwrap());
                assert_eq!(found, None, "{}", path.display());
                files += 1;
            }
        }
        files
    }
}

/// The secrets that the engine detects. The others are reported.
fn caught() -> Vec<Planted> {
    let store = in_memory(&Memory::new(), Durability::Process);
    let all = planted();
    let count = all.len();
    let is_caught = |one: &Planted| {
        let id = Uuid::new_v4().as_u128();
        store.record(turn(id, &one.text, DAY_1)).unwrap();
        let kept = store
            .get_turn(Uuid::from_u128(id))
            .unwrap()
            .unwrap()
            .content;
        let search = Search::of(&[Planted {
            of: one.of.clone(),
            text: String::new(),
            secret: one.secret.clone(),
        }]);
        let is_caught = search.in_bytes(kept.as_bytes()).is_none();
        if !is_caught {
            println!("missed: {}: {}", one.of, one.text);
        }
        is_caught
    };
    let caught: Vec<Planted> = all.into_iter().filter(is_caught).collect();
    println!("{} of {count} are caught", caught.len());
    assert!(caught.len() >= 400 && caught.len() * 100 >= count * 99);
    caught
}

/// The text as a name, if it is short enough.
fn name(text: &str) -> Option<String> {
    Some(text.to_owned()).filter(|text| text.len() <= 1024)
}

/// A text in every free-text field of a record of every kind.
fn records(number: u128, text: &str) -> Vec<Record> {
    let id = |kind: u128| Uuid::from_u128(kind << 64 | number);
    let json = serde_json::json!({ "note": text, text: [1, text] }).to_string();
    let nested = serde_json::json!({ "arguments": &json }).to_string();
    let mut call = request(id(1).as_u128(), "call_1", DAY_1);
    call.vendor = name(text).unwrap_or(call.vendor);
    call.tool_name = name(text).unwrap_or(call.tool_name);
    call.args_sha256 = args_sha256(&nested);
    call.arguments_json = Some(nested.clone());
    let mut other = call.clone();
    other.call_id = "call_2".into();
    let mut outcome = done(&call);
    outcome.outcome_json = Some(json.clone());
    let mut failure = failed(&other);
    failure.error_kind = name(text);
    failure.error_msg = Some(text.to_owned());
    failure.outcome_json = Some(text.to_owned());
    let proposal = id(2);
    let step = |status| ProposalStep::new(proposal, status, DAY_1 + 1);
    let conversation = with!(Conversation::new(id(3), Client::Api),
        workspace: name(text),
        project: name(text),
        session_id: name(text),
        agent: name(text),
        parent_call_id: name(text),
        title: Some(text.to_owned()),
        last_error: Some(text.to_owned()),
    );
    let message = with!(ConversationMessage::new(id(3), Role::Tool, text),
        model_used: name(text),
        config_used: name(text),
        orchestration_mode: name(text),
        task_type: name(text),
        git_branch: name(text),
        error_type: name(text),
        error: Some(text.to_owned()),
        tool_name: name(text),
        tool_call_id: name(text),
        reasoning: Some(text.to_owned()),
        models_in_chain: name(text).map(|name| vec![name]),
        tool_args: Some(json.clone()),
        tool_result: Some(text.to_owned()),
        inference_metadata: Some(nested.clone()),
    );
    let event = with!(Event::new(None, event_type::AGENT_STARTED), payload: Some(json.clone()));
    vec![
        turn(id(4).as_u128(), text, DAY_1).into(),
        call.into(),
        other.into(),
        outcome.into(),
        failure.into(),
        CodeEditProposal::new(proposal, json, DAY_1).into(),
        step(ProposalStatus::Approved).into(),
        ProposalStep {
            commit_hash: name(text),
            ..step(ProposalStatus::Applied)
        }
        .into(),
        conversation.into(),
        message.into(),
        HistoryEntry::new(7, Role::User, text).into(),
        event.into(),
    ]
}

/// A session of another agent that repeats the texts.
fn session(dir: &Path, planted: &[Planted]) -> PathBuf {
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/claude-code-session.jsonl");
    let session = std::fs::read_to_string(sample).unwrap();
    // JSON inside another text is not redacted as JSON.
    let plain = planted.iter().filter(|one| !one.text.contains('\\'));
    let texts: Vec<&str> = plain.step_by(11).map(|one| one.text.as_str()).collect();
    assert!(texts.len() >= 20);
    let quoted = serde_json::to_string(&texts.join("\n\n")).unwrap();
    let path = dir.join("7f2abd2d-7cfc-4447-9ddd-3ca8d14e02e9.jsonl");
    std::fs::write(
        &path,
        session.replace("myapp", &quoted[1..quoted.len() - 1]),
    )
    .unwrap();
    path
}

#[test]
fn no_byte_that_is_written_holds_a_secret() {
    let caught = caught();
    let search = Arc::new(Search::of(&caught));
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let spy = Spy::new(Disk::new(&path));
    // Number of bytes written, by file.
    let written: Arc<Mutex<BTreeMap<String, usize>>> = Arc::default();
    let leaks: Arc<Mutex<Vec<String>>> = Arc::default();
    spy.hook_written({
        let (search, written, leaks) = (search.clone(), written.clone(), leaks.clone());
        move |file, bytes| {
            *written.lock().unwrap().entry(file.to_owned()).or_default() += bytes.len();
            if let Some(secret) = search.in_bytes(bytes) {
                leaks.lock().unwrap().push(format!("{file}: {secret}"));
            }
        }
    });
    let no_leak = |when: &str| assert_eq!(*leaks.lock().unwrap(), [""; 0], "{when}");
    let options = still()
        .storage(Arc::new(spy.clone()))
        .sidecar_bytes_min(0)
        .segment_bytes_max(64 << 10);
    let store = options.open(&path).unwrap();

    for (number, one) in caught.iter().enumerate() {
        let records = records(number as u128, &one.text);
        if number % 2 == 0 {
            for answer in store.record_batch(records).unwrap() {
                answer.unwrap_or_else(|e| panic!("{e}: {}", one.text));
            }
        } else {
            for record in records {
                store
                    .record(record)
                    .unwrap_or_else(|e| panic!("{e}: {}", one.text));
            }
        }
    }
    no_leak("recorded");

    // Records created under the lock, and records from a gateway.
    let capture = store.capture().unwrap();
    let metadata = InferenceMetadata::default();
    let inbox = store.inbox();
    let thoughts = store.thoughts();
    for (number, one) in caught.iter().enumerate().step_by(7) {
        let text = &one.text;
        let id = i64::try_from(number).unwrap() + 1;
        inbox.enqueue(id, Some(text)).unwrap();
        let task = inbox.claim().unwrap().unwrap();
        inbox.fail(&task, text).unwrap();
        let thought = NewThought {
            thought_type: ThoughtType::Plan,
            task_id: "t".into(),
            agent_id: "a".into(),
            content: text.clone(),
        };
        thoughts.create(thought).unwrap();
        store
            .log_event(None, event_type::TURN_STARTED, Some(text))
            .unwrap();
        let talk = Uuid::from_u128(5 << 64 | number as u128);
        let asked = [ConversationMessage::new(talk, Role::User, text.as_str())];
        capture
            .capture_request(Conversation::new(talk, Client::Web), asked)
            .unwrap();
        capture
            .capture_response(talk, text.clone(), &metadata)
            .unwrap();
        let mut stream = capture.response(talk);
        let half = text.char_indices().nth(text.chars().count() / 2).unwrap().0;
        stream.push(&text[..half]);
        stream.push(&text[half..]);
        stream.finish(&metadata).unwrap();
        capture.capture_error(talk, "timeout", text, None).unwrap();
    }
    capture.flush().unwrap();
    assert_eq!(capture.stats().rejected, 0);
    drop((capture, inbox, thoughts));
    no_leak("captured");

    let mut importer = Importer::new(&store).expired(decklog::import::Expired::Expire);
    importer.path(&session(dir.path(), &caught)).unwrap();
    assert!(importer.finish().unwrap().added > 0);
    no_leak("imported");

    store
        .change_settings(|it| it.privacy.redact_pii = true)
        .unwrap();
    for one in &caught[..20] {
        store
            .record(HistoryEntry::new(8, Role::User, one.text.as_str()))
            .unwrap();
    }
    store.sync().unwrap();
    assert!(!store.seal_at(DAY_1 + 2 * DAY_MS).unwrap().is_empty());
    compact(&store, DAY_1 + 200 * DAY_MS);
    drop(store);
    no_leak("sealed, compacted and closed");

    let files = search.in_files(&path);
    let written = written.lock().unwrap();
    let total: usize = written.values().sum();
    println!(
        "{total} bytes written to {} files, {files} left",
        written.len()
    );
    let is_written = |part: &str| written.keys().any(|file| file.contains(part));
    for part in ["turns", "seals", "cache", "decklog.json"] {
        assert!(is_written(part), "{part}: {:?}", written.keys());
    }
    assert!(total > 2_000_000, "{total}");
    assert!(verify(&Disk::new(&path)).unwrap().is_clean());
}

/// The command with its own home directory.
fn decklog(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_decklog"));
    command
        .args(args)
        .env("HOME", dir.join("home"))
        .env_remove("XDG_CONFIG_HOME")
        .env_remove("DECKLOG_USER_ID_KEY")
        .env("DECKLOG_STORE", dir.join("log"));
    command
}

fn run(command: &mut Command, input: &str) -> Output {
    use std::io::Write;
    let child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = child.unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(input.as_bytes())
        .unwrap();
    child.wait_with_output().unwrap()
}

fn run_well(command: &mut Command, input: &str) -> String {
    let output = run(command, input);
    assert!(output.status.success(), "{command:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The same, seen from the operating system.
#[test]
#[cfg(target_os = "linux")]
fn no_call_writes_a_secret() {
    if !super::syscalls::has_strace("no_call_writes_a_secret") {
        return;
    }
    let mut caught = caught();
    // As `strace` prints them, without escapes.
    let is_plain = |text: &str| {
        let is_plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\');
        text.bytes().all(is_plain)
    };
    caught.retain(|one| is_plain(&one.secret));
    assert!(caught.len() >= 300, "{}", caught.len());
    let search = Search::of(&caught);
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("trace");
    let traced = |args: &[&str], input: &str| {
        let of = decklog(dir.path(), args);
        let mut command = Command::new("strace");
        command
            .args(["-f", "-qq", "-s", "4000000", "-o"])
            .arg(&trace)
            .args(["-e", "trace=write,pwrite64,writev,pwritev,mmap"])
            .arg(of.get_program())
            .args(of.get_args());
        for (name, value) in of.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        run_well(&mut command, input);
        let seen = std::fs::read(&trace).unwrap();
        std::fs::remove_file(&trace).unwrap();
        let placeholders = seen.windows(10).filter(|it| *it == b"[REDACTED:").count();
        assert!(placeholders >= 20, "{args:?}: {placeholders} placeholders");
        assert_eq!(search.in_bytes(&seen), None, "{args:?}");
    };
    let lines = caught.iter().map(|one| {
        let text = &one.text;
        serde_json::json!({"kind": "history", "chat_id": 1, "role": "user", "text": text})
    });
    let lines: Vec<String> = lines.map(|line| line.to_string() + "\n").collect();
    traced(&["record"], &lines.concat());
    let session = session(dir.path(), &caught);
    traced(&["import", "--expire", session.to_str().unwrap()], "");
    search.in_files(&dir.path().join("log"));
}

/// An unused token in GitHub's format.
fn token(digit: char) -> String {
    format!("ghp_{}Zq8Lw3Xc5Vb7", format!("{digit}kR").repeat(8))
}

#[test]
fn what_holds_a_secret_is_one_fact() {
    let store = in_memory(&Memory::new(), Durability::Process);
    let (one, two) = (token('4'), token('9'));
    let text = format!("{one}, {two} and {one}");
    for (nth, record) in records(1, &text).into_iter().enumerate() {
        let added = store.record(record.clone()).unwrap();
        assert_eq!(added.status, AckStatus::Added, "{record:?}");
        // Each of these is a new record.
        if !matches!(record, Record::History(_) | Record::Event(_)) {
            let again = store.record(record.clone()).unwrap();
            assert_eq!(again.status, AckStatus::Unchanged, "{nth}: {record:?}");
        }
    }
    let said = "[REDACTED:github_token:1], [REDACTED:github_token:2] and [REDACTED:github_token:1]";
    let turn = store.get_turn(Uuid::from_u128(4 << 64 | 1)).unwrap();
    assert_eq!(turn.unwrap().content, said);
    let listed = store.list_conversation_since(0, 9).unwrap();
    assert_eq!(listed[0].content, said);
    let call = store.get_tool_call(Uuid::from_u128(1 << 64 | 1), "call_2");
    let (req, done) = call.unwrap().unwrap();
    // The same in all fields of a record.
    assert_eq!(req.tool_name, said);
    assert!(req.arguments_json.unwrap().contains(said));
    let done = done.unwrap();
    assert_eq!(done.error_msg.as_deref(), Some(said));
    assert_eq!(done.error_kind.as_deref(), Some(said));
}

#[test]
fn what_is_not_kept_is_nowhere() {
    for (store_content, store_payloads) in [(false, true), (true, false)] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mut settings = plain_users();
        settings.privacy.store_content = store_content;
        settings.privacy.store_payloads = store_payloads;
        let store = Store::options().settings(settings).open(&path).unwrap();
        let mut call = request(1, "c", DAY_1);
        call.arguments_json = Some(r#"{"said":"a payload"}"#.into());
        call.args_sha256 = args_sha256(r#"{"said":"a payload"}"#);
        let mut outcome = done(&call);
        outcome.outcome_json = Some(r#"{"said":"a payload"}"#.into());
        for answer in store
            .record_batch([
                turn(2, "a content", DAY_1).into(),
                Record::from(call.clone()),
                outcome.into(),
            ])
            .unwrap()
        {
            answer.unwrap();
        }
        assert_eq!(store.record(call).unwrap().status, AckStatus::Unchanged);
        let content = store.get_turn(Uuid::from_u128(2)).unwrap().unwrap().content;
        let (req, done) = store
            .get_tool_call(Uuid::from_u128(1), "c")
            .unwrap()
            .unwrap();
        let done = done.unwrap();
        // Without contents, payloads are not stored.
        for payload in [req.arguments_json, done.outcome_json] {
            let payload = payload.unwrap();
            assert!(payload.starts_with("[CONTENT:len=20,sha256="), "{payload}");
        }
        assert_eq!(done.latency_ms, 12);
        assert_eq!(content == "a content", store_content, "{content}");
        assert_eq!(
            content.starts_with("[CONTENT:len=9,sha256="),
            !store_content
        );
        drop(store);
        let gone = |text: &str| Planted {
            of: "gone".into(),
            text: String::new(),
            secret: text.into(),
        };
        let mut texts = vec![gone("a payload")];
        texts.extend((!store_content).then(|| gone("a content")));
        assert!(Search::of(&texts).in_files(&path) > 0);
    }
}

/// A gateway may add anything to its metrics.
#[test]
fn metadata_keep_metrics_and_names_alone_where_contents_are_not_kept() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let mut settings = plain_users();
    settings.privacy.store_content = false;
    let store = Store::options().settings(settings).open(&path).unwrap();
    let said = |n: u128, metadata: &str| {
        with!(ConversationMessage::new(Uuid::from_u128(1), Role::Assistant, "a quince"),
            id: Uuid::from_u128(n),
            inference_metadata: Some(metadata.to_owned()),
        )
    };
    store
        .record(Conversation::new(Uuid::from_u128(1), Client::Cli))
        .unwrap();
    let given = [
        r#"{"config":"fast","models_used":["big one"],"usage":{"input_tokens":7,"tier":"a quince"},"prompt":["a quince"]}"#,
        r#"{"usage":{"input_tokens":7}}"#,
        r#"["a quince"]"#,
        "a quince",
    ];
    for (n, metadata) in (2..).zip(given) {
        let message = said(n, metadata);
        store.record(message.clone()).unwrap();
        let again = store.record(message).unwrap();
        assert_eq!(again.status, AckStatus::Unchanged, "{metadata}");
    }
    let kept = |n| {
        let message = store.get_message(Uuid::from_u128(n)).unwrap().unwrap();
        message.inference_metadata.unwrap()
    };
    let metrics: serde_json::Value = serde_json::from_str(&kept(2)).unwrap();
    assert_eq!(metrics["config"], "fast");
    assert_eq!(metrics["models_used"][0], "big one");
    assert_eq!(metrics["usage"]["input_tokens"], 7);
    assert_eq!(kept(3), given[1]);
    drop(store);
    let text = Planted {
        of: "metadata".into(),
        text: String::new(),
        secret: "a quince".into(),
    };
    assert!(Search::of(&[text]).in_files(&path) > 0);
}

fn conversation(number: u32, user: &str) -> String {
    format!(
        r#"{{"kind":"conversations","id":"67e55044-10b1-426f-9247-bb680e5f{number:04x}","client":"cli","user_id":"{user}"}}
"#
    )
}

fn found(command: &mut Command) -> usize {
    run_well(command, "").lines().count()
}

#[test]
#[cfg(unix)]
fn users_are_found_by_who_has_the_key() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    std::fs::create_dir(dir.join("home")).unwrap();
    let key = dir.join("home/.config/decklog/user_id.key");
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;

    run_well(&mut decklog(dir, &["record"]), &conversation(1, "alice"));
    assert_eq!((mode(&key), mode(key.parent().unwrap())), (0o600, 0o700));
    let text = std::fs::read_to_string(&key).unwrap();
    assert_eq!(text.len(), 65);
    let alice = [Planted {
        of: "user".into(),
        text: String::new(),
        secret: "alice".into(),
    }];
    assert!(Search::of(&alice).in_files(&dir.join("log")) > 0);
    let list = ["conversations", "--user", "alice", "--json"];
    assert_eq!(found(&mut decklog(dir, &list)), 1);

    // Elsewhere: in the configuration directory, and set by the variable.
    let xdg = dir.join("xdg");
    for args in [
        &list[..],
        &["erase", "--user", "alice", "--dry-run"],
        &["erase", "--user", "alice"],
    ] {
        let mut other = decklog(dir, args);
        let output = run(other.env("XDG_CONFIG_HOME", &xdg), "");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let told = ["xdg/decklog/user_id.key", "DECKLOG_USER_ID_KEY"];
        assert!(told.iter().all(|told| said.contains(told)), "{said}");
        assert!(!output.status.success() && !xdg.exists());
    }
    std::fs::copy(&key, dir.join("copy")).unwrap();
    std::fs::set_permissions(dir.join("copy"), PermissionsExt::from_mode(0o600)).unwrap();
    let mut other = decklog(dir, &list);
    other.env("XDG_CONFIG_HOME", &xdg);
    assert_eq!(found(other.env("DECKLOG_USER_ID_KEY", dir.join("copy"))), 1);

    // A key that is readable by others, or invalid, stops only operations that need it.
    let refused = |told: &str| {
        let output = run(&mut decklog(dir, &["record"]), &conversation(2, "bob"));
        assert!(!output.status.success());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            said.contains(told) && said.contains("user_id.key"),
            "{said}"
        );
        let said = run_well(&mut decklog(dir, &["verify"]), "");
        assert!(!said.is_empty());
    };
    std::fs::set_permissions(&key, PermissionsExt::from_mode(0o640)).unwrap();
    refused("chmod 600");
    assert_eq!(std::fs::read_to_string(&key).unwrap(), text);
    std::fs::set_permissions(&key, PermissionsExt::from_mode(0o600)).unwrap();
    std::fs::write(&key, "z".repeat(64)).unwrap();
    refused("Put the right file there");
    std::fs::write(&key, &text).unwrap();
    run_well(&mut decklog(dir, &["record"]), &conversation(2, "bob"));
    assert_eq!(found(&mut decklog(dir, &["conversations", "--json"])), 2);
    assert_eq!(found(&mut decklog(dir, &list)), 1);
}

#[test]
fn processes_that_make_a_key_at_once_have_the_same() {
    use std::io::Write;
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    std::fs::create_dir(dir.join("home")).unwrap();
    let spawn = |_| {
        decklog(dir, &["record"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap()
    };
    let mut all: Vec<_> = (0..4).map(spawn).collect();
    for (number, one) in all.iter_mut().enumerate() {
        let line = conversation(number as u32, "alice");
        let mut input = one.stdin.take().unwrap();
        input.write_all(line.as_bytes()).unwrap();
    }
    for mut one in all {
        assert!(one.wait().unwrap().success());
    }
    let list = ["conversations", "--user", "alice", "--json"];
    assert_eq!(found(&mut decklog(dir, &list)), 4);
    let keys = dir.join("home/.config/decklog");
    if cfg!(target_os = "linux") {
        assert_eq!(std::fs::read_dir(keys).unwrap().count(), 1);
    }
}

#[test]
fn importing_again_adds_nothing_where_secrets_are() {
    let dir = tempfile::tempdir().unwrap();
    let store = in_memory(&Memory::new(), Durability::Process);
    let session = session(dir.path(), &planted());
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    for sample in ["claude-code-subagent.jsonl", "codex-rollout.jsonl"] {
        let text = std::fs::read_to_string(samples.join(sample)).unwrap();
        // Ids of calls may look like tokens too.
        let text = text.replace("call_pBXH93fl6ZXH2svDOFIlr8GA", &token('4'));
        let text = text.replace("myapp", &format!("myapp {}", token('9')));
        std::fs::write(dir.path().join(sample), text).unwrap();
    }
    let import = || {
        let mut importer = Importer::new(&store).expired(decklog::import::Expired::Expire);
        importer = importer.reread(true);
        importer.path(dir.path()).unwrap();
        importer.finish().unwrap()
    };
    assert!(session.starts_with(dir.path()));
    let first = import();
    assert_eq!(first.added, 108);
    assert_eq!(first.broken, []);
    let second = import();
    assert_eq!((second.added, second.turns), (0, first.turns));
    let lines = store.last_lines(usize::MAX).unwrap();
    let is_redacted = |text: &str| text.contains("[REDACTED:github_token:");
    let redacted = lines.iter().filter(|line| is_redacted(&line.text));
    assert!(redacted.count() >= 10);
}
