//! Requirement 002: the tables `events`, `inbox` and `history`, and what is derived from them.

use decklog::analytics::{AnalyticsQuery, Bucket};
use decklog::privacy::PrivacySettings;
use decklog::query::TaskQuery;
use decklog::record::TaskStatus;
use decklog::retention::{Keep, RetentionSettings};
use decklog::{InboxTask, Kind, Record};
use serde_json::{Value, json};

use super::faces::Faces;
use crate::support::DAY_1;

fn names(object: &Value) -> Vec<&str> {
    let members = object.as_object().unwrap();
    members.keys().map(String::as_str).collect()
}

#[test]
fn an_event_takes_timestamp_on_every_face() {
    let mut faces = Faces::new();
    let event = |timestamp: Value| json!({ "event_type": "agent.started", "timestamp": timestamp });
    let as_text = "2025-12-27T00:00:00Z";
    let mut count = 0;
    for timestamp in [json!(DAY_1), json!(as_text)] {
        faces
            .http
            .post("/events", &event(timestamp.clone()))
            .expect(201);
        faces.tool("event_log", event(timestamp.clone()));
        let mut line = event(timestamp.clone());
        line["kind"] = "events".into();
        let record = Record::from_json(&line.to_string()).unwrap();
        faces.store().record(record).unwrap();
        let (is_taken, said) = faces.cli_takes(&["record"], &line.to_string());
        assert!(is_taken, "{said}");
        count += 4;
    }
    let listed = faces.http.get("/events?limit=100").expect(200);
    let listed = listed["items"].as_array().unwrap();
    assert_eq!(listed.len(), count);
    for event in listed {
        assert_eq!(event["created_at"], DAY_1);
    }
    // Only one of the two names may be used.
    let mut both = event(json!(DAY_1));
    both["created_at"] = DAY_1.into();
    let refused = faces.http.post("/events", &both);
    refused.expect_problem(422, "invalid_input", Some("/timestamp"));
    let refused = faces
        .http
        .post("/events", &json!([event(json!(DAY_1)), &both]));
    refused.expect_problem(422, "invalid_input", Some("/1/timestamp"));
    assert!(refused.text().contains("created_at"), "{}", refused.text());
    let refused = faces.tool_fails("event_log", both.clone());
    assert!(
        refused.to_string().contains("timestamp is another name"),
        "{refused}"
    );
    both["kind"] = "events".into();
    let error = Record::from_json(&both.to_string()).unwrap_err();
    assert_eq!(error.field(), Some("timestamp"));
    // The accepted alias is described.
    let described = faces.http.get("/openapi.json").expect(200);
    let schemas = &described["components"]["schemas"];
    let of_status = &schemas["NewProposal"]["properties"]["status"];
    let listed = faces.mcp.ask("tools/list", json!({}));
    let tools = listed["tools"].as_array().unwrap();
    let tool = tools.iter().find(|tool| tool["name"] == "event_log");
    let of_tool = &tool.unwrap()["inputSchema"]["properties"]["timestamp"];
    for of_field in [
        &schemas["NewEvent"]["properties"]["timestamp"],
        of_status,
        of_tool,
    ] {
        // Next to a choice or within it.
        let said = of_field.to_string();
        assert!(said.contains("Alias of"), "{said}");
    }
    let both = json!({
        "op": "pending", "status": "pending", "request_id": uuid::Uuid::from_u128(1),
        "created_at": DAY_1, "diffs_json": [],
    });
    let refused = faces.http.post("/proposals", &both);
    refused.expect_problem(422, "invalid_input", Some("/status"));
}

#[test]
fn events_inbox_and_history_are_kept_forever() {
    let (retention, privacy) = (RetentionSettings::default(), PrivacySettings::default());
    for kind in [Kind::Events, Kind::Inbox, Kind::History] {
        assert_eq!(retention.keep(kind, &privacy), Keep::Forever, "{kind}");
    }
    let some_days = RetentionSettings {
        events: Some(Keep::Days(7)),
        ..retention
    };
    assert_eq!(some_days.keep(Kind::Events, &privacy), Keep::Days(7));
}

