//! Audits a segment line by line. It relies only on the bytes, not on the index.

use super::damage::DamageClass;
use super::name::SegmentName;
use super::scan::{Fact, Found, Misplaced, Report};
use crate::record::Kind;

/// Audits the lines of a segment in file order.
#[derive(Debug)]
pub(crate) struct Audit {
    name: SegmentName,
    last_seq: u64,
    misplaced: Misplaced,
    /// Number of lines that differ from what decklog wrote there.
    pub wrong: u64,
}

impl Audit {
    pub(crate) fn new(name: SegmentName) -> Audit {
        Audit {
            name,
            last_seq: 0,
            misplaced: Misplaced::in_day_of(name),
            wrong: 0,
        }
    }

    pub(crate) fn kind(&self) -> Kind {
        self.name.kind
    }

    /// Reports what is wrong with a line, alone or in relation to the lines before it. Calls
    /// `number` for each sequence number that counts, with whether its line was edited.
    pub(crate) fn look(
        &mut self,
        line: &Found<'_>,
        number: &mut dyn FnMut(u64, bool),
    ) -> Option<Report> {
        let Audit {
            name,
            last_seq,
            misplaced,
            wrong,
        } = self;
        let mut report = line.report();
        let mut is_here = true;
        line.facts(name.kind, &mut |fact: Fact<'_>| {
            let seq = fact.envelope.seq;
            number(seq, fact.is_altered);
            if fact.is_altered {
                return;
            }
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
