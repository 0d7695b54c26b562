//! `decklog man`

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::{Command, CommandFactory};
use clap_mangen::Man;
use decklog::human::counted;
use serde_json::json;

use super::Cli;
use super::context::Context;
use super::exit::{Exit, Failure};
use super::time;

/// Print the manual page, or write those of all commands into a directory
///
/// No store is opened.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  decklog man | man -l -\n  decklog man ~/.local/share/man/man1 && man decklog-import"
)]
pub struct Args {
    /// The directory to write decklog.1, decklog-import.1 and so on into; it is created, and pages
    /// in it are replaced. Default: print decklog.1
    dir: Option<PathBuf>,
}

pub fn run(args: &Args, context: &mut Context) -> Result<Exit, Failure> {
    // Pages name the pages of their subcommands, of which `help` has none.
    let mut command = time::accepts(Cli::command()).disable_help_subcommand(true);
    command.build();
    let Some(dir) = &args.dir else {
        page(command, &mut context.out)?;
        return Ok(Exit::Ok);
    };
    let failed = |path: &Path, error: io::Error| {
        Failure::store(format!("cannot write {}: {error}", path.display()))
    };
    fs::create_dir_all(dir).map_err(|error| failed(dir, error))?;
    let mut commands = vec![command];
    let mut pages = 0;
    while let Some(command) = commands.pop() {
        let subcommands = command.get_subcommands();
        commands.extend(subcommands.filter(|it| !it.is_hide_set()).cloned());
        let name = command.get_display_name().unwrap_or(command.get_name());
        let path = dir.join(format!("{name}.1"));
        let mut text = Vec::new();
        page(command, &mut text)
            .and_then(|()| fs::write(&path, text))
            .map_err(|error| failed(&path, error))?;
        pages += 1;
    }
    let text = format!("wrote {} to {}", counted(pages, "page"), dir.display());
    context.print(&json!({ "dir": dir, "pages": pages }), &text)?;
    Ok(Exit::Ok)
}

fn page(command: Command, out: &mut impl Write) -> io::Result<()> {
    let ending = command.get_after_help().map(ToString::to_string);
    let has_subcommands = command.has_subcommands();
    let source = concat!("decklog ", env!("CARGO_PKG_VERSION"));
    let man = Man::new(command).source(source).manual("decklog manual");
    man.render_title(out)?;
    man.render_name_section(out)?;
    man.render_synopsis_section(out)?;
    man.render_description_section(out)?;
    man.render_options_section(out)?;
    if has_subcommands {
        man.render_subcommands_section(out)?;
    }
    ending.map_or(Ok(()), |ending| section(&ending, out))
}

/// A section with the lines of a text as they are, under its first line.
fn section(text: &str, out: &mut impl Write) -> io::Result<()> {
    let (heading, lines) = text.split_once('\n').unwrap_or(("Notes", text));
    let heading = heading.trim_end_matches(':').to_uppercase();
    writeln!(out, ".SH {heading}\n.nf")?;
    for line in lines.lines() {
        let line = line.replace('\\', "\\e").replace('-', "\\-");
        // A line that begins with a dot or a quote would be a request.
        writeln!(out, "\\&{}", line.replace('\'', "\\(aq"))?;
    }
    writeln!(out, ".fi")
}
