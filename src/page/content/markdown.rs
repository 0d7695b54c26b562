//! Markdown without anything that runs or loads: HTML in it is shown as text, images are links, and
//! a link leads only to the web or to a mail address.

use maud::{Markup, PreEscaped, html};
use pulldown_cmark::{Alignment, html as to_html};
use pulldown_cmark::{CodeBlockKind, CowStr, Event, HeadingLevel, Options, Parser, Tag, TagEnd};

use super::{Budget, code};

pub(in crate::page) fn markdown(text: &str, budget: &Budget) -> Markup {
    let (text, note) = budget.cut(text);
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH;
    let mut safe = Safe::default();
    let events = Parser::new_ext(text, options).filter_map(|event| safe.event(event, budget));
    let mut written = String::with_capacity(text.len() * 2);
    to_html::push_html(&mut written, events);
    html! {
        div.markdown { (PreEscaped(written)) }
        (note)
    }
}

/// Replaces what is not safe in a stream of events.
#[derive(Default)]
struct Safe {
    /// The language and the text of the code block that is being read.
    code: Option<(String, String)>,
    /// For each open link or image, whether it is shown as a link.
    links: Vec<bool>,
}

impl Safe {
    fn event<'a>(&mut self, event: Event<'a>, budget: &Budget) -> Option<Event<'a>> {
        if let Some((_, text)) = &mut self.code {
            match event {
                Event::End(TagEnd::CodeBlock) => {}
                Event::Text(part) => {
                    text.push_str(&part);
                    return None;
                }
                _ => return None,
            }
        }
        Some(match event {
            Event::Html(html) | Event::InlineHtml(html) => Event::Text(html),
            Event::Start(Tag::HtmlBlock) => Event::Start(Tag::Paragraph),
            Event::End(TagEnd::HtmlBlock) => Event::End(TagEnd::Paragraph),
            Event::Start(Tag::CodeBlock(kind)) => {
                let language = match kind {
                    CodeBlockKind::Fenced(language) => language.to_string(),
                    CodeBlockKind::Indented => String::new(),
                };
                self.code = Some((language, String::new()));
                return None;
            }
            Event::End(TagEnd::CodeBlock) => {
                let (language, text) = self.code.take()?;
                let block = code(&text, &language, budget).into_string();
                Event::Html(CowStr::from(block))
            }
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                let is_shown = is_safe(&dest_url);
                self.links.push(is_shown);
                if !is_shown {
                    return None;
                }
                Event::Html(CowStr::from(opened(&dest_url)))
            }
            Event::End(TagEnd::Link | TagEnd::Image) => {
                if !self.links.pop()? {
                    return None;
                }
                Event::Html(CowStr::from("</a>"))
            }
            // A page's own headings come before those of its content.
            Event::Start(Tag::Heading { level, .. }) => Event::Start(Tag::Heading {
                level: lower(level),
                id: None,
                classes: Vec::new(),
                attrs: Vec::new(),
            }),
            Event::End(TagEnd::Heading(level)) => Event::End(TagEnd::Heading(lower(level))),
            // An alignment would be written as a style, which the page does not allow.
            Event::Start(Tag::Table(columns)) => {
                Event::Start(Tag::Table(vec![Alignment::None; columns.len()]))
            }
            event => event,
        })
    }
}

fn lower(level: HeadingLevel) -> HeadingLevel {
    match level {
        HeadingLevel::H1 => HeadingLevel::H4,
        HeadingLevel::H2 => HeadingLevel::H5,
        _ => HeadingLevel::H6,
    }
}

fn is_safe(address: &str) -> bool {
    let schemes = ["https://", "http://", "mailto:"];
    let mut schemes = schemes.iter();
    schemes.any(|scheme| {
        let start = address.get(..scheme.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(scheme))
    })
}

/// The start of a link that shows nothing of this page to its target.
fn opened(address: &str) -> String {
    let empty = html! { a href=(address) rel="noopener noreferrer nofollow" {} };
    let text = empty.into_string();
    text.strip_suffix("</a>").unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        markdown(text, &Budget::of_page()).into_string()
    }

    #[test]
    fn structure_is_kept() {
        let html = shown("# A\n\n- *b*\n\n|a|b|\n|-:|-|\n|1|2|\n\n```rust\nfn x() {}\n```\n");
        for part in [
            "<h4>A</h4>",
            "<li><em>b</em></li>",
            "<th>a</th>",
            "<pre class=\"code\" tabindex=\"0\"><code><span class=k>fn</span>",
        ] {
            assert!(html.contains(part), "{part} in {html}");
        }
    }

    #[test]
    fn nothing_runs_and_nothing_loads() {
        for text in [
            "<script>alert(1)</script>",
            "a <img src=x onerror=alert(1)> b",
            "<div\nonclick=x>\n",
            "[a](javascript:alert(1))",
            "[a](JaVaScRiPt:alert(1))",
            "[a](data:text/html,<script>)",
            "[a](vbscript:x)",
            "<javascript:alert(1)>",
            "![a](file:///etc/passwd)",
            "![x](javascript:alert(1))",
            "```\"><script>\n</code></pre><script>\n```",
            "[a](https://e.com/\"onmouseover=\"x)",
            "[a](https://e.com 'x\" onmouseover=\"y')",
            "|<script>|\n|-|\n|<img src=x>|",
        ] {
            let html = shown(text);
            let tags = html.split('<').skip(1);
            for tag in tags {
                let name: String = tag.chars().take_while(|c| *c != '>' && *c != ' ').collect();
                let is_known = [
                    "div", "/div", "p", "/p", "pre", "/pre", "code", "/code", "a", "/a", "table",
                    "/table", "thead", "/thead", "tbody", "/tbody", "tr", "/tr", "th", "/th", "td",
                    "/td",
                ]
                .contains(&&*name);
                assert!(is_known, "{name} in {html}");
                let inside = tag.split('>').next().unwrap_or_default();
                let mut attributes = inside.split('"').step_by(2).skip(1).map(str::trim);
                assert!(
                    attributes.all(|it| it.is_empty() || it == "rel=" || it == "tabindex="),
                    "{html}"
                );
            }
            assert!(
                !html.contains("href=\"javascript") && !html.contains("<img"),
                "{html}"
            );
        }
        let image = shown("![a](https://e.com/x.png)");
        assert!(
            image.contains(
                "<a href=\"https://e.com/x.png\" rel=\"noopener noreferrer nofollow\">a</a>"
            ),
            "{image}"
        );
    }
}
