//! The tools: their names, arguments and actions.

// Doc comments on arguments are the descriptions that clients see. Arguments have the field names of
// the files.
#![allow(
    clippy::doc_markdown,
    clippy::needless_pass_by_value,
    clippy::struct_field_names
)]

/// Declares tools: the description of each, its name, title and effect, the kinds of records that it
/// reads, and the function that it runs with its arguments: a type, or one that is declared here.
macro_rules! tools {
    ($(
        $(#[doc = $doc:literal])+
        $name:ident($title:literal, $effect:ident $(, $kinds:expr)?) =>
            $run:ident($given:ident $({ $($fields:tt)* })?)
    )+) => {
        pub(super) fn tools() -> Vec<super::Tool> {
            vec![$({
                let name = (stringify!($name), $title);
                let description = concat!($($doc),+).trim();
                let effect = super::Effect::$effect;
                let tool = super::Tool::new::<$given, _>(name, description, effect, $run);
                tool$(.reading(&$kinds))?
            }),+]
        }

        $($(
            #[derive(Debug, serde::Deserialize, utoipa::ToSchema)]
            #[serde(deny_unknown_fields)]
            #[allow(dead_code)] // `from_char` is used to cut the answer.
            struct $given {
                $($fields)*
            }
        )?)+
    };
}

mod call;
mod calls;
mod conversations;
mod events;
mod given;
mod history;
mod inbox;
mod proposals;
mod retract;
mod search;
mod thoughts;
mod turns;
mod usage;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use rmcp::model::{self, CallToolResult, ToolAnnotations};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use utoipa::ToSchema;

pub(super) use self::call::{Call, Progress};
use super::answer::{self, Fault};
use super::reach::Reach;
use super::{bound, schema};
use crate::error::{Error, ErrorKind, Result};
use crate::privacy::AccessRole;
use crate::record::Kind;

type Run = dyn Fn(&Call<'_>, Map<String, Value>) -> Result<CallToolResult, Fault> + Send + Sync;

/// The effect of a tool on the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effect {
    /// It reads.
    Reads,
    /// It reads, and perhaps a large part of the log.
    ReadsMuch,
    /// It adds a record with each call.
    Adds,
    /// It adds a record once for the same arguments.
    AddsOnce,
}

impl Effect {
    fn only_reads(self) -> bool {
        matches!(self, Effect::Reads | Effect::ReadsMuch)
    }
}

/// A tool that a client may call.
pub(super) struct Tool {
    name: &'static str,
    pub(super) definition: model::Tool,
    effect: Effect,
    /// The kinds of records that it reads.
    kinds: &'static [Kind],
    pub(super) run: Box<Run>,
}

impl Tool {
    /// A tool from a function of its arguments. Its answer is cut if it is too long.
    fn new<I, O>(
        (name, title): (&'static str, &str),
        description: &'static str,
        effect: Effect,
        run: fn(&Call<'_>, I) -> Result<O, Fault>,
    ) -> Tool
    where
        I: DeserializeOwned + ToSchema + 'static,
        O: Serialize + 'static,
    {
        let hints = ToolAnnotations::new()
            .read_only(effect.only_reads())
            // The log is append-only.
            .destructive(false)
            .idempotent(effect != Effect::Adds)
            .open_world(false);
        let takes = schema::of_arguments::<I>();
        let required = required(&takes);
        let definition = model::Tool::new(name, description, Arc::new(takes))
            .with_title(title)
            .with_raw_output_schema(Arc::new(schema::of_answer()))
            .with_annotations(hints);
        let run = move |call: &Call<'_>, arguments: Map<String, Value>| {
            let from_char = given::from_char(&arguments);
            let data = run(call, given::arguments(arguments, &required)?)?;
            let mut data = serde_json::to_value(data).map_err(|error| {
                tracing::error!(%error, tool = name, "an answer cannot be encoded as JSON");
                Fault::internal()
            })?;
            let cuts = bound::shorten(&mut data, from_char);
            Ok(answer::done(data, &cuts))
        };
        Tool {
            name,
            definition,
            effect,
            kinds: &[],
            run: Box::new(run),
        }
    }

    fn reading(mut self, kinds: &'static [Kind]) -> Tool {
        self.kinds = kinds;
        self
    }

    pub(super) fn is_long(&self) -> bool {
        self.effect == Effect::ReadsMuch
    }

    /// The role that is required to call it.
    fn needs(&self) -> AccessRole {
        if self.effect.only_reads() {
            AccessRole::ReadOnly
        } else {
            AccessRole::Developer
        }
    }

    pub(super) fn check(&self, role: AccessRole) -> Result<(), Fault> {
        let needed = self.needs();
        if role < needed {
            let message = format!("the role {role} may not call this tool: it requires {needed}");
            return Err(Fault::new("FORBIDDEN", message));
        }
        Ok(())
    }
}

/// The arguments that a schema requires.
fn required(schema: &Map<String, Value>) -> Vec<String> {
    let names = schema.get("required").and_then(Value::as_array);
    let names = names.into_iter().flatten().filter_map(Value::as_str);
    names.map(str::to_owned).collect()
}

/// Names of groups of tools.
const ALL: &str = "all";
const DEFAULT: &str = "default";

/// The tools for most agents. The description of each tool takes part of a model's context, so the
/// others, for supervisors, reviewers and workers, are offered only by name.
const DEFAULT_TOOLS: [&str; 15] = [
    "audit_verify_chain",
    "conversation_get",
    "conversation_search",
    "event_log",
    "log_search",
    "thought_record",
    "thought_record_get",
    "thought_record_list",
    "tool_call_done",
    "tool_call_get",
    "tool_call_requested",
    "tool_calls_list",
    "turn_record",
    "turns_since",
    "usage_report",
];

/// The tools that a server offers, each under a name of its own.
///
/// ```
/// use decklog::mcp::Tools;
/// let mut tools = Tools::new();
/// tools.register_thoughts()?;
/// assert!(tools.names().any(|name| name == "thought_record"));
/// let again = tools.register_thoughts().unwrap_err();
/// assert_eq!(again.kind(), decklog::ErrorKind::Conflict);
/// # Ok::<(), decklog::Error>(())
/// ```
#[derive(Clone)]
pub struct Tools {
    by_name: ByName,
}

type ByName = BTreeMap<&'static str, Arc<Tool>>;

fn by_name(tools: impl IntoIterator<Item = Tool>) -> ByName {
    let named = tools.into_iter().map(|tool| (tool.name, Arc::new(tool)));
    named.collect()
}

impl Tools {
    /// No tools.
    pub fn new() -> Tools {
        let by_name = ByName::new();
        Tools { by_name }
    }

    /// All tools. By default, servers offer the group `default`.
    ///
    /// ```
    /// use decklog::mcp::Tools;
    /// let tools = Tools::all().only(["default", "inbox_claim"])?;
    /// assert!(tools.names().any(|name| name == "thought_record"));
    /// assert!(!tools.names().any(|name| name == "inbox_done"));
    /// # Ok::<(), decklog::Error>(())
    /// ```
    pub fn all() -> Tools {
        let all = [
            thoughts::tools(),
            calls::tools(),
            turns::tools(),
            proposals::tools(),
            events::tools(),
            conversations::tools(),
            search::tools(),
            usage::tools(),
            inbox::tools(),
            history::tools(),
            retract::tools(),
        ];
        Tools {
            by_name: by_name(all.into_iter().flatten()),
        }
    }

    /// Adds `thought_record`, `thought_record_list`, `thought_record_get` and
    /// `audit_verify_chain`.
    ///
    /// # Errors
    /// [`Conflict`](ErrorKind::Conflict) if one of them exists: then none is added.
    pub fn register_thoughts(&mut self) -> Result<()> {
        let thoughts = thoughts::tools();
        let is_known = |tool: &&Tool| self.by_name.contains_key(tool.name);
        if let Some(tool) = thoughts.iter().find(is_known) {
            let message = format!("the tool {} is already registered", tool.name);
            return Err(Error::new(ErrorKind::Conflict, message));
        }
        self.by_name.extend(by_name(thoughts));
        Ok(())
    }

    /// Those that only read.
    #[must_use]
    pub fn read_only(mut self) -> Tools {
        self.by_name.retain(|_, tool| tool.effect.only_reads());
        self
    }

    /// The tools with these names. `default` is the group for most agents, `all` every tool.
    ///
    /// # Errors
    /// [`InvalidInput`](ErrorKind::InvalidInput) for an unknown name.
    pub fn only<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> Result<Tools> {
        let mut tools = Tools::new();
        for wanted in names {
            let is_wanted = |name: &str| match wanted {
                ALL => true,
                DEFAULT => DEFAULT_TOOLS.contains(&name),
                one => name == one,
            };
            if ![ALL, DEFAULT].contains(&wanted) && !self.by_name.contains_key(wanted) {
                let all: Vec<&str> = self.names().collect();
                return Err(Error::invalid(format!(
                    "there is no tool {wanted:?}: use {DEFAULT}, {ALL}, or any of {}",
                    all.join(", ")
                )));
            }
            let found = self.by_name.iter().filter(|(name, _)| is_wanted(name));
            let found = found.map(|(name, tool)| (*name, Arc::clone(tool)));
            tools.by_name.extend(found);
        }
        Ok(tools)
    }

    /// The kinds that resources and prompts may show: those that one of the tools reads.
    pub(super) fn reach(&self) -> Reach {
        let tools = self.by_name.values();
        let tools = tools.filter(|tool| tool.effect.only_reads());
        tools.flat_map(|tool| tool.kinds).copied().collect()
    }

    /// Their names, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.by_name.keys().copied()
    }

    /// The definitions of the tools that a role may call.
    pub(super) fn definitions(&self, role: AccessRole) -> Vec<model::Tool> {
        let tools = self.by_name.values();
        let tools = tools.filter(|tool| tool.needs() <= role);
        tools.map(|tool| tool.definition.clone()).collect()
    }

    pub(super) fn get(&self, name: &str) -> Option<Arc<Tool>> {
        self.by_name.get(name).cloned()
    }
}

/// The group `default`.
impl Default for Tools {
    fn default() -> Tools {
        let mut tools = Tools::all();
        tools.by_name.retain(|name, _| DEFAULT_TOOLS.contains(name));
        tools
    }
}

impl fmt::Debug for Tools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.names()).finish()
    }
}
