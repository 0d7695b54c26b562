//! Invalid requests to every described endpoint, with all typical client errors.

use std::collections::BTreeSet;

use decklog::http::Options;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::Service;
use super::client::{Answer, Client};

/// An endpoint, with a valid body.
struct Endpoint {
    method: &'static str,
    route: &'static str,
    body: Option<Value>,
}

/// All endpoints. The ids in their paths exist in no log.
fn endpoints() -> Vec<Endpoint> {
    let unknown = Uuid::from_u128(0xbad);
    let get = |route| Endpoint {
        method: "GET",
        route,
        body: None,
    };
    let post = |route, body| Endpoint {
        method: "POST",
        route,
        body: Some(body),
    };
    let at = 1_766_832_000_000_i64;
    let conversation = json!({
        "id": unknown, "client": "api", "workspace": "w", "project": "p", "user_id": "u",
        "session_id": "s", "parent_id": uuid::Uuid::from_u128(77), "agent": "a", "parent_call_id": "c", "title": "t", "status": "active", "created_at": "2025-12-27T08:00:00Z",
        "last_error": "e",
    });
    let message = json!({
        "id": unknown, "conversation_id": unknown, "sequence": 1, "timestamp": "2025-12-27T08:00:00Z", "role": "user",
        "source": "user", "content": "c", "content_type": "text", "tool_name": "t", "tool_call_id": "c", "reasoning": "r",
        "tool_args": {"a": 1}, "tool_result": "r", "model_used": "m", "config_used": "c",
        "orchestration_mode": "single", "models_in_chain": ["m"], "tokens_in": 1, "tokens_out": 1, "tokens_cache_write": 0, "tokens_cache_write_1h": 0, "git_branch": "b", "tokens_cache_read": 1, "tokens_reasoning": 1,
        "latency_ms": 1, "context_utilization": 0.5, "cost_usd": 0.25, "task_type": "t", "handoff_steps": 1,
        "compression_applied": true, "error": "e", "error_type": "t", "inference_metadata": {},
    });
    let turn = json!({
        "id": unknown, "parent_id": unknown, "message_id": unknown, "thread_id": unknown,
        "kind": "user", "created_at": at, "content": "c",
    });
    let call = json!({
        "request_id": unknown, "call_id": "c", "parent_id": unknown, "vendor": "v",
        "tool_name": "t", "started_at": at, "args_sha256": decklog::args_sha256("{}"), "arguments_json": {},
    });
    let outcome = json!({
        "request_id": unknown, "call_id": "none", "status": "failed", "ended_at": at, "latency_ms": 1, "outcome_json": {},
        "error_kind": "k", "error_msg": "m",
    });
    let proposal = json!({
        "request_id": unknown, "created_at": at, "confidence": 0.5, "diffs_json": [],
        "decided_at": null, "applied_at": null, "commit_hash": null,
    });
    let step = json!({"status": "applied", "applied_at": at, "commit_hash": "c"});
    let event = json!({
        "id": 1, "parent_id": 1, "event_type": "a.b", "created_at": at, "payload": {},
    });
    let entry = json!({
        "id": 1, "chat_id": 1, "role": "user", "created_at": at, "text": "c",
    });
    let task = json!({"update_id": 1, "created_at": at, "payload": {}});
    let thought = json!({
        "id": "i", "type": "plan", "task_id": "t", "agent_id": "a",
        "timestamp": "2025-12-27T08:00:00Z", "content": "c",
    });
    let failed = json!({"attempt": 1, "error": "e"});
    let again = json!({"attempt": 1, "error": "e", "attempts_max": 1});
    vec![
        get("/conversations"),
        post("/conversations", conversation),
        get("/conversations/{id}"),
        Endpoint {
            method: "PATCH",
            route: "/conversations/{id}",
            body: Some(json!({"status": "completed", "project": "p", "title": "t"})),
        },
        Endpoint {
            method: "DELETE",
            route: "/conversations/{id}",
            body: None,
        },
        get("/conversations/{id}/messages"),
        post("/conversations/{id}/messages", message),
        get("/messages"),
        get("/capture/rejected"),
        get("/search"),
        get("/turns"),
        post("/turns", turn),
        get("/turns/{id}"),
        get("/tool-calls"),
        post("/tool-calls", call),
        get("/tool-calls/{request_id}/{call_id}"),
        post("/tool-calls/{request_id}/{call_id}/done", outcome),
        get("/proposals"),
        post("/proposals", proposal),
        get("/proposals/{request_id}"),
        post("/proposals/{request_id}/steps", step),
        get("/events"),
        post("/events", event),
        get("/events/{id}"),
        get("/events/{id}/tree"),
        get("/state"),
        post("/history", entry),
        get("/history/{chat_id}"),
        get("/inbox"),
        post("/inbox", task),
        get("/inbox/counts"),
        get("/inbox/{id}"),
        post("/inbox/claim", json!({"attempts_max": 1})),
        post(
            "/inbox/release",
            json!({"older_than_ms": 1, "attempts_max": 1}),
        ),
        post("/inbox/{id}/done", json!({"attempt": 1})),
        post("/inbox/{id}/fail", failed),
        post("/inbox/{id}/retry", again),
        get("/thoughts"),
        post("/thoughts", thought),
        get("/thoughts/verify"),
        get("/thoughts/{id}"),
        get("/analytics/usage"),
        get("/analytics/models"),
        get("/analytics/errors"),
        get("/analytics/latency"),
        get("/analytics/tasks"),
        get("/analytics/context"),
        get("/analytics/cost"),
        get("/analytics/compression"),
        get("/analytics/active"),
        get("/analytics/tools"),
        get("/analytics/projects"),
        get("/analytics/sessions"),
        get("/analytics/activity"),
        get("/analytics/dashboard"),
        get("/healthz"),
        get("/readyz"),
        get("/metrics"),
    ]
}

