//! How are the values of flags parsed?
//!
//! Messages that do not name the flag begin with the value; the name of the flag is put before it.

use clap::builder::{PossibleValue, PossibleValuesParser, StringValueParser, TypedValueParser};
use clap::{Arg, Command};
use simjoin::engine::{
    AUTO, Error, Measure, Parameter, Predicate, Processor, Split, Subject, names,
};
use simjoin_generate::{PROFILES, Profile};
use std::cmp::Reverse;
use std::ffi::OsStr;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

/// The value of a flag for a threshold: one predicate or several.
pub trait ThresholdValue: Clone + Send + Sync + 'static {
    fn parse(measure: Measure, text: &str) -> Result<Self, Error>;
}

impl ThresholdValue for Predicate {
    fn parse(measure: Measure, text: &str) -> Result<Self, Error> {
        Predicate::parse(measure, text)
    }
}

/// Predicates of one measure, the highest threshold first, each once.
#[derive(Clone, Debug)]
pub struct Predicates(pub Vec<Predicate>);

impl ThresholdValue for Predicates {
    fn parse(measure: Measure, text: &str) -> Result<Self, Error> {
        let read = |part: &str| Predicate::parse(measure, part.trim());
        let mut all = text.split(',').map(read).collect::<Result<Vec<_>, _>>()?;
        all.sort_by_key(|one| Reverse(one.threshold()));
        all.dedup();
        Ok(Predicates(all))
    }
}

/// Reads the threshold of a measure.
pub fn predicate<W: ThresholdValue>(
    measure: Measure,
) -> impl Fn(&str) -> Result<W, Error> + Clone + Send + Sync + 'static {
    move |text| W::parse(measure, text)
}

/// Reads one of several names, which the help lists.
pub fn one_of<T>(names: impl IntoIterator<Item = &'static str>) -> impl TypedValueParser<Value = T>
where
    T: FromStr<Err = Error> + Clone + Send + Sync + 'static,
{
    PossibleValuesParser::new(names).try_map(|name| name.parse::<T>())
}

/// Reads a number of threads.
pub fn number_of_threads(text: &str) -> Result<usize, Error> {
    let number = text.trim().parse().map_err(|_| {
        let message = format!("{text:?} is not a whole number; expected one from 1, such as 4");
        Error::parameter(Parameter::Threads, message)
    })?;
    simjoin::engine::threads(Some(number))
}

/// Reads a size such as `512M`.
pub fn bytes(text: &str) -> Result<u64, String> {
    simjoin::engine::parse_bytes(text)
        .ok_or_else(|| format!("{text:?} is not a size; expected one such as 512M or 4G"))
}

/// Reads a number of seconds such as `2` or `0.5`.
pub fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds.ok_or_else(|| format!("{text:?} does not fit; expected seconds, such as 2.5"))
}

/// Reads a whole number from 1.
pub fn from_one(text: &str) -> Result<usize, String> {
    text.parse()
        .ok()
        .filter(|&number| number >= 1)
        .ok_or_else(|| format!("{text:?} does not fit; expected a whole number from 1"))
}

/// Reads a number such as `0.8`.
pub fn number(text: &str) -> Result<f64, String> {
    text.parse().map_err(|_| format!("{text:?} is not a number; expected one such as 0.8"))
}

/// Reads a whole number such as `5000`, `500K`, `5M` or `2G`.
pub fn count(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let factor = match text[digits.len()..].to_ascii_uppercase().as_str() {
        "" => Some(1),
        "K" => Some(1_000),
        "M" => Some(1_000_000),
        "G" => Some(1_000_000_000),
        _ => None,
    };
    // Signs are not allowed.
    let number = digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok());
    let number: Option<u64> = number.flatten();
    number.zip(factor).and_then(|(number, factor)| number.checked_mul(factor)).ok_or_else(|| {
        format!("{text:?} does not fit; expected a whole number such as 5000, 500K, 5M or 2G")
    })
}

/// Reads a number as [`count`] does, but not zero.
pub fn at_least_one(text: &str) -> Result<u64, String> {
    match count(text)? {
        0 => Err(format!("{text:?} is zero; expected at least 1")),
        number => Ok(number),
    }
}

/// Reads `2` or `1..5`.
pub fn range(text: &str) -> Result<RangeInclusive<u64>, String> {
    let (least, most) = text.split_once("..").unwrap_or((text, text));
    let wrong =
        |_| format!("{text:?} does not fit; expected a number such as 2, or a range such as 1..5");
    Ok(count(least).map_err(wrong)?..=count(most).map_err(wrong)?)
}

