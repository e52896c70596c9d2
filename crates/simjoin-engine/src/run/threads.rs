//! On how many threads?

use parking_lot::{Condvar, Mutex};
use rayon::{ThreadBuilder, ThreadPool, ThreadPoolBuildError, ThreadPoolBuilder};
use simjoin_core::{Error, Parameter, Result};
use std::ops::Deref;
use std::sync::Arc;

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

/// Threads that nobody has now.
static SPARE: Mutex<Vec<ThreadPool>> = Mutex::new(Vec::new());

/// Threads that attend to devices while those of the CPU work. A join has its own; starting some takes
/// longer than many a join, so they are kept for the next one.
pub(crate) struct Attendants(Option<ThreadPool>);

impl Attendants {
    pub(crate) fn get(threads: usize) -> Result<Self> {
        let mut spare = SPARE.lock();
        let kept = spare.iter().position(|pool| pool.current_num_threads() == threads);
        let kept = kept.map(|at| spare.swap_remove(at));
        drop(spare);
        Ok(Attendants(Some(match kept {
            Some(kept) => kept,
            // The calling thread waits for these, so it cannot be one of them.
            None => match started(threads) {
                Some(pool) => pool.map_err(|error| cannot_start(&error))?,
                None => return Err(Error::Unavailable("cannot start threads for devices".into())),
            },
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
        SPARE.lock().extend(self.0.take());
    }
}

/// Some threads of a pool that rest until this is dropped.
pub(crate) struct Resting(Arc<Wake>);

#[derive(Default)]
struct Wake {
    over: Mutex<bool>,
    told: Condvar,
}

impl Resting {
    /// Lets so many threads of a pool rest as soon as they have nothing else to do: those of the pool that the
    /// caller is in, if none is named. It must have more.
    pub(crate) fn new(threads: usize, pool: Option<&ThreadPool>) -> Self {
        let wake = Arc::new(Wake::default());
        for _ in 0..threads {
            let wake = wake.clone();
            let rest = move || {
                let mut over = wake.over.lock();
                wake.told.wait_while(&mut over, |over| !*over);
            };
            match pool {
                Some(pool) => pool.spawn(rest),
                None => rayon::spawn(rest),
            }
        }
        Resting(wake)
    }
}

impl Drop for Resting {
    /// Lets them go on, and those that have not begun to rest not begin.
    fn drop(&mut self) {
        *self.0.over.lock() = true;
        self.0.told.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rayon::prelude::*;

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

    #[test]
    fn threads_rest_until_they_are_woken_and_others_work_meanwhile() {
        let pool = pool(4).unwrap();
        for _ in 0..2 {
            let resting = Resting::new(3, Some(&pool));
            // With three of four at rest, all of it is done by one.
            let sum: u64 = pool.install(|| (0..1000u64).into_par_iter().sum());
            assert_eq!(sum, 499_500);
            drop(resting);
            // Only a pool of which no thread rests does this.
            assert_eq!(pool.broadcast(|_| 1).len(), 4);
        }
        drop(Resting::new(0, Some(&pool)));
    }
}
