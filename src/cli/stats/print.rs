//! The tables of reports.

use decklog::analytics::{
    ActiveReport, Analytics, Bucket, CostReport, Dimension, ErrorSample, ErrorsReport, RowKey,
    Scope, UsageReport,
};
use decklog::human::count;
use serde::Serialize;

use super::columns::{COST, Columns, TURNS};
use super::cost;
use crate::cli::context::Context;
use crate::cli::doctor::budget_used;
use crate::cli::escape::one_line;
use crate::cli::exit::Failure;
use crate::cli::export::csv;
use crate::cli::output;
use crate::cli::show;
use crate::cli::table::{Cell, Column, Table};
use crate::cli::time;

/// The table of a report, with the keys of rows to the left and numbers to the right.
pub(super) fn table<'s, S: 's, K: IntoIterator<Item = Cell>>(
    keys: impl IntoIterator<Item = Column>,
    columns: &Columns<S>,
    rows: impl Iterator<Item = (K, &'s S)>,
) -> Table {
    let numbers = columns.iter().map(|(column, _)| column.clone());
    let row = |(key, sums): (K, &S)| {
        let numbers = columns.iter().map(|(_, cell)| cell(sums));
        key.into_iter().chain(numbers).collect()
    };
    Table {
        columns: keys.into_iter().chain(numbers).collect(),
        rows: rows.map(row).collect(),
        ..Table::default()
    }
}

/// The columns of the bucket and the groups of rows.
pub(super) fn keys(scope: &Scope) -> impl Iterator<Item = Column> {
    let bucket = match scope.bucket {
        Bucket::Day => Some(Column::text("DAY", "day")),
        Bucket::Week => Some(Column::text("WEEK", "week")),
        Bucket::Month => Some(Column::text("MONTH", "month")),
        Bucket::All => None,
    };
    let dimensions = scope.group.iter().map(|of| match of {
        Dimension::Model => Column::text("MODEL", "model_used"),
        Dimension::Config => Column::text("CONFIG", "config_used"),
        Dimension::Mode => Column::text("MODE", "orchestration_mode"),
        Dimension::TaskType => Column::text("TASK", "task_type"),
    });
    bucket.into_iter().chain(dimensions)
}

/// The bucket and the groups of a row.
pub(super) fn texts(scope: &Scope, of: &RowKey) -> impl Iterator<Item = Cell> {
    let bucket = (scope.bucket != Bucket::All).then(|| of.bucket.map(|day| day.to_string()));
    let dimensions = scope.group.iter().map(|dimension| match dimension {
        Dimension::Model => of.model_used.clone(),
        Dimension::Config => of.config_used.clone(),
        Dimension::Mode => of.orchestration_mode.clone(),
        Dimension::TaskType => of.task_type.clone(),
    });
    bucket.into_iter().chain(dimensions).map(Cell::Text)
}

/// Prints reports.
pub(super) struct Teller<'a> {
    pub context: &'a mut Context,
    /// Print CSV.
    pub csv: Option<csv::Style>,
}

