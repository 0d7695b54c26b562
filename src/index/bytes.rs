//! Little-endian encoding of values, for the files in `cache/`.

use std::collections::HashMap;
use std::hash::Hash;

use super::dump::OPS;
use super::entry::Loc;
use super::rows::RowId;
use crate::line::Op;

/// A value that can be encoded.
pub(crate) trait Codec: Sized {
    /// The least number of bytes of an encoded value.
    const BYTES_MIN: usize;

    fn encode(&self, out: &mut Vec<u8>);

    /// Decodes the next value. The input is not trusted: `None` if bytes are missing or invalid.
    fn decode(from: &mut In<'_>) -> Option<Self>;
}

/// The remaining input.
#[derive(Debug, Clone, Copy)]
pub(crate) struct In<'a> {
    pub bytes: &'a [u8],
    /// Segment numbers of lines must be less than this.
    pub segments: u32,
}

impl In<'_> {
    /// The number of items that follow, each of at least `bytes_min` bytes; `None` if the remaining
    /// input cannot hold them.
    pub(super) fn count(&mut self, bytes_min: usize) -> Option<usize> {
        let count = usize::try_from(u64::decode(self)?).ok()?;
        (count <= self.bytes.len() / bytes_min.max(1)).then_some(count)
    }
}

/// Implements [`Codec`] for numbers.
macro_rules! numbers {
    ($($number:ty)+) => {$(
        impl Codec for $number {
            const BYTES_MIN: usize = size_of::<$number>();

            fn encode(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }

            fn decode(from: &mut In<'_>) -> Option<$number> {
                let (taken, rest) = from.bytes.split_first_chunk()?;
                from.bytes = rest;
                Some(<$number>::from_le_bytes(*taken))
            }
        }
    )+};
}

/// Implements [`Codec`] for a struct as its fields, in this order. They have at least
/// `$bytes_min` bytes.
macro_rules! fields {
    ($type:ident, $bytes_min:expr, $($field:ident)+) => {
        impl Codec for $type {
            const BYTES_MIN: usize = $bytes_min;

            fn encode(&self, out: &mut Vec<u8>) {
                $(self.$field.encode(out);)+
            }

            fn decode(from: &mut In<'_>) -> Option<$type> {
                Some($type { $($field: Codec::decode(from)?,)+ })
            }
        }
    };
}
pub(super) use fields;

/// Implements [`Codec`] for a type by converting it to another one and back. `$back` returns `None`
/// for what is invalid.
macro_rules! encoded_as {
    ($other:ty, $type:ty, $to:expr, $back:expr) => {
        impl $crate::index::Codec for $type {
            const BYTES_MIN: usize = <$other as $crate::index::Codec>::BYTES_MIN;

            fn encode(&self, out: &mut Vec<u8>) {
                let to: fn(&$type) -> $other = $to;
                $crate::index::Codec::encode(&to(self), out);
            }

            fn decode(from: &mut $crate::index::In<'_>) -> Option<$type> {
                let back: fn($other) -> Option<$type> = $back;
                back($crate::index::Codec::decode(from)?)
            }
        }
    };
}
pub(crate) use encoded_as;

numbers!(u8 u32 u64 i64);
encoded_as!(u8, bool, |flag| u8::from(*flag), |byte| {
    (byte < 2).then_some(byte == 1)
});
encoded_as!(u8, Op, |op| *op as u8, |number| OPS
    .get(usize::from(number))
    .copied());
encoded_as!(u32, RowId, |row| row.0, |number| Some(RowId(number)));

impl Codec for Loc {
    const BYTES_MIN: usize = 8;

    fn encode(&self, out: &mut Vec<u8>) {
        (self.segment, self.offset).encode(out);
    }

    fn decode(from: &mut In<'_>) -> Option<Loc> {
        let (segment, offset) = Codec::decode(from)?;
        let loc = Loc { segment, offset };
        (segment < from.segments || !loc.is_some()).then_some(loc)
    }
}

impl<A: Codec, B: Codec> Codec for (A, B) {
    const BYTES_MIN: usize = A::BYTES_MIN + B::BYTES_MIN;

    fn encode(&self, out: &mut Vec<u8>) {
        self.0.encode(out);
        self.1.encode(out);
    }

    fn decode(from: &mut In<'_>) -> Option<(A, B)> {
        Some((A::decode(from)?, B::decode(from)?))
    }
}

impl<T: Codec + Copy + Default, const N: usize> Codec for [T; N] {
    const BYTES_MIN: usize = T::BYTES_MIN * N;

    fn encode(&self, out: &mut Vec<u8>) {
        for item in self {
            item.encode(out);
        }
    }

    fn decode(from: &mut In<'_>) -> Option<[T; N]> {
        let mut items = [T::default(); N];
        for item in &mut items {
            *item = T::decode(from)?;
        }
        Some(items)
    }
}

/// Encodes the number of items, then each.
pub(super) fn encode_items<'a, T: Codec + 'a>(
    items: impl ExactSizeIterator<Item = &'a T>,
    out: &mut Vec<u8>,
) {
    (items.len() as u64).encode(out);
    items.for_each(|item| item.encode(out));
}

impl<T: Codec> Codec for Vec<T> {
    const BYTES_MIN: usize = u64::BYTES_MIN;

    fn encode(&self, out: &mut Vec<u8>) {
        encode_items(self.iter(), out);
    }

    fn decode(from: &mut In<'_>) -> Option<Vec<T>> {
        let count = from.count(T::BYTES_MIN)?;
        (0..count).map(|_| T::decode(from)).collect()
    }
}

/// Encoded as a list of at most one item.
impl<T: Codec> Codec for Option<T> {
    const BYTES_MIN: usize = u64::BYTES_MIN;

    fn encode(&self, out: &mut Vec<u8>) {
        encode_items(self.iter(), out);
    }

    fn decode(from: &mut In<'_>) -> Option<Option<T>> {
        Vec::decode(from).map(|mut items| items.pop())
    }
}

impl<K: Codec + Eq + Hash, V: Codec> Codec for HashMap<K, V> {
    const BYTES_MIN: usize = u64::BYTES_MIN;

    fn encode(&self, out: &mut Vec<u8>) {
        (self.len() as u64).encode(out);
        for (key, value) in self {
            key.encode(out);
            value.encode(out);
        }
    }

    fn decode(from: &mut In<'_>) -> Option<HashMap<K, V>> {
        let count = from.count(K::BYTES_MIN + V::BYTES_MIN)?;
        let mut map = HashMap::with_capacity(count);
        for _ in 0..count {
            map.insert(K::decode(from)?, V::decode(from)?);
        }
        Some(map)
    }
}
