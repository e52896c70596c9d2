//! What will be done, in words?
//!
//! Plans as a person reads them: what was considered with its estimated time, what was chosen, what to
//! expect.

use crate::report::{StepPlan, share};
use crate::set_join::Join;
use crate::vector_join::{PreparedVectorJoin, VectorJoin};
use simjoin_core::{Result, SetCollection, VectorCollection};
use std::fmt::Write as _;

/// What a join is going to do, and what may come of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// Its parts.
    pub steps: Vec<StepPlan>,
    /// The expected number of pairs; `None` where the memory is too small to estimate it.
    pub pairs: Option<f64>,
    /// The expected seconds; `None` where something has no estimate.
    pub seconds: Option<f64>,
    /// The GPU's part, where it works beside the CPU.
    pub share: Option<f64>,
}

impl Join {
    /// [`explain`](Self::explain) and what is to be expected.
    pub fn explanation(
        &self,
        left: &SetCollection,
        right: Option<&SetCollection>,
    ) -> Result<Explanation> {
        let steps = self.explain(left, right)?;
        let pairs = self.estimate_pairs(left, right);
        let (seconds, share) = (planned_seconds(&steps), planned_share(&steps));
        Ok(Explanation { steps, pairs, seconds, share })
    }
}

/// The estimated seconds of all steps. CPU and GPU work at once, so the slower side counts.
pub fn planned_seconds(steps: &[StepPlan]) -> Option<f64> {
    let of = |device: bool| -> Option<f64> {
        let steps = steps.iter().filter(|step| step.on_device == device);
        steps.map(|step| step.seconds).sum()
    };
    of(true).zip(of(false)).map(|(gpu, cpu)| gpu.max(cpu))
}

/// The GPU's part of the work, where there is some for both sides.
fn planned_share(steps: &[StepPlan]) -> Option<f64> {
    let found = share(steps.iter().map(|step| (step.on_device, step.pairs, step.tokens)))?;
    (found > 0.0 && found < 1.0).then_some(found)
}

impl Explanation {
    /// The plan in words, for a join on so many threads.
    pub fn text(
        &self,
        left: &SetCollection,
        right: Option<&SetCollection>,
        threads: usize,
    ) -> String {
        let mut text = String::new();
        for (side, sets) in [("left", Some(left)), ("right", right)] {
            let Some(sets) = sets else { continue };
            let side = if right.is_some() { side } else { "input" };
            let classes = sets.classes();
            let sizes = match (classes.first(), classes.last()) {
                (Some(first), Some(last)) => (first.size, last.size),
                _ => (0, 0),
            };
            let _ = writeln!(
                text,
                "{side}: {} records, {} distinct sets of {} tokens, {} on average, universe {}",
                grouped(sets.records() as u64),
                grouped(sets.len() as u64),
                range(sizes),
                sets.total_tokens() / sets.len().max(1),
                grouped(sets.universe().into()),
            );
        }
        if self.steps.is_empty() {
            text.push_str("plan: no two sets can meet; nothing is to be done\n");
        }
        for (at, step) in self.steps.iter().enumerate() {
            let _ = writeln!(
                text,
                "plan, part {} of {}: sets of {} tokens with sets of {}, {} pairs left by length",
                at + 1,
                self.steps.len(),
                range(step.probes),
                range(step.builds),
                grouped(step.pairs),
            );
            let mut considered: Vec<_> = step.considered.iter().collect();
            considered.sort_by(|a, b| {
                let key = |seconds: Option<f64>| seconds.unwrap_or(f64::INFINITY);
                key(a.2).total_cmp(&key(b.2))
            });
            for (name, variant, seconds) in considered {
                let chosen = *name == step.technique.0 && *variant == step.technique.1;
                let seconds = seconds.map_or_else(|| "not possible".into(), duration);
                let mark = if chosen { "  <- chosen" } else { "" };
                let _ = writeln!(text, "  {name:<14} {variant:<10} {seconds:>12}{mark}");
            }
        }
        if let Some(share) = self.share {
            let _ = writeln!(
                text,
                "split: {:.0} % of the work for the GPU, {:.0} % for the CPU, at once",
                100.0 * share,
                100.0 * (1.0 - share),
            );
        }
        let seconds = self.seconds.map_or_else(|| "-".into(), duration);
        let _ = writeln!(
            text,
            "expected: {}, {seconds} on {} {}",
            self.pairs.map_or_else(
                || "pairs not estimated within --memory".into(),
                |pairs| format!("about {} pairs", grouped(pairs as u64))
            ),
            threads,
            if threads == 1 { "thread" } else { "threads" },
        );
        text
    }
}

impl PreparedVectorJoin<'_> {
    /// The plan of a join of these vectors in words, with the number of pairs that was estimated.
    pub fn text(
        &self,
        join: &VectorJoin,
        left: &VectorCollection,
        right: Option<&VectorCollection>,
        estimate: Option<f64>,
    ) -> String {
        let plan = self.plan();
        let mut text = String::new();
        let rows = match right {
            None => format!("{} vectors with themselves", grouped(left.len() as u64)),
            Some(right) => {
                let (left, right) = (grouped(left.len() as u64), grouped(right.len() as u64));
                format!("{left} vectors with {right}")
            }
        };
        let _ = writeln!(
            text,
            "join: {rows}, dimension {}, {}: {} pairs",
            left.dimension(),
            join.predicate(),
            grouped(plan.compared as u64),
        );
        let mut considered = plan.considered.clone();
        considered.sort_by(|a, b| {
            let key = |seconds: Option<f64>| seconds.unwrap_or(f64::INFINITY);
            key(a.1).total_cmp(&key(b.1))
        });
        for (name, seconds) in considered {
            let seconds = seconds.map_or_else(|| "not possible".into(), duration);
            let mark = if name == plan.technique { "  <- chosen" } else { "" };
            let _ = writeln!(text, "  {name:<14} {seconds:>12}{mark}");
        }
        let _ = writeln!(text, "technique: {}: {}", plan.technique, plan.details);
        let _ = writeln!(
            text,
            "expected: {} on {} {}",
            estimate.map_or_else(
                || "pairs not estimated by this technique".into(),
                |pairs| format!("about {} pairs", grouped(pairs as u64))
            ),
            plan.threads,
            if plan.threads == 1 { "thread" } else { "threads" },
        );
        text
    }
}

fn range((first, last): (u32, u32)) -> String {
    if first == last {
        grouped(first.into())
    } else {
        format!("{} to {}", grouped(first.into()), grouped(last.into()))
    }
}

/// 1234567 as 1,234,567.
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

/// Seconds in a unit that suits.
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
