//! The classes of the Python package.

use std::fmt::Write as _;

use decklog::Kind;
use decklog::bindings::{ArgumentSchema, MemberSchema, RecordSchema, list_arguments, record_types};

use super::{check, described, list_of, name_read, plain, wrapped};

const WIDTH: usize = 100;

fn type_of(type_name: &str, words: &[&str]) -> String {
    if !words.is_empty() {
        let words: Vec<String> = words.iter().map(|word| format!("\"{word}\"")).collect();
        return format!("Literal[{}]", words.join(", "));
    }
    match type_name {
        "uuid" | "text" | "rfc3339" | "day" => "str",
        "texts" => "list[str]",
        "integer" | "epoch_ms" => "int",
        "number" => "float",
        "boolean" => "bool",
        "json" => "Any",
        "object" => "dict[str, Any]",
        other => panic!("{other} has no type in Python"),
    }
    .to_owned()
}

/// Arguments also take values that a record never has.
fn type_of_argument(argument: &ArgumentSchema) -> String {
    match (argument.name, argument.type_name) {
        ("as_of", _) | (_, "time") => "Time".to_owned(),
        (
            "conversation_id" | "message_id" | "parent_id" | "request_id" | "thread_id",
            "text" | "uuid",
        ) => "Id".to_owned(),
        _ => type_of(argument.type_name, argument.words),
    }
}

fn unit(type_name: &str) -> &'static str {
    match type_name {
        "uuid" => " A UUID.",
        "epoch_ms" => " In epoch milliseconds.",
        "rfc3339" => " In RFC 3339.",
        "day" => " A UTC day, such as 2026-07-28.",
        _ => "",
    }
}

/// Documentation in the form of Python: `code` is in double backquotes there.
fn doc(member: &MemberSchema) -> String {
    let mut text = member.description.clone() + unit(member.type_name);
    if let Some(default) = member.default {
        let _ = write!(text, " Default: {default}.");
    }
    plain(&text).replace('\\', "\\\\")
}

fn class(schema: &RecordSchema, out: &mut String) {
    let name = schema.name;
    let _ = writeln!(
        out,
        "\n\n@dataclass(kw_only=True, repr=False)\nclass {name}(Record):"
    );
    let _ = writeln!(out, "    \"\"\"{}\"\"\"\n", described(name));
    let quoted = |it: Option<&str>| it.map_or("None".to_owned(), |it| format!("\"{it}\""));
    let kind = schema.kind.stem();
    let (op, op_field) = (quoted(schema.op), quoted(schema.op_field));
    let _ = writeln!(
        out,
        "    _decklog: ClassVar = (\"{kind}\", {op}, {op_field})\n"
    );
    let (required, others): (Vec<_>, Vec<_>) =
        schema.fields.iter().partition(|field| field.is_required);
    for field in required.into_iter().chain(others) {
        let mut type_name = type_of(field.type_name, field.words);
        let is_optional = !field.is_always_read && !field.is_required;
        if is_optional && type_name != "Any" {
            type_name += " | None";
        }
        let line = match (field.is_required, is_optional || type_name == "Any") {
            (true, _) => format!("{}: {type_name}", field.name),
            (_, true) => format!("{}: {type_name} = None", field.name),
            // Reads always return it.
            _ => format!(
                "{}: {type_name} = cast(\"{}\", None)",
                field.name,
                type_name.replace('"', "'")
            ),
        };
        let _ = writeln!(out, "    {line}");
        let text = format!("\"\"\"{}\"\"\"", doc(field));
        *out += &wrapped(&text, "    ", WIDTH);
    }
}

#[test]
fn records_are_those_of_the_declarations() {
    let mut out = String::from(
        "# Generated from the declarations of the records. To change it, see CONTRIBUTING.md.\n\
         \"\"\"The records of a log. Field names are those of the files.\n\n\
         A record that you make may leave out fields that the log fills in, such as `id`. Their types\n\
         are those of records that were read.\n\"\"\"\n\n\
         from __future__ import annotations\n\n\
         from dataclasses import dataclass\n\
         from typing import TYPE_CHECKING, Any, ClassVar, Literal, cast\n\n\
         from ._record import Record\n\n\
         if TYPE_CHECKING:\n    from typing import TypeAlias\n\n    \
         from ._types import RecordLike as RecordLike\n\n",
    );
    let kinds = Kind::ALL
        .map(|kind| format!("        \"{kind}\",\n"))
        .concat();
    let _ = writeln!(
        out,
        "    Kind: TypeAlias = Literal[\n{kinds}    ]\n    \"\"\"A kind of record.\"\"\""
    );
    let types = record_types();
    for schema in &types {
        class(schema, &mut out);
    }
    out += "\n\nBY_KIND: dict[str, type[Record]] = {\n";
    for schema in types.iter().filter(|schema| schema.is_read) {
        let _ = writeln!(out, "    \"{}\": {},", schema.kind, schema.name);
    }
    out += "}\n\"\"\"The class of the records of each kind.\"\"\"\n\n__all__ = [\n    \"BY_KIND\",\n    \"Record\",\n";
    let mut names: Vec<&str> = types.iter().map(|schema| schema.name).collect();
    names.sort_unstable();
    for name in names {
        let _ = writeln!(out, "    \"{name}\",");
    }
    out += "]\n";
    check("python/decklog/records.py", &out);
}

#[test]
fn lists_take_the_arguments_of_the_queries() {
    let mut out = String::from(
        "# Generated from the declarations of the queries. To change it, see CONTRIBUTING.md.\n\
         \"\"\"The lists of a log.\"\"\"\n\n\
         from __future__ import annotations\n\n\
         from typing import TYPE_CHECKING, Any, Literal\n\n\
         if TYPE_CHECKING:\n    from collections.abc import Iterator\n\n    from . import records\n    \
         from ._types import Id, Time\n\n\n\
         class Lists:\n    \"\"\"The lists of a log, read while they are iterated over.\n\n    \
         A time is epoch milliseconds, a text (RFC 3339 or a UTC day), or a datetime with a time zone.\n    \"\"\"\n\n    \
         __slots__ = ()\n",
    );
    let types = record_types();
    for kind in Kind::ALL {
        let (method, what) = list_of(kind);
        let class = name_read(&types, kind);
        let arguments = list_arguments(kind);
        let _ = writeln!(out, "\n    def {method}(\n        self,\n        *,");
        for argument in &arguments {
            let type_name = type_of_argument(argument);
            let _ = writeln!(out, "        {}: {type_name} | None = None,", argument.name);
        }
        let _ = writeln!(out, "    ) -> Iterator[records.{class}]:");
        let _ = writeln!(out, "        \"\"\"Lists {what}.\n");
        for argument in &arguments {
            let text = format!(
                "{}: {}",
                argument.name,
                plain(&argument.description()).replace('\\', "\\\\")
            );
            out += &wrapped(&text, "        ", WIDTH);
        }
        out += "        \"\"\"\n";
        let names = arguments
            .iter()
            .map(|it| format!("            {0}={0},\n", it.name));
        let names: String = names.collect();
        let _ = writeln!(
            out,
            "        return self._list(\n            \"{kind}\",\n{names}        )"
        );
    }
    out += "\n    def _list(self, kind: str, /, **arguments: Any) -> Iterator[Any]:\n        raise NotImplementedError\n";
    check("python/decklog/_lists.py", &out);
}
