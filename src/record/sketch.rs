//! Compact distribution of values: yields a median or 95th percentile after the values were
//! removed.

// A double represents any number much more exactly than 1 %, and the logarithm of a number from 1
// upwards is not negative.
#![allow(clippy::cast_precision_loss, clippy::cast_sign_loss)]

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Ratio of the upper bounds of adjacent buckets. The middle of a bucket is within 1 % of every
/// value in it.
const GROWTH: f64 = 1.02;

/// The bucket of the maximum value.
const BUCKET_MAX: u16 = 2_242;

/// Counts of non-negative integers, such as milliseconds, in buckets with exponentially growing
/// bounds. A quantile is within 1 % of the exact one, for any number of values. Two sketches can be
/// merged into the sketch of all their values.
///
/// In JSON it is `[[bucket,count],…]`, sorted by bucket. Bucket 0 contains the zeros, and bucket
/// `b` the numbers above `1.02^(b-2)` up to `1.02^(b-1)`.
///
/// ```
/// let mut latencies = decklog::record::Sketch::default();
/// for ms in 1..=100 {
///     latencies.add(ms);
/// }
/// let p95 = latencies.quantile(0.95).unwrap();
/// assert!((p95 - 95.0).abs() <= 0.95);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sketch {
    /// Sorted by bucket. No count is 0.
    counts: Vec<(u16, u64)>,
}

impl Sketch {
    /// Adds a value.
    pub fn add(&mut self, value: u64) {
        self.add_to(bucket_of(value), 1);
    }

    /// Adds all values of another sketch.
    pub fn merge(&mut self, other: &Sketch) {
        self.counts.extend_from_slice(&other.counts);
        // Both are sorted, and the stable sort merges two sorted runs in one pass.
        self.counts.sort_by_key(|(bucket, _)| *bucket);
        self.counts.dedup_by(|(bucket, more), (kept, count)| {
            let is_same = bucket == kept;
            if is_same {
                *count = count.saturating_add(*more);
            }
            is_same
        });
    }

    /// This sketch without the values of another one, which must be part of it.
    pub(super) fn without(&self, part: &Sketch) -> Sketch {
        let mut less = part.counts.iter().peekable();
        let left = self.counts.iter().filter_map(|(bucket, count)| {
            while less.next_if(|(other, _)| other < bucket).is_some() {}
            let same = less.peek().filter(|(other, _)| other == bucket);
            let left = count.saturating_sub(same.map_or(0, |(_, count)| *count));
            (left > 0).then_some((*bucket, left))
        });
        Sketch {
            counts: left.collect(),
        }
    }

    fn add_to(&mut self, bucket: u16, count: u64) {
        let place = self
            .counts
            .binary_search_by_key(&bucket, |(known, _)| *known);
        match place {
            Ok(place) => {
                let sum = &mut self.counts[place].1;
                *sum = sum.saturating_add(count);
            }
            Err(place) => self.counts.insert(place, (bucket, count)),
        }
    }

    /// Number of values.
    pub fn count(&self) -> u64 {
        let counts = self.counts.iter();
        counts.fold(0, |sum, (_, count)| sum.saturating_add(*count))
    }

    /// The q-quantile, for `q` from 0 to 1, within 1 %: the median for 0.5. `None` if there are no
    /// values.
    pub fn quantile(&self, q: f64) -> Option<f64> {
        quantile(self.count(), self.counts.iter().copied(), q)
    }
}

/// Like [`Sketch::quantile`], for `count` values in buckets in ascending order.
fn quantile(count: u64, buckets: impl Iterator<Item = (u16, u64)>, q: f64) -> Option<f64> {
    let rank = (q.clamp(0.0, 1.0) * count as f64).ceil().max(1.0);
    let mut sum = 0_u64;
    let mut buckets = buckets.map(|(bucket, count)| {
        sum = sum.saturating_add(count);
        (bucket, sum)
    });
    let found = buckets.find(|(_, sum)| *sum as f64 >= rank);
    found.map(|(bucket, _)| middle_of(bucket))
}

/// The sum of many sketches, with an array of all buckets.
#[derive(Debug)]
pub(crate) struct DenseSketch {
    counts: Vec<u64>,
    count: u64,
    /// The first non-empty bucket, and the one after the last.
    used: (u16, u16),
}

impl DenseSketch {
    pub(crate) fn new() -> DenseSketch {
        DenseSketch {
            counts: vec![0; usize::from(BUCKET_MAX) + 1],
            count: 0,
            used: (BUCKET_MAX, 0),
        }
    }

    /// Adds all values of a sketch.
    pub(crate) fn merge(&mut self, sketch: &Sketch) {
        let (Some((first, _)), Some((last, _))) = (sketch.counts.first(), sketch.counts.last())
        else {
            return;
        };
        self.used = (self.used.0.min(*first), self.used.1.max(last + 1));
        for (bucket, more) in &sketch.counts {
            let sum = &mut self.counts[usize::from(*bucket)];
            *sum = sum.saturating_add(*more);
            self.count = self.count.saturating_add(*more);
        }
    }

    /// As [`Sketch::quantile`].
    pub(crate) fn quantile(&self, q: f64) -> Option<f64> {
        let buckets = (self.used.0..self.used.1).map(|bucket| {
            let count = self.counts[usize::from(bucket)];
            (bucket, count)
        });
        quantile(self.count, buckets, q)
    }

