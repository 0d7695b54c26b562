//! Standard input, line by line. A separate thread reads ahead: a program that waits for each answer
//! gets it at once, and other input is read in batches.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use decklog::ndjson::{Input, read};

/// The longest line that is read; a longer one is skipped to its end.
const LINE_BYTES_MAX: usize = 64 << 20;
/// Maximum number of lines of a batch.
const BATCH_LINES: usize = 1000;
/// Maximum bytes of a batch, and of lines that are read ahead.
const BATCH_BYTES: usize = 8 << 20;

/// The lines that were read ahead.
#[derive(Debug, Default)]
pub struct Ahead {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    inputs: VecDeque<Input>,
    bytes: usize,
    /// The end of the input, when reached.
    ended: Option<io::Result<()>>,
}

impl Ahead {
    /// Starts to read standard input.
    pub fn start() -> io::Result<Arc<Ahead>> {
        let ahead = Arc::new(Ahead::default());
        let filled = Arc::clone(&ahead);
        std::thread::Builder::new()
            .name("stdin".to_owned())
            .spawn(move || {
                let ended = read(&mut io::stdin().lock(), LINE_BYTES_MAX, |input| {
                    filled.push(input);
                });
                filled.lock().ended = Some(ended);
                filled.changed.notify_all();
            })?;
        Ok(ahead)
    }

    /// Waits for a line and returns all available lines, up to a batch; none at the end.
    ///
    /// # Errors
    /// The error that ended the input, after all lines before it were returned.
    pub fn take(&self) -> io::Result<Vec<Input>> {
        let is_waiting = |state: &mut State| state.inputs.is_empty() && state.ended.is_none();
        let mut state = self.lock_unless(is_waiting);
        if let (true, Some(ended)) = (state.inputs.is_empty(), &mut state.ended) {
            return std::mem::replace(ended, Ok(())).map(|()| Vec::new());
        }
        let mut batch: Vec<Input> = Vec::new();
        let mut bytes = 0;
        while batch.len() < BATCH_LINES
            && let Some(next) = state.inputs.front().map(bytes_of)
            && (batch.is_empty() || bytes + next <= BATCH_BYTES)
        {
            bytes += next;
            batch.extend(state.inputs.pop_front());
        }
        state.bytes -= bytes;
        self.changed.notify_all();
        Ok(batch)
    }

    fn push(&self, input: Input) {
        let is_full =
            |state: &mut State| state.bytes >= BATCH_BYTES || state.inputs.len() >= BATCH_LINES;
        let mut state = self.lock_unless(is_full);
        state.bytes += bytes_of(&input);
        state.inputs.push_back(input);
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits while the state is so, and locks it.
    fn lock_unless(&self, is_so: impl FnMut(&mut State) -> bool) -> MutexGuard<'_, State> {
        self.changed
            .wait_while(self.lock(), is_so)
            .unwrap_or_else(PoisonError::into_inner)
    }
}

fn bytes_of(input: &Input) -> usize {
    input.text.as_ref().map_or(0, String::len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_what_is_there() {
        let ahead = Ahead::default();
        let big = "x".repeat(BATCH_BYTES - 1);
        for (line, text) in [(1, "a"), (2, big.as_str())] {
            let text = Ok(text.to_owned());
            ahead.push(Input { line, text });
        }
        ahead.lock().ended = Some(Ok(()));
        let numbers = |batch: Vec<Input>| batch.iter().map(|input| input.line).collect::<Vec<_>>();
        assert_eq!(numbers(ahead.take().unwrap()), [1, 2]);
        assert_eq!(numbers(ahead.take().unwrap()), [0; 0]);
    }
}
