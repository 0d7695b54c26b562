use super::*;
use crate::record::columns::name_in_parquet;

/// The engine, a format, and a location.
fn all() -> Vec<(Engine, Option<ObjectFormat>, String)> {
    let of = |engine: Engine| {
        let formats = engine.formats().iter().map(|format| Some(*format));
        let formats: Vec<_> = formats.collect();
        let location = match engine {
            Engine::PostgreSql => "postgres://me@db.example/fleet",
            Engine::Sqlite => "/srv/one.sqlite",
            _ => "/srv/agents",
        };
        let formats = if formats.is_empty() {
            vec![None]
        } else {
            formats
        };
        formats
            .into_iter()
            .map(move |format| (engine, format, location.to_owned()))
    };
    Engine::ALL.into_iter().flat_map(of).collect()
}

/// The statements, without what differs in spaces.
fn statements(script: &str) -> Vec<String> {
    let statements = script.split(";\n").map(|statement| {
        let lines = statement.lines().filter(|line| !line.starts_with("--"));
        let words = lines.flat_map(str::split_whitespace);
        words.collect::<Vec<_>>().join(" ")
    });
    statements.filter(|it| !it.is_empty()).collect()
}

fn view<'a>(statements: &'a [String], name: &str) -> &'a str {
    let head = format!("VIEW {name} AS ");
    let mut found = statements.iter().filter_map(|it| it.split_once(&head));
    let (_, query) = found.next().unwrap_or_else(|| panic!("no view {name}"));
    assert!(found.next().is_none(), "two views {name}");
    query
}

/// The names of the columns of a query: of what is between SELECT and FROM, the last words.
fn columns(query: &str) -> Vec<String> {
    let (mut columns, mut depth) = (vec![String::new()], 0);
    for word in query.split(' ').skip(1) {
        if word == "FROM" && depth == 0 {
            break;
        }
        let opened = word.matches(['(', '[']).count();
        depth = depth + opened - word.matches([')', ']']).count();
        match word.strip_suffix(',') {
            Some(last) if depth == 0 => {
                *columns.last_mut().unwrap() = last.to_owned();
                columns.push(String::new());
            }
            _ => *columns.last_mut().unwrap() = word.to_owned(),
        }
    }
    columns
}

#[test]
fn each_view_has_every_column_of_its_kind() {
    for (engine, format, location) in all() {
        let statements = statements(&script(engine, format, &[location]).unwrap());
        for kind in Kind::ALL {
            if (engine, kind) == (Engine::PostgreSql, Kind::Rollups) {
                continue;
            }
            let found = columns(view(&statements, kind.stem()));
            let mut expected = vec!["store_id", "seq", "day"];
            expected.extend(kind.columns().iter().map(|column| column.name));
            // Lists of distinct values in their order are in tables alone.
            if !engine.formats().is_empty() {
                expected.retain(|name| !["models_used", "configs_used"].contains(name));
            }
            expected.sort_unstable();
            expected.dedup();
            let mut sorted = found.clone();
            sorted.sort_unstable();
            assert_eq!(
                sorted, expected,
                "{kind} in {engine}, {format:?}: {found:?}"
            );
        }
    }
}

#[test]
fn each_view_of_lines_reads_every_field() {
    for (engine, format, location) in all() {
        let Some(format) = format else { continue };
        let statements = statements(&script(engine, Some(format), &[location]).unwrap());
        for kind in Kind::ALL {
            let lines = view(&statements, &format!("{kind}_lines"));
            let found = columns(lines);
            let files = statements
                .iter()
                .find(|it| it.contains(&format!("{kind}_files (")));
            let source = files.map_or(lines, String::as_str);
            for column in kind.line_columns() {
                assert!(
                    found.iter().any(|it| it == column.name),
                    "{engine} {}",
                    column.name
                );
                let name = match format {
                    ObjectFormat::Jsonl => column.name,
                    ObjectFormat::Parquet => name_in_parquet(column.name),
                };
                let is_declared = column.name == "day"
                    || ["'{}': {name: ", " {} ", " {}: "]
                        .iter()
                        .any(|it| source.contains(&it.replacen("{}", name, 1)));
                assert!(
                    is_declared,
                    "{name} of {kind} in {engine}, {format}: {source}"
                );
            }
        }
    }
}

#[test]
fn names_need_no_quotes() {
    // Of the words that one of the engines reserves, those that a field may be named after.
    let reserved = [
        "all", "any", "array", "as", "at", "by", "case", "column", "date", "default", "end",
        "from", "group", "in", "index", "interval", "is", "key", "left", "like", "limit", "not",
        "null", "of", "offset", "on", "or", "order", "range", "row", "rows", "select", "set",
        "table", "then", "to", "user", "using", "value", "values", "when", "where", "window",
        "with",
    ];
    for kind in Kind::ALL {
        for column in kind.columns() {
            assert!(!reserved.contains(&column.name), "{}", column.name);
        }
    }
}

