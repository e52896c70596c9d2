//! What does `--stats` write?
//!
//! `seconds.join` is the time of the join without the time of the writer, which is `seconds.write`. The four phases add
//! up to about the total.

use serde_json::{Map, Value, json};
use simjoin::engine::Report;
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

/// Returns the document that `--stats` writes; `facts` are those of the input.
pub fn document(mut facts: Map<String, Value>, report: &Report, seconds: &Seconds) -> String {
    let mut add = |name: &str, value: Value| facts.insert(name.into(), value);
    add("pairs", report.pairs.into());
    add("candidates", report.candidates.into());
    add("engine", report.engine.name().into());
    add("technique", report.technique.clone().into());
    add("details", report.details().into());
    for (name, number) in report.figures() {
        add(name, number.into());
    }
    add("threads", report.threads.into());
    add("device", device(report));
    add("device_share", report.device_share().into());
    add("planned_device_share", report.planned_device_share.into());
    add("concurrency", report.concurrency().into());
    add("virtual_seconds", report.virtual_seconds.into());
    add("warnings", report.warnings.clone().into());
    add("seconds", seconds.json());
    format!("{:#}\n", Value::Object(facts))
}

/// Returns the seconds that devices spent on each stage; null if they did nothing.
pub fn device(report: &Report) -> Value {
    let times = report.device_times();
    if times.device() == 0.0 {
        return Value::Null;
    }
    json!({
        "compared": times.compared,
        "filter": times.filter,
        "verify": times.verify,
        "copies": times.copies,
        "host": times.host,
        "waited": times.waited,
        "hidden": times.hidden(),
    })
}
