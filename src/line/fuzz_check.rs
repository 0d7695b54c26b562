//! Properties that hold for any bytes read as a line; for fuzzers and for tests with generated
//! lines.

#![allow(clippy::unwrap_used, clippy::panic)]

use super::decode::{decode_any, decode_logged};
use super::typed::canonical_as;
use super::{
    Decoded, Envelope, LINE_BYTES_MAX, Line, Op, TAIL_LEN, TAIL_START, Value, canonical, classify,
    decode, encode, envelope_of_own, good, is_intact, piece_at, restamp, split_crc,
};
use crate::error::ErrorKind;
use crate::record::{Kind, Record};

/// Checks all properties of these bytes as a line, without LF, in a segment of a kind.
///
/// # Panics
/// If a property does not hold.
pub(crate) fn any_line(kind: Kind, line: &[u8]) {
    fast_path(kind, line);
    match classify(kind, line) {
        Line::Good(envelope) => {
            assert!(is_intact(line));
            assert_eq!(piece_at(line), Some(line.len()));
            assert!(envelope.seq > 0);
            good_line(kind, line, &envelope);
        }
        Line::Altered(Ok(decoded)) => {
            assert!(good(kind, line).is_none());
            assert_eq!(decoded.record.kind(), kind);
            any_record(&decoded.record);
            accepted_edit(kind, line, &decoded);
        }
        Line::Altered(Err(reason)) => {
            assert!(good(kind, line).is_none());
            assert!(!reason.is_empty());
        }
        Line::Void(reason) => {
            assert!(is_intact(line) && good(kind, line).is_none());
            assert!(decode_logged(kind, line).is_err() && !reason.is_empty());
        }
        Line::Damaged(pieces) => {
            let mut end = 0;
            for (start, len) in pieces {
                assert!(start >= end && len > 0);
                let piece = &line[start..start + len];
                assert!(good(kind, piece).is_some());
                end = start + len;
            }
        }
    }
}

/// If the fast path succeeds, it must agree with the parser.
pub(super) fn fast_path(kind: Kind, line: &[u8]) {
    let slow = || {
        let slow = decode_any(kind, line).map_err(|reason| reason.text);
        slow.unwrap_or_else(|e| panic!("{e}: {}", shown(line)))
    };
    if let Some(fast) = canonical::decode(kind, line) {
        assert_eq!(facts(&fast), facts(&slow()), "{}", shown(line));
        if let Some(typed) = typed(&fast.record, line) {
            assert_eq!(typed, fast.record, "{}", shown(line));
        }
    }
    let sure = match kind {
        Kind::ConversationTurns => canonical_as(line).map(Record::Turn),
        Kind::Events => canonical_as(line).map(Record::Event),
        Kind::History => canonical_as(line).map(Record::History),
        Kind::Messages => canonical_as(line).map(Record::Message),
        Kind::ThoughtRecords => canonical_as(line).map(Record::Thought),
        Kind::ToolCalls => {
            let request = canonical_as(line).map(Record::CallRequested);
            request.or_else(|| canonical_as(line).map(Record::CallDone))
        }
        _ => None,
    };
    if let Some(typed) = sure {
        assert_eq!(typed, slow().record, "{}", shown(line));
    }
}