#[test]
fn a_location_stays_a_text() {
    let given = "/srv/it's [a-c]*?%41 #;--";
    let sql = |engine, location: &str| script(engine, Some(ObjectFormat::Parquet), &[location]);
    let duckdb = sql(Engine::DuckDb, given).unwrap();
    let pattern = "'/srv/it''s [[]a-c][*][?]%41 #;--/kind=*/*/*/*.parquet'";
    assert!(duckdb.contains(pattern), "{duckdb}");
    let spark = sql(Engine::Spark, given).unwrap();
    let path = r"(path '/srv/it\'s \\[a-c\\]\\*\\?%41 #;--')";
    assert!(spark.contains(path), "{spark}");
    let datafusion = sql(Engine::DataFusion, given).unwrap();
    let url = "'file:///srv/it''s %5Ba-c%5D%2A%3F%2541 %23;--/kind=events/'";
    assert!(datafusion.contains(url), "{datafusion}");
    let clickhouse = sql(Engine::ClickHouse, "/srv/it's [a]").unwrap();
    let pattern = r"file('/srv/it\'s [a]/kind=events/*/*/*.parquet', 'Parquet'";
    assert!(clickhouse.contains(pattern), "{clickhouse}");
    let sqlite = script(Engine::Sqlite, None, &["/srv/it's.db", "/srv/*.db"]).unwrap();
    assert!(sqlite.contains("ATTACH '/srv/it''s.db' AS store_0;\n"));
    assert!(sqlite.contains("ATTACH '/srv/*.db' AS store_1;\n"));
}

#[test]
fn urls_are_as_each_engine_has_them() {
    let sql = |engine| script(engine, None, &["s3://logs/agents/"]).unwrap();
    assert!(sql(Engine::DuckDb).contains("read_json('s3://logs/agents/kind=*/*/*/*.jsonl.zst'"));
    assert!(sql(Engine::ClickHouse).contains("s3('s3://logs/agents/kind=inbox/*/*/*.jsonl.zst'"));
    assert!(sql(Engine::DataFusion).contains("LOCATION 's3://logs/agents/kind=inbox/'"));
    assert!(sql(Engine::Spark).contains("(path 's3a://logs/agents')"));
    let file = script(Engine::Spark, None, &["file:///srv/agents"]).unwrap();
    assert!(file.contains("(path '/srv/agents')"));
}

#[test]
fn what_an_engine_cannot_take_is_refused() {
    let refused = |engine, format, locations: &[&str]| {
        let error = script(engine, format, locations).unwrap_err();
        assert_eq!(error.kind(), crate::ErrorKind::InvalidInput);
        error.to_string()
    };
    let (jsonl, parquet) = (Some(ObjectFormat::Jsonl), Some(ObjectFormat::Parquet));
    assert!(refused(Engine::Spark, jsonl, &["/srv"]).contains("ship them as parquet"));
    assert!(refused(Engine::Sqlite, parquet, &["/a.db"]).contains("reads tables"));
    assert!(refused(Engine::Sqlite, None, &[]).contains("export sqlite"));
    assert!(refused(Engine::DuckDb, None, &[]).contains("one location"));
    assert!(refused(Engine::DuckDb, None, &["/a", "/b"]).contains("one location"));
    for location in [
        "/a\\b",
        "/a\nb",
        "s3://b?x=1",
        "s3://",
        "postgres://h/d",
        "file:///a%20b",
    ] {
        refused(Engine::DuckDb, None, &[location]);
    }
    for location in ["/a*", "/a?", "/{a,b}", "/a::b", "az://container/a"] {
        refused(Engine::ClickHouse, None, &[location]);
    }
    for locations in [&["/srv/agents"][..], &["postgres://a/b", "postgres://c/d"]] {
        assert!(refused(Engine::PostgreSql, None, locations).contains("one database"));
    }
    refused(Engine::Sqlite, None, &["/a\n.db"]);
    assert!("duck".parse::<Engine>().is_err());
    assert!("csv".parse::<ObjectFormat>().is_err());
}

#[test]
fn lists_fill_lines_of_at_most_100_columns() {
    let items = (0..60).map(|nth| "x".repeat(1 + nth % 13));
    let text = listed(items.clone(), 4);
    assert!(
        text.lines()
            .all(|line| line.len() <= 100 && line.starts_with("    x"))
    );
    let lines: Vec<&str> = text.lines().map(str::trim_start).collect();
    for pair in lines.windows(2) {
        let next = pair[1].split(' ').next().unwrap();
        assert!(4 + pair[0].len() + 1 + next.len() > 100, "{pair:?}");
    }
    let words: Vec<&str> = text
        .split([',', ' ', '\n'])
        .filter(|it| !it.is_empty())
        .collect();
    assert_eq!(words, items.collect::<Vec<_>>());
}
