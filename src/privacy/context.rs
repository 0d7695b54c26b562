//! Secrets that are recognized by their context: headers, URLs with passwords, command lines.

pub(super) use super::assignment::assignments;
pub(super) use super::blocks::{encoded_key, private_key};
pub(super) use super::commands::{
    basic_auth_password, curl_password, driver_password, identified_by, option_password,
    oracle_password, pgpass_password,
};

use super::Found;
use super::bytes::{
    contains, ends_in, ends_url, is_alnum, is_digit, is_of_name, is_token68, run, run_before,
};
use super::runs::{Class, Runs};
use super::text::{is_random, starts_word};
use super::values::{is_named, stands_for_password};

/// An occurrence of an anchor in a text.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub text: &'a [u8],
    pub runs: &'a Runs<'a>,
    pub at: usize,
    /// Offset of the first byte after the anchor.
    pub after: usize,
    /// The text is JSON whose strings are not decoded yet. The caller only asks whether the text
    /// may contain a finding.
    pub is_raw: bool,
}

impl Place<'_> {
    /// Length of the run of bytes of a class from `from` on. The class must not contain an anchor
    /// of the calling rule; otherwise the run is scanned again for each anchor. See `short_run` and
    /// `Runs`.
    fn run(&self, from: usize, class: fn(u8) -> bool) -> usize {
        run(self.text, from, usize::MAX, class)
    }

    /// Like `run`, but stops after `most + 1` bytes.
    fn short_run(&self, from: usize, most: usize, class: fn(u8) -> bool) -> usize {
        run(self.text, from, most + 1, class)
    }

    /// Number of bytes of a class directly before `until`, at most `most`.
    fn run_before(&self, until: usize, most: usize, class: fn(u8) -> bool) -> usize {
        run_before(self.text, until, most, class)
    }

    /// Whether these letters, in either case, are directly before the anchor.
    pub(super) fn follows(&self, letters: &[u8]) -> bool {
        ends_in(&self.text[..self.at], letters)
    }

    fn slice(&self, start: usize, end: usize) -> &[u8] {
        self.text.get(start..end).unwrap_or_default()
    }
}

/// A JSON Web Token, signed, unsigned or encrypted: base64 parts, the first of which is JSON.
pub(super) fn jwt(place: &Place<'_>) -> Option<Found> {
    const HEADER_BYTES_MIN: usize = 12;
    const PART_MAX: usize = 5;
    let Place { text, at, runs, .. } = *place;
    if !starts_word(text, at) {
        return None;
    }
    let header_end = runs.end(Class::Dashed, at);
    if header_end - at < HEADER_BYTES_MIN {
        return None;
    }
    // Offsets where the parts end. A full stop that ends a sentence is followed by an empty part.
    let (mut ends, mut parts) = ([header_end; PART_MAX], 1);
    while parts < PART_MAX && text.get(ends[parts - 1]) == Some(&b'.') {
        ends[parts] = runs.end(Class::Dashed, ends[parts - 1] + 1);
        parts += 1;
    }
    let bytes = |end: usize| end - header_end - 1;
    let is_encrypted = parts == PART_MAX
        && ends[PART_MAX - 1] > ends[PART_MAX - 2] + 1
        && bytes(ends[PART_MAX - 1]) >= 40;
    let end = if is_encrypted {
        ends[PART_MAX - 1]
    } else {
        // A JSON part, then an optional signature.
        let end = *ends[..parts].get(2).or(ends[..parts].get(1))?;
        let payload = place.slice(header_end + 1, end);
        let is_json = matches!(
            payload,
            [b'e', b'y', b'J' | b'A', ..] | [b'e', b'w', b'o' | b'0', ..]
        );
        let is_signed = is_json && bytes(end) > 16;
        is_signed.then_some(end)?
    };
    Some(Found::new(
        "jwt",
        at,
        end - usize::from(text[end - 1] == b'.'),
    ))
}

/// Terraform tokens: an id, `.atlasv1.` and the secret.
pub(super) fn terraform_token(place: &Place<'_>) -> Option<Found> {
    let id = place.run_before(place.at, 15, is_alnum);
    let body = place.short_run(place.after, 80, is_of_name);
    let start = place.at - id;
    let is_token = id == 14 && (56..=80).contains(&body) && starts_word(place.text, start);
    is_token.then(|| Found::new("terraform_token", start, place.after + body))
}

/// 32 hex digits and the data center, for example `-us12`.
pub(super) fn mailchimp_key(place: &Place<'_>) -> Option<Found> {
    let hex = place.run_before(place.at, 33, |byte| byte.is_ascii_hexdigit());
    let digits = place.short_run(place.after, 2, is_digit);
    let (start, end) = (place.at - hex, place.after + digits);
    let ends = place.text.get(end).is_none_or(|byte| !is_of_name(*byte));
    let is_key = hex == 32
        && (1..=2).contains(&digits)
        && ends
        && starts_word(place.text, start)
        && is_random(place.slice(start, place.at));
    is_key.then(|| Found::new("mailchimp_key", start, end))
}

