//! The daily upkeep of a store: seals what is due and removes what has expired.

use std::ops::ControlFlow;
use std::time::Duration;

use super::retain::{RetainOptions, retain};
use crate::error::{ErrorKind, Result};
use crate::record::{Day, now};
use crate::store::{Options, Store};

/// A store opened with these options runs the daily upkeep of its settings.
impl Default for Options {
    fn default() -> Options {
        Options::new(keep_up)
    }
}

/// Seals due segments and, if the settings allow it, removes expired records: once a day, and whenever
/// a segment is full. Does nothing if another process is running it.
fn keep_up(store: &Store, has_full: bool, is_closing: &dyn Fn() -> bool) -> Result<()> {
    let inner = store.inner();
    let now = now();
    let today = Day::of(now)?;
    if !has_full && !inner.is_upkeep_due(today) {
        return Ok(());
    }
    let _upkeep = match inner.begin_upkeep(Duration::ZERO) {
        Err(e) if e.kind() == ErrorKind::Locked => return Ok(()),
        upkeep => upkeep?,
    };
    let is_due_by_day = inner.is_upkeep_due(today);
    if !has_full && !is_due_by_day {
        return Ok(());
    }
    inner.complete_rewrites()?;
    // Late facts may still be written to other days, which are sealed once a day.
    let before = if is_due_by_day { today } else { Day::of(0)? };
    store.seal_before(before, now, is_closing)?;
    if store.settings()?.privacy.auto_delete {
        let mut until_closing = |_: &_| {
            if is_closing() {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        };
        let options = RetainOptions {
            now,
            progress: Some(&mut until_closing),
            ..RetainOptions::default()
        };
        // By age only once a day. Expired records that were imported today are therefore removed
        // tomorrow; the import announced it before.
        retain(store, options, is_due_by_day)?;
    }
    if is_closing() || !is_due_by_day {
        return Ok(());
    }
    inner.note_upkeep(today)
}
