//! JSON, folded, and the arguments of tools.

use std::fmt;

use maud::{Markup, html};
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::{Budget, edits};
use crate::human::one_line;

/// JSON of at most this many characters is shown unfolded.
const UNFOLDED_MAX: usize = 160;
/// Depth after which JSON is not indented further.
const INDENT_MAX: usize = 40;

/// A JSON text, folded unless it is short. Its bytes are shown as they are, apart from spaces.
pub(in crate::page) fn json(text: &str, budget: &Budget) -> Markup {
    if text.len() <= UNFOLDED_MAX {
        return html! { pre.json tabindex="0" { (indented(text)) } };
    }
    let (shown, note) = budget.cut(text);
    html! {
        details.fold {
            summary { code { (one_line(shown, UNFOLDED_MAX)) } }
            pre.json tabindex="0" { (indented(shown)) }
            (note)
        }
    }
}

/// The arguments of a tool call: edits as diffs, other members by name, long texts with their line
/// breaks.
pub(in crate::page) fn arguments(text: &str, budget: &Budget) -> Markup {
    let edits = edits::edits_of(text);
    let Ok(Members(members)) = serde_json::from_str(text) else {
        // A patch, or another text with its spaces and line breaks.
        if !edits.is_empty() {
            return edits::shown(&edits, budget);
        }
        if serde_json::from_str::<IgnoredAny>(text).is_ok() {
            return json(text, budget);
        }
        let (text, note) = budget.cut(text);
        return html! { pre.output tabindex="0" { (text) } (note) };
    };
    html! {
        @if !edits.is_empty() {
            (edits::shown(&edits, budget))
        }
        dl.fields {
            @for (name, value) in &members {
                @if edits.is_empty() || !edits::is_shown(name) {
                    dt { (one_line(name, 80)) }
                    dd { (member(value.get(), budget)) }
                }
            }
        }
    }
}

fn member(value: &str, budget: &Budget) -> Markup {
    match serde_json::from_str::<String>(value) {
        Ok(text) if text.contains('\n') || text.len() > UNFOLDED_MAX => {
            let (text, note) = budget.cut(&text);
            html! { pre.output tabindex="0" { (text) } (note) }
        }
        Ok(text) => html! { code { (text) } },
        Err(_) => json(value, budget),
    }
}

/// The members of an object, in their order.
pub(super) struct Members(pub Vec<(String, Box<RawValue>)>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Members, D::Error> {
        struct Each;
        impl<'de> Visitor<'de> for Each {
            type Value = Members;

            fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
                to.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        from.deserialize_map(Each)
    }
}

/// JSON with a line for each value. Also a part of a JSON text is indented.
fn indented(text: &str) -> String {
    let mut out = String::with_capacity(text.len() * 2);
    let (mut depth, mut is_string, mut is_escaped) = (0_usize, false, false);
    let mut chars = text.chars().peekable();
    let line = |out: &mut String, depth: usize| {
        out.push('\n');
        out.extend(std::iter::repeat_n("  ", depth.min(INDENT_MAX)));
    };
    while let Some(c) = chars.next() {
        if is_string {
            out.push(c);
            is_string = is_escaped || c != '"';
            is_escaped = !is_escaped && c == '\\';
            continue;
        }
        match c {
            '"' => {
                is_string = true;
                out.push(c);
            }
            '{' | '[' => {
                out.push(c);
                while chars.next_if(char::is_ascii_whitespace).is_some() {}
                if chars.peek().is_some_and(|c| !matches!(c, '}' | ']')) {
                    depth += 1;
                    line(&mut out, depth);
                } else if let Some(end) = chars.next() {
                    out.push(end);
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                line(&mut out, depth);
                out.push(c);
            }
            ',' => {
                out.push(c);
                line(&mut out, depth);
            }
            ':' => out.push_str(": "),
            c if c.is_ascii_whitespace() => {}
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_indented_without_a_change_of_its_values() {
        let text = r#"{"a":[1,{}, 2.50],"b":"x: {\"y\", [}","c":[ ]}"#;
        let expected = "{\n  \"a\": [\n    1,\n    {},\n    2.50\n  ],\n  \"b\": \"x: {\\\"y\\\", [}\",\n  \"c\": []\n}";
        assert_eq!(indented(text), expected);
        for part in ["", "{", "}}]", "\"", "{\"a", "[[[[", ",,,:"] {
            indented(part);
        }
        let deep = "[".repeat(10_000);
        assert!(indented(&deep).len() < 10_000 * (2 * INDENT_MAX + 2));
    }

    #[test]
    fn arguments_are_shown_by_name_and_in_order() {
        let html = arguments(
            r#"{"z":"ls\n-l","a":{"b":1},"c":"<b>"}"#,
            &Budget::of_page(),
        );
        let html = html.into_string();
        assert!(
            html.contains("<pre class=\"output\" tabindex=\"0\">ls\n-l</pre>"),
            "{html}"
        );
        assert!(html.find("<dt>z</dt>") < html.find("<dt>a</dt>"), "{html}");
        assert!(
            html.contains("&lt;b&gt;") && !html.contains("<b>"),
            "{html}"
        );
    }

    #[test]
    fn arguments_that_are_no_json_keep_their_form() {
        let shown = |text: &str| arguments(text, &Budget::of_record()).into_string();
        let patch = "*** Begin Patch\n*** Add File: a b.py\n+print(1 + 1)\n*** End Patch\n";
        let html = shown(patch);
        assert!(
            html.contains("+print(1 + 1)") && html.contains("a b.py"),
            "{html}"
        );
        assert!(shown("ls  -l\n<b>").contains("ls  -l\n&lt;b&gt;"));
        assert!(shown("[1, 2]").contains("pre class=\"json\""));
    }
}
