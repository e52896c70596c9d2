//! What was done, for a program to read?
//!
//! `seconds.join` is the time of the join less what the writer took of it; `seconds.write` is the
//! writer's share. The four phases add up to about the total.

use serde_json::{Value, json};
use simjoin::{Report, SetCollection};
use std::time::Duration;

/// Wall-clock time of each phase.
#[derive(Debug, Default)]
pub struct Seconds {
    pub read: Duration,
    pub prepare: Duration,
    pub join: Duration,
    pub write: Duration,
    pub total: Duration,
}

impl Seconds {
    pub fn json(&self) -> Value {
        json!({
            "read": self.read.as_secs_f64(),
            "prepare": self.prepare.as_secs_f64(),
            "join": self.join.as_secs_f64(),
            "write": self.write.as_secs_f64(),
            "total": self.total.as_secs_f64(),
        })
    }
}

/// The document that `--stats` writes.
pub fn document(
    left: &SetCollection,
    right: Option<&SetCollection>,
    tokens: usize,
    report: &Report,
    seconds: &Seconds,
) -> String {
    let document = json!({
        "records": { "left": left.records(), "right": right.map(SetCollection::records) },
        "distinct": { "left": left.len(), "right": right.map(SetCollection::len) },
        "tokens": tokens,
        "universe": left.universe(),
        "pairs": report.pairs,
        "candidates": report.candidates,
        "engine": report.engine.name(),
        "technique": report.technique,
        "threads": report.threads,
        "device": device(report),
        "share": report.share(),
        "planned_share": report.planned_share,
        "overlap": report.overlap(),
        "virtual_seconds": report.virtual_seconds,
        "warnings": report.warnings,
        "seconds": seconds.json(),
    });
    format!("{document:#}\n")
}

/// What devices did, in seconds; null where none did anything.
pub fn device(report: &Report) -> Value {
    let trace = report.trace();
    if trace.device() == 0.0 {
        return Value::Null;
    }
    json!({
        "compared": trace.compared,
        "filter": trace.filter,
        "verify": trace.verify,
        "copies": trace.copies,
        "host": trace.host,
        "waited": trace.waited,
        "hidden": trace.hidden(),
    })
}
