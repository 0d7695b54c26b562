//! Updates the index after segments were rewritten: lines have moved or were removed.

use super::Index;
use super::conversation_totals::ConversationTotals;
use super::entry::{KeyHash, Loc};
use super::rows::RowId;
use super::slots::Slots;
use super::table::Table;
use crate::record::Kind;

/// Number of dead rows that are tolerated before the table is rebuilt.
const SPARE_ROWS: usize = if cfg!(test) { 3 } else { 10_000 };

impl Index {
    /// Moves each line of a kind to the location that `to` gives; [`Loc::NONE`] means that the line
    /// was removed. The messages of the conversations in `ended` are all removed, or about to be.
    /// Returns `false` if the remaining lines do not determine the current state; the index is then
    /// invalid.
    ///
    /// A row whose lines are all removed is dead: no lookup finds it. Its memory is freed once dead
    /// rows outnumber the others.
    pub(crate) fn relocate(
        &mut self,
        kind: Kind,
        to: impl Fn(Loc) -> Loc,
        ended: &[KeyHash],
    ) -> bool {
        let to = |loc: Loc| if loc.is_some() { to(loc) } else { loc };
        if kind == Kind::Messages {
            let conversations = &mut self.tables[Kind::Conversations as usize];
            conversations.change(|conversations| {
                for conversation in ended {
                    if let Some(row) = conversations.find(*conversation) {
                        conversations.set_state(row, |said| said);
                    }
                }
            });
        }
        let totals = &mut self.totals.conversations;
        self.tables[kind as usize].change(|table| table.relocate(&to))
            && (kind != Kind::Messages || totals.change(|totals| totals.relocate(&to, ended)))
    }
}

impl Table {
    fn relocate(&mut self, to: &impl Fn(Loc) -> Loc) -> bool {
        let mut shortened = Vec::new();
        self.history.all_mut(|id, lines| {
            let lines = lines.get_or_insert_default();
            let known = lines.len();
            for line in lines.iter_mut() {
                *line = to(*line);
            }
            lines.retain(|line| line.is_some());
            if lines.len() < known {
                shortened.push(id);
            }
            true
        });
        // Rows that have no lines any more.
        let mut gone = vec![false; self.rows.len()];
        // The newest first: chains of postings then get shorter from their heads.
        for id in self.rows.ids().rev() {
            let Some(row) = self.rows.get(id).copied() else {
                return false;
            };
            let (asserted, done) = (to(row.asserted), to(row.done));
            if (asserted, done) == (row.asserted, row.done) {
                continue;
            }
            if row.done.is_some() && !done.is_some() && asserted.is_some() {
                return false;
            }
            if row.stands() && !asserted.is_some() {
                // An older version would become the current one.
                if self.history.get(id).is_some_and(|left| !left.is_empty()) {
                    return false;
                }
                self.post(id, true, false);
            }
            if let Some(row) = self.rows.get_mut(id) {
                (row.asserted, row.done) = (asserted, done);
            }
            if !asserted.is_some() && !done.is_some() && self.history.get(id).is_none() {
                gone[id.0 as usize] = true;
            }
        }
        for id in shortened {
            let Some(row) = self.rows.get(id).copied() else {
                return false;
            };
            let left = self.history.get(id).map_or(&[][..], Vec::as_slice);
            if row.is_retracted && row.asserted.is_some() && left.len() < 2 {
                // The row would no longer be retracted.
                return false;
            }
            if left.is_empty() && !row.asserted.is_some() && !row.done.is_some() {
                gone[id.0 as usize] = true;
            }
            if left.is_empty() || left == [row.asserted] {
                self.history.remove(id);
            }
        }
        if gone.contains(&true) {
            self.by_key
                .retain(|row| gone.get(row as usize) == Some(&false));
            if self.spare_rows() > SPARE_ROWS.max(self.by_key.len()) {
                *self = self.squeezed();
            }
        }
        true
    }

    /// Number of dead rows, which no lookup finds.
    pub(super) fn spare_rows(&self) -> usize {
        self.rows.len().saturating_sub(self.by_key.len())
    }

    /// A copy without dead rows. The other rows get new ids.
    pub(super) fn squeezed(&self) -> Table {
        let mut now = vec![RowId::GONE; self.rows.len()];
        let keys = self.by_key.sorted();
        for (_, row) in &keys {
            if let Some(now) = now.get_mut(*row as usize) {
                *now = RowId(0);
            }
        }
        let left = now.iter_mut().filter(|id| **id != RowId::GONE);
        for (row, id) in left.zip(0..) {
            *row = RowId(id);
        }
        let now = |id: RowId| now.get(id.0 as usize).copied().unwrap_or(RowId::GONE);
        let rows = self.rows.retained(|id| now(id) != RowId::GONE);
        let by_key = || {
            let keys = keys.iter().map(|(tag, row)| (*tag, now(RowId(*row)).0));
            Slots::from_sorted(keys.len(), keys)
        };
        let mut squeezed = Table {
            number_max: self.number_max,
            ..Table::of(rows)
        };
        for (id, lines) in self.history.iter() {
            if now(id) != RowId::GONE {
                squeezed.history.get_or_insert(now(id), || lines.clone());
            }
        }
        squeezed.list_all(by_key, Vec::new());
        squeezed
    }

    /// The locations of all lines of a row, including earlier versions.
    pub(crate) fn lines(&self, id: RowId) -> impl Iterator<Item = Loc> {
        let row = self.row(id).copied();
        let last = row.map(|row| [row.asserted, row.done]);
        let history = self.history(id).unwrap_or_default().iter().copied();
        last.into_iter()
            .flatten()
            .chain(history)
            .filter(|line| line.is_some())
    }
}

impl ConversationTotals {
    fn relocate(&mut self, to: &impl Fn(Loc) -> Loc, ended: &[KeyHash]) -> bool {
        for conversation in ended {
            self.remove(*conversation);
        }
        self.change_lines(|line| {
            *line = to(*line);
            line.is_some()
        })
    }
}
