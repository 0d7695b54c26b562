//! Passwords in commands and statements: `mysql -p…`, `curl -u user:…`, `IDENTIFIED BY '…'`.

use super::Found;
use super::assignment::quote_at;
use super::bytes::{
    contains, ends_url, is_blank, is_of_name, is_space, run, run_before, skip, trim_end,
};
use super::context::Place;
use super::extent::unquoted_end;
use super::names::Holds;
use super::text::starts_word;
use super::values::{VALUE_BYTES_MAX, Written, secret_at, stands_for_password};

/// Maximum distance between a command and its option.
const COMMAND_BYTES_MAX: usize = 1024;

fn password(start: usize, end: usize) -> Found {
    Found::new(Holds::Password.name(), start, end)
}

/// A known command, by the option that takes its password.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Command {
    /// `-p`, directly followed by the password.
    Sql,
    /// `-p`, with the password as the next argument.
    Shell,
    /// `login -p`, with the password as the next argument.
    Registry,
    Login,
    /// `-P`.
    Upper,
    /// `-a`, with the password as the next argument.
    Redis,
    /// `-w`, with the password as the next argument.
    Ldap,
    /// `-S`, with the password from a pipe.
    Sudo,
}

fn command(word: &[u8]) -> Option<Command> {
    Some(match word {
        b"mysql" | b"mysqldump" | b"mysqladmin" | b"mysqlimport" | b"mysqlcheck" | b"mysqlshow"
        | b"mysqlsh" | b"mariadb" | b"mariadb-dump" | b"mariadb-admin" | b"7z" | b"7za" => {
            Command::Sql
        }
        b"mongo" | b"mongosh" | b"mongodump" | b"mongorestore" | b"mongoimport"
        | b"mongoexport" | b"cypher-shell" => Command::Shell,
        b"docker" | b"podman" | b"nerdctl" | b"helm" | b"oc" | b"az" | b"buildah" | b"skopeo"
        | b"crane" => Command::Registry,
        b"login" => Command::Login,
        b"sqlcmd" | b"bcp" | b"zip" | b"unzip" | b"ipmitool" | b"mosquitto_pub"
        | b"mosquitto_sub" => Command::Upper,
        b"redis-cli" | b"valkey-cli" | b"keydb-cli" => Command::Redis,
        b"ldapsearch" | b"ldapadd" | b"ldapmodify" | b"ldapdelete" | b"ldapwhoami" => Command::Ldap,
        b"sudo" => Command::Sudo,
        _ => return None,
    })
}

/// The password after a one-letter option of a known command.
pub(super) fn option_password(place: &Place<'_>) -> Option<Found> {
    const BEFORE_BYTES_MAX: usize = 256;
    let (text, at, after) = (place.text, place.at, place.after);
    let from = at.saturating_sub(BEFORE_BYTES_MAX);
    let before = &text[from..at];
    let ends = |byte: &u8| matches!(byte, b'|' | b';' | b'&' | b'`' | b'\n');
    let begins = before.iter().rposition(ends).map_or(0, |end| end + 1);
    // Lines joined by a backslash are one command.
    let is_joined = before[..begins].ends_with(b"\\\n");
    let begins = if is_joined { 0 } else { begins };
    let has = |known: Command| {
        let mut words = before[begins..].split(|byte| !is_of_name(*byte));
        let mut at = begins;
        words.any(|word| {
            let is_escaped = at > 0 && before[at - 1] == b'\\';
            at += word.len() + 1;
            let is = |word: &[u8]| command(word) == Some(known);
            // The letter of an escape is not part of the following word.
            is(word) || is_escaped && word.get(1..).is_some_and(is)
        })
    };
    let is_apart = text.get(after).is_some_and(|byte| is_blank(*byte));
    if text[after - 1] == b'S' {
        return has(Command::Sudo).then(|| piped_password(place, at, false))?;
    }
    let takes = match (text[after - 1], is_apart) {
        (b'p', false) => has(Command::Sql),
        (b'p', true) => has(Command::Shell) || has(Command::Registry) && has(Command::Login),
        (b'a', true) => has(Command::Redis),
        (b'P', _) => has(Command::Upper),
        (b'w', true) => has(Command::Ldap),
        _ => false,
    };
    if !takes {
        return None;
    }
    if place.is_raw {
        return Some(password(at, after));
    }
    given(place, skip(text, after, is_blank), Written::Literal)
}

