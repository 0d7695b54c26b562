//! Token counts in `turn.completed` events. An agent that also records messages reports the same
//! tokens there, so these sums are separate from those of messages.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::answers::{RowKey, TurnRow, TurnSums};
use super::query::{Dimension, Scope};
use crate::collections::{pairs, seqs_of_events, with_seqs};
use crate::error::Result;
use crate::record::{Day, Event, event_type};
use crate::store::{Store, Watermark};

/// The relevant part of the event's payload. A value of the wrong type counts as missing.
#[derive(Deserialize)]
struct Payload {
    #[serde(default)]
    model_name: serde_json::Value,
    #[serde(default)]
    input_tokens: serde_json::Value,
    #[serde(default)]
    output_tokens: serde_json::Value,
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Turns {
    /// The state of the log that the sums reflect.
    #[serde(skip)]
    watermark: Option<Watermark>,
    /// The greatest sequence number of an included event.
    pub last_seq: u64,
    /// Number of events that were read since the sums were saved.
    #[serde(skip)]
    pub read_count: u64,
    #[serde(with = "pairs")]
    days: BTreeMap<(Day, Option<String>), TurnSums>,
}

impl Turns {
    /// Adds the events since the last update, or all events if lines were moved or removed.
    pub(super) fn catch_up(&mut self, store: &Store) -> Result<()> {
        let before = self.watermark;
        let inner = store.inner();
        let now = inner.with_snapshot(|view| Ok(view.watermark()))?;
        let since = before.filter(|watermark| now.has_same_rows(*watermark));
        let after = since.map_or(0, |watermark| watermark.last_seq);
        let seqs = seqs_of_events(inner, event_type::TURN_COMPLETED, (after, now.last_seq))?;
        // If the update fails halfway, the next one starts from the beginning.
        self.watermark = None;
        if since.is_none() {
            self.days.clear();
            self.last_seq = 0;
        }
        with_seqs(inner, &seqs, |_, event| {
            self.add(&event);
            Ok(())
        })?;
        self.last_seq = seqs.last().copied().unwrap_or(self.last_seq);
        self.read_count += seqs.len() as u64;
        self.watermark = Some(now);
        Ok(())
    }

    /// The sums as they were saved, of a log in this state.
    pub(super) fn at(self, now: Watermark) -> Turns {
        Turns {
            watermark: Some(now.through(self.last_seq)),
            ..self
        }
    }

    /// Whether they are sums of a log in this state, or of an earlier one to which it only added.
    pub(super) fn are_of(&self, now: Watermark) -> bool {
        self.watermark.is_some_and(|then| now.has_same_rows(then))
    }

    fn add(&mut self, event: &Event) {
        let payload = event.payload.as_deref();
        let payload = payload.and_then(|text| serde_json::from_str::<Payload>(text).ok());
        let day = Day::of(event.created_at).ok();
        let (Some(payload), Some(day)) = (payload, day) else {
            return;
        };
        if event.event_type != event_type::TURN_COMPLETED {
            return;
        }
        let model = payload.model_name.as_str().map(str::to_owned);
        let sums = self.days.entry((day, model)).or_default();
        sums.turns += 1;
        let tokens = |value: &serde_json::Value| value.as_u64().unwrap_or(0);
        sums.add_tokens(
            tokens(&payload.input_tokens),
            tokens(&payload.output_tokens),
        );
    }

    /// The rows of a report: by bucket and, if it groups by model, by model.
    pub(super) fn rows(&self, scope: &Scope, rows_max: usize) -> Vec<TurnRow> {
        let by_model = scope.group.contains(&Dimension::Model);
        let mut rows: BTreeMap<RowKey, TurnSums> = BTreeMap::new();
        for ((day, model), sums) in &self.days {
            if scope.has(*day) {
                let of = RowKey {
                    bucket: scope.bucket.of(*day),
                    model_used: model.clone().filter(|_| by_model),
                    ..RowKey::default()
                };
                let row = rows.entry(of).or_default();
                row.turns += sums.turns;
                row.add_tokens(sums.tokens_in, sums.tokens_out);
            }
        }
        let rows = rows.into_iter().map(|(of, sums)| TurnRow { of, sums });
        rows.take(rows_max).collect()
    }
}
