//! When did each step of a join happen?

use crate::processor::Processor;
use crate::report::Event;
use crate::technique::{DeviceEvent, DeviceUnit};
use parking_lot::Mutex;
use std::time::Instant;

/// The largest number of events recorded.
const MOST: usize = 500_000;

/// The events of a join, if they are wanted.
pub(crate) struct Timeline {
    pub(crate) begin: Instant,
    events: Option<Mutex<Vec<Event>>>,
}

impl Timeline {
    pub(crate) fn new(wanted: bool) -> Self {
        Timeline { begin: Instant::now(), events: wanted.then(Mutex::default) }
    }

    /// Adds an event of real time.
    pub(crate) fn add(
        &self,
        row: impl FnOnce() -> String,
        what: &str,
        begin: Instant,
        end: Instant,
    ) {
        let seconds = end.saturating_duration_since(begin).as_secs_f64();
        let begin = begin.saturating_duration_since(self.begin).as_secs_f64();
        self.push(|| Event { row: row(), what: what.into(), begin, seconds });
    }

    /// Adds the events of a device for one of its workers.
    pub(crate) fn add_device(&self, worker: usize, events: Vec<DeviceEvent>) {
        for DeviceEvent { by, what, begin, end } in events {
            let row = || match by {
                DeviceUnit::Copies => format!("GPU copies {worker}"),
                DeviceUnit::Stream => format!("GPU stream {worker}"),
            };
            self.add(row, what, begin, end);
        }
    }

    /// Adds a round in virtual time: its preparation, about as long as a piece, and then its pieces, in turn by each
    /// worker.
    pub(crate) fn add_round(
        &self,
        (begin, seconds): (f64, f64),
        (processor, workers): (Processor, usize),
        technique: &str,
        (pieces, ran): (usize, usize),
    ) {
        let workers = workers.clamp(1, pieces.max(1));
        let each = seconds / (1 + pieces.div_ceil(workers)) as f64;
        let add = |row: String, what: &str, slot: usize| {
            let begin = begin + slot as f64 * each;
            self.push(|| Event { row, what: what.into(), begin, seconds: each });
        };
        add(worker_row(processor, 0), "prepare", 0);
        for piece in 0..ran {
            let slot = 1 + piece / workers;
            add(worker_row(processor, piece % workers), technique, slot);
            if processor == Processor::Device {
                add("GPU stream 0".into(), "filter and verify", slot);
            }
        }
    }

    fn push(&self, event: impl FnOnce() -> Event) {
        if let Some(events) = &self.events {
            let mut events = events.lock();
            if events.len() < MOST {
                events.push(event());
            }
        }
    }

    pub(crate) fn into_events(self) -> Vec<Event> {
        self.events.map(Mutex::into_inner).unwrap_or_default()
    }
}

/// Returns the name of a worker's row.
pub(crate) fn worker_row(processor: Processor, worker: usize) -> String {
    match processor {
        Processor::Cpu => format!("CPU thread {worker}"),
        Processor::Device => format!("GPU attendant {worker}"),
    }
}
