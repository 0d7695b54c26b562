//! `/proposals`: edits that are proposed, each step that follows, and how they stand.

use axum::extract::State;
use serde::Deserialize;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{
    AdditionalProperties, ObjectBuilder, OneOfBuilder, Schema, SchemaType, Type,
};
use utoipa::{IntoParams, PartialSchema, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use uuid::Uuid;

use super::app::{App, Shared};
use super::body::{Json, Made};
use super::pages::IsCut;
use super::params::{AsOfParams, Id, Limit, Query, Time, WaitParams};
use super::problem::Problem;
use super::puts::{Handed, Put};
use super::when::When;
use crate::collections::{AsOf, Order, ProposalQuery};
use crate::error::ErrorKind;
use crate::record::{
    CodeEditProposal, NAME_BYTES_MAX, ProposalStatus, ProposalStep, Validity, now,
    payload_text_required,
};
use crate::wire::fields::{Decision, Millis, by_one_name};
use crate::wire::pages::{After, Paged};

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(propose, list))
        .routes(routes!(get))
        .routes(routes!(step))
}

/// An edit to propose.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct NewProposal {
    /// `retracted` takes the proposal back. Default: `pending`.
    op: Option<Proposed>,
    /// Another name for `op`: give one of them.
    status: Option<Proposed>,
    /// The request that proposes the edit.
    request_id: Uuid,
    /// When it is proposed.
    created_at: When,
    /// The agent's confidence.
    #[schema(minimum = 0, maximum = 1)]
    confidence: Option<f64>,
    /// The edits: an object or array, kept to the byte, or a string.
    #[serde(with = "payload_text_required")]
    #[schema(schema_with = any_but_null)]
    diffs_json: String,
    /// The step that decides has it: null here.
    #[schema(schema_with = only_null)]
    decided_at: Option<Millis>,
    /// The step that applies has it: null here.
    #[schema(schema_with = only_null)]
    applied_at: Option<Millis>,
    /// The step that applies has it: null here.
    #[schema(schema_with = only_null)]
    commit_hash: Option<String>,
}

fn any_but_null() -> Schema {
    let types = [
        Type::Object,
        Type::Array,
        Type::String,
        Type::Number,
        Type::Boolean,
    ];
    let any = ObjectBuilder::new().schema_type(SchemaType::from_iter(types));
    any.description(Some(
        "The edits: an object or array, kept to the byte, or a string.",
    ))
    .into()
}

fn only_null() -> Schema {
    ObjectBuilder::new().schema_type(Type::Null).into()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum Proposed {
    Pending,
    Retracted,
}

/// Records an edit that is proposed.
///
/// Sent again as it was, it is recorded once.
#[utoipa::path(
    post,
    path = "/proposals",
    tag = "proposals",
    params(WaitParams),
    request_body = NewProposal,
    responses(
        (status = 201, description = "Recorded; it is pending", body = Put),
        (status = 200, description = "Unchanged: the log has it already", body = Put),
        (status = 202, description = "Queued", body = Put),
        (status = 409, description = "The proposal was decided, so its edits cannot change; or nothing to retract", body = Problem, content_type = "application/problem+json"),
    )
)]
async fn propose(
    State(app): State<Shared>,
    Query(params): Query<WaitParams>,
    Json(new): Json<NewProposal>,
) -> Result<Made, Problem> {
    let op = by_one_name(("op", new.op), ("status", new.status))?;
    let is_valid = new.created_at.0.is_valid && op != Some(Proposed::Retracted);
    let handed = Handed::one(CodeEditProposal {
        created_at: Validity {
            is_valid,
            ..new.created_at.0
        },
        confidence: new.confidence,
        decided_at: new.decided_at.map(|at| at.0),
        applied_at: new.applied_at.map(|at| at.0),
        commit_hash: new.commit_hash,
        ..CodeEditProposal::new(new.request_id, new.diffs_json, new.created_at.0.at)
    });
    handed.answer::<Put>(&app, params.wait, |e| e.into()).await
}

/// The next step of a proposal, by the names of the files. `status` and `at` are other names for
/// `op` and for the time of the step.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct NewStep {
    #[serde(alias = "status")]
    op: Decision,
    at: Option<Millis>,
    decided_at: Option<Millis>,
    applied_at: Option<Millis>,
    commit_hash: Option<String>,
}

impl NewStep {
    fn of(self, request_id: Uuid) -> ProposalStep {
        let millis = |time: Option<Millis>| time.map(|time| time.0);
        let (decided_at, applied_at) = (millis(self.decided_at), millis(self.applied_at));
        let own = match self.op {
            Decision::Approved | Decision::Denied => decided_at,
            Decision::Applied => applied_at,
            Decision::Reverted => None,
        };
        let at = millis(self.at).or(own).unwrap_or_else(now);
        ProposalStep {
            decided_at,
            applied_at,
            commit_hash: self.commit_hash,
            ..ProposalStep::new(request_id, self.op.into(), at)
        }
    }
}

