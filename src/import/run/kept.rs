//! What the lines of a file left in the state of an import, so that a later import can continue
//! after them.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::messages::{Before, Standing};
use super::{Call, Run, Turn};
use crate::import::batch::Place;

/// The ids that the lines of the file being read have.
#[derive(Default)]
pub(super) struct KeptIds {
    pub(super) turns: Vec<Uuid>,
    pub(super) calls: Vec<Uuid>,
    pub(super) messages: Vec<Uuid>,
    pub(super) talks: Vec<Uuid>,
}

/// The state after the lines of a file.
#[derive(Default, Serialize, Deserialize)]
pub(in crate::import) struct KeptLines {
    /// With the hash of what was said, and the thread.
    turns: Vec<(Uuid, u64, Option<Uuid>)>,
    /// With the start, the tool and the hash of what was asked.
    calls: Vec<(Uuid, i64, String, u64)>,
    messages: Vec<Uuid>,
    talks: Vec<Uuid>,
    /// The responses, and whether they are counted elsewhere.
    responses: Vec<(Uuid, bool)>,
    shared: Vec<Uuid>,
    before: Before,
}

impl KeptLines {
    /// The names of the tools that were called.
    pub(in crate::import) fn tool_names(&self) -> BTreeSet<&str> {
        self.calls.iter().map(|(_, _, name, _)| &**name).collect()
    }
}

impl Run<'_> {
    /// Keeps the state of the file that is now read.
    pub(in crate::import) fn keep_lines(&mut self) {
        self.kept.get_or_insert_default();
    }

    /// The state after the last line of the file that is being read.
    pub(in crate::import) fn kept_lines(&mut self) -> Option<KeptLines> {
        let KeptIds {
            mut turns,
            mut calls,
            messages,
            talks,
        } = self.kept.take()?;
        for ids in [&mut turns, &mut calls] {
            ids.sort_unstable();
            ids.dedup();
        }
        let turns = turns.into_iter().filter_map(|id| {
            let turn = self.turns.get(&id)?;
            Some((id, turn.said, turn.thread))
        });
        let calls = calls.into_iter().filter_map(|id| {
            let call = self.calls.get(&id)?;
            Some((id, call.started_at, call.tool_name.to_string(), call.asked))
        });
        let state = &self.messages;
        let responses = state.standing.iter();
        let responses = responses.map(|(id, standing)| (*id, *standing == Standing::Elsewhere));
        Some(KeptLines {
            turns: turns.collect(),
            calls: calls.collect(),
            messages,
            talks,
            responses: responses.collect(),
            shared: state.shared.iter().copied().collect(),
            before: state.before.clone(),
        })
    }

    /// Continues after lines that an earlier import read.
    pub(in crate::import) fn recall_lines(&mut self, place: Place, lines: KeptLines) {
        let file = place.file;
        let mut kept = KeptIds::default();
        for (id, said, thread) in lines.turns {
            kept.turns.push(id);
            let known = self.turns.entry(id).or_insert(Turn { said, thread, file });
            if known.said == said {
                known.file = file;
            }
        }
        for (id, started_at, tool_name, asked) in lines.calls {
            kept.calls.push(id);
            let tool_name = self.messages.shared(&tool_name);
            let known = self.calls.entry(id).or_insert(Call {
                started_at,
                tool_name,
                asked,
                file,
            });
            if known.asked == asked {
                known.file = file;
            }
        }
        kept.messages.clone_from(&lines.messages);
        kept.talks.clone_from(&lines.talks);
        let state = &mut self.messages;
        state.recalled.extend(lines.messages.iter().copied());
        state.handed.extend(lines.messages);
        state.talks.extend(lines.talks);
        // A response that was new is in the log by now.
        let responses = lines.responses.into_iter().map(|(id, is_elsewhere)| {
            let standing = [Standing::Here, Standing::Elsewhere];
            (id, standing[usize::from(is_elsewhere)])
        });
        state.standing.extend(responses);
        state.shared.extend(lines.shared);
        state.before = lines.before;
        self.kept = Some(kept);
    }
}
