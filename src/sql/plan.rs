//! How a table answers a query: which conditions the index finds, and in which order it lists.

use std::ops::Range;

use rusqlite::types::ValueRef;
use rusqlite::vtab::{IndexConstraintOp, IndexFlags, IndexInfo};

use super::values::{Compared, times_of, times_of_day};
use crate::collections::Order;
use crate::collections::row_list::RowBounds;
use crate::index::{Hasher, KeyHash, REQUEST_ID, Select};
use crate::record::Kind;
use crate::record::columns::{ColumnSet, ColumnType};

/// The columns before those of the kind.
pub(super) const STORE_ID: usize = 0;
pub(super) const SEQ: usize = 1;
/// A kind with a `day` of its own does not have it.
pub(super) const DAY: usize = 2;

/// The names and types of the columns before those of the kind.
pub(super) fn first_columns(kind: Kind) -> &'static [(&'static str, &'static str)] {
    let all = &[("store_id", "TEXT"), ("seq", "INTEGER"), ("day", "TEXT")];
    if kind.columns().iter().any(|column| column.name == "day") {
        &all[..DAY]
    } else {
        all
    }
}

/// What a condition on a column finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Finds {
    /// This part of the key.
    Key(usize),
    /// A lookup field.
    Lookup(usize),
    /// The own time.
    Time(Compared),
    Day(Compared),
    /// The number by which the kind is listed.
    Number(Compared),
}

/// What the index knows of a kind.
#[derive(Debug, Clone)]
pub(super) struct Known {
    pub kind: Kind,
    /// Number of columns before those of the kind.
    pub first: usize,
    /// The columns of the key, unless they are too many for it to be found.
    keys: Vec<usize>,
    /// The lookup fields that the index lists.
    lookups: Vec<(usize, usize)>,
    pub time: usize,
    /// The column of the number by which it is listed.
    number: Option<usize>,
}

impl Known {
    pub(super) fn of(kind: Kind) -> Known {
        let first = first_columns(kind).len();
        let columns = kind.columns();
        let place = |name| first + columns.iter().position(|it| it.name == name).unwrap_or(0);
        let keys = columns
            .iter()
            .enumerate()
            .filter(|(_, column)| column.is_key);
        let keys = keys.map(|(nth, _)| first + nth);
        let lookups = columns.iter().filter(|column| column.is_lookup);
        let number = match kind {
            Kind::ThoughtRecords => Some(SEQ),
            kind if RowBounds::is_by_number(kind) => Some(place("id")),
            _ => None,
        };
        Known {
            kind,
            first,
            keys: match kind {
                Kind::Rollups => Vec::new(),
                _ => keys.collect(),
            },
            lookups: lookups
                .enumerate()
                .map(|(nth, column)| (place(column.name), nth))
                .filter(|(_, nth)| !(kind == Kind::Messages && *nth > 0))
                .collect(),
            time: place(kind.time_column()),
            number,
        }
    }

    /// The column of the number by which it is listed.
    pub(super) fn number(&self) -> Option<usize> {
        self.number
    }

    fn is_text(&self, column: usize) -> bool {
        let of_kind = column.checked_sub(self.first);
        let column = of_kind.and_then(|it| self.kind.columns().get(it));
        column.is_none_or(|column| {
            !matches!(
                column.column_type,
                ColumnType::Integer | ColumnType::Unsigned | ColumnType::Real | ColumnType::Boolean
            )
        })
    }

    /// Whether a part of the key or a lookup field is an integer.
    fn is_of_integer(&self, finds: Finds) -> bool {
        let of_lookup = |nth| {
            self.lookups
                .iter()
                .find(|(_, it)| *it == nth)
                .map(|(it, _)| *it)
        };
        let column = match finds {
            Finds::Key(part) => self.keys.get(part).copied(),
            Finds::Lookup(nth) => of_lookup(nth),
            _ => None,
        };
        column.is_some_and(|column| !self.is_text(column))
    }

    fn finds(&self, column: usize, op: &IndexConstraintOp) -> Option<Finds> {
        let compared = match op {
            IndexConstraintOp::SQLITE_INDEX_CONSTRAINT_EQ => Compared::Equal,
            IndexConstraintOp::SQLITE_INDEX_CONSTRAINT_GT
            | IndexConstraintOp::SQLITE_INDEX_CONSTRAINT_GE => Compared::From,
            IndexConstraintOp::SQLITE_INDEX_CONSTRAINT_LT
            | IndexConstraintOp::SQLITE_INDEX_CONSTRAINT_LE => Compared::Until,
            _ => return None,
        };
        if compared == Compared::Equal {
            if let Some(part) = self.keys.iter().position(|key| *key == column) {
                return Some(Finds::Key(part));
            }
            if let Some((_, nth)) = self.lookups.iter().find(|(of, _)| *of == column) {
                return Some(Finds::Lookup(*nth));
            }
        }
        if column == self.time {
            let is_day = self.kind == Kind::Rollups;
            return Some(if is_day {
                Finds::Day(compared)
            } else {
                Finds::Time(compared)
            });
        }
        if self.number == Some(column) {
            return Some(Finds::Number(compared));
        }
        (column == DAY && self.first > DAY).then_some(Finds::Day(compared))
    }

