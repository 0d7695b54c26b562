//! The web page: who may read it, and what its answers are. The browser's tests are in `tests/page`.

use std::path::Path;

use decklog::import::{Expired, Importer};
use decklog::privacy::AccessRole;
use decklog::{
    Client, Conversation, ConversationMessage, Role, Timestamp, ToolCallDone, ToolCallReq,
    ToolStatus, event_type,
};
use serde_json::json;
use uuid::Uuid;

use super::Service;

const FIXED: [&str; 10] = [
    "/",
    "/ui/conversations",
    "/ui/runs",
    "/ui/calls",
    "/ui/edits",
    "/ui/thoughts",
    "/ui/inbox",
    "/ui/integrity",
    "/ui/search",
    "/?range=all",
];

#[test]
fn every_page_of_an_empty_log_opens() {
    let service = Service::start();
    for path in FIXED {
        let answer = service.client().get(path);
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        assert_eq!(
            answer.header("content-type"),
            Some("text/html; charset=utf-8")
        );
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        let policy = answer.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'none'; ") && !policy.contains("unsafe"));
        assert!(answer.text().contains("<h1>"), "{path}");
    }
}

#[test]
fn an_address_that_makes_no_sense_gets_a_page_that_says_so() {
    let service = Service::start();
    let id = Uuid::new_v4();
    for (path, status, says) in [
        ("/ui/nothing".to_owned(), 404, "There is no page"),
        ("/ui/".to_owned(), 404, "unknown path"),
        ("/ui/conversations/x".to_owned(), 404, "is not the id"),
        (
            format!("/ui/conversations/{id}"),
            404,
            "There is no conversation",
        ),
        (
            format!("/ui/conversations/{id}/requests"),
            404,
            "There is no conversation",
        ),
        ("/ui/runs/99".to_owned(), 404, "There is no event 99"),
        (
            format!("/ui/lines/messages/{id}"),
            404,
            "There is no message",
        ),
        ("/ui/lines/thoughts".to_owned(), 400, "id: is missing"),
        ("/ui/calls?status=lost".to_owned(), 400, "status"),
        ("/ui/conversations?since=soon".to_owned(), 400, "since"),
        ("/ui/conversations?offset=-1".to_owned(), 400, "offset"),
        ("/?range=week".to_owned(), 400, "range"),
        ("/ui/search?text=a".to_owned(), 200, "Nothing found"),
        ("/ui/search?text=a&kind=b".to_owned(), 400, "kind"),
        ("/ui/calls?after=1".to_owned(), 400, "after"),
        (
            format!("/ui/search?text={}", "x".repeat(2_000)),
            400,
            "1024",
        ),
    ] {
        let answer = service.client().get(&path);
        assert_eq!(answer.status, status, "{path}: {}", answer.text());
        assert_eq!(
            answer.header("content-type"),
            Some("text/html; charset=utf-8")
        );
        assert!(answer.text().contains(says), "{path}: {}", answer.text());
    }
    // Unknown parameters, as links from elsewhere have them, do no harm.
    assert_eq!(service.client().get("/?utm_source=x").status, 200);
    assert_eq!(service.client().post("/", &json!({})).status, 405);
}

#[test]
fn pages_need_a_token_and_say_how_to_get_one() {
    let service = Service::asking();
    for path in FIXED {
        let answer = service.client().get(path);
        assert_eq!(answer.status, 401, "{path}");
        assert_eq!(
            answer.header("content-type"),
            Some("text/html; charset=utf-8")
        );
        assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
        assert!(
            answer.text().contains("decklog token login"),
            "{}",
            answer.text()
        );
        let token = service.token(AccessRole::ReadOnly);
        assert_eq!(service.with_token(&token).get(path).status, 200, "{path}");
    }
    for file in ["/ui/style.css", "/ui/script.js", "/ui/icon.svg"] {
        assert_eq!(service.client().get(file).status, 200);
        assert_eq!(service.client().get(&format!("{file}/x")).status, 401);
    }
    // The API still answers with JSON.
    let problem = service.client().get("/conversations");
    problem.expect_problem(401, "unauthorized", None);
}