/// The password at `at`: quoted, or unquoted and of form `without`.
pub(super) fn given(place: &Place<'_>, at: usize, without: Written) -> Option<Found> {
    let quoted = quote_at(place.text, at);
    let (start, end) = match quoted {
        Some((start, (quote, _))) => {
            let is_inside = |byte| byte != quote && byte != b'\n';
            let len = run(place.text, start, VALUE_BYTES_MAX, is_inside);
            (start, start + len)
        }
        None => (at, unquoted_end(place.text, place.runs, at)),
    };
    let value = place.text.get(start..end)?;
    let end = end - usize::from(value.ends_with(b"\\"));
    let written = quoted.map_or(without, |_| Written::Quoted);
    secret_at(Holds::Password, place.text, start..end, written)
}

/// The password after a database user's `IDENTIFIED BY` or `IDENTIFIED WITH … BY`.
pub(super) fn identified_by(place: &Place<'_>) -> Option<Found> {
    const PLUGIN_BYTES_MAX: usize = 64;
    let text = place.text;
    if place.is_raw {
        return place
            .follows(b"iden")
            .then(|| password(place.at, place.after));
    }
    let mut at = skip(text, place.after, is_blank);
    let rest = &text[at..text.len().min(at + PLUGIN_BYTES_MAX)];
    if text[place.after - 1].eq_ignore_ascii_case(&b'h') {
        let by = rest
            .windows(4)
            .position(|four| four.eq_ignore_ascii_case(b" by "))?;
        at += by + 4;
    } else if rest.len() > 9 && rest[..9].eq_ignore_ascii_case(b"password ") {
        at += 9;
    }
    let at = skip(text, at, is_blank);
    // SQL's `IDENTIFIED BY` does not use backquotes.
    let is_statement = place.follows(b"iden") && text.get(at) != Some(&b'`');
    is_statement.then(|| given(place, at, Written::Bare))?
}

/// The password of `user:password@tcp(host:port)/name`, the format of Go drivers.
pub(super) fn driver_password(place: &Place<'_>) -> Option<Found> {
    const USERINFO_BYTES_MAX: usize = 256;
    let from = place.at.saturating_sub(USERINFO_BYTES_MAX);
    let before = &place.text[from..place.at];
    let start = trim_end(before, |byte| !ends_url(byte)).len();
    let colon = start + memchr::memchr(b':', &before[start..])?;
    let secret = &before[colon + 1..];
    let is_secret = colon > start && !stands_for_password(secret);
    is_secret.then(|| Found::new("url_password", from + colon + 1, place.at))
}

/// The password of `jdbc:oracle:thin:user/password@//host:port/name`.
pub(super) fn oracle_password(place: &Place<'_>) -> Option<Found> {
    const USERINFO_BYTES_MAX: usize = 256;
    let rest = &place.text[place.after..];
    let rest = &rest[..run(rest, 0, USERINFO_BYTES_MAX, |byte| !ends_url(byte))];
    let user = &rest[..memchr::memrchr(b'@', rest)?];
    let slash = memchr::memchr(b'/', user)?;
    let is_secret = place.follows(b"oracle") && !stands_for_password(&user[slash + 1..]);
    let (start, end) = (place.after + slash + 1, place.after + user.len());
    is_secret.then(|| Found::new("url_password", start, end))
}

/// The text that `echo … |` pipes into the command that contains the word at `at`: a password, or a
/// user name and a password.
pub(super) fn piped_password(place: &Place<'_>, at: usize, has_user: bool) -> Option<Found> {
    let text = place.text;
    let from = at.saturating_sub(COMMAND_BYTES_MAX);
    let before = &text[from..at];
    let pipe = memchr::memrchr(b'|', before)?;
    let given = before[..pipe].trim_ascii_end();
    let stops = |byte: &u8| matches!(byte, b'\n' | b';' | b'&' | b'|' | b'`' | b'(');
    let begins = given.iter().rposition(stops).map_or(0, |stop| stop + 1);
    let says = contains(&given[begins..], b"echo ") || contains(&given[begins..], b"printf ");
    // Lines joined by a backslash are one command.
    let is_joined = memchr::memchr_iter(b'\n', &before[pipe..])
        .all(|line| before[..pipe + line].ends_with(b"\\"));
    if !says || !is_joined {
        return None;
    }
    if place.is_raw {
        return Some(password(at, place.after));
    }
    let last = *given.last()?;
    let is_quoted = matches!(last, b'"' | b'\'');
    let end = given.len() - usize::from(is_quoted);
    let (written, part) = if is_quoted {
        (Written::Quoted, memchr::memrchr(last, &given[begins..end]))
    } else {
        let blank = given[begins..end].iter().rposition(u8::is_ascii_whitespace);
        (Written::Literal, blank)
    };
    let mut start = begins + part? + 1;
    if has_user {
        start += memchr::memchr(b':', &given[start..end])? + 1;
    }
    let value = given[start..end].strip_suffix(b"\\n");
    let end = value.map_or(end, |value| start + value.len());
    secret_at(Holds::Password, text, from + start..from + end, written)
}

