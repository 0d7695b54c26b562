//! A program in which people scroll long output.

use std::env::var_os;
use std::ffi::OsString;
use std::io::{self, Write};
use std::process::{Child, Command, Stdio};

use super::output::say;

/// A running pager. Dropping it waits until the user leaves it.
#[derive(Debug)]
pub struct Pager(Child);

impl Pager {
    /// Starts `$DECKLOG_PAGER`, else `$PAGER`, else `less`. `None` if the name is empty or the
    /// pager cannot be started.
    pub fn start() -> Option<Pager> {
        let wanted = ["DECKLOG_PAGER", "PAGER"].into_iter().find_map(var_os);
        let is_blank = |name: &OsString| name.to_str().is_some_and(|name| name.trim().is_empty());
        if wanted.as_ref().is_some_and(is_blank) {
            return None;
        }
        let mut command = wanted.clone().map_or_else(|| Command::new("less"), command);
        command.stdin(Stdio::piped());
        if var_os("LESS").is_none() {
            // Ends at once if the output fits the screen; shows colours.
            command.env("LESS", "FRX");
        }
        match command.spawn() {
            Ok(child) => {
                ignore_keys();
                Some(Pager(child))
            }
            Err(error) => {
                if let Some(wanted) = wanted {
                    let wanted = wanted.to_string_lossy();
                    say(&format!("cannot start the pager \"{wanted}\": {error}"));
                }
                None
            }
        }
    }
}

/// A program with arguments; or, if it has characters that only a shell understands, a line for
/// the shell.
fn command(wanted: OsString) -> Command {
    const OF_SHELLS: [char; 21] = [
        '|', '&', ';', '<', '>', '(', ')', '$', '`', '\\', '"', '\'', '*', '?', '[', '#', '~', '=',
        '%', '{', '\n',
    ];
    let text = wanted.to_str().filter(|text| !text.contains(OF_SHELLS));
    let mut words = text.unwrap_or_default().split_whitespace();
    if let Some(program) = words.next() {
        let mut command = Command::new(program);
        command.args(words);
        return command;
    }
    let mut command = Command::new("sh");
    command.arg("-c").arg(wanted);
    command
}

/// While the pager runs, Ctrl-C and Ctrl-\ are its keys. Without this, the shell would read the
/// terminal beside it.
fn ignore_keys() {
    #[cfg(unix)]
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGQUIT] {
        // A handler, unlike an ignored signal, is not inherited by the pager.
        let _ = signal_hook::flag::register(signal, std::sync::Arc::default());
    }
}

impl Write for Pager {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.0.stdin {
            Some(stdin) => stdin.write(bytes),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.stdin.as_mut().map_or(Ok(()), Write::flush)
    }
}

impl Drop for Pager {
    fn drop(&mut self) {
        // Status codes of a shell: the program cannot be executed, or was not found.
        const NOT_RUN: [i32; 2] = [126, 127];
        drop(self.0.stdin.take());
        let code = self.0.wait().ok().and_then(|status| status.code());
        if code.is_some_and(|code| NOT_RUN.contains(&code)) {
            say("the pager could not be run: correct $DECKLOG_PAGER or $PAGER, or use --no-pager");
        }
    }
}
