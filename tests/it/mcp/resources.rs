//! Resources: listed, read part by part, and not found where there are none.

use serde_json::json;

use super::client::Client;

#[test]
fn the_server_greets_and_ends() {
    let dir = tempfile::tempdir().unwrap();
    let mut client = Client::legacy(&dir.path().join("log"));
    assert_eq!(client.ask("ping", json!({})), json!({}));
    client.end();
    let mut client = Client::modern(&dir.path().join("log"));
    let tools = client.ask("tools/list", json!({}));
    assert!(
        tools["tools"]
            .as_array()
            .is_some_and(|tools| tools.len() > 5)
    );
    client.end();
}
