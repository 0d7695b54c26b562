//! The maximum number of sessions.

use std::time::Duration;

use super::{Open, Service, begun, called, session, speaking, stateless, thought};

/// The server's limit.
const MAX: usize = 256;

#[test]
fn who_begins_sessions_for_ever_gets_no_more_than_so_many() {
    let service = Service::start();
    let client = service.client();
    let listening = session(&client);
    let stream = Open::get(&listening);
    let oldest = session(&client);
    let used = session(&client);
    let others = MAX + 10;
    let mut last = None;
    for n in 0..others {
        let answer = begun(&client);
        assert_eq!(answer.status, 200, "{n}");
        last = answer.header("mcp-session-id").map(str::to_owned);
        if n % 50 == 0 {
            called(&used, &thought("still here"));
        }
    }
    let answer = oldest.post("/mcp", &thought("gone"));
    answer.expect_problem(404, "not_found", None);
    assert_eq!(called(&used, &thought("here"))["ok"], true);
    assert_eq!(called(&listening, &thought("here"))["ok"], true);
    let last = speaking(&client).with("Mcp-Session-Id", &last.unwrap());
    assert_eq!(last.delete("/mcp").status, 204);
    drop(stream);
}

#[test]
fn a_session_that_is_in_use_makes_no_room() {
    let service = Service::start();
    let client = service.client();
    let mut streams: Vec<Open> = (0..MAX).map(|_| Open::get(&session(&client))).collect();
    let answer = begun(&client);
    answer.expect_problem(503, "too_many_sessions", None);
    assert_eq!(answer.header("retry-after"), Some("1"));
    // Clients without a session are still served.
    assert_eq!(stateless(&client, &thought("alone")).status, 200);
    streams.pop();
    while begun(&client).status != 200 {
        std::thread::sleep(Duration::from_millis(20));
    }
}