/// The password of `auth=("user", "password")` and `HTTPBasicAuth("user", "password")`.
pub(super) fn basic_auth_password(place: &Place<'_>) -> Option<Found> {
    const USER_BYTES_MAX: usize = 256;
    let text = place.text;
    let is_type = text[..place.after].ends_with(b"Auth(");
    if is_type && !place.follows(b"basic") && !place.follows(b"digest") {
        return None;
    }
    if place.is_raw {
        return Some(password(place.at, place.after));
    }
    let (start, (quote, _)) = quote_at(text, skip(text, place.after, is_blank))?;
    let user = &text[start..text.len().min(start + USER_BYTES_MAX)];
    let user_end = start + memchr::memchr(quote, user)?;
    let comma = skip(text, user_end + 1, is_blank);
    let at = skip(text, comma + 1, is_blank);
    let is_quoted = text.get(comma) == Some(&b',') && quote_at(text, at).is_some();
    is_quoted.then(|| given(place, at, Written::Bare))?
}

/// The password in a line of `.pgpass`: `host:port:database:user:password`.
pub(super) fn pgpass_password(place: &Place<'_>) -> Option<Found> {
    const BEFORE_BYTES_MAX: usize = 256;
    const PASSWORD_FIELD: usize = 4;
    let text = place.text;
    let is_of_field = |byte| is_of_name(byte) || matches!(byte, b'.' | b'*' | b'/');
    let is_of_line = |byte| is_of_field(byte) || byte == b':';
    let mut at = place.at - run_before(text, place.at, BEFORE_BYTES_MAX, is_of_line);
    let mut fields = [(0, 0); PASSWORD_FIELD];
    for field in &mut fields {
        let end = at + run(text, at, BEFORE_BYTES_MAX, is_of_field);
        if end == at || text.get(end) != Some(&b':') {
            return None;
        }
        *field = (at, end);
        at = end + 1;
    }
    let port = &text[fields[1].0..fields[1].1];
    let is_port = port == b"*" || port.len() <= 5 && port.iter().all(u8::is_ascii_digit);
    let is_of_value = |byte| !ends_url(byte) || byte == b'>';
    let end = at + run(text, at, VALUE_BYTES_MAX, is_of_value);
    let is_whole = is_port && !text[at..end].contains(&b':');
    secret_at(Holds::Password, text, at..end, Written::Literal).filter(|_| is_whole)
}

/// The password of `curl -u user:password`.
pub(super) fn curl_password(place: &Place<'_>) -> Option<Found> {
    const BYTES_MIN: usize = 4;
    if !starts_word(place.text, place.at) {
        return None;
    }
    if place.is_raw {
        return Some(password(place.at, place.after));
    }
    let rest = &place.text[place.after - 1..];
    let rest = &rest[..rest.len().min(COMMAND_BYTES_MAX)];
    // Lines joined by a backslash are one command.
    let is_end = |(at, byte): (usize, &u8)| match byte {
        b'\n' => at == 0 || rest[at - 1] != b'\\',
        b'|' | b';' => true,
        _ => false,
    };
    let end = rest.iter().enumerate().position(is_end);
    let command = &rest[..end.unwrap_or(rest.len())];
    let mut options = memchr::memmem::find_iter(command, b" -");
    let value = options.find_map(|at| user_after(command, at + 2))?;
    let quoted = quote_at(command, value);
    let value = quoted.map_or(value, |(start, _)| start);
    let stops = |byte| match quoted {
        Some((_, (quote, _))) => byte == quote || byte == b'\\',
        None => is_space(byte) || matches!(byte, b'"' | b'\'' | b'\\'),
    };
    let user = &command[value..skip(command, value, |byte| !stops(byte))];
    let colon = memchr::memchr(b':', user)?;
    let secret = &user[colon + 1..];
    let start = place.after - 1 + value + colon + 1;
    let is_secret = secret.len() >= BYTES_MIN && !stands_for_password(secret);
    is_secret.then(|| password(start, start + secret.len()))
}

/// The start of `user:password` for the `curl` option whose name is at `at`.
fn user_after(command: &[u8], at: usize) -> Option<usize> {
    let rest = &command[at..];
    for long in [&b"-user"[..], b"-proxy-user"] {
        if let Some([b' ' | b'=', ..]) = rest.strip_prefix(long) {
            return Some(skip(command, at + long.len() + 1, is_blank));
        }
    }
    // Several one-letter options may be combined. Only the last takes a value.
    let letters = run(rest, 0, usize::MAX, |byte| byte.is_ascii_alphabetic());
    let last = rest[..letters].last()?;
    if matches!(last, b'u' | b'U') && rest.get(letters).is_some_and(|byte| is_blank(*byte)) {
        return Some(skip(command, at + letters, is_blank));
    }
    (rest[0] == b'u').then_some(at + 1)
}
