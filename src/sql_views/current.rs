//! The current records of each kind, over the view of its lines. All engines that read objects run
//! this SQL.

use super::fields::{LineField, listed};
use crate::record::Kind;

/// The query of the current records of a kind.
pub(super) fn records(kind: Kind) -> String {
    let fields = LineField::of(kind);
    match kind {
        Kind::ConversationTurns => last(kind, &["id"], " AND op <> 'retracted'"),
        // The day is that of the object.
        Kind::Rollups => {
            let group = [
                "day",
                "model_used",
                "config_used",
                "orchestration_mode",
                "task_type",
                "part",
            ];
            last(kind, &group, "")
        }
        Kind::ToolCalls => Parts {
            is_later: "op IN ('completed', 'failed')",
            asserted: "from_last",
            later: "from_first",
            later_columns: &[],
            derived: &["COALESCE(later_op, 'requested') AS status"],
            condition: "asserted_op = 'requested'",
        }
        .query(kind, &fields),
        Kind::CodeEditProposals => Parts {
            is_later: "op NOT IN ('pending', 'retracted')",
            asserted: "from_last",
            later: "from_last",
            later_columns: &[],
            derived: &["COALESCE(later_op, 'pending') AS status"],
            condition: "asserted_op = 'pending'",
        }
        .query(kind, &fields),
        Kind::Inbox => Parts {
            // A task that was queued again has no update_id in that line.
            is_later: "update_id IS NULL",
            asserted: "from_first",
            later: "from_last",
            later_columns: &["line_at"],
            derived: &[
                "COALESCE(later_op, 'queued') AS status",
                "COALESCE(later_line_at, created_at) AS updated_at",
            ],
            condition: "asserted_op IS NOT NULL",
        }
        .query(kind, &fields),
        Kind::Conversations => conversations(&fields),
        Kind::Messages | Kind::Events | Kind::History | Kind::ThoughtRecords => {
            // The day is part of the key, so that a query of some days reads only these days.
            ranked(kind, &["day", "id"], "seq", "")
        }
    }
}

/// The last line of each key by seq.
fn last(kind: Kind, key: &[&str], condition: &str) -> String {
    ranked(kind, key, "seq DESC", condition)
}

/// The first line of each key in an order.
fn ranked(kind: Kind, key: &[&str], order: &str, condition: &str) -> String {
    let fields = LineField::of(kind);
    let columns = ["store_id", "seq", "day"].into_iter();
    let columns = listed(columns.chain(fields.iter().map(|field| field.name)), 4);
    let key = key.join(", ");
    format!(
        "\
SELECT
{columns}
FROM (
    SELECT *, ROW_NUMBER() OVER (PARTITION BY store_id, {key} ORDER BY {order}) AS place
    FROM {kind}_lines
) AS l
WHERE place = 1{condition}"
    )
}

/// A kind whose records are made of two lines of their key: the one that asserts the record, and a
/// later one.
struct Parts {
    /// Whether a line is a later one.
    is_later: &'static str,
    /// Which of the lines that assert the record counts, `from_first` or `from_last` by seq.
    asserted: &'static str,
    /// Which of the later lines counts.
    later: &'static str,
    /// Columns of the later line, besides its fields and op.
    later_columns: &'static [&'static str],
    /// Columns that are derived from both.
    derived: &'static [&'static str],
    /// Whether there is a record.
    condition: &'static str,
}

impl Parts {
    fn query(&self, kind: Kind, fields: &[LineField]) -> String {
        let names_of = |is_wanted: &dyn Fn(&LineField) -> bool| {
            let wanted = fields.iter().filter(|field| is_wanted(field));
            wanted.map(|field| field.name).collect::<Vec<_>>()
        };
        let key = names_of(&|field| field.is_key);
        let asserted = names_of(&|field| !field.is_key && !field.is_later);
        let later = names_of(&|field| field.is_later);
        let of = |is_later: u8, place: &str, name: &str, alias: &str| {
            format!(
                "MAX(CASE WHEN l.is_later = {is_later} AND l.{place} = 1 THEN l.{name} END) AS {alias}"
            )
        };
        let mut picked: Vec<String> = ["store_id"].iter().chain(&key).map(same).collect();
        for name in ["seq", "day"].iter().chain(&asserted) {
            picked.push(of(0, self.asserted, name, name));
        }
        picked.push(of(0, self.asserted, "op", "asserted_op"));
        for name in ["op"].iter().chain(self.later_columns) {
            picked.push(of(1, self.later, name, &format!("later_{name}")));
        }
        for name in &later {
            picked.push(of(1, self.later, name, name));
        }
        let group = ["store_id"].iter().chain(&key);
        let group: Vec<String> = group.map(|name| format!("l.{name}")).collect();
        let key_list = key.join(", ");
        let mut places = vec![self.asserted, self.later];
        places.dedup();
        let places = places.into_iter().map(|place| {
            let order = if place == "from_last" { " DESC" } else { "" };
            format!(
                "\n            ROW_NUMBER() OVER (\n                PARTITION BY store_id, {key_list}, is_later ORDER BY seq{order}\n            ) AS {place}"
            )
        });
        let places: Vec<String> = places.collect();
        let columns = ["store_id", "seq", "day"].iter();
        let columns = columns
            .chain(&key)
            .chain(&asserted)
            .chain(&later)
            .map(|name| {
                // A task that was never claimed.
                if *name == "attempts" {
                    "COALESCE(attempts, 0) AS attempts"
                } else {
                    name
                }
            });
        format!(
            "\
SELECT
{columns}
FROM (
    SELECT
        {picked}
    FROM (
        SELECT *,{places}
        FROM (
            SELECT *, CASE WHEN {is_later} THEN 1 ELSE 0 END AS is_later
            FROM {kind}_lines
        ) AS o
    ) AS l
    GROUP BY {group}
) AS c
WHERE {condition}",
            columns = listed(columns.chain(self.derived.iter().copied()), 4),
            picked = picked.join(",\n        "),
            places = places.join(","),
            is_later = self.is_later,
            group = group.join(", "),
            condition = self.condition,
        )
    }
}

