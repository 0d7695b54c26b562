//! `decklog serve` as a separate process.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use super::client::Client;
use crate::support::Kid;

pub struct Process {
    pub kid: Kid,
    pub addr: SocketAddr,
    /// Standard error since the server started to listen.
    said: Arc<Mutex<String>>,
    /// Ends when standard error does.
    listens: JoinHandle<()>,
}

impl Process {
    pub fn start(store: &Path, port: u16) -> Process {
        let program = Command::new(env!("CARGO_BIN_EXE_decklog"));
        Process::start_by(program, store, port)
    }

    /// Starts it with a command to which the arguments are added.
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
        let mut stderr = BufReader::new(kid.0.stderr.take().unwrap());
        let mut line = String::new();
        while !line.contains("serving at http") {
            line.clear();
            assert_ne!(stderr.read_line(&mut line).unwrap(), 0, "it does not serve");
        }
        let (_, addr) = line.trim().split_once("://").unwrap();
        let addr = addr.parse().unwrap();
        // So that the server never blocks on its standard error.
        let said = Arc::new(Mutex::new(String::new()));
        let heard = Arc::clone(&said);
        let listens = std::thread::spawn(move || {
            let mut line = Vec::new();
            while stderr.read_until(b'\n', &mut line).is_ok_and(|len| len > 0) {
                *heard.lock().unwrap() += &String::from_utf8_lossy(&line);
                line.clear();
            }
        });
        Process {
            kid,
            addr,
            said,
            listens,
        }
    }

    /// Its standard error since it started to listen.
    pub fn said(&self) -> String {
        self.said.lock().unwrap().clone()
    }

    pub fn client(&self) -> Client {
        Client::new(self.addr)
    }

    pub fn kill(&mut self) {
        self.kid.0.kill().unwrap();
        self.kid.0.wait().unwrap();
    }

    /// Stops it, and waits for a successful end. Returns its standard error since it started to
    /// listen.
    pub fn end(mut self) -> String {
        self.kid.signal("TERM");
        let status = self.kid.0.wait().unwrap();
        assert!(status.success(), "{status}");
        self.listens.join().unwrap();
        std::mem::take(&mut *self.said.lock().unwrap())
    }
}