#[test]
fn an_inbox_row_has_the_columns_of_the_table() {
    let mut faces = Faces::new();
    let columns = [
        "attempts",
        "chat_id",
        "created_at",
        "error",
        "id",
        "locked_at",
        "message_date",
        "status",
        "text",
        "update_id",
        "updated_at",
    ];
    // Telegram's dates are in seconds, and are stored unchanged.
    let task = json!({
        "update_id": 7, "chat_id": -42, "text": "deploy", "message_date": 1_766_832_000,
    });
    let queued = faces.http.post("/inbox", &task).expect(201);
    assert_eq!(queued["updated_at"], queued["created_at"]);
    let mut line = task.clone();
    line["kind"] = "inbox".into();
    line["update_id"] = 8.into();
    assert!(faces.cli_takes(&["record"], &line.to_string()).0);
    let made = faces.store().inbox();
    let made = made.enqueue_message(9, -42, "deploy", 1_766_832_000);
    let made = made.unwrap();
    assert_eq!(
        (made.chat_id, made.text.as_deref()),
        (Some(-42), Some("deploy"))
    );
    let mut over_mcp = task.clone();
    over_mcp["update_id"] = json!(10);
    let made = faces.tool("inbox_enqueue", over_mcp.clone());
    assert_eq!(
        (&made["id"], &made["status"]),
        (&json!(4), &json!("queued"))
    );
    assert_eq!(faces.tool("inbox_enqueue", over_mcp), made);
    let listed = faces.http.get("/inbox").expect(200);
    assert_eq!(listed["items"].as_array().unwrap().len(), 4);
    for row in listed["items"].as_array().unwrap() {
        for (name, value) in task.as_object().unwrap() {
            if name != "update_id" {
                assert_eq!(row[name], *value, "{row}");
            }
        }
        assert_eq!(row["status"], "queued");
    }
    let claimed = faces.tool("inbox_claim", json!({}))["task"].take();
    assert_eq!(claimed["updated_at"], claimed["locked_at"]);
    assert_eq!(claimed["text"], "deploy");
    let given = json!({ "attempt": 1, "error": "no such host" });
    let failed = faces.http.post("/inbox/1/fail", &given).expect(200);
    assert!(failed["updated_at"].as_i64() >= claimed["locked_at"].as_i64());
    let mut row = failed.clone();
    row["locked_at"] = claimed["locked_at"].clone();
    assert_eq!(names(&row), columns);
    let shown = &faces.cli(&["inbox", "--status", "failed"])[0];
    assert_eq!(*shown, failed);
    let page = faces.store().inbox().list(&TaskQuery::default()).unwrap();
    let read: InboxTask = serde_json::from_value(failed).unwrap();
    assert_eq!(page.items[0], read);
    // Tasks without a chat have a payload, and may have both fields.
    let other = json!({ "update_id": 11, "payload": { "job": 1 } });
    let other = faces.http.post("/inbox", &other).expect(201);
    assert_eq!(other["payload"], json!({ "job": 1 }));
    assert!(other.get("chat_id").is_none() && other.get("text").is_none());
    assert_eq!(read.status, TaskStatus::Failed);
}

#[test]
fn tasks_are_listed_by_the_time_at_which_they_were_queued_on_every_face() {
    let mut faces = Faces::new();
    for at in [3_000, 1_000, 2_000] {
        let task = json!({ "update_id": at, "created_at": at });
        faces.http.post("/inbox", &task).expect(201);
    }
    // A step does not change the time.
    faces.tool("inbox_claim", json!({}));
    for (since, until, found) in [
        (Some(2_000), None, vec![1, 3]),
        (None, Some(2_000), vec![2]),
        (Some(1_000), Some(3_000), vec![2, 3]),
        (Some(3_001), None, vec![]),
    ] {
        let query = TaskQuery {
            since,
            until,
            ..TaskQuery::default()
        };
        let page = faces.store().inbox().list(&query).unwrap();
        let ids: Vec<i64> = page.items.iter().map(|task| task.id).collect();
        assert_eq!(ids, found);
        let told = serde_json::to_value(&page.items).unwrap();
        let mut route = "/inbox?order=asc".to_owned();
        let mut args = vec!["inbox".to_owned()];
        for (name, time) in [("since", since), ("until", until)] {
            let Some(time) = time else { continue };
            route = format!("{route}&{name}={time}");
            args.push(format!("--{name}={time}"));
        }
        assert_eq!(faces.http.get(&route).expect(200)["items"], told);
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        assert_eq!(json!(faces.cli(&args)), told);
    }
    let queued = TaskQuery {
        status: Some(TaskStatus::Queued),
        since: Some(2_000),
        ..TaskQuery::default()
    };
    let page = faces.store().inbox().list(&queued).unwrap();
    assert_eq!(page.items[0].id, 3);
    assert_eq!(page.items.len(), 1);
}

