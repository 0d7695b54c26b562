//! JSON as values of Python.

use std::fmt;

use decklog::bindings::has_long_number;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyList, PyString};
use serde::Serialize;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use crate::errors;

/// An integer of fewer digits is one of 64 bits.
const DIGITS_MIN: usize = 19;
/// Keys that are words of this length or shorter occur again and again.
const KEY_BYTES_MAX: usize = 24;

/// A value that serializes as a value of Python.
pub(crate) fn value<'py>(py: Python<'py>, it: &impl Serialize) -> PyResult<Bound<'py, PyAny>> {
    let json = serde_json::to_vec(it).map_err(errors::fault)?;
    parse(py, &json)
}

/// JSON as a value of Python.
pub(crate) fn parse<'py>(py: Python<'py>, json: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    // It may have an integer that only Python has.
    if has_long_number(json, DIGITS_MIN) {
        let text = String::from_utf8_lossy(json);
        return py.import("json")?.call_method1("loads", (text,));
    }
    let mut from = serde_json::Deserializer::from_slice(json);
    Value(py).deserialize(&mut from).map_err(errors::fault)
}

#[derive(Clone, Copy)]
struct Value<'py>(Python<'py>);

impl<'de, 'py> DeserializeSeed<'de> for Value<'py> {
    type Value = Bound<'py, PyAny>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Bound<'py, PyAny>, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de, 'py> Visitor<'de> for Value<'py> {
    type Value = Bound<'py, PyAny>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Bound<'py, PyAny>, E> {
        Ok(self.0.None().into_bound(self.0))
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Bound<'py, PyAny>, E> {
        Ok(PyBool::new(self.0, flag).to_owned().into_any())
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Bound<'py, PyAny>, E> {
        number
            .into_pyobject(self.0)
            .map(Bound::into_any)
            .map_err(E::custom)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Bound<'py, PyAny>, E> {
        number
            .into_pyobject(self.0)
            .map(Bound::into_any)
            .map_err(E::custom)
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Bound<'py, PyAny>, E> {
        number
            .into_pyobject(self.0)
            .map(Bound::into_any)
            .map_err(E::custom)
    }

    fn visit_str<E>(self, text: &str) -> Result<Bound<'py, PyAny>, E> {
        Ok(PyString::new(self.0, text).into_any())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Bound<'py, PyAny>, A::Error> {
        let list = PyList::empty(self.0);
        while let Some(item) = items.next_element_seed(self)? {
            list.append(item).map_err(A::Error::custom)?;
        }
        Ok(list.into_any())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Bound<'py, PyAny>, A::Error> {
        let dict = PyDict::new(self.0);
        while let Some(name) = map.next_key_seed(Name(self.0))? {
            let value = map.next_value_seed(self)?;
            dict.set_item(name, value).map_err(A::Error::custom)?;
        }
        Ok(dict.into_any())
    }
}

struct Name<'py>(Python<'py>);

impl<'de, 'py> DeserializeSeed<'de> for Name<'py> {
    type Value = Bound<'py, PyString>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Bound<'py, PyString>, D::Error> {
        from.deserialize_str(self)
    }
}

impl<'py> Visitor<'_> for Name<'py> {
    type Value = Bound<'py, PyString>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E>(self, name: &str) -> Result<Bound<'py, PyString>, E> {
        let is_word = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
        Ok(
            if name.len() <= KEY_BYTES_MAX && name.bytes().all(is_word) {
                PyString::intern(self.0, name)
            } else {
                PyString::new(self.0, name)
            },
        )
    }
}
