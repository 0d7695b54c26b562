//! Proposals against a plain model of their life cycle: pending, then approved or denied, applied,
//! reverted, each step once; retracted and proposed again; and the state as of every time.
//!
//! `DECKLOG_PROPOSAL_OPS` sets the number of operations.

#![allow(clippy::unwrap_used, clippy::cast_possible_wrap)]

use std::cmp::Reverse;

use decklog::query::{Order, ProposalQuery};
use decklog::storage::Memory;
use decklog::{
    AckStatus, CodeEditProposal, Durability, ErrorKind, ProposalStatus, ProposalStep, Record,
    Store, Validity, verify,
};
use uuid::Uuid;

use super::support::{DAY_1, DAY_MS, Rng, count, in_memory};

use ProposalStatus::{Applied, Approved, Denied, Pending, Reverted};

const KEYS: u128 = 8;

#[derive(Debug, PartialEq)]
enum Expected {
    Added,
    Unchanged(u64),
    Refused(ErrorKind),
}

/// A proposal's versions and steps, in order.
#[derive(Debug, Default, Clone)]
struct Life {
    versions: Vec<(u64, CodeEditProposal)>,
    steps: Vec<(u64, ProposalStep)>,
}

/// The three possible texts of edits. The first two are equivalent.
const EDITS: [&str; 3] = [
    r#"{"a":1,"b":2}"#,
    r#"{ "b": 2.0, "a": 1 }"#,
    "--- a\n+++ b\n",
];

fn edits(text: &str) -> usize {
    EDITS
        .iter()
        .position(|known| *known == text)
        .unwrap()
        .max(1)
}

fn says_the_same(a: &CodeEditProposal, b: &CodeEditProposal) -> bool {
    edits(&a.diffs_json) == edits(&b.diffs_json)
        && (a.confidence, a.created_at) == (b.confidence, b.created_at)
}

impl Life {
    fn status(&self) -> ProposalStatus {
        self.steps.last().map_or(Pending, |(_, step)| step.status)
    }

    fn step(&self, wanted: &[ProposalStatus]) -> Option<&ProposalStep> {
        let mut steps = self.steps.iter().map(|(_, step)| step);
        steps.find(|step| wanted.contains(&step.status))
    }

    fn asserted(&self) -> Option<&CodeEditProposal> {
        let mut versions = self.versions.iter().map(|(_, version)| version);
        versions.rfind(|version| version.created_at.is_valid)
    }

    fn is_retracted(&self) -> bool {
        self.versions
            .last()
            .is_some_and(|(_, last)| !last.created_at.is_valid)
    }

    fn expect_version(&self, new: &CodeEditProposal) -> Expected {
        let Some((seq, last)) = self.versions.last() else {
            return if new.created_at.is_valid {
                Expected::Added
            } else {
                Expected::Refused(ErrorKind::Lifecycle)
            };
        };
        if says_the_same(last, new) {
            return Expected::Unchanged(*seq);
        }
        // The decision was made about these edits.
        let known = self.asserted().unwrap();
        let is_decided = !self.steps.is_empty() && new.created_at.is_valid;
        let same_edits = edits(&known.diffs_json) == edits(&new.diffs_json)
            && known.confidence == new.confidence;
        if is_decided && !(self.is_retracted() && same_edits) {
            return Expected::Refused(ErrorKind::Lifecycle);
        }
        Expected::Added
    }

