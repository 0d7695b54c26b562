//! The log in lnav, which gets the formats of its lines.

use std::ffi::OsString;
use std::fs;

use super::{Segments, Start};
use crate::cli::exit::Failure;

/// The formats of all kinds. A test compares it with the schema and writes it.
const FORMATS: &str = include_str!("lnav.json");

pub fn start(files: Vec<Segments>, args: &[OsString]) -> Result<Start, Failure> {
    let Some(cache) = dirs::cache_dir() else {
        let message = "there is no home directory for lnav's formats: set XDG_CACHE_HOME";
        return Err(Failure::usage(message));
    };
    let config = cache.join("decklog").join("lnav");
    let dir = config.join("formats").join("decklog");
    let path = dir.join("decklog.json");
    if fs::read_to_string(&path).ok().as_deref() != Some(FORMATS) {
        let written = fs::create_dir_all(&dir).and_then(|()| fs::write(&path, FORMATS));
        let failed = |error| format!("cannot write {}: {error}", path.display());
        written.map_err(|error| Failure::store(failed(error)))?;
    }
    let mut all = vec!["-I".into(), config.into_os_string()];
    all.extend_from_slice(args);
    Ok(Start {
        program: "lnav",
        install: "apt install lnav, brew install lnav, or https://lnav.org",
        args: all,
        files,
    })
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use decklog::Kind;
    use serde_json::{Map, Value, json};

    use super::*;

    /// The fields of a line on the screen, after its time.
    fn shown(kind: Kind) -> &'static [&'static str] {
        match kind {
            Kind::ConversationTurns => &["kind", "content"],
            Kind::ToolCalls => &["op", "tool_name", "call_id", "arguments_json", "error_msg"],
            Kind::CodeEditProposals => &["op", "request_id", "diffs_json"],
            Kind::Conversations => &["op", "status", "project", "title"],
            Kind::Messages => &["role", "tool_name", "content", "tool_args"],
            Kind::Events => &["event_type", "payload"],
            Kind::Inbox => &["op", "id", "text"],
            Kind::History => &["chat_id", "role", "text"],
            Kind::ThoughtRecords => &["type", "task_id", "content"],
            _ => &["day", "model_used", "messages", "tokens_in", "tokens_out"],
        }
    }

    fn value(type_name: &str) -> Value {
        match type_name {
            "integer" | "epoch_ms" => json!({ "kind": "integer" }),
            "number" => json!({ "kind": "float" }),
            "boolean" => json!({ "kind": "boolean" }),
            "json" | "object" | "texts" => json!({ "kind": "json" }),
            "uuid" => json!({ "kind": "string", "identifier": true }),
            _ => json!({ "kind": "string" }),
        }
    }

    fn format(kind: Kind) -> Value {
        let stem = kind.stem();
        let mut line = vec![json!({ "field": "__timestamp__" })];
        for name in shown(kind) {
            line.extend([json!(" "), json!({ "field": name, "default-value": "" })]);
        }
        let fields = kind.schema().fields.into_iter();
        let fields = fields.map(|field| (field.name, field.type_name));
        let envelope = [("seq", "integer"), ("op", "text"), ("crc", "text")];
        let values = envelope.into_iter().chain(fields);
        let values: Map<String, Value> = values
            .map(|(name, type_name)| {
                let mut value = value(type_name);
                if !shown(kind).contains(&name) && name != "error" {
                    value["hidden"] = true.into();
                }
                (name.to_owned(), value)
            })
            .collect();
        let mut format = json!({
            "title": format!("decklog {stem}"),
            "description": format!("The {stem} of a decklog store"),
            "file-pattern": format!("/{stem}\\.[0-9]+\\.jsonl$"),
            "json": true,
            "timestamp-field": "at",
            "timestamp-divisor": 1000,
            "line-format": line,
            "value": values,
        });
        let failed = match kind {
            Kind::ToolCalls | Kind::Inbox => Some(("op", "^failed$")),
            Kind::Events => Some(("event_type", "\\.failed$")),
            Kind::Messages => Some(("error", ".")),
            _ => None,
        };
        if let Some((field, pattern)) = failed {
            format["level-field"] = field.into();
            format["level"] = json!({ "error": pattern });
        }
        format
    }

    #[test]
    fn the_formats_have_the_fields_of_the_schema() {
        let mut formats = json!({ "$schema": "https://lnav.org/schemas/format-v1.schema.json" });
        for kind in Kind::ALL {
            formats[format!("decklog_{}", kind.stem())] = format(kind);
        }
        let mut text = serde_json::to_string_pretty(&formats).unwrap();
        writeln!(text).unwrap();
        if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
            let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/cli/open/lnav.json");
            fs::write(path, &text).unwrap();
            return;
        }
        assert_eq!(FORMATS, text, "run the test with UPDATE_SNAPSHOTS=1");
    }
}
