//! Text that terminals, web pages and mail do not show cannot hide a secret.

use super::*;

/// Colour sequences of terminal programs.
const COLOURS: [(&str, &str); 5] = [
    // `grep --color`
    ("\x1b[01;31m\x1b[K", "\x1b[m\x1b[K"),
    // `rg`
    ("\x1b[0m\x1b[1m\x1b[31m", "\x1b[0m"),
    // `bat`
    ("\x1b[38;5;231m", "\x1b[0m"),
    // `jq -C`, `ls`
    ("\x1b[0;32m", "\x1b[0m"),
    // `tput`, for xterm
    ("\x1b[38:2:1:2:3m", "\x1b(B\x1b[m"),
];

/// Other notations of the escape character.
const ESCAPES: [&str; 10] = [
    "\x1b", "\\x1b", "\\x1B", "\\u001b", "\\033", "\\e", "\\E", "^[", "\\\\x1b", "\\u{1b}",
];

/// Checks the result for the text, for the text in JSON, and for JSON in JSON.
fn everywhere(text: &str, expected: &str) {
    assert_eq!(defaults(text), expected, "{text:?}");
    assert_eq!(defaults(expected), expected);
    let mut json = [text, expected].map(|text| serde_json::json!({ "out": text, "n": 1 }));
    for _ in 0..2 {
        let [text, expected] = json.map(|json| json.to_string());
        assert_eq!(defaults(&text), expected);
        json = [text, expected].map(|text| serde_json::json!([text]));
    }
}

#[test]
fn colours_hide_no_secret() {
    let token = token('4');
    let (one, two) = token.split_at(15);
    for (on, off) in COLOURS {
        for escape in ESCAPES {
            // In escaped notation, not all sequences end this way.
            if escape != "\x1b" && off.contains("\x1b(") {
                continue;
            }
            let [on, off] = [on, off].map(|sign| sign.replace('\x1b', escape));
            everywhere(
                &format!("k.env:3:{on}{token}{off} end"),
                &format!("k.env:3:{on}[REDACTED:github_token:1]{off} end"),
            );
            everywhere(
                &format!("{on}GITHUB{off}=a{on}b {one}{off}{two}, {token}"),
                &format!(
                    "{on}GITHUB{off}=a{on}b [REDACTED:github_token:1], [REDACTED:github_token:1]"
                ),
            );
            everywhere(
                &format!("{on}password{off}{on}={off}{on}kX9vbT2wq{off}\n"),
                &format!("{on}password{off}{on}={off}{on}[REDACTED:password:1]{off}\n"),
            );
            everywhere(
                &format!("{on}pass{off}word: kX9{on}vbT{off}2wq\n"),
                &format!("{on}pass{off}word: [REDACTED:password:1]\n"),
            );
            everywhere(
                &format!("{on}\"api_key\"{off}{on}:{off} {on}\"kX9vbT2wqZq8Lw3\"{off}{on},{off}"),
                &format!(
                    "{on}\"api_key\"{off}{on}:{off} {on}\"[REDACTED:api_key:1]\"{off}{on},{off}"
                ),
            );
        }
    }
}

#[test]
fn no_sequence_of_terminals_hides_a_secret() {
    let token = token('4');
    for before in [
        "\x1b[?25l",
        "\x1b[?2004h",
        "\x1b[2K",
        "\x1b[12;40H",
        "value\x1b[20G",
        "\x1b]0;a title\x07",
        "\x1b]8;;https://x.example/y\x1b\\",
        "\\x1b]0;a title\\x07",
        "\x1b(0",
        "\x1b)B",
        "\x1b7",
        "\x1b=",
        "\x1bM",
        "\x0f",
        "\x07",
        "\0",
        "\\0",
        "\\x00",
        "\\x0f",
        "\u{9b}31m",
        "\\x9b31m",
        "\u{200b}",
        "a\\x20",
        "\\x1b",
        "\x1b",
        "\x1b[",
        "\x1b]0;never ended ",
        "=3D",
        "a=3D",
        "%3D",
        "%253d",
        "&quot;",
        "&#39;",
        "&#x3d;",
        "&amp;quot;",
        "_\x08",
        "\\u003d",
        "\\\\u003d",
        "x%0A",
        "x%0d%0a",
        "x%2520",
        "x\\012",
        "x\\12",
        "x\\033[",
        "x\\33[31m",
        "x^M",
        "xyz\r",
    ] {
        let text = format!("see {before}{token} end");
        let kept = defaults(&text);
        assert!(kept.ends_with("[REDACTED:github_token:1] end"), "{kept:?}");
        assert_eq!(defaults(&kept), kept);
        let json = serde_json::json!({ "a": text }).to_string();
        assert!(!defaults(&json).contains(&token), "{json}");
    }
}

#[test]
fn nothing_that_does_not_show_parts_a_token() {
    let token = token('4');
    for within in [
        "\x1b[0m",
        "\u{200b}",
        "\u{ad}",
        "\x0f",
        "\\x1b[K",
        "\\u200b",
        "\0",
        "\\x00",
        "\r",
        "\x0b",
        "\x0c",
        "\x7f",
        "\x1b[3C",
        "\x1bD",
        "\\033[2C",
        "\\\n",
        "\\\r\n  ",
        "^@",
        "^M",
        "\u{80}",
        "\u{85}",
        "\u{34f}",
        "\u{61c}",
        "\u{115f}",
        "\u{17b4}",
        "\u{180e}",
        "\u{2028}",
        "\u{2064}",
        "\u{3164}",
        "\u{fe0f}",
        "\u{ffa0}",
        "\u{fff8}",
        "\u{1bca0}",
        "\u{1d17a}",
        "\u{e0061}",
        "\u{e01ef}",
        "\\u034f",
        "\\u{e0061}",
    ] {
        let (one, two) = token.split_at(9);
        everywhere(
            &format!("a {one}{within}{two} b"),
            "a [REDACTED:github_token:1] b",
        );
    }
    let wide: String = token.chars().flat_map(|sign| [sign, '\0']).collect();
    everywhere(&format!("a {wide} b"), "a [REDACTED:github_token:1]\0 b");
}

