//! The log as an HTTP service, for gateways and editor extensions in any language. It uses the same
//! store that agents embed, and both can write at the same time.
//!
//! Handlers only translate: the rules of records are in the library. `/openapi.json` describes the
//! service.
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
mod coding;
mod conversations;
mod described;
mod doubt;
mod events;
mod health;
mod history;
mod impatient;
mod inbox;
mod long;
#[cfg(feature = "mcp")]
mod mcp;
mod memory;
mod messages;
mod metrics;
#[cfg(feature = "otlp")]
mod otlp;
#[cfg(feature = "page")]
mod page;
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
