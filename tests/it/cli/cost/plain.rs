//! Every grouping of `decklog stats cost`, compared with a plain scan of all messages.

#![allow(clippy::cast_precision_loss)] // Costs are small.

use std::collections::{BTreeMap, BTreeSet};

use decklog::Store;
use decklog::analytics::{CostBy, CostKey, CostQuery, CostReport, CostSums};
use serde_json::json;

use super::*;
use crate::support::Rng;

const MONDAY: &str = "2025-12-22";
const DAYS: [&str; 5] = [
    "2025-11-30",
    "2025-12-21",
    "2025-12-22",
    "2025-12-28",
    "2026-01-01",
];

/// The six prices of a model on a day: input, cache write, the same for one hour, cache read,
/// output, reasoning.
fn rates(model: Option<&str>, day: &str) -> Option<[u64; 6]> {
    match (model?, day < MONDAY) {
        ("own-1", _) => Some([2, 3, 5, 1, 7, 11]),
        ("own-2", true) => Some([13, 13, 13, 13, 17, 17]),
        ("own-2", false) => Some([19, 19, 19, 19, 23, 23]),
        _ => None,
    }
}

/// A message as a plain model knows it.
struct Said {
    day: &'static str,
    conversation: u32,
    response: u32,
    model: Option<&'static str>,
    branch: Option<&'static str>,
    /// Input, cache write, the same for one hour, cache read, output, reasoning: nothing twice.
    tokens: [u64; 6],
    recorded: Option<u64>,
    tools: Vec<&'static str>,
}

/// Projects and agents of the conversations, and the one that started each.
const TALKS: [(Option<&str>, Option<&str>, Option<u32>); 5] = [
    (Some("app"), Some("codex"), None),
    (Some("app"), Some("codex"), Some(1)),
    (Some("web"), Some("claude-code"), Some(2)),
    (None, None, None),
    // The one that started it is not in the log.
    (Some("web"), None, Some(99)),
];

fn main_of(conversation: u32) -> u32 {
    match TALKS[conversation as usize - 1].2 {
        Some(parent) if parent < 99 => main_of(parent),
        _ => conversation,
    }
}

