//! How are vectors and their predicates represented?
//!
//! A [`VectorCollection`] holds rows of one dimension, f32 or f64, in the order of the input, so row numbers are
//! those of the input. Every element is finite.
//!
//! Rows that are equal bit by bit are one *entry*: they are joined once and expanded by the sink, as repeated sets are.
//! Entries keep the order of their first rows. (0 and −0 are equal numbers of different bits: they stay two entries,
//! which a join finds at distance 0.)
//!
//! # Memory
//!
//! If rows repeat, a collection takes the elements of its entries, and 4 bytes an entry and 8 bytes a row in addition.
//! `repeats.rs` says what finding them takes.
//!
//! # The predicate
//!
//! * [`VectorMeasure::Euclidean`]: `Σ(aᵢ−bᵢ)² ≤ ε·ε`. ε is the f64 nearest to the decimal text, squared and
//!   rounded once; the sum is computed in f64 in the one order of `simjoin_kernels::distance`.
//! * [`VectorMeasure::Cosine`]: `a·b ≥ T·√((a·a)·(b·b))`, with `a·b` in the same order, and each of the
//!   three further operations rounded once. Equal rows have a cosine of exactly 1. A row
//!   whose `a·a` is not between 10⁻¹⁵⁰ and 10¹⁵⁰ has no direction in f64, and is refused.
//!
//! So the answer is that of a simple loop over all pairs in f64, on every processor.

mod repeats;

use crate::{Error, Result};
use rayon::prelude::*;
use repeats::{Bits, Repeats, hash, merge};
use std::fmt;

/// The numbers of a collection, row by row.
#[derive(Clone, Debug, PartialEq)]
pub enum Elements {
    /// Single precision.
    F32(Vec<f32>),
    /// Double precision.
    F64(Vec<f64>),
}

impl Elements {
    fn len(&self) -> usize {
        match self {
            Elements::F32(all) => all.len(),
            Elements::F64(all) => all.len(),
        }
    }

    /// Returns the first element that is not finite, and its place.
    fn first_not_finite(&self) -> Option<(usize, f64)> {
        fn find<T: Bits + Into<f64>>(all: &[T]) -> Option<(usize, f64)> {
            const PIECE: usize = 1 << 14;
            // Every element of a piece is looked at, so that vector instructions do it.
            let wrong = |some: &[T]| some.iter().fold(false, |any, x| any | !x.is_finite());
            let piece = all.par_chunks(PIECE).with_min_len(128).position_first(wrong)?;
            let at = PIECE * piece + all[PIECE * piece..].iter().position(|x| !x.is_finite())?;
            Some((at, all[at].into()))
        }
        match self {
            Elements::F32(all) => find(all),
            Elements::F64(all) => find(all),
        }
    }
}

/// Vectors of one dimension.
#[derive(Clone, Debug, PartialEq)]
pub struct VectorCollection {
    name: String,
    dimension: usize,
    elements: Elements,
    /// `None` if each row is an entry.
    repeats: Option<Repeats>,
}

impl VectorCollection {
    /// Makes a collection of the elements of all rows, one row after another. Messages use the name, such as that of a
    /// file. Runs on the current rayon pool.
    pub fn new(name: &str, dimension: usize, elements: Elements) -> Result<Self> {
        let mut all = Self::of_entries(name, dimension, elements)?;
        all.repeats = match &mut all.elements {
            Elements::F32(elements) => merge(elements, dimension, hash::<f32>),
            Elements::F64(elements) => merge(elements, dimension, hash::<f64>),
        };
        Ok(all)
    }

    /// Makes a collection in which each row is an entry, even if it equals another one.
    pub fn of_entries(name: &str, dimension: usize, elements: Elements) -> Result<Self> {
        let count = elements.len();
        if dimension == 0 && count == 0 {
            return Err(Error::input(
                name,
                "",
                "the vectors have no dimension; expected at least 1",
            ));
        }
        if dimension == 0 || !count.is_multiple_of(dimension) {
            return Err(Error::input(
                name,
                "",
                format!(
                    "{count} numbers are not a whole number of vectors of dimension {dimension}"
                ),
            ));
        }
        if count / dimension > u32::MAX as usize {
            return Err(Error::input(name, "", "more than 4,294,967,295 rows"));
        }
        if let Some((at, value)) = elements.first_not_finite() {
            let what = if value.is_nan() { "NaN" } else { "infinite" };
            return Err(Error::input(
                name,
                format!("row {} (counting from 0)", at / dimension),
                format!("element {} is {what}; finite numbers were expected", at % dimension),
            ));
        }
        Ok(VectorCollection { name: name.to_owned(), dimension, elements, repeats: None })
    }