    /// Chooses what a query uses, and tells `SQLite` the cost.
    pub(super) fn choose(&self, info: &mut IndexInfo, rows: usize) {
        let mut usable = Vec::new();
        for (nth, condition) in info.constraints().enumerate() {
            let column = usize::try_from(condition.column());
            // The row's id is its sequence number.
            let column = column.unwrap_or(SEQ);
            let is_plain = !self.is_text(column)
                || info
                    .collation(nth)
                    .is_ok_and(|it| it.eq_ignore_ascii_case("BINARY"));
            if condition.is_usable()
                && is_plain
                && let Some(finds) = self.finds(column, &condition.operator())
            {
                usable.push((nth, finds));
            }
        }
        let part = |nth: usize| {
            usable
                .iter()
                .find(|(_, it)| *it == Finds::Key(nth))
                .copied()
        };
        let key: Option<Vec<_>> = (0..self.keys.len()).map(part).collect();
        let key = key.filter(|parts| !parts.is_empty());
        // The calls of a request are found by the first part of their key.
        let of_request = || part(0).filter(|_| self.kind == Kind::ToolCalls);
        let of_request = || of_request().map(|(nth, _)| (nth, Finds::Lookup(REQUEST_ID)));
        let lookup = usable.iter().find(|(_, it)| matches!(it, Finds::Lookup(_)));
        let lookup = lookup.copied().or_else(of_request);
        let (used, share) = match (key, lookup) {
            (Some(parts), _) => (parts, 0.0),
            (None, lookup) => {
                let is_bound = |finds: &Finds| !matches!(finds, Finds::Key(_) | Finds::Lookup(_));
                let bounds = usable.iter().filter(|(_, finds)| is_bound(finds)).copied();
                let used: Vec<_> = bounds.chain(lookup).collect();
                let each = used.iter().map(|(_, finds)| match finds {
                    Finds::Lookup(_)
                    | Finds::Time(Compared::Equal)
                    | Finds::Number(Compared::Equal) => 0.001,
                    Finds::Day(Compared::Equal) => 0.05,
                    _ => 0.3,
                });
                let share = each.product();
                (used, share)
            }
        };
        let is_one = share == 0.0;
        let order = self.order(info, is_one || lookup.is_none());
        let mut text = format!("{:x};{}", info.col_used(), order.map_or("-", Order::as_str));
        for (place, (nth, finds)) in (1..).zip(&used) {
            info.constraint_usage(*nth).set_argv_index(place);
            text.push(';');
            text.push_str(&finds.code());
        }
        info.set_idx_str(&text);
        info.set_order_by_consumed(order.is_some());
        let found = (crate::human::float(rows as u64) * share).max(1.0);
        if is_one {
            info.set_idx_flags(IndexFlags::SQLITE_INDEX_SCAN_UNIQUE);
        }
        info.set_estimated_rows(found as i64);
        // A line is read for each row.
        info.set_estimated_cost(found * 10.0);
    }

    /// The order that a query wants, if a list has it.
    fn order(&self, info: &IndexInfo, is_listed: bool) -> Option<Order> {
        let mut wanted = info.order_bys();
        let first = wanted.next().filter(|_| is_listed)?;
        let column = usize::try_from(first.column()).unwrap_or(SEQ);
        let is_desc = first.is_order_by_desc();
        let is_first = column == self.number.unwrap_or(self.time);
        // Records of the same time are in the order of their sequence numbers.
        let second = wanted.next();
        let is_second = second.is_none_or(|second| {
            let column = usize::try_from(second.column()).unwrap_or(SEQ);
            self.number.is_none() && column == SEQ && second.is_order_by_desc() == is_desc
        });
        let is_next = is_first && is_second && wanted.next().is_none();
        is_next.then_some(if is_desc {
            Order::NewestFirst
        } else {
            Order::OldestFirst
        })
    }
}

impl Finds {
    fn code(self) -> String {
        let compared = |compared| match compared {
            Compared::Equal => '=',
            Compared::From => '>',
            Compared::Until => '<',
        };
        match self {
            Finds::Key(part) => format!("k{part}"),
            Finds::Lookup(nth) => format!("l{nth}"),
            Finds::Time(it) => format!("t{}", compared(it)),
            Finds::Day(it) => format!("d{}", compared(it)),
            Finds::Number(it) => format!("n{}", compared(it)),
        }
    }

    fn of(code: &str) -> Option<Finds> {
        let (what, rest) = code.split_at_checked(1)?;
        let compared = match rest {
            "=" => Some(Compared::Equal),
            ">" => Some(Compared::From),
            "<" => Some(Compared::Until),
            _ => None,
        };
        Some(match what {
            "k" => Finds::Key(rest.parse().ok()?),
            "l" => Finds::Lookup(rest.parse().ok()?),
            "t" => Finds::Time(compared?),
            "d" => Finds::Day(compared?),
            "n" => Finds::Number(compared?),
            _ => return None,
        })
    }
}