/// `text` and `message_date` are NOT NULL, so every chat message must have them.
#[test]
fn a_task_of_a_chat_has_a_text_and_a_date_on_every_face() {
    let faces = Faces::new();
    let task = json!({ "update_id": 1, "chat_id": -42, "text": "", "message_date": 0 });
    for name in ["text", "message_date"] {
        for is_null in [true, false] {
            let mut task = task.clone();
            if is_null {
                task[name] = Value::Null;
            } else {
                task.as_object_mut().unwrap().remove(name);
            }
            let refused = faces.http.post("/inbox", &task);
            refused.expect_problem(422, "invalid_input", Some(&format!("/{name}")));
            task["kind"] = "inbox".into();
            let (is_taken, said) = faces.cli_takes(&["record"], &task.to_string());
            assert!(
                !is_taken && said.contains(&format!("{name} is missing")),
                "{said}"
            );
            let record = Record::from_json(&task.to_string()).unwrap();
            let error = faces.store().record(record).unwrap_err();
            assert_eq!(error.field(), Some(name), "{error}");
        }
    }
    faces.http.post("/inbox", &task).expect(201);
    // A task without a chat needs neither.
    faces
        .http
        .post("/inbox", &json!({ "update_id": 2 }))
        .expect(201);
}

#[test]
fn a_history_row_has_the_columns_of_the_table() {
    let mut faces = Faces::new();
    let entry = json!({ "chat_id": -42, "role": "user", "text": "hi", "created_at": DAY_1 });
    faces.http.post("/history", &entry).expect(201);
    let mut line = entry.clone();
    line["kind"] = "history".into();
    assert!(faces.cli_takes(&["record"], &line.to_string()).0);
    let appended = faces.tool("history_append", entry.clone());
    assert_eq!(
        (&appended["id"], &appended["status"]),
        (&json!(3), &json!("added"))
    );
    let rows = faces.http.get("/history/-42").expect(200);
    let rows = rows["items"].as_array().unwrap();
    assert_eq!(rows.len(), 3);
    let over_mcp = faces.tool("history_list", json!({ "chat_id": -42 }));
    assert_eq!(over_mcp["items"].as_array().unwrap(), rows);
    let last = faces.tool("history_list", json!({ "chat_id": -42, "limit": 1 }));
    assert_eq!(
        (&last["items"], &last["before"]),
        (&json!(rows[2..]), &json!(3))
    );
    let earlier = json!({ "chat_id": -42, "before": 3 });
    let earlier = faces.tool("history_list", earlier);
    assert_eq!(
        (&earlier["items"], &earlier["before"]),
        (&json!(rows[..2]), &Value::Null)
    );
    for row in rows {
        assert_eq!(names(row), ["chat_id", "created_at", "id", "role", "text"]);
        assert_eq!(row["text"], "hi");
    }
    assert_eq!(faces.cli(&["history", "-42"]), *rows);
    let entries = faces.store().history(-42, 10).unwrap();
    assert!(entries.iter().all(|entry| entry.text == "hi"));
    let old = json!({ "chat_id": -42, "role": "user", "content": "hi" });
    faces.http.post("/history", &old).expect(422);
}

