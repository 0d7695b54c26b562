//! Queries made from arguments by name and value, from a language that checks types at run time.

use uuid::Uuid;

use crate::collections::{ConversationSort, Order};
use crate::error::{Error, Result};
use crate::record::declare::Word;
use crate::record::{
    CallStatus, Client, ConversationStatus, Day, Dynamic, ProposalStatus, Role, TaskStatus,
    TurnKind, epoch_ms,
};

/// A query that is made from arguments.
pub(crate) trait Arguments: Default {
    /// All arguments.
    const ARGUMENTS: &'static [ArgumentSchema];

    /// Sets one of them.
    fn set(&mut self, name: &str, value: &Dynamic<'_>) -> Result<(), String>;

    /// The query with these arguments. Without `limit`, it has no limit.
    fn of(arguments: &[(&str, Dynamic<'_>)]) -> Result<Self> {
        let mut query = Self::default();
        query
            .set("limit", &Dynamic::Int(i64::MAX))
            .map_err(Error::invalid)?;
        for (name, value) in arguments {
            if Self::ARGUMENTS
                .iter()
                .all(|argument| argument.name != *name)
            {
                let known: Vec<&str> = Self::ARGUMENTS.iter().map(|it| it.name).collect();
                let known = known.join(", ");
                let message = format!("unknown argument {name:?}: give one of {known}");
                return Err(Error::invalid(message).with_field(name));
            }
            if *value != Dynamic::Null {
                query.set(name, value).map_err(|reason| {
                    Error::invalid(format!("{name}: {reason}")).with_field(name)
                })?;
            }
        }
        Ok(query)
    }
}

/// An argument of a list.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct ArgumentSchema {
    /// Its name.
    pub name: &'static str,
    /// Its type: that of a field, or `time`, which is epoch milliseconds, RFC 3339 or a day.
    pub type_name: &'static str,
    /// The allowed words. Empty: any value of its type.
    pub words: &'static [&'static str],
    /// Its attributes, of which the documentation is those that begin with `doc`.
    pub(crate) docs: &'static [&'static str],
    pub(crate) text: &'static str,
}

impl ArgumentSchema {
    pub(crate) const fn new(
        name: &'static str,
        type_name: &'static str,
        text: &'static str,
    ) -> ArgumentSchema {
        ArgumentSchema {
            name,
            type_name,
            words: &[],
            docs: &[],
            text,
        }
    }

    /// A description.
    pub fn description(&self) -> String {
        // `doc = " Text"`, or the same with a raw string.
        let text = |attribute: &str| {
            let quoted = attribute.strip_prefix("doc")?;
            let (start, end) = (quoted.find('"')?, quoted.rfind('"')?);
            Some(quoted.get(start + 1..end)?.trim().to_owned())
        };
        let lines: Vec<String> = self.docs.iter().filter_map(|it| text(it)).collect();
        if lines.is_empty() {
            self.text.to_owned()
        } else {
            lines.join(" ")
        }
    }
}

/// A type of argument.
pub(crate) trait Argument: Sized {
    const TYPE_NAME: &'static str;
    const WORDS: &'static [&'static str] = &[];

    /// `None` for a value of another type.
    fn of(value: &Dynamic<'_>) -> Option<Result<Self, String>>;
}

pub(super) fn argument<T: Argument>(value: &Dynamic<'_>) -> Result<T, String> {
    T::of(value).unwrap_or_else(|| Err(format!("expected a value of type {}", T::TYPE_NAME)))
}

/// Types that are given as a text, each with its name; those without are of enumerations.
macro_rules! texts {
    ($($type:ty $(= $type_name:literal)?;)+) => {
        $(impl Argument for $type {
            texts!(@consts $type $(= $type_name)?);

            fn of(value: &Dynamic<'_>) -> Option<Result<Self, String>> {
                match value {
                    Dynamic::Text(text) => Some(text.parse().map_err(reason)),
                    _ => None,
                }
            }
        })+
    };
    (@consts $type:ty = $type_name:literal) => {
        const TYPE_NAME: &'static str = $type_name;
    };
    (@consts $type:ty) => {
        const TYPE_NAME: &'static str = "text";
        const WORDS: &'static [&'static str] = <$type as Word>::WORDS;
    };
}

fn reason(e: impl std::fmt::Display) -> String {
    e.to_string()
}

texts! {
    String = "text";
    Uuid = "uuid";
    Client = "text";
    Day = "day";
    CallStatus;
    ConversationSort;
    ConversationStatus;
    Order;
    ProposalStatus;
    Role;
    TaskStatus;
    TurnKind;
}

impl Argument for i64 {
    const TYPE_NAME: &'static str = "integer";

    fn of(value: &Dynamic<'_>) -> Option<Result<Self, String>> {
        match value {
            Dynamic::Int(number) => Some(Ok(*number)),
            _ => None,
        }
    }
}

impl Argument for usize {
    const TYPE_NAME: &'static str = "integer";

    fn of(value: &Dynamic<'_>) -> Option<Result<Self, String>> {
        let number = i64::of(value)?;
        Some(number.and_then(|number| {
            usize::try_from(number).map_err(|_| format!("{number} is negative"))
        }))
    }
}

impl Argument for bool {
    const TYPE_NAME: &'static str = "boolean";

    fn of(value: &Dynamic<'_>) -> Option<Result<Self, String>> {
        match value {
            Dynamic::Bool(flag) => Some(Ok(*flag)),
            _ => None,
        }
    }
}

/// A time: epoch milliseconds, RFC 3339 or a day.
pub(crate) fn moment(value: &Dynamic<'_>) -> Result<i64, String> {
    match value {
        Dynamic::Int(at) => Ok(*at),
        Dynamic::Text(text) if text.bytes().all(|byte| byte.is_ascii_digit()) => Err(format!(
            "{text:?} is a text: give epoch milliseconds as a number, or a day such as 2026-07-28"
        )),
        Dynamic::Text(text) => epoch_ms(text).map_err(|e| e.reason()),
        _ => Err(
            "expected epoch milliseconds, or a text such as 2026-07-28T12:00:00Z or 2026-07-28"
                .to_owned(),
        ),
    }
}
