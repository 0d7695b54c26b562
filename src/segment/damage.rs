//! What is wrong with a segment, and where.

use std::io;

use serde::Serialize;

use super::scan::Report;

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

/// Declares the classes of damage: each by its name, and by the word that counts, JSON and the
/// command line have for it.
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

        /// How many places of each class there are.
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
    /// A JSON object whose checksum is wrong or missing: someone rewrote it. It is still read if
    /// it holds a record.
    Altered = altered,
    /// No JSON object.
    Damaged = damaged,
    /// A last line without LF: a write that a crash cut short, or one still under way.
    Torn = torn,
    /// A line past the limit.
    TooLong = too_long,
    /// A file or directory that cannot be read: a bad sector, or permissions.
    Unreadable = unreadable,
    /// Lines with sequence numbers that other lines have: a copy of a segment, or a part of one.
    Repeated = repeated,
    /// Lines of another day than their directory's.
    Misplaced = misplaced,
    /// Something that is no file, as a directory or a pipe, has the name of a segment.
    NoFile = no_file,
    /// A sealed segment that is not there.
    Missing = missing,
    /// A sealed segment that is not, byte for byte, what its seal says.
    Changed = changed,
    /// A seal, or a line of the log of removals, that was changed, taken away or put elsewhere; or
    /// a chain of seals that does not lead to where it once did.
    Chain = chain,
}

impl DamageCounts {
    /// How many places there are in all.
    pub fn total(&self) -> u64 {
        self.by_class().map(|(_, count)| count).sum()
    }
}

impl Damage {
    /// That of a file or directory that cannot be read.
    pub(crate) fn unreadable(file: String, e: &io::Error) -> Damage {
        let reason = format!("it cannot be read: {e}");
        Report::new(DamageClass::Unreadable, (0, 0), reason).in_file(file)
    }
}
