//! What number did the user write?
//!
//! A threshold is the exact rational number that its text denotes: `0.8` is 4/5, not the nearest
//! binary fraction. Up to [`MAX_DIGITS`] digits are exact, with an exponent or without, so every
//! float above 10⁻²² can be written by the shortest text that denotes it.
//! [`Bounds`](crate::Bounds) finds small integers that decide as the threshold does.

use crate::bounds::wide_product;
use crate::{Error, Result};
use std::cmp::Ordering;
use std::fmt;

/// Decimals a threshold may have, and digits of either part of a fraction: both stay below 2¹²⁷.
pub const MAX_DIGITS: usize = 38;

/// A positive rational `numerator / denominator` in lowest terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Threshold {
    numerator: u128,
    denominator: u128,
}

impl Threshold {
    /// Reads a ratio above 0 and at most 1, as a decimal (`0.8`, `.95`, `1`, `1e-9`) or a fraction (`2/3`).
    pub fn parse_ratio(text: &str) -> Result<Self> {
        let wrong = |why: &str| {
            Error::Config(format!(
                "threshold {text:?} {why}; expected a number above 0 and at most 1, such as 0.8"
            ))
        };
        let (numerator, denominator) = rational(text).map_err(|why| wrong(&why))?;
        if numerator == 0 {
            return Err(wrong("is zero"));
        }
        if numerator > denominator {
            return Err(wrong("is above 1"));
        }
        let divisor = gcd(numerator, denominator);
        Ok(Threshold { numerator: numerator / divisor, denominator: denominator / divisor })
    }

    /// Reads a whole number of common tokens, at least 1.
    pub fn parse_count(text: &str) -> Result<Self> {
        match rational(text) {
            Ok((n, 1)) if (1..=u128::from(u32::MAX)).contains(&n) => {
                Ok(Threshold { numerator: n, denominator: 1 })
            }
            _ => Err(Error::Config(format!(
                "overlap threshold {text:?} does not fit; expected a whole number from 1, such as 5"
            ))),
        }
    }

    /// The numerator, in lowest terms.
    pub fn numerator(self) -> u128 {
        self.numerator
    }

    /// The denominator, in lowest terms; at most 10³⁸.
    pub fn denominator(self) -> u128 {
        self.denominator
    }
}

impl Ord for Threshold {
    fn cmp(&self, other: &Self) -> Ordering {
        wide_product(self.numerator, other.denominator)
            .cmp(&wide_product(other.numerator, self.denominator))
    }
}

impl PartialOrd for Threshold {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Threshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.denominator == 1 {
            return write!(f, "{}", self.numerator);
        }
        // A denominator of twos and fives is a finite decimal; anything else prints as a fraction.
        let mut decimals = 0;
        let mut power = 1u128;
        while !power.is_multiple_of(self.denominator) && decimals < MAX_DIGITS {
            power *= 10;
            decimals += 1;
        }
        if !power.is_multiple_of(self.denominator) {
            return write!(f, "{}/{}", self.numerator, self.denominator);
        }
        let value = self.numerator * (power / self.denominator);
        write!(f, "{}.{:0decimals$}", value / power, value % power)
    }
}

/// Reads a decimal or a fraction as (numerator, denominator). The error is the reason why it is neither.
fn rational(text: &str) -> std::result::Result<(u128, u128), String> {
    let Some((p, q)) = text.split_once('/') else { return decimal(text) };
    let part = |part: &str| {
        let fits = !part.is_empty() && is_digits(part);
        let number = part.parse::<u128>().ok().filter(|&number| fits && number <= TOO_LARGE);
        number.ok_or_else(|| "is not a fraction of whole numbers up to 10³⁸".to_owned())
    };
    match (part(p)?, part(q)?) {
        (_, 0) => Err("divides by zero".into()),
        parts => Ok(parts),
    }
}

/// No number with [`MAX_DIGITS`] digits reaches this.
const TOO_LARGE: u128 = 10u128.pow(MAX_DIGITS as u32);

