//! Standard output and standard error. Nothing here panics when they are closed.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::io::{self, BufWriter, IsTerminal, Stdout, Write};

use serde::Serialize;

use super::escape;
use super::new_file::NewFile;
use super::pager::Pager;

/// When to use colours.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Colours {
    /// On a terminal, unless `NO_COLOR` is set or `TERM` is `dumb`.
    #[default]
    Auto,
    /// Also into a file or a pipe, formatted for the width in `COLUMNS`.
    Always,
    Never,
}

/// Standard output, or a file in its place.
#[derive(Debug)]
pub struct Output {
    to: BufWriter<To>,
    is_terminal: bool,
    has_colours: bool,
    /// Read once: later changes of the window's size are ignored.
    columns: OnceCell<usize>,
}

/// Text that the caller escaped.
impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.to.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

impl Output {
    pub fn stdout(colours: Colours) -> Output {
        let stdout = io::stdout();
        let is_terminal = stdout.is_terminal();
        let has_colours = match colours {
            Colours::Auto => is_terminal && are_colours_wanted(),
            Colours::Always => true,
            Colours::Never => false,
        };
        let is_terminal = is_terminal || colours == Colours::Always;
        Output::new(To::Stdout(stdout), is_terminal, has_colours)
    }

    pub fn file(file: NewFile) -> Output {
        Output::new(To::File(file), false, false)
    }

    fn new(to: To, is_terminal: bool, has_colours: bool) -> Output {
        Output {
            to: BufWriter::with_capacity(64 << 10, to),
            is_terminal,
            has_colours,
            columns: OnceCell::new(),
        }
    }

    /// Shows the output in a pager, if standard output is a terminal.
    pub fn page(&mut self) {
        if io::stdout().is_terminal()
            && let Some(pager) = Pager::start()
        {
            self.to = BufWriter::with_capacity(64 << 10, To::Pager(pager));
        }
    }

    /// Completes a file; returns its length.
    pub fn finish(&mut self) -> io::Result<u64> {
        self.flush()?;
        match self.to.get_mut() {
            To::File(file) => file.finish(),
            _ => Ok(0),
        }
    }

    pub fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    /// Maximum columns of a line; no limit if the output is not a terminal.
    pub fn columns(&self) -> usize {
        if self.is_terminal {
            *self.columns.get_or_init(terminal_columns)
        } else {
            usize::MAX
        }
    }

    /// A line of text; the caller escapes untrusted parts.
    pub fn line(&mut self, text: &str) -> io::Result<()> {
        self.to.write_all(text.as_bytes())?;
        self.to.write_all(b"\n")
    }

    /// A line in parts, cut at the terminal's width; in colours on a terminal, unless
    /// `NO_COLOR` is set.
    pub fn spans(&mut self, spans: &[Span<'_>]) -> io::Result<()> {
        let text = painted(spans, self.columns(), self.has_colours);
        self.line(text.trim_end())
    }

    /// A line that holds a value as JSON.
    pub fn json(&mut self, value: &impl Serialize) -> io::Result<()> {
        self.json_text(&serde_json::to_string(value)?)
    }

    /// A line of JSON for each value.
    pub fn json_lines<T: Serialize>(
        &mut self,
        values: impl IntoIterator<Item = T>,
    ) -> io::Result<()> {
        let mut values = values.into_iter();
        values.try_for_each(|value| self.json(&value))
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

    /// A line of another format: byte for byte, unless a terminal shows it.
    pub fn raw_line(&mut self, text: &str) -> io::Result<()> {
        if self.is_terminal {
            self.line(&escape::lines(text))
        } else {
            self.line(text)
        }
    }
}

/// Where the output goes.
#[derive(Debug)]
enum To {
    Stdout(Stdout),
    Pager(Pager),
    File(NewFile),
}

impl Write for To {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            To::Stdout(stdout) => stdout.write(bytes),
            To::Pager(pager) => pager.write(bytes),
            To::File(file) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            To::Stdout(stdout) => stdout.flush(),
            To::Pager(pager) => pager.flush(),
            To::File(file) => file.flush(),
        }
    }
}