/// Fields that accept any JSON.
const ANY: [&str; 6] = [
    "arguments_json",
    "outcome_json",
    "diffs_json",
    "payload",
    "tool_args",
    "inference_metadata",
];
/// Numbers that may be negative.
const SIGNED: [&str; 3] = ["chat_id", "update_id", "parent_id"];
/// Fields with a fixed set of values.
const WORDS: [&str; 7] = [
    "client",
    "status",
    "role",
    "source",
    "kind",
    "type",
    "content_type",
];
/// Unknown values for each path parameter.
const UNKNOWN: [(&str, &str); 4] = [
    ("{request_id}", "00000000-0000-0000-0000-000000000bad"),
    ("{call_id}", "none"),
    ("{chat_id}", "404"),
    ("{id}", "404404"),
];

struct Described(Value);

impl Described {
    fn of(client: &Client) -> Described {
        Described(client.get("/openapi.json").expect(200))
    }

    fn operation(&self, endpoint: &Endpoint) -> &Value {
        let method = endpoint.method.to_ascii_lowercase();
        &self.0["paths"][endpoint.route][method]
    }

    /// Resolves a reference to a schema.
    fn resolved<'a>(&'a self, schema: &'a Value) -> &'a Value {
        match schema["$ref"].as_str() {
            Some(name) => {
                let found = self.0.pointer(&name[1..]);
                self.resolved(found.unwrap_or_else(|| panic!("there is no {name}")))
            }
            None => schema,
        }
    }