/// The secret in the path of a webhook URL, after its fixed part.
pub(super) fn webhook(place: &Place<'_>) -> Option<Found> {
    let path = |byte: u8| is_of_name(byte) || byte == b'/';
    let is_slack = place.text[place.at] == b'h';
    let name = if is_slack {
        "slack_webhook"
    } else {
        "discord_webhook"
    };
    if !is_slack && !place.text[..place.at].ends_with(b".com") {
        return None;
    }
    let end = place.after + place.run(place.after, path);
    // The last part is the secret. The other parts identify its owner.
    let mut parts = place.slice(place.after, end).rsplit(|byte| *byte == b'/');
    let last = parts.next()?;
    (last.len() >= 20 && is_random(last)).then(|| Found::new(name, place.after, end))
}

/// `<bot id>:AA…`
pub(super) fn telegram_token(place: &Place<'_>) -> Option<Found> {
    let digits = place.run_before(place.at, 11, is_digit);
    let body = place.short_run(place.at + 1, 36, is_of_name);
    let start = place.at - digits;
    let before = &place.text[..start];
    // In paths of the API the token follows `bot`.
    let starts = starts_word(place.text, start) || before.ends_with(b"/bot");
    let is_token = (8..=10).contains(&digits) && (34..=36).contains(&body) && starts;
    is_token.then(|| Found::new("telegram_token", start, place.at + 1 + body))
}

/// Client secrets of Entra: three characters, `8Q~`, and the rest.
pub(super) fn azure_secret(place: &Place<'_>) -> Option<Found> {
    let class = |byte: u8| is_of_name(byte) || matches!(byte, b'.' | b'~');
    let body = place.short_run(place.after, 34, class);
    let start = place.at.checked_sub(3)?;
    let is_secret = (31..=34).contains(&body)
        && place.slice(start, place.at).iter().all(|byte| class(*byte))
        && starts_word(place.text, start)
        && is_random(place.slice(start, place.after + body));
    is_secret.then(|| Found::new("azure_secret", start, place.after + body))
}

/// The signature of a shared access signature: 32 bytes in base64.
pub(super) fn azure_signature(place: &Place<'_>) -> Option<Found> {
    let signature = |byte| Class::Base64.has(byte) || byte == b'%';
    let len = place.short_run(place.after, 90, signature);
    let text = place.slice(place.after, place.after + len);
    let is_padded = text.ends_with(b"=") || text.to_ascii_lowercase().ends_with(b"%3d");
    let is_secret = (44..=90).contains(&len)
        && is_padded
        && place.follows(b"s")
        && starts_word(place.text, place.at - 1)
        && is_random(text);
    is_secret.then(|| Found::new("azure_signature", place.after, place.after + len))
}

/// A Discord token: a bot's id in base64, a timestamp and a signature.
pub(super) fn discord_token(place: &Place<'_>) -> Option<Found> {
    if !starts_word(place.text, place.at) {
        return None;
    }
    let id = place.short_run(place.at, 28, is_of_name);
    let time_at = place.at + id + 1;
    let time = place.short_run(time_at, 6, is_of_name);
    let rest_at = time_at + time + 1;
    let rest = place.short_run(rest_at, 40, is_of_name);
    let dots =
        place.text.get(time_at - 1) == Some(&b'.') && place.text.get(rest_at - 1) == Some(&b'.');
    let is_token = (23..=28).contains(&id)
        && time == 6
        && (27..=40).contains(&rest)
        && dots
        && is_random(place.slice(rest_at, rest_at + rest));
    is_token.then(|| Found::new("discord_token", place.at, rest_at + rest))
}

/// `re_`, 8 letters and digits, `_` and 24 letters and digits. Names in code have more underscores.
pub(super) fn resend_key(place: &Place<'_>) -> Option<Found> {
    let id = place.short_run(place.after, 8, is_alnum);
    let body_at = place.after + id + 1;
    let body = place.short_run(body_at, 24, is_alnum);
    let (start, end) = (place.at, body_at + body);
    let is_key = (id, body) == (8, 24)
        && place.text.get(body_at - 1) == Some(&b'_')
        && place.text.get(end).is_none_or(|byte| !is_of_name(*byte))
        && starts_word(place.text, start)
        && is_random(place.slice(body_at, end));
    is_key.then(|| Found::new("resend_key", start, end))
}

