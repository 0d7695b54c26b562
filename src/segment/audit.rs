//! Audits a segment line by line. It relies only on the bytes, not on the index.

use super::damage::DamageClass;
use super::name::SegmentName;
use super::scan::{Fact, Found, Misplaced, Report};

/// Audits the lines of a segment in file order.
#[derive(Debug)]
pub(crate) struct Audit {
    name: SegmentName,
    last_seq: u64,
    misplaced: Misplaced,
    /// Number of lines that differ from what decklog wrote there.
    pub wrong: u64,
    /// The least and the greatest sequence number of the lines that were not edited.
    pub seqs: Option<(u64, u64)>,
}

impl Audit {
    pub(crate) fn new(name: SegmentName) -> Audit {
        Audit {
            name,
            last_seq: 0,
            misplaced: Misplaced::in_day_of(name),
            wrong: 0,
            seqs: None,
        }
    }

    /// Reports what is wrong with a line, alone or in relation to the lines before it.
    pub(crate) fn look(&mut self, line: &Found<'_>) -> Option<Report> {
        let Audit {
            name,
            last_seq,
            misplaced,
            wrong,
            seqs,
        } = self;
        let mut report = line.report();
        let mut is_here = true;
        line.facts(name.kind, &mut |fact: Fact<'_>| {
            if fact.is_altered {
                return;
            }
            let seq = fact.envelope.seq;
            let (first, last) = seqs.unwrap_or((seq, seq));
            *seqs = Some((first.min(seq), last.max(seq)));
            let end = fact.offset + fact.bytes.len() as u64;
            is_here &= misplaced.look(fact.envelope.at, fact.offset, end);
            // A repeated number is not reported here but as a repeated line.
            if seq < *last_seq {
                let reason = format!(
                    "the line has sequence number {seq}, but stands after {last_seq}: lines changed places"
                );
                let place = (fact.offset, fact.bytes.len() as u64);
                report = Some(Report::new(DamageClass::Altered, place, reason));
            }
            *last_seq = seq.max(*last_seq);
        });
        *wrong += u64::from(report.is_some() || !is_here);
        report
    }

    /// Reports the lines of a day other than the segment's.
    pub(crate) fn misplaced(&self) -> Option<Report> {
        self.misplaced.report()
    }
}
