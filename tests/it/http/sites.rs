//! Requests from pages of other sites, and requests for another host.

use decklog::http::Options;
use decklog::privacy::AccessRole::{Admin, Developer};
use serde_json::json;

use super::Service;
use super::access::{cookie_of, status};
use super::client::Answer;

/// Without its cookie, as a browser sends them, and with it.
#[test]
fn pages_of_other_sites_do_nothing_on_any_route() {
    let service = Service::asking();
    let (code, _) = service.store.add_login_code(Admin).unwrap();
    let answer = service
        .client()
        .get(&format!("/login?code={}", code.as_str()));
    let browser = service.client().with("Cookie", &cookie_of(&answer));
    let own = format!("http://{}", service.addr);
    let port = service.addr.port();
    let clients = [
        browser.with("Origin", "http://evil.com"),
        browser.with("Origin", "null"),
        browser.with("Origin", ""),
        browser.with("Origin", &format!("http://localhost:{port}")),
        browser.with("Origin", &format!("https://127.0.0.1:{port}")),
        browser.with("Origin", "http://127.0.0.1:3000"),
        browser.with("Origin", "http://127.0.0.1"),
        browser
            .with("Origin", &own)
            .with("Origin", "http://evil.com"),
        browser
            .with("Origin", &own)
            .with("Sec-Fetch-Site", "cross-site"),
        browser.with("Sec-Fetch-Site", "cross-site"),
        browser.with("Sec-Fetch-Site", "same-site"),
        browser
            .with("Sec-Fetch-Site", "cross-site")
            .with("Sec-Fetch-Mode", "no-cors"),
    ];
    for (method, path) in service.operations() {
        for client in &clients {
            assert_eq!(
                status(client, &method, &path),
                403,
                "{method} {path} {client:?}"
            );
        }
    }
    let answer = clients[0].get("/conversations");
    answer.expect_problem(403, "cross_site", Some("Origin"));
    assert!(!answer.text().contains("evil"));
    let is_cors = |answer: &Answer| {
        answer
            .headers
            .iter()
            .any(|(name, _)| name.starts_with("access-control"))
    };
    assert!(!is_cors(&answer) && !is_cors(&browser.get("/conversations")));
    let preflight = clients[0].with("Access-Control-Request-Method", "POST");
    assert!(!is_cors(&preflight.send("OPTIONS", "/conversations", b"")));

    let page = browser
        .with("Origin", &own)
        .with("Sec-Fetch-Site", "same-origin");
    page.post("/conversations", &json!({"client": "web"}))
        .expect(201);
    // A user follows a link from another site.
    let link = browser.with("Sec-Fetch-Site", "cross-site");
    let link = link
        .with("Sec-Fetch-Mode", "navigate")
        .with("Sec-Fetch-Dest", "document");
    link.get("/conversations").expect(200);
    assert_eq!(link.post("/conversations", &json!({})).status, 403);
}

