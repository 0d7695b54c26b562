//! The check of a request's origin. A page of another origin can make the browser send any request
//! here, but the browser states the origin.

use axum::http::Method;

use super::host::{Authority, Host};

/// A page's origin, as a browser names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Origin {
    is_tls: bool,
    host: Host,
    port: u16,
}

impl Origin {
    /// The origin of this server under this name.
    fn of(asked: &Authority, is_tls: bool) -> Origin {
        let usual = if is_tls { 443 } else { 80 };
        Origin {
            is_tls,
            host: asked.host.clone(),
            port: asked.port.unwrap_or(usual),
        }
    }

    /// Parses `https://host:port`, and nothing longer.
    pub(super) fn parse(text: &[u8]) -> Option<Origin> {
        let text = std::str::from_utf8(text).ok()?;
        let (scheme, rest) = text.split_once("://")?;
        let is_tls = match &*scheme.to_ascii_lowercase() {
            "http" => false,
            "https" => true,
            _ => return None,
        };
        Some(Origin::of(&Authority::parse(rest.as_bytes())?, is_tls))
    }
}

/// The source of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::http) enum From {
    /// A page of this server, or not a page.
    Here,
    /// A page of an allowed origin.
    Allowed,
}

/// The headers of a browser about the source of a request.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Said<'a> {
    /// Each `Origin` header.
    pub(super) origins: &'a [&'a [u8]],
    /// Each `Sec-Fetch-Site` header.
    pub(super) sites: &'a [&'a [u8]],
    /// `Sec-Fetch-Mode`.
    pub(super) mode: Option<&'a [u8]>,
    /// `Sec-Fetch-Dest`.
    pub(super) dest: Option<&'a [u8]>,
}