    fn parameters<'a>(
        &'a self,
        endpoint: &Endpoint,
        place: &'a str,
    ) -> impl Iterator<Item = (&'a str, &'a Value, bool)> {
        let all = self.operation(endpoint)["parameters"].as_array();
        let all = all.into_iter().flatten();
        all.filter(move |it| it["in"] == place).map(|it| {
            let name = it["name"].as_str().unwrap();
            (name, self.resolved(&it["schema"]), it["required"] == true)
        })
    }

    /// The required fields of a body, and whether it may be an array of bodies.
    fn body(&self, endpoint: &Endpoint) -> (Vec<&str>, bool) {
        let schema = &self.operation(endpoint)["requestBody"]["content"]["application/json"];
        let mut schema = self.resolved(&schema["schema"]);
        let either = schema["oneOf"].as_array();
        let takes_array =
            either.is_some_and(|either| either.iter().any(|it| it["type"] == "array"));
        if let Some(either) = either {
            schema = self.resolved(&either[0]);
        }
        let required = schema["required"].as_array().into_iter().flatten();
        (
            required.map(|it| it.as_str().unwrap()).collect(),
            takes_array,
        )
    }

    /// Invalid values of a parameter.
    fn bad_values(schema: &Value) -> Vec<&'static str> {
        let mut bad = Vec::new();
        let is = |what: &str| schema["type"] == what;
        if is("integer") {
            bad.extend(["x", "1.5", "99999999999999999999", ""]);
            if schema["maximum"] == 1_000 {
                bad.extend(["1001", "-1"]);
            }
        } else if is("boolean") {
            bad.extend(["maybe", "2"]);
        } else if schema["oneOf"].is_array() {
            bad.extend(["someday", "2025-13-01", ""]);
        } else if schema["format"] == "uuid" || schema["enum"].is_array() || is("object") {
            bad.extend(["nonsense", "%00", ""]);
        } else if schema["pattern"].is_string() {
            // Almost any short word is a valid client name.
            let is_name = schema["pattern"]
                .as_str()
                .is_some_and(|it| it.contains("A-Za-z"));
            bad.extend(if is_name {
                ["two%20words", "", "%00"]
            } else {
                ["nonsense", "-", "5-99999999999999999999999"]
            });
        }
        bad
    }
}

impl Endpoint {
    fn path(&self, described: &Described) -> String {
        let mut path = self.route.to_owned();
        for (name, schema, _) in described.parameters(self, "path") {
            let placeholder = format!("{{{name}}}");
            let known = UNKNOWN.iter().find(|(it, _)| *it == placeholder);
            let (_, value) = known.unwrap_or_else(|| panic!("{placeholder} is new"));
            let is_uuid = schema["format"] == "uuid";
            let value = if is_uuid { UNKNOWN[0].1 } else { value };
            path = path.replace(&placeholder, value);
        }
        let required = described.parameters(self, "query").filter(|it| it.2);
        let query: Vec<String> = required.map(|(name, ..)| format!("{name}=x")).collect();
        if query.is_empty() {
            return path;
        }
        format!("{path}?{}", query.join("&"))
    }

    fn send(&self, client: &Client, path: &str) -> Answer {
        match &self.body {
            Some(body) => client.json(self.method, path, body.to_string().as_bytes()),
            None => client.send(self.method, path, b""),
        }
    }
}

/// Requests that were not refused as expected.
#[derive(Default)]
struct Complaints(Vec<String>);

impl Complaints {
    /// The answer must be a problem with a message and, if applicable, a field.
    fn unless(&mut self, what: &str, answer: &Answer, status: u16, field: Option<&str>) {
        let text = String::from_utf8_lossy(&answer.body);
        let problem: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        let detail = problem["detail"].as_str().unwrap_or_default();
        let is_problem = answer.header("content-type") == Some("application/problem+json")
            && problem["status"] == answer.status
            && problem["code"].is_string();
        let found = problem["field"].as_str().unwrap_or_default();
        let has_field = answer.status != 422 || problem["field"].is_string();
        let is_in = |field: &str| found == field || found.starts_with(&format!("{field}/"));
        let is_field = field.is_none_or(is_in);
        let is_so = answer.status == status && is_problem && is_field && has_field;
        if !is_so || detail.len() < 10 {
            self.0.push(format!(
                "{what}: expected {status} at {field:?}, got {} {text:.300}",
                answer.status
            ));
        }
    }

    fn none(self) {
        assert!(self.0.is_empty(), "{:#?}", self.0);
    }
}

