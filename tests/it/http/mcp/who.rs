//! Authorization of MCP requests.

use std::time::{Duration, Instant};

use decklog::http::Options;
use decklog::privacy::AccessRole;
use serde_json::{Value, json};

use super::long::open_call;
use super::slow::{Slow, slow_call};
use super::{Open, Service, begun, called, messages, session, speaking, stateless, thought};

#[test]
fn whom_the_guard_turns_away_reaches_nothing() {
    let mut options = Options::default();
    options.allow_origins = vec!["https://app.example".to_owned()];
    let service = Service::with(&options);
    let client = service.client();
    let other = begun(&client.with("Host", "evil.example"));
    other.expect_problem(421, "misdirected", Some("Host"));
    let other = begun(&client.with("Origin", "http://evil.example"));
    other.expect_problem(403, "cross_site", Some("Origin"));
    let here = format!("http://{}", service.addr);
    assert_eq!(begun(&client.with("Origin", &here)).status, 200);

    let allowed = client.with("Origin", "https://app.example");
    let asked = allowed
        .with("Access-Control-Request-Method", "POST")
        .send("OPTIONS", "/mcp", b"");
    assert_eq!(asked.status, 204);
    let headers = asked.header("access-control-allow-headers").unwrap();
    for name in [
        "mcp-session-id",
        "mcp-protocol-version",
        "mcp-method",
        "mcp-name",
    ] {
        assert!(
            headers.split(", ").any(|it| it == name),
            "{name}: {headers}"
        );
    }
    let answer = begun(&allowed);
    let exposed = answer.header("access-control-expose-headers").unwrap();
    assert!(exposed.contains("mcp-session-id"), "{exposed}");
}

#[test]
fn each_role_may_call_the_tools_that_it_may() {
    let service = Service::asking();
    for stranger in [service.client(), service.with_token("dl_no")] {
        for method in ["GET", "POST", "DELETE"] {
            let answer = speaking(&stranger).json(method, "/mcp", b"{}");
            answer.expect_problem(401, "unauthorized", None);
        }
    }
    let list = json!({"jsonrpc": "2.0", "id": 3, "method": "tools/list", "params": {}});
    let mut sessions = Vec::new();
    for role in [
        AccessRole::ReadOnly,
        AccessRole::Developer,
        AccessRole::Admin,
    ] {
        let client = service.with_token(&service.token(role));
        let may_write = role != AccessRole::ReadOnly;
        let within = session(&client);
        let listed = messages(&within.post("/mcp", &list)).pop().unwrap();
        let alone = stateless(&client, &list).expect(200);
        for listed in [&listed, &alone] {
            let tools = listed["result"]["tools"].as_array().unwrap();
            let has = |name| tools.iter().any(|tool| tool["name"] == name);
            assert!(has("thought_record_list"), "{role}: {listed}");
            assert_eq!(has("thought_record"), may_write, "{role}: {listed}");
        }
        let said = thought(&role.to_string());
        let alone = stateless(&client, &said).expect(200);
        for answer in [
            called(&within, &said),
            alone["result"]["structuredContent"].clone(),
        ] {
            assert_eq!(answer["ok"], may_write, "{role}: {answer}");
            if !may_write {
                assert_eq!(answer["error"]["code"], "FORBIDDEN", "{answer}");
            }
        }
        sessions.push(within);
    }
    // A session does not transfer its role to another client.
    let [reads, writes, _] = &sessions[..] else {
        panic!()
    };
    let id = begun(&service.with_token(&service.token(AccessRole::Developer)));
    let id = id.header("mcp-session-id").unwrap();
    let reader = service.with_token(&service.token(AccessRole::ReadOnly));
    let other = speaking(&reader).with("Mcp-Session-Id", id);
    other
        .post("/mcp", &thought("not mine"))
        .expect_problem(404, "not_found", None);
    other.delete("/mcp").expect_problem(404, "not_found", None);
    assert_eq!(called(reads, &list), Value::Null);
    assert_eq!(called(writes, &thought("mine"))["ok"], true);
    assert_eq!(
        service
            .store
            .thoughts()
            .list(Some("t"), None)
            .unwrap()
            .len(),
        5
    );
}

#[test]
fn a_revoked_token_ends_its_streams() {
    let slow = Slow::default();
    let service = slow.service(&Options::default());
    service.ask();
    let (secret, info) = service
        .store
        .add_token("streams", AccessRole::Developer, None)
        .unwrap();
    let client = session(&service.with_token(secret.as_str()));
    let quiet = Open::get(&client);
    let mut busy = open_call(&client, &slow_call(60_000));
    busy.until("notifications/progress");
    let started = Instant::now();
    service.store.revoke_token(&info.id).unwrap();
    assert!(!busy.rest().contains("waited"));
    quiet.rest();
    assert!(started.elapsed() < Duration::from_secs(20));
    client
        .post("/mcp", &slow_call(0))
        .expect_problem(401, "unauthorized", None);
}