/// The source of a request; `None` for another origin.
pub(super) fn from(
    said: Said<'_>,
    method: &Method,
    asked: &Authority,
    is_tls: bool,
    allowed: &[Origin],
) -> Option<From> {
    let from = match said.origins {
        [] => From::Here,
        [one] => {
            let origin = Origin::parse(one)?;
            if origin == Origin::of(asked, is_tls) {
                From::Here
            } else if allowed.contains(&origin) {
                From::Allowed
            } else {
                return None;
            }
        }
        _ => return None,
    };
    let is_fit = match said.sites {
        [] | [b"same-origin" | b"none"] => true,
        // A followed link: no page can read the answer.
        [_] if from == From::Here => {
            let is_page = said.mode == Some(b"navigate") && said.dest == Some(b"document");
            is_page && *method == Method::GET && said.origins.is_empty()
        }
        [_] => true,
        _ => false,
    };
    is_fit.then_some(from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(host: &str) -> Authority {
        Authority::parse(host.as_bytes()).unwrap()
    }

    #[test]
    fn only_pages_of_ones_own_write() {
        let asked = asked("localhost:8084");
        for (origin, is_fit) in [
            ("http://localhost:8084", true),
            ("HTTP://LOCALHOST:8084", true),
            ("http://localhost:3000", false),
            ("http://localhost", false),
            ("https://localhost:8084", false),
            ("http://127.0.0.1:8084", false),
            ("http://[::1]:8084", false),
            ("http://evil.com", false),
            ("http://evil.com:8084", false),
            ("http://localhost.evil.com:8084", false),
            ("http://localhost:8084.evil.com", false),
            ("http://localhost.:8084", false),
            ("http://evil.com@localhost:8084", false),
            ("http://localhost:8084@evil.com", false),
            ("http://localhost:8084/", false),
            ("http://localhost:8084?", false),
            ("http://localhost:8084 http://evil.com", false),
            ("http://localhost:8084,http://evil.com", false),
            ("file://", false),
            ("file://localhost:8084", false),
            ("chrome-extension://abcdef", false),
            ("null", false),
            ("NULL", false),
            ("", false),
            ("*", false),
            ("localhost:8084", false),
            ("//localhost:8084", false),
            ("http://ⓛocalhost:8084", false),
        ] {
            for method in [
                Method::GET,
                Method::HEAD,
                Method::POST,
                Method::DELETE,
                Method::OPTIONS,
            ] {
                let said = Said {
                    origins: &[origin.as_bytes()],
                    ..Said::default()
                };
                let found = from(said, &method, &asked, false, &[]);
                assert_eq!(found, is_fit.then_some(From::Here), "{method} {origin:?}");
            }
        }
        let own: &[u8] = b"http://localhost:8084";
        for origins in [
            &[own, own][..],
            &[own, b"http://evil.com"],
            &[b"http://loc\xe4l"],
        ] {
            let said = Said {
                origins,
                ..Said::default()
            };
            assert_eq!(from(said, &Method::GET, &asked, false, &[]), None);
        }
    }

    #[test]
    fn a_port_may_go_without_saying() {
        for (host, is_tls, origin, is_fit) in [
            ("log.example", true, "https://log.example", true),
            ("log.example", true, "https://log.example:443", true),
            ("log.example:443", true, "https://log.example", true),
            ("log.example", true, "http://log.example", false),
            ("log.example", false, "http://log.example:80", true),
            ("log.example", false, "http://log.example:443", false),
            ("log.example:443", false, "https://log.example", false),
        ] {
            let said = Said {
                origins: &[origin.as_bytes()],
                ..Said::default()
            };
            let found = from(said, &Method::POST, &asked(host), is_tls, &[]);
            assert_eq!(found.is_some(), is_fit, "{host} {origin}");
        }
    }

    #[test]
    fn a_site_that_is_allowed_is_known_as_such() {
        let allowed = [Origin::parse(b"https://app.example").unwrap()];
        let asked = asked("localhost:8084");
        let at = |origin: &'static [u8], sites: &[&[u8]]| {
            let origins = [origin];
            let said = Said {
                origins: &origins,
                sites,
                mode: Some(b"cors"),
                dest: Some(b"empty"),
            };
            from(said, &Method::POST, &asked, false, &allowed)
        };
        assert_eq!(
            at(b"https://app.example", &[b"cross-site"]),
            Some(From::Allowed)
        );
        assert_eq!(at(b"https://app.example", &[]), Some(From::Allowed));
        assert_eq!(at(b"https://app.example", &[b"cross-site", b"none"]), None);
        for other in [
            &b"http://app.example"[..],
            b"https://app.example:444",
            b"https://b.app.example",
        ] {
            assert_eq!(at(other, &[b"cross-site"]), None);
        }
        // If this were the allowed site, the `Origin` header would be present.
        let said = Said {
            sites: &[b"cross-site"],
            mode: Some(b"no-cors"),
            dest: Some(b"image"),
            ..Said::default()
        };
        assert_eq!(from(said, &Method::GET, &asked, false, &allowed), None);
    }

    #[test]
    fn of_other_sites_a_link_can_be_followed() {
        let asked = asked("localhost:8084");
        let at = |method: Method, site: &'static [u8], mode: &'static [u8], dest: &'static [u8]| {
            let said = Said {
                origins: &[],
                sites: &[site],
                mode: Some(mode),
                dest: Some(dest),
            };
            from(said, &method, &asked, false, &[]).is_some()
        };
        for site in [&b"cross-site"[..], b"same-site", b"", b"something-new"] {
            assert!(at(Method::GET, site, b"navigate", b"document"));
            assert!(!at(Method::POST, site, b"navigate", b"document"));
            assert!(!at(Method::HEAD, site, b"navigate", b"document"));
            for (mode, dest) in [
                (&b"navigate"[..], &b"iframe"[..]),
                (b"navigate", b"object"),
                (b"no-cors", b"image"),
                (b"no-cors", b"script"),
                (b"cors", b"empty"),
                (b"websocket", b"websocket"),
                (b"", b"document"),
            ] {
                assert!(!at(Method::GET, site, mode, dest));
            }
        }
        for site in [&b"same-origin"[..], b"none"] {
            for method in [Method::GET, Method::POST, Method::DELETE] {
                assert!(at(method, site, b"cors", b"empty"));
            }
        }
        let said = Said {
            sites: &[b"none", b"none"],
            ..Said::default()
        };
        assert_eq!(from(said, &Method::GET, &asked, false, &[]), None);
        assert_eq!(
            from(Said::default(), &Method::DELETE, &asked, false, &[]),
            Some(From::Here)
        );
    }
}
