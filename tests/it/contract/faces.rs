//! One store and every interface to it.

use std::io::Write as _;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::http::Service;
use crate::http::client::Client as Http;
use crate::mcp::client::Client as Mcp;

/// One store with every interface to it.
pub struct Faces {
    service: Service,
    pub http: Http,
    pub mcp: Mcp,
}

impl Faces {
    pub fn new() -> Faces {
        let service = Service::start();
        let http = service.client();
        let mcp = Mcp::legacy(service.store.path());
        Faces { service, http, mcp }
    }

    pub fn store(&self) -> &decklog::Store {
        &self.service.store
    }

    /// Runs the program on the store.
    pub fn run(&self, args: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_decklog"));
        command.args(args).env("DECKLOG_STORE", self.store().path());
        command.output().unwrap()
    }

    /// The JSON output of a command, which must succeed.
    #[track_caller]
    pub fn cli(&self, args: &[&str]) -> Vec<Value> {
        let args: Vec<&str> = args.iter().copied().chain(["--json"]).collect();
        let output = self.run(&args);
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{args:?}: {err}");
        let out = String::from_utf8(output.stdout).unwrap();
        let lines = out.lines();
        lines
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    /// The error message of a command, which must fail.
    #[track_caller]
    pub fn cli_fails(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert_ne!(output.status.code(), Some(0), "{args:?}");
        String::from_utf8(output.stderr).unwrap()
    }

    /// Whether a command accepts its standard input, and its output.
    pub fn cli_takes(&self, args: &[&str], input: &str) -> (bool, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_decklog"));
        command.args(args).env("DECKLOG_STORE", self.store().path());
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(input.as_bytes()).unwrap();
        drop(stdin);
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        (output.status.success(), said)
    }

    /// The data of a tool's answer, which must succeed.
    #[track_caller]
    pub fn tool(&mut self, tool: &str, arguments: Value) -> Value {
        let mut answer = self.mcp.call(tool, arguments);
        assert_eq!(answer["ok"], true, "{answer}");
        answer["data"].take()
    }

    /// The error of a tool's answer.
    #[track_caller]
    pub fn tool_fails(&mut self, tool: &str, arguments: Value) -> Value {
        let mut answer = self.mcp.call(tool, arguments);
        assert_eq!(answer["ok"], false, "{answer}");
        answer["error"].take()
    }
}
