//! All errors of an object from a client, field by field. Serde stops at the first.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use serde_path_to_error::{Path, Segment};

/// Maximum number of characters of a name or a message.
#[cfg(feature = "mcp")]
const SHOWN_CHARS_MAX: usize = 200;
/// Maximum number of characters of a message in a list.
const TOLD_CHARS_MAX: usize = 1_000;
/// Maximum number of issues in an error.
const ISSUES_MAX: usize = 20;

/// An invalid field, in Zod's format.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Issue {
    /// The type of error, in Zod's words: `invalid_type`, also for a missing field,
    /// `unrecognized_keys`, `invalid_value` or `custom`.
    pub(crate) code: &'static str,
    /// The path: names of members and indices of arrays. Empty for the whole object.
    pub(crate) path: Vec<Value>,
    /// The message.
    pub(crate) message: String,
}

impl Issue {
    /// A parser's error in `whole`, if known. Names a missing or repeated field.
    pub(crate) fn of_error(path: &Path, message: String, whole: Option<&Value>) -> Issue {
        let mut path = steps(path);
        let at = |whole| {
            path.iter().try_fold(whole, |at: &Value, step| match step {
                Value::String(name) => at.get(name),
                place => at.get(usize::try_from(place.as_u64()?).ok()?),
            })
        };
        // A value inside a text has no path in the whole.
        if whole.is_none_or(|whole| at(whole).is_some_and(Value::is_object)) {
            let mut said = ["missing field `", "duplicate field `"].into_iter();
            let name = said.find_map(|said| message.strip_prefix(said)?.split_once('`'));
            path.extend(name.map(|(name, _)| name.into()));
        }
        Issue::new(path, message)
    }

    pub(crate) fn new(path: Vec<Value>, message: String) -> Issue {
        // The messages of serde and of this module.
        let code = match message.split_once([' ', ',']) {
            Some(("missing", _)) => "invalid_type",
            Some(("invalid", rest)) if rest.starts_with("type") => "invalid_type",
            Some(("unknown", rest)) if rest.starts_with("field") => "unrecognized_keys",
            Some(("unknown", _)) => "invalid_value",
            Some(("invalid", rest)) if rest.starts_with("value") => "invalid_value",
            _ => "custom",
        };
        Issue {
            code,
            path,
            message,
        }
    }

    pub(crate) fn of_field(field: &str, message: impl Into<String>) -> Issue {
        Issue::new(vec![field.into()], message.into())
    }

    /// The path as a JSON pointer, such as `/steps/0/status`.
    #[cfg(feature = "http")]
    pub(crate) fn pointer(&self) -> String {
        let step = |step: &Value| match step {
            Value::String(name) => format!("/{}", name.replace('~', "~0").replace('/', "~1")),
            place => format!("/{place}"),
        };
        self.path.iter().map(step).collect()
    }

    /// The same with long texts cut: they come from a client.
    #[cfg(feature = "mcp")]
    pub(crate) fn short(self) -> Issue {
        let short = |text: &str| text.chars().take(SHOWN_CHARS_MAX).collect::<String>();
        let path = self.path.iter();
        let path = path.map(|step| {
            step.as_str()
                .map_or(step.clone(), |step| short(step).into())
        });
        Issue {
            path: path.collect(),
            message: short(&self.message),
            ..self
        }
    }

    /// The path as one text, such as `steps[0].status`.
    pub(crate) fn field(&self) -> String {
        let mut field = String::new();
        for step in &self.path {
            match step {
                Value::String(name) if field.is_empty() => field.clone_from(name),
                Value::String(name) => field = format!("{field}.{name}"),
                place => field = format!("{field}[{place}]"),
            }
        }
        field
    }
}

/// All of them as one text.
pub(crate) fn in_words(issues: &[Issue]) -> String {
    let in_words = |issue: &Issue| {
        let message = issue.message.chars().take(TOLD_CHARS_MAX).collect();
        match issue.field() {
            field if field.is_empty() => message,
            field => format!("{field}: {message}"),
        }
    };
    issues.iter().map(in_words).collect::<Vec<_>>().join("; ")
}

/// The errors of an object as a `T` with these required fields: each invalid field, up to
/// [`ISSUES_MAX`], missing fields first. Empty if each field alone is valid.
pub(crate) fn issues<T: DeserializeOwned>(
    given: &Map<String, Value>,
    required: &[String],
) -> Vec<Issue> {
    let missing = required.iter().filter(|name| !given.contains_key(*name));
    let missing = missing.map(|name| Issue::of_field(name, "missing, but required"));
    let wrong = given.iter().filter_map(|(name, value)| {
        // Other missing fields are reported for the whole object.
        let alone = Value::Object(Map::from_iter([(name.clone(), value.clone())]));
        let error = serde_path_to_error::deserialize::<_, T>(&alone).err()?;
        let path = error.path().clone();
        let is_of_field = path.iter().next().is_some();
        is_of_field.then(|| Issue::of_error(&path, error.into_inner().to_string(), Some(&alone)))
    });
    missing.chain(wrong).take(ISSUES_MAX).collect()
}

fn steps(path: &Path) -> Vec<Value> {
    let step = |segment: &Segment| match segment {
        Segment::Seq { index } => Some((*index).into()),
        Segment::Map { key } => Some(key.as_str().into()),
        Segment::Enum { .. } | Segment::Unknown => None,
    };
    path.iter().filter_map(step).collect()
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code)]
    struct Given {
        name: String,
        count: u8,
        steps: Option<Vec<Step>>,
    }

    #[derive(Debug, Deserialize)]
    #[allow(dead_code)]
    struct Step {
        at: i64,
    }

    fn fields(given: Value) -> Vec<String> {
        let Value::Object(given) = given else {
            panic!("{given}");
        };
        let required = ["name".to_owned(), "count".to_owned()];
        let found = issues::<Given>(&given, &required);
        found.iter().map(Issue::field).collect()
    }

    #[test]
    fn each_field_at_fault_is_told() {
        assert_eq!(fields(json!({})), ["name", "count"]);
        let odd = json!({ "count": 300, "other": 1, "steps": [{ "at": 1 }, { "at": "x" }] });
        assert_eq!(fields(odd), ["name", "count", "other", "steps[1].at"]);
        let nested = json!({ "name": "n", "count": 1, "steps": [{}] });
        assert_eq!(fields(nested), ["steps[0].at"]);
        assert_eq!(
            fields(json!({ "name": "n", "count": null })),
            ["count".to_owned()]
        );
        assert!(fields(json!({ "name": "n", "count": 1 })).is_empty());
    }
}