/// The split of a hybrid join, and the text that was typed.
#[derive(Clone, Debug, PartialEq)]
pub struct SplitFlag {
    pub text: String,
    pub split: Split,
}

/// The number of chunks of a queue, unless a number is typed.
const QUEUE_CHUNKS: u32 = 64;

/// Reads the split of a hybrid join.
pub fn split(text: &str) -> Result<SplitFlag, String> {
    let share: Option<f64> = text.parse().ok().filter(|share| (0.0..=1.0).contains(share));
    let chunks = match text.strip_prefix("queue:") {
        Some(chunks) => chunks.parse().ok().filter(|chunks| (1..=1_000_000).contains(chunks)),
        None => (text == "queue").then_some(QUEUE_CHUNKS),
    };
    let split = match (share, chunks) {
        _ if text == "auto" => Split::Auto,
        (Some(share), _) => Split::Share(share),
        (_, Some(chunks)) => Split::Queue(chunks),
        _ => {
            return Err(format!(
                "{text:?} does not fit; expected auto, a share from 0 to 1, queue, or queue and a number of \
                 chunks such as queue:100"
            ));
        }
    };
    Ok(SplitFlag { text: text.into(), split })
}

/// Reads the name of a collection of the literature.
pub fn profiles() -> impl TypedValueParser<Value = Profile> {
    let value = |profile: Profile| PossibleValue::new(profile.name).help(profile.about);
    PossibleValuesParser::new(PROFILES.map(value)).try_map(|name| {
        Profile::named(&name).ok_or_else(|| format!("{name:?} is not a known collection"))
    })
}

/// Lists the names of techniques for the help. The join checks later whether a name is valid and fits the engine.
#[derive(Clone)]
pub struct Techniques(pub Subject);

impl TypedValueParser for Techniques {
    type Value = String;

    fn parse_ref(
        &self,
        command: &Command,
        argument: Option<&Arg>,
        value: &OsStr,
    ) -> Result<String, clap::Error> {
        StringValueParser::new().parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let mut all = vec![AUTO];
        for name in Processor::ALL.into_iter().flat_map(|processor| names(self.0, processor)) {
            if !all.contains(&name) {
                all.push(name);
            }
        }
        Some(Box::new(all.into_iter().map(PossibleValue::new)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_of_thresholds_is_sorted_without_repeats() {
        let read = |text| Predicates::parse(Measure::Jaccard, text);
        let values = |text| {
            let Predicates(all) = read(text).unwrap();
            all.iter().map(|one| one.threshold().to_string()).collect::<Vec<_>>()
        };
        assert_eq!(values("0.5, 0.9,1/2,0.7"), ["0.9", "0.7", "0.5"]);
        for wrong in ["", "0.5,", "0.5,x", "0"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn seconds_are_finite_and_not_negative() {
        assert_eq!(seconds("0.5").unwrap(), Duration::from_millis(500));
        assert_eq!(seconds("0").unwrap(), Duration::ZERO);
        for wrong in ["", "-1", "NaN", "inf", "1e300", "soon"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn sizes_have_binary_units() {
        for (text, size) in [
            ("512M", 512 << 20),
            ("4g", 4 << 30),
            ("1.5KiB", 1536),
            ("1000", 1000),
            ("2MB", 2 << 20),
        ] {
            assert_eq!(bytes(text).unwrap(), size, "{text}");
        }
        for wrong in ["", "M", "-1G", "0", "1X", "1.2.3M", "99999999T", "half"] {
            assert!(bytes(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn counts_have_decimal_units() {
        for (text, number) in
            [("5M", 5_000_000), ("500k", 500_000), ("2G", 2_000_000_000), ("10", 10), ("0", 0)]
        {
            assert_eq!(count(text).unwrap(), number);
        }
        for wrong in
            ["", "M", "5X", "5KM", "-5", "+5", "1.5M", "5 M", "1_000", "99999999999G", "5Ä", "Ä"]
        {
            assert!(count(wrong).unwrap_err().contains("500K"), "{wrong}");
        }
    }

    #[test]
    fn ranges_have_both_ends() {
        assert_eq!(range("1..5").unwrap(), 1..=5);
        assert_eq!(range("3").unwrap(), 3..=3);
        for wrong in ["", "..", "1..", "..5", "1-5", "1..=5", "a..b"] {
            assert!(range(wrong).unwrap_err().contains("1..5"), "{wrong}");
        }
    }
}
