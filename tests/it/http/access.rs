//! Authorization: roles, tokens and browsers.

use std::io::{Read, Write};
use std::process::Command;
use std::time::{Duration, Instant};

use decklog::http::{Options, Server};
use decklog::privacy::AccessRole;
use decklog::{ErrorKind, Store, Timestamp};
use serde_json::{Value, json};

use super::Service;
use super::client::{Answer, Client};
use super::process::Process;
use crate::support::still;

use AccessRole::{Admin, Developer, ReadOnly};

const EVERYONE: [AccessRole; 3] = [ReadOnly, Developer, Admin];

impl Service {
    /// A service that requires a token, and accepts all roles.
    pub(super) fn asking() -> Service {
        let service = Service::start();
        service.ask();
        service
    }

    pub(super) fn ask(&self) {
        let asked = self.store.change_settings(|settings| {
            settings.privacy.require_auth = true;
            settings.privacy.allowed_roles = EVERYONE.to_vec();
        });
        asked.unwrap();
    }

    pub(super) fn token(&self, role: AccessRole) -> String {
        let name = format!("test {}", uuid::Uuid::new_v4());
        let (secret, _) = self.store.add_token(&name, role, None).unwrap();
        secret.as_str().to_owned()
    }

    pub(super) fn with_token(&self, token: &str) -> Client {
        self.client()
            .with("Authorization", &format!("Bearer {token}"))
    }

    /// Every method and path in the description, with ids in the paths, and those not described.
    pub(super) fn operations(&self) -> Vec<(String, String)> {
        let described = self.client().get("/openapi.json").expect(200);
        let mut operations = Vec::new();
        for (path, item) in described["paths"].as_object().unwrap() {
            let parts = path.split('/').map(|part| match part.strip_prefix('{') {
                Some(_) => "00000000-0000-4000-8000-000000000001",
                None => part,
            });
            let path = parts.collect::<Vec<_>>().join("/");
            for method in item.as_object().unwrap().keys() {
                let method = method.to_ascii_uppercase();
                if ["GET", "POST", "PUT", "PATCH", "DELETE"].contains(&&*method) {
                    operations.push((method, path.clone()));
                }
            }
        }
        assert!(operations.len() > 8, "{operations:?}");
        let gets = operations.iter().filter(|(method, _)| method == "GET");
        let heads: Vec<_> = gets
            .map(|(_, path)| ("HEAD".to_owned(), path.clone()))
            .collect();
        operations.extend(heads);
        for (method, path) in [
            ("GET", "/openapi.json"),
            ("GET", "/"),
            ("GET", "/nothing"),
            ("PUT", "/conversations"),
            ("DELETE", "/nothing"),
            ("POST", "/nothing"),
            ("OPTIONS", "/conversations"),
            ("TRACE", "/conversations"),
        ] {
            operations.push((method.to_owned(), path.to_owned()));
        }
        operations
    }
}

/// Reads only the status, since some answers have no end.
pub(super) fn status(client: &Client, method: &str, path: &str) -> u16 {
    let mut stream = client.connect();
    let head = client.head(method, path, b"");
    stream.write_all(head.as_bytes()).unwrap();
    let mut start = [0; 12];
    stream.read_exact(&mut start).unwrap();
    let start = std::str::from_utf8(&start).unwrap();
    start.strip_prefix("HTTP/1.1 ").unwrap().parse().unwrap()
}

/// The minimum role according to the documentation.
fn least(method: &str, path: &str) -> Option<AccessRole> {
    match (method, path) {
        (_, "/healthz" | "/readyz" | "/openapi.json" | "/login") => None,
        ("GET" | "HEAD" | "OPTIONS", _) => Some(ReadOnly),
        ("POST" | "PATCH", _) => Some(Developer),
        _ => Some(Admin),
    }
}

#[test]
fn each_role_may_do_what_it_may_on_every_route() {
    let service = Service::asking();
    let operations = service.operations();
    let tokens = EVERYONE.map(|role| (role, service.with_token(&service.token(role))));
    let made_up = format!("dl_{}", "5".repeat(64));
    let strangers = [
        service.client(),
        service.with_token(&made_up),
        service.with_token(""),
        service.client().with("Authorization", "Basic dXNlcjpwYXNz"),
        service
            .client()
            .with("Cookie", &format!("decklog_session={made_up}")),
    ];
    for (method, path) in &operations {
        let needed = least(method, path);
        for (role, client) in &tokens {
            let found = status(client, method, path);
            let shown = format!("{method} {path} as {role}: {found}");
            if needed.is_none_or(|needed| *role >= needed) {
                assert!(found != 401 && found != 403 && found < 500, "{shown}");
            } else {
                assert_eq!(found, 403, "{shown}");
            }
        }
        for stranger in &strangers {
            let found = status(stranger, method, path);
            let is_refused = found == 401;
            assert_eq!(is_refused, needed.is_some(), "{method} {path}: {found}");
        }
    }
}

