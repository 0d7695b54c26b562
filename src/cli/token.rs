//! `decklog token`

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::time::Duration;

use clap::Subcommand;
use decklog::access::TokenInfo;
use decklog::privacy::AccessRole;
use decklog::{Durability, Store, Timestamp};
use serde::Serialize;

use super::context::Context;
use super::escape::one_line;
use super::exit::{Exit, Failure};
use super::get::missing;
use super::output::say;
use super::show::row;
use super::time::moment;

/// The default address of 'decklog serve'.
const DEFAULT_URL: &str = "http://127.0.0.1:8084";
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
const DAY_MS: i64 = 86_400_000;
/// A hundred years.
const DAYS_MAX: i64 = 36_525;

/// Create, list and revoke tokens for the HTTP service
///
/// 'decklog serve' requires one if privacy.require_auth is true, and accepts roles in
/// privacy.allowed_roles. A token is printed once, when it is created; access.json has its hash.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  decklog token add gateway --role developer --expires-days 90\n  decklog token login\n  decklog token list\n  decklog token revoke 1f3a5c7e"
)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Create a token and print it, only this once; creates the log if it does not exist
    Add {
        /// A name for the token, such as its user
        name: String,
        /// read-only reads, developer also records and changes, admin also erases
        #[arg(long, value_name = "ROLE")]
        role: AccessRole,
        /// Number of days until it expires. Default: it does not expire
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(1..=DAYS_MAX))]
        expires_days: Option<i64>,
    },
    /// List tokens, browser sessions and login codes
    List,
    /// Revoke one; a server refuses it at the next request
    Revoke {
        /// The id in 'decklog token list'
        id: String,
    },
    /// Print an address that logs one browser in, once, within ten minutes
    Login {
        /// The role of the browser
        #[arg(long, value_name = "ROLE", default_value = "developer")]
        role: AccessRole,
        /// The address of the service. Default: the service that runs on this log, else
        /// http://127.0.0.1:8084
        #[arg(long, value_name = "URL", value_parser = base)]
        url: Option<String>,
    },
}

/// A new token or login address, which is not shown again.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Secret<'a> {
    Token(&'a str),
    Url(&'a str),
}

/// A new token or code in `--json`.
#[derive(Serialize)]
struct Made<'a> {
    #[serde(flatten)]
    info: &'a TokenInfo,
    #[serde(flatten)]
    secret: Secret<'a>,
}

pub fn run(args: &Args, context: &mut Context) -> Result<Exit, Failure> {
    match &args.command {
        Command::Add {
            name,
            role,
            expires_days,
        } => {
            let expires_at = expires_days.map(|days| Timestamp::now().at() + days * DAY_MS);
            let store = context.open_to_write(Durability::Disk)?;
            let (token, info) = store.add_token(name, *role, expires_at)?;
            made(&store, &info, Secret::Token(token.as_str()), context)
        }
        Command::List => list(context),
        Command::Revoke { id } => {
            let store = context.open_to_change()?;
            let Some(info) = store.revoke_token(id)? else {
                return Ok(missing(format!("token {id}: 'decklog token list'")));
            };
            context.print(&info, &format!("revoked: {}", described(&info)))?;
            Ok(Exit::Ok)
        }
        Command::Login { role, url } => {
            let store = context.open_to_write(Durability::Disk)?;
            let url = url.clone().unwrap_or_else(|| served(&store));
            let (code, info) = store.add_login_code(*role)?;
            let url = format!("{url}/login?code={}", code.as_str());
            made(&store, &info, Secret::Url(&url), context)
        }
    }
}

/// Prints a new token or login address.
fn made(
    store: &Store,
    info: &TokenInfo,
    secret: Secret<'_>,
    context: &mut Context,
) -> Result<Exit, Failure> {
    let (text, note) = match secret {
        Secret::Token(token) => (token, described(info) + "; it is not shown again"),
        Secret::Url(url) => (
            url,
            "open it in a browser within ten minutes; it works once".to_owned(),
        ),
    };
    context.print(&Made { info, secret }, text)?;
    if !context.json {
        say(&note);
    }
    warn(store, info)
}

/// Warns if the token's role is not allowed, or if no token is required.
fn warn(store: &Store, info: &TokenInfo) -> Result<Exit, Failure> {
    let privacy = store.settings()?.privacy;
    let roles = &privacy.allowed_roles;
    if !roles.contains(&info.role) {
        let role = info.role;
        let allowed: Vec<&str> = roles.iter().map(|role| role.as_str()).collect();
        say(&format!(
            "the role {role} is not allowed: add it with 'decklog config set privacy.allowed_roles {},{role}'",
            allowed.join(",")
        ));
    }
    if !privacy.require_auth {
        say("no token is required yet: 'decklog config set privacy.require_auth true'");
    }
    Ok(Exit::Ok)
}

fn list(context: &mut Context) -> Result<Exit, Failure> {
    let tokens = TokenInfo::list(context.store_path()?)?;
    for info in &tokens {
        if context.json {
            context.out.json(info)?;
        } else {
            row(&mut context.out, &described(info))?;
        }
    }
    if tokens.is_empty() && !context.json {
        say("there are no tokens: 'decklog token add NAME --role ROLE' creates one");
    }
    Ok(Exit::Ok)
}

fn described(info: &TokenInfo) -> String {
    let until = match info.expires_at {
        Some(at) => format!("until {}", moment(at)),
        None => "until it is revoked".to_owned(),
    };
    let used = match info.last_used_at {
        Some(at) => format!("last used {}", moment(at)),
        None => "never used".to_owned(),
    };
    let (kind, role) = (info.kind.as_str(), info.role.as_str());
    let (id, name) = (one_line(&info.id), one_line(&info.name));
    let made = moment(info.created_at);
    format!("{id}  {kind:<7}  {role:<9}  {name}, made {made}, {used}, {until}")
}

/// The address of the service that runs on this log, or the default address.
fn served(store: &Store) -> String {
    let running = store.service_url().and_then(|url| {
        let (scheme, addr) = url.split_once("://")?;
        let mut addr: SocketAddr = addr.parse().ok()?;
        if addr.ip().is_unspecified() {
            addr.set_ip(match addr {
                SocketAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
                SocketAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
            });
        }
        TcpStream::connect_timeout(&addr, CONNECT_TIMEOUT).ok()?;
        Some(format!("{scheme}://{addr}"))
    });
    running.unwrap_or_else(|| {
        say("no service runs on this log: start one with 'decklog serve'");
        DEFAULT_URL.to_owned()
    })
}

/// Parses the address of a service, without the `/` at its end.
fn base(text: &str) -> Result<String, String> {
    let is_http = ["http://", "https://"].iter().any(|scheme| {
        text.strip_prefix(scheme)
            .is_some_and(|rest| !rest.is_empty() && !rest.starts_with('/'))
    });
    let is_plain = text.bytes().all(|byte| byte.is_ascii_graphic()) && !text.contains(['?', '#']);
    if is_http && is_plain {
        Ok(text.trim_end_matches('/').to_owned())
    } else {
        Err("not an address such as http://127.0.0.1:8084".to_owned())
    }
}
