//! The check of `Host`. A web page can make its own name resolve to this machine (DNS rebinding), but
//! the browser still sends that name.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Maximum length of a name.
const NAME_BYTES_MAX: usize = 253;

/// A host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Host {
    /// In lower case.
    Name(String),
    Ip(IpAddr),
}

impl Host {
    /// Parses a name, an IPv4 address of four decimal numbers, or an IPv6 address in brackets. `None`
    /// for any other spelling.
    pub(super) fn parse(text: &str) -> Option<Host> {
        if let Some(rest) = text.strip_prefix('[') {
            let ip: Ipv6Addr = rest.strip_suffix(']')?.parse().ok()?;
            return Some(Host::Ip(ip.into()));
        }
        if let Ok(ip) = text.parse::<Ipv4Addr>() {
            return Some(Host::Ip(ip.into()));
        }
        let is_fit = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        let is_label = |label: &str| !label.is_empty() && label.bytes().all(is_fit);
        let is_name = text.len() <= NAME_BYTES_MAX && text.split('.').all(is_label);
        is_name.then(|| Host::Name(text.to_ascii_lowercase()))
    }

    /// Whether it is this machine, independent of name servers.
    fn is_loopback(&self) -> bool {
        match self {
            Host::Name(name) => name == "localhost",
            Host::Ip(ip) => ip.is_loopback(),
        }
    }
}

/// The value of `Host`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Authority {
    pub(super) host: Host,
    pub(super) port: Option<u16>,
}

impl Authority {
    pub(super) fn parse(text: &[u8]) -> Option<Authority> {
        let text = std::str::from_utf8(text).ok()?;
        let in_brackets = text.find(']').map_or(0, |at| at + 1);
        let (host, port) = match text[in_brackets..].find(':') {
            Some(colon) => {
                let (host, port) = text.split_at(in_brackets + colon);
                (host, Some(parse_port(&port[1..])?))
            }
            None => (text, None),
        };
        let host = Host::parse(host)?;
        Some(Authority { host, port })
    }
}

fn parse_port(text: &str) -> Option<u16> {
    // The parser would accept a sign, too.
    let are_digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| are_digits)
}

/// Why a request is not for this server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NotOurs {
    /// The host is missing, repeated, contradictory or cannot be parsed.
    Unclear,
    /// It is for another host.
    Other,
}

/// The names of this server.
#[derive(Debug)]
pub(super) struct Names {
    pub(super) bound: IpAddr,
    pub(super) allowed: Vec<Host>,
}

