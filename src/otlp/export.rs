//! A log as lines of OTLP in JSON, the form of the file exporter of the OpenTelemetry Collector.

use std::collections::HashSet;

use uuid::Uuid;

use super::send::request::{Logs, Traces, split};
use super::send::{Chunks, Items, gather};
use crate::collections::{ConversationQuery, Order};
use crate::error::{Error, Result};
use crate::store::Store;

impl Store {
    /// Calls `each` with a conversation or a thread of turns as lines of OTLP in JSON, and with its
    /// sub-agents. Each line is one export request of spans or of log records. Returns whether the
    /// log has it.
    ///
    /// ```
    /// # use decklog::Store;
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let store = Store::open(dir.path().join("log"))?;
    /// let run = store.run("anthropic");
    /// run.user("What is 1 + 1?")?;
    /// run.assistant("2")?;
    /// let mut lines = Vec::new();
    /// store.each_otlp_of(run.thread_id(), |line| -> decklog::Result<()> {
    ///     lines.push(line);
    ///     Ok(())
    /// })?;
    /// assert!(lines[0].starts_with(r#"{"resourceSpans":[{"#));
    /// # Ok::<(), decklog::Error>(())
    /// ```
    ///
    /// # Errors
    /// Errors of reading the log, and of `each`.
    pub fn each_otlp_of<E: From<Error>>(
        &self,
        id: Uuid,
        mut each: impl FnMut(String) -> std::result::Result<(), E>,
    ) -> std::result::Result<bool, E> {
        self.otlp_of(id, &mut HashSet::new(), &mut each)
    }

    fn otlp_of<E: From<Error>>(
        &self,
        id: Uuid,
        written: &mut HashSet<Uuid>,
        each: &mut impl FnMut(String) -> std::result::Result<(), E>,
    ) -> std::result::Result<bool, E> {
        let mut waiting = vec![id];
        let mut is_there = false;
        while let Some(next) = waiting.pop() {
            if !written.insert(next) {
                continue;
            }
            let mut write = |items| write_items(self, items, each);
            let found = gather(self, next, &mut write)?;
            is_there |= found && next == id;
            let query = ConversationQuery {
                parent_id: Some(next),
                order: Order::OldestFirst,
                limit: usize::MAX,
                ..ConversationQuery::default()
            };
            let agents = self.conversations(&query)?.items.into_iter();
            waiting.extend(agents.rev().map(|(agent, _)| agent.id));
        }
        Ok(is_there)
    }

    /// As [`each_otlp_of`](Store::each_otlp_of), for the conversations that match a query and their
    /// sub-agents. Each conversation is written once.
    ///
    /// # Errors
    /// Errors of reading the log, and of `each`.
    pub fn each_otlp<E: From<Error>>(
        &self,
        query: &ConversationQuery,
        mut each: impl FnMut(String) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let query = ConversationQuery {
            order: query.sort.map_or(Order::OldestFirst, |_| query.order),
            limit: usize::MAX,
            ..query.clone()
        };
        let mut written = HashSet::new();
        for (conversation, _) in self.conversations(&query)?.items {
            self.otlp_of(conversation.id, &mut written, &mut each)?;
        }
        Ok(())
    }

    /// Calls `each` with all conversations, runs and events as lines of OTLP in JSON, in the order
    /// of the log. The memory used does not grow with the log.
    ///
    /// # Errors
    /// Errors of reading the log, and of `each`.
    pub fn each_otlp_line<E: From<Error>>(
        &self,
        mut each: impl FnMut(String) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let mut chunks = Chunks::after(self, 0);
        while let Some(chunk) = chunks.next(None)? {
            write_items(self, chunk.items(self)?, &mut each)?;
        }
        Ok(())
    }
}

fn write_items<E: From<Error>>(
    store: &Store,
    items: Items,
    each: &mut impl FnMut(String) -> std::result::Result<(), E>,
) -> std::result::Result<(), E> {
    let id = store.inner().store_id();
    for spans in split(items.spans) {
        each(json(&Traces::new(id, spans))?)?;
    }
    for logs in split(items.logs) {
        each(json(&Logs::new(id, logs))?)?;
    }
    Ok(())
}

fn json(request: &impl serde::Serialize) -> Result<String> {
    let text = serde_json::to_string(request);
    text.map_err(|e| Error::invalid(format!("cannot be written as JSON: {e}")))
}
