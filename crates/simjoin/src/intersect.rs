//! What do two large sets have in common?

use rayon::ThreadPoolBuilder;
use simjoin_core::{Error, Result};
use simjoin_cpu::Intersection;
use simjoin_engine::{AUTO, Engine, Processor, Subject, chosen};
use simjoin_gpu::{DeviceArray, IntersectKernel};
use simjoin_kernels::intersect::Method;
use simjoin_kernels::tier::Tier;
use std::ops::ControlFlow;
use std::time::Instant;

/// The intersection of two sets of numbers: their size, their elements, and the degree to which the smaller
/// one is contained in the other.
///
/// Sets are slices that ascend and hold no number twice; [`ascending`](crate::engine::ascending) makes one of any
/// numbers. What does not ascend has no meaningful intersection.
///
/// ```
/// use simjoin::engine::{Intersect, ascending};
/// use std::ops::ControlFlow;
///
/// let a = ascending(vec![7, 3, 5, 3, 11]);
/// let b = ascending(vec![2, 3, 5, 7, 11, 13]);
/// let report = Intersect::new().size(&a, &b)?;
/// assert_eq!((report.size, report.containment()), (4, 1.0));
///
/// let mut common = Vec::new();
/// Intersect::new().elements(&a, &b, |some| {
///     common.extend_from_slice(some);
///     ControlFlow::Continue(())
/// })?;
/// assert_eq!(common, [3, 5, 7, 11]);
/// # Ok::<(), simjoin::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Intersect {
    technique: String,
    engine: Engine,
    threads: usize,
}

/// Who intersects, and how if that was asked for.
#[derive(Clone, Copy, Debug)]
enum Way {
    Cpu(Option<Method>),
    Gpu(Option<IntersectKernel>),
}

/// Takes elements.
type Take<'t> = &'t mut dyn FnMut(&[u32]) -> ControlFlow<()>;

/// Elements of a GPU that are handed on at once.
const BATCH: usize = 1 << 16;

impl Default for Intersect {
    fn default() -> Self {
        Self::new()
    }
}

/// What an intersection came to.
#[derive(Clone, Debug, PartialEq)]
pub struct IntersectReport {
    /// How many elements both sets have; those that were handed on, where that was ended early.
    pub size: u64,
    /// How many elements each set has.
    pub sets: (u64, u64),
    /// The technique that ran; several are joined by `+`.
    pub technique: String,
    /// Where it ran: on the CPU or on a GPU.
    pub engine: Engine,
    /// The vector instructions that were used; none on a GPU.
    pub tier: &'static str,
    /// The number of threads that ran.
    pub threads: usize,
    /// Seconds from begin to end.
    pub seconds: f64,
    /// Of a GPU: seconds of sending the sets and fetching elements, and seconds of its kernels.
    pub device: Option<(f64, f64)>,
}

impl IntersectReport {
    /// The degree to which the smaller set is contained in the other: 1 for a subset. Nothing is contained
    /// of an empty set: 0.
    pub fn containment(&self) -> f64 {
        let smaller = self.sets.0.min(self.sets.1);
        if smaller == 0 { 0.0 } else { self.size as f64 / smaller as f64 }
    }
}

impl Intersect {
    /// With the technique that suits, on all cores.
    pub fn new() -> Self {
        Intersect { technique: AUTO.into(), engine: Engine::Auto, threads: 0 }
    }

    /// Chooses where to run. [`Engine::Auto`] is the CPU, unless a technique of the GPU is asked for: sets
    /// that are in memory are intersected sooner than they reach a GPU.
    pub fn engine(mut self, engine: Engine) -> Self {
        self.engine = engine;
        self
    }

    /// Chooses the technique by name, one of those of [`Subject::Intersections`].
    pub fn technique(mut self, name: &str) -> Self {
        self.technique = name.into();
        self
    }