/// Checks a good line: its index entry must match its record, and a line that decklog writes must
/// be readable by the fast path.
fn good_line(kind: Kind, line: &[u8], envelope: &Envelope<'_>) {
    texts(envelope);
    let measures = envelope.measures();
    assert_eq!(measures.is_some(), kind == Kind::Messages);
    let decoded = decode_logged(kind, line).map_err(|reason| reason.text);
    let decoded = decoded.unwrap_or_else(|e| panic!("{e}: {}", shown(line)));
    assert!(
        envelope.is_as(&decoded.envelope(envelope.seq)),
        "{}",
        shown(line)
    );
    assert_eq!(decoded.record.kind(), kind);
    assert_eq!(decoded.seq, Some(envelope.seq));
    any_record(&decoded.record);
    let parent_id = match &decoded.record {
        Record::CallDone(_) => envelope.lookups[0].as_ref().and_then(|value| {
            let mut buffer = [0; Value::BYTES];
            std::str::from_utf8(value.text(&mut buffer))
                .ok()?
                .parse()
                .ok()
        }),
        _ => None,
    };
    let mut again = Vec::new();
    let seq = envelope.seq;
    if encode(&decoded.record, parent_id, seq, LINE_BYTES_MAX, &mut again).is_err()
        || again.strip_suffix(b"\n") != Some(line)
    {
        return;
    }
    same_envelope(envelope, &decoded, line);
    // The fast path must handle every line that decklog writes.
    let is_written = decoded.record.missing().is_none() && decoded.record.checked().is_ok();
    assert!(
        !is_written || canonical::decode(kind, line).is_some(),
        "{}",
        shown(line)
    );
}

/// Checks that a valid record survives a round trip through both paths, and that it is encoded to
/// the same bytes again.
///
/// # Panics
/// If it does not.
pub(crate) fn any_record(record: &Record) {
    let Ok(record) = record.clone().checked() else {
        return;
    };
    let mut line = Vec::new();
    if let Err(e) = encode(&record, None, 7, LINE_BYTES_MAX, &mut line) {
        assert_eq!(e.kind(), ErrorKind::InvalidInput);
        assert!(line.is_empty());
        return;
    }
    assert_eq!(line.pop(), Some(b'\n'));
    assert!(!line.contains(&b'\n') && !line.contains(&0));
    let kind = record.kind();
    // Input may lack what the store assigns.
    let found = good(kind, &line).or_else(|| {
        let is_whole = record.missing().is_none();
        envelope_of_own(kind, &line).filter(|_| !is_whole)
    });
    let envelope = found.unwrap_or_else(|| panic!("not good: {}", shown(&line)));
    // The fast path leaves unusual numbers to the parser.
    let fast = canonical::decode(kind, &line).map_or_else(|| decode(kind, &line), Ok);
    let fast = fast.unwrap_or_else(|_| panic!("not canonical: {}", shown(&line)));
    assert_eq!(
        facts(&fast),
        (Some(7), envelope.op, &record),
        "{}",
        shown(&line)
    );
    fast_path(kind, &line);
    assert_eq!(has_own_type(&record), typed(&record, &line).is_some());
    same_envelope(&envelope, &fast, &line);
    let mut again = Vec::new();
    encode(&fast.record, None, 7, LINE_BYTES_MAX, &mut again).unwrap();
    again.pop();
    assert_eq!(again, line, "{}", shown(&line));
    // A line of a file is also valid input. In a file, a step also has the members that the store
    // fills in.
    let is_bare_step = matches!(&record, Record::ProposalStep(step) if step.decided_at.is_none());
    if record.missing().is_none() && !is_bare_step {
        let text = std::str::from_utf8(&line).unwrap();
        let input = Record::from_json(text);
        let input = input.unwrap_or_else(|e| panic!("{e}: {text}"));
        assert_eq!(input.checked().unwrap(), record, "{text}");
    }
}

/// Checks that an accepted edit gives a good line with the same record.
fn accepted_edit(kind: Kind, line: &[u8], decoded: &Decoded) {
    let Some((seq, stamped)) = restamp(kind, line, 1..=u64::MAX) else {
        return;
    };
    assert_eq!(Some(seq), decoded.seq);
    let stamped = stamped.strip_suffix(b"\n").unwrap();
    assert!(!stamped.contains(&b'\n'));
    let Line::Good(envelope) = classify(kind, stamped) else {
        panic!("not good: {}", shown(stamped));
    };
    let again = decode(kind, stamped).map_err(|reason| reason.text);
    let again = again.unwrap_or_else(|e| panic!("{e}: {}", shown(stamped)));
    assert_eq!(facts(&again), facts(decoded), "{}", shown(stamped));
    same_envelope(&envelope, &again, stamped);
}

