//! What is a join going to do, in words?
//!
//! An [`Explanation`] shows a plan for people to read: the techniques considered with their estimated times, the chosen
//! ones, and the expected result. It never changes the plan.

use crate::join::{Joined, Plan};
use crate::processor::Processor;
use crate::report::StepPlan;
use std::fmt;

/// A description of what a join is going to do, and what to expect.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Explanation {
    /// The collections, in words; a line each.
    pub collections: String,
    /// Its steps.
    pub steps: Vec<StepPlan>,
    /// A description of which rows each step compares.
    pub compared: Vec<String>,
    /// The expected number of pairs; `None` where the memory is too small to estimate it.
    pub pairs: Option<f64>,
    /// The expected seconds; `None` where something has no estimate.
    pub seconds: Option<f64>,
    /// The devices' share of the work, where CPU and devices share it.
    pub device_share: Option<f64>,
    /// The number of threads.
    pub threads: usize,
}

#[allow(private_bounds)]
impl<K: Joined> Plan<'_, K> {
    /// Returns the expected seconds; `None` where something has no estimate.
    pub fn seconds(&self) -> Option<f64> {
        expected(&self.steps())
    }

    /// Explains the plan, with estimates of what was rejected and of the number of pairs.
    pub fn explain(&self) -> Explanation {
        let steps = self.steps();
        let seconds = expected(&steps);
        let (left, right) = self.collections();
        Explanation {
            collections: K::describe(left, right, self.predicate()),
            compared: steps.iter().map(K::describe_step).collect(),
            pairs: self.estimate_pairs(),
            seconds,
            device_share: self.planned_device_share().filter(|share| 0.0 < *share && *share < 1.0),
            threads: self.threads(),
            steps,
        }
    }
}

/// Returns the expected seconds of steps. Each side of a shared join would do all of it in its seconds.
fn expected(steps: &[StepPlan]) -> Option<f64> {
    let of = |processor| -> Option<f64> {
        steps.iter().filter(|step| step.processor == processor).map(|step| step.seconds).sum()
    };
    let (cpu, device) = (of(Processor::Cpu)?, of(Processor::Device)?);
    let both = || cpu * device / (cpu + device).max(f64::MIN_POSITIVE);
    Some(if steps.iter().any(|step| step.shared) { both() } else { cpu + device })
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.collections)?;
        if self.steps.is_empty() {
            let why = match self.pairs {
                Some(pairs) if pairs > 0.0 => "the number of pairs is known",
                _ => "no two rows can meet",
            };
            writeln!(f, "plan: {why}; nothing is to be done")?;
        }
        for (at, (step, compared)) in self.steps.iter().zip(&self.compared).enumerate() {
            let shared = match (step.shared, step.processor) {
                (false, _) => "",
                (true, Processor::Cpu) => ", shared: CPU",
                (true, Processor::Device) => ", shared: GPU",
            };
            writeln!(f, "plan, step {} of {}: {compared}{shared}", at + 1, self.steps.len())?;
            let mut considered: Vec<_> = step.considered.iter().collect();
            considered.sort_by(|a, b| {
                let key = |seconds: Option<f64>| seconds.unwrap_or(f64::INFINITY);
                key(a.2).total_cmp(&key(b.2))
            });
            for (name, variant, seconds) in considered {
                let chosen = *name == step.technique.0 && *variant == step.technique.1;
                let (seconds, mark) = match (seconds, chosen) {
                    (Some(seconds), true) => (duration(*seconds), "  <- chosen"),
                    (Some(seconds), false) => (duration(*seconds), ""),
                    (None, true) => ("no estimate".into(), "  <- chosen"),
                    (None, false) => ("not possible".into(), ""),
                };
                writeln!(f, "  {name:<14} {variant:<10} {seconds:>12}{mark}")?;
            }
        }
        if let Some(share) = self.device_share {
            writeln!(
                f,
                "split: {:.0} % of the work for the GPU, {:.0} % for the CPU, at once",
                100.0 * share,
                100.0 * (1.0 - share),
            )?;
        }
        let pairs = match self.pairs {
            Some(pairs) => format!("about {} pairs", grouped(pairs as u64)),
            None => "pairs not estimated within the memory allowed".into(),
        };
        let seconds = self.seconds.map_or_else(|| "-".into(), duration);
        let threads = if self.threads == 1 { "thread" } else { "threads" };
        writeln!(f, "expected: {pairs}, {seconds} on {} {threads}", self.threads)
    }
}

/// Returns a range of sizes in words.
pub(crate) fn range((first, last): (u32, u32)) -> String {
    if first == last {
        grouped(first.into())
    } else {
        format!("{} to {}", grouped(first.into()), grouped(last.into()))
    }
}

/// Formats 1234567 as 1,234,567.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats seconds in a readable unit.
pub fn duration(seconds: f64) -> String {
    match seconds {
        s if s < 0.001 => format!("{:.0} µs", s * 1e6),
        s if s < 1.0 => format!("{:.1} ms", s * 1e3),
        s if s < 120.0 => format!("{s:.1} s"),
        s => format!("{:.1} min", s / 60.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_easy_to_read() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1000), "1,000");
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!(range((3, 3)), "3");
        assert_eq!(range((3, 1200)), "3 to 1,200");
        assert_eq!(duration(0.000_02), "20 µs");
        assert_eq!(duration(0.0123), "12.3 ms");
        assert_eq!(duration(1.26), "1.3 s");
        assert_eq!(duration(600.0), "10.0 min");
    }
}
