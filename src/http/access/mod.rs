//! Host, Origin and token checks. A request must name this server in `Host`, must not come from a page
//! of another origin (by `Origin` and `Sec-Fetch` headers), and needs a token if the settings require
//! one. The rules are plain functions of headers; this module applies them.

mod caller;
mod cors;
mod host;
pub(super) mod login;
mod origin;

use std::net::{IpAddr, SocketAddr};

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header, uri};
use axum::response::{IntoResponse, Response};

pub(super) use self::caller::{COOKIE, OPEN};

use self::host::{Authority, Host, Names, NotOurs};
pub(super) use self::origin::From;
use self::origin::{Origin, Said};
use super::app::{App, Shared};
use super::problem::Problem;
use super::serve::Options;
use crate::access::Watch;
use crate::error::{Error, Result};
use crate::privacy::AccessRole;
use crate::store::Store;

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");

/// The state of the access checks.
pub(super) struct Gatekeeper {
    names: Names,
    origins: Vec<Origin>,
    is_tls: bool,
    /// Whether a token is required even if the settings change.
    always_asks: bool,
    watch: Watch,
}

impl Gatekeeper {
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for an address that other machines can reach
    /// if no token is required, and for invalid names and origins.
    pub(super) fn new(store: Store, addr: SocketAddr, options: &Options) -> Result<Gatekeeper> {
        let watch = Watch::new(store);
        check_bind(addr.ip(), watch.privacy()?.require_auth)?;
        let hosts = options.allow_hosts.iter().map(|text| {
            Host::parse(text).ok_or_else(|| {
                let message = format!("{text:?} is not a host: use a name or an address, without scheme and port, and an IPv6 address in brackets");
                Error::invalid(message)
            })
        });
        let origins = options.allow_origins.iter().map(|text| {
            Origin::parse(text.as_bytes()).ok_or_else(|| {
                let message = format!("{text:?} is not an origin: use the form https://app.example or http://localhost:3000, without a path");
                Error::invalid(message)
            })
        });
        Ok(Gatekeeper {
            names: Names {
                bound: addr.ip(),
                allowed: hosts.collect::<Result<_>>()?,
            },
            origins: origins.collect::<Result<_>>()?,
            is_tls: options.tls.is_some(),
            always_asks: !is_loopback(addr.ip()),
            watch,
        })
    }

    /// Writes the last uses of tokens, and the service's address while it listens.
    pub(super) fn write_uses(&self, url: &str, listens: bool) {
        if let Err(error) = self.watch.write_uses(url, listens) {
            tracing::debug!(%error, "the last uses of tokens were not written");
        }
    }

    /// Checks the source of a request.
    fn admit(&self, request: &Request) -> Result<From, Problem> {
        let headers = request.headers();
        let target = request.uri().authority().map(uri::Authority::as_str);
        let asked = self.names.check(&all(headers, &header::HOST), target);
        let asked: Authority = asked.map_err(|why| match why {
            NotOurs::Unclear => {
                Problem::bad_request("exactly one valid Host header is required").with_field("Host")
            }
            NotOurs::Other => {
                let detail = "the request is for another host: use localhost, or start the server with --allow-host NAME";
                let status = StatusCode::MISDIRECTED_REQUEST;
                Problem::new(status, "misdirected", detail).with_field("Host")
            }
        })?;
        let said = Said {
            origins: &all(headers, &header::ORIGIN),
            sites: &all(headers, &FETCH_SITE),
            mode: headers.get(FETCH_MODE).map(HeaderValue::as_bytes),
            dest: headers.get(FETCH_DEST).map(HeaderValue::as_bytes),
        };
        let from = origin::from(said, request.method(), &asked, self.is_tls, &self.origins);
        from.ok_or_else(|| {
            let detail = "the request comes from a page of another origin: to allow it, start the server with --allow-origin ORIGIN";
            Problem::new(StatusCode::FORBIDDEN, "cross_site", detail).with_field("Origin")
        })
    }

    /// The role of the client, if it may make the request; `None` for public requests.
    fn check_caller(&self, request: &Request, from: From) -> Result<Option<AccessRole>, Problem> {
        let needed = caller::needed(request.method(), request.uri().path());
        let role = needed.map(|needed| self.check_shown(needed, request.headers(), from));
        role.transpose()
    }

