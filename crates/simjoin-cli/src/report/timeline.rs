//! Which thread or device did what when?
//!
//! A join may have hundreds of thousands of [events](Event). Neighbours in one row that would be less than a fraction
//! of a millimetre apart on the page are merged into one span, which leaves a few thousand. Busy time is summed before.

use crate::trace::rows;
use serde::Serialize;
use simjoin::engine::Event;
use std::collections::BTreeMap;

/// The number of points in time that the page can show.
const RESOLUTION: f64 = 1000.0;

/// The number of rows above which the resolution is reduced.
const ROWS: usize = 32;

/// The timeline of a join, as the page shows it.
#[derive(Debug, Serialize)]
pub struct Timeline {
    /// The time from the first tile to the last pair.
    pub seconds: f64,
    /// The names of spans, each once.
    pub names: Vec<String>,
    pub rows: Vec<Row>,
    /// The seconds in which at least one thread of the CPU worked.
    pub cpu_busy: f64,
    /// The seconds in which at least one unit of a device worked.
    pub device_busy: f64,
    /// The seconds in which both worked.
    pub both_busy: f64,
    /// The times in which both worked: begin and duration.
    pub both: Vec<(f64, f64)>,
}

/// A thread, or a part of a device.
#[derive(Debug, Serialize)]
pub struct Row {
    pub name: String,
    pub on_device: bool,
    /// The seconds in which it worked.
    pub busy: f64,
    /// The begin, the duration and the number of the name of each span.
    pub spans: Vec<(f64, f64, usize)>,
}

impl Timeline {
    pub fn new(events: &[Event], seconds: f64) -> Self {
        let rows = rows(events);
        let end = events.iter().fold(seconds, |end, one| end.max(one.begin + one.seconds));
        let width = end / RESOLUTION * (rows.len() as f64 / ROWS as f64).max(1.0);
        let mut of_row: BTreeMap<&str, Vec<&Event>> = BTreeMap::new();
        events.iter().for_each(|one| of_row.entry(&one.row).or_default().push(one));
        let mut names: Vec<String> = Vec::new();
        let (mut cpu, mut device) = (Vec::new(), Vec::new());
        let rows = rows.into_iter().map(|name| {
            let mut all = of_row.remove(name).unwrap_or_default();
            all.sort_by(|a, b| a.begin.total_cmp(&b.begin));
            let on_device = name.starts_with("GPU ") && !name.starts_with("GPU attendant");
            for one in &all {
                let span = (one.begin, one.begin + one.seconds);
                // Waiting for a device is not work.
                let works = name.starts_with("CPU ") && !one.what.starts_with("gpu-");
                if on_device {
                    device.push(span);
                } else if works {
                    cpu.push(span);
                }
            }
            let busy = total(&united(all.iter().map(|one| (one.begin, one.begin + one.seconds))));
            let spans = merged(&all, width).into_iter().map(|span| {
                let at = names.iter().position(|one| *one == span.what).unwrap_or_else(|| {
                    names.push(span.what.to_owned());
                    names.len() - 1
                });
                (span.begin, span.end - span.begin, at)
            });
            Row { name: name.to_owned(), on_device, busy, spans: spans.collect() }
        });
        let rows: Vec<Row> = rows.collect();
        let (cpu, device) = (united(cpu.into_iter()), united(device.into_iter()));
        let both = common(&cpu, &device);
        let shown = both.iter().fold(Vec::new(), |mut shown: Vec<(f64, f64)>, &(begin, end)| {
            match shown.last_mut() {
                Some(last) if begin - last.1 < width => last.1 = end,
                _ => shown.push((begin, end)),
            }
            shown
        });
        Timeline {
            seconds: end,
            names,
            rows,
            cpu_busy: total(&cpu),
            device_busy: total(&device),
            both_busy: total(&both),
            both: shown.into_iter().map(|(begin, end)| (begin, end - begin)).collect(),
        }
    }
}

struct Span<'a> {
    begin: f64,
    end: f64,
    what: &'a str,
    /// The duration of its longest event, which names the span.
    longest: f64,
}

