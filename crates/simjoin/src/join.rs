//! What does a user ask for, and what comes back?

use crate::count::Counter;
use crate::driver::{Control, Limits, Plan};
use crate::groups::Components;
use crate::ordered::{Ordered, Room};
use simjoin_core::{Bounds, Error, Predicate, Result, RowPair, SetCollection, Side};
use simjoin_plan::{Part, Technique};
use std::fmt;
use std::ops::ControlFlow;
use std::str::FromStr;

/// The names of all techniques, `auto` first.
pub const TECHNIQUES: [&str; 7] =
    ["auto", "prefix-bitmap", "bitmap", "ppjoin", "group-join", "all-pairs", "naive"];

/// What `auto` runs. In the 42 cells of `benchmarks/recorded/2026-11-15-reference.md` (2-core AMD
/// EPYC, one thread), ppjoin is at most 4 ms behind the fastest technique, and it is the fastest
/// wherever a join takes over 0.1 s.
const AUTO: &str = "ppjoin";

/// Where a join runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Engine {
    /// Wherever it is fastest.
    #[default]
    Auto,
    /// On CPU cores.
    Cpu,
    /// On a GPU.
    Gpu,
    /// On CPU cores and a GPU at once.
    Hybrid,
}

impl Engine {
    /// The name used on the command line and in statistics.
    pub fn name(self) -> &'static str {
        match self {
            Engine::Auto => "auto",
            Engine::Cpu => "cpu",
            Engine::Gpu => "gpu",
            Engine::Hybrid => "hybrid",
        }
    }
}

impl FromStr for Engine {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        [Engine::Auto, Engine::Cpu, Engine::Gpu, Engine::Hybrid]
            .into_iter()
            .find(|engine| engine.name() == name)
            .ok_or_else(|| {
                Error::Config(format!("unknown engine {name:?}; expected auto, cpu, gpu or hybrid"))
            })
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What a join did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Pairs of rows in the answer.
    pub pairs: u64,
    /// Pairs of distinct sets that were verified.
    pub candidates: u64,
    /// The technique that ran.
    pub technique: &'static str,
    /// The engine that ran.
    pub engine: Engine,
    /// The number of threads that ran.
    pub threads: usize,
}

/// A similarity join: what is wanted, and how to go about it.
///
/// Give it one collection for a self-join, or two that were [prepared](crate::prepare) together.
#[derive(Clone, Debug)]
pub struct Join {
    predicate: Predicate,
    technique: String,
    engine: Engine,
    limits: Limits,
    with_itself: bool,
}

/// Probe tokens in a tile: large enough that handing it out costs nothing beside doing it, small
/// enough that a hundred tiles exist where a join takes noticeable time.
const TILE_TOKENS: usize = 8192;

impl Join {
    /// A join with the default technique on all cores.
    pub fn new(predicate: Predicate) -> Self {
        Join {
            predicate,
            technique: "auto".into(),
            engine: Engine::Auto,
            limits: Limits { threads: 0, memory: u64::MAX, tile_tokens: TILE_TOKENS },
            with_itself: false,
        }
    }

    /// Chooses the technique by name, one of [`TECHNIQUES`].
    pub fn technique(mut self, name: &str) -> Self {
        self.technique = name.into();
        self
    }

    /// Chooses the engine.
    pub fn engine(mut self, engine: Engine) -> Self {
        self.engine = engine;
        self
    }

    /// Runs on a pool of this many threads; 0 for the rayon pool that the caller is in, which is one
    /// thread per core unless set up otherwise.
    pub fn threads(mut self, threads: usize) -> Self {
        self.limits.threads = threads;
        self
    }

    /// Bounds the memory, in bytes, that the technique takes beside the collections: its index and
    /// its working space. What does not fit at once is indexed in several passes.
    pub fn memory(mut self, bytes: u64) -> Self {
        self.limits.memory = bytes;
        self
    }

    /// Sets the size of the unit of work, in tokens of probe sets. Smaller tiles spread better over
    /// threads, larger ones cost less to hand out; the answer is the same.
    pub fn tile_tokens(mut self, tokens: usize) -> Self {
        self.limits.tile_tokens = tokens;
        self
    }