/// Reads a decimal such as `0.8`, `+.8` or `8e-1`. A number that is too large becomes [`TOO_LARGE`].
fn decimal(text: &str) -> std::result::Result<(u128, u128), String> {
    let (negative, unsigned) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let (mantissa, exponent) = unsigned.split_once(['e', 'E']).unwrap_or((unsigned, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = [whole, fraction].concat();
    let power = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
    if digits.is_empty() || power.is_empty() || !is_digits(&digits) || !is_digits(power) {
        return Err("is not a number".into());
    }
    if negative {
        return Err("is negative".into());
    }
    let kept = digits.trim_end_matches('0');
    let decimals = fraction.len() as i64 - (digits.len() - kept.len()) as i64;
    let significant = kept.trim_start_matches('0');
    if significant.is_empty() {
        return Ok((0, 1));
    }
    // An exponent that does not fit is far beyond every limit.
    let power =
        power.parse::<i64>().map_or(i64::from(u32::MAX), |power| power.min(u32::MAX.into()));
    let decimals = if exponent.starts_with('-') { decimals + power } else { decimals - power };
    if decimals > MAX_DIGITS as i64 {
        return Err(format!("has more than {MAX_DIGITS} decimals"));
    }
    let zeros = (-decimals).max(0);
    let number = significant
        .parse::<u128>()
        .ok()
        .filter(|_| significant.len() as i64 + zeros <= MAX_DIGITS as i64);
    let scale = |places: i64| 10u128.pow(places.max(0) as u32);
    Ok(number.map_or((TOO_LARGE, 1), |number| (number * scale(zeros), scale(decimals))))
}

fn is_digits(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

fn gcd(a: u128, b: u128) -> u128 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratio(text: &str) -> (u128, u128) {
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
        assert_eq!(ratio("0.999999999999999999"), (999_999_999_999_999_999, 10u128.pow(18)));
    }

    #[test]
    fn signs_exponents_and_long_decimals_are_exact() {
        assert_eq!(ratio("+0.8"), (4, 5));
        assert_eq!(ratio("8e-1"), (4, 5));
        assert_eq!(ratio("0.08E+1"), (4, 5));
        assert_eq!(ratio("80.0e-02"), (4, 5));
        assert_eq!(ratio("1e-9"), (1, 10u128.pow(9)));
        assert_eq!(ratio("1e-38"), (1, 10u128.pow(38)));
        assert_eq!(ratio("0.0012626262626262627"), (12_626_262_626_262_627, 10u128.pow(19)));
        let long = "99999999999999999999999999999999999999";
        assert_eq!(ratio(&format!("0.{long}")), (long.parse().unwrap(), 10u128.pow(38)));
        assert_eq!(ratio(&format!("0.8{}", "0".repeat(60))), (4, 5));
        assert_eq!(ratio(&format!("{}1e-{}", "0".repeat(60), 5)), (1, 100_000));
        for (text, count) in [("5", 5), ("+5", 5), ("5.0", 5), ("1e2", 100), ("120e-1", 12)] {
            assert_eq!(Threshold::parse_count(text).unwrap().numerator(), count, "{text}");
        }
    }

    #[test]
    fn thresholds_compare_by_value() {
        let read = |text| Threshold::parse_ratio(text).unwrap();
        assert!(read("2/3") > read("0.66"));
        assert!(read("0.50") == read("1/2"));
        assert!(read("0.99999999999999999999999999999999999998") < read("1"));
        assert!(read("1e-38") < read("2e-38"));
    }

    #[test]
    fn display_gives_the_text_back() {
        for text in
            ["0.8", "0.95", "0.333333", "1", "2/3", "0.05", "0.000001", "0.0012626262626262627"]
        {
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
            ("1e", "is not a number"),
            ("1e-", "is not a number"),
            ("e5", "is not a number"),
            ("1e5.5", "is not a number"),
            ("++1", "is not a number"),
            ("+-1", "is not a number"),
            ("-1e-9", "is negative"),
            ("1/", "is not a fraction"),
            ("/2", "is not a fraction"),
            ("+1/2", "is not a fraction"),
            ("1e5", "is above 1"),
            ("1e99999999999999999999", "is above 1"),
            ("1e-99999999999999999999", "has more than 38 decimals"),
            ("0e99999999999999999999", "is zero"),
            ("1e-39", "has more than 38 decimals"),
            ("1234567890123456789012345678901234567890", "is above 1"),
            ("½", "is not a number"),
            ("0.123456789012345678901234567890123456789", "has more than 38 decimals"),
            (
                "1/999999999999999999999999999999999999999",
                "is not a fraction of whole numbers up to 10³⁸",
            ),
            ("1/x", "is not a fraction"),
            ("99999999999999999999999999999999999999999999", "is above 1"),
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
