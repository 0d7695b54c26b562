//! The examples in docs/mcp.md work.

use std::process::Command;

use serde_json::Value;

use super::client::Client;

const GUIDE: &str = include_str!("../../../docs/mcp.md");

/// The client configuration in the guide.
#[test]
fn its_configuration_starts_a_server() {
    let blocks = GUIDE
        .split("\n```")
        .filter_map(|block| block.strip_prefix("json\n"));
    let block = blocks
        .into_iter()
        .find(|block| block.contains("mcpServers"));
    let config: Value = serde_json::from_str(block.unwrap()).unwrap();
    let server = &config["mcpServers"]["decklog"];
    assert_eq!(server["command"], "decklog");
    let args: Vec<&str> = server["args"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it.as_str().unwrap())
        .collect();
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_decklog"));
    command.args(args).current_dir(dir.path());
    let mut client = Client::of(command);
    assert_eq!(client.greet()["serverInfo"]["name"], "decklog");
    client.end();
    assert!(dir.path().join("agent-log/decklog.json").exists());
}

#[test]
fn it_names_every_tool() {
    for name in decklog::mcp::Tools::all().names() {
        assert!(GUIDE.contains(&format!("`{name}`")), "{name}");
    }
}