#[test]
fn what_is_derived_is_told_on_every_face() {
    let mut faces = Faces::new();
    let mut check = |state: Value| {
        assert_eq!(faces.http.get("/state").expect(200), state);
        assert_eq!(faces.cli(&["state"])[0], state);
        assert_eq!(faces.tool("supervisor_state", json!({})), state);
        let told = faces.store().supervisor_state(None).unwrap();
        assert_eq!(serde_json::to_value(told).unwrap(), state);
        let log = |event: Value| faces.http.post("/events", &event).expect(201)["id"].as_i64();
        let supervisor = log(json!({ "event_type": "process.started" }));
        let mut worker = None;
        for _ in 0..2 {
            let spawned = json!({ "event_type": "worker.spawned", "parent_id": supervisor });
            log(spawned);
            let began = json!({ "event_type": "process.started", "parent_id": supervisor });
            worker = log(began);
        }
        log(json!({ "event_type": "revision.promoted", "payload": { "revision": "a1b2c3" } }));
        let task = json!({ "update_id": 700, "chat_id": 1, "text": "hi", "message_date": 1 });
        faces.http.post("/inbox", &task);
        (supervisor.unwrap(), worker.unwrap())
    };
    let (first, worker) = check(json!({
        "telegram_offset": 0, "current_good_rev": null, "supervisor_id": null,
        "worker_instance_seq": 0,
    }));
    let (second, _) = check(json!({
        "telegram_offset": 701, "current_good_rev": "a1b2c3", "supervisor_id": first,
        "worker_instance_seq": 2,
    }));
    assert!(second > worker);
    let of_first = faces.http.get(&format!("/state?supervisor_id={first}"));
    assert_eq!(of_first.expect(200)["supervisor_id"], first);
    let asked = json!({ "supervisor_id": worker });
    let of_worker = faces.tool("supervisor_state", asked);
    assert_eq!(of_worker["worker_instance_seq"], 0);
    let id = first.to_string();
    let shown = faces.cli(&["state", "--supervisor", &id]);
    assert_eq!(shown[0]["worker_instance_seq"], 2);
}

#[test]
fn a_worker_that_exited_runs_no_more() {
    let mut faces = Faces::new();
    let mut at = DAY_1;
    let mut log = |parent_id: Option<i64>, event_type: &str, payload: Value| {
        at += 1_000;
        let event = json!({
            "event_type": event_type, "parent_id": parent_id, "payload": payload, "timestamp": at,
        });
        faces.http.post("/events", &event).expect(201)["id"].as_i64()
    };
    let supervisor = log(
        None,
        "process.started",
        json!({ "role": "supervisor", "pid": 1 }),
    );
    let worker = |pid: i64| json!({ "role": "worker", "pid": pid });
    let spawned = |pid: i64| json!({ "pid": pid });
    log(supervisor, "worker.spawned", spawned(10));
    let crashed = log(supervisor, "process.started", worker(10));
    // As in the document, without a pid.
    let exit = json!({ "exit_code": "1", "uptime_seconds": 1 });
    log(supervisor, "worker.exited", exit);
    let one = log(supervisor, "process.started", worker(11));
    let two = log(supervisor, "process.started", worker(12));
    log(
        supervisor,
        "worker.exited",
        json!({ "exit_code": 0, "pid": 12 }),
    );
    // Or recorded under the worker itself.
    let three = log(supervisor, "process.started", worker(13));
    log(three, "worker.exited", json!({ "exit_code": 0, "pid": 13 }));
    let root = supervisor.unwrap();
    let tree = faces.http.get(&format!("/events/{root}/tree")).expect(200);
    let asked = json!({ "id": root });
    assert_eq!(faces.tool("event_tree", asked)["nodes"], tree["nodes"]);
    let ended = |id: Option<i64>| {
        let mut nodes = tree["nodes"].as_array().unwrap().iter();
        let node = nodes.find(|node| node["id"].as_i64() == id).unwrap();
        (node["status"].clone(), node["duration_ms"].clone())
    };
    assert_eq!(ended(crashed), (json!("failed"), json!(1_000)));
    assert_eq!(ended(two), (json!("completed"), json!(1_000)));
    assert_eq!(ended(three), (json!("completed"), json!(1_000)));
    assert_eq!(ended(one), (json!("running"), Value::Null));
    assert_eq!(ended(supervisor), (json!("running"), Value::Null));
    // Also if only the worker's tree is requested.
    let alone = faces.tool("event_tree", json!({ "id": crashed }));
    assert_eq!(alone["nodes"][0]["status"], "failed");
}