#[test]
fn every_endpoint_that_is_described_is_tried_here() {
    let service = Service::start();
    let described = Described::of(&service.client());
    let mut known = BTreeSet::new();
    for (route, item) in described.0["paths"].as_object().unwrap() {
        for method in item.as_object().unwrap().keys() {
            known.insert((method.to_ascii_uppercase(), route.clone()));
        }
    }
    let all = endpoints().into_iter();
    let tried: BTreeSet<_> = all
        .map(|it| (it.method.to_owned(), it.route.to_owned()))
        .collect();
    // Endpoints without JSON have separate tests.
    for other in [("POST", "/records"), ("GET", "/stream"), ("GET", "/login")] {
        assert!(
            known.remove(&(other.0.to_owned(), other.1.to_owned())),
            "{other:?}"
        );
    }
    assert_eq!(known, tried);
    assert_no_loose_ends(&described.0, &described);
}

/// Every name referenced in the description is defined there.
fn assert_no_loose_ends(part: &Value, described: &Described) {
    match part {
        Value::Object(map) => {
            if map.contains_key("$ref") {
                described.resolved(part);
            }
            map.values()
                .for_each(|it| assert_no_loose_ends(it, described));
        }
        Value::Array(items) => items
            .iter()
            .for_each(|it| assert_no_loose_ends(it, described)),
        _ => {}
    }
}

#[test]
fn what_the_path_or_the_query_cannot_be_is_refused() {
    let service = Service::start();
    let client = service.client();
    let described = Described::of(&client);
    let mut complaints = Complaints::default();
    for endpoint in endpoints() {
        let path = endpoint.path(&described);
        let name = format!("{} {}", endpoint.method, endpoint.route);
        let bare = path.split('?').next().unwrap();
        for (param, schema, _) in described.parameters(&endpoint, "path") {
            let bad = Described::bad_values(schema).into_iter();
            for bad in bad.filter(|bad| !bad.is_empty()) {
                let at = endpoint
                    .route
                    .split('/')
                    .position(|it| it == format!("{{{param}}}"));
                let mut parts: Vec<&str> = bare.split('/').collect();
                parts[at.unwrap()] = bad;
                let answer = endpoint.send(&client, &parts.join("/"));
                complaints.unless(&format!("{name} {param}={bad}"), &answer, 400, Some(param));
            }
        }
        let mut first = None;
        for (param, schema, is_required) in described.parameters(&endpoint, "query") {
            first.get_or_insert(param);
            for bad in Described::bad_values(schema) {
                let answer = endpoint.send(&client, &format!("{bare}?{param}={bad}"));
                complaints.unless(&format!("{name}?{param}={bad}"), &answer, 400, Some(param));
            }
            if is_required {
                let answer = endpoint.send(&client, bare);
                complaints.unless(&format!("{name} without {param}"), &answer, 400, None);
            }
        }
        if let Some(first) = first {
            let sep = if path.contains('?') { '&' } else { '?' };
            for query in ["nonsense=1".to_owned(), format!("{first}=1&{first}=1")] {
                let answer = endpoint.send(&client, &format!("{path}{sep}{query}"));
                complaints.unless(&format!("{name}?{query}"), &answer, 400, None);
            }
        }
        if endpoint.route.contains('{') && endpoint.route != "/history/{chat_id}" {
            let answer = endpoint.send(&client, &path);
            complaints.unless(&format!("{name} of an unknown id"), &answer, 404, None);
        }
        let answer = client.send("PUT", bare, b"");
        complaints.unless(&format!("PUT {bare}"), &answer, 405, None);
        assert!(answer.header("allow").is_some(), "{bare}");
    }
    complaints.none();
}

