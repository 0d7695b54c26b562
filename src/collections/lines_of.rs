//! The lines of the log that a record is made of.

use crate::error::Result;
use crate::index::Loc;
use crate::line::Envelope;
use crate::record::Key;
use crate::store::{LogLine, Reads, Snapshot, Store};

impl Store {
    /// The lines of the record with this key, in the order in which they were written: its versions
    /// and, for a tool call, a proposal or a task, its outcome or its latest step. Empty if there is
    /// no such record. A damaged line is left out.
    ///
    /// ```
    /// # use decklog::{Key, Store, event_type};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let store = Store::open(dir.path().join("log"))?;
    /// let id = store.log_event(None, event_type::AGENT_STARTED, None)?;
    /// let lines = store.lines_of(&Key::Event(id))?;
    /// assert_eq!((lines.len(), lines[0].seq), (1, 1));
    /// assert!(lines[0].file.ends_with("/events.0001.jsonl"), "{}", lines[0].file);
    /// assert!(lines[0].text.contains("agent.started"));
    /// # Ok::<(), decklog::Error>(())
    /// ```
    pub fn lines_of(&self, key: &Key) -> Result<Vec<LogLine>> {
        self.inner().with_snapshot(|view| lines_of(view, key))
    }
}

fn lines_of(view: &Snapshot<'_>, key: &Key) -> Result<Vec<LogLine>> {
    let (kind, parts) = (key.kind(), key.parts());
    let parts = parts.each_ref().map(String::as_str);
    let Some((id, row)) = view.find(kind, parts) else {
        return Ok(Vec::new());
    };
    let known = view.table(kind).history(id).unwrap_or_default().iter();
    let mut locs: Vec<Loc> = known.copied().chain([row.asserted, row.done]).collect();
    locs.retain(|loc| loc.is_some());
    locs.dedup();
    let mut lines = Vec::with_capacity(locs.len());
    for loc in locs {
        let (decoded, is_good) = view.read_checked(kind, loc)?;
        if !is_good || !Envelope::of(&decoded.record, 0).has_key(parts) {
            continue;
        }
        let (file, offset) = view.place(loc);
        lines.push(LogLine {
            kind,
            file,
            offset,
            seq: decoded.seq.unwrap_or(row.seq),
            text: view.line_text(loc)?,
        });
    }
    lines.sort_by_key(|line| line.seq);
    lines.dedup();
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use crate::record::{CodeEditProposal, Key, ProposalStatus, ProposalStep};
    use crate::record::{ToolCallDone, ToolCallReq, ToolStatus};
    use crate::store::Store;

    #[test]
    fn a_record_has_all_its_lines() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path().join("log")).unwrap();
        let id = uuid::Uuid::new_v4();
        let request = ToolCallReq {
            arguments_json: Some("{}".into()),
            ..ToolCallReq::new(id, "c1", "v", "bash")
        };
        store.record(request).unwrap();
        let key = Key::ToolCall {
            request_id: id,
            call_id: "c1".into(),
        };
        assert_eq!(store.lines_of(&key).unwrap().len(), 1);
        let done = ToolCallDone::new(id, "c1", ToolStatus::Completed);
        store.record(done).unwrap();
        let lines = store.lines_of(&key).unwrap();
        let seqs: Vec<u64> = lines.iter().map(|line| line.seq).collect();
        assert_eq!(seqs, [1, 2]);
        let path = store.path().join(&lines[1].file);
        let file = std::fs::read_to_string(path).unwrap();
        let offset = usize::try_from(lines[1].offset).unwrap();
        assert!(file[offset..].starts_with(&lines[1].text));

        store.record(CodeEditProposal::new(id, "[]", 1)).unwrap();
        store
            .record(ProposalStep::new(id, ProposalStatus::Approved, 2))
            .unwrap();
        let lines = store.lines_of(&Key::Proposal(id)).unwrap();
        assert_eq!(lines.len(), 2);
        assert_eq!(store.lines_of(&Key::Event(7)).unwrap(), []);
    }
}
