//! The rows: what is run, beside what, and the target of each ratio.

use std::path::Path;

use uuid::Uuid;

use crate::corpus::{Corpus, RARE};
use crate::process::{self, Run, figure, shares_mb};
use crate::table::{Row, Table, median};

const GET: &str = "get a call";
const GET_UNSAVED: &str = "get a call, 100 unsaved";
const GET_RSS: &str = "get a call, max RSS";
const RECORD: &str = "record an event";
const TAIL: &str = "tail, 5 lines";
const CALLS: &str = "calls of a turn";
const EVENTS: &str = "events of a type";
const EVENTS_OF_DAY: &str = "events of a day";
const INBOX: &str = "inbox, counts";
const STATS: &str = "stats usage";
const OPEN: &str = "open and get, library";
const HOLD: &str = "20 processes, memory";
const IMPORT: &str = "import again";
const SEARCH: &str = "search a rare text";
const SEARCH_LIBRARY: &str = "search a rare text, library";

const LIMIT: &str = "limit";
const HOLDERS: usize = 20;
/// Number of calls after those that the saved index has.
const UNSAVED: usize = 100;

/// Something that is measured: its milliseconds.
type Measure<'a> = Box<dyn Fn() -> f64 + 'a>;

/// A row that is measured in milliseconds.
struct Timed<'a> {
    name: &'static str,
    ours: Measure<'a>,
    /// The target in milliseconds.
    limit: Option<f64>,
    /// Their names, and the targets of our time over theirs.
    peers: Vec<(&'static str, Option<f64>, Measure<'a>)>,
}

impl<'a> Timed<'a> {
    fn new(name: &'static str, ours: impl Fn() -> f64 + 'a) -> Timed<'a> {
        Timed {
            name,
            ours: Box::new(ours),
            limit: None,
            peers: Vec::new(),
        }
    }

    fn of(name: &'static str, run: Run) -> Timed<'a> {
        Timed::new(name, move || run.millis())
    }

    fn limit(mut self, millis: f64) -> Timed<'a> {
        self.limit = Some(millis);
        self
    }

    /// A peer, if it is installed.
    fn beside(mut self, name: &'static str, target: Option<f64>, peer: Run) -> Timed<'a> {
        if peer.is_installed() {
            self.peers
                .push((name, target, Box::new(move || peer.millis())));
        }
        self
    }

    fn measure(&self, rounds: usize, table: &mut Table) {
        if !table.wants(&[self.name]) {
            return;
        }
        let peers = self.peers.iter().map(|(_, _, peer)| peer);
        let sides: Vec<&Measure<'_>> = [&self.ours].into_iter().chain(peers).collect();
        let mut figures = vec![Vec::new(); sides.len()];
        for round in 0..=rounds {
            for side in (0..sides.len()).map(|i| (round + i) % sides.len()) {
                let millis = sides[side]();
                if round > 0 {
                    figures[side].push(millis);
                }
            }
        }
        let mut medians = figures.into_iter().map(median);
        let ours = medians.next().unwrap_or(f64::NAN);
        if self.limit.is_none() && self.peers.is_empty() {
            table.note(&format!("{}: {ours:.1} ms, beside nothing", self.name));
        }
        let limit = self.limit.map(|limit| (LIMIT, Some(1.0), limit));
        let peers = self.peers.iter().zip(medians);
        let peers = peers.map(|((name, target, _), peer)| (*name, *target, peer));
        for (peer_name, target, peer) in limit.into_iter().chain(peers) {
            let (name, unit) = (self.name, "ms");
            table.row(&Row {
                name,
                ours,
                peer_name,
                peer,
                target,
                unit,
            });
        }
    }
}

