//! `/records`: records of any kind, one per line.

mod lines;

use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

pub(super) use self::lines::describe as describe_lines;
use super::app::Shared;
use super::body::{check_type, read};
use super::coding::Coding;
use super::params::Query;
use super::problem::Problem;
use super::puts::parts;
use crate::collections::{Ack, BATCH_BYTES_MAX, BATCH_RECORDS_MAX, Warning};
use crate::error::{Error, Result};
use crate::line::LINE_BYTES_MAX;
use crate::ndjson::{self, Input};
use crate::store::Store;

const MEDIA_TYPE: &str = "application/x-ndjson";
/// Maximum number of lines of a body, including blank lines. Each non-blank line has an answer.
const LINES_MAX: usize = 100_000;

/// When records are acknowledged.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct WaitParams {
    /// `disk`: when they are on disk. Default: by the server's `--durability`, normally when the operating system has them.
    wait: Option<WaitFor>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum WaitFor {
    Disk,
}

/// A record as a line: an object with its `kind` and the fields of the store's files. `kind` is
/// optional if it can be null. A line of a file is also accepted.
#[derive(ToSchema)]
#[allow(dead_code)]
struct RecordLine {}

/// The result of a line.
#[derive(Debug, Serialize, ToSchema)]
struct LineResult {
    /// The number of the line in the body, from 1.
    line: u64,
    /// The sequence number of the record's line in the log.
    #[serde(skip_serializing_if = "Option::is_none")]
    seq: Option<u64>,
    /// `added`; `unchanged`, if the log already has it; or `rejected`.
    #[schema(value_type = String, pattern = "^(added|unchanged|rejected)$")]
    status: &'static str,
    /// The id that the log assigned to an event, a task or a history entry, or a message's sequence.
    #[serde(skip_serializing_if = "Option::is_none")]
    assigned: Option<i64>,
    /// A probable mistake in the accepted record.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    warning: Option<&'static str>,
    /// The reason of a rejection.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<Problem>,
}

impl LineResult {
    fn new(line: u64, answer: Result<Ack, Problem>) -> LineResult {
        let (ack, problem) = parts(Some(answer));
        LineResult {
            line,
            seq: ack.map(|ack| ack.seq),
            status: ack.map_or("rejected", |ack| ack.status.as_str()),
            assigned: ack.and_then(|ack| ack.assigned),
            warning: ack.and_then(|ack| ack.warning).map(Warning::as_str),
            problem,
        }
    }
}

/// Records JSON objects of any kind, one per line.
///
/// A record has the field names of the store's files and its `kind`; the kind of a turn is
/// `turn_kind`. Each record is accepted or rejected separately, in order; blank lines are skipped.
/// Nothing of an incomplete body is recorded. Maximum: 100,000 lines, including blank ones. The body
/// can be compressed with gzip or zstd, with a matching `Content-Encoding`.
#[utoipa::path(
    post,
    path = "/records",
    params(WaitParams),
    request_body(content = Vec<RecordLine>, content_type = "application/x-ndjson", description = "One JSON object per line. The schema describes all lines as an array."),
    responses(
        (status = 200, description = "The result of each line that is not blank, one JSON object per line. The schema describes all lines as an array.", body = Vec<LineResult>, content_type = "application/x-ndjson"),
        (status = 413, description = "The body is longer than 16 MiB, decompressed, or has too many lines"),
        (status = 415, description = "The body has another media type or another content coding"),
    )
)]
pub(super) async fn record(
    State(app): State<Shared>,
    Query(params): Query<WaitParams>,
    request: Request,
) -> Result<Response, Problem> {
    check_type(request.headers(), MEDIA_TYPE, &["application/jsonl"])?;
    let coding = Coding::of(request.headers())?;
    let body = read(request.into_body(), &app).await?;
    let put = app.work(move |app| {
        let body = coding.decoded(body, app)?;
        put(&app.store, &body)
    });
    let (answer, is_any_in_log) = put.await?;
    if params.wait == Some(WaitFor::Disk) && is_any_in_log {
        app.syncer.sync().await?;
    }
    Ok(([(header::CONTENT_TYPE, MEDIA_TYPE)], answer).into_response())
}

/// Records a body; returns the results of its lines, and whether any of them is in the log.
fn put(store: &Store, body: &Bytes) -> Result<(Vec<u8>, bool), Problem> {
    let is_last_open = body.last().is_some_and(|last| *last != b'\n');
    let lines = memchr::memchr_iter(b'\n', body).count() + usize::from(is_last_open);
    if lines > LINES_MAX {
        let detail = format!("the body has {lines} lines: the maximum is {LINES_MAX}");
        let status = StatusCode::PAYLOAD_TOO_LARGE;
        return Err(Problem::new(status, "too_large", detail));
    }
    let mut answers = Answers {
        store,
        text: Vec::new(),
        is_any_in_log: false,
        failed: None,
    };
    let (mut batch, mut bytes) = (Vec::new(), 0);
    let read = ndjson::read(&mut &body[..], LINE_BYTES_MAX, |input| {
        bytes += input.text.as_ref().map_or(0, String::len);
        batch.push(input);
        if batch.len() >= BATCH_RECORDS_MAX || bytes >= BATCH_BYTES_MAX {
            answers.put(std::mem::take(&mut batch));
            bytes = 0;
        }
    });
    // The body is in memory, so a read error is caused by its content.
    read.map_err(|e| Problem::bad_request(e.to_string()))?;
    answers.put(batch);
    match answers.failed {
        Some(error) if !answers.is_any_in_log => Err(Problem::from(&error)),
        _ => Ok((answers.text, answers.is_any_in_log)),
    }
}

/// The results of lines.
struct Answers<'a> {
    store: &'a Store,
    text: Vec<u8>,
    is_any_in_log: bool,
    /// The error after which no more lines are recorded.
    failed: Option<Error>,
}

impl Answers<'_> {
    fn put(&mut self, batch: Vec<Input>) {
        let lines: Vec<u64> = batch.iter().map(|input| input.line).collect();
        let answers = match &self.failed {
            Some(failed) => Err(failed.clone()),
            None => ndjson::record(self.store, batch),
        };
        match answers {
            Ok(answers) => {
                for (line, answer) in answers {
                    self.report(line, answer.map_err(Problem::from));
                }
            }
            Err(failed) => {
                for line in lines {
                    self.report(line, Err(Problem::from(&failed)));
                }
                self.failed = Some(failed);
            }
        }
    }

    fn report(&mut self, line: u64, answer: Result<Ack, Problem>) {
        self.is_any_in_log |= answer.is_ok();
        // Encoding numbers and texts to memory cannot fail.
        let _ = serde_json::to_writer(&mut self.text, &LineResult::new(line, answer));
        self.text.push(b'\n');
    }
}
