//! What tells a secret from what only looks like one: where a word starts, and whether it is
//! random.

/// Whether a word starts at `at`: after nothing, or what is no letter or digit. An escape that is
/// still in the text (`\n`, `\u000a`, `%20`) and a terminal's colour (`[0m`) are none.
pub(super) fn starts_word(text: &[u8], at: usize) -> bool {
    let before = &text[..at];
    let Some(last) = before.last() else {
        return true;
    };
    !last.is_ascii_alphanumeric() || ends_in_escape(before)
}

fn ends_in_escape(before: &[u8]) -> bool {
    let back = |n: usize| before.len().checked_sub(n).map(|at| before[at]);
    let hex = |n: usize| back(n).is_some_and(|byte| byte.is_ascii_hexdigit());
    let simple =
        back(2) == Some(b'\\') && matches!(back(1), Some(b'n' | b'r' | b't' | b'b' | b'f'));
    let percent = back(3) == Some(b'%') && hex(1) && hex(2);
    let unicode = back(6) == Some(b'\\') && back(5) == Some(b'u') && (1..=4).all(hex);
    let is_colour = || {
        let Some(codes) = before.strip_suffix(b"m") else {
            return false;
        };
        let codes = codes.iter().rev().take(12);
        let mut codes = codes.skip_while(|byte| byte.is_ascii_digit() || **byte == b';');
        codes.next() == Some(&b'[')
    };
    simple || percent || unicode || is_colour()
}

/// Words of texts that stand where a secret goes.
const PLACEHOLDERS: &[&str] = &[
    "example",
    "placehold",
    "your",
    "xxxx",
    "changeme",
    "change_me",
    "change-me",
    "dummy",
    "replace",
    "redacted",
    "insert",
    "sample",
    "goes-here",
    "goes_here",
    "goeshere",
    "****",
    "....",
    "todo",
    "notreal",
    "not-real",
    "not_real",
    "fake",
];

/// Whether a text stands where a secret goes, and is none.
pub(super) fn is_placeholder(text: &[u8]) -> bool {
    // What is random and long holds any short word by chance, somewhere.
    let lower = text[..text.len().min(64)].to_ascii_lowercase();
    PLACEHOLDERS
        .iter()
        .any(|word| memchr::memmem::find(&lower, word.as_bytes()).is_some())
        || longest_sequence(&lower) >= 6
        || longest_repeat(&lower) >= 6
}

/// Whether a token's text is random, as a key is and a name is not: its beginning says.
pub(super) fn is_random(text: &[u8]) -> bool {
    const LOOKED_AT: usize = 256;
    let text = &text[..text.len().min(LOOKED_AT)];
    let has = |class: fn(&u8) -> bool| text.iter().any(class);
    let is_mixed =
        has(u8::is_ascii_digit) || has(u8::is_ascii_lowercase) && has(u8::is_ascii_uppercase);
    is_mixed && distinct(text) >= 8 && !is_placeholder(text)
}

/// How many different bytes there are.
pub(super) fn distinct(text: &[u8]) -> u32 {
    let mut seen = [0u64; 4];
    for byte in text {
        seen[usize::from(byte >> 6)] |= 1 << (byte & 63);
    }
    seen.iter().map(|word| word.count_ones()).sum()
}

/// The longest run like `abcdef` or `123456`.
fn longest_sequence(text: &[u8]) -> usize {
    longest(text, |a, b| {
        a.is_ascii_alphanumeric() && a.checked_add(1) == Some(b)
    })
}

fn longest_repeat(text: &[u8]) -> usize {
    longest(text, |a, b| a == b)
}

fn longest(text: &[u8], goes_on: fn(u8, u8) -> bool) -> usize {
    let (mut longest, mut now) = (1, 1);
    for pair in text.windows(2) {
        now = if goes_on(pair[0], pair[1]) {
            now + 1
        } else {
            1
        };
        longest = longest.max(now);
    }
    longest
}
