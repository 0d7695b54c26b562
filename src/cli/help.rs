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
    let indentation = " ".repeat(width + 4);
    let wrap = textwrap::Options::new(terminal_columns().min(COLUMNS_MAX))
        .initial_indent(&indentation)
        .subsequent_indent(&indentation);
    let mut text = String::from("{about-with-newline}\n{usage-heading} {usage}\n");
    // Writing to a String cannot fail, here and below.
    for (heading, variants) in groups {
        let _ = write!(text, "\n{header}{heading}:{header:#}\n");
        for command in variants.iter().filter_map(found) {
            let name = command.get_name();
            let about = command.get_about().map(StyledStr::to_string);
            let about = textwrap::fill(&about.unwrap_or_default(), &wrap);
            let about = about.trim_start();
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
pub fn is_named(command: &Command, variant: &str) -> bool {
    let name = command.get_name().replace('-', "");
    name.eq_ignore_ascii_case(variant)
}
