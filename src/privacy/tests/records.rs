//! Redaction of records, and the user-id key.

use uuid::Uuid;

use super::*;
use crate::record::{
    Client, CodeEditProposal, ContentType, Conversation, ConversationMessage, ConversationStatus,
    ConversationTurn, Day, Event, HistoryEntry, InboxStep, InboxTask, MessageSums, ProposalStatus,
    ProposalStep, Role, Rollup, Source, Tally, TaskStatus, ThoughtRecord, ThoughtType, Timestamp,
    ToolCallDone, ToolCallReq, ToolStatus, TurnKind, Validity, args_sha256,
};

fn privacy(settings: PrivacySettings) -> Privacy {
    Privacy::new(settings).unwrap()
}

fn request(call_id: &str, arguments: &str) -> ToolCallReq {
    ToolCallReq {
        request_id: Uuid::from_u128(1),
        call_id: call_id.into(),
        parent_id: Uuid::from_u128(2),
        vendor: "v".into(),
        tool_name: "Bash".into(),
        args_sha256: args_sha256(arguments),
        arguments_json: Some(arguments.into()),
        started_at: Validity::at(1),
    }
}

fn applied(privacy: &Privacy, record: impl Into<Record>) -> Record {
    let once = privacy.apply(record.into()).unwrap();
    let once = once.checked().unwrap();
    assert_eq!(privacy.apply(once.clone()).unwrap(), once);
    once
}

#[test]
fn a_key_with_a_token_is_the_same_placeholder_in_every_record() {
    let privacy = privacy(PrivacySettings::default());
    let ids = [token('4'), token('9'), token('4')].map(|id| {
        let Record::CallRequested(req) = applied(&privacy, request(&id, "{}")) else {
            panic!("another kind");
        };
        req.call_id
    });
    assert!(ids[0].starts_with("[REDACTED:github_token:"), "{}", ids[0]);
    assert_eq!(ids[0], ids[2]);
    assert_ne!(ids[0], ids[1]);
    let plain = request("password=kX9vbT2wq", "{}");
    assert_eq!(applied(&privacy, plain.clone()), plain.into());
}

#[test]
fn names_stay_short_enough() {
    let privacy = privacy(PrivacySettings::default());
    let mut req = request("c", "{}");
    req.tool_name = "pwd=kX9vbT2 ".repeat(85);
    assert!(req.tool_name.len() <= crate::record::NAME_BYTES_MAX);
    let Record::CallRequested(req) = applied(&privacy, req) else {
        panic!("another kind");
    };
    assert!(req.tool_name.starts_with("[CONTENT:len=1020,sha256="));
}

#[test]
fn content_that_is_not_kept_is_its_length_and_hash() {
    let privacy = privacy(PrivacySettings {
        store_content: false,
        ..PrivacySettings::default()
    });
    let entry = HistoryEntry::new(1, Role::User, "hello");
    let Record::History(entry) = applied(&privacy, entry) else {
        panic!("another kind");
    };
    let hash = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
    assert_eq!(entry.text, format!("[CONTENT:len=5,sha256={hash}]"));
}

#[test]
fn payloads_go_without_contents_going() {
    let privacy = privacy(PrivacySettings {
        store_payloads: false,
        ..PrivacySettings::default()
    });
    let Record::CallRequested(req) = applied(&privacy, request("c", "{}")) else {
        panic!("another kind");
    };
    assert!(
        req.arguments_json
            .unwrap()
            .starts_with("[CONTENT:len=2,sha256=")
    );
    let entry = HistoryEntry::new(1, Role::User, "hello");
    assert_eq!(applied(&privacy, entry.clone()), entry.into());
    // The content of a tool's message or turn is an outcome.
    for (role, is_kept) in [(Role::User, true), (Role::Tool, false)] {
        let message = ConversationMessage::new(Uuid::from_u128(1), role, "hello");
        let Record::Message(message) = applied(&privacy, message) else {
            panic!("another kind");
        };
        assert_eq!(message.content == "hello", is_kept, "{role:?}");
    }
    for (kind, is_kept) in [(TurnKind::User, true), (TurnKind::Tool, false)] {
        let turn = ConversationTurn {
            id: Uuid::from_u128(1),
            parent_id: None,
            message_id: Uuid::from_u128(2),
            thread_id: None,
            kind,
            created_at: Validity::at(1),
            content: "hello".to_owned(),
        };
        let Record::Turn(turn) = applied(&privacy, turn) else {
            panic!("another kind");
        };
        assert_eq!(turn.content == "hello", is_kept, "{kind:?}");
    }
}

