//! What does a program read about a run?
//!
//! `seconds.join` is the time of the join less what the writer took of it; `seconds.write` is the
//! writer's share. The four phases add up to about the total.

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
    let mut say = |name: &str, value: Value| facts.insert(name.into(), value);
    say("pairs", report.pairs.into());
    say("candidates", report.candidates.into());
    say("engine", report.engine.name().into());
    say("technique", report.technique.clone().into());
    say("details", report.details().into());
    for (name, number) in report.figures() {
        say(name, number.into());
    }
    say("threads", report.threads.into());
    say("device", device(report));
    say("device_share", report.device_share().into());
    say("planned_device_share", report.planned_device_share.into());
    say("concurrency", report.concurrency().into());
    say("virtual_seconds", report.virtual_seconds.into());
    say("warnings", report.warnings.clone().into());
    say("seconds", seconds.json());
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
