//! Shared by the commands that list records.

// No doc comments on flattened arguments: clap would use them as the command's help.

use std::marker::PhantomData;

use decklog::query::{
    CallQuery, Cursor, EventQuery, HistoryQuery, MessageQuery, Order, Page, ProposalQuery,
    TaskQuery, ThoughtQuery, TurnQuery,
};

use super::context::Context;
use super::exit::{Exit, Failure};
use super::export::Table;
use super::output;
use super::pages::{PAGE_RECORDS, each};
use super::show::{self, Shown};

// Page and format of a list.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::Args)]
pub struct Part {
    /// Maximum number of records. Default: 100 on a terminal, else all
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Continue after the end of an earlier list
    #[arg(long, value_name = "CURSOR")]
    after: Option<Cursor>,
    /// asc: oldest first; desc: newest first. Applied before --limit
    #[arg(long, value_name = "ORDER")]
    order: Option<Order>,
    /// Show all fields of each record
    #[arg(long, short)]
    long: bool,
}

/// A query of a list that is read page by page.
pub trait Paged {
    /// The query of one page, by order, limit and start.
    fn page(&self, order: Order, limit: usize, after: Option<Cursor>) -> Self;
}

macro_rules! paged {
    ($($query:ident)+) => { $(
        impl Paged for $query {
            fn page(&self, order: Order, limit: usize, after: Option<Cursor>) -> $query {
                $query { order, limit, after, ..self.clone() }
            }
        }
    )+ };
}

paged! { CallQuery EventQuery HistoryQuery MessageQuery ProposalQuery TaskQuery ThoughtQuery TurnQuery }

/// The message for an empty list. `is_named`: records were asked for by a name.
pub fn none_found(records: &str, is_named: bool) -> String {
    let hint = if is_named {
        "; names are case-sensitive"
    } else {
        ""
    };
    format!("no {records} found{hint}")
}

/// A list to be printed.
#[derive(Debug)]
pub struct List<'a> {
    part: Part,
    order: Order,
    /// Text output has the earliest record at the top, in either order.
    is_log: bool,
    /// The message for an empty list.
    none: &'a str,
}

impl<'a> List<'a> {
    /// A list with a default order.
    pub fn from(default: Order, part: Part, none: &'a str) -> List<'a> {
        List {
            part,
            order: part.order.unwrap_or(default),
            is_log: false,
            none,
        }
    }

    /// A list that reads like a log: text output has the last records, earliest first. JSON output
    /// has all records from the first one on.
    pub fn log(context: &Context, part: Part, none: &'a str) -> List<'a> {
        let is_all = context.json || context.limit(part.limit).is_none();
        let default = if is_all {
            Order::OldestFirst
        } else {
            Order::NewestFirst
        };
        List {
            is_log: true,
            ..List::from(default, part, none)
        }
    }

    /// Prints the list of a query; `read` reads a page.
    pub fn print<Q: Paged, T: Shown>(
        self,
        context: &mut Context,
        query: &Q,
        read: impl Fn(&Q) -> decklog::Result<Page<T>>,
    ) -> Result<Exit, Failure> {
        let limit = context.limit(self.part.limit);
        let order = self.order;
        let page = |limit, after| {
            let page = read(&query.page(order, limit, after))?;
            Ok((page.items, page.next))
        };
        let is_turned = self.is_log && order == Order::NewestFirst && !context.json;
        let mut printer = Printer::new(context, self.part.long);
        let mut turned = Vec::new();
        let rest = each(limit, PAGE_RECORDS, self.part.after, page, |record| {
            if is_turned {
                turned.push(record);
                return Ok(());
            }
            printer.print(&record)
        })?;
        let mut turned = turned.iter().rev();
        turned.try_for_each(|record| printer.print(record))?;
        printer.end(self.none)?;
        if let Some(cursor) = rest {
            context.say_below(&format!(
                "there are more: continue with --order {order} --after {cursor}, or set --limit"
            ))?;
        }
        Ok(Exit::Ok)
    }
}

/// Prints records as JSON, as rows of a table, in full, or as an export does.
pub struct Printer<'a, T> {
    context: &'a mut Context,
    long: bool,
    table: Option<Table>,
    printed: usize,
    of: PhantomData<T>,
}

impl<'a, T: Shown> Printer<'a, T> {
    pub fn new(context: &'a mut Context, long: bool) -> Printer<'a, T> {
        Printer {
            table: context.sheet.map(Table::of::<T>),
            context,
            long,
            printed: 0,
            of: PhantomData,
        }
    }

    pub fn print(&mut self, record: &T) -> Result<(), Failure> {
        let out = &mut self.context.out;
        let is_first = self.printed == 0;
        self.printed += 1;
        if let Some(table) = &self.table {
            if is_first {
                table.heading::<T>(out)?;
            }
            return Ok(table.row(out, record)?);
        }
        if self.context.json {
            return Ok(out.json(&record.as_json())?);
        }
        if self.long {
            if !is_first {
                out.line("")?;
            }
            return Ok(record.in_full(out)?);
        }
        if is_first {
            show::heading::<T>(out)?;
        }
        Ok(show::row_of(out, record)?)
    }

    /// Ends the list. Prints a message if it is empty; returns the number of records.
    pub fn end(self, none: &str) -> Result<usize, Failure> {
        if self.printed > 0 {
            return Ok(self.printed);
        }
        // Programs expect the names of the columns in any case.
        match &self.table {
            Some(table) => table.heading::<T>(&mut self.context.out)?,
            None if !self.context.json => output::say(none),
            None => {}
        }
        Ok(0)
    }
}