/// The statuses and durations of the start events in a tree by id, the same on every face.
fn outcomes(faces: &mut Faces, root: i64) -> Vec<(i64, Value, Value)> {
    let tree = faces.http.get(&format!("/events/{root}/tree")).expect(200);
    let over_mcp = faces.tool("event_tree", json!({ "id": root }));
    assert_eq!(over_mcp["nodes"], tree["nodes"]);
    let lines = faces.cli(&["tree", &root.to_string()]);
    assert_eq!(Value::from(lines), tree["nodes"]);
    let nodes = tree["nodes"].as_array().unwrap().iter();
    let spans = nodes.filter(|node| node.get("status").is_some());
    let outcome = |node: &Value| {
        let id = node["id"].as_i64().unwrap();
        (id, node["status"].clone(), node["duration_ms"].clone())
    };
    spans.map(outcome).collect()
}

/// Logs events over HTTP, one second apart. Each has the position of its parent in the list, from
/// 1, its type and its payload. Their ids equal their positions.
fn log_all(faces: &Faces, events: &[(i64, &str, Value)]) {
    for (nth, (parent, event_type, payload)) in (1_i64..).zip(events) {
        let event = json!({
            "event_type": event_type, "parent_id": (*parent > 0).then_some(*parent),
            "payload": payload, "timestamp": DAY_1 + nth * 1_000,
        });
        assert_eq!(faces.http.post("/events", &event).expect(201)["id"], nth);
    }
}

#[test]
fn parallel_calls_and_agents_have_their_own_outcomes() {
    let mut faces = Faces::new();
    let tool = |name: &str| json!({ "tool_name": name });
    let task = |id: i64| json!({ "task_id": id });
    let events = [
        (0, "agent.started", task(1)),
        (1, "turn.started", json!({ "model_name": "m" })),
        (2, "tool_call.started", tool("ls")),
        (2, "tool_call.started", tool("rm")),
        (2, "tool_call.failed", tool("rm")),
        (2, "tool_call.completed", tool("ls")),
        (2, "tool_call.started", tool("cat")),
        // The end of a call that was not logged. It does not belong to cat's call.
        (2, "tool_call.failed", tool("rm")),
        // Agents started by this one.
        (1, "agent.started", task(2)),
        (1, "agent.started", task(3)),
        (1, "agent.failed", task(3)),
        (1, "agent.completed", task(2)),
    ];
    log_all(&faces, &events);
    let running = |id: i64| (id, json!("running"), Value::Null);
    let expected = [
        running(1),
        running(2),
        (3, json!("completed"), json!(3_000)),
        (4, json!("failed"), json!(1_000)),
        running(7),
        (9, json!("completed"), json!(3_000)),
        (10, json!("failed"), json!(1_000)),
    ];
    assert_eq!(outcomes(&mut faces, 1), expected);
    assert_eq!(outcomes(&mut faces, 4), expected[3..4]);
}

