//! Running time is linear in the length of the text, for any text. Lines may be 16 MiB long.

use std::sync::LazyLock;
use std::time::Duration;

use super::*;
use crate::privacy::rules::{RUNS, TOKENS, WORDS};

/// A rule that scans the rest of the text at every anchor takes minutes at this size.
const BYTES: usize = 100 << 10;
/// Maximum time for any text, as a multiple of the time for a plain text of the same length.
const TIMES_MAX: u32 = 200;
/// Maximum number of tries, because other processes may be using the CPU.
const TRIES_MAX: usize = 5;

/// Time for a plain text on this machine.
static PLAIN: LazyLock<Duration> = LazyLock::new(|| {
    let redactor = redactor(&with_pii());
    let text =
        repeated("The quick brown fox jumps over the lazy dog, and it does so 12 times a day.\n");
    let tries = (0..TRIES_MAX).map(|_| time(&redactor, &text));
    tries.min().unwrap_or_default()
});

fn time(redactor: &Scanner, text: &str) -> Duration {
    let started = own_time();
    redactor.redacted(text, &mut Numbers::default());
    own_time().saturating_sub(started)
}

/// CPU time of this thread, independent of the load of the machine.
#[cfg(unix)]
fn own_time() -> Duration {
    use rustix::time::{ClockId, clock_gettime};
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap()
}

#[cfg(not(unix))]
fn own_time() -> Duration {
    static STARTED: LazyLock<std::time::Instant> = LazyLock::new(std::time::Instant::now);
    STARTED.elapsed()
}

fn is_soon_done(text: &str, what: &str) {
    let redactor = redactor(&with_pii());
    let most = *PLAIN * TIMES_MAX;
    let mut tries = (0..TRIES_MAX).map(|_| time(&redactor, text));
    assert!(
        tries.any(|took| took < most),
        "{most:?} are not enough for {} bytes: {what}",
        text.len()
    );
}

fn repeated(unit: &str) -> String {
    unit.repeat(BYTES / unit.len() + 1)
}

/// Base64 without padding.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let three = bytes.chunks_exact(3);
    let digits = three.flat_map(|three| {
        let bits = three
            .iter()
            .fold(0, |bits, byte| bits << 8 | usize::from(*byte));
        [18, 12, 6, 0].map(|shift| char::from(DIGITS[bits >> shift & 63]))
    });
    digits.collect()
}

#[test]
fn no_anchor_is_slow_where_it_is_all_there_is() {
    let tokens = TOKENS.iter().map(|token| token.prefix);
    let contexts = RUNS.iter().chain(WORDS);
    let contexts = contexts.flat_map(|context| context.anchors.iter().copied());
    for anchor in tokens.chain(contexts) {
        is_soon_done(&repeated(anchor), anchor);
    }
}

