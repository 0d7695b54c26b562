//! `decklog schema`

use std::fmt::Write as _;

use decklog::Kind;
use decklog::schema::{FieldSchema, KindSchema};

use super::context::Context;
use super::exit::{Exit, Failure};

/// Show the fields of each kind of record: type, unit, place and redaction
///
/// With --json, one object a kind. No store is opened.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  decklog schema messages\n  decklog schema --json | jq -r '.kind as $kind | .fields[] | [$kind, .name, .type] | @tsv'"
)]
pub struct Args {
    /// The kind, as in file names. Default: all kinds
    #[arg(value_name = "KIND", value_parser = kind)]
    kind: Option<Kind>,
}

/// The value of an argument that is a kind.
pub fn kind(stem: &str) -> Result<Kind, String> {
    Kind::from_stem(stem).ok_or_else(|| {
        let known = Kind::ALL.map(Kind::stem).join(", ");
        format!("unknown kind: use one of {known}")
    })
}

pub fn run(args: &Args, context: &mut Context) -> Result<Exit, Failure> {
    let all = Kind::ALL.into_iter();
    let kinds = all.filter(|kind| args.kind.is_none_or(|wanted| wanted == *kind));
    for (nth, kind) in kinds.enumerate() {
        let schema = kind.schema();
        if context.json {
            context.out.json(&schema)?;
            continue;
        }
        if nth > 0 {
            context.out.line("")?;
        }
        show(&schema, context)?;
    }
    Ok(Exit::Ok)
}

fn show(schema: &KindSchema, context: &mut Context) -> Result<(), Failure> {
    let ops = schema.ops.join(", ");
    context.out.line(&format!("{}  op: {ops}", schema.kind))?;
    let width = schema.fields.iter().map(|field| field.name.len()).max();
    for field in &schema.fields {
        let line = format!(
            "  {:<width$}  {:<8}  {}",
            field.name,
            field.type_name,
            said_of(field),
            width = width.unwrap_or_default()
        );
        context.out.line(line.trim_end())?;
    }
    Ok(())
}

fn said_of(field: &FieldSchema) -> String {
    let mut said = field.description.clone();
    if !field.words.is_empty() {
        // Writing to a String cannot fail.
        let _ = write!(said, " One of {}.", field.words.join(", "));
    }
    if !field.is_required {
        said.push_str(" Optional.");
    }
    said
}
