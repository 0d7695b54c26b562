//! JSON Schemas of the arguments of tools, from the same descriptions as the service's, and of their
//! answers.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use utoipa::ToSchema;

type Object = Map<String, Value>;

/// The prefix of references.
const REF: &str = "#/components/schemas/";
/// Maximum depth of references: no type here is recursive.
const DEPTH_MAX: usize = 16;

/// Replaces references by what they refer to.
fn resolve(schema: &mut Value, named: &BTreeMap<String, Value>, mut depth: usize) {
    match schema {
        Value::Object(members) => {
            while let Some(Value::String(target)) = members.remove("$ref")
                && depth > 0
            {
                depth -= 1;
                let name = target.strip_prefix(REF).unwrap_or(&target);
                let meant = named.get(name).and_then(Value::as_object);
                for (name, member) in meant.into_iter().flatten() {
                    // The member's description overrides the description of its type.
                    members.entry(name).or_insert_with(|| member.clone());
                }
            }
            // The type and the bounds say as much, in fewer bytes of a model's context.
            if members.get("format").is_some_and(|it| it == "int64") {
                members.remove("format");
            }
            for member in members.values_mut() {
                resolve(member, named, depth);
            }
        }
        Value::Array(items) => {
            for item in items {
                resolve(item, named, depth);
            }
        }
        _ => {}
    }
}

/// The schema of arguments, with references resolved: not every client follows them. Optional members
/// are not in `required`, so null is left out, and so is a time that retracts a record.
pub(super) fn of_arguments<T: ToSchema>() -> Object {
    let mut named = Vec::new();
    T::schemas(&mut named);
    let named = named.into_iter();
    let named = named.map(|(name, schema)| (name, json!(schema))).collect();
    let mut schema = json!(T::schema());
    resolve(&mut schema, &named, DEPTH_MAX);
    let Value::Object(mut schema) = schema else {
        return Object::new();
    };
    schema.remove("description");
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        properties.values_mut().for_each(drop_null);
    }
    schema
}

fn drop_null(property: &mut Value) {
    let Value::Object(members) = property else {
        return;
    };
    if let Some(Value::Array(words)) = members.get_mut("enum") {
        words.retain(|word| !word.is_null());
    }
    if let Some(Value::Array(types)) = members.get_mut("type") {
        types.retain(|name| name != "null");
        if let [only] = &types[..] {
            let only = only.clone();
            members.insert("type".into(), only);
        }
    }
    // Retraction is a separate tool.
    let is_meant =
        |choice: &Value| choice["type"] != "null" && choice["properties"].get("is_valid").is_none();
    if let Some(Value::Array(choices)) = members.get_mut("oneOf") {
        choices.retain(is_meant);
        if let [Value::Object(meant)] = &mut choices[..] {
            let mut meant = std::mem::take(meant);
            members.remove("oneOf");
            meant.append(members);
            *members = meant;
        }
    }
}

/// The schema of every answer. `data` is not described: the descriptions of all tools go into a
/// model's context.
pub(super) fn of_answer() -> Object {
    let answer = json!({
        "type": "object",
        "properties": {
            "ok": { "type": "boolean" },
            "data": { "type": "object" },
            "error": { "type": "object" }
        },
        "required": ["ok"]
    });
    answer.as_object().cloned().unwrap_or_default()
}
