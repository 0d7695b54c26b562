//! The corpus: planted secrets are found, what only looks like one is left alone.

use serde::Deserialize;

use super::redact::{Numbers, Redactor};
use super::*;

#[derive(Deserialize)]
struct Planted {
    r#type: String,
    /// In parts, so that no scanner of a hosting service takes it for a real one.
    text: Vec<String>,
    secret: Vec<String>,
}

#[derive(Deserialize)]
struct Innocent {
    text: String,
}

fn corpus<T: serde::de::DeserializeOwned>(file: &str) -> Vec<T> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/privacy/");
    let text = std::fs::read_to_string(format!("{path}{file}")).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn redactor(settings: &PrivacySettings) -> Redactor {
    Redactor::new(settings).unwrap()
}

#[test]
fn planted_secrets_are_found() {
    let redactor = redactor(&PrivacySettings::default());
    let planted: Vec<Planted> = corpus("secrets.jsonl");
    assert!(planted.len() >= 400, "{}", planted.len());
    let mut missed = 0;
    for one in &planted {
        let (text, secret) = (one.text.concat(), one.secret.concat());
        let redacted = redactor.redacted(&text, &mut Numbers::default());
        let kept = redacted.unwrap_or_else(|| text.clone());
        // Some hide their first letters behind escapes.
        if kept.contains(&secret) || kept.contains(&secret[4..]) {
            missed += 1;
            println!("missed {}: {text:?}", one.r#type);
        }
    }
    let caught = planted.len() - missed;
    println!("caught {caught} of {}", planted.len());
    assert!(caught * 100 >= planted.len() * 99);
}

#[test]
fn what_only_looks_like_a_secret_is_left_alone() {
    let redactor = redactor(&PrivacySettings::default());
    let innocent: Vec<Innocent> = corpus("innocent.jsonl");
    assert!(innocent.len() >= 2_500, "{}", innocent.len());
    let mut changed = 0;
    for Innocent { text } in &innocent {
        if let Some(redacted) = redactor.redacted(text, &mut Numbers::default()) {
            changed += 1;
            println!("changed {text:?} to {redacted:?}");
        }
    }
    println!("changed {changed} of {}", innocent.len());
    assert!(changed * 1_000 <= innocent.len());
}

fn kept(settings: &PrivacySettings, text: &str) -> String {
    let redacted = redactor(settings).redacted(text, &mut Numbers::default());
    redacted.unwrap_or_else(|| text.to_owned())
}

fn defaults(text: &str) -> String {
    kept(&PrivacySettings::default(), text)
}

fn with_pii() -> PrivacySettings {
    PrivacySettings {
        redact_pii: true,
        ..PrivacySettings::default()
    }
}

/// A token of GitHub's form that no one has.
fn token(digit: char) -> String {
    format!("ghp_{}Zq8Lw3Xc5Vb7", format!("{digit}kR").repeat(8))
}

#[test]
fn the_same_secret_has_the_same_number() {
    let (one, two) = (token('4'), token('9'));
    assert_eq!(
        defaults(&format!("{one}, {two} and {one}")),
        "[REDACTED:github_token:1], [REDACTED:github_token:2] and [REDACTED:github_token:1]"
    );
}

#[test]
fn json_is_kept_to_the_byte_but_for_strings_with_secrets() {
    let token = token('4');
    let escaped: String = token.replacen("gh", "\\u0067\\u0068", 1);
    let json = format!(r#"{{ "a" : [1.0,"\u00e9", "{escaped}"],"{token}":"b\/c" }}"#);
    assert_eq!(
        defaults(&json),
        r#"{ "a" : [1.0,"\u00e9", "[REDACTED:github_token:1]"],"[REDACTED:github_token:1]":"b\/c" }"#
    );
    let nested = r#"{"arguments":"{\"password\":\"kX9!\\\"vbT2\",\"user\":\"joe\"}"}"#;
    let expected = r#"{"arguments":"{\"password\":\"[REDACTED:password:1]\",\"user\":\"joe\"}"}"#;
    assert_eq!(defaults(nested), expected);
}

#[test]
fn persons_are_found_only_where_that_is_asked_for() {
    for (text, expected) in [
        ("mail bob.b+x@mail.example.org.", "mail [REDACTED:email:1]."),
        (
            "card 4111 1111 1111 1111, cvc",
            "card [REDACTED:card_number:1], cvc",
        ),
        ("card 378282246310005", "card [REDACTED:card_number:1]"),
        ("5555-5555-5555-4444", "[REDACTED:card_number:1]"),
        (
            "IBAN DE89 3704 0044 0532 0130 00!",
            "IBAN [REDACTED:iban:1]!",
        ),
        ("GB82WEST12345698765432", "[REDACTED:iban:1]"),
        ("call +49 30 901820 now", "call [REDACTED:phone:1] now"),
        ("+14155552671", "[REDACTED:phone:1]"),
        ("(415) 555-2671", "[REDACTED:phone:1]"),
        ("415-555-2671", "[REDACTED:phone:1]"),
        ("phone: 030 901820", "phone: [REDACTED:phone:1]"),
    ] {
        assert_eq!(defaults(text), text);
        assert_eq!(kept(&with_pii(), text), expected);
    }
    for text in [
        "4111 1111 1111 1112",
        "DE88370400440532013000",
        "git@github.com:a/b.git",
        "https://user@host.com/x",
        "icon@2x.png",
        "pkg@1.2.3",
        "@app.route",
        "192.168.100.1234",
        "2025-12-27T10:40:00+02:00",
        "1766832000123",
        "67e55044-10b1-426f-9247-bb680e5fe001",
        "a 1 + 23456789 b",
        "v1.2.3+20251227",
        "10.0.0.1:8080",
    ] {
        assert_eq!(kept(&with_pii(), text), text);
    }
}

#[test]
fn persons_are_not_seen_in_what_only_looks_like_it() {
    // The corpus has numbers of every sort; addresses of persons are few, and named here.
    let redactor = redactor(&with_pii());
    let innocent: Vec<Innocent> = corpus("innocent.jsonl");
    let mut changed = 0;
    for Innocent { text } in &innocent {
        let found = redactor.redacted(text, &mut Numbers::default());
        // Whatever has an `@` may hold an address.
        if let Some(redacted) = found.filter(|_| !text.contains('@')) {
            changed += 1;
            println!("changed {text:?} to {redacted:?}");
        }
    }
    println!("changed {changed} of {}", innocent.len());
    assert!(changed * 1_000 <= innocent.len());
}

#[test]
fn patterns_of_ones_own_are_checked_and_found() {
    let with = |name: &str, regex: &str| PrivacySettings {
        patterns: vec![Pattern {
            name: name.into(),
            regex: regex.into(),
        }],
        ..PrivacySettings::default()
    };
    let settings = with("ticket", r"TICKET-\d+|\w*");
    assert_eq!(
        kept(&with("ticket", r"TICKET-\d+"), "see TICKET-12"),
        "see [REDACTED:ticket:1]"
    );
    let once = kept(&settings, "see TICKET-12");
    assert_eq!(kept(&settings, &once), once);
    for (name, regex, what) in [
        ("a", "(", "pattern a"),
        ("A", "a", "\"A\""),
        ("", "a", "\"\""),
    ] {
        let e = Privacy::new(with(name, regex)).unwrap_err();
        assert_eq!(e.kind(), crate::ErrorKind::InvalidInput);
        assert!(e.to_string().contains(what), "{e}");
    }
}

mod records {
    use uuid::Uuid;

    use super::*;
    use crate::record::{
        Client, Conversation, Event, HistoryEntry, Role, ThoughtRecord, ThoughtType, Timestamp,
        ToolCallReq, Validity, args_sha256,
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
        assert_eq!(entry.content, format!("[CONTENT:len=5,sha256={hash}]"));
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
            privacy(PrivacySettings::default()).with_key_at(Some(path.to_owned()))
        };
        let mut conversation = Conversation::new(Uuid::from_u128(1), Client::Cli);
        applied(&at(&path), conversation.clone());
        assert!(!path.exists(), "made before it is needed");
        conversation.user_id = Some("me".into());
        let Record::Conversation(hashed) = applied(&at(&path), conversation) else {
            panic!("another kind");
        };
        let id = hashed.user_id.unwrap();
        assert_eq!(at(&path).user_id("me").unwrap(), id);
        assert_eq!(at(&path).user_id(&id).unwrap(), id);
        assert_ne!(at(&dir.path().join("b")).user_id("me").unwrap(), id);
        // As Python's `hmac` computes it.
        let known = dir.path().join("known");
        write_key(&known, &"0b".repeat(32));
        assert_eq!(
            at(&known).user_id("Hi There").unwrap(),
            "hmac:198a607eb44bfbc69903a0f1cf2bbdc5ba0aa3f3d9ae3c1c7a3b1696a0b68cf7"
        );
        write_key(&path, &"xy".repeat(32));
        let e = at(&path).user_id("me").unwrap_err();
        assert!(e.to_string().contains("no key"), "{e}");
    }

    fn write_key(path: &std::path::Path, text: &str) {
        std::fs::write(path, text).unwrap();
        #[cfg(unix)]
        std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o600))
            .unwrap();
    }

    #[test]
    #[cfg(unix)]
    fn a_key_that_others_may_read_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/user_id.key");
        let privacy = || privacy(PrivacySettings::default()).with_key_at(Some(path.clone()));
        privacy().user_id("me").unwrap();
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
                privacy
                    .with_key_at(Some(path.clone()))
                    .user_id("me")
                    .unwrap()
            };
            let all: Vec<_> = (0..16).map(|_| scope.spawn(one)).collect();
            all.into_iter().map(|one| one.join().unwrap()).collect()
        });
        assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    }
}

