//! What is wrong with a segment, and where.

use std::io;

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
    /// A file or directory that cannot be read: a bad sector, or permissions.
    Unreadable,
    /// Lines with sequence numbers that other lines have: a copy of a segment, or a part of one.
    Repeated,
    /// Lines of another day than their directory's.
    Misplaced,
    /// Something that is no file, as a directory or a pipe, has the name of a segment.
    NoFile,
    /// A sealed segment that is not there.
    Missing,
    /// A sealed segment that is not, byte for byte, what its seal says.
    Changed,
    /// A seal, or a line of the log of removals, that was changed, taken away or put elsewhere; or
    /// a chain of seals that does not lead to where it once did.
    Chain,
}

/// How many places of each class there are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct DamageCounts {
    /// [`DamageClass::Altered`].
    pub altered: u64,
    /// [`DamageClass::Damaged`].
    pub damaged: u64,
    /// [`DamageClass::Torn`].
    pub torn: u64,
    /// [`DamageClass::TooLong`].
    pub too_long: u64,
    /// [`DamageClass::Unreadable`].
    pub unreadable: u64,
    /// [`DamageClass::Repeated`].
    pub repeated: u64,
    /// [`DamageClass::Misplaced`].
    pub misplaced: u64,
    /// [`DamageClass::NoFile`].
    pub no_file: u64,
    /// [`DamageClass::Missing`].
    pub missing: u64,
    /// [`DamageClass::Changed`].
    pub changed: u64,
    /// [`DamageClass::Chain`].
    pub chain: u64,
}

impl DamageCounts {
    pub(crate) fn add(&mut self, class: DamageClass) {
        *match class {
            DamageClass::Altered => &mut self.altered,
            DamageClass::Damaged => &mut self.damaged,
            DamageClass::Torn => &mut self.torn,
            DamageClass::TooLong => &mut self.too_long,
            DamageClass::Unreadable => &mut self.unreadable,
            DamageClass::Repeated => &mut self.repeated,
            DamageClass::Misplaced => &mut self.misplaced,
            DamageClass::NoFile => &mut self.no_file,
            DamageClass::Missing => &mut self.missing,
            DamageClass::Changed => &mut self.changed,
            DamageClass::Chain => &mut self.chain,
        } += 1;
    }

    /// How many places there are in all.
    pub fn total(&self) -> u64 {
        let lines = self.altered + self.damaged + self.torn + self.too_long;
        let seals = self.missing + self.changed + self.chain;
        lines + self.unreadable + self.repeated + self.misplaced + self.no_file + seals
    }
}

impl Damage {
    /// That of a file or directory that cannot be read.
    pub(crate) fn unreadable(file: String, e: &io::Error) -> Damage {
        Damage {
            file,
            offset: 0,
            length: 0,
            class: DamageClass::Unreadable,
            reason: format!("it cannot be read: {e}"),
        }
    }
}

impl DamageClass {
    /// The class as one word.
    pub fn as_str(self) -> &'static str {
        match self {
            DamageClass::Altered => "altered",
            DamageClass::Damaged => "damaged",
            DamageClass::Torn => "torn",
            DamageClass::TooLong => "too_long",
            DamageClass::Unreadable => "unreadable",
            DamageClass::Repeated => "repeated",
            DamageClass::Misplaced => "misplaced",
            DamageClass::NoFile => "no_file",
            DamageClass::Missing => "missing",
            DamageClass::Changed => "changed",
            DamageClass::Chain => "chain",
        }
    }
}
