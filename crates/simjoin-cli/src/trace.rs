//! What does `--trace` write?
//!
//! The format is that of chrome://tracing and Perfetto: complete events with a begin and a duration in microseconds, in
//! named rows.

use serde_json::{Value, json};
use simjoin::engine::Event;

/// Returns the rows of a timeline in the order in which they are shown.
pub fn rows(timeline: &[Event]) -> Vec<&str> {
    let mut rows: Vec<&str> = timeline.iter().map(|event| event.row.as_str()).collect();
    // CPU before GPU, thread 2 before thread 10.
    rows.sort_unstable_by_key(|row| {
        let (name, number) = row.rsplit_once(' ').unwrap_or((row, ""));
        (name, number.parse::<u32>().unwrap_or(0))
    });
    rows.dedup();
    rows
}

/// Returns the document that `--trace` writes.
pub fn document(timeline: &[Event]) -> String {
    let rows = rows(timeline);
    let mut events: Vec<Value> = Vec::with_capacity(2 * rows.len() + timeline.len());
    for (at, row) in rows.iter().enumerate() {
        let event = |name: &str, arguments: Value| json!({ "ph": "M", "pid": 1, "tid": at, "name": name, "args": arguments });
        events.push(event("thread_name", json!({ "name": row })));
        events.push(event("thread_sort_index", json!({ "sort_index": at })));
    }
    let place = |row: &str| rows.iter().position(|one| *one == row);
    for event in timeline {
        events.push(json!({
            "ph": "X",
            "pid": 1,
            "tid": place(&event.row),
            "name": event.what,
            "ts": event.begin * 1e6,
            "dur": event.seconds * 1e6,
        }));
    }
    format!("{}\n", json!({ "displayTimeUnit": "ms", "traceEvents": events }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_belong_to_named_rows() {
        let event = |row: &str, what: &str, begin: f64| Event {
            row: row.into(),
            what: what.into(),
            begin,
            seconds: 0.5,
        };
        let timeline = [
            event("GPU stream 0", "filter", 0.25),
            event("CPU thread 10", "bitmap", 0.0),
            event("CPU thread 2", "bitmap", 0.0),
        ];
        let document: Value = serde_json::from_str(&document(&timeline)).unwrap();
        let events = document["traceEvents"].as_array().unwrap();
        let names: Vec<&str> =
            events.iter().filter_map(|event| event["args"]["name"].as_str()).collect();
        assert_eq!(names, ["CPU thread 2", "CPU thread 10", "GPU stream 0"]);
        let filter = events.iter().find(|event| event["name"] == "filter").unwrap();
        assert_eq!((&filter["tid"], &filter["ts"]), (&json!(2), &json!(250_000.0)));
        assert_eq!(filter["dur"], json!(500_000.0));
    }
}
