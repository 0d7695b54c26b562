//! The HTTP service, tested over real sockets.

mod access;
mod bad_input;
mod calls;
pub mod client;
mod conversations;
mod described;
mod events;
#[cfg(target_os = "linux")]
mod full;
mod guide;
mod history;
mod inbox;
#[cfg(unix)]
mod kills;
#[cfg(feature = "mcp")]
mod mcp;
mod memory;
mod metrics;
#[cfg(all(unix, feature = "otlp"))]
mod otlp;
#[cfg(feature = "page")]
mod page;
#[cfg(unix)]
mod process;
mod proposals;
mod records;
#[cfg(unix)]
mod shutdown;
mod sites;
mod slow;
mod sse;
#[cfg(target_os = "linux")]
mod stalls;
mod stream;
mod thoughts;
mod tls;
mod turns;
mod wire;

use std::net::SocketAddr;
use std::thread::JoinHandle;

use decklog::Store;
use decklog::http::{Options, Server, Stop};

use client::Client;

use crate::support::still;

/// A server in this process, with its own store.
pub struct Service {
    addr: SocketAddr,
    stop: Stop,
    thread: Option<JoinHandle<()>>,
    /// Another handle on the served store, like an agent that embeds the log.
    pub store: Store,
    _dir: tempfile::TempDir,
}

impl Service {
    pub fn start() -> Service {
        Service::with(&Options::default())
    }

    fn with(options: &Options) -> Service {
        Service::serving(options, |server| server)
    }

    /// A service whose server is changed before it runs.
    fn serving(options: &Options, change: impl FnOnce(Server) -> Server) -> Service {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let served = still().open(&path).unwrap();
        let server = Server::bind(served, "127.0.0.1:0".parse().unwrap(), options).unwrap();
        let server = change(server);
        let (addr, stop) = (server.local_addr(), server.stop_handle());
        let thread = std::thread::spawn(move || server.run().unwrap());
        Service {
            addr,
            stop,
            thread: Some(thread),
            store: still().open(&path).unwrap(),
            _dir: dir,
        }
    }

    /// Stops the server, and waits for its end.
    fn end(&mut self) {
        self.stop.stop();
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            if !std::thread::panicking() {
                ended.unwrap();
            }
        }
    }

    pub fn client(&self) -> Client {
        Client::new(self.addr)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.end();
    }
}