/// What a table reads for a query.
#[derive(Debug, Clone, Copy)]
pub(super) enum Reads {
    Nothing,
    Key(KeyHash),
    List(RowBounds),
}

/// A plan with the values of its conditions.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scan {
    pub reads: Reads,
    pub wanted: ColumnSet,
    /// The order that the query relies on.
    pub order: Option<Order>,
}

impl Scan {
    /// Reads what [`Known::choose`] wrote. A value that no index can find makes no difference:
    /// `SQLite` checks every condition again.
    pub(super) fn of<'a>(
        known: &Known,
        hasher: Hasher,
        plan: &str,
        values: impl Iterator<Item = ValueRef<'a>>,
    ) -> Scan {
        let mut parts = plan.split(';');
        let used = parts
            .next()
            .and_then(|used| u64::from_str_radix(used, 16).ok());
        let order = parts.next().and_then(|order| order.parse::<Order>().ok());
        let mut wanted = wanted(used.unwrap_or(u64::MAX), known.first);
        if order.is_some() {
            let time = known.time.saturating_sub(known.first);
            wanted.0 |= 1_u64.checked_shl(time as u32).unwrap_or(0);
        }
        let mut found = Found::default();
        let is_possible = parts
            .filter_map(Finds::of)
            .zip(values)
            .all(|(finds, value)| found.add(known, finds, value));
        Scan {
            reads: if is_possible {
                found.reads(known, hasher, order.unwrap_or(Order::OldestFirst))
            } else {
                Reads::Nothing
            },
            wanted,
            order,
        }
    }
}

/// The columns of the kind among those that a statement uses. The last bit stands for all columns
/// from the 64th.
fn wanted(used: u64, first: usize) -> ColumnSet {
    let rest = if used >> 63 == 0 {
        0
    } else {
        u64::MAX << (63 - first)
    };
    ColumnSet(used >> first | rest)
}

/// The values of the conditions.
#[derive(Debug)]
struct Found {
    key: Vec<String>,
    lookup: Option<(usize, String)>,
    times: Range<i64>,
    numbers: Range<i64>,
}

impl Default for Found {
    fn default() -> Found {
        Found {
            key: Vec::new(),
            lookup: None,
            times: i64::MIN..i64::MAX,
            numbers: i64::MIN..i64::MAX,
        }
    }
}

impl Found {
    /// Adds a condition; returns `false` if no record can meet it.
    fn add(&mut self, known: &Known, finds: Finds, value: ValueRef<'_>) -> bool {
        let is_text = matches!(value, ValueRef::Text(_));
        let text = match value {
            ValueRef::Null => return false,
            // A text that is compared with an integer is one too, as 05 is 5.
            ValueRef::Text(_) if known.is_of_integer(finds) => None,
            ValueRef::Text(text) => std::str::from_utf8(text).ok().map(str::to_owned),
            ValueRef::Integer(number) => Some(number.to_string()),
            ValueRef::Real(_) | ValueRef::Blob(_) => None,
        };
        match (finds, text) {
            (Finds::Key(part), Some(text)) if part == self.key.len() => self.key.push(text),
            (Finds::Lookup(nth), Some(text)) => self.lookup = Some((nth, text)),
            (Finds::Time(compared), Some(text)) if is_text => {
                self.limit_times(times_of(compared, &text));
            }
            (Finds::Day(compared), Some(text)) if is_text => {
                self.limit_times(times_of_day(compared, &text));
            }
            (Finds::Number(compared), _) => {
                if let ValueRef::Integer(number) = value {
                    let after = number.saturating_add(1);
                    let range = match compared {
                        Compared::Equal => number..after,
                        Compared::From => number..i64::MAX,
                        Compared::Until => i64::MIN..after,
                    };
                    self.numbers = both(&self.numbers, &range);
                }
            }
            _ => {}
        }
        !self.times.is_empty() && !self.numbers.is_empty()
    }

    fn limit_times(&mut self, range: Range<i64>) {
        self.times = both(&self.times, &range);
    }

    fn reads(self, known: &Known, hasher: Hasher, order: Order) -> Reads {
        if !self.key.is_empty() && self.key.len() == known.keys.len() {
            let one = self.key.first().map_or("", String::as_str);
            let two = self.key.get(1).map_or("", String::as_str);
            return Reads::Key(hasher.key([one, two]));
        }
        let select = match self.lookup {
            Some((nth, text)) => Select::Lookup(nth, hasher.lookup(&text)),
            None => Select::All,
        };
        let numbers = (self.numbers.start, self.numbers.end);
        let times = (self.times.start, self.times.end);
        Reads::List(RowBounds::new(
            known.kind,
            select,
            order,
            Some(numbers),
            times,
        ))
    }
}

fn both(one: &Range<i64>, other: &Range<i64>) -> Range<i64> {
    one.start.max(other.start)..one.end.min(other.end)
}