// By hand, because each step has a time of its own and only some have a commit.
impl PartialSchema for NewStep {
    fn schema() -> RefOr<Schema> {
        let text = || ObjectBuilder::new().schema_type(Type::String);
        let step = |words: &[&str], time: &str| {
            ObjectBuilder::new()
                .property("op", text().enum_values(Some(words.iter().copied())))
                .required("op")
                .property(
                    time,
                    OneOfBuilder::new().item(Millis::schema()).item(only_null()),
                )
                .additional_properties(Some(AdditionalProperties::FreeForm(false)))
        };
        let or_null = SchemaType::from_iter([Type::String, Type::Null]);
        let commit = || {
            text()
                .schema_type(or_null.clone())
                .min_length(Some(1))
                .max_length(Some(NAME_BYTES_MAX))
        };
        let either = OneOfBuilder::new().description(Some(
            "The next step. Times are in epoch milliseconds. Default: now. `commit_hash`: the commit that applied the edit. `status` is taken as another name for `op`, and `at` as one for the time.",
        ));
        either
            .item(step(&["approved", "denied"], "decided_at"))
            .item(step(&["applied"], "applied_at").property("commit_hash", commit()))
            .item(step(&["reverted"], "at").property("commit_hash", commit()))
            .into()
    }
}

impl ToSchema for NewStep {}

/// Records the next step of a proposal: a pending one is approved or denied, an approved one
/// applied, an applied one reverted.
///
/// Its last step sent again changes nothing, whenever it says it was.
#[utoipa::path(
    post,
    path = "/proposals/{request_id}/steps",
    tag = "proposals",
    params(("request_id" = Uuid, Path), WaitParams),
    request_body = NewStep,
    responses(
        (status = 201, description = "Recorded", body = Put),
        (status = 200, description = "Unchanged: it has this status already", body = Put),
        (status = 202, description = "Queued", body = Put),
        (status = 404, description = "The proposal is not found, or retracted", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "The status cannot follow, or another commit applied it", body = Problem, content_type = "application/problem+json"),
    )
)]
async fn step(
    State(app): State<Shared>,
    Id(request_id): Id<Uuid>,
    Query(params): Query<WaitParams>,
    Json(new): Json<NewStep>,
) -> Result<Made, Problem> {
    let handed = Handed::one(new.of(request_id));
    let answer = handed.answer::<Put>(&app, params.wait, |e| e.into()).await;
    let Err(problem) = answer else { return answer };
    if !problem.is(ErrorKind::Lifecycle) {
        return Err(problem);
    }
    app.ask(move |app| {
        proposal(&app.store.as_of(None), request_id)?;
        Err(problem)
    })
    .await
}

/// Which proposals to list.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct ListParams {
    status: Option<ProposalStatus>,
    /// Proposed then or later: epoch milliseconds, RFC 3339 or a day.
    since: Option<Time>,
    /// Proposed before.
    until: Option<Time>,
    /// As they stood at this time: epoch milliseconds, RFC 3339 or a day. Default: now.
    as_of: Option<Time>,
    /// By `created_at`. Default: desc.
    order: Option<Order>,
    /// Maximum number of proposals. Default: 100.
    #[serde(default)]
    #[param(value_type = Option<u32>, maximum = 1000)]
    limit: Limit,
    after: Option<After>,
}

type Proposals = Paged<CodeEditProposal>;

/// Lists proposals that stand, page by page.
#[utoipa::path(
    get,
    path = "/proposals",
    tag = "proposals",
    params(ListParams),
    responses((status = 200, description = "A page", body = Proposals))
)]
async fn list(
    State(app): State<Shared>,
    Query(params): Query<ListParams>,
) -> Result<Made, Problem> {
    let query = ProposalQuery {
        status: params.status,
        since: params.since.map(|time| time.0),
        until: params.until.map(|time| time.0),
        order: params.order.unwrap_or(Order::NewestFirst),
        limit: params.limit.0,
        after: params.after.map(|after| after.0),
    };
    let as_of = params.as_of.map(|time| time.0);
    app.page(move |app, bytes_max| {
        let page = app.store.as_of(as_of).proposals_within(&query, bytes_max)?;
        let is_cut = IsCut::of(&page, query.limit);
        Ok((Made::ok(&Proposals::from(page))?, is_cut))
    })
    .await
}

/// Reads a proposal.
#[utoipa::path(
    get,
    path = "/proposals/{request_id}",
    tag = "proposals",
    params(("request_id" = Uuid, Path), AsOfParams),
    responses(
        (status = 200, description = "The proposal, with its status", body = CodeEditProposal),
        (status = 404, description = "Not found, or retracted", body = Problem, content_type = "application/problem+json"),
    )
)]
async fn get(
    State(app): State<Shared>,
    Id(request_id): Id<Uuid>,
    Query(params): Query<AsOfParams>,
) -> Result<Made, Problem> {
    let read = move |app: &App| Made::ok(&proposal(&app.store.as_of(params.at()), request_id)?);
    app.ask(read).await
}

fn proposal(store: &AsOf<'_>, request_id: Uuid) -> Result<CodeEditProposal, Problem> {
    store.get_proposal(request_id)?.ok_or_else(|| {
        let detail =
            format!("there is no proposal of request {request_id}: propose the edit first");
        Problem::not_found(detail).with_field("request_id")
    })
}
