//! How far has a join come, and should it stop?

use simjoin_core::{Error, Result};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Lets another thread watch a join and end it.
#[derive(Debug, Default)]
pub struct Control {
    done: AtomicU64,
    total: AtomicU64,
    stop: AtomicBool,
}

impl Control {
    /// Returns the work done and the work in all, in an arbitrary unit; (0, 0) until the work is known.
    pub fn progress(&self) -> (u64, u64) {
        // Work that a device began and the CPU did again counts once.
        let total = self.total.load(Ordering::Relaxed);
        (self.done.load(Ordering::Relaxed).min(total), total)
    }

    /// Begins work of `total` parts.
    pub fn begin(&self, total: u64) {
        self.done.store(0, Ordering::Relaxed);
        self.total.store(total, Ordering::Relaxed);
    }

    /// Marks parts as done.
    pub fn advance(&self, parts: u64) {
        self.done.fetch_add(parts, Ordering::Relaxed);
    }

    /// Marks parts as not done after all.
    pub(crate) fn retreat(&self, parts: u64) {
        self.done.fetch_sub(parts, Ordering::Relaxed);
    }

    /// Asks the join to end early; what it has found so far is incomplete.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Returns whether [`stop`](Self::stop) was called.
    pub fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// The first error of any thread.
#[derive(Default)]
pub(crate) struct Failure(OnceLock<Error>);

impl Failure {
    pub(crate) fn is_there(&self) -> bool {
        self.0.get().is_some()
    }

    /// Keeps an error, unless there is one already.
    pub(crate) fn set(&self, error: Error) {
        let _ = self.0.set(error);
    }

    pub(crate) fn check(self) -> Result<()> {
        self.0.into_inner().map_or(Ok(()), Err)
    }
}
