//! On how many threads?

use simjoin_core::{Error, Result};

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

/// Threads to prepare and join on: what is called within [`rayon::ThreadPool::install`] runs on them.
pub fn pool(threads: usize) -> Result<rayon::ThreadPool> {
    rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .build()
        .map_err(|error| Error::Unavailable(format!("cannot start threads: {error}")))
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