    fn expect_step(&self, new: &ProposalStep) -> Expected {
        let lifecycle = Expected::Refused(ErrorKind::Lifecycle);
        let not_found = Expected::Refused(ErrorKind::NotFound);
        if self.versions.is_empty() {
            return not_found;
        }
        let applied_by = self
            .step(&[Applied])
            .and_then(|step| step.commit_hash.as_ref());
        let other_commit = new.commit_hash.is_some() && new.commit_hash.as_ref() != applied_by;
        let is_current = !self.steps.is_empty() && self.status() == new.status;
        let is_earlier = self
            .step(&[new.status])
            .is_some_and(|known| known.at == new.at);
        if is_current || is_earlier {
            return if other_commit {
                Expected::Refused(ErrorKind::Conflict)
            } else {
                Expected::Unchanged(self.steps.last().unwrap().0)
            };
        }
        let is_next = match new.status {
            Approved | Denied => self.status() == Pending,
            Applied => self.status() == Approved,
            Reverted => self.status() == Applied,
            Pending => false,
        };
        if self.is_retracted() {
            return not_found;
        }
        if !is_next {
            return lifecycle;
        }
        if new.status == Reverted && other_commit {
            return Expected::Refused(ErrorKind::Conflict);
        }
        Expected::Added
    }

    fn read(&self, as_of: Option<i64>) -> Option<CodeEditProposal> {
        let had_come = |at: i64| as_of.is_none_or(|as_of| at <= as_of);
        let mut versions = self.versions.iter().map(|(_, version)| version);
        let mut found = versions
            .rfind(|version| had_come(version.created_at.at))?
            .clone();
        if !found.created_at.is_valid {
            return None;
        }
        for (_, step) in &self.steps {
            if !had_come(step.at) {
                break;
            }
            found.status = step.status;
            match step.status {
                Approved | Denied => found.decided_at = Some(step.at),
                Applied => {
                    found.applied_at = Some(step.at);
                    found.commit_hash.clone_from(&step.commit_hash);
                }
                Pending | Reverted => {}
            }
        }
        Some(found)
    }
}

fn any_at(rng: &mut Rng) -> i64 {
    DAY_1 + rng.below(2) as i64 * DAY_MS + rng.below(6) as i64
}

fn any_record(rng: &mut Rng, lives: &[Life]) -> Record {
    let key = rng.below(lives.len());
    let id = Uuid::from_u128(key as u128);
    if rng.one_in(3) {
        let mut new = CodeEditProposal::new(id, *rng.pick(&EDITS), any_at(rng));
        new.confidence = rng.one_in(4).then_some(0.5);
        new.created_at.is_valid = !rng.one_in(3);
        return new.into();
    }
    let mut step = ProposalStep::new(
        id,
        *rng.pick(&[Approved, Approved, Denied, Applied, Reverted]),
        any_at(rng),
    );
    if matches!(step.status, Applied | Reverted) {
        step.commit_hash = rng.one_in(3).then(|| (*rng.pick(&["c1", "c2"])).to_owned());
    }
    step.into()
}

fn check_list(rng: &mut Rng, store: &Store, lives: &[Life]) {
    let as_of = rng.one_in(2).then(|| any_at(rng));
    let mut query = ProposalQuery {
        status: rng.one_in(2).then(|| *rng.pick(ProposalStatus::ALL)),
        since: rng.one_in(3).then(|| any_at(rng)),
        until: rng.one_in(3).then(|| any_at(rng)),
        order: *rng.pick(&[Order::OldestFirst, Order::NewestFirst]),
        limit: 1 + rng.below(4),
        after: None,
    };
    // In the order in which the current or last version was recorded.
    let seq = |life: &Life| {
        let had_come = |at: i64| as_of.is_none_or(|as_of| at <= as_of);
        let mut versions = life.versions.iter();
        let stands = versions.rfind(|(_, version)| had_come(version.created_at.at));
        stands.map(|(seq, _)| *seq)
    };
    let mut expected: Vec<_> = lives
        .iter()
        .filter_map(|life| Some((seq(life)?, life.read(as_of)?)))
        .filter(|(_, it)| query.status.is_none_or(|status| it.status == status))
        .filter(|(_, it)| query.since.is_none_or(|since| it.created_at.at >= since))
        .filter(|(_, it)| query.until.is_none_or(|until| it.created_at.at < until))
        .collect();
    expected.sort_by_key(|(seq, it)| (it.created_at.at, *seq));
    if query.order == Order::NewestFirst {
        expected.sort_by_key(|(seq, it)| (Reverse(it.created_at.at), *seq));
    }
    let mut found = Vec::new();
    loop {
        let page = match as_of {
            None => store.proposals(&query),
            Some(at) => store.as_of(at).proposals(&query),
        };
        let page = page.unwrap();
        found.extend(page.items);
        query.after = page.next;
        if query.after.is_none() {
            break;
        }
    }
    let expected: Vec<_> = expected.into_iter().map(|(_, it)| it).collect();
    assert_eq!(found, expected, "{query:?} as of {as_of:?}");
}

