//! On how many threads?

use rayon::{ThreadBuilder, ThreadPool, ThreadPoolBuildError, ThreadPoolBuilder};
use simjoin_core::{Error, Parameter, Result};

/// The most threads that can be asked for.
const MOST: usize = 1024;
/// More threads than this on each core only get into each other's way.
const MOST_PER_CORE: usize = 8;
/// This many threads are started even on a single core.
const ALWAYS: usize = 16;

/// Returns the number of threads to use: the requested number, from 1 to 1,024, but no more than the cores can use, or
/// one per core if none was requested.
pub fn threads(wanted: Option<usize>) -> Result<usize> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    match wanted {
        None => Ok(cores),
        Some(threads) if (1..=MOST).contains(&threads) => Ok(useful(threads, cores)),
        Some(threads) => Err(Error::parameter(
            Parameter::Threads,
            format!("{threads} does not fit; expected a number from 1 to {MOST}"),
        )),
    }
}

/// Returns how many of the wanted threads a number of cores can use.
fn useful(wanted: usize, cores: usize) -> usize {
    wanted.min((MOST_PER_CORE * cores).max(ALWAYS))
}

/// Starts the threads to prepare and join on: work within [`ThreadPool::install`] runs on them. If the system refuses
/// some, there are fewer; if it refuses all, the calling thread does the work.
pub fn pool(threads: usize) -> Result<ThreadPool> {
    match started(threads) {
        Some(pool) => pool,
        None => ThreadPoolBuilder::new().num_threads(1).use_current_thread().build(),
    }
    .map_err(|error| cannot_start(&error))
}

fn cannot_start(error: &ThreadPoolBuildError) -> Error {
    Error::Unavailable(format!("cannot start threads: {error}"))
}

/// Starts a pool of the threads that the system grants; returns `None` where it grants none.
fn started(threads: usize) -> Option<std::result::Result<ThreadPool, ThreadPoolBuildError>> {
    // Threads are started first, and wait for their place in the pool.
    let (places, waiting) = crossbeam_channel::unbounded::<ThreadBuilder>();
    let granted = (0..threads).take_while(|_| {
        let waiting = waiting.clone();
        let work = move || waiting.recv().into_iter().for_each(ThreadBuilder::run);
        std::thread::Builder::new().spawn(work).is_ok()
    });
    let granted = granted.count();
    (granted > 0).then(|| {
        let place = move |place| places.send(place).map_err(|_| std::io::ErrorKind::Other.into());
        ThreadPoolBuilder::new().num_threads(granted).spawn_handler(place).build()
    })
}

/// Starts threads that attend to devices while those of the CPU work.
pub(crate) fn attendants(threads: usize) -> Result<ThreadPool> {
    // The calling thread waits for these, so it cannot be one of them.
    match started(threads) {
        Some(pool) => pool.map_err(|error| cannot_start(&error)),
        None => Err(Error::Unavailable("cannot start threads for devices".into())),
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
        assert_eq!([useful(7, 1), useful(1023, 2), useful(100, 64)], [7, 16, 100]);
        for wrong in [0, 1025, usize::MAX] {
            let error = threads(Some(wrong)).unwrap_err().to_string();
            assert!(error.ends_with("expected a number from 1 to 1024"), "{error}");
        }
    }
}