    /// Returns the name of the collection in messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the number of elements of a vector.
    pub fn dimension(&self) -> usize {
        self.dimension
    }

    /// Returns the number of entries, which are distinct vectors.
    pub fn len(&self) -> usize {
        self.elements.len() / self.dimension
    }

    /// Returns whether there is no vector.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of rows that were read.
    pub fn records(&self) -> usize {
        self.repeats.as_ref().map_or(self.len(), |repeats| repeats.entries.len())
    }

    /// Returns whether some entry has more than one row.
    pub fn has_repeats(&self) -> bool {
        self.repeats.is_some()
    }

    /// Returns the rows that are an entry, ascending; at least one.
    #[inline]
    pub fn rows<'r>(&'r self, entry: &'r u32) -> &'r [u32] {
        self.repeats.as_ref().map_or(std::slice::from_ref(entry), |repeats| repeats.rows(*entry))
    }

    /// Returns the entry of a row.
    pub fn entry_of(&self, row: u32) -> u32 {
        self.repeats.as_ref().map_or(row, |repeats| repeats.entries[row as usize])
    }

    /// Returns the elements of all entries.
    pub fn elements(&self) -> &Elements {
        &self.elements
    }

    /// Returns the bytes of all elements.
    pub fn bytes(&self) -> u64 {
        match &self.elements {
            Elements::F32(all) => 4 * all.len() as u64,
            Elements::F64(all) => 8 * all.len() as u64,
        }
    }

    /// Converts the vectors to double precision, which is exact.
    pub fn widened(self) -> Self {
        let elements = match self.elements {
            Elements::F32(all) => Elements::F64(all.into_iter().map(f64::from).collect()),
            wide => wide,
        };
        VectorCollection { elements, ..self }
    }

    /// Writes a row to `out`, in double precision.
    pub fn row(&self, row: usize, out: &mut Vec<f64>) {
        self.entry(self.entry_of(row as u32) as usize, out);
    }

    /// Writes an entry to `out`, in double precision.
    pub fn entry(&self, entry: usize, out: &mut Vec<f64>) {
        let range = entry * self.dimension..(entry + 1) * self.dimension;
        out.clear();
        match &self.elements {
            Elements::F32(all) => out.extend(all[range].iter().map(|&x| f64::from(x))),
            Elements::F64(all) => out.extend_from_slice(&all[range]),
        }
    }
}

/// How the nearness of two vectors is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum VectorMeasure {
    /// `√Σ(aᵢ−bᵢ)²`, at most the threshold.
    Euclidean,
    /// `a·b / (|a|·|b|)`, at least the threshold.
    Cosine,
}

/// A measure and a threshold: the condition that a pair must satisfy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VectorPredicate {
    measure: VectorMeasure,
    threshold: f64,
}

impl VectorPredicate {
    /// Accepts pairs within a distance: 0, or a decimal between 10⁻¹⁵⁰ and 10¹⁵⁰, so that its square is a
    /// normal number.
    pub fn within(text: &str) -> Result<Self> {
        let wrong = |why: &str| {
            Error::Config(format!(
                "distance {text:?} {why}; expected a number from 0, such as 0.25"
            ))
        };
        let threshold: f64 = number(text).ok_or_else(|| wrong("is not a number"))?;
        if threshold < 0.0 {
            return Err(wrong("is negative"));
        }
        if threshold != 0.0 && !(1e-150..=1e150).contains(&threshold) {
            return Err(wrong("is not between 1e-150 and 1e150"));
        }
        // The sign of a zero is ignored.
        Ok(VectorPredicate { measure: VectorMeasure::Euclidean, threshold: threshold.abs() })
    }