#[test]
fn what_a_body_cannot_be_is_refused() {
    let service = Service::start();
    let client = service.client();
    let described = Described::of(&client);
    let mut complaints = Complaints::default();
    for endpoint in endpoints() {
        let Some(body) = &endpoint.body else { continue };
        let path = endpoint.path(&described);
        let name = format!("{} {}", endpoint.method, endpoint.route);
        let (required, takes_array) = described.body(&endpoint);
        let mut check = |what: &str, bytes: &[u8], status, field: Option<&str>| {
            let answer = client.json(endpoint.method, &path, bytes);
            complaints.unless(&format!("{name} {what}"), &answer, status, field);
            answer
        };
        let whole = body.to_string();
        for (what, bytes) in [
            ("nothing", &b""[..]),
            ("most of a body", &whole.as_bytes()[..whole.len() - 1]),
            ("more than a body", (whole.clone() + "{}").as_bytes()),
            ("no UTF-8", b"{\"\xff\": 1}"),
            ("no UTF-8 after it", b"{}\xff"),
        ] {
            // All of its fields are optional.
            if what == "nothing" && endpoint.route == "/inbox/claim" {
                continue;
            }
            check(what, bytes, 400, None);
        }
        for (what, bytes) in [
            ("null", &b"null"[..]),
            ("a number", b"7"),
            ("a text", b"\"x\""),
            ("an empty array", b"[]"),
            ("an array of an array", b"[[]]"),
            ("an array of fields", b"[null]"),
            ("arrays of fields", b"[[null, null, null, null, null]]"),
        ] {
            check(what, bytes, 422, None);
        }
        let with = |field: &str, value: Value| {
            let mut body = body.clone();
            body[field] = value;
            body.to_string().into_bytes()
        };
        let answer = check("an unknown field", &with("nonsense", json!(1)), 422, None);
        assert!(answer.text().contains("nonsense"), "{}", answer.text());
        for field in &required {
            let mut body: Map<String, Value> = body.as_object().unwrap().clone();
            body.remove(*field);
            let without = Value::from(body).to_string();
            let at = format!("/{field}");
            let answer = check(&format!("no {field}"), without.as_bytes(), 422, Some(&at));
            assert!(answer.text().contains(field), "{}", answer.text());
        }
        // Several missing fields are reported at once.
        if let Some(first) = required.first() {
            let at = format!("/{first}");
            let answer = check("none of the fields", b"{}", 422, Some(&at));
            for field in &required {
                assert!(answer.text().contains(field), "{}", answer.text());
            }
        }
        for (field, value) in body.as_object().unwrap() {
            let at = format!("/{field}");
            let mut refuse = |value: Value| {
                let what = format!("{field}: {value:.40}");
                check(&what, &with(field, value), 422, Some(&at));
            };
            if ANY.contains(&&**field) {
                continue;
            }
            refuse(json!({"a": 1}));
            if value.is_number() {
                refuse(json!(-1.5));
                // The time of an event may be a text.
                let may_be_text = endpoint.route == "/events" && field == "created_at";
                refuse(json!(if may_be_text { "soon" } else { "1" }));
                // An amount has no maximum.
                if field != "cost_usd" {
                    refuse(json!(1e300));
                }
                if !SIGNED.contains(&&**field) {
                    refuse(json!(-1));
                }
            } else {
                refuse(json!(1.5));
            }
            if WORDS.contains(&&**field) {
                refuse(json!("no such word"));
            }
            if value.as_str().is_some_and(|text| text.len() == 36) {
                refuse(json!("nonsense"));
            }
            if ["timestamp", "created_at"].contains(&&**field) && value.is_string() {
                refuse(json!("yesterday"));
                refuse(json!("1969-12-31T23:59:59Z"));
            }
        }
        for field in body.as_object().unwrap().keys() {
            if ANY.contains(&&**field) {
                let deep = "[".repeat(100) + &"]".repeat(100);
                let deep: Value = serde_json::from_str(&deep).unwrap();
                let mut body = body.clone();
                body[field] = deep;
                // Its parent record does not exist either.
                body.as_object_mut()
                    .unwrap()
                    .retain(|it, _| it != "parent_id" || field != "payload");
                let status = if endpoint.route.contains('{') {
                    404
                } else {
                    422
                };
                let body = body.to_string();
                check(&format!("a deep {field}"), body.as_bytes(), status, None);
            }
        }
        if takes_array {
            let many = Value::from(vec![body.clone(); 1_001]).to_string();
            check("too many", many.as_bytes(), 422, None);
            let second = json!([body, {"nonsense": 1}]).to_string();
            check("a bad second", second.as_bytes(), 422, None);
        } else {
            check("an array", json!([body]).to_string().as_bytes(), 422, None);
        }
        let bytes = body.to_string().into_bytes();
        // Without a content type, it is parsed as JSON.
        let untyped = client.send(endpoint.method, &path, b"{");
        complaints.unless(&format!("{name} untyped"), &untyped, 400, None);
        let text = client.with("Content-Type", "text/plain");
        let text = text.send(endpoint.method, &path, &bytes);
        complaints.unless(&format!("{name} as text"), &text, 415, Some("Content-Type"));
    }
    complaints.none();
}

