//! The web page: who may read it, and what its answers are. The browser's tests are in `tests/page`.

use decklog::privacy::AccessRole;
use decklog::{Client, Conversation, ConversationMessage, Role, event_type};
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
    let lines = service.client().get(&format!("/ui/lines/events/{failed}"));
    assert!(lines.text().contains("&lt;b&gt;") && !lines.text().contains("<b>"));
}
