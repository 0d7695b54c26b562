//! Classifies lines: good, altered, void or damaged.

use memchr::memmem;

#[cfg(feature = "http")]
use super::cursor::Cursor;
use super::decode::{Decoded, decode_logged};
use super::envelope::{self, Envelope};
use super::{LINE_START, TAIL_LEN, TAIL_START, canonical, parse_crc, split_crc};
use crate::record::Kind;

/// A classified line.
#[derive(Debug)]
pub(crate) enum Line<'a> {
    /// The checksum is right, and the line holds a record with this envelope.
    Good(Envelope<'a>),
    /// A JSON object whose checksum is wrong or missing, so it was edited, or whose fields are not
    /// where the envelope has them. It is still used if it decodes as a record.
    Altered(Result<Decoded, String>),
    /// The checksum is right, but the line holds no record, for this reason.
    Void(String),
    /// Not a JSON object. The ranges in it that are whole good lines, joined to each other or to
    /// filler, are still used.
    Damaged(Vec<(usize, usize)>),
}

/// The bytes that a line's checksum covers, if the checksum is right.
fn covered(line: &[u8]) -> Option<&[u8]> {
    let (covered, crc) = split_crc(line)?;
    (crc32fast::hash(covered) == crc).then_some(covered)
}

/// The envelope of a good line, given without its LF. Every line that is read is judged by this.
pub(crate) fn good(kind: Kind, line: &[u8]) -> Option<Envelope<'_>> {
    let covered = covered(line)?;
    let envelope = envelope::parse(kind, covered)?;
    let is_good = canonical::is_sure(kind, covered, envelope.at) || holds(kind, line, &envelope);
    is_good.then_some(envelope)
}

/// Whether a line holds a record with this envelope.
#[cold]
fn holds(kind: Kind, line: &[u8], envelope: &Envelope<'_>) -> bool {
    decode_logged(kind, line).is_ok_and(|decoded| {
        decoded.seq == Some(envelope.seq) && envelope.is_as(&decoded.envelope(envelope.seq))
    })
}

/// The envelope of a line that this process wrote.
pub(crate) fn envelope_of_own(kind: Kind, line: &[u8]) -> Option<Envelope<'_>> {
    envelope::parse(kind, covered(line)?)
}

/// The record of a good line as a JSON object, which is the line without its envelope; `None` if
/// that is not certain.
#[cfg(feature = "http")]
pub(crate) fn object_of(kind: Kind, line: &[u8]) -> Option<String> {
    let covered = covered(line)?;
    let mut cursor = Cursor::new(covered);
    let (_, at, _) = cursor.head(kind)?;
    if !canonical::is_sure(kind, covered, at) {
        return None;
    }
    let members = std::str::from_utf8(cursor.rest().strip_prefix(b",")?).ok()?;
    let mut object = String::with_capacity(members.len() + 2);
    object.push('{');
    object.push_str(members);
    object.push('}');
    Some(object)
}

/// Classifies one line, given without its LF.
pub(crate) fn classify(kind: Kind, line: &[u8]) -> Line<'_> {
    if let Some(envelope) = good(kind, line) {
        return Line::Good(envelope);
    }
    match decode_logged(kind, line) {
        Ok(decoded) => Line::Altered(Ok(decoded)),
        Err(reason) if is_intact(line) => Line::Void(reason.text),
        Err(reason) if reason.is_object => Line::Altered(Err(reason.text)),
        Err(_) => Line::Damaged(glued_pieces(kind, line)),
    }
}

/// Whether a line, given without its LF, has the right checksum.
pub(crate) fn is_intact(line: &[u8]) -> bool {
    covered(line).is_some()
}

/// The whole good lines within a damaged one: from its start, with nothing between them but filler
/// or the one byte that replaced the LF. Nested lines are not searched for, because an agent's text
/// may itself contain lines of a log.
fn glued_pieces(kind: Kind, line: &[u8]) -> Vec<(usize, usize)> {
    let mut pieces = Vec::new();
    let mut pos = skip_filler(line, 0);
    while let Some(len) = piece_at(&line[pos..]) {
        // A piece with a right checksum may still not be a line of this kind.
        if good(kind, &line[pos..pos + len]).is_some() {
            pieces.push((pos, len));
        }
        pos += len;
        let next = skip_filler(line, pos);
        pos = if line[next..].starts_with(LINE_START.as_bytes()) {
            next
        } else {
            skip_filler(line, pos + 1)
        };
        if pos >= line.len() {
            break;
        }
    }
    pieces
}