/// Measures the rows that are wanted.
pub fn run(corpus: &Corpus, rounds: usize, table: &mut Table) {
    for program in ["sqlite3", "tail", "jq", "rg", "ccusage"] {
        if !process::is_installed(program) {
            table.note(&format!(
                "{program} is not installed: rows beside it are left out"
            ));
        }
    }
    let log = corpus.log();
    let (request, call, turn) = corpus.call(1_000);
    let request = request.to_string();
    let key = [path(&log), &request, &call];
    let rows = [
        get_row(corpus, GET, Some(2.0)),
        record_row(corpus),
        tail_row(corpus),
        calls_row(corpus, &call, turn),
        events_row(corpus),
        day_row(corpus),
        inbox_row(corpus),
        stats_row(corpus),
        Timed::new(OPEN, || figure(process::OPEN, &key)).limit(5.0),
        import_row(corpus, table),
        search_row(
            &log,
            Timed::of(
                SEARCH,
                Run::decklog(&log, ["search", RARE, "--json"]).expect(RARE),
            ),
        ),
        search_row(
            &log,
            Timed::new(SEARCH_LIBRARY, || {
                figure(process::SEARCH, &[path(&log), RARE])
            }),
        ),
        get_row(corpus, GET_UNSAVED, None),
    ];
    for row in rows {
        if row.name == GET_UNSAVED && table.wants(&[GET_UNSAVED]) {
            corpus.record_unsaved(UNSAVED);
        }
        row.measure(rounds, table);
        if row.name == GET {
            get_memory(corpus, table);
        } else if row.name == OPEN {
            memory_of_holders(corpus, &key, table);
        }
    }
    // The next run finds all of the log in the saved index.
    corpus.save_index();
}

fn path(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

fn blob(id: Uuid) -> String {
    format!("x'{}'", id.simple())
}

fn get_run(corpus: &Corpus) -> Run {
    let (request, call, _) = corpus.call(1_000);
    let request = request.to_string();
    Run::decklog(&corpus.log(), ["get", "calls", &request, &call, "--json"]).expect(&call)
}

fn get_row<'a>(corpus: &Corpus, name: &'static str, target: Option<f64>) -> Timed<'a> {
    let (request, call, _) = corpus.call(1_000);
    let request = blob(request);
    let sql = format!("select * from tool_calls where request_id={request} and call_id='{call}'");
    let peer = Run::sqlite(&corpus.database(), &sql).expect(&call);
    Timed::of(name, get_run(corpus)).beside("sqlite3", target, peer)
}

fn get_memory(corpus: &Corpus, table: &mut Table) {
    if !table.wants(&[GET_RSS]) {
        return;
    }
    match get_run(corpus).max_rss_mb() {
        Some(ours) => memory_row(GET_RSS, ours, (LIMIT, 16.0, 1.0), table),
        None => table.note("GNU time is not installed: the memory of a get is left out"),
    }
}

fn memory_row(
    name: &str,
    ours: f64,
    (peer_name, peer, target): (&str, f64, f64),
    table: &mut Table,
) {
    table.row(&Row {
        name,
        ours,
        peer_name,
        peer,
        target: Some(target),
        unit: "MB",
    });
}

fn memory_of_holders(corpus: &Corpus, key: &[&str], table: &mut Table) {
    if !table.wants(&[HOLD]) {
        return;
    }
    // Other rows recorded events.
    corpus.save_index();
    match (shares_mb(HOLDERS, key), shares_mb(1, key)) {
        (Some(all), Some(one)) => memory_row(HOLD, all, ("one process", one, 2.0), table),
        _ => table.note("this system does not tell the shares of memory of processes"),
    }
}

fn record_row<'a>(corpus: &Corpus) -> Timed<'a> {
    const EVENT: &str =
        r#"{"kind":"events","event_type":"agent.started","payload":{"agent":"coder"}}"#;
    let sql = "insert into events (event_type, at, payload) \
        values ('agent.started', 1766832000000, '{\"agent\":\"coder\"}')";
    let record = |log: &Path| Run::decklog(log, ["record"]).input(EVENT);
    Timed::of(RECORD, record(&corpus.log()))
        .limit(10.0)
        .beside("empty log", Some(2.0), record(&corpus.empty()))
        .beside("sqlite3", None, Run::sqlite(&corpus.database(), sql))
}

