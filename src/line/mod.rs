//! Converts between one line and its bytes: envelope, checksum, limits. Independent of files.
//!
//! A line in canonical form, shown here folded:
//!
//! ```text
//! {"seq":1042,"at":1766832000123,"op":"completed",      the envelope: always these three, first
//!  "request_id":"…","call_id":"call_9f",                the key
//!  "parent_id":"…",                                     the lookup fields
//!  "ended_at":1766832000123,"latency_ms":12,…           the rest
//!  ,"crc":"9ae0daaf"}                                   CRC-32 of every byte before `,"crc"`
//! ```

mod canonical;
mod classify;
mod cursor;
mod decode;
mod encode;
mod envelope;
mod fields;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz_check;
mod input;
mod lengths;
#[cfg(test)]
mod property;
#[cfg(feature = "rows")]
mod row_reader;
mod schema;
mod typed;
mod writer;

#[cfg(feature = "http")]
pub(crate) use classify::object_of;
pub(crate) use classify::{Line, classify, envelope_of_own, good, is_intact, piece_at};
pub(crate) use decode::{Decoded, Reason, decode, is_object};
pub(crate) use encode::{encode, restamp};
pub(crate) use envelope::{Envelope, LOOKUPS_MAX, Measures, Value};
pub(crate) use fields::Op;
#[cfg(feature = "http")]
pub(crate) use input::DERIVED;
#[cfg(feature = "wire")]
pub(crate) use input::{FieldFault, Form, Given, OpField};
pub(crate) use lengths::text_len;
#[cfg(feature = "rows")]
pub(crate) use row_reader::add_line;
pub use schema::{FieldSchema, KindSchema};
pub(crate) use typed::{TypedRecord, decode_as};

use cursor::eight_hex_digits;
use writer::LineWriter;

/// Maximum length of a line in bytes, including its LF. Default: 16 MiB.
pub const LINE_BYTES_MAX: usize = 16 << 20;

/// `,"crc":"` + 8 hex digits + `"}`.
const TAIL_LEN: usize = 18;
const TAIL_START: &[u8] = b",\"crc\":\"";
const LINE_START: &str = "{\"seq\":";

/// A member's name in the form it has in a line, from the comma before it to the colon.
macro_rules! member {
    ($name:literal) => {
        concat!(",\"", $name, "\":")
    };
}
use member;

/// Splits a line (without LF) into the bytes that the checksum covers and the stated checksum.
fn split_crc(line: &[u8]) -> Option<(&[u8], u32)> {
    let covered_len = line.len().checked_sub(TAIL_LEN)?;
    let (covered, tail) = line.split_at(covered_len);
    let hex = tail.strip_prefix(TAIL_START)?.strip_suffix(b"\"}")?;
    Some((covered, parse_crc(hex)?))
}

/// Makes a line from a JSON object: appends its checksum as the last member, and LF.
pub(crate) fn stamped(mut object: Vec<u8>) -> Vec<u8> {
    object.pop();
    LineWriter::new(&mut object).end(0);
    object
}

/// Eight lower-case hex digits. decklog writes no other form.
fn parse_crc(hex: &[u8]) -> Option<u32> {
    let digits = u64::from_le_bytes(*<&[u8; 8]>::try_from(hex).ok()?);
    // Branch-free, because letters and digits are equally likely and branches would be
    // mispredicted.
    eight_hex_digits(digits).map(|crc| (crc as u32).swap_bytes())
}