/// `SK` and 32 hex digits.
pub(super) fn twilio_key(place: &Place<'_>) -> Option<Found> {
    let hex = place.short_run(place.at + 2, 32, |byte| byte.is_ascii_hexdigit());
    let end = place.at + 2 + hex;
    let ends = place.text.get(end).is_none_or(|byte| !is_of_name(*byte));
    let is_key = hex == 32
        && ends
        && starts_word(place.text, place.at)
        && is_random(place.slice(place.at + 2, end));
    is_key.then(|| Found::new("twilio_key", place.at, end))
}

/// The password of `scheme://user:password@host`, or a token in place of the user.
pub(super) fn url_password(place: &Place<'_>) -> Option<Found> {
    const USERINFO_BYTES_MAX: usize = 512;
    let stops = |byte| ends_url(byte) || matches!(byte, b'/' | b'?' | b'#' | b',' | b'|');
    let rest = &place.text[place.after..];
    let rest = &rest[..rest.len().min(USERINFO_BYTES_MAX)];
    let authority = &rest[..run(rest, 0, usize::MAX, |byte| !stops(byte))];
    let unescaped = || unescaped_password(place, rest);
    if rest.get(authority.len()) == Some(&b'#')
        && let Some(found) = unescaped()
    {
        return Some(found);
    }
    let Some(at_sign) = memchr::memrchr(b'@', authority) else {
        return unescaped();
    };
    let user = &authority[..at_sign];
    let colon = memchr::memchr(b':', user);
    // Services that take a token as the user leave its password empty or give it a fixed value.
    let is_alone = colon.is_none_or(|colon| matches!(&user[colon + 1..], b"" | b"x-oauth-basic"));
    if is_alone {
        let token = &user[..colon.unwrap_or(user.len())];
        let is_open = contains(&authority[at_sign..], b"sentry");
        let is_secret = is_token(token) && !is_open;
        return is_secret.then(|| Found::new("url_token", place.after, place.after + token.len()));
    }
    let colon = colon?;
    let password = &authority[colon + 1..at_sign];
    let is_scheme = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
    let has_scheme = place.run_before(place.at, 2, is_scheme) > 0;
    let has_host = authority.get(at_sign + 1).is_some_and(|byte| {
        byte.is_ascii_alphanumeric()
            || matches!(byte, b'[' | b'_' | b'$' | b'{' | b'%')
            || !byte.is_ascii()
    });
    let is_secret = has_scheme && has_host && !stands_for_password(password);
    let start = place.after + colon + 1;
    is_secret.then(|| Found::new("url_password", start, start + password.len()))
}

/// The password in the URL of a database or of a mail, queue or file server. Unescaped `/`, `#` and
/// `?` in the password are accepted.
fn unescaped_password(place: &Place<'_>, rest: &[u8]) -> Option<Found> {
    let scheme = place.run_before(place.at, 24, |byte| is_alnum(byte) || byte == b'+');
    let scheme = &place.text[place.at - scheme..place.at];
    let scheme = scheme.split(|byte| *byte == b'+').next()?;
    let (b"postgres" | b"postgresql" | b"mysql" | b"mariadb" | b"mongodb" | b"redis" | b"rediss"
    | b"amqp" | b"amqps" | b"mssql" | b"sqlserver" | b"clickhouse" | b"cockroachdb"
    | b"oracle" | b"smtp" | b"smtps" | b"ftp" | b"ftps" | b"sftp" | b"ldap" | b"nats"
    | b"mqtt") = scheme
    else {
        return None;
    };
    let rest = &rest[..run(rest, 0, usize::MAX, |byte| !ends_url(byte))];
    let rest = &rest[..memchr::memmem::find(rest, b"://").unwrap_or(rest.len())];
    // An `@` in the query string does not end the userinfo.
    let options = memchr::memchr(b'?', rest)
        .filter(|at| memchr::memchr(b'=', &rest[*at..]).is_some())
        .unwrap_or(rest.len());
    let at_sign = memchr::memrchr(b'@', &rest[..options]).or_else(|| memchr::memchr(b'@', rest))?;
    let colon = memchr::memchr(b':', &rest[..at_sign])?;
    let password = &rest[colon + 1..at_sign];
    let is_user = rest[..colon].iter().all(|byte| Class::Dotted.has(*byte));
    // If the password is a port number, the text before it was the host.
    let digits = run(password, 0, usize::MAX, is_digit);
    let is_port = digits > 0 && matches!(password.get(digits), Some(b'/' | b'?' | b'#'));
    let has_host = rest.get(at_sign + 1).is_some_and(u8::is_ascii_alphanumeric);
    let start = place.after + colon + 1;
    (is_user && !is_port && has_host && !stands_for_password(password))
        .then(|| Found::new("url_password", start, start + password.len()))
}

