//! The role that a request needs, and its credential.

use axum::http::{HeaderMap, Method, header};

use super::origin::From;
use crate::access::TokenKind;
use crate::privacy::AccessRole;

/// The session cookie of a browser.
pub(in crate::http) const COOKIE: &str = "decklog_session";

/// Public requests: health, the description of the API, and login.
pub(in crate::http) const OPEN: [&str; 4] =
    ["/healthz", "/readyz", "/openapi.json", super::login::PATH];

/// The role that a request needs; `None` if it needs none.
pub(super) fn needed(method: &Method, path: &str) -> Option<AccessRole> {
    if OPEN.contains(&path) {
        return None;
    }
    #[cfg(feature = "page")]
    if crate::http::page::FILES.contains(&path) {
        return None;
    }
    // Each tool checks the role it requires.
    #[cfg(feature = "mcp")]
    if path == crate::http::mcp::PATH {
        return Some(AccessRole::ReadOnly);
    }
    Some(match *method {
        Method::GET | Method::HEAD | Method::OPTIONS => AccessRole::ReadOnly,
        Method::POST | Method::PATCH => AccessRole::Developer,
        // Erasure, and unknown methods.
        _ => AccessRole::Admin,
    })
}

/// The credential of a request: the bearer token, or the cookie unless a page of another origin
/// sends it. `None` if there is none, or none that can be parsed.
pub(super) fn shown(headers: &HeaderMap, from: From) -> Option<(TokenKind, &str)> {
    let mut given = headers.get_all(header::AUTHORIZATION).iter();
    if let Some(one) = given.next() {
        let (scheme, token) = one.to_str().ok()?.split_once(' ')?;
        let is_bearer = scheme.eq_ignore_ascii_case("bearer") && given.next().is_none();
        return is_bearer.then_some((TokenKind::Token, token.trim()));
    }
    if from == From::Allowed {
        return None;
    }
    let cookies = headers.get_all(header::COOKIE).iter();
    let mut cookies = cookies
        .filter_map(|it| it.to_str().ok())
        .flat_map(|it| it.split(';'));
    let session = cookies.find_map(|it| it.trim().strip_prefix(COOKIE)?.strip_prefix('='))?;
    Some((TokenKind::Session, session))
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderName, HeaderValue};

    use super::*;

    #[test]
    fn what_is_not_known_needs_the_most() {
        use AccessRole::{Admin, Developer, ReadOnly};
        for (method, path, expected) in [
            ("GET", "/conversations", Some(ReadOnly)),
            ("HEAD", "/metrics", Some(ReadOnly)),
            ("POST", "/conversations", Some(Developer)),
            ("PATCH", "/conversations/x", Some(Developer)),
            ("DELETE", "/conversations/x", Some(Admin)),
            ("PUT", "/conversations/x", Some(Admin)),
            ("ERASE", "/", Some(Admin)),
            ("GET", "/", Some(ReadOnly)),
            ("GET", "/healthz", None),
            ("GET", "/readyz", None),
            ("GET", "/openapi.json", None),
            ("GET", "/login", None),
            ("GET", "/healthz/", Some(ReadOnly)),
            ("GET", "/HEALTHZ", Some(ReadOnly)),
            ("GET", "//healthz", Some(ReadOnly)),
            ("GET", "/%68ealthz", Some(ReadOnly)),
            ("GET", "/healthz/../conversations", Some(ReadOnly)),
            ("GET", "/login;x", Some(ReadOnly)),
        ] {
            let method = Method::from_bytes(method.as_bytes()).unwrap();
            assert_eq!(needed(&method, path), expected, "{method} {path}");
        }
    }

    fn given(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pairs = pairs.iter().map(|(name, value)| {
            let value = HeaderValue::from_bytes(value.as_bytes()).unwrap();
            (HeaderName::from_static(name), value)
        });
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(name, value);
        }
        headers
    }

    #[test]
    fn the_bearer_comes_before_the_cookie() {
        let session = ("cookie", "theme=dark; decklog_session=s; x=y");
        for (headers, expected) in [
            (&[][..], None),
            (
                &[("authorization", "Bearer t")],
                Some((TokenKind::Token, "t")),
            ),
            (
                &[("authorization", "bearer   t ")],
                Some((TokenKind::Token, "t")),
            ),
            (
                &[("authorization", "Bearer t"), session],
                Some((TokenKind::Token, "t")),
            ),
            (&[session], Some((TokenKind::Session, "s"))),
            (
                &[("cookie", "a=b"), session],
                Some((TokenKind::Session, "s")),
            ),
            (
                &[("cookie", "decklog_session=")],
                Some((TokenKind::Session, "")),
            ),
            (&[("cookie", "xdecklog_session=s")], None),
            (&[("cookie", "decklog_sessions=s")], None),
            (&[("cookie", "decklog_session")], None),
            (&[("cookie", "decklog_session=é")], None),
            (&[("authorization", "Basic t"), session], None),
            (&[("authorization", "Bearer"), session], None),
            (&[("authorization", "Bearer é"), session], None),
            (&[("authorization", ""), session], None),
            (
                &[("authorization", "Bearer t"), ("authorization", "Bearer t")],
                None,
            ),
        ] {
            assert_eq!(shown(&given(headers), From::Here), expected, "{headers:?}");
        }
        let headers = given(&[session]);
        assert_eq!(shown(&headers, From::Allowed), None);
        let headers = given(&[("authorization", "Bearer t"), session]);
        assert_eq!(
            shown(&headers, From::Allowed),
            Some((TokenKind::Token, "t"))
        );
    }
}