#[test]
fn nothing_runs_under_a_run_that_ended() {
    let mut faces = Faces::new();
    let none = || json!({});
    let events = [
        (
            0,
            "process.started",
            json!({ "role": "supervisor", "pid": 1 }),
        ),
        (1, "process.started", json!({ "role": "worker", "pid": 2 })),
        (2, "agent.started", json!({ "task_id": 1 })),
        (3, "turn.started", none()),
        (4, "tool_call.started", json!({ "tool_name": "ls" })),
        (3, "turn.completed", none()),
        (3, "turn.started", none()),
        // Under the event that it ends, as in the document.
        (3, "agent.failed", json!({ "task_id": 1, "error": "late" })),
        (2, "agent.started", json!({ "task_id": 2 })),
        (9, "turn.started", none()),
        // A sibling of the event that it ends.
        (1, "worker.exited", json!({ "exit_code": 0, "pid": 2 })),
    ];
    log_all(&faces, &events);
    let completed = |id: i64, seconds: i64| (id, json!("completed"), json!(1_000 * seconds));
    let failed = |id: i64, seconds: i64| (id, json!("failed"), json!(1_000 * seconds));
    let expected = [
        (1, json!("running"), Value::Null),
        completed(2, 9),
        failed(3, 5),
        completed(4, 2),
        completed(5, 1),
        failed(7, 1),
        completed(9, 2),
        completed(10, 1),
    ];
    assert_eq!(outcomes(&mut faces, 1), expected);
    // Subtrees show the same, though they do not contain the events that end them.
    for (root, part) in [(5, 4..5), (7, 5..6), (9, 6..8), (10, 7..8)] {
        assert_eq!(outcomes(&mut faces, root), expected[part]);
    }
    let drawn = String::from_utf8(faces.run(&["tree", "3"]).stdout).unwrap();
    assert!(drawn.contains("#7 turn.started  failed 1.0 s"), "{drawn}");
}

#[test]
fn a_claim_needs_no_body() {
    let faces = Faces::new();
    assert_eq!(faces.http.send("POST", "/inbox/claim", b"").status, 204);
    faces.store().inbox().enqueue(1, None).unwrap();
    let claimed = faces.http.send("POST", "/inbox/claim", b"").expect(200);
    assert_eq!(claimed["attempts"], 1);
    let odd = faces.http.json("POST", "/inbox/claim", b"[]");
    assert_eq!(odd.status, 422);
}

/// Every event type of the document, with its payload and parent, as the document draws it.
#[test]
fn events_of_every_type_make_the_trees_that_are_drawn() {
    let mut faces = Faces::new();
    let mut ids: Vec<i64> = Vec::new();
    // The position of each event's parent in this list.
    let drawn: [(&str, Option<usize>, Value); 17] = [
        (
            "process.started",
            None,
            json!({ "role": "supervisor", "pid": 1, "version": "1" }),
        ),
        ("worker.spawned", Some(0), json!({ "pid": 2 })),
        (
            "process.started",
            Some(0),
            json!({ "role": "worker", "pid": 2, "version": "1" }),
        ),
        (
            "worker.exited",
            Some(0),
            json!({ "exit_code": 0, "uptime_seconds": 5 }),
        ),
        (
            "revision.promoted",
            Some(0),
            json!({ "revision": "a1b2c3" }),
        ),
        (
            "crash_loop.detected",
            Some(0),
            json!({ "threshold": 3, "window_seconds": 60 }),
        ),
        (
            "rollback.attempted",
            Some(0),
            json!({ "target_revision": "a1b2c3", "success": true }),
        ),
        (
            "agent.started",
            None,
            json!({ "chat_id": 1, "task_id": 1, "update_id": 7, "text": "hi" }),
        ),
        ("turn.started", Some(7), json!({ "model_name": "m" })),
        (
            "tool_call.started",
            Some(8),
            json!({ "tool_name": "t", "arguments": {} }),
        ),
        (
            "tool_call.completed",
            Some(8),
            json!({ "tool_name": "t", "output": "o", "latency_ms": 3 }),
        ),
        (
            "tool_call.failed",
            Some(8),
            json!({ "tool_name": "t", "error": "e" }),
        ),
        (
            "turn.completed",
            Some(7),
            json!({ "model_name": "m", "latency_ms": 9, "input_tokens": 3, "output_tokens": 4 }),
        ),
        ("reply.sent", Some(7), json!({ "chat_id": 1 })),
        ("agent.completed", Some(7), json!({ "task_id": 1 })),
        (
            "agent.started",
            None,
            json!({ "chat_id": 1, "task_id": 2, "update_id": 8, "text": "ho" }),
        ),
        (
            "agent.failed",
            Some(15),
            json!({ "task_id": 2, "error": "late" }),
        ),
    ];
    for (at, (event_type, parent, payload)) in (DAY_1..).zip(&drawn) {
        let event = json!({
            "event_type": event_type, "parent_id": parent.map(|parent| ids[parent]),
            "payload": payload, "timestamp": at,
        });
        let id = if at % 2 == 0 {
            faces.http.post("/events", &event).expect(201)["id"].clone()
        } else {
            faces.tool("event_log", event)["id"].clone()
        };
        ids.push(id.as_i64().unwrap());
    }
    assert!(ids.is_sorted(), "{ids:?}");
    let listed = faces.cli(&["events"]);
    for (((event_type, parent, payload), id), row) in drawn.iter().zip(&ids).zip(&listed) {
        assert_eq!(row["id"], *id);
        assert_eq!(row["event_type"], *event_type);
        assert_eq!(&row["payload"], payload);
        assert_eq!(row["parent_id"].as_i64(), parent.map(|parent| ids[parent]));
        let over_http = faces.http.get(&format!("/events/{id}")).expect(200);
        assert_eq!(&over_http["payload"], payload);
    }
    for (root, below) in [(0, 7), (7, 8), (15, 2)] {
        let tree = faces
            .http
            .get(&format!("/events/{}/tree", ids[root]))
            .expect(200);
        assert_eq!(tree["nodes"].as_array().unwrap().len(), below, "{tree}");
        let tree = faces.tool("event_tree", json!({ "id": ids[root] }));
        assert_eq!(tree["nodes"].as_array().unwrap().len(), below);
    }
    // The library has a constant for each type.
    for (event_type, ..) in &drawn {
        assert!(
            decklog::event_type::ALL.contains(event_type),
            "{event_type}"
        );
    }
}