fn tail_row<'a>(corpus: &Corpus) -> Timed<'a> {
    let row = Timed::of(TAIL, Run::decklog(&corpus.log(), ["tail", "-n", "5"]));
    match corpus.segments().last() {
        Some(last) => row.beside("tail", None, Run::new("tail", ["-n", "5", path(last)])),
        None => row,
    }
}

fn calls_row<'a>(corpus: &Corpus, call: &str, turn: Uuid) -> Timed<'a> {
    let sql = format!("select * from tool_calls where parent_id={}", blob(turn));
    let turn = turn.to_string();
    let ours = Run::decklog(&corpus.log(), ["calls", "--parent", &turn, "--json"]).expect(call);
    let peer = Run::sqlite(&corpus.database(), &sql).expect(call);
    Timed::of(CALLS, ours).beside("sqlite3", None, peer)
}

fn events_row<'a>(corpus: &Corpus) -> Timed<'a> {
    let sql = "select * from events where event_type='agent.failed'";
    let ours = Run::decklog(
        &corpus.log(),
        ["events", "--type", "agent.failed", "--json"],
    );
    let peer = Run::sqlite(&corpus.database(), sql).expect("agent.failed");
    Timed::of(EVENTS, ours.expect("agent.failed")).beside("sqlite3", None, peer)
}

/// The events of one day, beside jq on the segment that has them.
fn day_row<'a>(corpus: &Corpus) -> Timed<'a> {
    let [day, next] = Corpus::a_day();
    let log = corpus.log();
    let ours = Run::decklog(
        &log,
        ["events", "--since", &day, "--until", &next, "--json"],
    );
    let segment = log.join(&day).join("events.0001.jsonl");
    let peer = Run::new("jq", ["-c", "del(.seq, .crc)", path(&segment)]);
    Timed::of(EVENTS_OF_DAY, ours.expect("turn.started")).beside("jq", None, peer)
}

fn inbox_row<'a>(corpus: &Corpus) -> Timed<'a> {
    let sql = "select status, count(*) from inbox group by status";
    let ours = Run::decklog(&corpus.log(), ["inbox", "--counts"]).expect("queued");
    let peer = Run::sqlite(&corpus.database(), sql).expect("queued");
    Timed::of(INBOX, ours).beside("sqlite3", None, peer)
}

fn stats_row<'a>(corpus: &Corpus) -> Timed<'a> {
    let sql = "select day, model, config, count(*), sum(tokens_in), sum(tokens_out) \
        from messages group by day, model, config";
    let ours = Run::decklog(&corpus.log(), ["stats", "usage", "--json"]).expect("small-1");
    let peer = Run::sqlite(&corpus.database(), sql).expect("small-1");
    Timed::of(STATS, ours)
        .limit(50.0)
        .beside("sqlite3", None, peer)
}

/// An import of files of which nothing is new, beside ccusage's report of the same files.
fn import_row<'a>(corpus: &Corpus, table: &Table) -> Timed<'a> {
    let sessions = corpus.sessions();
    let import = || Run::decklog(&corpus.imported(), ["import", path(&sessions)]);
    if table.wants(&[IMPORT]) {
        import().millis();
    }
    let home = format!("CLAUDE_CONFIG_DIR={}", corpus.claude().display());
    let peer = Run::new("env", [&*home, "ccusage", "daily", "--json", "--offline"]);
    Timed::of(IMPORT, import()).beside("ccusage", None, peer.expect("totalTokens"))
}

fn search_row<'a>(log: &Path, row: Timed<'a>) -> Timed<'a> {
    let peer = Run::new("rg", ["-F", "-c", RARE, path(log)]);
    row.beside("rg -F -c", Some(1.3), peer)
}
