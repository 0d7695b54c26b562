//! Lists page by page: whatever their length, one page is in memory.

use clap::ValueEnum;
use decklog::{Cursor, Order, Page};

use super::context::Context;
use super::exit::Failure;
use super::output;

const PAGE_RECORDS: usize = 256;

/// Which end of a list comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum First {
    /// The earliest first
    Oldest,
    /// The latest first
    Newest,
}

impl From<First> for Order {
    fn from(first: First) -> Order {
        match first {
            First::Oldest => Order::OldestFirst,
            First::Newest => Order::NewestFirst,
        }
    }
}

/// A part of a list.
#[derive(Debug, Clone, Copy)]
pub struct Part {
    /// `None` for all of it.
    pub limit: Option<usize>,
    pub after: Option<Cursor>,
}

/// Calls `each` for every record of a part of a list, of which `page` gets a page by its limit
/// and start. Returns where the rest begins, if there is a rest.
pub fn each<T>(
    part: Part,
    mut page: impl FnMut(usize, Option<Cursor>) -> decklog::Result<Page<T>>,
    mut each: impl FnMut(T) -> Result<(), Failure>,
) -> Result<Option<Cursor>, Failure> {
    let Part { limit, mut after } = part;
    let mut left = limit.unwrap_or(usize::MAX);
    loop {
        let Page { items, next } = page(left.min(PAGE_RECORDS), after)?;
        left = left.saturating_sub(items.len());
        for item in items {
            each(item)?;
        }
        after = next;
        if left == 0 || after.is_none() {
            return Ok(after);
        }
    }
}

/// Says that a limit cut the list, and how to go on.
pub fn say_rest(context: &mut Context, first: First, rest: Option<Cursor>) -> Result<(), Failure> {
    if let Some(cursor) = rest {
        // Below the list, where both go to a terminal.
        context.out.flush()?;
        let first = match first {
            First::Oldest => "oldest",
            First::Newest => "newest",
        };
        output::say(&format!(
            "there are more: go on with --order {first} --after {cursor}, or set --limit"
        ));
    }
    Ok(())
}
