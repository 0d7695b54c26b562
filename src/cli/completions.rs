//! `decklog completions`

use std::io::Write as _;

use clap::CommandFactory;
use clap_complete::Shell;

use super::Cli;
use super::context::Context;
use super::exit::{Exit, Failure};

/// Print the completions of commands and options for a shell
///
/// No store is opened.
#[derive(Debug, clap::Args)]
#[command(after_help = r#"Examples:
  bash        decklog completions bash > ~/.local/share/bash-completion/completions/decklog
  zsh         decklog completions zsh > ~/.zfunc/_decklog     # a directory of $fpath
  fish        decklog completions fish > ~/.config/fish/completions/decklog.fish
  PowerShell  decklog completions powershell >> $PROFILE"#)]
pub struct Args {
    /// The shell
    shell: Shell,
}

pub fn run(args: &Args, context: &mut Context) -> Result<Exit, Failure> {
    // The generator does not report errors of writing.
    let mut script = Vec::new();
    let mut command = Cli::command();
    clap_complete::generate(args.shell, &mut command, "decklog", &mut script);
    context.out.write_all(&script)?;
    Ok(Exit::Ok)
}
