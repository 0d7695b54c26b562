//! Parts of `/openapi.json` beyond the annotations of the handlers: common parts of all operations,
//! and parts that utoipa cannot express.

use serde_json::{Value, json};
use utoipa::PartialSchema;
use utoipa::openapi::OpenApi;

use super::conversations::ExtraMembers;
use super::problem::MEDIA_TYPE;
use super::{access, records};
use crate::wire::new::nullable;

const UUID: &str = "^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$";

/// Parts of the patterns of times. A year is matched as its first two and its last two digits.
mod times {
    /// Months with their days, without 29 February.
    const DAYS: &str =
        "(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])|(0[13-9]|1[0-2])-(29|30)|(0[13578]|1[02])-31";
    /// The last two digits of leap years, except centuries.
    const LEAP: &str = "(0[48]|[2468][048]|[13579][26])";
    const CLOCK: &str = "([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,9})?";
    const OFFSET: &str = "[+-](0[0-9]|1[0-3]):[0-5][0-9]";

    fn days_of(years: &str, leap_years: &str) -> String {
        format!("(({years})-({DAYS})|({leap_years}|([2468][048]|[3579][26])00)-02-29)")
    }

    /// A day of 1970 to 9999.
    pub(super) fn day() -> String {
        let leap_years = format!("19(7[26]|8[048]|9[26])|[2-9][0-9]{LEAP}");
        days_of("19[7-9][0-9]|[2-9][0-9]{3}", &leap_years)
    }

    /// An RFC 3339 time from 1970 to 9999. With an offset, only years in which no offset leads
    /// outside this range.
    pub(super) fn instant() -> String {
        let leap_years = format!("19(7[26]|8[048]|9[26])|([2-8][0-9]|9[0-8]){LEAP}");
        let inner = days_of(
            "197[1-9]|19[89][0-9]|[2-8][0-9]{3}|9[0-8][0-9]{2}",
            &leap_years,
        );
        format!("({}T{CLOCK}Z?|{inner}T{CLOCK}{OFFSET})", day())
    }
}

/// Adds the common parts of all operations.
pub(super) fn described(api: &OpenApi) -> Value {
    let mut api = json!(api);
    api["components"]["securitySchemes"] = json!({
        "bearer": { "type": "http", "scheme": "bearer" },
        "session": { "type": "apiKey", "in": "cookie", "name": access::COOKIE },
    });
    // The settings may require a token.
    api["security"] = json!([{}, { "bearer": [] }, { "session": [] }]);
    for (path, item) in members(&mut api["paths"]) {
        for (method, operation) in members(item) {
            describe_operation(method, path, operation);
        }
    }
    if let Some(schemas) = api.pointer_mut("/components/schemas") {
        records::describe_lines(schemas);
        describe_records(schemas);
        describe_times(schemas);
        describe_events(schemas);
    }
    plain(&mut api);
    api
}

fn members(value: &mut Value) -> impl Iterator<Item = (&String, &mut Value)> {
    value.as_object_mut().into_iter().flatten()
}

fn describe_operation(method: &str, path: &str, operation: &mut Value) {
    let words = path.split(|c: char| !c.is_ascii_alphanumeric());
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    operation["operationId"] = format!("{method}_{}", words.join("_")).into();
    operation["tags"] = json!([tag(path)]);
    if access::OPEN.contains(&path) {
        operation["security"] = json!([]);
    }
    let parameters = operation
        .get_mut("parameters")
        .and_then(Value::as_array_mut);
    for parameter in parameters.into_iter().flatten() {
        describe_parameter(&mut parameter["schema"]);
    }
    if let Some(body) = operation.get_mut("requestBody") {
        let types = body.get_mut("content").map(members);
        if types
            .into_iter()
            .flatten()
            .any(|(_, it)| drop_null(&mut it["schema"]))
        {
            body["required"] = false.into();
        }
    }
    let responses = &mut operation["responses"];
    responses["default"] = json!({ "description": "The request failed; `code` is the reason." });
    for (status, response) in members(responses) {
        // Also the default.
        if status.as_str() >= "4" && response["content"].is_null() {
            let problem = json!({ "$ref": "#/components/schemas/Problem" });
            response["content"] = json!({ MEDIA_TYPE: { "schema": problem } });
        }
    }
}

/// The tag of an operation: by default the first part of its path.
fn tag(path: &str) -> &str {
    match path.split('/').nth(1).unwrap_or_default() {
        "messages" => "conversations",
        "tool-calls" => "tool calls",
        "state" => "events",
        "capture" | "search" | "stream" => "records",
        "healthz" | "readyz" | "login" | "metrics" => "server",
        first => first,
    }
}

/// Adds a pattern to the schemas of ids, because not all tools know the format. An absent parameter
/// is omitted, never null.
fn describe_parameter(schema: &mut Value) {
    if schema["format"] == "uuid" {
        schema["pattern"] = UUID.into();
    }
    drop_null(schema);
    let types = schema.get_mut("type").and_then(Value::as_array_mut);
    if let Some(types) = types {
        types.retain(|name| name != "null");
        if let [only] = &types[..] {
            schema["type"] = only.clone();
        }
    }
}

/// Replaces a schema that allows null by the schema without null. Returns whether it allowed null.
fn drop_null(schema: &mut Value) -> bool {
    let either = schema.get("oneOf").and_then(Value::as_array);
    let Some(choices @ [_, _]) = either.map(Vec::as_slice) else {
        return false;
    };
    let mut meant = choices.iter().filter(|choice| choice["type"] != "null");
    let (Some(only), None) = (meant.next(), meant.next()) else {
        return false;
    };
    *schema = only.clone();
    true
}