/// A part of a line; the caller escapes untrusted text.
#[derive(Debug, Default)]
pub struct Span<'a> {
    text: Cow<'a, str>,
    colour: Option<Colour>,
}

impl<'a> Span<'a> {
    pub fn new(text: impl Into<Cow<'a, str>>, colour: Option<Colour>) -> Span<'a> {
        let text = text.into();
        Span { text, colour }
    }

    #[cfg(feature = "top")]
    pub fn text(&self) -> &str {
        &self.text
    }
}

/// The colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Colour {
    Red = 31,
    Green = 32,
    Yellow = 33,
    Cyan = 36,
    Bold = 1,
    /// Dimmed.
    Dim = 2,
}

/// The start of a line that fits into `columns`, in parts. A cut text ends in a sign, in the colour
/// of the text.
pub fn fitting(spans: &[Span<'_>], columns: usize) -> Vec<(String, Option<Colour>)> {
    let whole: String = spans.iter().map(|span| &*span.text).collect();
    let whole = escape::clipped(&whole, columns);
    let mut left = &*whole;
    let mut parts = Vec::with_capacity(spans.len());
    for span in spans {
        let is_cut = span.text.len() > left.len() || !left.starts_with(&*span.text);
        let (part, rest) = left.split_at(if is_cut { left.len() } else { span.text.len() });
        if !part.is_empty() {
            parts.push((part.to_owned(), span.colour));
        }
        left = rest;
    }
    parts
}

/// The start of a line that fits into `columns`.
fn painted(spans: &[Span<'_>], columns: usize, has_colours: bool) -> String {
    let parts = fitting(spans, columns).into_iter();
    let parts = parts.map(|(part, colour)| match colour.filter(|_| has_colours) {
        Some(colour) => format!("\u{1b}[{}m{part}\u{1b}[0m", colour as u8),
        None => part,
    });
    parts.collect()
}

/// Whether a terminal gets colours: unless `NO_COLOR` is set or it can show none.
pub fn are_colours_wanted() -> bool {
    let is_dumb = std::env::var_os("TERM").is_some_and(|terminal| terminal == "dumb");
    !is_dumb && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// A message on standard error. Escaped as a whole: it may quote untrusted text.
pub fn say(message: &str) {
    // A failure here cannot be reported.
    let _ = writeln!(io::stderr(), "decklog: {}", escape::one_line(message));
}

/// The width of the terminal, or what `COLUMNS` says.
pub fn terminal_columns() -> usize {
    const COLUMNS_MIN: usize = 40;
    let size = terminal_size::terminal_size_of(io::stdout());
    let of_terminal = size.map(|(width, _)| usize::from(width.0));
    let wanted = || std::env::var("COLUMNS").ok()?.parse().ok();
    of_terminal.or_else(wanted).unwrap_or(80).max(COLUMNS_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_take_no_room() {
        let spans = [
            Span::new("├─ ", Some(Colour::Dim)),
            Span::new("one", None),
            Span::new("  failed", Some(Colour::Red)),
        ];
        assert_eq!(painted(&spans, 80, false), "├─ one  failed");
        let red = |text: &str| format!("\u{1b}[31m{text}\u{1b}[0m");
        let start = "\u{1b}[2m├─ \u{1b}[0mone";
        assert_eq!(
            painted(&spans, 80, true),
            start.to_owned() + &red("  failed")
        );
        assert_eq!(painted(&spans, 10, true), start.to_owned() + &red("  f…"));
        assert_eq!(painted(&spans, 10, false), "├─ one  f…");
        assert_eq!(painted(&spans, 5, true), "\u{1b}[2m├─ \u{1b}[0mo…");
    }
}