mod properties {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;
    use crate::privacy::context::Place;
    use crate::privacy::rules::{RUNS, TOKENS, WORDS};
    use crate::privacy::scan::Scanner;

    /// Texts with secrets, beginnings of secrets, and what may stand around them.
    fn texts() -> impl Strategy<Value = String> {
        let planted: Vec<Planted> = corpus("secrets.jsonl");
        let planted: Vec<String> = planted.iter().map(|one| one.text.concat()).collect();
        let piece = prop_oneof![
            4 => prop::sample::select(planted),
            2 => "[ -~é\n\u{1F600}]{0,20}",
            1 => r#"[\\"':=,{}\[\] nu0-9a-f]{0,8}"#,
            1 => prop::sample::select(vec!["password=", "\"token\": \"", "://a:", "@b ", "[REDACTED:", ":1]", "Bearer ", "sk-", "\\u0067hp_", "-----BEGIN PRIVATE KEY-----", "-----END "]).prop_map(str::to_owned),
            1 => "[0-9 +@.-]{0,24}",
        ];
        let cut =
            (piece, any::<prop::sample::Index>(), any::<bool>()).prop_map(|(text, at, whole)| {
                let len = text.chars().count();
                let kept = if whole || len == 0 {
                    len
                } else {
                    at.index(len)
                };
                text.chars().take(kept).collect::<String>()
            });
        proptest::collection::vec(cut, 0..5).prop_map(|pieces| pieces.concat())
    }

