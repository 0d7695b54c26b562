//! Random tokens in every provider's format. All of them must be found.

use super::*;
use crate::privacy::rules::TOKENS;
use crate::privacy::runs::{Class, Runs};

/// Number of tokens per format.
const TOKENS_EACH: usize = 2_000;
/// Length of a token's body if the table's minimum is below what providers issue.
const BODY_BYTES: usize = 24;

/// Random number generator: Marsaglia's xorshift64*.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let mixed = self.0.wrapping_mul(0x2545_F491_4F6C_DD1D);
        (mixed >> 33) as usize % bound
    }
}

/// The characters that a provider uses in this format.
fn alphabet(class: Class, prefix: &str) -> Vec<u8> {
    let of = |is_one: fn(&u8) -> bool| (b'!'..=b'~').filter(is_one).collect();
    match (class, prefix) {
        (_, "AKIA" | "ASIA") => of(|byte| byte.is_ascii_uppercase() || matches!(byte, b'2'..=b'7')),
        (Class::Hex, _) => b"0123456789abcdef".to_vec(),
        (Class::Upper, _) => of(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit()),
        (Class::Alnum, _) => of(u8::is_ascii_alphanumeric),
        (Class::Base64, _) => {
            of(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/'))
        }
        (Class::Word, _) => of(|byte| byte.is_ascii_alphanumeric() || *byte == b'_'),
        _ => of(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')),
    }
}

#[test]
fn every_token_of_every_form_is_found() {
    let mut dice = Dice(0x9E37_79B9_7F4A_7C15);
    for form in TOKENS {
        let (class, least, most) = form.body();
        let alphabet = alphabet(class, form.prefix);
        let is_short = least < 20;
        let len = if is_short { BODY_BYTES } else { least }.min(most);
        let mut token = form.prefix.as_bytes().to_vec();
        for _ in 0..TOKENS_EACH {
            token.truncate(form.prefix.len());
            for place in 0..len {
                // A full stop or dash at the end of a text is treated as punctuation.
                let is_end = place == 0 || place + 1 == len;
                let sign = loop {
                    let sign = alphabet[dice.below(alphabet.len())];
                    if !is_end || sign.is_ascii_alphanumeric() {
                        break sign;
                    }
                };
                token.push(sign);
            }
            let found = form.found(&token, &Runs::new(&token), 0);
            let is_whole = found.is_some_and(|found| (found.start, found.end) == (0, token.len()));
            assert!(is_whole, "{}", String::from_utf8_lossy(&token));
        }
    }
}

#[test]
fn letters_and_short_words_leave_no_token() {
    // Split, so that secret scanners of hosting services do not report them.
    for (prefix, body) in [
        ("AKIA", "QWERTZXNBVKLMPOI"),
        ("ASIA", "ZMXNCBVLAKSJDHFG"),
        ("ghp_", "a8Kfake3Qz0Lw2Xc5Vb7Nm9Rt4Yp6Ws1Ed8H"),
        (
            "sk-ant-api03-",
            "Zq8TODOw3Xc5Vb7Nm9Rt4-yOuRYp6Ws1Ed8HxXxX2k",
        ),
        ("glpat-", "x7Your2Qm9Rt4Yp6Ws1E"),
        ("glrtr-", "QWZXNBVKLMPOIRTHGFDS"),
        ("glpat-", "QWZX-NBVK_LMPO-IRTHG"),
        ("glpat-", "qwzxnbvklmpoirthgfds"),
        ("xoxb-", "qwzxnbvklmpoirthgfdsa"),
    ] {
        let token = [prefix, body].concat();
        let kept = defaults(&format!("a {token} b"));
        assert!(!kept.contains(body), "{kept}");
    }
    for text in [
        ["AKIA", "IOSFODNN7EXAMPLE"].concat(),
        ["AKIA", "XXXXXXXXXXXXXXXX"].concat(),
        ["AKIA", "1234567890ABCDEF"].concat(),
        "ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx".into(),
        "sk-ant-your-key-goes-here-1234".into(),
        "glpat-fake-token-for-tests-1".into(),
        "glpat-YOUR-TOKEN-GOES-HERE".into(),
        "glrt-xxxxxxxxxxxxxxxxxxxx".into(),
    ] {
        assert_eq!(defaults(&text), text);
    }
}

#[test]
fn tokens_with_a_part_of_their_own_are_found() {
    let hex = "67e55044c0b1426f9247bb680e5fe0c8";
    let body = "q8JfWxq50NIRFT6TKWrvjbM0po7HCJO3efXNvm7pOPjWTgznXv66rpFCKCMKHg2A";
    for (token, name) in [
        (format!("Zk3vQ9xT7mB2nL.atlasv1.{body}"), "terraform_token"),
        (format!("{hex}-us12"), "mailchimp_key"),
        (["re_Zk3vQ9xT_", &body[..24]].concat(), "resend_key"),
        (
            ["OTk4MDEyMzQ1Njc4OTAxMjM0.Gx8LqZ.", &body[..38]].concat(),
            "discord_token",
        ),
        (
            ["MzI0NTY3ODkwMTIzNDU2Nzg5.Gx8LqZ.", &body[..27]].concat(),
            "discord_token",
        ),
        (["xoxd-", body, "%2B", hex, "%3D"].concat(), "slack_token"),
        (
            // {"alg":"HS256"}, with a blank or a line break after each brace.
            "eyAiYWxnIjoiSFMyNTYifQ.eyAic3ViIjoiODg0MjAxOSJ9.Zk3vQ9xT7mB2nLp5sWd8".to_owned(),
            "jwt",
        ),
        (
            "ewogImFsZyI6IkhTMjU2In0.ewogInN1YiI6Ijg4NDIwMTkifQ.Zk3vQ9xT7mB2nLp5sWd8".to_owned(),
            "jwt",
        ),
        (
            // {"alg":"none"}
            "eyJhbGciOiJub25lIn0.eyAic3ViIjoiODg0MjAxOSJ9".to_owned(),
            "jwt",
        ),
    ] {
        let kept = defaults(&format!("a {token} b"));
        assert_eq!(kept, format!("a [REDACTED:{name}:1] b"), "{token}");
    }
    for text in [
        format!("{hex}-use {hex}-us {hex}-us123 app{hex}-us1"),
        "re_compile_pattern_with_flags_2_abcdef re_sync_2024_index_of_all_2_files".to_owned(),
        format!("a.atlasv1.{body} Zk3vQ9xT7mB2nL.atlasv1.short"),
        "path-and-pattern.of-something.that-is-quite-long/patterns-and-paths.rs".to_owned(),
        "ewogImFsZyI6IkhTMjU2In0 eyAic3ViIjoiODg0MjAxOSJ9".to_owned(),
    ] {
        assert_eq!(defaults(&text), text);
    }
}

/// Such keys may contain `/`, and a few contain no digit.
#[test]
fn secret_keys_in_base64_are_found_wherever_they_are_given() {
    const KEYS: usize = 3_000;
    let alphabet = alphabet(Class::Base64, "");
    let mut dice = Dice(0x2545_F491_4F6C_DD1D);
    let mut missed = Vec::new();
    for first in ["", "/"] {
        for _ in 0..KEYS {
            let mut key = first.to_owned();
            while key.len() < 40 {
                key.push(char::from(alphabet[dice.below(alphabet.len())]));
            }
            for text in [
                format!("[default]\naws_secret_access_key = {key}\nregion = eu-1\n"),
                format!("\"SecretAccessKey\": \"{key}\","),
                format!("export DB_PASSWORD={key}\n"),
            ] {
                if defaults(&text).contains(&key) {
                    missed.push(text);
                }
            }
        }
    }
    // Random text sometimes contains a word. Limit: 20 misses in 18,000.
    assert!(missed.len() <= 20, "{}: {missed:?}", missed.len());
}

/// The formats in which Kubernetes and cloud tools store private keys.
#[test]
fn private_keys_in_base64_are_found_to_their_last_line() {
    const LINE: usize = 64;
    let mut dice = Dice(0x9E37_79B9_7F4A_7C15);
    let digits = alphabet(Class::Base64, "");
    let kinds = ["", "RSA ", "EC ", "OPENSSH ", "ENCRYPTED "];
    for kind in kinds {
        let label = |word: &str| format!("-----{word} {kind}PRIVATE KEY-----\n");
        let mut pem = label("BEGIN");
        for _ in 0..12 {
            pem.extend((0..LINE).map(|_| char::from(digits[dice.below(digits.len())])));
            pem.push('\n');
        }
        pem += &label("END");
        let key = base64(pem.as_bytes());
        for text in [
            format!("    client-key-data: {key}\n    name: dev\n"),
            format!("  \"tls.key\": \"{key}\"\n}}"),
            format!("echo {key} | base64 -d > id_rsa"),
        ] {
            let kept = defaults(&text);
            assert_eq!(kept, text.replace(&key, "[REDACTED:private_key:1]"));
        }
        for (width, before) in [(76, ""), (64, "  "), (76, "  12\u{2192}")] {
            let lines = key.as_bytes().chunks(width);
            let lines: Vec<_> = lines.map(|line| str::from_utf8(line).unwrap()).collect();
            let text = format!(
                "$ x\n{before}{}\n$ end\n",
                lines.join(&format!("\n{before}"))
            );
            let kept = defaults(&text);
            assert_eq!(
                kept,
                format!("$ x\n{before}[REDACTED:private_key:1]\n$ end\n")
            );
        }
    }
    let public = base64(b"-----BEGIN CERTIFICATE-----\nMIIBszCCAVmgAwIBAgIUJrWd0Zx1xQ8k");
    let text = format!("certificate-authority-data: {public}");
    assert_eq!(defaults(&text), text);
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let bits = (0..3).fold(0, |bits, at| {
            bits << 8 | usize::from(three.get(at).copied().unwrap_or(0))
        });
        for (at, shift) in [18, 12, 6, 0].into_iter().enumerate() {
            let digit = char::from(DIGITS[bits >> shift & 63]);
            text.push(if at > three.len() { '=' } else { digit });
        }
    }
    text
}
