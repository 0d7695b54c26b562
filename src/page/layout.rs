//! The frame of every page, and what is common to several pages.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::params::Params;
use crate::human::counted;
use crate::record::Kind;

/// The style sheet, the script and the icon. They are part of the program.
pub(crate) const STYLE: &str = include_str!("assets/style.css");
pub(crate) const SCRIPT: &str = include_str!("assets/script.js");
pub(crate) const ICON: &str = include_str!("assets/icon.svg");

/// The pages in the navigation.
const NAVIGATION: [(&str, &str); 9] = [
    ("/", "Overview"),
    ("/ui/conversations", "Conversations"),
    ("/ui/runs", "Runs"),
    ("/ui/calls", "Tool calls"),
    ("/ui/edits", "Edits"),
    ("/ui/thoughts", "Thoughts"),
    ("/ui/inbox", "Inbox"),
    ("/ui/integrity", "Integrity"),
    ("/ui/search", "Search"),
];

/// A page before it is framed.
pub(super) struct Page {
    /// The title, untrusted.
    pub title: String,
    /// The entry of the navigation that it belongs to.
    pub section: &'static str,
    pub main: Markup,
    /// The kinds of new records after which the page is loaded again.
    pub live: &'static [Kind],
    /// The conversation whose new messages the script appends.
    pub appends: Option<String>,
}

impl Page {
    pub fn new(title: impl Into<String>, section: &'static str, main: Markup) -> Page {
        Page {
            title: title.into(),
            section,
            main,
            live: &[],
            appends: None,
        }
    }

    pub fn live(self, live: &'static [Kind]) -> Page {
        Page { live, ..self }
    }

    /// The whole document, as the service sends it.
    pub fn framed(self) -> String {
        let kinds: Vec<&str> = self.live.iter().map(|kind| kind.stem()).collect();
        let markup = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    (head(&self.title))
                    link rel="icon" href="/ui/icon.svg";
                    link rel="stylesheet" href="/ui/style.css";
                    script src="/ui/script.js" defer {}
                }
                body data-live=[(!kinds.is_empty()).then(|| kinds.join(","))] data-appends=[self.appends] {
                    a.skip href="#main" { "Skip to content" }
                    header.top {
                        a.brand href="/" { "decklog" }
                        nav aria-label="Pages" {
                            ul {
                                @for (path, name) in NAVIGATION {
                                    li { a href=(path) aria-current=[(path == self.section).then_some("page")] { (name) } }
                                }
                            }
                        }
                        form.find role="search" action="/ui/search" {
                            input type="search" name="text" aria-label="Search all records" placeholder="Search (press /)" maxlength="1024";
                        }
                        button.help type="button" data-help hidden aria-label="Keys" { "?" }
                    }
                    main id="main" tabindex="-1" { (self.main) }
                    p.live role="status" aria-live="polite" data-status {}
                    (help())
                }
            }
        };
        markup.into_string()
    }

    /// The whole document as one file that needs no other.
    pub fn in_one_file(self, policy: &str) -> String {
        let markup = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    (head(&self.title))
                    meta http-equiv="Content-Security-Policy" content=(policy);
                    link rel="icon" href="data:,";
                    style { (PreEscaped(STYLE)) }
                }
                body data-file {
                    header.top { span.brand { "decklog" } button.help type="button" data-help hidden aria-label="Keys" { "?" } }
                    main id="main" tabindex="-1" { (self.main) }
                    (help())
                    script { (PreEscaped(SCRIPT)) }
                }
            }
        };
        markup.into_string()
    }
}

fn head(title: &str) -> Markup {
    html! {
        meta charset="utf-8";
        meta name="viewport" content="width=device-width, initial-scale=1";
        meta name="color-scheme" content="light dark";
        meta name="referrer" content="no-referrer";
        title { (title) " · decklog" }
    }
}

fn help() -> Markup {
    let keys = [
        ("j k", "Next and previous item"),
        ("[ ]", "Previous and next failure"),
        ("Enter", "Open the item"),
        ("f", "Fold and unfold the item"),
        ("/", "Search"),
        ("g", "To the top"),
        ("G", "To the end"),
        ("?", "Show the keys"),
    ];
    html! {
        dialog data-keys aria-label="Keys" {
            h2 { "Keys" }
            dl.keys {
                @for (key, what) in keys {
                    dt { @for key in key.split(' ') { kbd { (key) } " " } }
                    dd { (what) }
                }
            }
            form method="dialog" { button { "Close" } }
        }
    }
}

/// A page that says why there is no other.
pub(super) fn message(title: &str, text: &str) -> Page {
    let main = html! {
        h1 { (title) }
        p { (text) }
        p { a href="/" { "Overview" } }
    };
    Page::new(title, "", main)
}

/// A number with a name.
pub(super) fn figure(name: &str, value: impl Into<String>, note: Option<String>) -> Markup {
    html! {
        div.figure {
            dt { (name) }
            dd { (value.into()) @if let Some(note) = note { small { (note) } } }
        }
    }
}

/// A chart or a table with a heading.
pub(super) fn card(title: &str, content: &Markup) -> Markup {
    html! { section.card { h2 { (title) } (content) } }
}

/// The number of items of a list, and the link to its next page.
pub(super) fn pager(shown: usize, word: &str, next: Option<String>) -> Markup {
    html! {
        p.pager {
            span { (counted(shown as u64, word)) }
            @if let Some(next) = next {
                a rel="next" href=(next) data-more { "Next page" }
            }
        }
    }
}

/// A choice of values of a parameter, as links that keep the other parameters.
pub(super) fn choice(
    label: &str,
    params: &Params,
    path: &str,
    name: &str,
    values: &[(Option<&str>, &str)],
) -> Markup {
    let current = params.get(name);
    html! {
        nav.choice aria-label=(label) {
            span.label { (label) }
            @for (value, text) in values {
                a href=(params.link(path, name, *value)) aria-current=[(current == *value).then_some("true")] { (text) }
            }
        }
    }
}

/// A form of filters. Its fields replace the parameters of the same names; the others are kept.
pub(super) fn filters(params: &Params, path: &str, fields: &[(&str, &str, &str)]) -> Markup {
    let names: Vec<&str> = fields.iter().map(|(name, ..)| *name).collect();
    html! {
        form.filters action=(path) {
            @for (name, value) in params.others(&names) {
                input type="hidden" name=(name) value=(value);
            }
            @for (name, kind, label) in fields {
                label {
                    span { (label) }
                    input type=(kind) name=(name) value=(params.get(name).unwrap_or_default()) maxlength="1024";
                }
            }
            button { "Filter" }
            @if names.iter().any(|name| params.get(name).is_some()) {
                a href=(path) { "Clear" }
            }
        }
    }
}