    fn json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<i64>().prop_map(Value::from),
            texts().prop_map(Value::from),
            texts().prop_map(|text| Value::from(Value::from(text).to_string())),
        ];
        let name = prop_oneof![
            "[a-z]{1,6}",
            Just("password".to_owned()),
            Just("api_key".to_owned()),
            Just("Authorization".to_owned()),
            Just("value".to_owned()),
            texts()
        ];
        leaf.prop_recursive(3, 12, 4, move |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                proptest::collection::vec((name.clone(), inner), 0..4)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    fn without_strings(value: &Value) -> Value {
        match value {
            Value::String(_) => Value::from(""),
            Value::Array(items) => items.iter().map(without_strings).collect(),
            Value::Object(members) => {
                // By another name, a member may stand elsewhere.
                let mut values: Vec<Value> = members.values().map(without_strings).collect();
                values.sort_by_key(Value::to_string);
                Value::from(values)
            }
            other => other.clone(),
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1_500))]

        #[test]
        fn what_was_redacted_stays_as_it_is(text in texts(), pii in any::<bool>()) {
            let redactor = redactor(&PrivacySettings { redact_pii: pii, ..PrivacySettings::default() });
            if let Some(once) = redactor.redacted(&text, &mut Numbers::default()) {
                prop_assert_ne!(&once, &text);
                prop_assert_eq!(redactor.redacted(&once, &mut Numbers::default()), None, "{}", once);
            }
        }

        #[test]
        fn json_stays_json(value in json()) {
            let redactor = redactor(&PrivacySettings::default());
            let text = value.to_string();
            if let Some(once) = redactor.redacted(&text, &mut Numbers::default()) {
                let now: Value = serde_json::from_str(&once).unwrap();
                prop_assert_eq!(without_strings(&now), without_strings(&value));
                prop_assert_eq!(redactor.redacted(&once, &mut Numbers::default()), None, "{}", once);
            }
        }

        /// What is not decoded is not missed for it.
        #[test]
        fn the_quick_look_at_json_misses_nothing(value in json(), pii in any::<bool>()) {
            let settings = PrivacySettings { redact_pii: pii, ..PrivacySettings::default() };
            let scanner = Scanner::new(&settings).unwrap();
            let text = value.to_string();
            if !scanner.may_find(&text) {
                let mut any = false;
                let mut look = |name: Option<&str>, text: &str| {
                    any |= !scanner.findings(name, text).is_empty();
                    None
                };
                crate::privacy::json::rewrite(&text, &mut look).unwrap();
                prop_assert!(!any, "{}", text);
            }
        }

        /// Every rule, asked everywhere, finds nothing that the scanner does not.
        #[test]
        fn the_prefilter_passes_over_nothing(text in texts()) {
            let bytes = text.as_bytes();
            let scanner = Scanner::new(&PrivacySettings::default()).unwrap();
            let findings = scanner.findings(None, &text);
            let hidden = text.contains(PLACEHOLDER);
            for at in 0..bytes.len() {
                let tokens = TOKENS.iter().filter_map(|token| token.found(bytes, at));
                let contexts = RUNS.iter().chain(WORDS).filter_map(|context| {
                    let anchor = context.anchors.iter().find(|anchor| bytes[at..].starts_with(anchor.as_bytes()))?;
                    (context.found)(&Place { text: bytes, at, after: at + anchor.len(), is_raw: false })
                });
                for found in tokens.chain(contexts) {
                    let is_in = findings.iter().any(|f| f.start <= found.start && found.end <= f.end);
                    prop_assert!(is_in || hidden, "{:?} in {:?}", found, text);
                }
            }
        }
    }
}
