//! `decklog sql-views`

use decklog::sql_views::{Engine, ObjectFormat, script};

use super::context::Context;
use super::exit::{Exit, Failure};

/// Print SQL that makes a shipped log readable as views, one a kind of record
///
/// Run it in the engine first; then the queries of the directory sql/ of decklog's source run
/// unchanged. ENGINE is duckdb, clickhouse, datafusion, spark, postgresql or sqlite. No store is
/// opened, and nothing is read at LOCATION.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  decklog sql-views duckdb s3://logs/agents > views.sql\n  (decklog sql-views duckdb /mnt/nas/agents; cat sql/task_types.sql) | duckdb\n  (decklog sql-views clickhouse /mnt/nas/agents; cat sql/task_types.sql) | clickhouse local\n  decklog sql-views datafusion /mnt/nas/agents-parquet > views.sql && datafusion-cli -f views.sql -f sql/task_types.sql\n  decklog sql-views spark s3://logs/agents-parquet > views.sql && spark-sql -i views.sql -f sql/task_types.sql\n  (decklog sql-views postgresql; cat sql/task_types.sql) | psql postgres://me@db.example/fleet\n  (decklog sql-views sqlite one.db two.db; cat sql/task_types.sql) | sqlite3"
)]
pub struct Args {
    /// The engine that will run it
    #[arg(value_name = "ENGINE")]
    engine: Engine,
    /// Where `decklog ship` copied the log: a directory or a URL. For sqlite, the files of `decklog
    /// export sqlite`; for postgresql, nothing
    #[arg(value_name = "LOCATION")]
    locations: Vec<String>,
    /// The format of the copy, jsonl or parquet. Default: jsonl; for datafusion and spark parquet,
    /// as they cannot read the other
    #[arg(long)]
    format: Option<ObjectFormat>,
}

pub fn run(args: &Args, context: &mut Context) -> Result<Exit, Failure> {
    let sql = script(args.engine, args.format, &args.locations)?;
    if context.json {
        let engine = args.engine.as_str();
        let line = serde_json::json!({ "engine": engine, "sql": sql });
        context.out.json(&line)?;
    } else {
        context.out.raw_line(sql.trim_end())?;
    }
    Ok(Exit::Ok)
}
