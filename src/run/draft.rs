//! A turn that is recorded together with its calls.

use serde::Serialize;

use super::{Call, Run, Turn, arguments_json};
use crate::collections::IfKnown;
use crate::error::Result;
use crate::record::{ConversationTurn, InferenceMetadata, Record, ToolCallReq, TurnKind};

/// A turn of a [`Run`] that is not recorded yet, with its calls; returned by [`Run::draft`].
///
/// ```
/// use decklog::{Store, TurnKind};
/// # let dir = tempfile::tempdir().unwrap();
/// # let store = Store::open(dir.path().join("log"))?;
/// # let run = store.run("anthropic");
/// let (turn, calls) = run
///     .draft(TurnKind::Assistant, "I will read both.")
///     .call("toolu_1", "read_file", &["a.rs"])
///     .call("toolu_2", "read_file", &["b.rs"])
///     .record()?;
/// for call in calls {
///     call.done(&"fn main() {}")?;
/// }
/// assert!(store.get_tool_call(turn.id(), "toolu_2")?.is_some());
/// # Ok::<(), decklog::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "a draft is written by `record`"]
pub struct Draft<'a> {
    run: &'a Run,
    turn: ConversationTurn,
    metadata: Option<&'a InferenceMetadata>,
    /// An error is one of arguments that cannot be serialized as JSON.
    requests: Vec<Result<ToolCallReq>>,
}

impl<'a> Draft<'a> {
    pub(super) fn new(run: &'a Run, kind: TurnKind, content: String) -> Draft<'a> {
        Draft {
            run,
            turn: run.next_turn(kind, content),
            metadata: None,
            requests: Vec::new(),
        }
    }

    /// Adds a tool call, as [`Turn::call`] does.
    pub fn call(
        mut self,
        call_id: impl Into<String>,
        tool_name: impl Into<String>,
        arguments: &(impl Serialize + ?Sized),
    ) -> Draft<'a> {
        let (call_id, tool_name) = (call_id.into(), tool_name.into());
        let request = arguments_json(arguments).map(|arguments| {
            let run = self.run;
            run.request(self.turn.id, call_id, tool_name, arguments)
        });
        self.requests.push(request);
        self
    }

    /// Sets the inference metadata: model, tokens, latency. It is recorded in the turn's message,
    /// and ignored in a run without a [conversation](Run::in_conversation).
    pub fn metadata(self, metadata: &'a InferenceMetadata) -> Draft<'a> {
        let metadata = Some(metadata);
        Draft { metadata, ..self }
    }

    /// Records the turn, its message and its calls in one batch, as [`Store::record_all`]
    /// does: all of them, or none. Returns the calls in the order in which they were added.
    ///
    /// [`Store::record_all`]: crate::Store::record_all
    ///
    /// # Errors
    /// As [`Turn::call`]; then nothing is recorded.
    pub fn record(self) -> Result<(Turn, Vec<Call>)> {
        let Draft {
            run,
            turn,
            metadata,
            requests,
        } = self;
        let requests = requests.into_iter().collect::<Result<Vec<_>>>()?;
        let id = turn.id;
        let message = run.message(&turn)?.map(|message| match metadata {
            Some(metadata) => message.with_metadata(metadata),
            None => message,
        });
        let call_ids: Vec<_> = requests.iter().map(|it| it.call_id.clone()).collect();
        let said = [Some(Record::from(turn)), message.map(Record::from)];
        let called = requests.into_iter().map(Record::from);
        let records = said.into_iter().flatten().chain(called);
        run.write(records, IfKnown::Compare)?;
        run.place().last_turn = Some(id);
        let call = |call_id| Call::new(run.clone(), id, call_id);
        let calls = call_ids.into_iter().map(call).collect();
        let run = run.clone();
        Ok((Turn { run, id }, calls))
    }
}
