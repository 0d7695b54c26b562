//! The log as a service over HTTP: gateways and editor extensions in any language post what they
//! see, and teams read it back. It runs over the same store that agents embed, and both may write
//! at once.
//!
//! Handlers only translate: what a record may say and what may follow it is decided in the
//! library. What is served is described at `/openapi.json`.
//!
//! ```no_run
//! use decklog::{Store, http::Server};
//! let store = Store::open("/var/lib/agent/log")?;
//! let server = Server::bind(store, "127.0.0.1:8084".parse().unwrap(), &Default::default())?;
//! eprintln!("at http://{}", server.local_addr());
//! server.run()?;
//! # Ok::<(), decklog::Error>(())
//! ```

mod access;
mod analytics;
mod app;
mod body;
mod calls;
mod conversations;
mod described;
mod doubt;
mod events;
mod health;
mod history;
mod impatient;
mod inbox;
#[cfg(feature = "mcp")]
mod mcp;
mod memory;
mod messages;
mod metrics;
mod pages;
mod params;
mod problem;
mod proposals;
mod puts;
mod records;
mod rejected;
mod routes;
mod search;
mod serve;
mod stream;
mod syncer;
mod thoughts;
mod tls;
#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod trim;
mod turns;
mod unqueried;

pub use serve::{Options, Server, Stop, Tls};
