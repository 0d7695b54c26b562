//! MCP requests over HTTP, and rejected ones.

use std::io::Write as _;
use std::time::Duration;

use decklog::http::Options;
use serde_json::json;

use super::{
    LEGACY, STATELESS, Service, begun, call, called, initialize, messages, session, speaking,
    stateless, thought,
};

#[test]
fn a_session_is_begun_used_and_ended() {
    let service = Service::start();
    let client = service.client();
    let answer = begun(&client);
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
    let result = messages(&answer).pop().unwrap();
    assert_eq!(result["result"]["protocolVersion"], LEGACY);
    assert_eq!(result["result"]["serverInfo"]["name"], "decklog");

    let client = session(&service.client());
    let record = called(&client, &thought("of a session"));
    assert_eq!(record["ok"], true, "{record}");
    let id = record["data"]["id"].as_str().unwrap();
    let kept = service.store.thoughts().get(id).unwrap().unwrap();
    assert_eq!(kept.content, "of a session");
    // Another session sees the records of the first one.
    let list = call(2, "thought_record_list", json!({"task_id": "t"}));
    let seen = called(&session(&service.client()), &list);
    assert_eq!(seen["data"]["records"][0]["id"], id, "{seen}");

    assert_eq!(client.delete("/mcp").status, 204);
    for answer in [
        client.post("/mcp", &thought("too late")),
        client.get("/mcp"),
        client.delete("/mcp"),
        speaking(&service.client())
            .with("Mcp-Session-Id", "none")
            .post("/mcp", &thought("never")),
    ] {
        answer.expect_problem(404, "not_found", None);
    }
}

#[test]
fn a_request_needs_no_session() {
    let service = Service::start();
    let client = service.client();
    let answer = stateless(&client, &thought("on its own"));
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert_eq!(answer.header("mcp-session-id"), None);
    let record = answer.expect(200)["result"]["structuredContent"].clone();
    assert_eq!(record["data"]["content"], "on its own");
    let list = call(2, "thought_record_list", json!({"task_id": "t"}));
    let seen = stateless(&client, &list).expect(200);
    let records = &seen["result"]["structuredContent"]["data"]["records"];
    assert_eq!(records[0], record["data"], "{seen}");
    let offer = json!({"jsonrpc": "2.0", "id": 3, "method": "server/discover", "params": {}});
    let offer = stateless(&client, &offer).expect(200);
    assert!(
        offer["result"]["capabilities"]["tools"].is_object(),
        "{offer}"
    );
}

#[test]
fn a_client_without_sessions_is_led_into_none() {
    let service = Service::start();
    let id = begun(&service.client());
    let id = id.header("mcp-session-id").unwrap();
    for id in ["none", id] {
        let client = service.client().with("Mcp-Session-Id", id);
        let answer = stateless(&client, &thought("alone"));
        let answer = answer.expect(200);
        assert_eq!(
            answer["result"]["structuredContent"]["ok"], true,
            "{answer}"
        );
        let modern = speaking(&client).with("MCP-Protocol-Version", STATELESS);
        for method in ["GET", "DELETE"] {
            let answer = modern.send(method, "/mcp", b"");
            answer.expect_problem(405, "method_not_allowed", None);
        }
    }
    let text = service.client().get("/metrics");
    let series =
        "decklog_http_request_seconds_count{method=\"POST\",route=\"/mcp\",status=\"200\"} 3";
    assert!(text.text().contains(series), "{}", text.text());
}

#[test]
fn what_is_no_message_is_refused() {
    let mut options = Options::default();
    options.body_bytes_max = 10_000;
    options.body_timeout = Duration::from_millis(300);
    let service = Service::with(&options);
    let client = speaking(&service.client());
    let long = thought(&"x".repeat(10_000));
    client
        .post("/mcp", &long)
        .expect_problem(413, "too_large", None);
    let chunked = client.with("Transfer-Encoding", "chunked");
    let body = format!("2710\r\n{}\r\n1\r\nx\r\n0\r\n\r\n", "x".repeat(10_000));
    chunked
        .json("POST", "/mcp", body.as_bytes())
        .expect_problem(413, "too_large", None);
    let late = client
        .with("Content-Type", "application/json")
        .with("Content-Length", "100");
    late.send("POST", "/mcp", b"{")
        .expect_problem(408, "timeout", None);
    let typed = client.with("Content-Type", "text/plain");
    typed.send("POST", "/mcp", b"{}").expect_problem(
        415,
        "unsupported_media_type",
        Some("Content-Type"),
    );
    service
        .client()
        .post("/mcp", &initialize())
        .expect_problem(406, "not_acceptable", None);
    let deep = format!("{}{}", "[".repeat(4_000), "]".repeat(4_000));
    for (body, code) in [
        (&b""[..], -32700),
        (b"{\"jsonrpc\":", -32700),
        (b"\xff", -32700),
        (deep.as_bytes(), -32600),
        (b"{}", -32600),
        (b"[]", -32600),
        (b"null", -32600),
        (
            b"[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}]",
            -32600,
        ),
    ] {
        let answer = client.json("POST", "/mcp", body).expect(400);
        assert_eq!(answer["error"]["code"], code, "{answer}");
    }
    client
        .post("/mcp", &thought("without a session"))
        .expect_problem(400, "bad_request", None);
    client.get("/mcp").expect_problem(400, "bad_request", None);
    client
        .delete("/mcp")
        .expect_problem(400, "bad_request", None);
    let put = client.send("PUT", "/mcp", b"");
    put.expect_problem(405, "method_not_allowed", None);
    let other = client.with("MCP-Protocol-Version", "1999-01-01");
    other.post("/mcp", &initialize()).expect(400);
    assert_eq!(begun(&service.client()).status, 200);
}

#[test]
fn who_vanishes_in_the_middle_of_a_call_breaks_nothing() {
    let service = Service::start();
    let client = session(&service.client());
    let alone = speaking(&service.client()).with("Content-Type", "application/json");
    for n in 0..100 {
        let mut body = thought(&format!("{n} {}", "x".repeat(2_000)));
        // Earlier requests may still be running, and their ids are in use until they end.
        body["id"] = json!(1_000 + n);
        let body = body.to_string();
        let client = if n % 2 == 0 { &client } else { &alone };
        let client = client.with("Content-Type", "application/json");
        let head = client.head("POST", "/mcp", body.as_bytes());
        let mut stream = client.connect();
        let sent = if n % 3 == 0 {
            body.len() / 2
        } else {
            body.len()
        };
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(&body.as_bytes()[..sent]).unwrap();
    }
    assert_eq!(called(&client, &thought("after all"))["ok"], true);
    let chain = called(
        &client,
        &call(3, "audit_verify_chain", json!({"task_id": "t"})),
    );
    assert_eq!(chain["data"]["is_intact"], true, "{chain}");
    let disk = decklog::storage::Disk::new(service.store.path());
    assert!(decklog::verify(&disk).unwrap().is_clean());
}