#[test]
fn nobody_is_asked_for_anything_unless_the_settings_say_so() {
    let service = Service::start();
    for (method, path) in service.operations() {
        let found = status(&service.client(), &method, &path);
        assert!(
            found != 401 && found != 403 && found < 500,
            "{method} {path}: {found}"
        );
    }
    service.ask();
    service
        .client()
        .get("/conversations")
        .expect_problem(401, "unauthorized", None);
    let change = service
        .store
        .change_settings(|it| it.privacy.require_auth = false);
    change.unwrap();
    service.client().get("/conversations").expect(200);
}

#[test]
fn a_role_that_is_not_let_in_may_do_nothing() {
    let service = Service::asking();
    let clients = EVERYONE.map(|role| service.with_token(&service.token(role)));
    let allow = |roles: &[AccessRole]| {
        let change =
            |settings: &mut decklog::Settings| settings.privacy.allowed_roles = roles.to_vec();
        service.store.change_settings(change).unwrap();
        clients
            .each_ref()
            .map(|client| client.get("/conversations").status)
    };
    assert_eq!(allow(&EVERYONE), [200, 200, 200]);
    // The default.
    assert_eq!(allow(&[Admin, Developer]), [403, 200, 200]);
    assert_eq!(allow(&[Admin]), [403, 403, 200]);
    assert_eq!(allow(&[ReadOnly]), [200, 403, 403]);
}

#[test]
fn a_refusal_says_what_to_show_and_repeats_nothing() {
    let service = Service::asking();
    let token = service.token(ReadOnly);
    let made_up = format!("dl_{}", "5".repeat(64));
    let answer = service.client().get("/conversations");
    answer.expect_problem(401, "unauthorized", None);
    assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
    let answer = service.with_token(&made_up).get("/conversations");
    answer.expect_problem(401, "unauthorized", None);
    assert!(!answer.text().contains(&made_up));
    let answer = service.with_token(&token).delete("/conversations/x");
    answer.expect_problem(403, "forbidden", None);
    assert!(!answer.text().contains(&token));
    assert_eq!(answer.header("www-authenticate"), None);
    let reader = service.with_token(&token);
    let answer = reader.patch("/conversations/x", &json!({"status": "completed"}));
    answer.expect_problem(403, "forbidden", None);
}

#[test]
fn a_token_that_was_revoked_or_expired_is_refused_at_once() {
    let service = Service::asking();
    for _ in 0..20 {
        let (secret, info) = service.store.add_token("it", Admin, None).unwrap();
        let client = service.with_token(secret.as_str());
        client.get("/conversations").expect(200);
        service.store.revoke_token(&info.id).unwrap();
        client
            .get("/conversations")
            .expect_problem(401, "unauthorized", None);
    }
    let (secret, info) = service.store.add_token("it", Admin, None).unwrap();
    let client = service.with_token(secret.as_str());
    client.get("/conversations").expect(200);
    let path = service.store.path().join("access.json");
    let mut file: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    let entries = file["entries"].as_array_mut().unwrap();
    let entry = entries
        .iter_mut()
        .find(|entry| entry["id"] == *info.id)
        .unwrap();
    entry["expires_at"] = json!(info.created_at);
    // As another program would write it: in place.
    std::fs::write(&path, file.to_string()).unwrap();
    client
        .get("/conversations")
        .expect_problem(401, "unauthorized", None);
}

/// Bug: an open stream continued for as long as its client liked.
#[test]
fn a_stream_ends_when_its_token_is_revoked() {
    let service = Service::asking();
    let (secret, info) = service.store.add_token("it", Admin, None).unwrap();
    let client = service.with_token(secret.as_str());
    let mut stream = client.connect();
    let head = client.head("GET", "/stream?last_event_id=0", b"");
    stream.write_all(head.as_bytes()).unwrap();
    service.store.log_event(None, "told.once", None).unwrap();
    let mut told = String::new();
    while !told.contains("told.once") {
        let mut part = [0; 4_096];
        let len = stream.read(&mut part).unwrap();
        assert_ne!(len, 0, "{told}");
        told.push_str(std::str::from_utf8(&part[..len]).unwrap());
    }
    service.store.revoke_token(&info.id).unwrap();
    service.store.log_event(None, "told.twice", None).unwrap();
    stream.read_to_string(&mut told).unwrap();
    assert!(!told.contains("told.twice"), "{told}");
}

