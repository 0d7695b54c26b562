//! Records and arguments given by Python, by name and value.

use decklog::Kind;
use decklog::bindings::{self, Dynamic, Input};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyString};

use crate::errors::{self, OrRaise as _};
use crate::to_json;

/// The names and values of a dict, and their owners.
struct Members<'py>(Vec<(Bound<'py, PyString>, Bound<'py, PyAny>)>);

impl<'py> Members<'py> {
    fn of(dict: &Bound<'py, PyDict>) -> PyResult<Members<'py>> {
        let mut members = Vec::with_capacity(dict.len());
        for (name, value) in dict.iter() {
            let name = match name.cast_into::<PyString>() {
                Ok(name) => name,
                Err(e) => {
                    let message = format!("the name of a field is no text: {e}");
                    return Err(errors::invalid("record", &message));
                }
            };
            members.push((name, value));
        }
        Ok(Members(members))
    }

    /// Replaces values of other classes by values of Python's own.
    fn plain(&mut self) -> PyResult<()> {
        for (name, value) in &mut self.0 {
            if !is_plain(value) {
                *value = to_json::plain(value, &name.to_string_lossy())?;
            }
        }
        Ok(())
    }

    fn named(&self) -> PyResult<Vec<(&str, Dynamic<'_>)>> {
        let named = self.0.iter().map(|(name, value)| {
            let name = to_json::text(name, "record")?;
            Ok((name, dynamic(name, value)?))
        });
        named.collect()
    }
}

fn is_plain(value: &Bound<'_, PyAny>) -> bool {
    value.is_none()
        || value.is_instance_of::<PyString>()
        || value.is_instance_of::<PyInt>()
        || value.is_instance_of::<PyFloat>()
        || value.is_instance_of::<PyDict>()
        || value.is_instance_of::<pyo3::types::PyList>()
        || value.is_instance_of::<pyo3::types::PyTuple>()
}

/// A value of Python's own, made of another one if it is none.
fn plain<'py>(value: &Bound<'py, PyAny>, field: &str) -> PyResult<Bound<'py, PyAny>> {
    if is_plain(value) {
        Ok(value.clone())
    } else {
        to_json::plain(value, field)
    }
}

fn dynamic<'a>(name: &str, value: &'a Bound<'_, PyAny>) -> PyResult<Dynamic<'a>> {
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(Dynamic::Text(to_json::text(text, name)?.into()));
    }
    if value.is_none() {
        return Ok(Dynamic::Null);
    }
    if let Ok(flag) = value.cast::<PyBool>() {
        return Ok(Dynamic::Bool(flag.is_true()));
    }
    if value.cast::<PyInt>().is_ok() {
        if let Ok(number) = value.extract() {
            return Ok(Dynamic::Int(number));
        }
    } else if let Ok(number) = value.cast::<PyFloat>() {
        return Ok(Dynamic::Float(number.value()));
    }
    to_json::json(value, name).map(Dynamic::Json)
}

fn kind_of(stem: &str) -> PyResult<Kind> {
    Kind::from_stem(stem).ok_or_else(|| {
        let known = Kind::ALL.map(Kind::stem).join(", ");
        errors::invalid(
            "kind",
            &format!("unknown kind {stem:?}: give one of {known}"),
        )
    })
}

/// The kind with this name, if one is given.
pub(crate) fn kind(stem: Option<&str>) -> PyResult<Option<Kind>> {
    stem.map(kind_of).transpose()
}

/// Reads a record: a dict, a record of this package, or another object with fields.
pub(crate) fn input(record: &Bound<'_, PyAny>, kind: Option<Kind>) -> PyResult<Input> {
    if let Ok(dict) = record.cast::<PyDict>() {
        return of_dict(dict, kind, None);
    }
    let py = record.py();
    // Records of this package say their kind, and the op of their lines.
    if let Ok(of_class) = record.getattr(intern!(py, "_decklog")) {
        let (stem, op, op_field): (String, Option<String>, Option<String>) = of_class.extract()?;
        let fields = record.getattr(intern!(py, "__dict__"))?;
        let fields = fields.cast::<PyDict>()?;
        let kind = Some(kind_of(&stem)?);
        let op = match (op, op_field) {
            (None, Some(field)) => Some((field.clone(), fields.get_item(&field)?)),
            (op, _) => op.map(|op| (String::new(), Some(PyString::new(py, &op).into_any()))),
        };
        return of_dict(fields, kind, op);
    }
    let fields = py
        .import("decklog._plain")?
        .call_method1("fields", (record,))?;
    of_dict(fields.cast::<PyDict>()?, kind, None)
}

/// `op`: the field that holds the op, and the op.
fn of_dict<'py>(
    dict: &Bound<'py, PyDict>,
    kind: Option<Kind>,
    op: Option<(String, Option<Bound<'py, PyAny>>)>,
) -> PyResult<Input> {
    let mut members = Members::of(dict)?;
    members.plain()?;
    if let Some((field, word)) = op {
        members.0.retain(|(name, _)| *name != *field);
        if let Some(word) = word {
            members.0.push((PyString::intern(dict.py(), "op"), word));
        }
    }
    Input::new(kind, &members.named()?).or_raise()
}

/// Calls a function with the keyword arguments of a call.
pub(crate) fn with_arguments<T>(
    arguments: Option<&Bound<'_, PyDict>>,
    take: impl FnOnce(&[(&str, Dynamic<'_>)]) -> decklog::Result<T>,
) -> PyResult<T> {
    let Some(arguments) = arguments else {
        return take(&[]).or_raise();
    };
    let mut members = Members::of(arguments)?;
    members.plain()?;
    take(&members.named()?).or_raise()
}

/// A text, or a value that is one in JSON, such as a time.
pub(crate) fn text(name: &str, given: &Bound<'_, PyAny>) -> PyResult<String> {
    let given = plain(given, name)?;
    let Ok(text) = given.cast::<PyString>() else {
        return Err(errors::invalid(name, "it is no text"));
    };
    to_json::text(text, name).map(str::to_owned)
}

/// A number from 0.
pub(crate) fn count(name: &str, given: i64) -> PyResult<usize> {
    let message = || format!("{given} is negative: give a whole number from 0");
    usize::try_from(given).map_err(|_| errors::invalid(name, &message()))
}

/// A time: epoch milliseconds, RFC 3339 or a day.
pub(crate) fn time(field: &str, given: Option<&Bound<'_, PyAny>>) -> PyResult<Option<i64>> {
    let Some(given) = given else { return Ok(None) };
    let given = plain(given, field)?;
    let time = bindings::time(field, &dynamic(field, &given)?);
    time.map(Some).or_raise()
}