#[test]
fn escapes_spell_no_token() {
    let token = token('4');
    let rest = &token[3..];
    for spelled in [
        "\\147\\150\\160",
        "\\147hp",
        "g\\x68p",
        "%67hp",
        "&#103;hp",
        "gh\\u{70}",
    ] {
        everywhere(
            &format!("a {spelled}{rest} b"),
            "a [REDACTED:github_token:1] b",
        );
    }
}

/// Terminals, mail programs and editors break long lines.
#[test]
fn no_line_break_within_a_token_hides_it() {
    let token = token('4');
    for (width, line_break) in [
        (80, "\n"),
        (80, "\r\n"),
        (72, "\n"),
        (76, "=\n"),
        (53, "\n"),
        (132, "\n"),
    ] {
        for cut in [2, 9, 25, 33, 39] {
            let last = usize::from(line_break.starts_with('='));
            let line = "-".repeat(width - cut - 1 - last);
            let (one, two) = token.split_at(cut);
            // If the line has no usual width, a few letters may be a word.
            if width == 53 && two.len() < 4 {
                continue;
            }
            everywhere(
                &format!("{line} {one}{line_break}{two} end"),
                &format!("{line} [REDACTED:github_token:1] end"),
            );
        }
    }
    // Text on the next line is not part of the token.
    for next in ["NEXT2=a", "next", "port: 80", "[a2]", "# a2"] {
        for line in ["", "a line that is not as wide as a window: "] {
            everywhere(
                &format!("{line}{token}\n{next}"),
                &format!("{line}[REDACTED:github_token:1]\n{next}"),
            );
        }
    }
    // The format of `/proc/1/environ`.
    everywhere(
        &format!("PATH=/bin\0A={token}\0HOME=/root\0DB_PASSWORD=kX9vbT2wq\0LANG=C"),
        "PATH=/bin\0A=[REDACTED:github_token:1]\0HOME=/root\0DB_PASSWORD=[REDACTED:password:1]\0LANG=C",
    );
}

#[test]
fn what_is_struck_twice_is_found() {
    let bold = |text: &str| {
        text.chars()
            .flat_map(|sign| [sign, '\x08', sign])
            .collect::<String>()
    };
    let line = |text: &str| {
        text.chars()
            .flat_map(|sign| ['_', '\x08', sign])
            .collect::<String>()
    };
    for struck in [bold(&token('4')), line(&token('4'))] {
        everywhere(&format!("a {struck} b"), "a [REDACTED:github_token:1] b");
    }
    let text = format!("{}=kX9vbT2wq", bold("password"));
    everywhere(&text, &text.replace("kX9vbT2wq", "[REDACTED:password:1]"));
    everywhere("\x08\x08é\x08\n\x08a", "\x08\x08é\x08\n\x08a");
}

#[test]
fn what_is_escaped_for_pages_and_mail_is_found() {
    for (text, expected) in [
        (
            "{&quot;password&quot;: &quot;kX9vbT2wq&quot;}",
            "{&quot;password&quot;: &quot;[REDACTED:password:1]&quot;}",
        ),
        (
            "%7B%22password%22%3A%22kX9vbT2wq%22%7D",
            "%7B%22password%22%3A%22[REDACTED:password:1]%22%7D",
        ),
        (
            "?x=1&password%3DkX9vbT2wq&y=2",
            "?x=1&password%3D[REDACTED:password:1]&y=2",
        ),
        ("password=3DkX9vbT2wq", "password=[REDACTED:password:1]"),
        (
            "to=3D1 password=3DkX9v=\nbT2wq end",
            "to=3D1 password=[REDACTED:password:1] end",
        ),
        (
            "Authorization%3A%20Bearer%20Zk3vQ9xT7mB2nLp5sWd8",
            "Authorization%3A%20Bearer%20[REDACTED:authorization:1]",
        ),
    ] {
        everywhere(text, expected);
    }
}

#[test]
fn what_is_displayed_as_it_stands_is_looked_at_once() {
    use crate::privacy::displayed::differs;
    for text in [
        "",
        "a \\n \\t b: c\r\n\té “—” … 日本",
        "if a && b { &args[3] % 10 } else { x = 30 }; fmt(\"%5.2f %s %d\")",
        r#"{"path":"C:\\Temp","a":"\u00e9\u2019"}"#,
        "/^[a-z]+$/ ^[[:alpha:]]",
        "\\alpha \\end{x} \\usepackage \\xi",
        "s/(a)(b)/\\1\\2/ C:\\1 \\300",
        "cc -O2 \\\n  -c a.c \\\n  b.c",
        "Prose that goes on for as many letters as a line of prose has, and is then\nbroken, as in 2025 most of it still is, at a width that never was agreed on,\nA2 or so.",
        "Привет, мир: こんにちは, 🎉",
    ] {
        assert!(!differs(text.as_bytes()), "{text:?}");
    }
}