    /// The number of values up to each of these bounds, which ascend, and above the bound before;
    /// last the number of larger values. A value within 2 % above a bound may count as up to it.
    pub(crate) fn histogram(&self, bounds: &[u64]) -> Vec<u64> {
        let mut counts = vec![0_u64; bounds.len() + 1];
        let bounds: Vec<u16> = bounds.iter().map(|bound| bucket_of(*bound)).collect();
        for bucket in self.used.0..self.used.1 {
            let place = bounds.partition_point(|bound| *bound < bucket);
            let sum = &mut counts[place];
            *sum = sum.saturating_add(self.counts[usize::from(bucket)]);
        }
        counts
    }

    /// Removes all values.
    pub(crate) fn clear(&mut self) {
        if self.count > 0 {
            self.counts[usize::from(self.used.0)..usize::from(self.used.1)].fill(0);
        }
        (self.count, self.used) = (0, (BUCKET_MAX, 0));
    }
}

fn bucket_of(value: u64) -> u16 {
    if value == 0 {
        return 0;
    }
    // The logarithm of the maximum is 2241.
    1 + ((value as f64).ln() / GROWTH.ln()).ceil() as u16
}

/// The geometric middle of a bucket.
fn middle_of(bucket: u16) -> f64 {
    if bucket == 0 {
        return 0.0;
    }
    2.0 * GROWTH.powi(i32::from(bucket) - 1) / (GROWTH + 1.0)
}

impl Serialize for Sketch {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(&self.counts)
    }
}

impl<'de> Deserialize<'de> for Sketch {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Sketch, D::Error> {
        let mut sketch = Sketch::default();
        // The buckets of a line are sorted, so each is appended at the end.
        for (bucket, count) in Vec::<(u16, u64)>::deserialize(deserializer)? {
            if bucket > BUCKET_MAX {
                let message = format!("there is no bucket {bucket}: the last is {BUCKET_MAX}");
                return Err(D::Error::custom(message));
            }
            if count > 0 {
                sketch.add_to(bucket, count);
            }
        }
        Ok(sketch)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sketch(values: &[u64]) -> Sketch {
        let mut sketch = Sketch::default();
        for value in values {
            sketch.add(*value);
        }
        sketch
    }

    /// Values of all magnitudes.
    fn values() -> impl Strategy<Value = Vec<u64>> {
        let value = (any::<u64>(), 0..64u32).prop_map(|(value, bits)| value >> bits);
        proptest::collection::vec(value, 1..300)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1_000))]

        #[test]
        fn a_quantile_is_within_one_percent_of_the_exact_one(mut values in values(), q in 0.0..=1.0f64) {
            let found = sketch(&values).quantile(q).unwrap();
            values.sort_unstable();
            let rank = (q * values.len() as f64).ceil().max(1.0) as usize;
            let exact = values[rank - 1] as f64;
            prop_assert!((found - exact).abs() <= exact / 100.0, "{found} for {exact}");
        }

        #[test]
        fn parts_add_up_to_the_whole(values in values(), cut in any::<prop::sample::Index>()) {
            let (one, other) = values.split_at(cut.index(values.len()));
            let mut sum = sketch(one);
            sum.merge(&sketch(other));
            prop_assert_eq!(&sum, &sketch(&values));
            prop_assert_eq!(sum.count(), values.len() as u64);
            prop_assert_eq!(&sum.without(&sketch(one)), &sketch(other));
            let mut dense = DenseSketch::new();
            dense.merge(&sketch(&[7, u64::MAX]));
            dense.clear();
            dense.merge(&sketch(one));
            dense.merge(&sketch(other));
            for q in [0.0, 0.5, 0.95, 1.0] {
                prop_assert_eq!(dense.quantile(q), sum.quantile(q));
            }
            let json = serde_json::to_string(&sum).unwrap();
            prop_assert_eq!(serde_json::from_str::<Sketch>(&json).unwrap(), sum);
        }
    }

    /// Stored sketches must have the same meaning in every version.
    #[test]
    fn buckets_are_where_they_always_were() {
        let bounds = [
            (0, 0),
            (1, 1),
            (2, 37),
            (1_000, 350),
            (60_000, 557),
            (u64::MAX, BUCKET_MAX),
        ];
        for (value, bucket) in bounds {
            assert_eq!(bucket_of(value), bucket, "{value}");
        }
    }

    #[test]
    fn nothing_has_no_quantile_and_no_bucket_is_past_the_last() {
        assert_eq!(Sketch::default().quantile(0.5), None);
        assert_eq!(DenseSketch::new().quantile(0.5), None);
        let past = format!("[[{},1]]", BUCKET_MAX + 1);
        assert!(serde_json::from_str::<Sketch>(&past).is_err());
        let none: Sketch = serde_json::from_str("[[7,0]]").unwrap();
        assert_eq!(none, Sketch::default());
        let most: Sketch = serde_json::from_str(&format!("[[1,{0}],[2,{0}]]", u64::MAX)).unwrap();
        assert_eq!(most.count(), u64::MAX);
        assert!(most.quantile(1.0).is_some());
    }
}
