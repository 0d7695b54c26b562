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

/// Whether a spreadsheet would take a text for a formula.
fn is_formula(text: &str) -> bool {
    text.starts_with(['=', '+', '-', '@', '\t', '\r'])
}

/// A text as a spreadsheet shows it, never a formula.
pub fn guarded(text: Cow<'_, str>) -> Cow<'_, str> {
    if is_formula(&text) {
        Cow::Owned(format!("'{text}"))
    } else {
        text
    }
}