/// Collects the spans of one row. Neighbours are merged if they are of one kind or too short to be seen.
fn merged<'a>(events: &[&'a Event], width: f64) -> Vec<Span<'a>> {
    let mut spans: Vec<Span<'a>> = Vec::new();
    for one in events {
        let (begin, end, what) = (one.begin, one.begin + one.seconds, one.what.as_str());
        if let Some(last) = spans.last_mut() {
            let near = begin - last.end < width / 2.0;
            let short = one.seconds < width || last.end - last.begin < width;
            if near && (last.what == what || short) {
                last.end = last.end.max(end);
                if one.seconds > last.longest {
                    (last.what, last.longest) = (what, one.seconds);
                }
                continue;
            }
        }
        spans.push(Span { begin, end, what, longest: one.seconds });
    }
    spans
}

/// Returns the same time as ascending intervals that do not overlap.
fn united(spans: impl Iterator<Item = (f64, f64)>) -> Vec<(f64, f64)> {
    let mut spans: Vec<(f64, f64)> = spans.collect();
    spans.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut united: Vec<(f64, f64)> = Vec::new();
    for (begin, end) in spans {
        match united.last_mut() {
            Some(last) if begin <= last.1 => last.1 = last.1.max(end),
            _ => united.push((begin, end)),
        }
    }
    united
}

/// Returns the time that both have in common.
fn common(one: &[(f64, f64)], other: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let (mut a, mut b) = (0, 0);
    let mut both = Vec::new();
    while a < one.len() && b < other.len() {
        let (begin, end) = (one[a].0.max(other[b].0), one[a].1.min(other[b].1));
        if begin < end {
            both.push((begin, end));
        }
        if one[a].1 < other[b].1 { a += 1 } else { b += 1 }
    }
    both
}

fn total(spans: &[(f64, f64)]) -> f64 {
    spans.iter().map(|(begin, end)| end - begin).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(row: &str, what: &str, begin: f64, seconds: f64) -> Event {
        Event { row: row.into(), what: what.into(), begin, seconds }
    }

    #[test]
    fn both_are_busy_while_cpu_and_device_work() {
        let events = [
            event("CPU thread 0", "bitmap", 0.0, 4.0),
            event("CPU thread 1", "bitmap", 1.0, 5.0),
            event("GPU stream 0", "filter", 3.0, 2.0),
            event("GPU copies 0", "answers", 4.0, 4.0),
            event("GPU attendant 0", "gpu-bitmap", 0.0, 8.0),
            event("CPU thread 1", "gpu-bitmap", 6.0, 2.0),
        ];
        let timeline = Timeline::new(&events, 8.0);
        assert_eq!((timeline.cpu_busy, timeline.device_busy, timeline.both_busy), (6.0, 5.0, 3.0));
        assert_eq!(timeline.both, [(3.0, 3.0)]);
        let names: Vec<&str> = timeline.rows.iter().map(|row| row.name.as_str()).collect();
        assert_eq!(
            names,
            ["CPU thread 0", "CPU thread 1", "GPU attendant 0", "GPU copies 0", "GPU stream 0"]
        );
        assert_eq!(timeline.rows[1].busy, 7.0);
    }

    #[test]
    fn many_events_become_few_spans() {
        let events: Vec<Event> = (0..200_000)
            .map(|at| {
                let row = format!("CPU thread {}", at % 4);
                let what = ["bitmap", "prepare", "ppjoin"][at % 3];
                event(&row, what, f64::from(at as u32 / 4) * 1e-5, 0.9e-5)
            })
            .collect();
        let timeline = Timeline::new(&events, 0.5);
        let spans: usize = timeline.rows.iter().map(|row| row.spans.len()).sum();
        assert!((4..10_000).contains(&spans), "{spans}");
        let busy: f64 = timeline.rows.iter().map(|row| row.busy).sum();
        assert!((busy - 200_000.0 * 0.9e-5).abs() < 1e-6);
        assert!(timeline.both.is_empty());
    }

    #[test]
    fn timeline_of_no_events_is_empty() {
        let timeline = Timeline::new(&[], 0.0);
        assert!(timeline.rows.is_empty() && timeline.both.is_empty());
    }
}