#[test]
fn where_the_file_is_gone_or_does_not_read_nobody_gets_in() {
    let service = Service::asking();
    let client = service.with_token(&service.token(Admin));
    client.get("/conversations").expect(200);
    let path = service.store.path().join("access.json");
    let whole = std::fs::read(&path).unwrap();
    for text in [&b"{}"[..], b"", &whole[..whole.len() / 2]] {
        std::fs::write(&path, text).unwrap();
        let answer = client.get("/conversations");
        answer.expect_problem(500, "damaged", None);
        assert!(!answer.text().contains("access.json"), "{}", answer.text());
        client.get("/healthz").expect(200);
    }
    std::fs::remove_file(&path).unwrap();
    client
        .get("/conversations")
        .expect_problem(401, "unauthorized", None);
    std::fs::write(&path, &whole).unwrap();
    client.get("/conversations").expect(200);
    // With unreadable settings, a token is required if the previous settings required one, and the
    // request then fails.
    let manifest = service.store.path().join("decklog.json");
    let whole = std::fs::read(&manifest).unwrap();
    std::fs::write(&manifest, "{").unwrap();
    for unknown in [service.client(), service.with_token("dl_unknown")] {
        let answer = unknown.get("/conversations");
        answer.expect_problem(401, "unauthorized", None);
    }
    client
        .get("/conversations")
        .expect_problem(500, "damaged", None);
    assert_eq!(client.get("/readyz").expect(503)["ready"], false);
    std::fs::write(&manifest, whole).unwrap();
}

pub(super) fn cookie_of(answer: &Answer) -> String {
    let cookie = answer.header("set-cookie").unwrap();
    let (pair, rest) = cookie.split_once("; ").unwrap();
    assert_eq!(rest, "Max-Age=2592000; Path=/; HttpOnly; SameSite=Strict");
    assert!(pair.starts_with("decklog_session=dl_"), "{pair}");
    pair.to_owned()
}

#[test]
fn a_browser_logs_in_once_by_its_address() {
    let service = Service::asking();
    let login = |code: &str| service.client().get(&format!("/login?code={code}"));
    let (code, _) = service.store.add_login_code(Developer).unwrap();
    let code = code.as_str();
    for (path, status, problem) in [
        ("/login".to_owned(), 400, "bad_request"),
        ("/login?".to_owned(), 400, "bad_request"),
        ("/login?xcode=1".to_owned(), 400, "bad_request"),
        ("/login?code=".to_owned(), 403, "bad_code"),
        (format!("/login?code={}", &code[..66]), 403, "bad_code"),
        (format!("/login?code={code}0"), 403, "bad_code"),
        (
            format!("/login?code={}", service.token(Admin)),
            403,
            "bad_code",
        ),
    ] {
        let answer = service.client().get(&path);
        answer.expect_problem(status, problem, Some("code"));
        assert_eq!(answer.header("set-cookie"), None);
    }
    // A link preview does not use up the code.
    assert_eq!(
        service
            .client()
            .send("HEAD", &format!("/login?code={code}"), b"")
            .status,
        405
    );
    assert_eq!(
        service
            .client()
            .post(&format!("/login?code={code}"), &json!({}))
            .status,
        405
    );
    let answer = login(code);
    assert_eq!((answer.status, answer.header("location")), (303, Some("/")));
    assert_eq!(answer.header("referrer-policy"), Some("no-referrer"));
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    let cookie = cookie_of(&answer);
    let again = login(code);
    again.expect_problem(403, "bad_code", Some("code"));
    assert!(!again.text().contains(code));

    let browser = service.client().with("Cookie", &cookie);
    browser.get("/conversations").expect(200);
    browser
        .post("/conversations", &json!({"client": "web"}))
        .expect(201);
    assert_eq!(browser.delete("/conversations/x").status, 403);
    // Tokens and sessions are not interchangeable.
    let session = cookie.strip_prefix("decklog_session=").unwrap();
    assert_eq!(
        service.with_token(session).get("/conversations").status,
        401
    );
    let swapped = format!("decklog_session={}", service.token(Admin));
    let swapped = service.client().with("Cookie", &swapped);
    assert_eq!(swapped.get("/conversations").status, 401);
    // The bearer token takes precedence.
    let wrong = browser.with("Authorization", "Bearer dl_no");
    assert_eq!(wrong.get("/conversations").status, 401);

    let sessions = service.store.tokens().unwrap();
    let session = sessions
        .iter()
        .find(|it| it.kind == decklog::access::TokenKind::Session)
        .unwrap();
    service.store.revoke_token(&session.id).unwrap();
    assert_eq!(browser.get("/conversations").status, 401);
}

