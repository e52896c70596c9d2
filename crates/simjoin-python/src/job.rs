//! How does a join run while Python waits for it?
//!
//! A separate thread does the work without the interpreter, and sends its results through a bounded
//! channel. The calling thread wakes up twenty times a second, checks for Ctrl-C, shows
//! progress, and waits again with the interpreter released.
//!
//! # Memory
//!
//! At most [`QUEUE`] batches wait for the reader; then the join waits.

use crate::errors::{exception, raise};
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use simjoin::engine::{Control, Error, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The largest number of batches that wait for the reader.
pub const QUEUE: usize = 4;

/// The time between two checks of the waiting thread.
const TICK: Duration = Duration::from_millis(50);

/// The longest wait for a join that was told to end.
const PATIENCE: Duration = Duration::from_millis(500);

/// A message from a join.
pub enum Message {
    /// The columns of the answer; the first message, if it is sent.
    Schema(SchemaRef),
    /// Rows of the answer.
    Batch(RecordBatch),
    /// The join is complete.
    End(Outcome),
}

/// A value of the statistics.
pub enum Value {
    Count(u64),
    Number(f64),
    Text(String),
    Texts(Vec<String>),
    /// For each part of a plan, the techniques considered and their expected seconds.
    Estimates(Vec<Vec<(String, Option<f64>)>>),
    None,
}

/// The result of a join, apart from its rows.
#[derive(Default)]
pub struct Outcome {
    /// The number of pairs or elements in the answer.
    pub count: u64,
    /// Statistics by name.
    pub facts: Vec<(&'static str, Value)>,
    /// The seconds of each phase.
    pub seconds: Vec<(&'static str, f64)>,
}

impl Outcome {
    /// Emits warnings about failures that the join has recovered from.
    pub fn warn(&self, py: Python<'_>) -> PyResult<()> {
        for text in self.warnings() {
            py.import("warnings")?.call_method1("warn", (format!("simjoin: {text}"),))?;
        }
        Ok(())
    }

    fn warnings(&self) -> &[String] {
        let found = self.facts.iter().find_map(|fact| match fact {
            ("warnings", Value::Texts(texts)) => Some(texts.as_slice()),
            _ => None,
        });
        found.unwrap_or_default()
    }

    /// Returns the statistics as a dictionary.
    pub fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let stats = PyDict::new(py);
        for (name, value) in &self.facts {
            match value {
                Value::Count(count) => stats.set_item(name, count)?,
                Value::Number(number) => stats.set_item(name, number)?,
                Value::Estimates(parts) => stats.set_item(name, parts)?,
                Value::Text(text) => stats.set_item(name, text)?,
                Value::Texts(texts) => stats.set_item(name, texts)?,
                Value::None => stats.set_item(name, py.None())?,
            }
        }
        if self.seconds.is_empty() {
            return Ok(stats);
        }
        let seconds = PyDict::new(py);
        for (name, value) in &self.seconds {
            seconds.set_item(name, value)?;
        }
        stats.set_item("seconds", seconds)?;
        Ok(stats)
    }
}

/// A phase of a join.
#[derive(Clone, Copy)]
#[repr(u8)]
pub enum Phase {
    Reading,
    Preparing,
    Joining,
}

const PHASES: [&str; 3] = ["reading", "preparing", "joining"];

/// The state that the waiting thread and the working one share.
#[derive(Default)]
pub struct Shared {
    /// Observes and ends the join.
    pub control: Control,
    /// The number of rows that have been read.
    pub rows: AtomicU64,
    phase: AtomicU8,
    stopped: AtomicBool,
}

impl Shared {
    /// Tells the join to end.
    fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
        self.control.stop();
    }

    /// Returns whether the join was told to end.
    pub fn stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// Begins the next phase, unless the join was told to end.
    pub fn enter(&self, phase: Phase) -> Result<()> {
        self.phase.store(phase as u8, Ordering::Relaxed);
        if self.stopped() { Err(Error::Interrupted) } else { Ok(()) }
    }

    /// Returns the phase, the work done, and the total work, 0 if unknown.
    fn progress(&self) -> (&'static str, u64, u64) {
        let phase = self.phase.load(Ordering::Relaxed) as usize;
        let (done, total) = match phase {
            0 => (self.rows.load(Ordering::Relaxed), 0),
            1 => (0, 0),
            _ => self.control.progress(),
        };
        (PHASES[phase], done, total)
    }
}

/// The sending end of a job, held by the working thread.
pub struct Outlet {
    sender: Sender<Result<Message>>,
}

impl Outlet {
    /// Sends a message; false if the receiver is gone.
    pub fn send(&self, message: Message) -> bool {
        self.sender.send(Ok(message)).is_ok()
    }
}

/// A running join.
pub struct Job {
    shared: Arc<Shared>,
    receiver: Option<Receiver<Result<Message>>>,
    thread: Option<JoinHandle<()>>,
}

impl Job {
    /// Starts the work on a separate thread.
    pub fn start(
        work: impl FnOnce(&Shared, &Outlet) -> Result<Outcome> + Send + 'static,
    ) -> Result<Self> {
        let shared = Arc::new(Shared::default());
        let (sender, receiver) = bounded(QUEUE);
        let own = shared.clone();
        let thread = std::thread::Builder::new()
            .name("simjoin".into())
            .spawn(move || {
                let outlet = Outlet { sender };
                let outcome = work(&own, &outlet);
                let outcome = if own.stopped() { Err(Error::Interrupted) } else { outcome };
                // The receiver may have been dropped.
                let _ = outlet.sender.send(outcome.map(Message::End));
            })
            .map_err(|error| Error::Unavailable(format!("cannot start a thread: {error}")))?;
        Ok(Job { shared, receiver: Some(receiver), thread: Some(thread) })
    }

    /// Waits for the next message. Ctrl-C, or an exception of `progress`, ends the join.
    pub fn next(
        &mut self,
        py: Python<'_>,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Message> {
        loop {
            let Some(receiver) = &self.receiver else {
                return Err(raise(py, "InternalError", "the join has already ended"));
            };
            let message = py.detach(|| receiver.recv_timeout(TICK));
            let looked = py.check_signals().and_then(|()| match (progress, &message) {
                (Some(show), Err(_) | Ok(Ok(Message::Batch(_)))) => {
                    show.call1(self.shared.progress()).map(drop)
                }
                _ => Ok(()),
            });
            if let Err(error) = looked {
                self.end(py);
                return Err(error);
            }
            match message {
                Ok(Ok(message)) => return Ok(message),
                Ok(Err(error)) => return Err(exception(py, &error)),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(raise(
                        py,
                        "InternalError",
                        "the join has panicked; please report it",
                    ));
                }
            }
        }
    }

    /// Returns a handle that ends the join from another thread.
    pub fn stopper(&self) -> Stop {
        Stop(self.shared.clone())
    }

    /// Ends the work, and waits briefly until it has ended.
    pub fn stop(mut self, py: Python<'_>) {
        self.end(py);
    }

    fn end(&mut self, py: Python<'_>) {
        self.shared.stop();
        self.receiver = None;
        let Some(thread) = self.thread.take() else { return };
        py.detach(|| {
            let begin = Instant::now();
            while !thread.is_finished() && begin.elapsed() < PATIENCE {
                std::thread::sleep(Duration::from_millis(5));
            }
        });
    }
}

/// A handle that ends a join for which another thread waits.
pub struct Stop(Arc<Shared>);

impl Stop {
    /// Tells the join to end.
    pub fn stop(&self) {
        self.0.stop();
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        self.shared.stop();
    }
}