/// Adds the format of times to text fields.
fn describe_times(schemas: &mut Value) {
    let (day, instant) = (times::day(), times::instant());
    let patterns = [
        ("Day", format!("^{day}$")),
        (
            "TimeText",
            format!("^(0|[1-9][0-9]{{0,14}}|{day}|{instant})$"),
        ),
        ("Timestamp", format!("^{instant}$")),
        ("SearchAfter", format!("^{day}-[0-9]{{1,19}}-[0-9]{{1,9}}$")),
    ];
    for (name, pattern) in patterns {
        schemas[name]["pattern"] = pattern.into();
    }
    schemas["Moment"]["anyOf"][0]["pattern"] = format!("^({day}|{instant})$").into();
}

/// Describes fields that depend on each other, and fields that are given by the path.
fn describe_records(schemas: &mut Value) {
    for (name, of_path) in [
        ("NewOutcome", &["request_id", "call_id"][..]),
        ("NewStep", &["request_id"]),
        ("NewMessage", &["conversation_id"]),
    ] {
        if let Some(Value::Array(required)) = schemas[name].get_mut("required") {
            required.retain(|name| name.as_str().is_none_or(|name| !of_path.contains(&name)));
        }
        for field in of_path {
            let field = &mut schemas[name]["properties"][field];
            *field = nullable(field.take());
            let text = field["description"].as_str().unwrap_or_default();
            field["description"] = format!("{text} Default: the one in the path.").into();
        }
    }
    for name in ["NewCall", "CallLine"] {
        schemas[name]["anyOf"] = json!([
            { "required": ["args_sha256"], "properties": { "args_sha256": { "type": "string" } } },
            { "required": ["arguments_json"], "properties": { "arguments_json": { "not": { "type": "null" } } } },
        ]);
    }
    // An outcome cannot be retracted.
    for name in ["NewOutcome", "CompletedCallLine", "FailedCallLine"] {
        let choices = schemas[name]["properties"]["ended_at"].get_mut("oneOf");
        if let Some(Value::Array(choices)) = choices {
            choices.retain(|choice| choice["type"] != "object");
        }
    }
    let failed_alone = json!({ "error_kind": { "type": "null" }, "error_msg": { "type": "null" } });
    schemas["NewOutcome"]["anyOf"] = json!([
        { "properties": { "status": { "enum": ["failed"] } } },
        { "properties": failed_alone },
    ]);
    // Each step has its own time field, and only some have a commit.
    let step = |words: &[&str], nulls: &[&str]| {
        let mut properties = json!({ "status": { "enum": words } });
        for name in nulls {
            properties[name] = json!({ "type": "null" });
        }
        json!({ "properties": properties })
    };
    schemas["NewStep"]["anyOf"] = json!([
        step(&["approved", "denied"], &["applied_at", "commit_hash"]),
        step(&["applied"], &["decided_at"]),
        step(&["reverted"], &["decided_at", "applied_at"]),
    ]);
    for (name, one, other) in [
        ("NewEvent", "created_at", "timestamp"),
        ("EventLine", "created_at", "timestamp"),
        ("NewProposal", "op", "status"),
    ] {
        schemas[name]["anyOf"] = json!([
            { "properties": { one: { "type": "null" } } },
            { "properties": { other: { "type": "null" } } },
        ]);
    }
    for name in ["NewTask", "TaskLine"] {
        schemas[name]["anyOf"] = json!([
            { "properties": { "chat_id": { "type": "null" } } },
            {
                "required": ["text", "message_date"],
                "properties": { "text": { "type": "string" }, "message_date": { "type": "integer" } },
            },
        ]);
    }
    let mut beside = json!(ExtraMembers::schema());
    for (name, schema) in members(&mut beside["properties"]) {
        schemas["NewConversation"]["properties"][name] = schema.take();
    }
}

/// Describes the data of a server-sent event.
fn describe_events(schemas: &mut Value) {
    schemas["StreamEvent"]["properties"]["data"]["contentSchema"] = json!({
        "type": "object",
        "required": ["seq", "at", "op"],
        "properties": {
            "seq": { "type": "integer", "format": "int64", "minimum": 1, "description": "The sequence number of the line." },
            "at": { "type": "integer", "format": "int64", "description": "The record's time, in epoch milliseconds." },
            "op": { "type": "string", "description": "The operation on the record." },
        },
    });
}

/// Removes Rust-specific parts from descriptions: examples in Rust and link targets.
fn plain(value: &mut Value) {
    match value {
        Value::Object(object) => {
            if let Some(Value::String(text)) = object.get_mut("description") {
                let words = text.split("\n\n```").next().unwrap_or_default();
                *text = without_links(words);
            }
            object.values_mut().for_each(plain);
        }
        Value::Array(items) => items.iter_mut().for_each(plain),
        _ => {}
    }
}

/// Replaces ``[`name`](place)`` and ``[`name`]`` by `` `name` ``.
fn without_links(text: &str) -> String {
    let mut parts = text.split("[`");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (name, rest) = part.split_once("`]").unwrap_or((part, ""));
        let place = rest.strip_prefix('(').and_then(|rest| rest.split_once(')'));
        let rest = place.map_or(rest, |(_, rest)| rest);
        plain.extend(["`", name, "`", rest]);
    }
    plain
}