impl Names {
    /// Checks the `Host` headers of a request and the host in its first line, if any. The port may
    /// differ: a tunnel has its own.
    pub(super) fn check(
        &self,
        headers: &[&[u8]],
        target: Option<&str>,
    ) -> Result<Authority, NotOurs> {
        let [header] = headers else {
            return Err(NotOurs::Unclear);
        };
        let asked = Authority::parse(header).ok_or(NotOurs::Unclear)?;
        let target = target.map(|target| Authority::parse(target.as_bytes()));
        if target.is_some_and(|target| target.as_ref() != Some(&asked)) {
            return Err(NotOurs::Unclear);
        }
        let host = &asked.host;
        let is_bound = !self.bound.is_unspecified() && *host == Host::Ip(self.bound);
        if host.is_loopback() || is_bound || self.allowed.contains(host) {
            return Ok(asked);
        }
        Err(NotOurs::Other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(bound: &str, allowed: &[&str]) -> Names {
        let allowed = allowed.iter().map(|name| Host::parse(name).unwrap());
        Names {
            bound: bound.parse().unwrap(),
            allowed: allowed.collect(),
        }
    }

    #[test]
    fn this_machine_is_known_by_its_names_alone() {
        let names = names("127.0.0.1", &[]);
        for (host, expected) in [
            ("localhost", None),
            ("localhost:8084", None),
            ("LocalHost:8084", None),
            // A tunnel's.
            ("localhost:9000", None),
            ("127.0.0.1:8084", None),
            ("127.255.0.9", None),
            ("[::1]:8084", None),
            ("[0:0::1]", None),
            ("evil.com", Some(NotOurs::Other)),
            ("evil.com:8084", Some(NotOurs::Other)),
            ("localhost.evil.com", Some(NotOurs::Other)),
            ("127.0.0.1.evil.com:8084", Some(NotOurs::Other)),
            ("evil-localhost", Some(NotOurs::Other)),
            ("xlocalhost", Some(NotOurs::Other)),
            ("evil.localhost", Some(NotOurs::Other)),
            ("localhost.", Some(NotOurs::Unclear)),
            ("127.0.0.1.", Some(NotOurs::Unclear)),
            ("0x7f.1", Some(NotOurs::Other)),
            ("0x7f000001", Some(NotOurs::Other)),
            ("2130706433", Some(NotOurs::Other)),
            ("127.1", Some(NotOurs::Other)),
            ("0177.0.0.1", Some(NotOurs::Other)),
            ("0.0.0.0:8084", Some(NotOurs::Other)),
            ("[::]", Some(NotOurs::Other)),
            ("10.0.0.1", Some(NotOurs::Other)),
            ("[::ffff:127.0.0.1]", Some(NotOurs::Other)),
            ("[::1%25lo]", Some(NotOurs::Unclear)),
            ("::1", Some(NotOurs::Unclear)),
            ("[::1", Some(NotOurs::Unclear)),
            ("::1]", Some(NotOurs::Unclear)),
            ("[::1]evil.com", Some(NotOurs::Unclear)),
            ("evil.com[::1]", Some(NotOurs::Unclear)),
            ("[localhost]", Some(NotOurs::Unclear)),
            ("me@localhost", Some(NotOurs::Unclear)),
            ("me:8084@localhost", Some(NotOurs::Unclear)),
            ("localhost:8084@evil.com", Some(NotOurs::Unclear)),
            ("localhost/evil.com", Some(NotOurs::Unclear)),
            ("localhost#evil.com", Some(NotOurs::Unclear)),
            ("localhost\\evil.com", Some(NotOurs::Unclear)),
            ("http://localhost", Some(NotOurs::Unclear)),
            ("localhost:", Some(NotOurs::Unclear)),
            ("localhost:+80", Some(NotOurs::Unclear)),
            ("localhost:65536", Some(NotOurs::Unclear)),
            ("localhost:80:80", Some(NotOurs::Unclear)),
            ("localhost:http", Some(NotOurs::Unclear)),
            ("localhost, evil.com", Some(NotOurs::Unclear)),
            ("localhost evil.com", Some(NotOurs::Unclear)),
            (" localhost", Some(NotOurs::Unclear)),
            ("ⓛocalhost", Some(NotOurs::Unclear)),
            ("127。0。0。1", Some(NotOurs::Unclear)),
            ("*", Some(NotOurs::Unclear)),
            (".", Some(NotOurs::Unclear)),
            ("", Some(NotOurs::Unclear)),
            (":8084", Some(NotOurs::Unclear)),
            ("localhost\0", Some(NotOurs::Unclear)),
        ] {
            let found = names.check(&[host.as_bytes()], None);
            assert_eq!(found.err(), expected, "{host:?}");
        }
        let long = "a.".repeat(200) + "a";
        assert_eq!(names.check(&[long.as_bytes()], None), Err(NotOurs::Unclear));
        assert_eq!(
            names.check(&[b"local\xffhost"], None),
            Err(NotOurs::Unclear)
        );
    }

    #[test]
    fn it_is_said_once() {
        let names = names("127.0.0.1", &[]);
        let local: &[u8] = b"localhost:8084";
        assert_eq!(names.check(&[], None), Err(NotOurs::Unclear));
        assert_eq!(names.check(&[local, local], None), Err(NotOurs::Unclear));
        assert_eq!(
            names.check(&[local, b"evil.com"], None),
            Err(NotOurs::Unclear)
        );
        // As in `GET http://localhost:8084/ HTTP/1.1`.
        assert!(names.check(&[local], Some("localhost:8084")).is_ok());
        for target in [
            "evil.com",
            "localhost",
            "me@localhost:8084",
            "127.0.0.1:8084",
            "",
        ] {
            let found = names.check(&[local], Some(target));
            assert_eq!(found, Err(NotOurs::Unclear), "{target}");
        }
        let found = names.check(&[b"evil.com"], Some("evil.com"));
        assert_eq!(found, Err(NotOurs::Other));
        assert!(names.check(&[], Some("localhost:8084")).is_err());
    }

    #[test]
    fn what_it_is_bound_to_and_what_is_allowed_are_its_names() {
        let lan = names("192.168.1.5", &["Log.Example"]);
        for host in [
            "192.168.1.5:8084",
            "log.example",
            "LOG.EXAMPLE:443",
            "localhost",
        ] {
            assert!(lan.check(&[host.as_bytes()], None).is_ok(), "{host}");
        }
        for host in [
            "192.168.1.6",
            "example",
            "a.log.example",
            "log.example.evil.com",
        ] {
            let found = lan.check(&[host.as_bytes()], None);
            assert_eq!(found, Err(NotOurs::Other), "{host}");
        }
        let v6 = names("fd00::5", &[]);
        assert!(v6.check(&[b"[FD00:0::5]:8084"], None).is_ok());
        for everywhere in ["0.0.0.0", "::"] {
            let everywhere = names(everywhere, &[]);
            for host in ["0.0.0.0:8084", "[::]:8084", "192.168.1.5"] {
                let found = everywhere.check(&[host.as_bytes()], None);
                assert_eq!(found, Err(NotOurs::Other), "{host}");
            }
        }
    }
}
