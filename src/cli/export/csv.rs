//! Comma-separated values, as RFC 4180 has them, with LF at the end of a line.

use std::borrow::Cow;
use std::io;

/// A line, without its end.
pub fn line<'a>(cells: impl Iterator<Item = Cow<'a, str>>) -> io::Result<String> {
    let mut writer = csv::WriterBuilder::new()
        .buffer_capacity(1 << 10)
        .from_writer(Vec::new());
    for cell in cells {
        writer.write_field(cell.as_bytes())?;
    }
    writer.write_record(None::<&[u8]>)?;
    let bytes = writer
        .into_inner()
        .map_err(csv::IntoInnerError::into_error)?;
    let mut text = String::from_utf8(bytes).map_err(io::Error::other)?;
    text.pop();
    Ok(text)
}

/// How texts are written.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub struct Style {
    /// For spreadsheets: put ' before a text that begins like a formula, and a byte order mark at
    /// the start
    #[arg(long, global = true, display_order = 99)]
    spreadsheet: bool,
}

impl Style {
    /// The first line: the names of the columns.
    pub fn heading<'a>(self, names: impl Iterator<Item = &'a str>) -> io::Result<String> {
        let names = line(names.map(Cow::Borrowed))?;
        let mark = if self.spreadsheet { "\u{feff}" } else { "" };
        Ok(format!("{mark}{names}"))
    }

    /// A text in a cell. In a spreadsheet it is shown as it is, and is never a formula.
    pub fn text(self, text: Cow<'_, str>) -> Cow<'_, str> {
        if self.spreadsheet && text.starts_with(['=', '+', '-', '@', '\t', '\r']) {
            Cow::Owned(format!("'{text}"))
        } else {
            text
        }
    }
}