    /// Runs on a pool of this many threads; 0 for the rayon pool that the caller is in.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// Says what is wrong with the choice of technique, before any work is done.
    pub fn check(&self) -> Result<()> {
        Tier::asked_for().map_err(Error::Config)?;
        self.way().map(drop)
    }

    /// The technique for two sets as a whole, and why. Parts of them may be done otherwise.
    pub fn explain(&self, a: &[u32], b: &[u32]) -> Result<(&'static str, &'static str)> {
        let tier = Tier::best();
        let method = match self.way()? {
            Way::Cpu(Some(method)) => return Ok((method.name(), "asked for")),
            Way::Gpu(Some(kernel)) => return Ok((kernel.name(), "asked for")),
            Way::Gpu(None) => return Ok(("auto", "chosen on the GPU")),
            Way::Cpu(None) => Method::of(tier, a, b),
        };
        if a.is_empty() || b.is_empty() {
            return Ok((method.name(), "a set is empty, so nothing is to be done"));
        }
        Ok((
            method.name(),
            match method {
                Method::Gallop => "one set is far smaller: its elements are looked up in the other",
                Method::Bitmap => "both sets hold a good part of all numbers",
                Method::Blocks => "blocks are compared by vector instructions",
                Method::Merge => "there are no vector instructions",
            },
        ))
    }

    /// How many elements both sets have.
    pub fn size(&self, a: &[u32], b: &[u32]) -> Result<IntersectReport> {
        match self.checked()? {
            Way::Cpu(method) => self.run(a, b, method, |intersection| intersection.size(a, b)),
            Way::Gpu(kernel) => self.run_on_device(a, b, kernel, None),
        }
    }

    /// Hands the elements that both sets have to `take`, in ascending batches. `take` may answer `Break` to
    /// end early. Room is needed for a few batches, whatever the size.
    pub fn elements(
        &self,
        a: &[u32],
        b: &[u32],
        mut take: impl FnMut(&[u32]) -> ControlFlow<()> + Send,
    ) -> Result<IntersectReport> {
        match self.checked()? {
            Way::Cpu(method) => {
                self.run(a, b, method, |intersection| intersection.elements(a, b, take))
            }
            Way::Gpu(kernel) => self.run_on_device(a, b, kernel, Some(&mut take)),
        }
    }

    fn way(&self) -> Result<Way> {
        match chosen(Subject::Intersections, &self.technique, self.engine)? {
            Some((Processor::Device, name)) => Ok(Way::Gpu(IntersectKernel::named(name))),
            Some((Processor::Cpu, name)) => {
                Ok(Way::Cpu(Method::ALL.into_iter().find(|method| method.name() == name)))
            }
            None => Ok(Way::Cpu(None)),
        }
    }

    fn checked(&self) -> Result<Way> {
        self.check()?;
        self.way()
    }

    fn run_on_device(
        &self,
        a: &[u32],
        b: &[u32],
        kernel: Option<IntersectKernel>,
        take: Option<Take<'_>>,
    ) -> Result<IntersectReport> {
        let begin = Instant::now();
        let device = simjoin_gpu::first_device()?;
        let [left, right] = [DeviceArray::new(device, a)?, DeviceArray::new(device, b)?];
        let mut transfer = begin.elapsed().as_secs_f64();
        let kernel = kernel.unwrap_or_else(|| IntersectKernel::choose(&left, &right));
        let mut work = simjoin_gpu::Intersect::new(device)?;
        let (size, seconds) = match take {
            None => work.size(&left, &right, kernel)?,
            Some(take) => {
                let (common, seconds) = work.elements(&left, &right, kernel)?;
                let fetching = Instant::now();
                let elements = work.fetch(&common)?;
                transfer += fetching.elapsed().as_secs_f64();
                let _ = elements.chunks(BATCH).try_for_each(take);
                (elements.len() as u64, seconds)
            }
        };
        Ok(IntersectReport {
            size,
            sets: (a.len() as u64, b.len() as u64),
            technique: kernel.name().into(),
            engine: Engine::Gpu,
            tier: "none",
            threads: 1,
            seconds: begin.elapsed().as_secs_f64(),
            device: Some((transfer, seconds)),
        })
    }

