//! Rows as they are measured, each with its target; and how rounds are run.

use std::time::Instant;

/// In which form rows are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Text,
    /// One JSON object a line.
    Json,
    /// A table for a document.
    Markdown,
}

impl Form {
    /// The form that the flags of the command line ask for.
    pub fn of(flags: &[String]) -> Form {
        let has = |wanted: &str| flags.iter().any(|flag| flag == wanted);
        match (has("--json"), has("--markdown")) {
            (true, _) => Form::Json,
            (_, true) => Form::Markdown,
            _ => Form::Text,
        }
    }
}

/// What is printed, in which form.
pub struct Table {
    form: Form,
    words: Vec<String>,
    has_head: bool,
}

/// One comparison. Where the unit ends in `/s`, more is better; of any other unit, less.
pub struct Row<'a> {
    pub name: &'a str,
    pub ours: f64,
    pub peer_name: &'a str,
    pub peer: f64,
    /// What `ours / peer` should be: at least this where more is better, else at most this.
    pub target: Option<f64>,
    pub unit: &'a str,
}

impl Table {
    /// A table of the rows that have one of the words in their names, or of all if there are none.
    pub fn new(form: Form, words: Vec<String>) -> Table {
        Table {
            form,
            words,
            has_head: false,
        }
    }

    /// Whether any row of these names is wanted.
    pub fn wants(&self, names: &[&str]) -> bool {
        let is_wanted = |name: &&str| self.words.iter().any(|word| name.contains(word.as_str()));
        self.words.is_empty() || names.iter().any(is_wanted)
    }

    /// Tells of what the rows are about; apart from them, if programs or documents take them.
    pub fn note(&self, text: &str) {
        if self.form == Form::Text {
            println!("# {text}");
        } else {
            eprintln!("# {text}");
        }
    }

    pub fn row(&mut self, row: &Row<'_>) {
        if !self.wants(&[row.name]) {
            return;
        }
        let ratio = row.ours / row.peer;
        if self.form == Form::Json {
            let row = serde_json::json!({
                "name": row.name, "ours": row.ours, "peer_name": row.peer_name, "peer": row.peer,
                "ratio": ratio, "target": row.target, "unit": row.unit,
            });
            println!("{row}");
            return;
        }
        let has_head = std::mem::replace(&mut self.has_head, true);
        let is_more_better = row.unit.ends_with("/s");
        let sign = if is_more_better { ">=" } else { "<=" };
        let target = row.target.map(|target| format!("{sign} {target}"));
        if self.form == Form::Markdown {
            if !has_head {
                println!("| work | decklog | peer | ratio | target |\n|---|---|---|---|---|");
            }
            let (name, unit, peer) = (row.name, row.unit, row.peer_name);
            let (ours, theirs) = (figure(row.ours), figure(row.peer));
            let target = target.unwrap_or_default();
            println!(
                "| {name} | {ours} {unit} | {peer}: {theirs} {unit} | {ratio:.2} | {target} |"
            );
            return;
        }
        if !has_head {
            println!(
                "{:34} {:>11} {:>16} {:>11} {:>8} {:>8} {:5}  unit",
                "row", "ours", "peer", "", "ratio", "target", ""
            );
        }
        let verdict = row.target.map(|target| {
            let is_met = if is_more_better {
                ratio >= target
            } else {
                ratio <= target
            };
            if is_met { "ok" } else { "short" }
        });
        println!(
            "{:34} {:>11} {:>16} {:>11} {ratio:>8.3} {:>8} {:5}  {}",
            row.name,
            figure(row.ours),
            row.peer_name,
            figure(row.peer),
            target.unwrap_or_default(),
            verdict.unwrap_or_default(),
            row.unit
        );
    }
}

fn figure(value: f64) -> String {
    let decimals = match value {
        value if value >= 1_000.0 => 0,
        value if value >= 100.0 => 1,
        _ => 3,
    };
    format!("{value:.decimals$}")
}

/// The medians of what the sides measure. They take turns, each round begins with another one,
/// and one round more than these warms up.
pub fn medians<const N: usize>(
    rounds: usize,
    sides: &mut [&mut dyn FnMut(usize) -> f64; N],
) -> [f64; N] {
    let mut figures: [Vec<f64>; N] = std::array::from_fn(|_| Vec::new());
    for round in 0..=rounds {
        for side in (0..N).map(|i| (round + i) % N) {
            let figure = sides[side](round);
            if round > 0 {
                figures[side].push(figure);
            }
        }
    }
    figures.map(median)
}

pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// How many seconds something takes.
pub fn seconds<T>(work: impl FnOnce() -> T) -> f64 {
    let started = Instant::now();
    let done = work();
    let seconds = started.elapsed().as_secs_f64();
    // What it takes to drop it is not the work.
    drop(std::hint::black_box(done));
    seconds
}
