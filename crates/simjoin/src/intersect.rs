//! What do two large sets have in common?

use rayon::ThreadPoolBuilder;
use simjoin_core::{Error, Result};
use simjoin_cpu::Intersection;
use simjoin_kernels::intersect::Method;
use simjoin_kernels::tier::Tier;
use std::ops::ControlFlow;
use std::time::Instant;

/// The names of the ways to intersect two sets, `auto` first.
pub const INTERSECT_TECHNIQUES: [&str; 5] = ["auto", "blocks", "merge", "gallop", "bitmap"];

/// The intersection of two sets of numbers: their size, their elements, and the degree to which the smaller
/// one is contained in the other.
///
/// Sets are slices that ascend and hold no number twice; [`ascending`](crate::ascending) makes one of any
/// numbers. What does not ascend has no meaningful intersection.
///
/// ```
/// use simjoin::{Intersect, ascending};
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
    threads: usize,
}

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
    /// The vector instructions that were used.
    pub tier: &'static str,
    /// The number of threads that ran.
    pub threads: usize,
    /// Seconds from begin to end.
    pub seconds: f64,
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
        Intersect { technique: "auto".into(), threads: 0 }
    }

    /// Chooses the technique by name, one of [`INTERSECT_TECHNIQUES`].
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
        self.method().map(drop)
    }

    /// The technique for two sets as a whole, and why. Parts of them may be done otherwise.
    pub fn explain(&self, a: &[u32], b: &[u32]) -> Result<(&'static str, &'static str)> {
        let tier = Tier::best();
        if let Some(method) = self.method()? {
            return Ok((method.name(), "asked for"));
        }
        let method = Method::of(tier, a, b);
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
        self.run(a, b, |intersection| intersection.size(a, b))
    }

    /// Hands the elements that both sets have to `take`, in ascending batches. `take` may answer `Break` to
    /// end early. Room is needed for a few batches, whatever the size.
    pub fn elements(
        &self,
        a: &[u32],
        b: &[u32],
        take: impl FnMut(&[u32]) -> ControlFlow<()> + Send,
    ) -> Result<IntersectReport> {
        self.run(a, b, |intersection| intersection.elements(a, b, take))
    }

    fn method(&self) -> Result<Option<Method>> {
        if self.technique == "auto" {
            return Ok(None);
        }
        let found = Method::ALL.into_iter().find(|method| method.name() == self.technique);
        found.map(Some).ok_or_else(|| {
            Error::Config(format!(
                "unknown technique {:?}; expected one of {}",
                self.technique,
                INTERSECT_TECHNIQUES.join(", ")
            ))
        })
    }

    fn run(
        &self,
        a: &[u32],
        b: &[u32],
        work: impl FnOnce(&Intersection) -> u64 + Send,
    ) -> Result<IntersectReport> {
        self.check()?;
        let intersection = Intersection::new(self.method()?);
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
            tier: intersection.tier().name(),
            threads,
            seconds: begin.elapsed().as_secs_f64(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_tell_what_was_found_and_how() {
        let a: Vec<u32> = (0..1000).collect();
        let b: Vec<u32> = (500..2500).collect();
        for name in INTERSECT_TECHNIQUES {
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
    }
}
