//! How do threads work through the tiles of a join?
//!
//! For each part of the join and each range of build sets that is indexed at once, every thread
//! makes a worker and a sink and takes the next tile until none is left.

use crate::join::{Engine, Report};
use rayon::{BroadcastContext, ThreadPool, ThreadPoolBuilder};
use simjoin_core::{Error, PairSink, Result, SetId, SetPair};
use simjoin_plan::{Join, Part, Technique, Tile, passes};
use std::ops::{ControlFlow, Range};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// Tokens indexed at once: positions in an index are 32-bit numbers, with room for list ends.
const MAX_INDEX_TOKENS: usize = 1 << 30;

/// An index is made in at most about this many passes.
const MAX_PASSES: usize = 1000;

/// Lets another thread watch a join and end it.
#[derive(Debug, Default)]
pub struct Control {
    done: AtomicU64,
    total: AtomicU64,
    stop: AtomicBool,
}

impl Control {
    /// Work done and work in all, in an arbitrary unit; (0, 0) until the work is known.
    pub fn progress(&self) -> (u64, u64) {
        (self.done.load(Ordering::Relaxed), self.total.load(Ordering::Relaxed))
    }

    /// Asks the join to end early; what it has found so far is incomplete.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Whether [`stop`](Self::stop) was called.
    pub fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// A sink for one thread that is told where tiles begin and end. Tiles are numbered from 0 over
/// the whole join.
pub(crate) trait TileSink: PairSink {
    fn begin(&mut self, _tile: usize) {}
    fn end(&mut self) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

/// A sink that also listens to the user.
struct Watched<'a, S> {
    sink: &'a mut S,
    control: &'a Control,
    enough: &'a AtomicBool,
}

impl<S: PairSink> PairSink for Watched<'_, S> {
    fn wants_overlap(&self) -> bool {
        self.sink.wants_overlap()
    }

    fn stopped(&self) -> bool {
        self.control.stopped() || self.enough.load(Ordering::Relaxed)
    }

    fn push(&mut self, pairs: &[SetPair]) -> ControlFlow<()> {
        self.sink.push(pairs)
    }
}

/// What a plan is made from, beside the technique.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Threads to run on; 0 is the pool that the caller is in.
    pub(crate) threads: usize,
    /// Bytes for the technique.
    pub(crate) memory: u64,
    /// Probe tokens in a tile.
    pub(crate) tile_tokens: usize,
}

/// A technique, ready to run on a pool of threads.
pub(crate) struct Plan {
    technique: Box<dyn Technique>,
    limits: Limits,
    /// `None`: the pool that the caller is in.
    pool: Option<ThreadPool>,
}

impl Plan {
    pub(crate) fn new(technique: Box<dyn Technique>, limits: Limits) -> Result<Self> {
        let pool =
            match limits.threads {
                0 => None,
                threads => Some(ThreadPoolBuilder::new().num_threads(threads).build().map_err(
                    |error| Error::Unavailable(format!("cannot start threads: {error}")),
                )?),
            };
        Ok(Plan { technique, limits, pool })
    }

    pub(crate) fn report(&self, pairs: u64, candidates: u64) -> Report {
        Report {
            pairs,
            candidates,
            technique: self.technique.name(),
            engine: Engine::Cpu,
            threads: self.threads(),
        }
    }

    fn threads(&self) -> usize {
        self.pool.as_ref().map_or_else(rayon::current_num_threads, ThreadPool::current_num_threads)
    }

    /// Runs `work` on every thread at once.
    fn broadcast(&self, work: impl Fn() + Sync) {
        let work = |_: BroadcastContext<'_>| work();
        match &self.pool {
            Some(pool) => drop(pool.broadcast(work)),
            None => drop(rayon::broadcast(work)),
        }
    }

    /// Ranges of build sets that can be indexed one after the other within the memory.
    fn passes(&self, join: &Join<'_>) -> Result<Vec<Range<SetId>>> {
        let threads = self.threads();
        let needs = |builds: &Range<SetId>| {
            let tile = Tile { builds: builds.clone(), ..Tile::whole(join) };
            self.technique.memory_bytes(join, &tile, threads)
        };
        let mut tokens = join.build.total_tokens().clamp(1, MAX_INDEX_TOKENS);
        loop {
            let passes = passes(join.build, tokens);
            let needed = passes.iter().map(needs).max().unwrap_or(0);
            if needed <= self.limits.memory {
                return Ok(passes);
            }
            // Each pass walks all probes: with passes this small the join would not end.
            if passes.len() > MAX_PASSES || passes.len() == join.build.len() {
                return Err(Error::Memory {
                    what: format!("{} in {} passes", self.technique.name(), passes.len()),
                    needed,
                    limit: self.limits.memory,
                });
            }
            tokens /= 2;
        }
    }

    /// Runs every tile of every part; returns the number of candidates. `sink` makes the sink of
    /// one thread for one part.
    pub(crate) fn run<'a, S: TileSink>(
        &self,
        parts: Vec<(Join<'a>, Part)>,
        control: &Control,
        sink: impl Fn(&Join<'a>, Part) -> S + Sync,
    ) -> Result<u64> {
        let mut work = Vec::new();
        for (join, part) in parts {
            work.extend(self.passes(&join)?.into_iter().map(|builds| (join, part, builds)));
        }
        // Progress is counted in probes, over all passes.
        let total = work.iter().map(|(join, ..)| join.probe.len() as u64).sum();
        control.done.store(0, Ordering::Relaxed);
        control.total.store(total, Ordering::Relaxed);
        let candidates = AtomicU64::new(0);
        let enough = AtomicBool::new(false);
        let (mut first_piece, mut probes_done) = (0, 0);
        for (join, part, builds) in work {
            if control.stopped() || enough.load(Ordering::Relaxed) {
                break;
            }
            let tile = Tile { builds, ..Tile::whole(&join) };
            let prepared = self.technique.prepare(&join, &tile, self.limits.tile_tokens);
            let pieces = prepared.pieces();
            let next = AtomicUsize::new(0);
            let finished = AtomicUsize::new(0);
            self.broadcast(|| {
                let mut worker = prepared.worker();
                let mut sink = sink(&join, part);
                while !control.stopped() && !enough.load(Ordering::Relaxed) {
                    let piece = next.fetch_add(1, Ordering::Relaxed);
                    if piece >= pieces {
                        break;
                    }
                    sink.begin(first_piece + piece);
                    let mut watched = Watched { sink: &mut sink, control, enough: &enough };
                    // A piece that was begun is ended, whatever happens: others may wait for it.
                    let ran = worker.run(piece, &mut watched);
                    if sink.end().is_break() || ran.is_break() {
                        enough.store(true, Ordering::Relaxed);
                    }
                    let done = 1 + finished.fetch_add(1, Ordering::Relaxed) as u64;
                    let probes = join.probe.len() as u64 * done / pieces as u64;
                    control.done.fetch_max(probes_done + probes, Ordering::Relaxed);
                }
                candidates.fetch_add(worker.candidates(), Ordering::Relaxed);
            });
            first_piece += pieces;
            probes_done += join.probe.len() as u64;
            control.done.store(probes_done, Ordering::Relaxed);
        }
        Ok(candidates.into_inner())
    }
}
