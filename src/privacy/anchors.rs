//! Finds the anchors at which rules run. Three passes over a text look at many bytes at a time: two
//! for words next to secrets, one for runs long enough for a key or token. Most texts have few of
//! either.

use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, Input, MatchKind, Span, packed};

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

/// The words next to secrets. Each list is searched in one pass. A searcher of few words is much
/// faster than one of all, and one of longer words looks at more of their bytes at once.
static WORDS_BY_LEN: LazyLock<[Words; 2]> = LazyLock::new(|| {
    let (long, short): (Vec<Anchor>, Vec<Anchor>) =
        of_contexts(WORDS).partition(|anchor| anchor.text.len() >= LONG_BYTES);
    [short, long].map(Words::new)
});

/// Number of bytes of a word that the searcher looks at.
const LONG_BYTES: usize = 4;

struct Words {
    anchors: Vec<Anchor>,
    search: Search,
}

enum Search {
    Packed(packed::Searcher),
    /// Used if the CPU lacks the vector instructions.
    Automaton(AhoCorasick),
}

fn words(text: &[u8], ask: &mut Ask<'_>) -> bool {
    let [short, long] = &*WORDS_BY_LEN;
    let (mut next_short, mut next_long) = (short.next(text, 0), long.next(text, 0));
    loop {
        // Both lists in the order of the text.
        let is_short = match (next_short, next_long) {
            (None, None) => return true,
            (Some((_, short)), Some((_, long))) => short < long,
            (short, _) => short.is_some(),
        };
        let (next, words) = if is_short {
            (&mut next_short, short)
        } else {
            (&mut next_long, long)
        };
        let Some((anchor, start)) = *next else {
            return true;
        };
        if !ask(&anchor.rule, start, start + anchor.text.len()) {
            return false;
        }
        *next = words.next(text, start + 1);
    }
}

impl Words {
    fn new(anchors: Vec<Anchor>) -> Words {
        let texts = || anchors.iter().map(|anchor| anchor.text);
        // Without its limit on the number of words: the automaton takes four times as long.
        let packed = packed::Config::new()
            .heuristic_pattern_limits(false)
            .builder()
            .extend(texts())
            .build();
        let search = match packed {
            Some(searcher) => Search::Packed(searcher),
            None => match AhoCorasick::builder()
                .match_kind(MatchKind::LeftmostFirst)
                .build(texts())
            {
                Ok(automaton) => Search::Automaton(automaton),
                Err(_) => unreachable!("a few short literals"),
            },
        };
        Words { anchors, search }
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    /// With more words than it can take, the vector search is not built, and all would be slower.
    #[test]
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    fn words_are_searched_by_vector_instructions() {
        for words in &*WORDS_BY_LEN {
            let is_packed = matches!(words.search, Search::Packed(_));
            assert!(is_packed, "{} words", words.anchors.len());
        }
    }

    #[test]
    fn words_of_both_lists_are_found_in_the_order_of_the_text() {
        let text = b"://pass_key -p KEY -password \"authpwd";
        let mut found = Vec::new();
        words(text, &mut |_, start, end| {
            found.push((start, end));
            true
        });
        let all = of_contexts(WORDS).flat_map(|anchor| {
            let starts = memchr::memmem::find_iter(text, anchor.text);
            starts.map(move |start| (start, start + anchor.text.len()))
        });
        let mut expected: Vec<_> = all.collect();
        expected.sort_unstable();
        assert_eq!(found, expected);
        assert!(found.len() >= 8, "{found:?}");
    }
}
