//! What will be done, and how near was the estimate?
//!
//! `--explain` writes to standard error: before the join every technique that was considered with
//! its estimated time, the choice, and what to expect; after it, the estimates beside what happened.

use crate::settings::Settings;
use crate::speak::note;
use simjoin::{DeviceTimes, Explanation, Report, Result, SetCollection, duration, grouped};
use std::fmt::Write as _;
use std::time::Duration;

/// Plans the join, and shows the plan where that is asked for.
pub fn before(
    settings: &Settings,
    left: &SetCollection,
    right: Option<&SetCollection>,
) -> Result<Explanation> {
    let planned = settings.join.explanation(left, right)?;
    if settings.explain {
        let text = planned.text(left, right, settings.threads);
        note(format_args!("{}", text.trim_end()));
    }
    Ok(planned)
}

/// Sets what happened beside what was planned.
pub fn after(planned: &Explanation, report: &Report, join: Duration) {
    let mut text = String::new();
    for (at, step) in report.steps.iter().enumerate() {
        let _ = writeln!(
            text,
            "part {}: {}: {} (estimated {})",
            at + 1,
            format!("{} {}", step.technique, step.variant).trim_end(),
            duration(step.seconds),
            step.estimated.map_or_else(|| "-".into(), duration),
        );
        if let Some(hidden) = step.trace.hidden() {
            let DeviceTimes { filter, verify, copies, host, waited, .. } = step.trace;
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
            "split: the GPU did {:.0} % of the work (planned {:.0} %); both were busy for {:.0} % of the \
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
    note(format_args!("{}", text.trim_end()));
}