fn messages(rng: &mut Rng, lines: &mut Vec<String>) -> Vec<Said> {
    let mut all = Vec::new();
    let mut next = 1000;
    for response in 0..60 {
        let day = rng.below(DAYS.len());
        let conversation = rng.below(TALKS.len()) as u32 + 1;
        let first = next;
        for part in 0..=rng.below(3) as u32 {
            next += 1;
            // Some responses last past midnight.
            let (day, time) = if part == 2 && day == 1 {
                (DAYS[2], "00:00:00Z")
            } else {
                (DAYS[day], "23:59:59.999Z")
            };
            let said = Said {
                day,
                conversation,
                response,
                model: *rng.pick(&[Some("own-1"), Some("own-2"), Some("other"), None]),
                branch: *rng.pick(&[Some("main"), Some("fix"), None]),
                tokens: if rng.one_in(4) {
                    [0; 6]
                } else {
                    [0; 6].map(|_| rng.below(5000) as u64)
                },
                recorded: rng.one_in(4).then(|| rng.below(9_000_000) as u64),
                tools: (0..rng.below(4))
                    .map(|_| *rng.pick(&["Bash", "Edit"]))
                    .collect(),
            };
            let [input, write, hour, read, output, reasoning] = said.tokens;
            let mut line = json!({
                "kind": "messages", "id": id(next), "conversation_id": id(conversation),
                "role": "assistant", "content": "said", "timestamp": format!("{day}T{time}"),
                "tokens_in": input + write + hour + read, "tokens_cache_write": write + hour,
                "tokens_cache_write_1h": hour, "tokens_cache_read": read,
                "tokens_out": output + reasoning, "tokens_reasoning": reasoning,
                "model_used": said.model, "git_branch": said.branch,
                "cost_usd": said.recorded.map(|nano| nano as f64 / 1e9),
                "tool_name": said.tools.first(),
                "part_of": (part > 0).then(|| id(first + 1)),
            });
            line.as_object_mut().unwrap().retain(|_, it| !it.is_null());
            lines.push(line.to_string());
            for (nth, tool) in said.tools.iter().enumerate() {
                let call = next * 10 + nth as u32;
                let at = 1_766_800_000_000 + i64::try_from(nth).unwrap();
                let line = request(call, at, tool, "{}");
                let own = format!(r#""parent_id":"{}""#, id(call));
                let parent = format!(r#""parent_id":"{}""#, id(next));
                lines.push(line.replace(&own, &parent));
            }
            all.push(said);
        }
    }
    all
}

/// Sums that can be added: the tokens by kind, the cost in billionths, and what has none.
#[derive(Debug, Default, Clone, PartialEq)]
struct Sum {
    messages: u64,
    tokens: [u64; 6],
    recorded: Option<u64>,
    computed: Option<u64>,
    unpriced: u64,
}

impl Sum {
    fn of(said: &Said) -> Sum {
        let [input, write, hour, read, output, reasoning] = said.tokens;
        let wants = said.recorded.is_none() && said.tokens.iter().any(|count| *count > 0);
        let rates = rates(said.model, said.day).filter(|_| wants);
        let cost = rates.map(|rates| {
            let each = rates.iter().zip(said.tokens);
            each.map(|(rate, count)| rate * count * 1000).sum()
        });
        Sum {
            messages: 1,
            tokens: [
                input + write + hour + read,
                write + hour,
                hour,
                read,
                output + reasoning,
                reasoning,
            ],
            recorded: said.recorded,
            computed: cost,
            unpriced: u64::from(wants && cost.is_none()),
        }
    }

    fn add(&mut self, other: &Sum) {
        let plus = |one: Option<u64>, other: Option<u64>| match (one, other) {
            (None, None) => None,
            (one, other) => Some(one.unwrap_or(0) + other.unwrap_or(0)),
        };
        self.messages += other.messages;
        for (sum, more) in self.tokens.iter_mut().zip(other.tokens) {
            *sum += more;
        }
        self.recorded = plus(self.recorded, other.recorded);
        self.computed = plus(self.computed, other.computed);
        self.unpriced += other.unpriced;
    }

    /// The nth of equal shares. The first ones have what is left over.
    fn share(&self, nth: u64, count: u64) -> Sum {
        let of = |sum: u64| sum / count + u64::from(nth < sum % count);
        Sum {
            messages: of(self.messages),
            tokens: self.tokens.map(of),
            recorded: self.recorded.map(of),
            computed: self.computed.map(of),
            unpriced: of(self.unpriced),
        }
    }

    fn costs(&self) -> CostSums {
        let usd = |nano: u64| nano as f64 / 1e9;
        let [input, write, hour, read, output, reasoning] = self.tokens;
        CostSums {
            messages: self.messages,
            tokens_in: input,
            tokens_input: input - write - read,
            tokens_cache_write: write,
            tokens_cache_write_1h: hour,
            tokens_cache_read: read,
            tokens_out: output,
            tokens_reasoning: reasoning,
            cost_usd: match (self.recorded, self.computed) {
                (None, None) => None,
                (one, other) => Some(usd(one.unwrap_or(0) + other.unwrap_or(0))),
            },
            cost_computed_usd: self.computed.map(usd),
            unpriced: self.unpriced,
        }
    }
}

fn bucket(by: &[CostBy], day: &str) -> Option<String> {
    let week = match day {
        "2025-11-30" => "2025-11-24",
        "2025-12-21" => "2025-12-15",
        "2025-12-22" | "2025-12-28" => "2025-12-22",
        _ => "2025-12-29",
    };
    by.iter().find_map(|by| match by {
        CostBy::Day => Some(day.to_owned()),
        CostBy::Week => Some(week.to_owned()),
        CostBy::Month => Some(format!("{}-01", &day[..7])),
        _ => None,
    })
}

/// The rows of a report, by a scan of all messages.
fn plain(all: &[Said], by: &[CostBy], [since, until]: [&str; 2]) -> BTreeMap<CostKey, Sum> {
    let is_within = |said: &&Said| since <= said.day && said.day < until;
    let mut rows: BTreeMap<CostKey, Sum> = BTreeMap::new();
    let has = |of| by.contains(&of);
    for said in all.iter().filter(is_within) {
        let owned = |of, name: Option<&str>| name.filter(|_| has(of)).map(str::to_owned);
        let (project, agent, _) = TALKS[said.conversation as usize - 1];
        let main = id(main_of(said.conversation)).parse().unwrap();
        let key = CostKey {
            bucket: bucket(by, said.day).map(|day| day.parse().unwrap()),
            model_used: owned(CostBy::Model, said.model),
            project: owned(CostBy::Project, project),
            conversation_id: Some(main).filter(|_| has(CostBy::Session)),
            git_branch: owned(CostBy::Branch, said.branch),
            tool_name: None,
            agent: owned(CostBy::Agent, agent),
        };
        if !has(CostBy::Tool) {
            rows.entry(key).or_default().add(&Sum::of(said));
            continue;
        }
        let parts = all.iter().filter(is_within);
        let parts = parts.filter(|it| it.response == said.response);
        let mut tools: Vec<&str> = parts.flat_map(|it| it.tools.iter().copied()).collect();
        if tools.is_empty() {
            tools.push("(none)");
        }
        for (nth, tool) in tools.iter().enumerate() {
            let tool_name = Some((*tool).to_owned());
            let key = CostKey {
                tool_name,
                ..key.clone()
            };
            let share = Sum::of(said).share(nth as u64, tools.len() as u64);
            rows.entry(key).or_default().add(&share);
        }
    }
    rows
}

fn check(report: &CostReport, all: &[Said], by: &[CostBy], days: [&str; 2]) {
    let expected = plain(all, by, days);
    let found: BTreeMap<_, _> = report
        .rows
        .iter()
        .map(|it| (it.of.clone(), it.sums))
        .collect();
    assert_eq!(found.len(), report.rows.len(), "{by:?}");
    let rows = expected.iter().map(|(key, sum)| (key.clone(), sum.costs()));
    assert_eq!(found, rows.collect(), "{by:?} {days:?}");
    assert_eq!(report.row_count, expected.len());
    let order = |row: &decklog::analytics::CostRow| {
        let usd = row.sums.cost_usd.unwrap_or(0.0);
        (row.of.bucket, usd)
    };
    let is_sorted = report.rows.is_sorted_by(|one, next| {
        let ((one, more), (next, less)) = (order(one), order(next));
        one < next || (one == next && more >= less)
    });
    assert!(is_sorted, "{by:?}");
    let mut total = Sum::default();
    for sum in expected.values() {
        total.add(sum);
    }
    assert_eq!(report.total, total.costs(), "{by:?}");
    let unpriced = report.unpriced.iter().map(|it| it.messages).sum::<u64>();
    assert_eq!(unpriced, total.unpriced, "{by:?}");
    let models: BTreeSet<_> = report
        .unpriced
        .iter()
        .map(|it| it.model_used.as_deref())
        .collect();
    assert!(
        models.is_subset(&[None, Some("other")].into()),
        "{models:?}"
    );
}

const OTHERS: [CostBy; 6] = [
    CostBy::Model,
    CostBy::Project,
    CostBy::Session,
    CostBy::Branch,
    CostBy::Tool,
    CostBy::Agent,
];

#[test]
fn every_grouping_equals_a_plain_scan() {
    let mut rng = Rng::seeded("every_grouping_equals_a_plain_scan");
    let log = Log::keeping_all();
    std::fs::write(log.file("prices.json"), PRICES).unwrap();
    let mut lines = Vec::new();
    for (n, (project, agent, parent)) in (1..).zip(TALKS) {
        let mut line = json!({
            "kind": "conversations", "id": id(n), "client": "cli", "project": project,
            "agent": agent, "parent_id": parent.map(id), "created_at": "2025-11-30T08:00:00Z",
        });
        line.as_object_mut().unwrap().retain(|_, it| !it.is_null());
        lines.push(line.to_string());
    }
    let all = messages(&mut rng, &mut lines);
    log.record(&lines);
    let store = Store::options().read_only(true).open(log.path()).unwrap();
    let analytics = store.analytics();
    for period in [
        None,
        Some(CostBy::Day),
        Some(CostBy::Week),
        Some(CostBy::Month),
    ] {
        for chosen in 0..1_u32 << OTHERS.len() {
            let others = (0..).zip(OTHERS).filter(|(n, _)| chosen & (1 << n) != 0);
            let mut by: Vec<CostBy> = others.map(|(_, by)| by).chain(period).collect();
            rng.one_in(2).then(|| by.reverse());
            let days = *rng.pick(&[
                ["0000", "9999"],
                ["2025-12-21", "2025-12-23"],
                ["2026-01-02", "9999"],
            ]);
            let day = |text: &str| text.parse().ok();
            let query = CostQuery {
                since: day(days[0]),
                until: day(days[1]),
                by: by.clone(),
                limit: None,
            };
            let report = analytics.cost(&query).unwrap();
            if by.is_empty() {
                by.push(CostBy::Day);
            }
            check(&report, &all, &by, days);
            let two = CostQuery {
                limit: Some(2),
                ..query
            };
            let two = analytics.cost(&two).unwrap();
            assert_eq!(two.rows, report.rows[..report.rows.len().min(2)]);
            assert_eq!((two.row_count, two.total), (report.row_count, report.total));
        }
    }
}