#[test]
fn no_rule_looks_at_the_same_again_and_again() {
    for unit in [
        "-eyJ",
        "eyJ0aaaaaaaaaaa.",
        "sig=",
        "-MTA",
        "Cookie: ",
        "Cookie: a=b; ",
        "Cookie:token=",
        "Cookie: sid=aB3dE5fG7hJ9kL1m2; ",
        "-----BEGIN PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----\n",
        "LS0tLS1CRUdJTiBQUklWQVRFIEtFWS0tLS0tCk1JSUV2UUlCQURBTkJna3Foa2lHOXcwQkFRRU\n",
        "LS0tLS1CRUdJTiBQUklWQVRFIEtFWS0tLS0tCk1JSUV2UUlCQURBTkJna3Foa2lHOXcwQkFRRU ",
        "LS0tLS1CRUdJTiBQUklWQVRFIEtFWS0tLS0tCk1JSUV2UUlCQURBTkJna3Foa2lHOXcwQkFRRU",
        "A-----END PRIVATE KEY-----",
        "  1→-----END PRIVATE KEY-----",
        "Private-Lines: 99 ",
        "[REDACTED:a:1]password=abcd1234 ",
        "AccountKey=",
        "password=\"",
        "PuTTY-User-Key-File-2: ",
        "4111 1111 1111 1111 ",
        "mysql -p",
        "curl -u",
        "redis-cli -a ",
        "|echo a1| sudo -S ",
        "auth=('a', 'b', ",
        "a:b@tcp(",
        "IDENTIFIED WITH ",
        "password: |\n a\n",
        "password=a&",
        "&password=a1",
        "arn:secret:",
        "redis://:#",
        "redis://:#@",
        "password: |\n  kX9vbT2wq\n",
        "password: Some(",
        "name: password, value: ",
        "PASSWORD FOR ",
        "ENV password ",
        "https://a:@",
        "2001:",
        "1.2.3.4 ",
        "\x1b]",
        "\x1b]a\\",
        "\x1b[",
        "\\",
        "\\x1b]a",
        "%25",
        "&amp;",
        "=3D=\n",
        "a\x08",
        "\0a",
        "\x1b[31mpassword=\x1b[0m",
        "ghp_a\r",
        "ghp_a1\n",
        "a\\\n",
        "\x1b[C",
        "\u{fe0f}",
        "^M",
        "\\147",
        "=\n",
        "echo | --password-stdin ",
        "a:b|chpasswd",
        ":5432:",
        ":*:",
        "form-data; name=\"password\"\n",
        "name=\"password\">",
        "<property name=\"password\">",
        "${password:-",
        "password || ",
        "password was set to ",
        "пароль: ",
        "mot de passe ",
        "030 1234567 ",
        "0171/",
        "0 ",
        "(030",
        "ü@",
        "@ü",
        "@ü.",
        "de89",
    ] {
        is_soon_done(&repeated(unit), unit);
    }
    let emails: Vec<String> = (0..10_000).map(|n| format!("a{n}@b.co ")).collect();
    is_soon_done(&emails.concat(), "addresses");
    let numbers: Vec<String> = (0..BYTES / 4)
        .map(|n| format!("{},", 100 + n % 50))
        .collect();
    is_soon_done(&base64(numbers.concat().as_bytes()), "numbers in base64");
    let items: Vec<String> = (0..BYTES / 8).map(|n| format!("{{\"a\":{n}}},")).collect();
    is_soon_done(&base64(items.concat().as_bytes()), "JSON in base64");
    let stops = "ghs_".repeat(1_000) + &repeated(".");
    is_soon_done(&stops, "full stops");
}

#[test]
fn no_expression_or_document_is_slow() {
    for unit in [
        "passwords: [\"a1\", ",
        "password = get(\"P\", ",
        "password = a(",
        "password = a || b || ",
        "value: a1, name: PASSWORD, ",
        "name: PASSWORD\n",
        "\"password\" { default ",
        "<key>password</key><string>",
        "<password a=b>",
        "<password><![CDATA[",
        "jdbc:oracle:thin:a/b",
        "--- ---\npassword  ",
        "password  \n",
        "│ -----BEGIN PRIVATE KEY----- │\n",
        ";PWD={a",
        "password [a",
    ] {
        is_soon_done(&repeated(unit), unit);
    }
}

#[test]
fn members_of_documents_are_looked_at_once() {
    for unit in [
        r#"{"value":"a1b2c3","name":"A_TOKEN","password":[12345678]}"#,
        r#"{"value":"a1b2c3","name":"a","password":{"value":"a"}}"#,
        r#"{"password":12345678}"#,
        r#"["password",["value"]]"#,
    ] {
        is_soon_done(&format!("[{}1]", repeated(&format!("{unit},"))), unit);
    }
}

/// Nested strings are not scanned once per round of every enclosing string.
#[test]
fn nested_json_multiplies_nothing() {
    let mut text = repeated("Set-Cookie: sid=aB3dE5fG7hJ9kL1m2 ");
    for _ in 0..3 {
        text = serde_json::json!({ "a": text }).to_string();
    }
    is_soon_done(&text, "nested");
}
