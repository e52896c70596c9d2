//! What will the join do, and how good was the estimate?
//!
//! `--explain` writes to standard error. Before the join, it shows every technique that was considered with its
//! estimated time, the choice, and the estimates of the join; after the join, the estimates next to the real figures.

use crate::speak::note;
use simjoin::engine::{DeviceTimes, Explanation, Joinable, Plan, Report, duration, grouped};
use std::fmt::Write as _;
use std::time::Duration;

/// Explains the plan, and prints the explanation if `show` is set.
pub fn before<K: Joinable>(show: bool, plan: &Plan<'_, K>) -> Explanation {
    let explained = plan.explain();
    if show {
        note(format_args!("{}", explained.to_string().trim_end()));
    }
    explained
}

/// Prints the real figures next to the estimates.
pub fn after(planned: &Explanation, report: &Report, join: Duration) {
    let mut text = String::new();
    for (at, step) in report.steps.iter().enumerate() {
        let _ = writeln!(
            text,
            "step {}: {}: {} (estimated {})",
            at + 1,
            format!("{} {}", step.technique, step.variant).trim_end(),
            duration(step.seconds),
            step.estimated.map_or_else(|| "-".into(), duration),
        );
        if let Some(hidden) = step.device_times.hidden() {
            let DeviceTimes { filter, verify, copies, host, waited, .. } = step.device_times;
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
    if let (Some(planned), Some(share)) = (report.planned_device_share, report.device_share()) {
        let _ = writeln!(
            text,
            "split: the GPU did {:.0} % of the work (planned {:.0} %); both were busy for {:.0} % of the \
             time",
            100.0 * share,
            100.0 * planned,
            100.0 * report.concurrency().unwrap_or(0.0),
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
    note(format_args!("{}", text.trim_end()));
}