#[test]
fn a_thought_whose_hash_would_not_be_true_is_refused() {
    let privacy = privacy(PrivacySettings::default());
    let mut thought = ThoughtRecord {
        id: "r1".into(),
        task_id: "t1".into(),
        prev_hash: String::new(),
        hash: String::new(),
        thought_type: ThoughtType::Plan,
        agent_id: "a1".into(),
        timestamp: Timestamp::now(),
        content: format!("use {}", token('4')),
    };
    let Record::Thought(redacted) = applied(&privacy, thought.clone()) else {
        panic!("another kind");
    };
    assert_eq!(redacted.content, "use [REDACTED:github_token:1]");
    thought.hash = thought.computed_hash();
    let e = privacy.apply(thought.into()).unwrap_err();
    assert_eq!(e.kind(), crate::ErrorKind::InvalidInput);
    assert!(e.to_string().contains("hash"), "{e}");
    let hash = redacted.computed_hash();
    let with_hash = ThoughtRecord { hash, ..redacted };
    assert_eq!(applied(&privacy, with_hash.clone()), with_hash.into());
}

#[test]
fn an_event_type_holds_no_secret() {
    let event = Event::new(None, format!("a.{}", token('4')));
    let e = privacy(PrivacySettings::default()).apply(event.into());
    assert_eq!(e.unwrap_err().kind(), crate::ErrorKind::InvalidInput);
}

#[test]
fn user_ids_are_hashed_under_a_key_of_their_own() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a/user_id.key");
    let at = |path: &std::path::Path| {
        privacy(PrivacySettings::default()).with_key(UserKey::at(Some(path.to_owned())))
    };
    let mut conversation = Conversation::new(Uuid::from_u128(1), Client::Cli);
    applied(&at(&path), conversation.clone());
    assert!(!path.exists(), "made before it is needed");
    conversation.user_id = Some("me".into());
    let e = at(&path).apply(conversation.clone().into()).unwrap_err();
    assert_eq!(e.kind(), crate::ErrorKind::UserIdKey);
    assert!(!path.exists(), "made unasked");
    at(&path).make_key().unwrap();
    let Record::Conversation(hashed) = applied(&at(&path), conversation) else {
        panic!("another kind");
    };
    let id = hashed.user_id.unwrap();
    assert_eq!(at(&path).user_id("me").unwrap(), id);
    assert_eq!(at(&path).user_id(&id).unwrap(), id);
    let other = dir.path().join("b");
    at(&other).make_key().unwrap();
    assert_ne!(at(&other).user_id("me").unwrap(), id);
    // Only the expected key is accepted.
    let found = at(&path).describe_key().unwrap().found;
    let expecting = |path: &std::path::Path| {
        privacy(PrivacySettings::default())
            .with_key(UserKey::at(Some(path.to_owned())).expecting(found.clone()))
    };
    assert_eq!(expecting(&path).user_id("me").unwrap(), id);
    let e = expecting(&other).user_id("me").unwrap_err();
    assert_eq!(e.kind(), crate::ErrorKind::UserIdKey);
    // Computed with Python's `hmac`.
    let known = dir.path().join("known");
    write_key(&known, &"0b".repeat(32));
    assert_eq!(
        at(&known).user_id("Hi There").unwrap(),
        "hmac:8b08af6b2a74a51f:198a607eb44bfbc69903a0f1cf2bbdc5ba0aa3f3d9ae3c1c7a3b1696a0b68cf7"
    );
    let fingerprint = at(&known).describe_key().unwrap().found;
    assert_eq!(fingerprint.as_deref(), Some("8b08af6b2a74a51f"));
    write_key(&path, &"xy".repeat(32));
    let e = at(&path).user_id("me").unwrap_err();
    assert!(e.to_string().contains("not a key"), "{e}");
}

fn write_key(path: &std::path::Path, text: &str) {
    std::fs::write(path, text).unwrap();
    #[cfg(unix)]
    std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
}

#[test]
#[cfg(unix)]
fn a_key_that_others_may_read_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a/user_id.key");
    let privacy = || privacy(PrivacySettings::default()).with_key(UserKey::at(Some(path.clone())));
    privacy().make_key().unwrap();
    let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
    assert_eq!(
        std::fs::read_dir(path.parent().unwrap()).unwrap().count(),
        1
    );
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
    let e = privacy().user_id("me").unwrap_err();
    assert!(e.to_string().contains("chmod 600"), "{e}");
}

