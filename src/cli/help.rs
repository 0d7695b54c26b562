//! The list of commands in groups: clap lists them all as one.

use std::fmt::Write as _;

use clap::Command;
use clap::builder::StyledStr;

use super::output::terminal_columns;

/// The heading of a group, and its commands by the names of their variants.
pub type Group = (&'static str, &'static [&'static str]);

/// As clap does on wide terminals.
const COLUMNS_MAX: usize = 100;

/// The command, whose help lists its subcommands in groups.
pub fn grouped(command: Command, groups: &[Group]) -> Command {
    let template = template(&command, groups);
    command.help_template(template)
}

fn template(command: &Command, groups: &[Group]) -> StyledStr {
    let header = command.get_styles().get_header();
    let literal = command.get_styles().get_literal();
    let found = |variant: &&str| {
        let is_it = |it: &&Command| is_named(it, variant);
        command.get_subcommands().find(is_it)
    };
    let names = command.get_subcommands().map(|it| it.get_name().len());
    let width = names.max().unwrap_or(0);
    let columns = terminal_columns().min(COLUMNS_MAX);
    let mut text = String::from("{about-with-newline}\n{usage-heading} {usage}\n");
    // Writing to a String cannot fail, here and below.
    for (heading, variants) in groups {
        let _ = write!(text, "\n{header}{heading}:{header:#}\n");
        for command in variants.iter().filter_map(found) {
            let name = command.get_name();
            let about = command.get_about().map(StyledStr::to_string);
            let about = wrapped(&about.unwrap_or_default(), width + 4, columns);
            let _ = writeln!(text, "  {literal}{name:<width$}{literal:#}  {about}");
        }
    }
    let _ = write!(
        text,
        "\n{header}Options of every command:{header:#}\n{{options}}\n\n'decklog help COMMAND' describes a command.{{after-help}}"
    );
    text.into()
}

/// Whether a command is that of a variant: `check-proof` is that of `CheckProof`.
fn is_named(command: &Command, variant: &str) -> bool {
    let name = command.get_name().replace('-', "");
    name.eq_ignore_ascii_case(variant)
}

/// The words of a text in lines of at most `columns`, all but the first of which are indented.
fn wrapped(text: &str, indentation: usize, columns: usize) -> String {
    let mut lines = String::new();
    let mut at = indentation;
    for word in text.split(' ') {
        let len = word.chars().count();
        if at == indentation {
            at += len;
        } else if at + 1 + len > columns {
            let _ = write!(lines, "\n{:indentation$}", "");
            at = indentation + len;
        } else {
            lines.push(' ');
            at += 1 + len;
        }
        lines.push_str(word);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_wrapped_between_words() {
        assert_eq!(wrapped("one two three", 2, 9), "one two\n  three");
        assert_eq!(wrapped("one two three", 2, 80), "one two three");
        assert_eq!(wrapped("abcdefgh ij", 2, 5), "abcdefgh\n  ij");
        assert_eq!(wrapped("", 2, 5), "");
    }
}