#[test]
fn what_is_too_long_is_refused() {
    let mut options = Options::default();
    options.body_bytes_max = 4_096;
    let service = Service::with(&options);
    let client = service.client();
    let described = Described::of(&client);
    let mut complaints = Complaints::default();
    for endpoint in endpoints().iter().filter(|it| it.body.is_some()) {
        let path = endpoint.path(&described);
        let body = json!({"filler": "x".repeat(5_000)}).to_string();
        let answer = client.json(endpoint.method, &path, body.as_bytes());
        let name = format!("{} {}", endpoint.method, endpoint.route);
        complaints.unless(&name, &answer, 413, None);
    }
    complaints.none();
}

/// Empty pages are not errors.
#[test]
fn a_limit_of_none_and_a_page_past_the_end_are_empty() {
    let service = Service::start();
    let client = service.client();
    let entry = json!({"chat_id": 1, "role": "user", "text": "c"});
    client.post("/history", &entry).expect(201);
    let event = json!({"event_type": "a.b"});
    client.post("/events", &event).expect(201);
    client.post("/inbox", &json!({"update_id": 1})).expect(201);
    client
        .post("/conversations", &json!({"client": "cli"}))
        .expect(201);
    let thought = json!({"type": "plan", "task_id": "t", "agent_id": "a", "content": "c"});
    client.post("/thoughts", &thought).expect(201);
    for route in [
        "/turns",
        "/tool-calls",
        "/proposals",
        "/events",
        "/inbox",
        "/thoughts",
    ] {
        // A list of thoughts requires a positive limit.
        if route != "/thoughts" {
            let none = client.get(&format!("{route}?limit=0")).expect(200);
            assert_eq!(none, json!({"items": []}), "{route}");
        }
        // Far behind all existing records, in the order that puts it last.
        let order = if route == "/thoughts" {
            ""
        } else {
            "&order=asc"
        };
        let past = format!("{route}?after=999999999999999999-999999999999{order}");
        assert_eq!(
            client.get(&past).expect(200),
            json!({"items": []}),
            "{route}"
        );
    }
    let past = client.get("/conversations?offset=999").expect(200);
    assert_eq!(
        (&past["conversations"], &past["total"]),
        (&json!([]), &json!(1))
    );
    let none = client.get("/history/1?before=1").expect(200);
    assert_eq!(none, json!({"items": []}));
}

#[test]
fn an_id_in_a_path_that_cannot_be_one_is_told_with_what_it_may_be() {
    let service = Service::start();
    let client = service.client();
    for (path, field, expected) in [
        (
            "/conversations/conv_xyz789/messages",
            "id",
            "must be a UUID",
        ),
        ("/tool-calls/r1/c1", "request_id", "must be a UUID"),
        ("/events/first", "id", "must be a whole number"),
    ] {
        let refused = client.get(path);
        refused.expect_problem(400, "bad_request", Some(field));
        assert!(refused.text().contains(expected), "{}", refused.text());
    }
}