/// Compares an envelope with that of a line's record.
fn same_envelope(envelope: &Envelope<'_>, decoded: &Decoded, line: &[u8]) {
    let own = decoded.envelope(envelope.seq);
    let facts = |envelope: &Envelope<'_>| {
        let Envelope {
            seq,
            at,
            op,
            number,
            ..
        } = envelope;
        (*seq, *at, *op, *number)
    };
    assert_eq!(facts(envelope), facts(&own), "{}", shown(line));
    let of = |measures| format!("{measures:?}");
    assert_eq!(
        of(envelope.measures()),
        of(own.measures()),
        "{}",
        shown(line)
    );
    // The parent of an outcome is that of its request.
    if !matches!(decoded.record, Record::CallDone(_)) {
        assert_eq!(texts(envelope), texts(&own), "{}", shown(line));
    }
}

fn shown(line: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(line)
}

pub(super) fn facts(decoded: &Decoded) -> (Option<u64>, Op, &Record) {
    (decoded.seq, decoded.op, &decoded.record)
}

pub(super) fn has_own_type(record: &Record) -> bool {
    matches!(
        record,
        Record::Turn(_)
            | Record::CallRequested(_)
            | Record::CallDone(_)
            | Record::Event(_)
            | Record::History(_)
            | Record::Message(_)
            | Record::Thought(_)
    )
}

/// Reads a line by the fast path for the type of `of_type`.
pub(super) fn typed(of_type: &Record, line: &[u8]) -> Option<Record> {
    match of_type {
        Record::Turn(_) => canonical_as(line).map(Record::Turn),
        Record::CallRequested(_) => canonical_as(line).map(Record::CallRequested),
        Record::CallDone(_) => canonical_as(line).map(Record::CallDone),
        Record::Event(_) => canonical_as(line).map(Record::Event),
        Record::History(_) => canonical_as(line).map(Record::History),
        Record::Message(_) => canonical_as(line).map(Record::Message),
        Record::Thought(_) => canonical_as(line).map(Record::Thought),
        _ => None,
    }
}

/// Replaces the checksum of a line by the right one, if the line has a checksum member.
pub(crate) fn restamped(mut line: Vec<u8>) -> Vec<u8> {
    let Some(covered_len) = line.len().checked_sub(TAIL_LEN) else {
        return line;
    };
    line.truncate(covered_len);
    let crc = crc32fast::hash(&line);
    line.extend_from_slice(format!(",\"crc\":\"{crc:08x}\"}}").as_bytes());
    line
}

/// The strings of an envelope.
pub(super) fn texts(envelope: &Envelope<'_>) -> Vec<Option<String>> {
    let text = |value: &Value<'_>| {
        let mut buffer = [0; Value::BYTES];
        String::from_utf8(value.text(&mut buffer).to_vec()).unwrap()
    };
    let key = envelope.key.iter().map(|value| Some(text(value)));
    let lookups = envelope
        .lookups
        .iter()
        .map(|value| value.as_ref().map(text));
    key.chain(lookups).collect()
}

/// Gives every line in these bytes the right checksum, including lines that are joined to others: a
/// fuzzer cannot find checksums by itself. A line without a checksum member is left unchanged.
pub(crate) fn with_checksums(mut bytes: Vec<u8>) -> Vec<u8> {
    const START: &[u8] = super::LINE_START.as_bytes();
    let mut from = 0;
    while let Some(start) = memchr::memmem::find(&bytes[from..], START).map(|at| from + at) {
        let Some(tail) = memchr::memmem::find(&bytes[start..], TAIL_START).map(|at| start + at)
        else {
            break;
        };
        // A torn line does not count.
        if bytes[start..tail].contains(&b'\n') {
            from = start + START.len();
            continue;
        }
        let end = tail + TAIL_LEN;
        if bytes
            .get(tail..end)
            .is_some_and(|tail| tail.ends_with(b"\"}"))
        {
            let stamped = restamped(bytes[start..end].to_vec());
            debug_assert!(split_crc(&stamped).is_some());
            bytes[start..end].copy_from_slice(&stamped);
            from = end;
        } else {
            from = tail + 1;
        }
    }
    bytes
}