#[test]
fn every_step_is_what_the_life_of_a_proposal_allows() {
    let operations = count("DECKLOG_PROPOSAL_OPS", 2_500);
    let mut rng = Rng::seeded("proposals");
    for _ in 0..operations.div_ceil(250) {
        let memory = Memory::new();
        let mut stores = [(); 2].map(|()| in_memory(&memory, Durability::Process));
        let mut lives = vec![Life::default(); KEYS as usize];
        let mut lines = 0;
        for _ in 0..250 {
            let which = rng.below(2);
            let record = any_record(&mut rng, &lives);
            let (key, expected) = match &record {
                Record::Proposal(new) => {
                    let key = new.request_id.as_u128() as usize;
                    (key, lives[key].expect_version(new))
                }
                Record::ProposalStep(new) => {
                    let key = new.request_id.as_u128() as usize;
                    (key, lives[key].expect_step(new))
                }
                _ => unreachable!(),
            };
            let found = match stores[which].record(record.clone()) {
                Ok(ack) if ack.status == AckStatus::Added => {
                    lines += 1;
                    assert_eq!(ack.seq, lines);
                    Expected::Added
                }
                Ok(ack) => Expected::Unchanged(ack.seq),
                Err(e) => Expected::Refused(e.kind()),
            };
            assert_eq!(found, expected, "{record:?} to {:?}", lives[key]);
            if found == Expected::Added {
                match record {
                    Record::Proposal(new) => lives[key].versions.push((lines, new)),
                    Record::ProposalStep(new) => lives[key].steps.push((lines, new)),
                    _ => unreachable!(),
                }
            }
            let store = &stores[1 - which];
            let id = Uuid::from_u128(key as u128);
            assert_eq!(store.get_proposal(id).unwrap(), lives[key].read(None));
            for at in (-1..7)
                .flat_map(|ms| [DAY_1 + ms, DAY_1 + DAY_MS + ms])
                .chain([0, i64::MIN, i64::MAX])
            {
                let found = store.as_of(at).get_proposal(id).unwrap();
                assert_eq!(
                    found,
                    lives[key].read(Some(at)),
                    "as of {at}: {:?}",
                    lives[key]
                );
            }
            check_list(&mut rng, store, &lives);
            if rng.one_in(40) {
                stores[which] = in_memory(&memory, Durability::Process);
            }
        }
        assert!(verify(&memory).unwrap().is_clean());
    }
}

fn proposed(id: u128) -> (Store, Uuid) {
    let store = in_memory(&Memory::new(), Durability::Process);
    let id = Uuid::from_u128(id);
    store
        .record(CodeEditProposal::new(id, EDITS[0], DAY_1))
        .unwrap();
    (store, id)
}

/// Bug: a decision with an `applied_at` made an approved proposal read as applied.
#[test]
fn a_decision_says_nothing_of_when_it_was_applied() {
    let (store, id) = proposed(1);
    for status in [Approved, Denied] {
        let mut step = ProposalStep::new(id, status, DAY_1 + 1);
        step.applied_at = Some(DAY_1 + 2);
        let err = store.record(step).unwrap_err();
        assert_eq!(err.kind(), ErrorKind::InvalidInput);
        assert!(
            err.to_string().contains("applied_at 1766793600002"),
            "{err}"
        );
    }
    assert_eq!(store.get_proposal(id).unwrap().unwrap().status, Pending);
}

