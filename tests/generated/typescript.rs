//! The types of the JavaScript package.

use std::fmt::Write as _;

use decklog::Kind;
use decklog::bindings::{MemberSchema, RecordSchema, list_arguments, record_types};

use super::{check, described, list_of, name_read, plain, wrapped};

const WIDTH: usize = 100;

/// What is computed from other records, which no record that is recorded has.
const COMPUTED: &str = "Computed from the messages.";

/// How a value is used.
#[derive(Clone, Copy, PartialEq)]
enum Use {
    Read,
    Given,
}

fn type_of(type_name: &str, words: &[&str], of: Use) -> String {
    if !words.is_empty() {
        let words: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
        return words.join(" | ");
    }
    let (read, given) = match type_name {
        "uuid" | "text" | "day" => ("string", "string"),
        "rfc3339" => ("string", "string | Date"),
        "texts" => ("string[]", "readonly string[]"),
        "integer" => ("number", "number | bigint"),
        "epoch_ms" | "time" => ("number", "Time"),
        "number" => ("number", "number"),
        "boolean" => ("boolean", "boolean"),
        "json" => ("any", "unknown"),
        "object" => ("Record<string, any>", "Readonly<Record<string, unknown>>"),
        other => panic!("{other} has no type in TypeScript"),
    };
    if of == Use::Read { read } else { given }.to_owned()
}

fn unit(type_name: &str, of: Use) -> &'static str {
    match (type_name, of) {
        ("uuid", _) => " A UUID.",
        ("epoch_ms", Use::Read) => " In epoch milliseconds.",
        ("rfc3339", Use::Read) => " In RFC 3339.",
        ("day", _) => " A UTC day, such as 2026-07-28.",
        _ => "",
    }
}

fn comment(text: &str, indent: &str, out: &mut String) {
    let text = plain(text).replace("*/", "* /");
    let lines = wrapped(&text, &format!("{indent} * "), WIDTH);
    if let [line] = lines.lines().collect::<Vec<_>>()[..] {
        let _ = writeln!(
            out,
            "{indent}/** {} */",
            line.trim_start().trim_start_matches("* ")
        );
    } else {
        let _ = writeln!(out, "{indent}/**\n{lines}{indent} */");
    }
}

fn described_member(member: &MemberSchema, of: Use) -> String {
    let mut text = member.description.clone() + unit(member.type_name, of);
    if let Some(default) = member.default.filter(|_| of == Use::Given) {
        let _ = write!(text, " Default: {default}.");
    }
    text
}

/// A type of record as reads return it.
fn read(schema: &RecordSchema, out: &mut String) {
    out.push('\n');
    comment(described(schema.name), "", out);
    let _ = writeln!(out, "export interface {} {{", schema.name);
    for field in &schema.fields {
        comment(&described_member(field, Use::Read), "  ", out);
        let type_name = type_of(field.type_name, field.words, Use::Read);
        let is_given = field.is_always_read || field.is_required;
        let (mark, or_none) = if is_given { ("", "") } else { ("?", " | null") };
        let _ = writeln!(out, "  {}{mark}: {type_name}{or_none};", field.name);
    }
    out.push_str("}\n");
}

/// The name of the type of a record that is recorded.
fn name_given(schema: &RecordSchema) -> String {
    if schema.is_read {
        format!("New{}", schema.name)
    } else {
        schema.name.to_owned()
    }
}

/// A type of record as it is recorded.
fn given(schema: &RecordSchema, out: &mut String) {
    out.push('\n');
    let what = described(schema.name)
        .split(". ")
        .next()
        .unwrap_or_default();
    let what = what.trim_end_matches('.');
    let to_record = if schema.is_read {
        ", to be recorded."
    } else {
        "."
    };
    comment(&format!("{what}{to_record}"), "", out);
    let _ = writeln!(out, "export interface {} {{", name_given(schema));
    if let Some(op) = schema.op {
        let _ = writeln!(out, "  op: '{op}';");
    }
    for field in schema
        .fields
        .iter()
        .filter(|field| field.description != COMPUTED)
    {
        comment(&described_member(field, Use::Given), "  ", out);
        let type_name = type_of(field.type_name, field.words, Use::Given);
        let name = if schema.op_field == Some(field.name) {
            "op"
        } else {
            field.name
        };
        let line = if field.is_required {
            format!("{name}: {type_name};")
        } else {
            format!("{name}?: {type_name} | null | undefined;")
        };
        let _ = writeln!(out, "  {line}");
    }
    out.push_str("}\n");
}

