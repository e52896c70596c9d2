//! What number did the user write?
//!
//! A threshold is the exact rational number that its text denotes: `0.8` is 4/5, not the nearest
//! binary fraction. Up to [`MAX_DECIMALS`] decimals are kept, so that every product in
//! [`Bounds`](crate::Bounds) fits the integers it is computed in.

use crate::{Error, Result};
use std::fmt;

/// Decimals a threshold may have: numerator and denominator stay below 2⁶⁰.
pub const MAX_DECIMALS: usize = 18;

/// A positive rational `numerator / denominator` in lowest terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Threshold {
    numerator: u64,
    denominator: u64,
}

impl Threshold {
    /// Reads a ratio above 0 and at most 1, as a decimal (`0.8`, `.95`, `1`) or a fraction (`2/3`).
    pub fn parse_ratio(text: &str) -> Result<Self> {
        let wrong = |why: &str| {
            Error::Config(format!(
                "threshold {text:?} {why}; expected a number above 0 and at most 1, such as 0.8"
            ))
        };
        let (numerator, denominator) = match text.split_once('/') {
            Some((p, q)) => {
                let part = |text| digits(text).ok_or_else(|| wrong("is not a fraction up to 10¹⁸"));
                (part(p)?, part(q)?)
            }
            None => {
                if text.starts_with('-') && text[1..].parse::<f64>().is_ok() {
                    return Err(wrong("is negative"));
                }
                let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
                if whole.is_empty() && decimals.is_empty() {
                    return Err(wrong("is not a number"));
                }
                let decimals = decimals.trim_end_matches('0');
                if decimals.len() > MAX_DECIMALS {
                    return Err(wrong(&format!("has more than {MAX_DECIMALS} decimals")));
                }
                let whole = digits(if whole.is_empty() { "0" } else { whole })
                    .ok_or_else(|| wrong("is not a number"))?;
                let fraction = digits(if decimals.is_empty() { "0" } else { decimals })
                    .ok_or_else(|| wrong("is not a number"))?;
                let denominator = 10u128.pow(decimals.len() as u32);
                (whole * denominator + fraction, denominator)
            }
        };
        if denominator == 0 {
            return Err(wrong("divides by zero"));
        }
        if numerator == 0 {
            return Err(wrong("is zero"));
        }
        if numerator > denominator {
            return Err(wrong("is above 1"));
        }
        let divisor = gcd(numerator, denominator);
        Ok(Threshold {
            numerator: (numerator / divisor) as u64,
            denominator: (denominator / divisor) as u64,
        })
    }

    /// Reads a whole number of common tokens, at least 1.
    pub fn parse_count(text: &str) -> Result<Self> {
        match digits(text) {
            Some(n) if (1..=u128::from(u32::MAX)).contains(&n) => {
                Ok(Threshold { numerator: n as u64, denominator: 1 })
            }
            _ => Err(Error::Config(format!(
                "overlap threshold {text:?} does not fit; expected a whole number from 1, such as 5"
            ))),
        }
    }

    /// The numerator, in lowest terms.
    pub fn numerator(self) -> u64 {
        self.numerator
    }

    /// The denominator, in lowest terms; at most 10¹⁸.
    pub fn denominator(self) -> u64 {
        self.denominator
    }
}

impl fmt::Display for Threshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.denominator == 1 {
            return write!(f, "{}", self.numerator);
        }
        // A denominator of twos and fives is a finite decimal; anything else prints as a fraction.
        let mut decimals = 0u32;
        let mut power = 1u128;
        while !power.is_multiple_of(u128::from(self.denominator)) && decimals < MAX_DECIMALS as u32
        {
            power *= 10;
            decimals += 1;
        }
        if !power.is_multiple_of(u128::from(self.denominator)) {
            return write!(f, "{}/{}", self.numerator, self.denominator);
        }
        let value = u128::from(self.numerator) * (power / u128::from(self.denominator));
        write!(f, "{}.{:0width$}", value / power, value % power, width = decimals as usize)
    }
}

/// A whole number up to 10¹⁸ in plain ASCII digits: no sign, no exponent, no spaces.
fn digits(text: &str) -> Option<u128> {
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    text.parse().ok().filter(|&number| number <= 10u128.pow(MAX_DECIMALS as u32))
}

fn gcd(a: u128, b: u128) -> u128 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratio(text: &str) -> (u64, u64) {
        let t = Threshold::parse_ratio(text).unwrap();
        (t.numerator(), t.denominator())
    }

    #[test]
    fn decimals_are_exact() {
        assert_eq!(ratio("0.8"), (4, 5));
        assert_eq!(ratio(".8"), (4, 5));
        assert_eq!(ratio("0.800"), (4, 5));
        assert_eq!(ratio("0.95"), (19, 20));
        assert_eq!(ratio("0.333333"), (333_333, 1_000_000));
        assert_eq!(ratio("1"), (1, 1));
        assert_eq!(ratio("1."), (1, 1));
        assert_eq!(ratio("1.0"), (1, 1));
        assert_eq!(ratio("2/3"), (2, 3));
        assert_eq!(ratio("0.6666666666666666"), (3_333_333_333_333_333, 5_000_000_000_000_000));
        assert_eq!(ratio("0.999999999999999999"), (999_999_999_999_999_999, 10u64.pow(18)));
    }

    #[test]
    fn display_gives_the_text_back() {
        for text in ["0.8", "0.95", "0.333333", "1", "2/3", "0.05", "0.000001"] {
            assert_eq!(Threshold::parse_ratio(text).unwrap().to_string(), text);
        }
        assert_eq!(Threshold::parse_count("12").unwrap().to_string(), "12");
    }

    #[test]
    fn what_does_not_fit_is_refused_with_a_reason() {
        for (text, reason) in [
            ("0", "is zero"),
            ("0.000", "is zero"),
            ("-0.5", "is negative"),
            ("1.01", "is above 1"),
            ("80", "is above 1"),
            ("3/2", "is above 1"),
            ("1/0", "divides by zero"),
            ("NaN", "is not a number"),
            ("inf", "is not a number"),
            ("", "is not a number"),
            (".", "is not a number"),
            ("abc", "is not a number"),
            ("0,8", "is not a number"),
            ("0.8 ", "is not a number"),
            ("1e-1", "is not a number"),
            ("+0.5", "is not a number"),
            ("½", "is not a number"),
            ("0.1234567890123456789", "has more than 18 decimals"),
            ("1/9999999999999999999", "is not a fraction up to 10¹⁸"),
            ("1/x", "is not a fraction"),
            ("99999999999999999999999999999999999999999999", "is not a number"),
        ] {
            let message = Threshold::parse_ratio(text).unwrap_err().to_string();
            assert!(message.contains(reason), "{text}: {message}");
            assert!(message.contains("expected a number above 0 and at most 1"), "{message}");
        }
        for text in ["0", "-1", "1.5", "NaN", "", "five", "99999999999"] {
            let message = Threshold::parse_count(text).unwrap_err().to_string();
            assert!(message.contains("expected a whole number from 1"), "{text}: {message}");
        }
    }
}