/// Bug: approved edits that were retracted could be proposed again with other edits, and were still
/// approved.
#[test]
fn what_was_decided_is_not_decided_of_other_edits() {
    let (store, id) = proposed(1);
    store
        .record(ProposalStep::new(id, Approved, DAY_1 + 1))
        .unwrap();
    let mut taken_back = CodeEditProposal::new(id, EDITS[0], DAY_1);
    taken_back.created_at = Validity::retracted(DAY_1 + 2);
    store.record(taken_back).unwrap();
    assert_eq!(store.get_proposal(id).unwrap(), None);
    let other = CodeEditProposal::new(id, EDITS[2], DAY_1 + 3);
    let err = store.record(other).unwrap_err();
    assert_eq!(err.kind(), ErrorKind::Lifecycle);
    assert!(err.to_string().contains("approved"), "{err}");
    store
        .record(CodeEditProposal::new(id, EDITS[1], DAY_1 + 4))
        .unwrap();
    assert_eq!(store.get_proposal(id).unwrap().unwrap().status, Approved);
}

#[test]
fn what_is_no_proposal_or_step_is_refused_by_name() {
    let (store, id) = proposed(1);
    let refused = |record: Record, words: &[&str]| {
        let err = store.record(record).unwrap_err();
        assert_eq!(err.kind(), ErrorKind::InvalidInput, "{err}");
        for word in words {
            assert!(err.to_string().contains(word), "{word}: {err}");
        }
    };
    let other = || CodeEditProposal::new(Uuid::from_u128(2), "[]", DAY_1);
    for confidence in [1.5, -0.1, f64::NAN, f64::INFINITY] {
        let new = CodeEditProposal {
            confidence: Some(confidence),
            ..other()
        };
        refused(new.into(), &["confidence", &confidence.to_string()]);
    }
    refused(
        CodeEditProposal {
            status: Approved,
            ..other()
        }
        .into(),
        &["approved"],
    );
    refused(
        CodeEditProposal {
            decided_at: Some(1),
            ..other()
        }
        .into(),
        &["decided_at"],
    );
    refused(
        CodeEditProposal {
            commit_hash: Some("c".into()),
            ..other()
        }
        .into(),
        &["commit_hash"],
    );
    let step = |status| ProposalStep::new(id, status, DAY_1 + 1);
    refused(step(Pending).into(), &["pending"]);
    refused(
        ProposalStep {
            decided_at: Some(5),
            ..step(Approved)
        }
        .into(),
        &["decided_at is 5"],
    );
    refused(
        ProposalStep {
            commit_hash: Some("c".into()),
            ..step(Denied)
        }
        .into(),
        &["commit_hash"],
    );
    refused(
        ProposalStep {
            commit_hash: Some(String::new()),
            ..step(Applied)
        }
        .into(),
        &["commit_hash"],
    );
    refused(
        ProposalStep {
            commit_hash: Some("c".repeat(1025)),
            ..step(Applied)
        }
        .into(),
        &["commit_hash", "1025"],
    );
    refused(
        ProposalStep {
            at: -1,
            ..step(Approved)
        }
        .into(),
        &["-1"],
    );
    assert_eq!(store.last_lines(9).unwrap().len(), 1);
    // The time that the log has is accepted, another one is not.
    store.record(step(Approved)).unwrap();
    let applied = ProposalStep {
        decided_at: Some(DAY_1),
        ..step(Applied)
    };
    assert_eq!(
        store.record(applied.clone()).unwrap_err().kind(),
        ErrorKind::Conflict
    );
    let applied = ProposalStep {
        decided_at: Some(DAY_1 + 1),
        ..applied
    };
    store.record(applied).unwrap();
}
