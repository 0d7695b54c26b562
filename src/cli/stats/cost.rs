//! `decklog stats cost`

use decklog::analytics::{CostBy, CostKey, CostReport, CostRow};
use decklog::human::{counted, dollars};

use super::By;
use crate::cli::escape::one_line;
use crate::cli::exit::Failure;
use crate::cli::table::{Cell, Column};

/// Maximum number of models without a price to name.
const NAMES_MAX: usize = 5;

impl By {
    /// What it is in a report on cost.
    pub(super) fn of_cost(self) -> Result<CostBy, Failure> {
        Ok(match self {
            By::Day => CostBy::Day,
            By::Week => CostBy::Week,
            By::Month => CostBy::Month,
            By::Model => CostBy::Model,
            By::Project => CostBy::Project,
            By::Session => CostBy::Session,
            By::Branch => CostBy::Branch,
            By::Tool => CostBy::Tool,
            By::Agent => CostBy::Agent,
            By::Config | By::Mode | By::TaskType => {
                let message = "cost cannot be grouped by config, mode or task_type: use 'decklog stats usage --by'";
                return Err(Failure::usage(message));
            }
        })
    }
}

/// The columns of what a row is of.
pub fn keys(by: &[CostBy]) -> Vec<Column> {
    let mut columns = Vec::new();
    for by in by {
        columns.push(match by {
            CostBy::Day => Column::text("DAY", "day"),
            CostBy::Week => Column::text("WEEK", "week"),
            CostBy::Month => Column::text("MONTH", "month"),
            CostBy::Model => Column::text("MODEL", "model_used"),
            CostBy::Project => Column::text("PROJECT", "project"),
            CostBy::Session => Column::text("CONVERSATION", "conversation_id"),
            CostBy::Branch => Column::text("BRANCH", "git_branch"),
            CostBy::Tool => Column::text("TOOL", "tool_name"),
            CostBy::Agent => Column::text("AGENT", "agent"),
        });
        if *by == CostBy::Session {
            columns.push(Column::text("TITLE", "title"));
        }
    }
    columns
}

/// What a row is of, in the order of the columns.
pub fn texts(by: &[CostBy], row: &CostRow) -> Vec<Cell> {
    let CostKey {
        bucket,
        model_used,
        project,
        conversation_id,
        git_branch,
        tool_name,
        agent,
    } = &row.of;
    let mut cells = Vec::new();
    for by in by {
        cells.push(match by {
            CostBy::Day | CostBy::Week | CostBy::Month => {
                Cell::Text(bucket.map(|day| day.to_string()))
            }
            CostBy::Model => Cell::Text(model_used.clone()),
            CostBy::Project => Cell::Text(project.clone()),
            CostBy::Session => conversation_id.map_or(Cell::Text(None), Cell::Id),
            CostBy::Branch => Cell::Text(git_branch.clone()),
            CostBy::Tool => Cell::Text(tool_name.clone()),
            CostBy::Agent => Cell::Text(agent.clone()),
        });
        if *by == CostBy::Session {
            cells.push(Cell::Text(row.title.clone()));
        }
    }
    cells
}

/// How much of the cost is recorded and computed, and what has no price.
pub fn notes(report: &CostReport) -> Vec<String> {
    let total = &report.total;
    let mut notes = Vec::new();
    if let Some(cost) = total.cost_usd {
        let computed = total.cost_computed_usd.unwrap_or(0.0);
        let recorded = (cost - computed).max(0.0);
        notes.push(format!(
            "{} recorded by agents, {} computed from the price table",
            dollars(recorded),
            dollars(computed)
        ));
    }
    if total.unpriced > 0 {
        let models = report.unpriced.iter().take(NAMES_MAX);
        let names = models.map(|it| one_line(it.model_used.as_deref().unwrap_or("no model")));
        let names: Vec<_> = names.collect();
        let more = if report.unpriced.len() > NAMES_MAX {
            ", …"
        } else {
            ""
        };
        notes.push(format!(
            "not included: {} without a price ({}{more})",
            counted(total.unpriced, "message"),
            names.join(", ")
        ));
    }
    notes
}