#[test]
fn the_tokens_of_completed_turns_are_reported_by_model() {
    let mut faces = Faces::new();
    let http = faces.http.clone();
    let log = |payload: Value, day: i64| {
        let event = json!({
            "event_type": "turn.completed", "payload": payload,
            "timestamp": DAY_1 + day * 86_400_000,
        });
        http.post("/events", &event).expect(201);
    };
    let tokens = |model: &str, input: i64, output: i64| {
        json!({
            "model_name": model, "latency_ms": 1, "input_tokens": input, "output_tokens": output,
        })
    };
    let none = faces.http.get("/analytics/usage").expect(200);
    assert_eq!(none["turns"], json!([]));
    log(tokens("a", 100, 10), 0);
    log(tokens("a", 200, 20), 1);
    log(tokens("b", 7, 3), 1);
    // Values that are not token counts are ignored.
    log(
        json!({ "model_name": "b", "input_tokens": "many", "output_tokens": -4 }),
        1,
    );
    log(json!("no object"), 1);
    let other = json!({
        "event_type": "turn.failed", "payload": tokens("a", 1_000, 1_000), "timestamp": DAY_1,
    });
    faces.http.post("/events", &other).expect(201);
    let expected = json!([
        { "model_used": "a", "turns": 2, "tokens_in": 300, "tokens_out": 30 },
        { "model_used": "b", "turns": 2, "tokens_in": 7, "tokens_out": 3 },
    ]);
    let all = "/analytics/usage?bucket=all&group=model";
    let report = faces.http.get(all).expect(200);
    assert_eq!(report["turns"], expected);
    // Messages may report the same tokens, so their totals do not include these.
    assert_eq!(report["total"]["tokens_in"], 0);
    let usage = ["stats", "usage", "--bucket", "all", "--group", "model"];
    assert_eq!(faces.cli(&usage)[0]["turns"], expected);
    let over_mcp = faces.tool("usage_report", json!({}));
    assert_eq!(over_mcp["turns"], expected);
    let text = faces.run(&usage);
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(
        text.contains("turn.completed") && text.contains("300"),
        "{text}"
    );
    // By day, for one day, and without models.
    let by_day = faces.http.get("/analytics/usage?group=model").expect(200);
    assert_eq!(by_day["turns"].as_array().unwrap().len(), 3);
    let day = decklog::record::Day::of(DAY_1 + 86_400_000).unwrap();
    let path = format!("{all}&since={day}");
    let of_day = faces.http.get(&path).expect(200);
    assert_eq!(of_day["turns"][0]["tokens_in"], 200);
    let together = AnalyticsQuery {
        group: Some(Vec::new()),
        bucket: Some(Bucket::All),
        ..AnalyticsQuery::default()
    };
    let together = faces.store().analytics().usage(&together).unwrap();
    assert_eq!(
        serde_json::to_value(&together.turns).unwrap(),
        json!([{ "turns": 4, "tokens_in": 307, "tokens_out": 33 }])
    );
    // Later events are added, and lost ones are no longer counted.
    log(tokens("b", 1, 1), 2);
    let report = faces.http.get(all).expect(200);
    assert_eq!(report["turns"][1]["tokens_in"], 8);
}

