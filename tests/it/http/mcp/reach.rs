//! The resources and prompts that a server with few tools offers over HTTP, by role.

use decklog::http::Options;
use decklog::mcp::{Server, Tools};
use decklog::privacy::AccessRole;
use serde_json::{Value, json};

use super::{Service, messages, session};
use crate::mcp::reach::{CASES, WRITE, check, fill};
use crate::support::still;

#[test]
fn no_resource_or_prompt_shows_any_role_what_no_tool_reads() {
    let dir = tempfile::tempdir().unwrap();
    let store = still().open(dir.path().join("log")).unwrap();
    let filled = fill(&store);
    for (tools, kinds) in CASES {
        for is_read_only in [false, true] {
            let mut offered = Tools::all().only(tools.iter().copied()).unwrap();
            if is_read_only {
                offered = offered.read_only();
            }
            let handler = Server::new(store.clone(), offered);
            let service = Service::serving(&Options::default(), |server| {
                server.with_mcp(move || handler.clone())
            });
            service.ask();
            for role in [
                AccessRole::ReadOnly,
                AccessRole::Developer,
                AccessRole::Admin,
            ] {
                let client = session(&service.with_token(&service.token(role)));
                let may_write = !is_read_only && role != AccessRole::ReadOnly;
                let called = tools
                    .iter()
                    .filter(|tool| may_write || !WRITE.contains(tool));
                let called: Vec<&str> = called.copied().collect();
                let mut next = 10;
                let mut ask = |method: &str, params: Value| {
                    next += 1;
                    let asked =
                        json!({ "jsonrpc": "2.0", "id": next, "method": method, "params": params });
                    messages(&client.post("/mcp", &asked)).pop().unwrap()
                };
                check(&mut ask, &filled, &called, kinds);
            }
        }
    }
}
