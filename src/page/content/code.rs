//! Highlighted source code.

use std::sync::OnceLock;
use std::time::Instant;

use maud::{Markup, PreEscaped, Render as _, html};
use syntect::parsing::{ParseState, Scope, ScopeStack, SyntaxReference, SyntaxSet};

use super::Budget;

/// Longer lines are shown plain: the time of a line grows with its length.
const LINE_BYTES_MAX: usize = 1_000;

/// The classes of the style sheet, by the start of the scope's name. The last match counts.
const CLASSES: [(&str, &str); 9] = [
    ("comment", "c"),
    ("string", "s"),
    ("constant", "n"),
    ("keyword", "k"),
    ("storage", "k"),
    ("entity.name.function", "f"),
    ("entity.name", "t"),
    ("support", "f"),
    ("variable.parameter", "v"),
];

struct Grammars {
    set: SyntaxSet,
    classes: Vec<(Scope, &'static str)>,
}

fn grammars() -> &'static Grammars {
    static GRAMMARS: OnceLock<Grammars> = OnceLock::new();
    GRAMMARS.get_or_init(|| {
        let known = CLASSES.iter();
        let known = known.filter_map(|(name, class)| Some((Scope::new(name).ok()?, *class)));
        Grammars {
            set: SyntaxSet::load_defaults_newlines(),
            classes: known.collect(),
        }
    })
}

/// Source code in a language, which is a name or a file name's extension.
pub(in crate::page) fn code(text: &str, language: &str, budget: &Budget) -> Markup {
    let (text, note) = budget.cut(text);
    let syntax = syntax(language);
    let lines = syntax.map(|syntax| budget.highlighted(|until| highlighted(text, syntax, until)));
    html! {
        pre.code tabindex="0" { code {
            @match lines.flatten() {
                Some(lines) => (lines),
                None => (text),
            }
        } }
        (note)
    }
}

/// The grammar of a language; `None` if it is unknown.
fn syntax(language: &str) -> Option<&'static SyntaxReference> {
    let language = language.split([',', ' ', '{']).next().unwrap_or_default();
    if language.is_empty() {
        return None;
    }
    grammars().set.find_syntax_by_token(language)
}

fn highlighted(text: &str, syntax: &SyntaxReference, until: Instant) -> Markup {
    let grammars = grammars();
    let mut html = String::with_capacity(text.len() * 2);
    let (mut state, mut stack) = (ParseState::new(syntax), ScopeStack::new());
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find('\n').map_or(rest.len(), |at| at + 1);
        let (line, others) = rest.split_at(end);
        if line.len() > LINE_BYTES_MAX || Instant::now() >= until {
            break;
        }
        let Ok(ops) = state.parse_line(line, &grammars.set) else {
            break;
        };
        let mut from = 0;
        for (at, op) in ops {
            push(&mut html, line.get(from..at), class_of(&stack, grammars));
            from = at;
            if stack.apply(&op).is_err() {
                break;
            }
        }
        push(&mut html, line.get(from..), class_of(&stack, grammars));
        rest = others;
    }
    rest.render_to(&mut html);
    PreEscaped(html)
}

fn class_of(stack: &ScopeStack, grammars: &Grammars) -> Option<&'static str> {
    let of = |scope: &Scope| {
        let mut known = grammars.classes.iter();
        known
            .find(|(prefix, _)| prefix.is_prefix_of(*scope))
            .map(|(_, class)| *class)
    };
    stack.as_slice().iter().rev().find_map(of)
}

fn push(html: &mut String, text: Option<&str>, class: Option<&str>) {
    let Some(text) = text.filter(|text| !text.is_empty()) else {
        return;
    };
    match class {
        Some(class) => {
            html.push_str("<span class=");
            html.push_str(class);
            html.push('>');
            text.render_to(html);
            html.push_str("</span>");
        }
        None => text.render_to(html),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_highlighted_and_escaped() {
        let budget = Budget::of_page();
        let html = code("fn a() { \"</span><script>\" }\n", "rs", &budget).into_string();
        assert!(html.contains("<span class=k>fn</span>"), "{html}");
        assert!(
            html.contains("&lt;script&gt;") && !html.contains("<script"),
            "{html}"
        );
        let unknown = code("<b>", "no such language", &budget).into_string();
        assert!(unknown.contains("<code>&lt;b&gt;</code>"), "{unknown}");
    }

    #[test]
    fn all_text_stays_when_highlighting_ends_early() {
        let text = "let a = 1;\n".repeat(3) + &"x".repeat(2_000) + "\nlet b = 2;\n";
        let rust = syntax("rust").unwrap();
        let end = Instant::now() + std::time::Duration::from_secs(60);
        let html = highlighted(&text, rust, end).into_string();
        let mut plain = String::new();
        let mut is_tag = false;
        for c in html.chars() {
            match c {
                '<' => is_tag = true,
                '>' => is_tag = false,
                c if !is_tag => plain.push(c),
                _ => {}
            }
        }
        assert_eq!(plain, text);
        let late = highlighted(&text, rust, Instant::now());
        assert_eq!(late.into_string(), text);
    }
}