#[test]
fn a_task_is_claimed_by_one_worker_and_ends_once() {
    let mut faces = Faces::new();
    let task = |update_id: i64| json!({ "update_id": update_id, "chat_id": 1, "text": "hi", "message_date": 1 });
    for update_id in [5, 6, 7] {
        faces.http.post("/inbox", &task(update_id)).expect(201);
    }
    // Telegram resends an update until it is acknowledged.
    assert_eq!(faces.http.post("/inbox", &task(5)).status, 200);
    assert_eq!(faces.store().telegram_offset().unwrap(), 8);
    let over_http = faces.http.post("/inbox/claim", &json!({})).expect(200);
    let over_mcp = faces.tool("inbox_claim", json!({}))["task"].take();
    let typed = faces.store().inbox().claim().unwrap().unwrap();
    let claimed = [&over_http["id"], &over_mcp["id"], &json!(typed.id)];
    assert_eq!(claimed, [&json!(1), &json!(2), &json!(3)]);
    for task in [&over_http, &over_mcp] {
        assert_eq!(
            (&task["status"], &task["attempts"]),
            (&json!("in_progress"), &json!(1))
        );
        assert!(task["locked_at"].is_i64());
    }
    assert_eq!(faces.tool("inbox_claim", json!({}))["task"], Value::Null);
    // Each task is ended through its face, once, and only by its holder.
    let held = json!({ "attempt": 1 });
    let stolen = faces.http.post("/inbox/1/done", &json!({ "attempt": 2 }));
    assert_eq!(stolen.status, 409);
    assert_eq!(
        faces.http.post("/inbox/1/done", &held).expect(200)["status"],
        "done"
    );
    let given = json!({ "id": 2, "attempt": 1, "error": "no such host" });
    let failed = faces.tool("inbox_fail", given);
    assert_eq!(
        (&failed["status"], &failed["error"]),
        (&json!("failed"), &json!("no such host"))
    );
    faces.store().inbox().done(&typed).unwrap();
    let other = faces.tool_fails("inbox_done", json!({ "id": 2, "attempt": 1 }));
    assert_eq!(other["code"], "LIFECYCLE");
    let rows = faces.cli(&["inbox"]);
    let statuses: Vec<&Value> = rows.iter().map(|row| &row["status"]).collect();
    assert_eq!(statuses, ["done", "failed", "done"]);
}

#[test]
fn the_error_of_the_latest_failure_stays_with_a_task() {
    let faces = Faces::new();
    faces
        .http
        .post("/inbox", &json!({ "update_id": 1 }))
        .expect(201);
    faces.http.send("POST", "/inbox/claim", b"").expect(200);
    let again = json!({ "attempt": 1, "error": "no such host" });
    faces.http.post("/inbox/1/retry", &again).expect(200);
    let claimed = faces.http.send("POST", "/inbox/claim", b"").expect(200);
    assert_eq!(claimed["error"], "no such host");
    for _ in 0..2 {
        let held = json!({ "attempt": 2 });
        let done = faces.http.post("/inbox/1/done", &held).expect(200);
        assert_eq!(
            (&done["status"], &done["error"]),
            (&json!("done"), &json!("no such host"))
        );
    }
    let task = faces.store().inbox().get(1).unwrap().unwrap();
    assert_eq!(task.error.as_deref(), Some("no such host"));
    assert_eq!(faces.cli(&["inbox"])[0]["error"], "no such host");
    // The text list does not show a completed task as a failure.
    let shown = faces.run(&["inbox"]);
    assert!(
        !String::from_utf8(shown.stdout)
            .unwrap()
            .contains("no such host")
    );
}