impl Teller<'_> {
    /// A report as JSON, or its table. `shown` of `all` rows are in the report.
    pub(super) fn print(
        &mut self,
        report: &impl Serialize,
        table: &Table,
        [shown, all]: [usize; 2],
    ) -> Result<(), Failure> {
        let context = &mut *self.context;
        if context.json {
            return Ok(context.out.json(report)?);
        }
        if let Some(style) = self.csv {
            table.csv(&mut context.out, style)?;
        } else if all == 0 {
            output::say("there is nothing to report in this period");
        } else {
            table.print(&mut context.out)?;
        }
        if shown < all {
            let [shown, all] = [shown, all].map(|rows| count(rows as u64));
            context.say_below(&format!("{shown} of {all} rows shown: set --limit"))?;
        }
        Ok(())
    }

    /// Whether only one table is to be printed.
    fn is_for_programs(&self) -> bool {
        self.csv.is_some() || self.context.json
    }

    /// What was spent of the budgets that are set.
    pub(super) fn print_budgets(&mut self, analytics: &Analytics) -> Result<(), Failure> {
        if self.is_for_programs() {
            return Ok(());
        }
        for budget in analytics.budgets()? {
            show::row(&mut self.context.out, &budget_used(&budget))?;
        }
        Ok(())
    }

    pub(super) fn print_cost(&mut self, report: &CostReport) -> Result<(), Failure> {
        let rows = report.rows.iter();
        let rows = rows.map(|row| (cost::texts(&report.by, row), &row.sums));
        let mut table = table(cost::keys(&report.by), COST, rows);
        let total = COST.iter().map(|(_, cell)| cell(&report.total));
        table.total = Some(total.collect());
        let bar = if report.total.cost_usd.is_some() {
            "cost_usd"
        } else {
            "tokens_out"
        };
        table.bar = table.columns.iter().position(|column| column.key == bar);
        self.print(report, &table, [report.rows.len(), report.row_count])?;
        if !self.is_for_programs() {
            for note in cost::notes(report) {
                show::row(&mut self.context.out, &note)?;
            }
        }
        Ok(())
    }

    pub(super) fn print_errors(&mut self, report: &ErrorsReport) -> Result<(), Failure> {
        let columns = [
            Column::text("ERROR TYPE", "error_type"),
            Column::number("ERRORS", "errors", 0),
        ];
        let rows = report.rows.iter().map(|row| {
            let error_type = Cell::Text(row.sums.error_type.clone());
            let numbers = [error_type, Cell::Count(row.sums.errors)];
            texts(&report.scope, &row.of).chain(numbers).collect()
        });
        let columns: Vec<Column> = keys(&report.scope).chain(columns).collect();
        let table = Table {
            bar: Some(columns.len() - 1),
            columns,
            rows: rows.collect(),
            total: Some(vec![Cell::Count(report.total.errors)]),
        };
        self.print(report, &table, [report.rows.len(), report.row_count])?;
        if self.is_for_programs() {
            return Ok(());
        }
        print_samples(self.context, &report.samples)
    }

    pub(super) fn print_active(&mut self, report: &ActiveReport) -> Result<(), Failure> {
        let number = Column::number("CONVERSATIONS", "conversations", 0);
        let columns: Vec<Column> = keys(&report.scope).chain([number]).collect();
        let rows = report.rows.iter().map(|row| {
            let of = RowKey {
                bucket: row.bucket,
                ..RowKey::default()
            };
            let conversations = Cell::Count(row.conversations);
            texts(&report.scope, &of).chain([conversations]).collect()
        });
        let table = Table {
            bar: Some(columns.len() - 1),
            columns,
            rows: rows.collect(),
            // A conversation counts on each of its days.
            total: None,
        };
        self.print(report, &table, [report.rows.len(), report.row_count])
    }

    /// The tokens of turn.completed events; messages may have the same tokens.
    pub(super) fn print_turns(&mut self, report: &UsageReport) -> Result<(), Failure> {
        if report.turns.is_empty() || self.is_for_programs() {
            return Ok(());
        }
        let by_model = report.scope.group.contains(&Dimension::Model);
        let scope = Scope {
            group: by_model.then_some(Dimension::Model).into_iter().collect(),
            ..report.scope.clone()
        };
        let rows = report.turns.iter();
        let rows = rows.map(|row| (texts(&scope, &row.of), &row.sums));
        let table = table(keys(&scope), TURNS, rows);
        let out = &mut self.context.out;
        out.line("")?;
        show::row(out, "turn.completed events, not counted above:")?;
        Ok(table.print(out)?)
    }
}

fn print_samples(context: &mut Context, samples: &[ErrorSample]) -> Result<(), Failure> {
    if samples.is_empty() {
        return Ok(());
    }
    context.out.line("")?;
    show::row(&mut context.out, "the latest:")?;
    for sample in samples {
        let words = [sample.model_used.as_deref(), sample.error_type.as_deref()];
        let words = words.into_iter().flatten().chain([sample.error.as_str()]);
        let text: Vec<_> = words.map(|word| one_line(word.trim())).collect();
        let at = time::shown(sample.timestamp.at());
        show::row(&mut context.out, &format!("{at}  {}", text.join("  ")))?;
    }
    Ok(())
}