#[test]
fn what_other_machines_reach_is_not_served_without_a_token() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let open = || still().open(&path).unwrap();
    let bind = |store: Store, options: &Options| {
        Server::bind(store, "0.0.0.0:0".parse().unwrap(), options)
    };
    let e = bind(open(), &Options::default()).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::InvalidInput);
    assert!(e.to_string().contains("privacy.require_auth"), "{e}");
    for (hosts, origins, told) in [
        (&["http://localhost"][..], &[][..], "is not a host"),
        (&["log.example:80"], &[], "is not a host"),
        (&[], &["log.example"], "is not an origin"),
        (&[], &["*"], "is not an origin"),
        (&[], &["null"], "is not an origin"),
    ] {
        let mut options = Options::default();
        options.allow_hosts = hosts.iter().map(|&it| it.to_owned()).collect();
        options.allow_origins = origins.iter().map(|&it: &&str| it.to_owned()).collect();
        let e = Server::bind(open(), "127.0.0.1:0".parse().unwrap(), &options).unwrap_err();
        assert!(e.to_string().contains(told), "{e}");
    }

    open()
        .change_settings(|it| it.privacy.require_auth = true)
        .unwrap();
    let server = bind(open(), &Options::default()).unwrap();
    let client = Client::new(([127, 0, 0, 1], server.local_addr().port()).into());
    let stop = server.stop_handle();
    let thread = std::thread::spawn(move || server.run());
    client
        .get("/conversations")
        .expect_problem(401, "unauthorized", None);
    // Disabling the requirement while this server runs does not remove it.
    open()
        .change_settings(|it| it.privacy.require_auth = false)
        .unwrap();
    client
        .get("/conversations")
        .expect_problem(401, "unauthorized", None);
    stop.stop();
    thread.join().unwrap().unwrap();
}

#[test]
fn the_description_says_where_a_token_may_be_asked_for() {
    let service = Service::start();
    let described = service.client().get("/openapi.json").expect(200);
    let schemes = &described["components"]["securitySchemes"];
    assert_eq!(schemes["bearer"]["scheme"], "bearer");
    assert_eq!(schemes["session"]["name"], "decklog_session");
    assert_eq!(
        described["security"],
        json!([{}, {"bearer": []}, {"session": []}])
    );
    for (path, item) in described["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let is_open = operation.get("security") == Some(&json!([]));
            let expected = least(&method.to_ascii_uppercase(), path).is_none();
            assert_eq!(is_open, expected, "{method} {path}");
        }
    }
}

fn until_listening(store: &Store) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while store.service_url().is_none() {
        assert!(Instant::now() < deadline, "no address is noted");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The operator's view of tokens: the last use of each, and the login address.
#[test]
fn a_service_notes_where_it_listens_and_when_tokens_were_used() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let store = Store::open(&path).unwrap();
    let asked = store.change_settings(|settings| settings.privacy.require_auth = true);
    asked.unwrap();
    let (used, _) = store.add_token("used", Developer, None).unwrap();
    store.add_token("unused", Developer, None).unwrap();
    let login = |is_running: bool| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_decklog"));
        let login = command.args(["token", "login", "--store"]).arg(&path);
        let output = login.output().unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!(told.contains("no service runs"), !is_running, "{told}");
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(login(false).starts_with("http://127.0.0.1:8084/login?code=dl_"));
    let service = Process::start(&path, 0);
    let url = format!("http://{}", service.addr);
    until_listening(&store);
    assert_eq!(store.service_url().as_deref(), Some(&*url));
    assert!(login(true).starts_with(&format!("{url}/login?code=dl_")));
    let client = service.client();
    let client = client.with("Authorization", &format!("Bearer {}", used.as_str()));
    let before = Timestamp::now().at();
    assert_eq!(client.get("/conversations").status, 200);
    service.end();
    assert_eq!(store.service_url(), None);
    let last_used = |name: &str| {
        let tokens = store.tokens().unwrap();
        let token = tokens.iter().find(|it| it.name == name).unwrap();
        token.last_used_at
    };
    assert!(last_used("used").is_some_and(|at| (before..=before + 60_000).contains(&at)));
    assert_eq!(last_used("unused"), None);
    // A killed service could not remove its address.
    let mut service = Process::start(&path, 0);
    until_listening(&store);
    service.kill();
    assert!(login(false).starts_with("http://127.0.0.1:8084/login"));
    // A damaged file is recreated, and affects no token.
    std::fs::write(path.join("cache/service.json"), b"{\"last_used\": 3").unwrap();
    assert_eq!(last_used("used"), None);
    let service = Process::start(&path, 0);
    until_listening(&store);
    service.end();
    assert_eq!(store.service_url(), None);
}