#[test]
fn a_page_shows_what_was_recorded_a_moment_ago() {
    let service = Service::start();
    let conversation = Conversation::new(Uuid::new_v4(), Client::Api);
    let id = conversation.id;
    service.store.record(conversation).unwrap();
    for nth in 1..=150 {
        let text = format!("message <{nth}>");
        let message = ConversationMessage::new(id, Role::User, text);
        service.store.record(message).unwrap();
    }
    let page = |query: &str| {
        let path = format!("/ui/conversations/{id}{query}");
        service.client().get(&path).text().to_owned()
    };
    let shown = |text: &str, nth: i32| text.contains(&format!(">message &lt;{nth}&gt;<"));
    let latest = page("");
    assert!(shown(&latest, 150) && shown(&latest, 51) && !shown(&latest, 50));
    assert!(latest.contains("?until_sequence=51"));
    let earlier = page("?until_sequence=51");
    assert!(shown(&earlier, 50) && shown(&earlier, 1) && !shown(&earlier, 51));
    let around = page("?at=60");
    assert!(shown(&around, 40) && shown(&around, 60) && !shown(&around, 150));
    assert!(!shown(&page("?from=151"), 150));
    let list = service.client().get("/ui/conversations").text().to_owned();
    // The first prompt is the title of a conversation without one.
    assert!(list.contains("message &lt;1&gt;"), "{list}");

    let run = service
        .store
        .log_event(None, event_type::AGENT_STARTED, None)
        .unwrap();
    let payload = Some(r#"{"reason":"<b>"}"#);
    let failed = service
        .store
        .log_event(Some(run), event_type::AGENT_FAILED, payload);
    let failed = failed.unwrap();
    let text = service
        .client()
        .get(&format!("/ui/runs/{run}"))
        .text()
        .to_owned();
    assert!(
        text.contains("agent.started") && text.contains("failed"),
        "{text}"
    );
    // One odd number takes nothing from the others.
    let odd = Some(r#"{"cost_usd":0.5,"latency_ms":1200,"tokens_in":null,"tokens_out":7}"#);
    let call = event_type::LLM_CALL_COMPLETED;
    service.store.log_event(Some(run), call, odd).unwrap();
    let address = format!("/ui/runs/{run}");
    let text = service.client().get(&address).text().to_owned();
    for part in ["$0.50", "1.2 s", "7 tokens"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let lines = service.client().get(&format!("/ui/lines/events/{failed}"));
    assert!(lines.text().contains("&lt;b&gt;") && !lines.text().contains("<b>"));
}

#[test]
fn figures_of_cost_tools_and_the_store_are_on_the_pages() {
    let service = Service::start();
    let ids = [Uuid::from_u128(1), Uuid::from_u128(2)];
    for (id, cost) in ids.into_iter().zip([0.25, 1.5]) {
        let mut conversation = Conversation::new(id, Client::Api);
        conversation.title = Some(format!("costs {cost}"));
        service.store.record(conversation).unwrap();
        let mut answer = ConversationMessage::new(id, Role::Assistant, "2");
        answer.model_used = Some("small-1".into());
        answer.cost_usd = Some(cost);
        (answer.tokens_in, answer.tokens_out) = (Some(12_000), Some(300));
        service.store.record(answer).unwrap();
    }
    for nth in 0..10 {
        let tool = if nth < 6 { "slow<tool>" } else { "quick" };
        let call = ToolCallReq {
            arguments_json: Some("{}".into()),
            ..ToolCallReq::new(Uuid::from_u128(nth), "c", "v", tool)
        };
        service.store.record(call).unwrap();
        let status = if nth == 0 {
            ToolStatus::Failed
        } else {
            ToolStatus::Completed
        };
        let done = ToolCallDone {
            latency_ms: if nth < 6 { 90_000 } else { 20 },
            ..ToolCallDone::new(Uuid::from_u128(nth), "c", status)
        };
        service.store.record(done).unwrap();
    }
    let page = |path: &str| service.client().get(path).text().to_owned();
    let overview = page("/");
    for part in [
        "<dt>Cost</dt><dd>$1.75</dd>",
        "Cost by model",
        "Slowest tools",
        "Tools that fail most often",
        "slow&lt;tool&gt;",
        "<dt>State</dt><dd>good</dd>",
    ] {
        assert!(overview.contains(part), "{part}: {overview}");
    }
    let failing = overview.split("Tools that fail most often").nth(1).unwrap();
    assert!(failing.contains("16.7 %") && !failing.contains("quick"));
    let order = |list: &str| list.find("costs 0.25").unwrap() < list.find("costs 1.5").unwrap();
    for (sort, is_cheap_first) in [
        ("", false),
        ("?sort=cost", false),
        ("?sort=failures", false),
    ] {
        let list = page(&format!("/ui/conversations{sort}"));
        assert!(list.contains("$0.25") && list.contains("$1.50"), "{list}");
        assert_eq!(order(&list), is_cheap_first, "{sort}");
    }
    let client = service.client();
    assert_eq!(client.get("/ui/conversations?sort=size").status, 400);
    let sorted = client.get("/conversations?sort=cost&order=asc").expect(200);
    assert_eq!(sorted["conversations"][0]["total_cost_usd"], 0.25);
    assert!(page(&format!("/ui/conversations/{}", ids[0])).contains("<dt>Cost</dt><dd>$0.25</dd>"));
    let run = page(&format!("/ui/conversations/{}/run", ids[1]));
    // The step and the agent that took it.
    assert_eq!(run.matches(">12.3 k tokens<").count(), 2, "{run}");
    assert_eq!(run.matches("<span class=\"num used\">$1.50<").count(), 2);
    let calls = page("/ui/calls");
    assert!(calls.contains("svg class=\"histogram\""), "{calls}");
    assert!(calls.contains("up to 1 m 40 s: 6 calls"), "{calls}");
    let one = page("/ui/calls?tool=quick");
    assert!(!one.contains("slow&lt;tool&gt;"), "{one}");

    assert!(page("/ui/integrity").contains("was not verified yet"));
    let disk = decklog::storage::Disk::new(service.store.path());
    decklog::verify(&disk).unwrap().save(&disk, false).unwrap();
    assert!(page("/ui/integrity").contains("Nothing was wrong."));

    let tools = client.get("/analytics/tools?limit=1").expect(200);
    assert_eq!(tools["rows"][0]["tool_name"], "slow<tool>");
    assert_eq!(tools["total"]["calls"], 10);
    let sessions = client.get("/analytics/sessions?sort=cost").expect(200);
    assert_eq!(sessions["rows"][0]["title"], "costs 1.5");
    let hours = client.get("/analytics/activity").expect(200);
    let sum = |name: &str| -> u64 {
        let hours = hours.as_array().unwrap().iter();
        hours.map(|hour| hour[name].as_u64().unwrap()).sum()
    };
    assert_eq!((sum("messages"), sum("tool_calls")), (2, 10));
    for refused in [
        "tools?group=model",
        "tools?sort=cost",
        "projects?sort=size",
        "activity?since=x",
    ] {
        let answer = client.get(&format!("/analytics/{refused}"));
        assert_eq!(answer.status, 400, "{refused}");
    }
}

#[test]
fn the_overview_of_an_old_history_says_where_its_messages_are() {
    let service = Service::start();
    let id = Uuid::from_u128(1);
    let mut conversation = Conversation::new(id, Client::Cli);
    let at = |text: &str| text.parse::<Timestamp>().unwrap();
    conversation.created_at = at("2025-11-01T08:00:00Z");
    service.store.record(conversation).unwrap();
    for day in ["2025-11-01", "2025-12-09"] {
        let mut message = ConversationMessage::new(id, Role::User, "hi");
        message.timestamp = at(&format!("{day}T08:30:00Z"));
        service.store.record(message).unwrap();
    }
    let page = |path: &str| service.client().get(path).text().to_owned();
    let overview = page("/");
    let link = "/?since=2025-11-10&amp;until=2025-12-09";
    for part in [
        "The latest are of 2025-12-09",
        link,
        "No data in this period",
    ] {
        assert!(overview.contains(part), "{part}: {overview}");
    }
    for path in [&link.replace("&amp;", "&"), "/?range=all"] {
        let found = page(path);
        assert!(!found.contains("The latest are of"), "{found}");
        let hour = "<title>2025-12-09 8:00, 1 messages</title>";
        assert!(found.contains(hour), "{path}: {found}");
        assert_eq!(found.contains("week of 2025-12-08"), path.ends_with("all"));
    }
}

#[test]
fn what_an_importer_records_twice_is_found_once_and_linked() {
    let service = Service::start();
    let mut importer = Importer::new(&service.store).expired(Expired::Keep);
    let session = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/codex-rollout.jsonl");
    importer.path(&session).unwrap();
    importer.finish().unwrap();
    let page = |path: &str| service.client().get(path).text().to_owned();
    let hits = |text: &str, kind: &str| text.matches(&format!("<strong>{kind}</strong>")).count();
    let all = page("/ui/search?text=myapp");
    let messages = hits(&all, "messages");
    assert!(messages > 5, "{all}");
    let twice = ["conversation_turns", "tool_calls"].map(|kind| hits(&all, kind));
    assert_eq!(twice, [0, 0], "{all}");
    assert!(all.contains(&format!(
        "{} matches",
        messages + hits(&all, "conversations")
    )));
    // They are still there.
    for kind in ["conversation_turns", "tool_calls"] {
        let found = page(&format!("/ui/search?text=myapp&kind={kind}"));
        assert!(hits(&found, kind) > 1, "{found}");
    }
    let conversation = "019b04ae-b1c6-7c72-a134-a4c2de66058c";
    let calls = page("/ui/calls");
    let link = format!("<a href=\"/ui/conversations/{conversation}?at=");
    assert_eq!(calls.matches(&link).count(), 5, "{calls}");
    // Records of tokens are lines, not empty answers.
    let transcript = page(&format!("/ui/conversations/{conversation}"));
    let tokens = transcript.matches("class=\"message usage\"").count();
    assert_eq!(
        tokens,
        transcript.matches("<strong>Tokens</strong>").count()
    );
    assert!(tokens > 3, "{transcript}");
}
