//! Finds the anchors at which rules run. Two passes over a text look at many bytes at a time: one
//! for words next to secrets, one for runs long enough for a key or token. Most texts have few of
//! either.

use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, Input, Span, packed};

use super::bytes::run;
use super::rules::{Context, RUNS, TOKENS, Token, WORDS};

/// Minimum length of a run that holds a token with its prefix.
const RUN_BYTES_MIN: usize = 16;
/// Maximum distance between the start of a token and its run: `FlyV1 fm2_…`.
const LEAD_BYTES: usize = 6;

/// A rule to run.
pub(super) enum Rule {
    Token(&'static Token),
    Context(&'static Context),
}

/// Receives a rule and the start and end of its anchor; returns false to stop.
type Ask<'a> = dyn FnMut(&Rule, usize, usize) -> bool + 'a;

/// Calls `ask` for every anchor in a text with its rule, start and end, until `ask` returns false.
/// Anchors in runs come first.
pub(super) fn all(text: &[u8], ask: &mut Ask<'_>) {
    let _ = in_runs(text, ask) && words(text, ask);
}

/// Like `all`, for anchors in runs only.
pub(super) fn in_runs(text: &[u8], ask: &mut Ask<'_>) -> bool {
    let prefixes = &*PREFIXES;
    runs(text, &mut |start, end| {
        !may_be_random(&text[start..end])
            || prefixes.all(text, start.saturating_sub(LEAD_BYTES), end, ask)
    })
}

/// Sets the highest bit of each of eight bytes that is not part of a run. Runs consist of bytes
/// from `+` upwards. These include all characters of keys and tokens, but no blanks or quotes.
fn breaks(eight: [u8; 8]) -> u64 {
    const EACH: u64 = u64::from_le_bytes([1; 8]);
    const FIRST: u64 = 0x2B;
    let eight = u64::from_le_bytes(eight);
    let from_first = (eight & (EACH * 0x7F)) + EACH * (0x80 - FIRST);
    (eight | !from_first) & (EACH * 0x80)
}

/// Calls `ask` for every run that is long enough, until `ask` returns false.
fn runs(text: &[u8], ask: &mut dyn FnMut(usize, usize) -> bool) -> bool {
    let (blocks, rest) = text.as_chunks::<8>();
    let rest = run(rest, 0, rest.len(), |byte| breaks([byte; 8]) == 0);
    // A run that is long enough contains a whole block.
    let (mut block, mut before) = (0, u64::MAX);
    while let Some(bytes) = blocks.get(block) {
        let broken = breaks(*bytes);
        block += 1;
        if broken != 0 {
            before = broken;
            continue;
        }
        let start = 8 * (block - 1) - before.leading_zeros() as usize / 8;
        let end = loop {
            let Some(bytes) = blocks.get(block) else {
                break 8 * block + rest;
            };
            before = breaks(*bytes);
            block += 1;
            if before != 0 {
                break 8 * (block - 1) + before.trailing_zeros() as usize / 8;
            }
        };
        if end - start >= RUN_BYTES_MIN && !ask(start, end) {
            return false;
        }
    }
    true
}

/// Whether a run has what every key has: digits, or capital letters among others. After a prefix
/// such as `glpat-` a random token may lack both.
fn may_be_random(run: &[u8]) -> bool {
    run.iter()
        .any(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase() || *byte == b'-')
}

/// The anchors in runs, by their first two bytes.
struct Prefixes {
    /// One bit for each pair of bytes.
    known: Box<[u64; 1 << 10]>,
    /// Sorted by the two bytes.
    anchors: Vec<([u8; 2], Anchor)>,
}

struct Anchor {
    text: &'static str,
    rule: Rule,
}

static PREFIXES: LazyLock<Prefixes> = LazyLock::new(|| {
    let tokens = TOKENS.iter().map(|token| Anchor {
        text: token.prefix,
        rule: Rule::Token(token),
    });
    let mut anchors = Vec::new();
    for anchor in tokens.chain(of_contexts(RUNS)) {
        if let [one, two, ..] = anchor.text.as_bytes() {
            anchors.push(([*one, *two], anchor));
        }
    }
    // The sort is stable, so rules with the same two bytes keep their order.
    anchors.sort_by_key(|(two, _)| *two);
    let mut known = Box::new([0; 1 << 10]);
    for (two, _) in &anchors {
        let (word, bit) = place(*two);
        known[word] |= bit;
    }
    Prefixes { known, anchors }
});

/// Index and mask of the bit of two bytes.
fn place(two: [u8; 2]) -> (usize, u64) {
    let two = usize::from(u16::from_le_bytes(two));
    (two / 64, 1 << (two % 64))
}

impl Prefixes {
    fn all(&self, text: &[u8], start: usize, end: usize, ask: &mut Ask<'_>) -> bool {
        for (at, two) in text[start..end].windows(2).enumerate() {
            let two = [two[0], two[1]];
            let (word, bit) = place(two);
            if self.known[word] & bit != 0 && !self.at(text, two, start + at, ask) {
                return false;
            }
        }
        true
    }

    fn at(&self, text: &[u8], two: [u8; 2], at: usize, ask: &mut Ask<'_>) -> bool {
        let first = self.anchors.partition_point(|(known, _)| *known < two);
        let same = self.anchors[first..]
            .iter()
            .take_while(|(known, _)| *known == two);
        let mut here = same.filter(|(_, anchor)| text[at..].starts_with(anchor.text.as_bytes()));
        here.all(|(_, anchor)| ask(&anchor.rule, at, at + anchor.text.len()))
    }
}

fn of_contexts(contexts: &'static [Context]) -> impl Iterator<Item = Anchor> {
    contexts.iter().flat_map(|context| {
        context.anchors.iter().map(|text| Anchor {
            text,
            rule: Rule::Context(context),
        })
    })
}

/// The words next to secrets. They are searched in one pass.
struct Words {
    anchors: Vec<Anchor>,
    search: Search,
}

enum Search {
    Packed(packed::Searcher),
    /// Used if the CPU lacks the vector instructions.
    Automaton(AhoCorasick),
}

/// The order in which the searcher receives the words. It has eight buckets and assigns every
/// eighth word to the same bucket; words that differ only in case share a bucket in any order.
/// Words that are eight apart here therefore have letters in common, which reduces false matches.
const ORDER: [&str; 16] = [
    "kie",
    "rer ",
    "pass",
    "ecret",
    "oken",
    "://",
    "sic ",
    "curl ", //
    "key",
    "rization",
    "pwd",
    "ECRET",
    "OKEN",
    "ig=",
    "SIC ",
    "PRIVATE KEY",
];

static ALL_WORDS: LazyLock<Words> = LazyLock::new(|| {
    let mut anchors: Vec<Anchor> = of_contexts(WORDS).collect();
    anchors.sort_by_key(|anchor| {
        let known = ORDER.iter().position(|text| *text == anchor.text);
        known.unwrap_or(ORDER.len())
    });
    let texts = || anchors.iter().map(|anchor| anchor.text);
    let packed = packed::Config::new().builder().extend(texts()).build();
    let search = match packed {
        Some(searcher) => Search::Packed(searcher),
        None => match AhoCorasick::new(texts()) {
            Ok(automaton) => Search::Automaton(automaton),
            Err(_) => unreachable!("a few short literals"),
        },
    };
    Words { anchors, search }
});

fn words(text: &[u8], ask: &mut Ask<'_>) -> bool {
    let words = &*ALL_WORDS;
    let mut at = 0;
    while let Some((anchor, start)) = words.next(text, at) {
        if !ask(&anchor.rule, start, start + anchor.text.len()) {
            return false;
        }
        at = start + 1;
    }
    true
}

impl Words {
    /// The next word at or after `at`.
    fn next(&self, text: &[u8], at: usize) -> Option<(&Anchor, usize)> {
        let span = Span::from(at..text.len());
        let found = match &self.search {
            Search::Packed(searcher) => searcher.find_in(text, span),
            Search::Automaton(automaton) => automaton.find(Input::new(text).span(span)),
        }?;
        Some((&self.anchors[found.pattern().as_usize()], found.start()))
    }
}