    fn run(
        &self,
        a: &[u32],
        b: &[u32],
        method: Option<Method>,
        work: impl FnOnce(&Intersection) -> u64 + Send,
    ) -> Result<IntersectReport> {
        let intersection = Intersection::new(method);
        let begin = Instant::now();
        let work = || (work(&intersection), rayon::current_num_threads());
        let (size, threads) = if self.threads == 0 {
            work()
        } else {
            let pool = ThreadPoolBuilder::new().num_threads(self.threads).build();
            pool.map_err(|error| Error::Unavailable(format!("cannot start threads: {error}")))?
                .install(work)
        };
        let used: Vec<&str> = intersection.used().into_iter().map(Method::name).collect();
        Ok(IntersectReport {
            size,
            sets: (a.len() as u64, b.len() as u64),
            technique: if used.is_empty() { "none".into() } else { used.join("+") },
            engine: Engine::Cpu,
            tier: intersection.tier().name(),
            threads,
            seconds: begin.elapsed().as_secs_f64(),
            device: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use simjoin_engine::names;

    #[test]
    fn reports_tell_what_was_found_and_how() {
        let a: Vec<u32> = (0..1000).collect();
        let b: Vec<u32> = (500..2500).collect();
        for name in names(Subject::Intersections, Processor::Cpu).chain([AUTO]) {
            let report = Intersect::new().technique(name).threads(2).size(&a, &b).unwrap();
            assert_eq!((report.size, report.sets, report.threads), (500, (1000, 2000), 2));
            assert_eq!(report.containment(), 0.5);
            assert!(name == "auto" || report.technique == name);
            assert!(Intersect::new().technique(name).explain(&a, &b).is_ok());
        }
        let nothing = Intersect::new().size(&a, &[]).unwrap();
        assert_eq!((nothing.size, nothing.containment()), (0, 0.0));
        let error = Intersect::new().technique("magic").size(&a, &b).unwrap_err();
        assert!(matches!(error, Error::Config(text) if text.contains("gallop")));
        let on_gpu = |name: &str| Intersect::new().engine(Engine::Gpu).technique(name).check();
        assert!(names(Subject::Intersections, Processor::Device).all(|name| on_gpu(name).is_ok()));
        assert!(on_gpu("gallop").is_err());
        assert!(Intersect::new().engine(Engine::Cpu).technique("ip").check().is_err());
        assert!(Intersect::new().technique("ip").check().is_ok());
        assert!(Intersect::new().engine(Engine::Hybrid).check().is_err());
    }

    #[test]
    #[ignore = "needs a GPU"]
    fn a_gpu_finds_the_same() {
        let numbers = |step: u32, from: u32| (0..300_000u32).map(|at| from + at * step).collect();
        let sets: [Vec<u32>; 4] = [numbers(2, 0), numbers(3, 500), vec![], vec![600]];
        for a in &sets {
            for b in &sets {
                let elements = |intersect: &Intersect| {
                    let mut found = Vec::new();
                    let report = intersect.elements(a, b, |some| {
                        found.extend_from_slice(some);
                        ControlFlow::Continue(())
                    });
                    assert_eq!(report.unwrap().size, found.len() as u64);
                    found
                };
                let expected = elements(&Intersect::new());
                for name in names(Subject::Intersections, Processor::Device).chain([AUTO]) {
                    let intersect = Intersect::new().engine(Engine::Gpu).technique(name);
                    assert_eq!(elements(&intersect), expected, "{name}");
                    let report = intersect.size(a, b).unwrap();
                    assert_eq!(report.size, expected.len() as u64);
                    assert_eq!(report.engine, Engine::Gpu);
                }
            }
        }
    }
}
