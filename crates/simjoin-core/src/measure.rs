//! Which pairs does the user want?

use crate::bounds::LARGEST_EXACT;
use crate::{Error, Result, Threshold};
use std::fmt;

/// A measure of the similarity of two sets `r` and `s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Measure {
    /// `|r∩s| / |r∪s|`
    Jaccard,
    /// `|r∩s| / √(|r|·|s|)`
    Cosine,
    /// `2·|r∩s| / (|r|+|s|)`
    Dice,
    /// `|r∩s|`
    Overlap,
    /// `|r∩s| / min(|r|,|s|)`
    Containment,
}

impl Measure {
    /// Every measure, in the order of the documentation.
    pub const ALL: [Measure; 5] =
        [Measure::Jaccard, Measure::Cosine, Measure::Dice, Measure::Overlap, Measure::Containment];

    /// Returns the name used on the command line and in statistics.
    pub fn name(self) -> &'static str {
        match self {
            Measure::Jaccard => "jaccard",
            Measure::Cosine => "cosine",
            Measure::Dice => "dice",
            Measure::Overlap => "overlap",
            Measure::Containment => "containment",
        }
    }

    /// Returns the similarity for the output. It never decides anything: decisions are made in
    /// integers by [`Bounds`](crate::Bounds).
    pub fn similarity(self, left: u32, right: u32, overlap: u32) -> f64 {
        let (l, r, o) = (f64::from(left), f64::from(right), f64::from(overlap));
        match self {
            Measure::Jaccard => o / (l + r - o),
            Measure::Cosine => o / (l * r).sqrt(),
            Measure::Dice => 2.0 * o / (l + r),
            Measure::Overlap => o,
            Measure::Containment => o / l.min(r),
        }
    }
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A measure together with the threshold that a pair must reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Predicate {
    measure: Measure,
    threshold: Threshold,
}

impl Predicate {
    /// Reads the threshold for a measure: a whole number from 1 for overlap, otherwise a decimal
    /// (or fraction) above 0 and at most 1. For cosine it has 18 decimals at most.
    pub fn parse(measure: Measure, text: &str) -> Result<Self> {
        let threshold = match measure {
            Measure::Overlap => Threshold::parse_count(text)?,
            _ => Threshold::parse_ratio(text)?,
        };
        if measure == Measure::Cosine && threshold.denominator() > LARGEST_EXACT {
            return Err(Error::Config(format!(
                "threshold {text:?} is too long for cosine; expected at most 18 decimals, or a \
                 fraction of whole numbers up to 10¹⁸"
            )));
        }
        Ok(Predicate { measure, threshold })
    }

    /// Returns the measure.
    pub fn measure(self) -> Measure {
        self.measure
    }

    /// Returns the threshold.
    pub fn threshold(self) -> Threshold {
        self.threshold
    }
}

impl fmt::Display for Predicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ≥ {}", self.measure, self.threshold)
    }
}