    /// Accepts pairs with at least a cosine: a decimal from −1 to 1.
    pub fn cosine(text: &str) -> Result<Self> {
        let wrong = |why: &str| {
            Error::Config(format!(
                "cosine {text:?} {why}; expected a number from -1 to 1, such as 0.9"
            ))
        };
        let threshold: f64 = number(text).ok_or_else(|| wrong("is not a number"))?;
        if !(-1.0..=1.0).contains(&threshold) {
            return Err(wrong("is out of range"));
        }
        Ok(VectorPredicate { measure: VectorMeasure::Cosine, threshold })
    }

    /// Returns the measure.
    pub fn measure(&self) -> VectorMeasure {
        self.measure
    }

    /// Returns the threshold.
    pub fn threshold(&self) -> f64 {
        self.threshold
    }

    /// Returns the largest `Σ(aᵢ−bᵢ)²` of a pair.
    pub fn limit(&self) -> f64 {
        self.threshold * self.threshold
    }

    /// Returns the cosine of vectors with these products, for the output; see [`accepts`](Self::accepts).
    pub fn cosine_of(ab: f64, aa: f64, bb: f64) -> f64 {
        ab / (aa * bb).sqrt()
    }

    /// Returns whether vectors with these products, `a·b`, `a·a` and `b·b`, satisfy the threshold.
    pub fn accepts(&self, ab: f64, aa: f64, bb: f64) -> bool {
        ab >= self.threshold * (aa * bb).sqrt()
    }

    /// Returns whether a vector with this `a·a` has a direction.
    pub fn has_direction(aa: f64) -> bool {
        (1e-150..=1e150).contains(&aa)
    }
}

impl fmt::Display for VectorPredicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.measure {
            VectorMeasure::Euclidean => write!(f, "distance ≤ {}", self.threshold),
            VectorMeasure::Cosine => write!(f, "cosine ≥ {}", self.threshold),
        }
    }
}

