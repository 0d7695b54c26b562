//! Records in requests, and their results.

use axum::http::StatusCode;
use serde::Serialize;
use serde_json::Value;
use utoipa::openapi::schema::{ArrayBuilder, ObjectBuilder, OneOfBuilder, Schema};
use utoipa::openapi::{Ref, RefOr};
use utoipa::{PartialSchema, ToSchema};

use super::app::App;
use super::body::{Answer, Made, OneOrMore};
use super::params::Wait;
use super::problem::Problem;
use crate::collections::{Ack, AckStatus, IfKnown, Warning, given};
use crate::error::Error;
use crate::line::Given;
use crate::record::Record;
use crate::wire::new::{New, NewForm};
use crate::wire::pages::named_by_parameter;

/// The log's answer to a record; `None` while it waits to be written.
pub(super) type Answered = Option<Result<Ack, Problem>>;

/// The result of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Outcome {
    /// Added to the log.
    Added,
    /// Already in the log.
    Unchanged,
    /// Not in the log.
    Rejected,
    /// Waits to be written.
    Queued,
}

impl Outcome {
    pub(super) fn of(answered: &Answered) -> Outcome {
        match answered {
            None => Outcome::Queued,
            Some(Err(_)) => Outcome::Rejected,
            Some(Ok(ack)) if ack.status == AckStatus::Added => Outcome::Added,
            Some(Ok(_)) => Outcome::Unchanged,
        }
    }
}

/// What the log assigned to a record, or the reason of its rejection.
pub(super) fn parts(answered: Answered) -> (Option<Ack>, Option<Problem>) {
    match answered.transpose() {
        Ok(ack) => (ack, None),
        Err(problem) => (None, Some(problem)),
    }
}

/// The result of a posted record.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Put {
    /// The sequence number of its line.
    #[serde(skip_serializing_if = "Option::is_none")]
    seq: Option<u64>,
    status: Outcome,
    /// A probable mistake in the accepted record.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    warning: Option<&'static str>,
    /// The reason of a rejection.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<Problem>,
}

impl Put {
    pub(super) fn new(_: String, answered: Answered) -> Put {
        let status = Outcome::of(&answered);
        let (ack, problem) = parts(answered);
        Put {
            seq: ack.map(|ack| ack.seq),
            status,
            warning: ack.and_then(|ack| ack.warning).map(Warning::as_str),
            problem,
        }
    }
}

/// The result of a record with an optional id.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Identified {
    /// Its id.
    id: String,
    #[serde(flatten)]
    put: Put,
}

impl Identified {
    pub(super) fn new(id: String, answered: Answered) -> Identified {
        let put = Put::new(String::new(), answered);
        Identified { id, put }
    }
}

/// The result of a record whose id the log assigns.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Numbered {
    /// Its id.
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<i64>,
    #[serde(flatten)]
    put: Put,
}

impl Numbered {
    pub(super) fn new(key: String, answered: Answered) -> Numbered {
        let ack = answered.as_ref().and_then(|answer| answer.as_ref().ok());
        let id = ack.and_then(|ack| ack.assigned);
        let put = Put::new(key, answered);
        Numbered { id, put }
    }
}

/// The answer to one record, or to an array of records, in their order.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum Each<T> {
    One(T),
    More { results: Vec<T> },
}

impl<T> Each<T> {
    pub(super) fn new(mut results: Vec<T>, is_array: bool) -> Each<T> {
        match results.pop() {
            Some(one) if !is_array => Each::One(one),
            last => {
                results.extend(last);
                Each::More { results }
            }
        }
    }
}

pub(super) type IdentifiedAnswer = Each<Identified>;
pub(super) type NumberedAnswer = Each<Numbered>;

impl<T: ToSchema> PartialSchema for Each<T> {
    fn schema() -> RefOr<Schema> {
        let one = || Ref::from_schema_name(T::name());
        let results = ArrayBuilder::new().items(one());
        let more = ObjectBuilder::new().property("results", results);
        let either = OneOfBuilder::new().item(one());
        either.item(more.required("results")).into()
    }
}

named_by_parameter!(Each, "Each");

/// The records of a request.
pub(super) struct Handed {
    records: Vec<(Record, IfKnown)>,
    is_array: bool,
    /// Their position in the body, as a JSON pointer.
    pointer: String,
}

impl Handed {
    /// One record that the service creates.
    pub(super) fn made(record: impl Into<Record>, if_known: IfKnown) -> Handed {
        Handed {
            records: vec![(record.into(), if_known)],
            is_array: false,
            pointer: String::new(),
        }
    }

