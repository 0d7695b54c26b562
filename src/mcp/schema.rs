//! JSON Schemas of the arguments of tools, from the same descriptions as the service's, and of their
//! answers.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use serde_json::{Map, Value, json};
use utoipa::ToSchema;

type Object = Map<String, Value>;

/// The prefix of references.
const REF: &str = "#/components/schemas/";
/// Maximum depth of references: no type here is recursive.
const DEPTH_MAX: usize = 16;

/// The schema of a type, with references resolved: not every client follows them.
pub(super) fn of<T: ToSchema>() -> Object {
    let mut named = Vec::new();
    T::schemas(&mut named);
    let named: BTreeMap<String, Value> = named
        .into_iter()
        .map(|(name, schema)| (name, json!(schema)))
        .collect();
    match whole(json!(T::schema()), &named, DEPTH_MAX) {
        Value::Object(schema) => schema,
        _ => Object::new(),
    }
}

fn whole(schema: Value, named: &BTreeMap<String, Value>, depth: usize) -> Value {
    match schema {
        Value::Object(mut members) => {
            let target = match members.remove("$ref") {
                Some(Value::String(target)) if depth > 0 => target,
                _ => return Value::Object(members_whole(members, named, depth)),
            };
            let name = target.strip_prefix(REF).unwrap_or(&target);
            let meant = named.get(name).cloned().unwrap_or_else(|| json!({}));
            let mut meant = whole(meant, named, depth - 1);
            if let Value::Object(meant) = &mut meant {
                // The member's description overrides the description of its type.
                meant.extend(members_whole(members, named, depth));
            }
            meant
        }
        Value::Array(items) => {
            let items = items.into_iter().map(|item| whole(item, named, depth));
            items.collect()
        }
        other => other,
    }
}

fn members_whole(members: Object, named: &BTreeMap<String, Value>, depth: usize) -> Object {
    let members = members.into_iter();
    members
        .map(|(name, member)| (name, whole(member, named, depth)))
        .collect()
}

/// The schema of arguments. Optional members are not in `required`, so null is left out, and so is a
/// time that retracts a record.
pub(super) fn of_arguments<T: ToSchema>() -> Object {
    let mut schema = of::<T>();
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
pub(super) fn of_answer() -> Arc<Object> {
    static ANSWER: LazyLock<Arc<Object>> = LazyLock::new(|| {
        let answer = json!({
            "type": "object",
            "properties": {
                "ok": { "type": "boolean" },
                "data": { "type": "object" },
                "error": { "type": "object" }
            },
            "required": ["ok"]
        });
        Arc::new(answer.as_object().cloned().unwrap_or_default())
    });
    Arc::clone(&ANSWER)
}
