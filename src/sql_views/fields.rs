//! The fields of lines, as the views need them.

use crate::record::Kind;
use crate::record::columns::{ColumnType, name_in_parquet};
use crate::record::declare::{Class, Place};

/// Greatest width of a line of SQL.
const WIDTH: usize = 100;

/// A field of the lines of a kind.
#[derive(Debug, Clone, Copy)]
pub(super) struct LineField {
    pub name: &'static str,
    pub column_type: ColumnType,
    class: Class,
    pub is_key: bool,
    /// Whether it is in lines of later ops alone, such as the outcome of a call.
    pub is_later: bool,
}

impl LineField {
    /// The fields of a kind in canonical order. The day of a rollup is left out: each row has the
    /// day of its object.
    pub(super) fn of(kind: Kind) -> Vec<LineField> {
        let first = kind.first_fields();
        let fields = kind.fields().map(|field| LineField {
            name: field.name,
            column_type: ColumnType::of(field.class),
            class: field.class,
            is_key: field.place == Place::Key,
            is_later: field.place == Place::OtherOps
                || first.iter().all(|first| first.name != field.name),
        });
        fields
            .filter(|field| field.column_type != ColumnType::Day)
            .collect()
    }

    /// Whether it is a time that lines have as RFC 3339 text. Other times are epoch milliseconds.
    pub(super) fn is_rfc3339(&self) -> bool {
        self.class.type_name() == "rfc3339"
    }

    /// Whether it is a text with the time of the line itself.
    pub(super) fn is_own_time(&self) -> bool {
        self.class == Class::OwnInstant
    }

    /// Its name in Parquet objects.
    pub(super) fn name_in_parquet(&self) -> &'static str {
        name_in_parquet(self.name)
    }
}

/// The items of a list, as many in a line as fit.
pub(super) fn listed<T: AsRef<str>>(items: impl IntoIterator<Item = T>, indent: usize) -> String {
    let mut text = String::new();
    let mut width = 0;
    let mut separator = "";
    for item in items {
        let item = item.as_ref();
        text.push_str(separator);
        // With the comma after it.
        if width > 0 && width + 1 + item.len() < WIDTH {
            text.push(' ');
            width += 1;
        } else {
            if width > 0 {
                text.push('\n');
            }
            text.extend(std::iter::repeat_n(' ', indent));
            width = indent;
        }
        text.push_str(item);
        width += item.len() + 1;
        separator = ",";
    }
    text
}