    /// Parses the records of a body or of its array member `of`. `fill` sets fields that come from
    /// the path and headers.
    pub(super) fn given<F: NewForm>(
        body: OneOrMore<New<F>>,
        of: Option<&str>,
        mut fill: impl FnMut(&mut Given<'static>, usize) -> Result<(), Problem>,
    ) -> Result<Handed, Problem> {
        let (new, is_array) = match body {
            OneOrMore::One(one) => (vec![one], false),
            OneOrMore::More(more) => (more, true),
        };
        let pointer = of.map_or(String::new(), |of| format!("/{of}"));
        let read = |(nth, mut new): (usize, New<F>)| {
            let at = || place(&pointer, is_array.then_some(nth));
            fill(&mut new.given, nth).map_err(|problem| problem.within(&at()))?;
            new.read().map_err(|mut issues| {
                let place = of.map(Value::from).into_iter();
                let place: Vec<Value> = place.chain(is_array.then(|| nth.into())).collect();
                for issue in &mut issues {
                    issue.path.splice(..0, place.iter().cloned());
                }
                Problem::of_issues(&issues)
            })
        };
        let records = new.into_iter().enumerate().map(read);
        Ok(Handed {
            records: records.collect::<Result<_, _>>()?,
            is_array,
            pointer,
        })
    }

    /// The keys of the records, as text.
    pub(super) fn keys(&self) -> Vec<String> {
        let records = self.records.iter();
        records.map(|(record, _)| record.key()).collect()
    }

    /// Records them. In an array each is accepted or `rejected` separately; an invalid record, or the
    /// rejection of a single one, is the request's problem.
    pub(super) async fn put(
        self,
        app: &App,
        wait: Option<Wait>,
        rejected: impl Fn(Error) -> Problem,
    ) -> Result<Vec<Answered>, Problem> {
        let count = self.records.len();
        let checked = |(nth, (record, if_known)): (usize, (Record, IfKnown))| {
            let place = || place(&self.pointer, self.is_array.then_some(nth));
            let record = given(record).map_err(|e| Problem::from(e).within(&place()))?;
            Ok((record, if_known))
        };
        let records = self.records.into_iter().enumerate().map(checked);
        let records = records.collect::<Result<Vec<_>, Problem>>()?;
        let Some(acks) = app.record(records, wait).await? else {
            return Ok((0..count).map(|_| None).collect());
        };
        let answered = acks.into_iter().map(|ack| ack.map_err(&rejected));
        if self.is_array {
            return Ok(answered.map(Some).collect());
        }
        answered.map(|ack| ack.map(|ack| Some(Ok(ack)))).collect()
    }

    /// Like [`put`](Handed::put), with the results as the answer. `result` gets the key of a record.
    pub(super) async fn answer<T: Serialize>(
        self,
        app: &App,
        wait: Option<Wait>,
        rejected: impl Fn(Error) -> Problem,
        result: impl Fn(String, Answered) -> T,
    ) -> Answer {
        let is_array = self.is_array;
        let keys = self.keys();
        let answered = self.put(app, wait, rejected).await?;
        let status = status_of(&answered);
        let results = keys.into_iter().zip(answered);
        let results = results.map(|(key, answered)| result(key, answered));
        Made::new(status, &Each::new(results.collect(), is_array))
    }
}

/// Records a body; the answer has the results of its records.
pub(super) async fn record<T: Serialize, F: NewForm>(
    app: &App,
    body: OneOrMore<New<F>>,
    wait: Option<Wait>,
    result: impl Fn(String, Answered) -> T,
) -> Answer {
    let handed = Handed::given(body, None, |_, _| Ok(()))?;
    handed.answer(app, wait, Problem::from, result).await
}

/// The position of a record in a body, as a JSON pointer.
fn place(pointer: &str, nth: Option<usize>) -> String {
    nth.map_or(pointer.to_owned(), |nth| format!("{pointer}/{nth}"))
}

/// The status of an answer with results.
pub(super) fn status_of(answered: &[Answered]) -> StatusCode {
    let is_any = |outcome| answered.iter().any(|it| Outcome::of(it) == outcome);
    if is_any(Outcome::Rejected) {
        StatusCode::MULTI_STATUS
    } else if is_any(Outcome::Queued) {
        StatusCode::ACCEPTED
    } else if is_any(Outcome::Added) {
        StatusCode::CREATED
    } else {
        StatusCode::OK
    }
}
