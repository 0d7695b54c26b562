//! Descriptions of damage in a segment.

use std::io;

use serde::Serialize;

use super::scan::Report;

/// A place in a store where the bytes differ from what decklog wrote. The bytes are not changed
/// until a person runs a repair.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Damage {
    /// The file, relative to the store, with `/` between its parts.
    pub file: String,
    /// Offset in the file, in bytes.
    pub offset: u64,
    /// Number of bytes, without the LF.
    pub length: u64,
    /// The class of damage.
    pub class: DamageClass,
    /// A description for people.
    pub reason: String,
}

/// Declares the classes of damage, each with the word for it in counts, JSON and the command line.
macro_rules! classes {
    ($($(#[$doc:meta])* $class:ident = $word:ident,)+) => {
        /// The classes of [`Damage`].
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
        #[serde(rename_all = "snake_case")]
        pub enum DamageClass {
            $($(#[$doc])* $class,)+
        }

        impl DamageClass {
            /// The class as one word.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(DamageClass::$class => stringify!($word),)+
                }
            }
        }

        /// Number of damaged places by class.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
        #[non_exhaustive]
        pub struct DamageCounts {
            $(
                #[doc = concat!("[`DamageClass::", stringify!($class), "`].")]
                pub $word: u64,
            )+
        }

        impl DamageCounts {
            pub(crate) fn add(&mut self, class: DamageClass) {
                match class {
                    $(DamageClass::$class => self.$word += 1,)+
                }
            }

            /// The count of each class.
            pub(crate) fn by_class(&self) -> impl Iterator<Item = (DamageClass, u64)> + use<> {
                [$((DamageClass::$class, self.$word),)+].into_iter()
            }
        }
    };
}

classes! {
    /// A JSON object whose checksum is wrong or missing: it was edited after it was written. It is
    /// still read if it holds a record.
    Altered = altered,
    /// Not a JSON object, in a segment, `seals.jsonl` or `removals.jsonl`.
    Damaged = damaged,
    /// A last line without LF: a torn write after a crash, or a write in progress.
    Torn = torn,
    /// A line that exceeds the length limit.
    TooLong = too_long,
    /// A file or directory that cannot be read: a bad sector, or permissions.
    Unreadable = unreadable,
    /// Lines whose sequence numbers occur elsewhere too: a copy of a segment, or of a part of one.
    Repeated = repeated,
    /// Lines in the directory of a day other than their own.
    Misplaced = misplaced,
    /// A name of a segment that belongs to something other than a regular file, such as a directory
    /// or a pipe.
    NoFile = no_file,
    /// A sealed segment that is missing.
    Missing = missing,
    /// A sealed segment whose bytes do not match its seal.
    Changed = changed,
    /// A seal, or a line of the log of removals, that was changed, removed or moved; or a chain of
    /// seals that does not lead to its earlier head.
    Chain = chain,
}

impl DamageCounts {
    /// Total number of damaged places.
    pub fn total(&self) -> u64 {
        self.by_class().map(|(_, count)| count).sum()
    }
}

impl Damage {
    /// Damage of a file or directory that cannot be read.
    pub(crate) fn unreadable(file: String, e: &io::Error) -> Damage {
        let reason = format!("it cannot be read: {e}");
        Report::new(DamageClass::Unreadable, (0, 0), reason).in_file(file)
    }
}
