//! What will be done, and how near was the estimate?
//!
//! `--explain` writes to standard error: before the join every technique that was considered with
//! its estimated time, the choice, and what to expect; after it, the estimates beside what happened.

use crate::settings::Settings;
use simjoin::{Report, Result, SetCollection, StepPlan, Trace};
use std::fmt::Write as _;
use std::time::Duration;

/// What was planned before the join.
pub struct Planned {
    pub steps: Vec<StepPlan>,
    pub pairs: Option<f64>,
    pub seconds: Option<f64>,
    /// The GPU's part, where it works beside the CPU.
    share: Option<f64>,
}

/// The estimated seconds of all steps. CPU and GPU work at once, so the slower side counts.
pub fn seconds(steps: &[StepPlan]) -> Option<f64> {
    let of = |device: bool| -> Option<f64> {
        let steps = steps.iter().filter(|step| step.on_device == device);
        steps.map(|step| step.seconds).sum()
    };
    of(true).zip(of(false)).map(|(gpu, cpu)| gpu.max(cpu))
}

/// The GPU's part of the pairs, where there is work for both sides.
fn share(steps: &[StepPlan]) -> Option<f64> {
    let of = |device: bool| -> u64 {
        steps.iter().filter(|step| step.on_device == device).map(|step| step.pairs).sum()
    };
    let (gpu, cpu) = (of(true), of(false));
    (gpu > 0 && cpu > 0).then(|| gpu as f64 / (gpu + cpu) as f64)
}

/// Plans the join, and shows the plan where that is asked for.
pub fn before(
    settings: &Settings,
    left: &SetCollection,
    right: Option<&SetCollection>,
) -> Result<Planned> {
    let steps = settings.join.explain(left, right)?;
    let pairs = settings.join.estimate_pairs(left, right);
    let seconds = seconds(&steps);
    let share = share(&steps);
    let planned = Planned { steps, pairs, seconds, share };
    if settings.explain {
        eprint!("{}", plan_text(settings, left, right, &planned));
    }
    Ok(planned)
}

fn plan_text(
    settings: &Settings,
    left: &SetCollection,
    right: Option<&SetCollection>,
    planned: &Planned,
) -> String {
    let steps = &planned.steps;
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
    if steps.is_empty() {
        text.push_str("plan: no two sets can meet; nothing is to be done\n");
    }
    for (at, step) in steps.iter().enumerate() {
        let _ = writeln!(
            text,
            "plan, part {} of {}: sets of {} tokens with sets of {}, {} pairs left by length",
            at + 1,
            steps.len(),
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
    if let Some(share) = planned.share {
        let _ = writeln!(
            text,
            "split: {:.0} % of the pairs for the GPU, {:.0} % for the CPU, at once",
            100.0 * share,
            100.0 * (1.0 - share),
        );
    }
    let seconds = planned.seconds.map_or_else(|| "-".into(), duration);
    let _ = writeln!(
        text,
        "expected: {}, {seconds} on {} {}",
        planned.pairs.map_or_else(
            || "pairs not estimated within --memory".into(),
            |pairs| format!("about {} pairs", grouped(pairs as u64))
        ),
        settings.threads,
        if settings.threads == 1 { "thread" } else { "threads" },
    );
    text
}

/// Sets what happened beside what was planned.
pub fn after(planned: &Planned, report: &Report, join: Duration) {
    let mut text = String::new();
    for (at, step) in report.steps.iter().enumerate() {
        let _ = writeln!(
            text,
            "part {}: {} {}: {} (estimated {})",
            at + 1,
            step.technique,
            step.variant,
            duration(step.seconds),
            step.estimated.map_or_else(|| "-".into(), duration),
        );
        if let Some(hidden) = step.trace.hidden() {
            let Trace { filter, verify, copies, host, waited, .. } = step.trace;
            let _ = writeln!(
                text,
                "  device: filter {}, verify {}, copies {}; host: busy {}, waited {}; {:.0} % of the \
                 device's time hidden",
                duration(filter),
                duration(verify),
                duration(copies),
                duration(host),
                duration(waited),
                100.0 * hidden,
            );
        }
    }
    if let (Some(planned), Some(share)) = (report.planned_share, report.share()) {
        let _ = writeln!(
            text,
            "split: the GPU did {:.0} % of the pairs (planned {:.0} %); both were busy for {:.0} % of the \
             time",
            100.0 * share,
            100.0 * planned,
            100.0 * report.overlap().unwrap_or(0.0),
        );
    }
    let _ = writeln!(
        text,
        "found: {} pairs (estimated {}), {} verified, {} (estimated {})",
        grouped(report.pairs),
        planned.pairs.map_or_else(|| "-".into(), |pairs| grouped(pairs as u64)),
        grouped(report.candidates),
        duration(join.as_secs_f64()),
        planned.seconds.map_or_else(|| "-".into(), duration),
    );
    eprint!("{text}");
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