#[test]
fn all_who_make_a_key_at_once_have_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("user_id.key");
    let ids: Vec<String> = std::thread::scope(|scope| {
        let path = &path;
        let one = || {
            let privacy = privacy(PrivacySettings::default());
            let privacy = privacy.with_key(UserKey::at(Some(path.clone())));
            privacy.make_key().unwrap();
            privacy.user_id("me").unwrap()
        };
        let all: Vec<_> = (0..16).map(|_| scope.spawn(one)).collect();
        all.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
}

/// One record of every kind, with a secret in each of its texts.
fn records_full_of(secret: &str) -> Vec<Record> {
    let id = Uuid::from_u128(1);
    let text = || secret.to_owned();
    let some = || Some(text());
    let json = || Some(serde_json::json!({ text(): text() }).to_string());
    let conversation = || Conversation {
        id,
        workspace: some(),
        project: some(),
        client: Client::Cli,
        user_id: some(),
        session_id: some(),
        parent_id: None,
        agent: some(),
        parent_call_id: some(),
        title: some(),
        status: ConversationStatus::Error,
        created_at: Timestamp::now(),
        updated_at: Timestamp::now(),
        last_error: some(),
    };
    let proposal = CodeEditProposal {
        commit_hash: some(),
        ..CodeEditProposal::new(id, json().unwrap(), 1)
    };
    let step = ProposalStep {
        commit_hash: some(),
        ..ProposalStep::new(id, ProposalStatus::Applied, 1)
    };
    let task = InboxTask {
        text: some(),
        error: some(),
        ..InboxTask::new(1, json())
    };
    vec![
        ConversationTurn {
            id,
            parent_id: None,
            message_id: id,
            thread_id: None,
            kind: TurnKind::User,
            created_at: Validity::at(1),
            content: text(),
        }
        .into(),
        ToolCallReq {
            request_id: id,
            call_id: text(),
            parent_id: id,
            vendor: text(),
            tool_name: text(),
            args_sha256: args_sha256(""),
            arguments_json: json(),
            started_at: Validity::at(1),
        }
        .into(),
        ToolCallDone {
            request_id: id,
            call_id: text(),
            ended_at: Validity::at(1),
            latency_ms: 1,
            outcome_json: json(),
            error_kind: some(),
            error_msg: some(),
            status: ToolStatus::Failed,
        }
        .into(),
        proposal.into(),
        step.into(),
        conversation().into(),
        Record::ConversationUpdated(conversation()),
        message_full_of(secret).into(),
        Event {
            payload: json(),
            ..Event::new(None, "a.b")
        }
        .into(),
        task.into(),
        InboxStep {
            id: 1,
            status: TaskStatus::Failed,
            at: 1,
            attempt: 1,
            error: some(),
        }
        .into(),
        HistoryEntry::new(1, Role::User, secret).into(),
        ThoughtRecord {
            id: text(),
            task_id: text(),
            prev_hash: String::new(),
            hash: String::new(),
            thought_type: ThoughtType::Plan,
            agent_id: text(),
            timestamp: Timestamp::now(),
            content: text(),
        }
        .into(),
        rollup_full_of(secret).into(),
    ]
}

fn rollup_full_of(secret: &str) -> Rollup {
    let sums = || MessageSums {
        errors_by_type: [(secret.to_owned(), 1)].into(),
        ..MessageSums::default()
    };
    let tally = Tally {
        all: sums(),
        others: sums(),
        ..Tally::default()
    };
    let group = [(); 4].map(|()| Some(secret.to_owned()));
    Rollup::of(Day::of(1).unwrap(), group, 1, tally)
}

fn message_full_of(secret: &str) -> ConversationMessage {
    let some = || Some(secret.to_owned());
    let json = || Some(serde_json::json!([secret]).to_string());
    ConversationMessage {
        id: Uuid::from_u128(1),
        conversation_id: Uuid::from_u128(1),
        sequence: None,
        timestamp: Timestamp::now(),
        role: Role::User,
        source: Source::ALL[0],
        content_type: ContentType::Text,
        model_used: some(),
        config_used: some(),
        orchestration_mode: some(),
        task_type: some(),
        git_branch: some(),
        tokens_in: None,
        tokens_out: None,
        tokens_cache_write: None,
        tokens_cache_write_1h: None,
        tokens_cache_read: None,
        tokens_reasoning: None,
        latency_ms: None,
        context_utilization: None,
        cost_usd: None,
        handoff_steps: None,
        compression_applied: None,
        error_type: some(),
        error: some(),
        tool_name: some(),
        tool_call_id: some(),
        models_in_chain: Some(vec![secret.to_owned()]),
        part_of: None,
        content: secret.to_owned(),
        reasoning: some(),
        tool_args: json(),
        tool_result: some(),
        inference_metadata: json(),
    }
}

#[test]
fn no_text_of_any_record_is_passed_over() {
    let dir = tempfile::tempdir().unwrap();
    let key = Some(dir.path().join("user_id.key"));
    let privacy = privacy(PrivacySettings::default()).with_key(UserKey::at(key));
    privacy.make_key().unwrap();
    let token = token('4');
    for record in records_full_of(&token) {
        assert!(format!("{record:?}").contains(&token));
        let kept = format!("{:?}", privacy.apply(record).unwrap());
        assert!(!kept.contains(&token), "{kept}");
    }
}
