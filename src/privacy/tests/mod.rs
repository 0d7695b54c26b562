//! The corpus: planted secrets are found, and similar text is not changed.

mod displayed;
mod forms;
mod persons;
mod places;
mod properties;
mod records;
mod values;
mod work;

use serde::Deserialize;

use super::redact::Numbers;
use super::scan::Scanner;
use super::*;

#[derive(Deserialize)]
struct Planted {
    r#type: String,
    /// Split, so that secret scanners of hosting services do not report it.
    text: Vec<String>,
    secret: Vec<String>,
}

#[derive(Deserialize)]
struct Innocent {
    text: String,
}

fn corpus<T: serde::de::DeserializeOwned>(file: &str) -> Vec<T> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/privacy/");
    let text = std::fs::read_to_string(format!("{path}{file}")).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn redactor(settings: &PrivacySettings) -> Scanner {
    Scanner::new(settings).unwrap()
}

#[test]
fn planted_secrets_are_found() {
    let redactor = redactor(&PrivacySettings::default());
    let planted: Vec<Planted> = corpus("secrets.ndjson");
    assert!(planted.len() >= 400, "{}", planted.len());
    let mut missed = 0;
    for one in &planted {
        let (text, secret) = (one.text.concat(), one.secret.concat());
        let redacted = redactor.redacted(&text, &mut Numbers::default());
        let kept = redacted.unwrap_or_else(|| text.clone());
        // In some texts escapes hide the first letters.
        if kept.contains(&secret) || kept.contains(&secret[4..]) {
            missed += 1;
            println!("missed {}: {text:?}", one.r#type);
        }
    }
    let caught = planted.len() - missed;
    println!("caught {caught} of {}", planted.len());
    assert!(caught * 100 >= planted.len() * 99);
}

#[test]
fn what_only_looks_like_a_secret_is_left_alone() {
    let redactor = redactor(&PrivacySettings::default());
    let innocent: Vec<Innocent> = corpus("innocent.ndjson");
    assert!(innocent.len() >= 2_500, "{}", innocent.len());
    let mut changed = 0;
    for Innocent { text } in &innocent {
        if let Some(redacted) = redactor.redacted(text, &mut Numbers::default()) {
            changed += 1;
            println!("changed {text:?} to {redacted:?}");
        }
    }
    println!("changed {changed} of {}", innocent.len());
    assert!(changed * 1_000 <= innocent.len());
}

fn kept(settings: &PrivacySettings, text: &str) -> String {
    let redacted = redactor(settings).redacted(text, &mut Numbers::default());
    redacted.unwrap_or_else(|| text.to_owned())
}

fn defaults(text: &str) -> String {
    kept(&PrivacySettings::default(), text)
}

fn with_pii() -> PrivacySettings {
    PrivacySettings {
        redact_pii: true,
        ..PrivacySettings::default()
    }
}

/// A token in GitHub's format that nobody owns.
fn token(digit: char) -> String {
    format!("ghp_{}Zq8Lw3Xc5Vb7", format!("{digit}kR").repeat(8))
}

#[test]
fn the_same_secret_has_the_same_number() {
    let (one, two) = (token('4'), token('9'));
    assert_eq!(
        defaults(&format!("{one}, {two} and {one}")),
        "[REDACTED:github_token:1], [REDACTED:github_token:2] and [REDACTED:github_token:1]"
    );
}

#[test]
fn json_is_kept_to_the_byte_but_for_strings_with_secrets() {
    let token = token('4');
    let escaped: String = token.replacen("gh", "\\u0067\\u0068", 1);
    let json = format!(r#"{{ "a" : [1.0,"\u00e9", "{escaped}"],"{token}":"b\/c" }}"#);
    assert_eq!(
        defaults(&json),
        r#"{ "a" : [1.0,"\u00e9", "[REDACTED:github_token:1]"],"[REDACTED:github_token:1]":"b\/c" }"#
    );
    let nested = r#"{"arguments":"{\"password\":\"kX9!\\\"vbT2\",\"user\":\"joe\"}"}"#;
    let expected = r#"{"arguments":"{\"password\":\"[REDACTED:password:1]\",\"user\":\"joe\"}"}"#;
    assert_eq!(defaults(nested), expected);
}

#[test]
fn persons_are_found_only_where_that_is_asked_for() {
    for (text, expected) in [
        ("mail bob.b+x@mail.example.org.", "mail [REDACTED:email:1]."),
        (
            "card 4111 1111 1111 1111, cvc",
            "card [REDACTED:card_number:1], cvc",
        ),
        ("card 378282246310005", "card [REDACTED:card_number:1]"),
        ("5555-5555-5555-4444", "[REDACTED:card_number:1]"),
        (
            "IBAN DE89 3704 0044 0532 0130 00!",
            "IBAN [REDACTED:iban:1]!",
        ),
        ("GB82WEST12345698765432", "[REDACTED:iban:1]"),
        ("call +49 30 901820 now", "call [REDACTED:phone:1] now"),
        ("+14155552671", "[REDACTED:phone:1]"),
        ("(415) 555-2671", "[REDACTED:phone:1]"),
        ("415-555-2671", "[REDACTED:phone:1]"),
        ("phone: 030 901820", "phone: [REDACTED:phone:1]"),
        ("SSN 536-90-4399.", "SSN [REDACTED:ssn:1]."),
        ("ssn: 536904399", "ssn: [REDACTED:ssn:1]"),
        (
            "social security number 536 90 4399",
            "social security number [REDACTED:ssn:1]",
        ),
        ("from 203.0.113.77.", "from [REDACTED:ip_address:1]."),
        ("10.0.0.1:8080", "[REDACTED:ip_address:1]:8080"),
        ("http://192.168.1.23/x", "http://[REDACTED:ip_address:1]/x"),
        ("client_ip=5.9.12.7", "client_ip=[REDACTED:ip_address:1]"),
        ("[81.2.69.142]", "[[REDACTED:ip_address:1]]"),
        (
            "81.2.69.142 - - [10/Oct/2025",
            "[REDACTED:ip_address:1] - - [10/Oct/2025",
        ),
        ("81.2.69.142/32", "[REDACTED:ip_address:1]/32"),
        (
            "[2a02:2e0:3fe:1001:302::7]:443",
            "[[REDACTED:ip_address:1]]:443",
        ),
        (
            "2001:0db8:85a3:0000:0000:8a2e:0370:7334",
            "[REDACTED:ip_address:1]",
        ),
        ("fd12:3456:789a::1%eth0", "[REDACTED:ip_address:1]%eth0"),
    ] {
        assert_eq!(defaults(text), text);
        assert_eq!(kept(&with_pii(), text), expected);
    }
    for text in [
        "4111 1111 1111 1112",
        "DE88370400440532013000",
        "git@github.com:a/b.git",
        "https://user@host.com/x",
        "icon@2x.png",
        "pkg@1.2.3",
        "@app.route",
        "decorator@app.route",
        "microphone: 12345678",
        "192.168.100.1234",
        "2025-12-27T10:40:00+02:00",
        "1766832000123",
        "67e55044-10b1-426f-9247-bb680e5fe001",
        "a 1 + 23456789 b",
        "v1.2.3+20251227",
        "1.2.3.4",
        "v120.4.5.6, Chrome/120.33.44.55, version 120.33.44.55",
        "pkg==120.33.44.55 pkg-120.33.44.55",
        "10.0.0.0/8 255.255.255.0 0.0.0.0 127.0.0.53 224.0.0.1 169.254.169.254 8.8.8.8",
        "256.1.1.200 81.2.69 81.2.69.142.3 81.02.69.142 section 3.2.44.12",
        "::1 fe80::1 std::net::Ipv6Addr a::b 12:34:56 aa:bb:cc:dd:ee:ff x[2000::2]",
        "2001:db8::/32 2025:12:27 face::book dead:beef",
        "000-45-6789 666-45-6789 900-45-6789 536-00-4399 536-90-0000 536-90-43990",
        "2025-12-2025 123-456-789 1-536-90-4399",
        "127.0.0.1:8080",
    ] {
        assert_eq!(kept(&with_pii(), text), text);
    }
}

#[test]
fn persons_are_not_seen_in_what_only_looks_like_it() {
    // The corpus has numbers of every kind. It has few personal addresses, which are listed here.
    let redactor = redactor(&with_pii());
    let innocent: Vec<Innocent> = corpus("innocent.ndjson");
    let mut changed = 0;
    for Innocent { text } in &innocent {
        let found = redactor.redacted(text, &mut Numbers::default());
        // A text with one of these may contain an address.
        let has_address = ["@", "192.168.", "2001:db8:"]
            .iter()
            .any(|part| text.contains(part));
        if let Some(redacted) = found.filter(|_| !has_address) {
            changed += 1;
            println!("changed {text:?} to {redacted:?}");
        }
    }
    println!("changed {changed} of {}", innocent.len());
    assert!(changed * 1_000 <= innocent.len());
}

#[test]
fn commands_cookies_and_escapes_hide_nothing() {
    for (text, expected) in [
        (
            "curl -sS -u joe:kX9vbT2wq https://x.example/y",
            "curl -sS -u joe:[REDACTED:password:1] https://x.example/y",
        ),
        (
            "$ curl https://x.example \\\n  --user 'joe:kX9vbT2wq'",
            "$ curl https://x.example \\\n  --user 'joe:[REDACTED:password:1]'",
        ),
        (
            "Cookie: theme=dark; sessionid=8f3kQ2vLx0PzR7mB1cYd; auth=Zx81mvQpLk20aTyBn4; a=b",
            "Cookie: theme=dark; sessionid=[REDACTED:cookie:1]; auth=[REDACTED:cookie:2]; a=b",
        ),
        (
            r#"{"Set-Cookie":"connect.sid=s%3A8f3kQ2vLx0PzR7mB1cYd; Path=/"}"#,
            r#"{"Set-Cookie":"connect.sid=[REDACTED:cookie:1]; Path=/"}"#,
        ),
    ] {
        assert_eq!(defaults(text), expected);
    }
    let token = token('4').replacen("gh", "\\u0067\\u0068", 1);
    assert_eq!(
        defaults(&format!("line 1: {token} é")),
        "line 1: [REDACTED:github_token:1] é"
    );
    for text in [
        "curl -u user:password https://x.example",
        "curl -u \"$USER:$PASS\" https://x.example",
        "curl https://x.example | sort -u a:bcdef1",
        "Cookie: sessionid=...; theme=dark",
        "cookies: 12, tokens: 1234567890123456789",
        "curl --user-agent a:b1c2d3 https://x.example",
    ] {
        assert_eq!(defaults(text), text);
    }
}

#[test]
fn only_placeholders_of_ours_shield_what_is_in_them() {
    let token = token('4');
    assert_eq!(
        defaults(&format!(
            "[REDACTED: see {token} ] [REDACTED:{token}] [REDACTED:{token}:1]"
        )),
        "[REDACTED: see [REDACTED:github_token:1] ] [REDACTED:[REDACTED:github_token:1]] [REDACTED:[REDACTED:github_token:1]:1]"
    );
    for text in [
        "password=[REDACTED:password:1]",
        "password=\"a[REDACTED:password:12]b1\"",
        "key: [REDACTED:github_token:0123456789abcdef]",
        "[REDACTED:name of person] [REDACTED:]",
    ] {
        assert_eq!(defaults(text), text);
    }
}

#[test]
fn sentences_and_stress_end_tokens() {
    let jwt = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiI4ODQyMDE5In0.Zk3vQ9xT7mB2nLp5sWd8";
    for end in ["", ".", ". next", "...", ".next", "!"] {
        let text = format!("it is {jwt}{end}");
        assert_eq!(defaults(&text), format!("it is [REDACTED:jwt:1]{end}"));
    }
    for mark in ["_", "__", "**", "***", "`", "~~"] {
        let text = format!("a {mark}{}{mark} b", token('4'));
        let expected = format!("a {mark}[REDACTED:github_token:1]{mark} b");
        assert_eq!(defaults(&text), expected);
    }
}

/// Every second line of a key, as in a listing.
#[test]
fn no_line_of_a_listed_key_is_left() {
    let line =
        |n: u32| format!("{n}Mx69NwinxYTmIIXgrf9IFTQZ5iT/otImooxy1YqsYyvwzGVLd40XON/M9dyanD+w");
    let label = |word: &str| format!("-----{word} RSA PRIVATE KEY-----");
    let mut lines = vec![label("BEGIN")];
    lines.extend((0..9).map(line));
    lines.extend(["Zk3vQ9x=".to_owned(), label("END")]);
    let has_none = |kept: &str| !kept.contains("nxYTmIIX") && !kept.contains("Zk3vQ9x");
    for gutter in [
        "", "    #→", "#\t", "│ ", "| ", " # | ", "% ", "> ", "// ", "+", "k.pem:#:", "  # ",
    ] {
        let number = |n: usize| gutter.replace('#', &n.to_string()).replace('%', "#");
        let listed = lines.iter().enumerate().map(|(n, line)| number(n) + line);
        let listed: Vec<String> = listed.collect();
        for part in [&listed[..], &listed[..7], &listed[4..]] {
            for line_end in ["\n", "\r\n", "\\n"] {
                let text = format!("see{line_end}{}", part.join(line_end));
                assert!(has_none(&defaults(&text)), "{text:?}: {}", defaults(&text));
                let json = serde_json::json!({ "content": &text, "n": [1] }).to_string();
                assert!(has_none(&defaults(&json)), "{json}");
            }
        }
    }
    let framed = lines.iter().map(|line| format!("│ {line:<68} │"));
    let framed: Vec<String> = framed.collect();
    assert!(
        has_none(&defaults(&framed.join("\n"))),
        "{}",
        defaults(&framed.join("\n"))
    );
    for json in [
        serde_json::json!(lines),
        serde_json::json!({ "a": { "lines": &lines[..5] } }),
    ] {
        let once = defaults(&json.to_string());
        assert!(has_none(&once) && once.contains("PRIVATE KEY"), "{once}");
        assert_eq!(defaults(&once), once);
    }
    let cut = serde_json::json!(lines).to_string();
    assert!(has_none(&defaults(&cut[..400])));
    let markers = r#"["-----BEGIN RSA PRIVATE KEY-----","ghp","password","AKIA"]"#;
    assert_eq!(defaults(markers), markers);
    let putty = [
        "PuTTY-User-Key-File-2: ssh-rsa".to_owned(),
        "Private-Lines: 3".to_owned(),
        line(1),
        line(2),
        "Zk3vQ9x=".into(),
    ];
    for text in [
        putty.join("\n") + "\nPrivate-MAC: 0a",
        serde_json::json!({ "t": putty.join("\r\n") }).to_string(),
        serde_json::json!(putty).to_string(),
        format!("  7→{}\n", putty.join("\n  8→")),
    ] {
        assert!(has_none(&defaults(&text)), "{}", defaults(&text));
    }
}

#[test]
fn patterns_of_ones_own_are_checked_and_found() {
    let with = |name: &str, regex: &str| PrivacySettings {
        patterns: vec![Pattern {
            name: name.into(),
            regex: regex.into(),
        }],
        ..PrivacySettings::default()
    };
    let settings = with("ticket", r"TICKET-\d+|\w*");
    assert_eq!(
        kept(&with("ticket", r"TICKET-\d+"), "see TICKET-12"),
        "see [REDACTED:ticket:1]"
    );
    let once = kept(&settings, "see TICKET-12");
    assert_eq!(kept(&settings, &once), once);
    for (name, regex, what) in [
        ("a", "(", "pattern a"),
        ("A", "a", "\"A\""),
        ("", "a", "\"\""),
    ] {
        let e = Privacy::new(with(name, regex)).unwrap_err();
        assert_eq!(e.kind(), crate::ErrorKind::InvalidInput);
        assert!(e.to_string().contains(what), "{e}");
    }
}
