//! On how many threads?

use rayon::ThreadPool;
use simjoin_core::{Error, Result};
use std::ops::Deref;
use std::sync::{Mutex, PoisonError};

/// The most threads that can be asked for.
const MOST: usize = 1024;

/// The number of threads that was asked for, which must be from 1 to 1,024; one for each core where none was.
pub fn threads(wanted: Option<usize>) -> Result<usize> {
    match wanted {
        None => Ok(std::thread::available_parallelism().map_or(1, usize::from)),
        Some(threads) if (1..=MOST).contains(&threads) => Ok(threads),
        Some(threads) => Err(Error::Config(threads_expected(&threads.to_string()))),
    }
}

/// What to say about a number of threads that does not fit.
pub fn threads_expected(given: &str) -> String {
    format!("--threads {given} does not fit; expected a number from 1 to {MOST}")
}

/// Threads to prepare and join on: what is called within [`ThreadPool::install`] runs on them.
pub fn pool(threads: usize) -> Result<ThreadPool> {
    rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .build()
        .map_err(|error| Error::Unavailable(format!("cannot start threads: {error}")))
}

/// Threads that nobody has now.
static SPARE: Mutex<Vec<ThreadPool>> = Mutex::new(Vec::new());

/// Threads that attend to devices while those of the CPU work. A join has its own; starting some takes
/// longer than many a join, so they are kept for the next one.
pub(crate) struct Attendants(Option<ThreadPool>);

impl Attendants {
    pub(crate) fn take(threads: usize) -> Result<Self> {
        let mut spare = SPARE.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = spare.iter().position(|pool| pool.current_num_threads() == threads);
        let kept = kept.map(|at| spare.swap_remove(at));
        drop(spare);
        Ok(Attendants(Some(match kept {
            Some(kept) => kept,
            None => pool(threads)?,
        })))
    }
}

impl Deref for Attendants {
    type Target = ThreadPool;

    fn deref(&self) -> &ThreadPool {
        self.0.as_ref().expect("there until dropped")
    }
}

impl Drop for Attendants {
    fn drop(&mut self) {
        SPARE.lock().unwrap_or_else(PoisonError::into_inner).extend(self.0.take());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_from_one_to_a_thousand() {
        assert!(threads(None).unwrap() >= 1);
        assert_eq!(threads(Some(7)).unwrap(), 7);
        assert_eq!(pool(3).unwrap().current_num_threads(), 3);
        for wrong in [0, 1025, usize::MAX] {
            let error = threads(Some(wrong)).unwrap_err().to_string();
            assert!(error.ends_with("expected a number from 1 to 1024"), "{error}");
        }
    }
}
