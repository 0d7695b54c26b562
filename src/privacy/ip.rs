//! IP addresses that may belong to a person. Loopback addresses, networks and version numbers,
//! which look alike, are not reported.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::Found;
use super::bytes::{contains, is_digit, run, run_before, trim_end};
use super::text::starts_word;

/// The name in a placeholder.
const NAME: &str = "ip_address";

fn is_label(before: &[u8]) -> bool {
    const LABELS: [&[u8]; 11] = [
        b"ip",
        b"addr",
        b"address",
        b"host",
        b"client",
        b"remote",
        b"from",
        b"peer",
        b"src",
        b"dst",
        b"forwarded-for",
    ];
    let is_sign = |byte| b":=\"' \\[(".contains(&byte);
    let label = &before[..before.len() - run_before(before, before.len(), 8, is_sign)];
    let label = label[label.len().saturating_sub(16)..].to_ascii_lowercase();
    LABELS.iter().any(|known| {
        let start = label.len().wrapping_sub(known.len());
        label.ends_with(known) && (start == 0 || !label[start - 1].is_ascii_alphabetic())
    })
}

/// The IPv4 address whose first digit is at `at`.
pub(super) fn v4(text: &[u8], at: usize) -> Option<Found> {
    /// Words before a version number.
    const ENDS: [&str; 7] = [" v", "ver", "ver.", "release", "rev", "section", "build"];
    let (octets, end) = octets(text, at)?;
    let before = &text[..at];
    let last = before.last().copied().unwrap_or(b' ');
    // `chrome/120.1.2.3` is a version, and `http://120.1.2.3` is an address.
    let begins = match last {
        b'/' => before.ends_with(b"//") || before.ends_with(b"\\/"),
        b'.' | b'-' | b'_' | b'+' | b'~' | b'^' | b'<' | b'>' | b'$' | b'#' => false,
        b'@' => !before.ends_with(b" @"),
        b'=' => !before.ends_with(b"=="),
        _ => !last.is_ascii_alphanumeric() || starts_word(text, at),
    };
    let next = |place: usize| text.get(end + place).copied().unwrap_or(b' ');
    let ends = match next(0) {
        b'.' | b'-' => !next(1).is_ascii_alphanumeric(),
        // A network, unless it consists of a single address.
        b'/' => !next(1).is_ascii_digit() || text[end..].starts_with(b"/32"),
        other => !other.is_ascii_alphanumeric() && other != b'_',
    };
    let is_local = match octets {
        [0 | 127 | 224..=255, ..] | [169, 254, ..] | [.., 0] => true,
        // Public name servers.
        octets => [[1, 1, 1, 1], [8, 8, 8, 8], [8, 8, 4, 4]].contains(&octets),
    };
    let is_version = || {
        let word = before[before.len().saturating_sub(24)..].to_ascii_lowercase();
        let word = word.trim_ascii_end();
        contains(word, b"version") || ENDS.iter().any(|end| word.ends_with(end.as_bytes()))
    };
    let is_small = octets.iter().all(|octet| *octet < 32);
    let has_port = next(0) == b':' && next(1).is_ascii_digit();
    let is_address = has_port || is_label(before) || !is_small && !is_version();
    (begins && ends && !is_local && is_address).then(|| Found::new(NAME, at, end))
}

/// Four numbers up to 255 separated by full stops, and the end of the last.
fn octets(text: &[u8], at: usize) -> Option<([u8; 4], usize)> {
    const LAST_AT_MAX: usize = "255.255.255.".len();
    let near = &text[at..text.len().min(at + LAST_AT_MAX)];
    let (last_stop, _) = near.iter().enumerate().filter(|it| *it.1 == b'.').nth(2)?;
    let last = at + last_stop + 1;
    let end = last + run(text, last, 4, is_digit);
    let address: Ipv4Addr = std::str::from_utf8(&text[at..end]).ok()?.parse().ok()?;
    Some((address.octets(), end))
}

/// The IPv6 address whose first group ends at `colon`. Only allocated and private ranges count.
pub(super) fn v6(text: &[u8], colon: usize) -> Option<Found> {
    const ADDRESS_BYTES_MAX: usize = 46;
    let at = colon.checked_sub(4)?;
    let is_given = matches!(
        text[at..colon],
        [b'2' | b'3', ..] | [b'f' | b'F', b'c' | b'C' | b'd' | b'D', ..]
    );
    if !is_given {
        return None;
    }
    let near = &text[at..text.len().min(at + ADDRESS_BYTES_MAX)];
    let is_of_address = |byte: u8| byte.is_ascii_hexdigit() || matches!(byte, b':' | b'.');
    let len = run(near, 0, usize::MAX, is_of_address);
    // `2001:db8::` is a network.
    let address = trim_end(&near[..len], |byte| matches!(byte, b':' | b'.'));
    let kept = address.len();
    let address: Ipv6Addr = std::str::from_utf8(address).ok()?.parse().ok()?;
    let begins = at == 0
        || !text[at - 1].is_ascii_alphanumeric()
            && !matches!(text[at - 1], b':' | b'_' | b'.' | b'-')
        || starts_word(text, at);
    let next = |place: usize| text.get(at + kept + place).copied().unwrap_or(b' ');
    let is_network = next(0) == b'/' && next(1).is_ascii_digit() && next(3) != b'8';
    let ends = !next(0).is_ascii_alphanumeric() && next(0) != b'_' && !is_network;
    // In some languages `2000::2` is part of a list.
    let groups = address.segments().into_iter().filter(|group| *group > 0);
    let has_letter = text[at..at + kept].iter().any(u8::is_ascii_alphabetic);
    (begins && ends && (groups.count() > 2 || has_letter)).then(|| Found::new(NAME, at, at + kept))
}
