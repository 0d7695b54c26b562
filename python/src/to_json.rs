//! Values of Python as JSON.

use decklog::bindings::push_text;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};

use crate::errors;

/// Maximum number of objects and arrays around a value, as in the log.
const DEPTH_MAX: usize = 63;
/// Maximum depth of the conversion. A value of another class is replaced by a plain one, which is one
/// level deeper.
const STEPS_MAX: usize = 100;

/// Appends the JSON of a value. `field` is what errors name.
pub(crate) fn push(out: &mut Vec<u8>, value: &Bound<'_, PyAny>, field: &str) -> PyResult<()> {
    push_at(out, value, field, 0)
}

/// The JSON of a value.
pub(crate) fn json(value: &Bound<'_, PyAny>, field: &str) -> PyResult<String> {
    let mut out = Vec::with_capacity(128);
    push(&mut out, value, field)?;
    String::from_utf8(out).map_err(errors::fault)
}

/// A payload: a text as it is, anything else as JSON.
pub(crate) fn payload(value: &Bound<'_, PyAny>, field: &str) -> PyResult<String> {
    match value.cast::<PyString>() {
        Ok(it) => Ok(decklog::bindings::payload(text(it, field)?.to_owned())),
        Err(_) => json(value, field),
    }
}

pub(crate) fn text<'a>(text: &'a Bound<'_, PyString>, field: &str) -> PyResult<&'a str> {
    text.to_str()
        .map_err(|_| errors::invalid(field, "it holds a lone surrogate, which is no text"))
}

fn push_at(out: &mut Vec<u8>, value: &Bound<'_, PyAny>, field: &str, depth: usize) -> PyResult<()> {
    if depth > STEPS_MAX {
        return Err(errors::invalid(
            field,
            "it is nested more than 63 levels deep",
        ));
    }
    if let Ok(it) = value.cast::<PyString>() {
        push_text(out, text(it, field)?);
        Ok(())
    } else if value.is_none() {
        out.extend_from_slice(b"null");
        Ok(())
    } else if let Ok(flag) = value.cast::<PyBool>() {
        let word: &[u8] = if flag.is_true() { b"true" } else { b"false" };
        out.extend_from_slice(word);
        Ok(())
    } else if value.cast::<PyInt>().is_ok() {
        push_int(out, value)
    } else if let Ok(number) = value.cast::<PyFloat>() {
        let number = number.value();
        let finite = serde_json::Number::from_f64(number)
            .ok_or_else(|| errors::invalid(field, &format!("{number} is no number of JSON")))?;
        out.extend_from_slice(finite.to_string().as_bytes());
        Ok(())
    } else if let Ok(dict) = value.cast::<PyDict>() {
        check_depth(field, depth)?;
        out.push(b'{');
        // A copy: what runs below may change the dict.
        let members: Vec<_> = dict.iter().collect();
        for (place, (name, item)) in members.into_iter().enumerate() {
            if place > 0 {
                out.push(b',');
            }
            push_name(out, &name, field)?;
            out.push(b':');
            push_at(out, &item, field, depth + 1)?;
        }
        out.push(b'}');
        Ok(())
    } else if let Ok(list) = value.cast::<PyList>() {
        push_items(out, list.iter(), field, depth)
    } else if let Ok(tuple) = value.cast::<PyTuple>() {
        push_items(out, tuple.iter(), field, depth)
    } else {
        let plain = plain(value, field)?;
        push_at(out, &plain, field, depth + 1)
    }
}

fn check_depth(field: &str, depth: usize) -> PyResult<()> {
    if depth < DEPTH_MAX {
        return Ok(());
    }
    Err(errors::invalid(
        field,
        "it is nested more than 63 levels deep",
    ))
}

fn push_items<'py>(
    out: &mut Vec<u8>,
    items: impl Iterator<Item = Bound<'py, PyAny>>,
    field: &str,
    depth: usize,
) -> PyResult<()> {
    check_depth(field, depth)?;
    out.push(b'[');
    for (place, item) in items.enumerate() {
        if place > 0 {
            out.push(b',');
        }
        push_at(out, &item, field, depth + 1)?;
    }
    out.push(b']');
    Ok(())
}

/// As `json.dumps`: numbers, booleans and `None` are names too.
fn push_name(out: &mut Vec<u8>, name: &Bound<'_, PyAny>, field: &str) -> PyResult<()> {
    if let Ok(it) = name.cast::<PyString>() {
        push_text(out, text(it, field)?);
        return Ok(());
    }
    let is_scalar = name.is_none()
        || name.cast::<PyBool>().is_ok()
        || name.cast::<PyInt>().is_ok()
        || name.cast::<PyFloat>().is_ok();
    if !is_scalar {
        let message = format!("a key of type {} is no text", name.get_type().name()?);
        return Err(errors::invalid(field, &message));
    }
    let start = out.len();
    push_at(out, name, field, 0)?;
    let json = String::from_utf8_lossy(&out[start..]).into_owned();
    out.truncate(start);
    push_text(out, &json);
    Ok(())
}

fn push_int(out: &mut Vec<u8>, value: &Bound<'_, PyAny>) -> PyResult<()> {
    if let Ok(number) = value.extract::<i64>() {
        out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
        return Ok(());
    }
    // Its digits, also if it is of a subclass with a text of its own.
    let digits = value
        .py()
        .get_type::<PyInt>()
        .call_method1("__repr__", (value,))?;
    out.extend_from_slice(digits.cast::<PyString>()?.to_str()?.as_bytes());
    Ok(())
}

/// A value of another class as one of the classes above.
pub(crate) fn plain<'py>(value: &Bound<'py, PyAny>, field: &str) -> PyResult<Bound<'py, PyAny>> {
    let module = value.py().import("decklog._plain")?;
    module.call_method1("plain", (value, field))
}