#[test]
fn a_name_that_is_not_the_servers_is_refused_on_every_route() {
    let service = Service::start();
    for (method, path) in service.operations() {
        let client = service.client().with("Host", "evil.com");
        assert_eq!(status(&client, &method, &path), 421, "{method} {path}");
    }
    let port = service.addr.port();
    for (host, expected) in [
        ("localhost", 200),
        (&*format!("localhost:{port}"), 200),
        (&*format!("LOCALHOST:{port}"), 200),
        ("localhost:1", 200),
        ("[::1]:8084", 200),
        ("127.0.0.2", 200),
        ("localhost.evil.com", 421),
        ("127.0.0.1.evil.com", 421),
        ("0x7f.1", 421),
        ("2130706433", 421),
        ("0.0.0.0", 421),
        ("[::ffff:127.0.0.1]", 421),
        ("localhost.", 400),
        ("me@localhost", 400),
        ("localhost:port", 400),
        ("localhost, evil.com", 400),
        ("löcalhost", 400),
        ("", 400),
    ] {
        let answer = service.client().with("Host", host).get("/healthz");
        assert_eq!(answer.status, expected, "{host}");
        if expected != 200 {
            let code = if expected == 421 {
                "misdirected"
            } else {
                "bad_request"
            };
            answer.expect_problem(expected, code, Some("Host"));
            assert!(host.is_empty() || !answer.text().contains("evil"), "{host}");
        }
    }
    for (request, expected) in [
        ("GET /healthz HTTP/1.1\r\n", 400),
        ("GET /healthz HTTP/1.0\r\n", 400),
        (
            "GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n",
            400,
        ),
        (
            "GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: evil.com\r\n",
            400,
        ),
        (
            "GET http://localhost/healthz HTTP/1.1\r\nHost: localhost\r\n",
            200,
        ),
        (
            "GET http://evil.com/healthz HTTP/1.1\r\nHost: localhost\r\n",
            400,
        ),
        (
            "GET http://localhost/healthz HTTP/1.1\r\nHost: evil.com\r\n",
            400,
        ),
        (
            "GET http://evil.com/healthz HTTP/1.1\r\nHost: evil.com\r\n",
            421,
        ),
        (
            "GET http://me@localhost/healthz HTTP/1.1\r\nHost: localhost\r\n",
            400,
        ),
    ] {
        let bytes = format!("{request}Connection: close\r\n\r\n");
        let answer = service.client().raw(bytes.as_bytes());
        assert_eq!(answer.status, expected, "{request:?}");
    }
}

#[test]
fn what_is_allowed_by_name_may_ask() {
    let mut options = Options::default();
    options.allow_hosts = vec!["Log.Example".to_owned()];
    options.allow_origins = vec!["https://app.example".to_owned()];
    let service = Service::with(&options);
    service.ask();
    let token = service.token(Developer);
    let answer = service
        .with_token(&token)
        .with("Host", "log.example")
        .get("/conversations");
    answer.expect(200);
    assert_eq!(answer.header("access-control-allow-origin"), None);

    let page = service
        .client()
        .with("Origin", "https://app.example")
        .with("Sec-Fetch-Site", "cross-site");
    let preflight = page.with("Access-Control-Request-Method", "POST");
    let answer = preflight.send("OPTIONS", "/conversations", b"");
    assert_eq!(answer.status, 204);
    for (name, value) in [
        ("access-control-allow-origin", "https://app.example"),
        (
            "access-control-allow-methods",
            "GET, HEAD, POST, PATCH, DELETE",
        ),
        ("vary", "origin"),
    ] {
        assert_eq!(answer.header(name), Some(value), "{name}");
    }
    assert!(
        answer
            .header("access-control-allow-headers")
            .unwrap()
            .contains("authorization")
    );
    assert_eq!(answer.header("access-control-allow-credentials"), None);

    let with_token = page.with("Authorization", &format!("Bearer {token}"));
    let answer = with_token.post("/conversations", &json!({"client": "web"}));
    answer.expect(201);
    assert_eq!(
        answer.header("access-control-allow-origin"),
        Some("https://app.example")
    );
    // It can read the error too.
    let answer = page.get("/conversations");
    answer.expect_problem(401, "unauthorized", None);
    assert_eq!(
        answer.header("access-control-allow-origin"),
        Some("https://app.example")
    );
    // It cannot get a cookie.
    let (code, _) = service.store.add_login_code(Admin).unwrap();
    let answer = service
        .client()
        .get(&format!("/login?code={}", code.as_str()));
    let page = page.with("Cookie", &cookie_of(&answer));
    assert_eq!(page.get("/conversations").status, 401);
    for other in [
        "http://app.example",
        "https://app.example:444",
        "https://x.app.example",
    ] {
        let other = service.with_token(&token).with("Origin", other);
        let answer = other.get("/conversations");
        answer.expect_problem(403, "cross_site", Some("Origin"));
        assert_eq!(answer.header("access-control-allow-origin"), None);
    }
}