    /// In a join of two collections, also joins the right one with itself: new records with the old
    /// ones and with each other, while old records never meet old ones.
    /// [`RowPair::left_input`] tells the two kinds of pairs apart. A single collection is joined
    /// with itself in any case.
    pub fn with_itself(mut self, also: bool) -> Self {
        self.with_itself = also;
        self
    }

    /// Says what is wrong with the choice of engine and technique, before any work is done.
    pub fn check(&self) -> Result<()> {
        self.technique_to_run().map(drop)
    }

    /// Counts the pairs of rows.
    pub fn count(
        &self,
        left: &SetCollection,
        right: Option<&SetCollection>,
        control: &Control,
    ) -> Result<Report> {
        let plan = self.plan()?;
        let counter = Counter::default();
        let parts = self.parts(left, right);
        let candidates = plan.run(parts, control, |join, _| counter.worker(join))?;
        let repeats = self
            .itself(left, right)
            .map_or(0, |(sets, _)| crate::count::repeats(sets, self.bounds()));
        Ok(plan.report(counter.total() + repeats, candidates))
    }

    /// Hands every pair of rows to `take`, in batches. The order does not depend on the number of
    /// threads, as long as the memory suffices for one pass. `take` may answer `Break` to end the
    /// join early.
    pub fn pairs(
        &self,
        left: &SetCollection,
        right: Option<&SetCollection>,
        control: &Control,
        take: impl FnMut(&[RowPair]) -> ControlFlow<()> + Send,
    ) -> Result<Report> {
        let plan = self.plan()?;
        let ordered = Ordered::new(self.predicate.measure(), Room::default(), take);
        let parts = self.parts(left, right);
        let candidates = plan.run(parts, control, |join, part| ordered.worker(join, part))?;
        if let Some(side) = self.itself(left, right) {
            ordered.repeats(side, self.bounds(), control);
        }
        Ok(plan.report(ordered.pairs(), candidates))
    }

    /// The connected components of the rows of a self-join: for each row, the smallest row number
    /// of its component. A row without a partner is a component by itself.
    pub fn groups(&self, sets: &SetCollection, control: &Control) -> Result<(Vec<u32>, Report)> {
        let plan = self.plan()?;
        let components = Components::new(sets.len());
        let candidates =
            plan.run(self.parts(sets, None), control, |join, _| components.worker(join))?;
        let repeats = crate::count::repeats(sets, self.bounds());
        let pairs = components.pairs() + repeats;
        Ok((components.labels(sets, self.bounds()), plan.report(pairs, candidates)))
    }

    fn bounds(&self) -> Bounds {
        Bounds::new(self.predicate)
    }

    fn parts<'a>(
        &self,
        left: &'a SetCollection,
        right: Option<&'a SetCollection>,
    ) -> Vec<(simjoin_plan::Join<'a>, Part)> {
        simjoin_plan::Join::parts(left, right, self.with_itself, self.bounds())
    }

    /// The collection that is joined with itself, if there is one.
    fn itself<'a>(
        &self,
        left: &'a SetCollection,
        right: Option<&'a SetCollection>,
    ) -> Option<(&'a SetCollection, Side)> {
        match right {
            None => Some((left, Side::Left)),
            Some(right) => self.with_itself.then_some((right, Side::Right)),
        }
    }

    fn plan(&self) -> Result<Plan> {
        Plan::new(self.technique_to_run()?, self.limits)
    }

    fn technique_to_run(&self) -> Result<Box<dyn Technique>> {
        match self.engine {
            Engine::Auto | Engine::Cpu => {}
            Engine::Gpu | Engine::Hybrid => {
                return Err(Error::Unavailable(format!(
                    "engine {}: this build of simjoin has no GPU support; use --engine cpu",
                    self.engine
                )));
            }
        }
        let name = if self.technique == "auto" { AUTO } else { &self.technique };
        simjoin_cpu::techniques().into_iter().find(|technique| technique.name() == name).ok_or_else(
            || {
                Error::Config(format!(
                    "unknown technique {name:?}; expected one of {}",
                    TECHNIQUES.join(", ")
                ))
            },
        )
    }
}
