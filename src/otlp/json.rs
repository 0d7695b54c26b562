//! Lenient JSON of OTLP, for the fields of [`proto`](super::proto).

use std::fmt;
use std::marker::PhantomData;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::de::{self, Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};

use super::proto::{AnyValue, ArrayValue, ELEMENTS_MAX, KeyValueList, Value};

/// A value or null, which means the default.
pub(super) fn or_default<'de, D, T>(from: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Option::deserialize(from).map(Option::unwrap_or_default)
}

/// A list of limited length, or null.
pub(super) fn list<'de, D, T>(from: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    list_within(from, ELEMENTS_MAX)
}

pub(super) fn list_within<'de, D, T>(from: D, max: usize) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    struct List<T> {
        max: usize,
        item: PhantomData<T>,
    }
    impl<'de, T: Deserialize<'de>> Visitor<'de> for List<T> {
        type Value = Vec<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an array")
        }

        fn visit_unit<E>(self) -> Result<Vec<T>, E> {
            Ok(Vec::new())
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vec<T>, A::Error> {
            let mut items = Vec::new();
            while let Some(item) = seq.next_element()? {
                if items.len() == self.max {
                    return Err(de::Error::custom(too_many_elements(self.max)));
                }
                items.push(item);
            }
            Ok(items)
        }
    }
    let item = PhantomData;
    from.deserialize_any(List { max, item })
}

/// The reason why a list is rejected.
pub(super) fn too_many_elements(max: usize) -> String {
    format!("a list has more than {max} elements")
}

/// A number as JSON writes it: as a number, as text or as null.
struct Number;

impl Visitor<'_> for Number {
    type Value = i128;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number")
    }

    fn visit_unit<E>(self) -> Result<i128, E> {
        Ok(0)
    }

    fn visit_u64<E>(self, number: u64) -> Result<i128, E> {
        Ok(number.into())
    }

    fn visit_i64<E>(self, number: i64) -> Result<i128, E> {
        Ok(number.into())
    }

    // The cast ends at the limits of the type. Whole numbers may be written as `1e3`.
    #[allow(clippy::cast_possible_truncation)]
    fn visit_f64<E: de::Error>(self, number: f64) -> Result<i128, E> {
        if number.fract() == 0.0 {
            return Ok(number as i128);
        }
        Err(E::custom(format!("{number} is not a whole number")))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<i128, E> {
        if text.is_empty() {
            return Ok(0);
        }
        if let Ok(number) = text.parse() {
            return Ok(number);
        }
        match text.parse() {
            Ok(number) => self.visit_f64(number),
            Err(_) => Err(E::invalid_value(de::Unexpected::Str(text), &self)),
        }
    }
}

fn number_within<'de, D, T>(from: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: TryFrom<i128>,
{
    let number = from.deserialize_any(Number)?;
    T::try_from(number).map_err(|_| de::Error::custom(format!("{number} is out of range")))
}

/// A 32-bit number.
pub(super) fn small<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
    number_within(from)
}

/// 64-bit numbers, which are written as text.
pub(super) mod number {
    use super::{Deserializer, Serializer, number_within};

    // The signature is that of serde.
    #[allow(clippy::trivially_copy_pass_by_ref)]
    pub(in crate::otlp) fn serialize<S: Serializer>(
        number: &u64,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.collect_str(number)
    }

    pub(in crate::otlp) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<u64, D::Error> {
        number_within(from)
    }
}

/// Ids, which are written in hexadecimal digits.
pub(super) mod hex {
    use serde::de::Error as _;

    use super::{Deserialize, Deserializer, Serializer};
    use std::borrow::Cow;

    pub(in crate::otlp) fn serialize<S: Serializer>(id: &[u8], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&crate::record::hex(id))
    }

    pub(in crate::otlp) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Vec<u8>, D::Error> {
        let text = Option::<Cow<'_, str>>::deserialize(from)?.unwrap_or_default();
        bytes(&text).ok_or_else(|| {
            D::Error::custom(format!("{text:?} is no id: ids are hexadecimal digits"))
        })
    }

    fn bytes(text: &str) -> Option<Vec<u8>> {
        let (pairs, rest) = text.as_bytes().as_chunks::<2>();
        if !rest.is_empty() {
            return None;
        }
        let digit = |digit: u8| char::from(digit).to_digit(16);
        let byte = |[high, low]: &[u8; 2]| u8::try_from(digit(*high)? * 16 + digit(*low)?).ok();
        pairs.iter().map(byte).collect()
    }
}

/// An enum as a number or as its name, such as `SPAN_KIND_CLIENT`.
fn named<'de, D: Deserializer<'de>>(
    from: D,
    prefix: &'static str,
    names: &'static [&'static str],
) -> Result<i32, D::Error> {
    struct Name {
        prefix: &'static str,
        names: &'static [&'static str],
    }
    impl Visitor<'_> for Name {
        type Value = i32;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "a number or a name of {}*", self.prefix)
        }

        fn visit_unit<E>(self) -> Result<i32, E> {
            Ok(0)
        }

        fn visit_u64<E>(self, number: u64) -> Result<i32, E> {
            // An unknown number means the same as none.
            Ok(i32::try_from(number).unwrap_or_default())
        }

        fn visit_i64<E>(self, number: i64) -> Result<i32, E> {
            Ok(i32::try_from(number).unwrap_or_default())
        }

        fn visit_str<E>(self, text: &str) -> Result<i32, E> {
            if let Ok(number) = text.parse() {
                return Ok(number);
            }
            let name = text.strip_prefix(self.prefix).unwrap_or(text);
            let place = self.names.iter().position(|known| *known == name);
            Ok(place
                .and_then(|at| i32::try_from(at).ok())
                .unwrap_or_default())
        }
    }
    from.deserialize_any(Name { prefix, names })
}

