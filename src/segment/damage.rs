//! What is wrong with a segment, and where.

use serde::Serialize;

/// A place in a store where the bytes are not what decklog wrote. They stay where they are until
/// a person repairs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Damage {
    /// The file, relative to the store, with `/` between its parts.
    pub file: String,
    /// Where in the file, in bytes.
    pub offset: u64,
    /// How many bytes, LF not counted.
    pub length: u64,
    /// What is wrong.
    pub class: DamageClass,
    /// In words.
    pub reason: String,
}

/// The classes of [`Damage`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DamageClass {
    /// A JSON object whose checksum is wrong or missing: someone rewrote it. It is still read if
    /// it holds a record.
    Altered,
    /// No JSON object.
    Damaged,
    /// A last line without LF: a write that a crash cut short, or one still under way.
    Torn,
    /// A line past the limit.
    TooLong,
    /// Lines with sequence numbers that other lines have: a copy of a segment, or a part of one.
    Repeated,
    /// Lines of another day than their directory's.
    Misplaced,
    /// Something that is no file, as a directory or a pipe, has the name of a segment.
    NoFile,
}

impl DamageClass {
    /// The class as one word.
    pub fn as_str(self) -> &'static str {
        match self {
            DamageClass::Altered => "altered",
            DamageClass::Damaged => "damaged",
            DamageClass::Torn => "torn",
            DamageClass::TooLong => "too_long",
            DamageClass::Repeated => "repeated",
            DamageClass::Misplaced => "misplaced",
            DamageClass::NoFile => "no_file",
        }
    }
}