/// Whether records are recorded as this type. Tool calls are recorded in steps.
fn is_given(schema: &RecordSchema) -> bool {
    schema.name != "ToolCall"
}

#[test]
fn records_are_those_of_the_declarations() {
    let mut out = String::from(
        "// Generated from the declarations of the records and queries. To change it, see CONTRIBUTING.md.\n\n\
         /** A time: epoch milliseconds, a `Date`, or a text: RFC 3339, or a UTC day. */\n\
         export type Time = number | bigint | Date | string;\n\n\
         /** The name of a kind of records. */\n\
         export type Kind =\n",
    );
    for kind in Kind::ALL {
        let _ = writeln!(out, "  | '{kind}'");
    }
    out.truncate(out.trim_end().len());
    out += ";\n\n// Records as reads return them. Field names are those of the files.\n";
    let types = record_types();
    for schema in types.iter().filter(|schema| schema.is_read) {
        read(schema, &mut out);
    }
    out += "\n// Records as they are recorded. The log fills in what is left out.\n";
    for schema in types.iter().filter(|schema| is_given(schema)) {
        given(schema, &mut out);
    }
    out += "\n/** What is read of each kind. */\nexport interface Records {\n";
    for schema in types.iter().filter(|schema| schema.is_read) {
        let _ = writeln!(out, "  {}: {};", schema.kind, schema.name);
    }
    out += "}\n\n/** What is recorded of each kind. */\nexport interface NewRecords {\n";
    for kind in Kind::ALL {
        let of_kind = types.iter().filter(|it| it.kind == kind && is_given(it));
        let names: Vec<String> = of_kind.map(name_given).collect();
        let _ = writeln!(out, "  {kind}: {};", names.join(" | "));
    }
    out += "}\n";
    lists(&types, &mut out);
    check("node/records.d.ts", &out);
}

/// `tool_calls` as `toolCalls`.
fn camel_case(name: &str) -> String {
    let mut words = name.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |name, word| name + &capitalized(word))
}

/// `toolCalls` as `ToolCalls`.
fn capitalized(name: &str) -> String {
    name[..1].to_uppercase() + &name[1..]
}

fn lists(types: &[RecordSchema], out: &mut String) {
    for kind in Kind::ALL {
        let (method, what) = list_of(kind);
        let method = camel_case(method);
        out.push('\n');
        comment(
            &format!("Which of {what} to list, and in what order."),
            "",
            out,
        );
        let _ = writeln!(out, "export interface {}Arguments {{", capitalized(&method));
        for argument in list_arguments(kind) {
            comment(&argument.description(), "  ", out);
            // A time of the log is one too.
            let type_name = if argument.name == "as_of" {
                "time"
            } else {
                argument.type_name
            };
            let type_name = type_of(type_name, argument.words, Use::Given);
            let _ = writeln!(out, "  {}?: {type_name} | null | undefined;", argument.name);
        }
        out.push_str("}\n");
    }
    *out += "\n/**\n * Records of a list, read page by page while they are iterated over, by `for` or, on another\n \
             * thread, by `for await`.\n */\n\
             export interface RecordList<T> extends Iterable<T>, AsyncIterable<T> {\n  \
             /** All of them. */\n  toArray(): T[];\n  /** The first one; `undefined` if there is none. */\n  \
             first(): T | undefined;\n}\n\n/** The lists of a log. */\nexport interface Lists {\n";
    for kind in Kind::ALL {
        let (method, what) = list_of(kind);
        let method = camel_case(method);
        let class = name_read(types, kind);
        let _ = writeln!(out, "  /** Lists {what}. */");
        let arguments = capitalized(&method);
        let _ = writeln!(
            out,
            "  {method}(given?: {arguments}Arguments): RecordList<{class}>;"
        );
    }
    out.push_str("}\n");
}
