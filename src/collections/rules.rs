//! Parts that the rules of kinds share.

use std::borrow::Cow;

use super::rows::{collision, record_in, record_of};
use super::{Ack, AckStatus, asserted, row_of};
use crate::error::{Error, ErrorKind, Result};
use crate::index::Loc;
use crate::record::{GIVEN_NUMBER_MAX, Kind, NUMBER_MAX, Record, RecordType, Validity};
use crate::store::{Reads, Redacted, Txn};

/// Whether a recorded record satisfies `same`: either in its recorded form or, if it was written
/// under other privacy settings, in the form that the current settings give it.
pub(super) fn says<T: RecordType>(
    txn: &Txn<'_>,
    known: &Record,
    same: impl Fn(&T) -> bool,
) -> Result<bool> {
    let is_same = |known: &Record| T::of_ref(known).is_some_and(&same);
    Ok(is_same(known) || is_same(txn.redact(known.clone())?.record()))
}

/// Acknowledges a record whose key the log has, if the two satisfy `same`, and returns the known
/// one. `None` if the log does not have its key.
pub(super) fn put_again<T: RecordType>(
    txn: &mut Txn<'_>,
    record: &Record,
    same: impl Fn(&T) -> bool,
    differs: impl FnOnce(&T) -> String,
) -> Result<Option<(Ack, T)>> {
    let Some((_, row)) = asserted(txn, record) else {
        return Ok(None);
    };
    let known = txn.read(record.kind(), row.asserted)?;
    if !says(txn, &known.record, same)? {
        return Err(conflict(differs(record_in(&known.record)?)));
    }
    let ack = unchanged(txn, row.asserted, known.seq.unwrap_or(0))?;
    Ok(Some((ack, record_of(known)?)))
}

/// The id of a record or, if that is 0, the next id of its kind.
pub(super) fn next_id(from: &impl Reads, kind: Kind, given: i64) -> Result<i64> {
    let given = (given != 0).then_some(given);
    number("id", given, from.table(kind).number_max())
}

/// The number of a new record or, if it has none, the greatest one plus 1.
pub(super) fn number(field: &str, given: Option<i64>, greatest: i64) -> Result<i64> {
    let next = greatest + 1;
    match given {
        None if next <= NUMBER_MAX => Ok(next),
        None => Err(conflict(format!(
            "no {field} is left: give one that is free"
        ))),
        Some(given) if given <= GIVEN_NUMBER_MAX.max(next.min(NUMBER_MAX)) => Ok(given),
        Some(given) => Err(Error::invalid(format!(
            "{field} is {given}: the greatest that can be given is {GIVEN_NUMBER_MAX}"
        ))
        .with_field(field)),
    }
}

pub(super) fn lifecycle(message: impl Into<Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::Lifecycle, message)
}

pub(super) fn not_found(message: impl Into<Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::NotFound, message)
}

pub(super) fn conflict(message: impl Into<Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::Conflict, message)
}

/// The time to compare with a recorded record: the recorded one itself if times are not to be
/// compared.
pub(super) fn time(given: Validity, known: Validity, but_time: bool) -> Validity {
    Validity {
        at: if but_time { known } else { given }.at,
        ..given
    }
}

/// Adds an assertion or retraction of a key, unless the last one satisfies `same`.
pub(super) fn put_version<T: RecordType>(
    txn: &mut Txn<'_>,
    redacted: &Redacted,
    is_valid: bool,
    same: impl Fn(&T) -> bool,
) -> Result<Ack> {
    let record = redacted.record();
    let kind = record.kind();
    let found = row_of(txn, record);
    let was_asserted = found.is_some_and(|(_, row)| row.asserted.is_some());
    if !is_valid && !was_asserted {
        let message = "there is nothing to retract: check the key, or record it first";
        return Err(lifecycle(message));
    }
    let last = found.map(|(id, row)| {
        let history = txn.table(kind).history(id);
        history
            .and_then(<[Loc]>::last)
            .copied()
            .unwrap_or(row.asserted)
    });
    if let Some(last) = last.filter(|last| last.is_some()) {
        let line = txn.read(kind, last)?;
        record_in::<T>(&line.record)?;
        if line.record.key() != record.key() {
            return Err(collision());
        }
        if says(txn, &line.record, same)? {
            return unchanged(txn, last, line.seq.unwrap_or(0));
        }
    }
    txn.push(redacted, None).map(Ack::added)
}

/// Acknowledges a fact that the log already has, at `loc` in line `seq`.
pub(super) fn unchanged(txn: &mut Txn<'_>, loc: Loc, seq: u64) -> Result<Ack> {
    txn.confirm(loc)?;
    Ok(Ack {
        status: AckStatus::Unchanged,
        ..Ack::added(seq)
    })
}
