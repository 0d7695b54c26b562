//! Segments: the files that hold lines. Their names, and how they are read. Only [`repair`] writes.

mod audit;
#[cfg(any(test, fuzzing))]
pub(crate) mod check;
mod damage;
mod name;
mod read;
pub(crate) mod repair;
mod scan;
pub(crate) mod seal;

pub(crate) use audit::Audit;
pub use damage::{Damage, DamageClass, DamageCounts};
pub(crate) use name::{SegmentName, list, list_changed};
pub(crate) use read::{Window, next_read};
pub(crate) use scan::{
    Fact, Found, Misplaced, Report, Scanned, Span, Stretch, Tail, each_fact, first_line, scan,
    scan_stretches,
};