pub(super) fn span_kind<'de, D: Deserializer<'de>>(from: D) -> Result<i32, D::Error> {
    let names = &[
        "UNSPECIFIED",
        "INTERNAL",
        "SERVER",
        "CLIENT",
        "PRODUCER",
        "CONSUMER",
    ];
    named(from, "SPAN_KIND_", names)
}

pub(super) fn status_code<'de, D: Deserializer<'de>>(from: D) -> Result<i32, D::Error> {
    named(from, "STATUS_CODE_", &["UNSET", "OK", "ERROR"])
}

pub(super) fn severity<'de, D: Deserializer<'de>>(from: D) -> Result<i32, D::Error> {
    let names = &[
        "UNSPECIFIED",
        "TRACE",
        "TRACE2",
        "TRACE3",
        "TRACE4",
        "DEBUG",
        "DEBUG2",
        "DEBUG3",
        "DEBUG4",
        "INFO",
        "INFO2",
        "INFO3",
        "INFO4",
        "WARN",
        "WARN2",
        "WARN3",
        "WARN4",
        "ERROR",
        "ERROR2",
        "ERROR3",
        "ERROR4",
        "FATAL",
        "FATAL2",
        "FATAL3",
        "FATAL4",
    ];
    named(from, "SEVERITY_NUMBER_", names)
}

impl Serialize for AnyValue {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let Some(value) = &self.value else {
            return to.serialize_map(Some(0))?.end();
        };
        let mut map = to.serialize_map(Some(1))?;
        match value {
            Value::String(text) => map.serialize_entry("stringValue", text)?,
            Value::Bool(flag) => map.serialize_entry("boolValue", flag)?,
            Value::Int(number) => map.serialize_entry("intValue", &number.to_string())?,
            Value::Double(number) if number.is_finite() => {
                map.serialize_entry("doubleValue", number)?;
            }
            Value::Double(number) => map.serialize_entry("doubleValue", not_finite(*number))?,
            Value::Array(array) => map.serialize_entry("arrayValue", array)?,
            Value::KeyValues(object) => map.serialize_entry("kvlistValue", object)?,
            Value::Bytes(bytes) => map.serialize_entry("bytesValue", &BASE64.encode(bytes))?,
        }
        map.end()
    }
}

/// How JSON writes a number that is not finite.
pub(super) fn not_finite(number: f64) -> &'static str {
    if number.is_nan() {
        "NaN"
    } else if number > 0.0 {
        "Infinity"
    } else {
        "-Infinity"
    }
}

impl<'de> Deserialize<'de> for AnyValue {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<AnyValue, D::Error> {
        from.deserialize_any(AnyValueVisitor)
    }
}

struct AnyValueVisitor;

impl<'de> Visitor<'de> for AnyValueVisitor {
    type Value = AnyValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with the value under the name of its type, such as stringValue")
    }

    fn visit_unit<E>(self) -> Result<AnyValue, E> {
        Ok(AnyValue::default())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<AnyValue, A::Error> {
        let mut value = None;
        while let Some(key) = map.next_key::<Box<str>>()? {
            let given = match &*key {
                "stringValue" | "string_value" => {
                    map.next_value::<Option<String>>()?.map(Value::String)
                }
                "boolValue" | "bool_value" => map.next_value::<Option<bool>>()?.map(Value::Bool),
                "intValue" | "int_value" => Some(Value::Int(map.next_value::<Whole>()?.0)),
                "doubleValue" | "double_value" => {
                    Some(Value::Double(map.next_value::<Double>()?.0))
                }
                "arrayValue" | "array_value" => {
                    map.next_value::<Option<ArrayValue>>()?.map(Value::Array)
                }
                "kvlistValue" | "kvlist_value" => map
                    .next_value::<Option<KeyValueList>>()?
                    .map(Value::KeyValues),
                "bytesValue" | "bytes_value" => {
                    let text = map.next_value::<Option<String>>()?;
                    let bytes = text.map(|text| BASE64.decode(&text).map_err(|_| text));
                    let bytes = bytes.transpose().map_err(|text| {
                        let shown: String = text.chars().take(40).collect();
                        de::Error::custom(format!("bytesValue {shown:?} is not base64"))
                    })?;
                    bytes.map(Value::Bytes)
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                    None
                }
            };
            value = given.or(value);
        }
        Ok(AnyValue { value })
    }
}

struct Whole(i64);

impl<'de> Deserialize<'de> for Whole {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Whole, D::Error> {
        number_within(from).map(Whole)
    }
}

struct Double(f64);

impl<'de> Deserialize<'de> for Double {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Double, D::Error> {
        struct Any;
        impl Visitor<'_> for Any {
            type Value = f64;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number, \"NaN\", \"Infinity\" or \"-Infinity\"")
            }

            fn visit_f64<E>(self, number: f64) -> Result<f64, E> {
                Ok(number)
            }

            #[allow(clippy::cast_precision_loss)]
            fn visit_u64<E>(self, number: u64) -> Result<f64, E> {
                Ok(number as f64)
            }

            #[allow(clippy::cast_precision_loss)]
            fn visit_i64<E>(self, number: i64) -> Result<f64, E> {
                Ok(number as f64)
            }

            fn visit_unit<E>(self) -> Result<f64, E> {
                Ok(0.0)
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<f64, E> {
                let number = text.parse();
                number.map_err(|_| E::invalid_value(de::Unexpected::Str(text), &self))
            }
        }
        from.deserialize_any(Any).map(Double)
    }
}