/// Reads a decimal, with or without an exponent, or a fraction, without words or spaces. The parts of a
/// fraction are exact in f64, so their quotient is the f64 nearest to it.
fn number(text: &str) -> Option<f64> {
    const EXACT: u64 = 1 << 53;
    if let Some((p, q)) = text.split_once('/') {
        let part = |text: &str| {
            let digits = text.bytes().all(|byte| byte.is_ascii_digit());
            text.parse::<u64>().ok().filter(|&number| digits && number <= EXACT)
        };
        return Some(part(p)? as f64 / part(q).filter(|&q| q > 0)? as f64);
    }
    let plain = |byte: u8| byte.is_ascii_digit() || b"+-.eE".contains(&byte);
    text.bytes().all(plain).then(|| text.parse().ok()).flatten().filter(|x: &f64| x.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_checked_and_named() {
        let new = |dimension, all: &[f32]| {
            VectorCollection::new("f", dimension, Elements::F32(all.to_vec()))
        };
        let rows = new(2, &[1.0, 2.0, 3.0, 4.0]).unwrap();
        assert_eq!((rows.len(), rows.dimension(), rows.bytes()), (2, 2, 16));
        let mut row = Vec::new();
        rows.widened().row(1, &mut row);
        assert_eq!(row, [3.0, 4.0]);
        for (dimension, all, message) in [
            (
                2,
                vec![0.0, 1.0, f32::NAN, 0.0],
                "f: row 1 (counting from 0): element 0 is NaN; finite numbers were expected",
            ),
            (
                1,
                vec![1.0, 2.0, f32::INFINITY],
                "f: row 2 (counting from 0): element 0 is infinite; finite",
            ),
            (3, vec![0.0; 4], "f: 4 numbers are not a whole number of vectors of dimension 3"),
            (0, vec![], "f: the vectors have no dimension"),
            (0, vec![1.0], "of dimension 0"),
        ] {
            let error = new(dimension, &all).unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
        let mut many = vec![0.5; 3 * 10_000];
        many[29_999] = f32::NEG_INFINITY;
        let error = new(3, &many).unwrap_err().to_string();
        assert!(error.contains("row 9999 (counting from 0): element 2 is infinite"), "{error}");
        assert!(new(4, &[]).unwrap().is_empty());
        let large = Elements::F64(vec![f64::MAX; 5000]);
        assert!(VectorCollection::new("f", 1, large).is_ok());
    }

    #[test]
    fn equal_rows_are_one_entry() {
        for d in [1, 2, 5] {
            for kinds in [1u32, 3, 40, 1000] {
                let kind = |row: u32| row.wrapping_mul(0x9e37_79b9) >> 8;
                let number = |row: u32, i: usize| f64::from(kind(row) % kinds + i as u32);
                let all: Vec<f64> =
                    (0..300).flat_map(|row| (0..d).map(move |i| number(row, i))).collect();
                let narrow = Elements::F32(all.iter().map(|&x| x as f32).collect());
                for elements in [Elements::F64(all.clone()), narrow] {
                    let merged = VectorCollection::new("f", d, elements.clone()).unwrap();
                    let plain = VectorCollection::of_entries("f", d, elements).unwrap();
                    assert_eq!((merged.records(), plain.records(), plain.len()), (300, 300, 300));
                    assert_eq!(merged.has_repeats(), merged.len() < 300);
                    let (mut a, mut b, mut seen) = (Vec::new(), Vec::new(), 0);
                    let mut firsts = Vec::new();
                    for entry in 0..merged.len() as u32 {
                        let rows = merged.rows(&entry);
                        assert!(rows.is_sorted());
                        for &row in rows {
                            assert_eq!(merged.entry_of(row), entry);
                            merged.row(row as usize, &mut a);
                            plain.row(row as usize, &mut b);
                            assert_eq!(a, b);
                        }
                        seen += rows.len();
                        firsts.push(rows[0]);
                    }
                    assert!(seen == 300 && firsts.is_sorted());
                    let distinct: std::collections::BTreeSet<u32> =
                        (0..300).map(|row| kind(row) % kinds).collect();
                    assert_eq!(merged.len(), distinct.len());
                }
            }
        }
        let zeros = VectorCollection::new("f", 1, Elements::F64(vec![0.0, -0.0, 0.0])).unwrap();
        assert_eq!((zeros.len(), zeros.rows(&1)), (2, &[1][..]));
        assert!(!VectorCollection::new("f", 2, Elements::F32(vec![])).unwrap().has_repeats());
    }

    #[test]
    fn thresholds_are_numbers_in_range() {
        assert_eq!(VectorPredicate::within("0.1").unwrap().limit(), 0.1 * 0.1);
        assert_eq!(VectorPredicate::within("0").unwrap().limit(), 0.0);
        assert_eq!(VectorPredicate::within("1e3").unwrap().threshold(), 1000.0);
        assert_eq!(VectorPredicate::within("+0.8").unwrap().threshold(), 0.8);
        assert_eq!(VectorPredicate::within("1/792").unwrap().threshold(), 1.0 / 792.0);
        assert_eq!(VectorPredicate::cosine("2/3").unwrap().threshold(), 2.0 / 3.0);
        assert_eq!(VectorPredicate::cosine("-0.5").unwrap().threshold(), -0.5);
        for text in [
            "", "x", "NaN", "inf", "-1", "1e-200", "1e200", "1e400", " 1", "0,5", "1/0", "/2",
            "+1/2",
        ] {
            let message = VectorPredicate::within(text).unwrap_err().to_string();
            assert!(message.contains("such as 0.25"), "{message}");
        }
        for text in ["", "x", "1.01", "-1.5", "NaN", "infinity"] {
            let message = VectorPredicate::cosine(text).unwrap_err().to_string();
            assert!(message.contains("such as 0.9"), "{message}");
        }
    }

    #[test]
    fn equal_rows_have_a_cosine_of_one() {
        let one = VectorPredicate::cosine("1").unwrap();
        for aa in [2.0f64, 0.1, 3.7e-140, 1e149, 1.0 / 3.0, 6.02e23] {
            assert!(VectorPredicate::has_direction(aa));
            assert!(one.accepts(aa, aa, aa));
            assert_eq!(VectorPredicate::cosine_of(aa, aa, aa), 1.0);
        }
        assert!(
            !VectorPredicate::has_direction(0.0) && !VectorPredicate::has_direction(f64::INFINITY)
        );
        // 24 / (5·5) is the decimal 0.96.
        assert!(VectorPredicate::cosine("0.96").unwrap().accepts(24.0, 25.0, 25.0));
        assert!(!VectorPredicate::cosine("0.9600001").unwrap().accepts(24.0, 25.0, 25.0));
    }
}
