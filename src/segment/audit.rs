//! What is wrong with a segment, line by line, trusting nothing but the bytes.

use super::damage::DamageClass;
use super::name::SegmentName;
use super::scan::{Fact, Found, Misplaced, Report};
use crate::record::Kind;

/// Looks at a segment's lines in the order in which they stand.
#[derive(Debug)]
pub(crate) struct Audit {
    name: SegmentName,
    last_seq: u64,
    misplaced: Misplaced,
    /// How many lines are not as decklog wrote them there.
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

    /// What is wrong with a line by itself, or after those before it. Calls `number` for each
    /// sequence number in it that counts, and says whether its line was rewritten.
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
            // One that is there twice is reported as such.
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

    /// Lines of another day than the segment's.
    pub(crate) fn misplaced(&self) -> Option<Report> {
        self.misplaced.report()
    }
}
