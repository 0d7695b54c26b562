//! Lengths of the strings in records.

use std::collections::BTreeMap;

use crate::error::Result;
use crate::record::declare::{Field, FieldWriter, Fields};
use crate::record::{MessageSums, Record, each_type};

/// The lengths of a record's strings of variable length.
#[derive(Default)]
struct Lengths {
    sum: usize,
    largest: Option<(&'static str, usize)>,
}

impl Lengths {
    fn of(record: &Record) -> Lengths {
        let mut lengths = Lengths::default();
        // Adding up lengths cannot fail.
        let _ = each_type!(record, it => it.write(&mut lengths));
        lengths
    }

    fn add(&mut self, field: &'static Field, len: usize) {
        self.sum += len;
        if self.largest.is_none_or(|(_, most)| len >= most) {
            self.largest = Some((field.name, len));
        }
    }
}

/// Methods that add up the bytes of a value of their class.
macro_rules! lengths {
    ($($method:ident: $type:ty = $len:expr;)+) => {
        $(fn $method(&mut self, field: &'static Field, value: Option<&$type>) -> Result<()> {
            let len: fn(&$type) -> usize = $len;
            self.add(field, value.map_or(0, len));
            Ok(())
        })+
    };
}

impl FieldWriter for Lengths {
    lengths! {
        content: String = String::len;
        output: String = String::len;
        label: String = String::len;
        payload: String = String::len;
        names: Vec<String> = |names| names.iter().map(String::len).sum();
        counts: BTreeMap<String, u64> = |counts| counts.keys().map(String::len).sum();
        sums: MessageSums = |sums| sums.errors_by_type.keys().map(String::len).sum();
    }
}

/// Total length of a record's strings of variable length, in bytes.
pub(crate) fn text_len(record: &Record) -> usize {
    Lengths::of(record).sum
}

/// Names the longest of them, with its length.
pub(super) fn largest_field(record: &Record) -> String {
    let largest = Lengths::of(record).largest;
    largest.map_or_else(String::new, |(name, len)| format!("{name} has {len}"))
}
