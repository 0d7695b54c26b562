//! Standard output and standard error. Nothing here panics when no one reads them.

use std::cell::OnceCell;
use std::io::{self, BufWriter, IsTerminal, StdoutLock, Write};

use serde::Serialize;

use super::escape;

/// Standard output.
#[derive(Debug)]
pub struct Output {
    to: BufWriter<StdoutLock<'static>>,
    is_terminal: bool,
    /// Asked for once: a window that changes its size later is not followed.
    columns: OnceCell<usize>,
}

impl Output {
    pub fn stdout() -> Output {
        let stdout = io::stdout();
        Output {
            is_terminal: stdout.is_terminal(),
            columns: OnceCell::new(),
            to: BufWriter::with_capacity(64 << 10, stdout.lock()),
        }
    }

    pub fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    /// How many columns a line may have: no limit where it is not a terminal.
    pub fn columns(&self) -> usize {
        if self.is_terminal {
            *self.columns.get_or_init(terminal_columns)
        } else {
            usize::MAX
        }
    }

    /// A line of text; what is not our own words in it is escaped by the caller.
    pub fn line(&mut self, text: &str) -> io::Result<()> {
        self.to.write_all(text.as_bytes())?;
        self.to.write_all(b"\n")
    }

    /// A line that holds a value as JSON.
    pub fn json(&mut self, value: &impl Serialize) -> io::Result<()> {
        self.json_text(&serde_json::to_string(value)?)
    }

    /// A line of JSON: byte for byte, unless a terminal shows it.
    pub fn json_text(&mut self, text: &str) -> io::Result<()> {
        if self.is_terminal {
            self.line(&escape::json(text))
        } else {
            self.line(text)
        }
    }

    pub fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// A message for the person, on standard error. Escaped as a whole: it may quote anything.
pub fn say(message: &str) {
    // Nobody to tell if this cannot be written.
    let _ = writeln!(io::stderr(), "decklog: {}", escape::one_line(message));
}

fn terminal_columns() -> usize {
    const COLUMNS_MIN: usize = 40;
    let size = terminal_size::terminal_size();
    size.map_or(80, |(width, _)| usize::from(width.0))
        .max(COLUMNS_MIN)
}