    /// The role of a request's credential, if any; also checked later, while it is being answered.
    /// If no token is required, every request has all rights.
    pub(super) fn check_shown(
        &self,
        needed: AccessRole,
        headers: &HeaderMap,
        from: From,
    ) -> Result<AccessRole, Problem> {
        let privacy = self.watch.privacy();
        let asks = match &privacy {
            Ok(privacy) => privacy.require_auth,
            // If the settings cannot be read, access is denied.
            Err(_) => self.watch.asked_for_token(),
        };
        if !asks && !self.always_asks {
            return privacy.map(|_| AccessRole::Admin).map_err(Problem::from);
        }
        let role = match caller::shown(headers, from) {
            Some((kind, shown)) => self.watch.role(kind, shown)?,
            None => None,
        };
        let role = role.ok_or_else(|| {
            let detail = "a token is required, in 'Authorization: Bearer dl_…': 'decklog token add' creates one, 'decklog token login' logs a browser in";
            Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", detail)
        })?;
        let privacy = privacy?;
        if !privacy.allowed_roles.contains(&role) {
            let detail = format!("the role {role} is not in privacy.allowed_roles");
            return Err(Problem::new(StatusCode::FORBIDDEN, "forbidden", detail));
        }
        if role < needed {
            let detail = format!("the role {role} is not sufficient: {needed} is required");
            return Err(Problem::new(StatusCode::FORBIDDEN, "forbidden", detail));
        }
        Ok(role)
    }
}

/// The caller, for long answers.
pub(super) struct Caller {
    pub(super) app: Shared,
    pub(super) headers: HeaderMap,
    pub(super) from: From,
}

impl Caller {
    /// Whether the token is still valid.
    pub(super) fn is_allowed(&self) -> bool {
        let keeper = &self.app.gatekeeper;
        let read = AccessRole::ReadOnly;
        keeper.check_shown(read, &self.headers, self.from).is_ok()
    }

    #[cfg(feature = "mcp")]
    pub(super) fn shower(&self) -> Shower {
        Shower::of(&self.headers, self.from)
    }
}

/// A client's credential, as a fingerprint that does not reveal it.
#[cfg(feature = "mcp")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shower(Option<[u8; 32]>);

#[cfg(feature = "mcp")]
impl Shower {
    pub(super) fn of(headers: &HeaderMap, from: From) -> Shower {
        use sha2::{Digest as _, Sha256};
        let shown = caller::shown(headers, from);
        Shower(shown.map(|(_, shown)| Sha256::digest(shown.as_bytes()).into()))
    }
}

/// Accepts or refuses a request.
pub(super) async fn guard<F: Future<Output = Response>>(
    app: &App,
    mut request: Request,
    next: impl FnOnce(Request) -> F,
) -> Response {
    let from = match app.gatekeeper.admit(&request) {
        Ok(from) => from,
        Err(problem) => return problem.into_response(),
    };
    let origin = request.headers().get(header::ORIGIN).cloned();
    let origin = origin.filter(|_| from == From::Allowed);
    if let Some(origin) = &origin
        && cors::is_preflight(&request)
    {
        return cors::preflight(origin);
    }
    let mut response = match app.gatekeeper.check_caller(&request, from) {
        Ok(role) => {
            request.extensions_mut().insert(from);
            #[cfg(feature = "mcp")]
            if let Some(role) = role {
                // The tools check it.
                request.extensions_mut().insert(crate::mcp::Caller(role));
            }
            #[cfg(not(feature = "mcp"))]
            let _ = role;
            next(request).await
        }
        Err(problem) => problem.into_response(),
    };
    if let Some(origin) = &origin {
        cors::allow(response.headers_mut(), origin);
    }
    response
}

fn all<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Vec<&'a [u8]> {
    let values = headers.get_all(name).iter();
    values.map(HeaderValue::as_bytes).collect()
}

/// Refuses to serve other machines without tokens.
///
/// # Errors
/// [`InvalidInput`](crate::ErrorKind::InvalidInput).
fn check_bind(ip: IpAddr, require_auth: bool) -> Result<()> {
    if require_auth || is_loopback(ip) {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "other machines can reach {ip}, and no token is required: set privacy.require_auth to true and create tokens, or listen on 127.0.0.1"
    )))
}

fn is_loopback(ip: IpAddr) -> bool {
    ip.to_canonical().is_loopback()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_is_served_without_a_token() {
        for (ip, is_local) in [
            ("127.0.0.1", true),
            ("127.3.2.1", true),
            ("::1", true),
            ("::ffff:127.0.0.1", true),
            ("0.0.0.0", false),
            ("::", false),
            ("192.168.1.5", false),
            ("::ffff:192.168.1.5", false),
            ("fe80::1", false),
        ] {
            let ip = ip.parse().unwrap();
            assert_eq!(check_bind(ip, false).is_ok(), is_local, "{ip}");
            assert!(check_bind(ip, true).is_ok());
        }
    }
}