fn same(name: &&str) -> String {
    format!("l.{name} AS {name}")
}

/// The totals of the messages of a conversation. `models_used` and `configs_used` are lists of
/// distinct values, for which the engines have no function in common.
const TOTALS: &str = "\
    COALESCE(m.message_count, 0) AS message_count,
    COALESCE(m.total_tokens_in, 0) AS total_tokens_in,
    COALESCE(m.total_tokens_out, 0) AS total_tokens_out,
    COALESCE(m.total_latency_ms, 0) AS total_latency_ms,
    m.total_cost_usd AS total_cost_usd,
    COALESCE(m.error_count, 0) AS error_count,
    COALESCE(m.failure_count, 0) AS failure_count";

/// The last answer or error of a conversation decides on its status, unless the conversation was
/// written later.
fn conversations(fields: &[LineField]) -> String {
    let plain = fields.iter().map(|field| field.name);
    let plain = plain.filter(|name| !["id", "status", "updated_at", "last_error"].contains(name));
    let plain = listed(plain.map(|name| format!("c.{name} AS {name}")), 4);
    format!(
        "\
SELECT
    c.store_id AS store_id, c.seq AS seq, CAST(c.created_at AS DATE) AS day, c.id AS id,
{plain},
    CASE WHEN m.verdict_seq > c.seq AND m.verdict_error IS NOT NULL THEN 'error'
         WHEN m.verdict_seq > c.seq AND c.status = 'error' THEN 'active'
         ELSE COALESCE(c.status, 'active') END AS status,
    CASE WHEN m.verdict_seq > c.seq THEN m.verdict_error ELSE c.last_error END AS last_error,
    CASE WHEN m.last_at > c.updated_at THEN m.last_at ELSE c.updated_at END AS updated_at,
{TOTALS}
FROM (
    SELECT *, ROW_NUMBER() OVER (PARTITION BY store_id, id ORDER BY seq DESC) AS from_last
    FROM conversations_lines
) AS c
LEFT JOIN (
    SELECT n.store_id AS store_id, n.conversation_id AS conversation_id,
        COUNT(*) AS message_count,
        SUM(CASE WHEN n.tokens_in > 0 THEN n.tokens_in ELSE 0 END) AS total_tokens_in,
        SUM(CASE WHEN n.tokens_out > 0 THEN n.tokens_out ELSE 0 END) AS total_tokens_out,
        SUM(CASE WHEN n.latency_ms > 0 THEN n.latency_ms ELSE 0 END) AS total_latency_ms,
        SUM(n.cost_usd) AS total_cost_usd,
        COUNT(n.error) AS error_count,
        COUNT(COALESCE(n.error, n.error_type)) AS failure_count,
        MAX(n.timestamp) AS last_at,
        MAX(CASE WHEN n.is_verdict = 1 AND n.from_last = 1 THEN n.seq END) AS verdict_seq,
        MAX(CASE WHEN n.is_verdict = 1 AND n.from_last = 1 THEN n.error END) AS verdict_error
    FROM (
        SELECT *, ROW_NUMBER() OVER (
            PARTITION BY store_id, conversation_id, is_verdict ORDER BY sequence DESC, seq DESC
        ) AS from_last
        FROM (
            SELECT store_id, seq, conversation_id, sequence, timestamp, tokens_in, tokens_out,
                latency_ms, cost_usd, error, error_type,
                CASE WHEN error IS NOT NULL OR role = 'assistant' THEN 1 ELSE 0 END AS is_verdict
            FROM messages
        ) AS o
    ) AS n
    GROUP BY n.store_id, n.conversation_id
) AS m ON m.store_id = c.store_id AND m.conversation_id = c.id
WHERE c.from_last = 1"
    )
}
