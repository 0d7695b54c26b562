//! `decklog serve` as a process of its own.

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::JoinHandle;

use super::client::Client;
use crate::support::Kid;

pub struct Process {
    pub kid: Kid,
    pub addr: SocketAddr,
    /// What it said on its standard error since it serves.
    said: JoinHandle<String>,
}

impl Process {
    pub fn start(store: &Path, port: u16) -> Process {
        let program = Command::new(env!("CARGO_BIN_EXE_decklog"));
        Process::start_by(program, store, port)
    }

    /// By a command that runs it, with what follows.
    pub fn start_by(command: Command, store: &Path, port: u16) -> Process {
        Process::start_with(command, store, port, |_| ())
    }

    /// As [`start_by`](Self::start_by), with more options.
    pub fn start_with(
        mut command: Command,
        store: &Path,
        port: u16,
        more: impl FnOnce(&mut Command),
    ) -> Process {
        command.args(["serve", "--port", &port.to_string(), "--store"]);
        command
            .arg(store)
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        more(&mut command);
        let mut kid = Kid(command.spawn().unwrap());
        let mut said = BufReader::new(kid.0.stderr.take().unwrap());
        let mut line = String::new();
        while !line.contains("serving at http") {
            line.clear();
            assert_ne!(said.read_line(&mut line).unwrap(), 0, "it does not serve");
        }
        let (_, addr) = line.trim().split_once("://").unwrap();
        let addr = addr.parse().unwrap();
        // So that it never waits for who reads what it says.
        let said = std::thread::spawn(move || {
            let mut text = Vec::new();
            let _ = said.read_to_end(&mut text);
            String::from_utf8_lossy(&text).into_owned()
        });
        Process { kid, addr, said }
    }

    pub fn client(&self) -> Client {
        Client::new(self.addr)
    }

    pub fn kill(&mut self) {
        self.kid.0.kill().unwrap();
        self.kid.0.wait().unwrap();
    }

    /// Asks it to end, and waits for it; that it ended well. What it said since it serves.
    pub fn end(mut self) -> String {
        self.kid.signal("TERM");
        let status = self.kid.0.wait().unwrap();
        assert!(status.success(), "{status}");
        self.said.join().unwrap()
    }
}