fn skip_filler(line: &[u8], from: usize) -> usize {
    const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";
    let mut pos = from.min(line.len());
    loop {
        if line[pos..].starts_with(BYTE_ORDER_MARK) {
            pos += BYTE_ORDER_MARK.len();
        } else if line
            .get(pos)
            .is_some_and(|b| matches!(b, 0 | b' ' | b'\t' | b'\r'))
        {
            pos += 1;
        } else {
            return pos;
        }
    }
}

/// The length of the intact line at the start of `bytes`, whatever follows it.
pub(crate) fn piece_at(bytes: &[u8]) -> Option<usize> {
    if !bytes.starts_with(LINE_START.as_bytes()) {
        return None;
    }
    let mut hasher = crc32fast::Hasher::new();
    let mut from = 0;
    for tail in memmem::find_iter(bytes, TAIL_START) {
        let end = tail + TAIL_LEN;
        let Some(hex) = bytes.get(tail + TAIL_START.len()..end) else {
            break;
        };
        hasher.update(&bytes[from..tail]);
        from = tail;
        let stated = hex.strip_suffix(b"\"}").and_then(parse_crc);
        if stated == Some(hasher.clone().finalize()) {
            return Some(end);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line::encode;
    use crate::record::{Record, ToolCallDone, ToolStatus, Validity};

    fn sample() -> Vec<u8> {
        let done = ToolCallDone {
            request_id: uuid::Uuid::from_u128(7),
            call_id: "call \"1\"".into(),
            ended_at: Validity::at(1_766_832_000_123),
            latency_ms: 12,
            outcome_json: Some(r#"{"seq":1,"crc":"00000000"}"#.into()),
            error_kind: None,
            error_msg: None,
            status: ToolStatus::Completed,
        };
        let mut line = Vec::new();
        encode(&Record::CallDone(done), None, 7, 1 << 20, &mut line).unwrap();
        line.pop();
        line
    }

    #[test]
    fn every_flipped_bit_of_a_line_is_noticed() {
        let line = sample();
        assert!(matches!(classify(Kind::ToolCalls, &line), Line::Good(_)));
        for bit in 0..line.len() * 8 {
            let mut flipped = line.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let class = classify(Kind::ToolCalls, &flipped);
            assert!(!matches!(class, Line::Good(_)), "bit {bit} of {class:?}");
        }
    }

    #[test]
    fn what_has_its_checksum_and_is_no_line_is_no_piece() {
        let covered = b"{\"seq\":7,\"at\":1,\"op\":\"completed\",\"vendor\":\"a\":2";
        let crc = crc32fast::hash(covered);
        let line = [&covered[..], format!(",\"crc\":\"{crc:08x}\"}}").as_bytes()].concat();
        assert!(is_intact(&line));
        let glued = [&line[..], &sample()].concat();
        assert!(matches!(classify(Kind::ToolCalls, &line), Line::Void(_)));
        let Line::Damaged(pieces) = classify(Kind::ToolCalls, &glued) else {
            panic!()
        };
        assert_eq!(pieces, [(line.len(), sample().len())]);
    }

    #[test]
    fn glued_lines_are_told_apart_and_nothing_deeper_is_believed() {
        let line = sample();
        let glued = [b"\0\0\xEF\xBB\xBF", &line[..], b"J", &line[..], b"\r"].concat();
        let Line::Damaged(pieces) = classify(Kind::ToolCalls, &glued) else {
            panic!()
        };
        assert_eq!(pieces, [(5, line.len()), (6 + line.len(), line.len())]);

        let hidden = [b"{\"x\":", &line[..]].concat();
        let Line::Damaged(pieces) = classify(Kind::ToolCalls, &hidden) else {
            panic!()
        };
        assert!(pieces.is_empty());
    }
}
