//! `decklog serve`

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use decklog::http::{Options, Server, Tls};
use decklog::{Durability, ErrorKind};

use super::context::Context;
use super::exit::{Exit, Failure};
use super::{log, output};

/// Serve the log over HTTP: capture, query and analytics, described at /openapi.json
///
/// Agents that embed the log and other commands may read and write it at the same time. SIGINT or
/// SIGTERM stops the server when all accepted records are written. SIGHUP reads the certificate and
/// the settings again.
#[cfg_attr(
    feature = "mcp",
    doc = "\n/mcp offers the same as `decklog mcp`, over streamable HTTP."
)]
#[derive(Debug, clap::Args)]
#[command(after_help = r#"Example:
  decklog serve &
  curl -s localhost:8084/conversations -H 'Content-Type: application/json' -d '{"client":"api"}'"#)]
pub struct Args {
    /// The address to listen on
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    host: IpAddr,
    /// The port to listen on; 0 for any free port
    #[arg(long, default_value_t = 8084)]
    port: u16,
    /// Another port, which receives only OTLP, or `off`; the main port receives OTLP too
    #[cfg(feature = "otlp")]
    #[arg(long, value_name = "PORT", value_parser = port_or_off)]
    otlp_port: Option<OtlpPort>,
    /// When a record is acknowledged, unless a request says otherwise
    #[arg(long, value_enum, default_value_t)]
    durability: Durability,
    /// The file of a certificate, in PEM; turns on TLS
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The file with the certificate's key, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Maximum memory for decompressed bodies of requests in flight, in MiB; requests beyond it are
    /// answered 503
    #[arg(long, value_name = "MIB", default_value_t = 128)]
    bodies_mib: usize,
    /// Another host name to accept, besides localhost and the address that the server listens on
    #[arg(long, value_name = "NAME")]
    allow_host: Vec<String>,
    /// An origin whose pages may send requests, such as https://app.example
    #[arg(long, value_name = "ORIGIN")]
    allow_origin: Vec<String>,
    #[cfg(feature = "mcp")]
    #[command(flatten)]
    tools: super::mcp::Offered,
    /// Log each request to standard error, without its content
    #[arg(long)]
    access_log: bool,
}

pub fn run(args: &Args, context: &mut Context) -> Result<Exit, Failure> {
    let level = if args.access_log { "info" } else { "warn" };
    log::start(level, context.json);
    #[cfg(unix)]
    allow_many_files();
    let mut options = Options::default();
    let tls = args.tls_cert.clone().zip(args.tls_key.clone());
    options.allow_hosts.clone_from(&args.allow_host);
    options.allow_origins.clone_from(&args.allow_origin);
    options.bodies_bytes_max = args.bodies_mib.saturating_mul(1 << 20);
    #[cfg(feature = "mcp")]
    {
        options.mcp_tools = args.tools.of(&decklog::mcp::Tools::all())?;
    }
    options.tls = tls.map(|(certificates, key)| Tls { certificates, key });
    let mut addr = SocketAddr::new(args.host, args.port);
    loop {
        let store = context.open_to_write(args.durability)?;
        #[cfg(feature = "otlp")]
        {
            options.otlp = otlp_addr(args);
        }
        let server = Server::bind(store, addr, &options)?;
        server.handle_signals()?;
        // With the real port if 0 was given.
        addr = server.local_addr();
        output::say(&format!("serving at {}", server.url()));
        #[cfg(feature = "otlp")]
        match server.otlp_addr() {
            Some(otlp) => output::say(&format!("receiving OTLP at {otlp}, too")),
            None if args.otlp_port.is_none() => {
                output::say(&format!(
                    "port {OTLP_PORT} is in use: receiving OTLP at {} only",
                    server.url()
                ));
            }
            None => {}
        }
        match server.run() {
            // A full disk may have space again.
            Err(e) if e.kind() == ErrorKind::Poisoned => output::say(&format!("opening anew: {e}")),
            ended => {
                ended?;
                return Ok(Exit::Ok);
            }
        }
    }
}

/// The port of OTLP over HTTP.
#[cfg(feature = "otlp")]
const OTLP_PORT: u16 = 4318;

#[cfg(feature = "otlp")]
#[derive(Debug, Clone, Copy)]
enum OtlpPort {
    Off,
    At(u16),
}

#[cfg(feature = "otlp")]
fn port_or_off(text: &str) -> Result<OtlpPort, String> {
    match text {
        "off" => Ok(OtlpPort::Off),
        _ => text
            .parse()
            .map(OtlpPort::At)
            .map_err(|_| "not a port from 0 to 65535, and not off".to_owned()),
    }
}

/// The address that receives only OTLP. The default port is left out if another program uses it.
#[cfg(feature = "otlp")]
fn otlp_addr(args: &Args) -> Option<SocketAddr> {
    match args.otlp_port {
        Some(OtlpPort::Off) => None,
        Some(OtlpPort::At(port)) => Some(SocketAddr::new(args.host, port)),
        None => {
            let addr = SocketAddr::new(args.host, OTLP_PORT);
            std::net::TcpListener::bind(addr).is_ok().then_some(addr)
        }
    }
}

/// Each connection takes a file descriptor, and the default soft limit is low.
#[cfg(unix)]
fn allow_many_files() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // With less, fewer connections are accepted at a time.
    let _ = setrlimit(Resource::Nofile, limit);
}