/// Whether the user part of a URL is a token: longer than a name, and random.
fn is_token(user: &[u8]) -> bool {
    const BYTES_MIN: usize = 20;
    const DIGITS_MIN: usize = 2;
    user.len() >= BYTES_MIN
        && user.iter().all(|byte| is_of_name(*byte))
        && user.iter().filter(|byte| byte.is_ascii_digit()).count() >= DIGITS_MIN
        && is_random(user)
        && !is_named(user)
}

/// The credentials after `Bearer`, anywhere in a text.
pub(super) fn bearer(place: &Place<'_>) -> Option<Found> {
    const BYTES_MIN: usize = 16;
    if !place.follows(b"bea") {
        return None;
    }
    let len = place.run(place.after, is_token68);
    let text = place.slice(place.after, place.after + len).trim_ascii_end();
    let is_secret = text.len() >= BYTES_MIN
        && text.iter().any(u8::is_ascii_digit)
        && is_random(text)
        && !contains(text, b"://");
    is_secret.then(|| Found::new("authorization", place.after, place.after + len))
}

/// Session tokens in `Cookie: …` or `Set-Cookie: …`.
pub(super) fn cookies(place: &Place<'_>, all: &mut Vec<Found>) {
    if !place.follows(b"coo") {
        return;
    }
    if place.is_raw {
        all.push(Found::new("cookie", place.at, place.after));
        return;
    }
    let is_blank = |byte: u8| byte == b' ';
    let is_quote = |byte: u8| matches!(byte, b'\\' | b'"' | b'\'');
    let colon = place.after + place.run(place.after, is_quote);
    if place.text.get(colon) == Some(&b':') {
        let blanks = colon + 1 + place.run(colon + 1, is_blank);
        let start = blanks + place.run(blanks, is_quote);
        session_cookies(place.text, place.runs, start, all);
    }
}

/// Session tokens in `name=value; name=value` from `start` on.
pub(super) fn session_cookies(
    text: &[u8],
    runs: &Runs<'_>,
    mut start: usize,
    all: &mut Vec<Found>,
) {
    // In the range already scanned, only the first cookie can be new.
    let known = runs.cookies_end.get();
    loop {
        let end = runs.end(Class::Cookie, start);
        all.extend(session_cookie(text, runs, start, end));
        if end < known || text.get(end) != Some(&b';') {
            runs.cookies_end.set(known.max(end));
            return;
        }
        start = end + 1;
    }
}

/// The token in one cookie.
fn session_cookie(text: &[u8], runs: &Runs<'_>, start: usize, end: usize) -> Option<Found> {
    const NAMES: [&[u8]; 6] = [b"sess", b"sid", b"token", b"auth", b"jwt", b"remember"];
    const NAME_BYTES_MAX: usize = 256;
    const BYTES_MIN: usize = 16;
    const BLANKS_MAX: usize = 16;
    let cookie = &text[start..end];
    let equals = memchr::memchr(b'=', &cookie[..cookie.len().min(NAME_BYTES_MAX)])?;
    let name = cookie[..equals].to_ascii_lowercase();
    let is_session = NAMES.iter().any(|known| contains(&name, known));
    let value_start = start + equals + 1;
    let value = &text[value_start..runs.end(Class::CookieValue, value_start).min(end)];
    let blanks = &text[value_start + value.len()..end];
    let is_token = blanks.len() <= BLANKS_MAX && blanks.trim_ascii().is_empty();
    let is_secret = is_session && is_token && value.len() >= BYTES_MIN && is_random(value);
    is_secret.then(|| Found::new("cookie", value_start, value_start + value.len()))
}

/// The base64 credentials after `Basic`.
pub(super) fn basic(place: &Place<'_>) -> Option<Found> {
    if !place.follows(b"ba") {
        return None;
    }
    let len = place.run(place.after, |b| {
        b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'=')
    });
    let is_secret = is_pair(place.slice(place.after, place.after + len));
    is_secret.then(|| Found::new("authorization", place.after, place.after + len))
}

/// Whether the text is `user:password` in base64.
pub(super) fn is_pair(text: &[u8]) -> bool {
    let is_plain = |byte: &u8| (b' '..=b'~').contains(byte);
    from_base64(text).is_some_and(|decoded| {
        decoded.len() >= 3 && decoded.contains(&b':') && decoded.iter().all(is_plain)
    })
}

/// Decodes base64.
pub(super) fn from_base64(text: &[u8]) -> Option<Vec<u8>> {
    let digits = text.iter().rposition(|byte| *byte != b'=')? + 1;
    if text.len() - digits > 2 {
        return None;
    }
    let (mut bits, mut held, mut bytes) = (0u32, 0, Vec::with_capacity(text.len()));
    for byte in &text[..digits] {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(value);
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push((bits >> held) as u8);
            bits &= (1 << held) - 1;
        }
    }
    Some(bytes)
}
