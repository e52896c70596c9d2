//! What do two large sets of numbers have in common?

use crate::engine::{self, Engine, IntersectReport};
use rayon::prelude::*;
use simjoin_core::{Error, Result};
use std::ops::ControlFlow;

/// Begins the intersection of two sets of numbers, which must ascend: [`ascending`](engine::ascending) makes such sets.
///
/// ```
/// let common = simjoin::intersect(&[2, 3, 5, 7], &[1, 2, 3]);
/// assert_eq!(common.size()?, 2);
/// assert_eq!(common.elements()?, [2, 3]);
/// assert!(simjoin::intersect(&[3, 2], &[1]).size().is_err());
/// # Ok::<(), simjoin::Error>(())
/// ```
pub fn intersect<'s>(left: &'s [u32], right: &'s [u32]) -> Intersection<'s> {
    Intersection { sets: [left, right], work: engine::intersect() }
}

/// The intersection of two sets of numbers. Every answer intersects them anew.
///
/// ```
/// use simjoin::engine::ascending;
///
/// let (a, b) = (ascending(vec![7, 3, 5, 3]), ascending(vec![1, 3, 7]));
/// let common = simjoin::intersect(&a, &b).threads(1);
/// assert_eq!((common.size()?, common.elements()?), (2, vec![3, 7]));
/// # Ok::<(), simjoin::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "an intersection does nothing until it is asked for an answer"]
pub struct Intersection<'s> {
    sets: [&'s [u32]; 2],
    work: engine::Intersect,
}

impl Intersection<'_> {
    /// Chooses where it runs: by default on the CPU, because sending the sets to a GPU takes longer.
    ///
    /// ```
    /// use simjoin::Engine;
    ///
    /// let report = simjoin::intersect(&[1, 2], &[2]).engine(Engine::Cpu).report()?;
    /// assert_eq!((report.size, report.engine), (1, Engine::Cpu));
    /// # Ok::<(), simjoin::Error>(())
    /// ```
    pub fn engine(mut self, engine: Engine) -> Self {
        self.work = self.work.engine(engine);
        self
    }

    /// Chooses the technique by name: `blocks`, `merge`, `gallop` or `bitmap`, on a GPU `ip`, `ip-obs`, `ip-hash` or
    /// `bitmap`. By default it is the one that suits.
    ///
    /// ```
    /// let report = simjoin::intersect(&[1, 2], &[2]).technique("gallop").report()?;
    /// assert_eq!(report.technique, "gallop");
    /// # Ok::<(), simjoin::Error>(())
    /// ```
    pub fn technique(mut self, name: &str) -> Self {
        self.work = self.work.technique(name);
        self
    }

    /// Runs on a pool of this many threads, at most 1,024; 0 for the rayon pool that the caller is in.
    ///
    /// ```
    /// assert_eq!(simjoin::intersect(&[1, 2], &[2]).threads(2).report()?.threads, 2);
    /// # Ok::<(), simjoin::Error>(())
    /// ```
    pub fn threads(mut self, threads: usize) -> Self {
        self.work = self.work.threads(threads);
        self
    }

    /// Counts the common elements.
    ///
    /// ```
    /// assert_eq!(simjoin::intersect(&[2, 3, 5], &[3, 5, 7]).size()?, 2);
    /// # Ok::<(), simjoin::Error>(())
    /// ```
    pub fn size(&self) -> Result<u64> {
        self.report().map(|report| report.size)
    }

    /// Counts the common elements, and tells how that went: technique, engine, seconds, warnings.
    ///
    /// ```
    /// let report = simjoin::intersect(&[2, 3, 5], &[3, 5]).report()?;
    /// assert_eq!((report.size, report.containment()), (2, 1.0));
    /// # Ok::<(), simjoin::Error>(())
    /// ```
    pub fn report(&self) -> Result<IntersectReport> {
        let [left, right] = self.checked()?;
        self.work.size(left, right)
    }

    /// Returns the common elements, ascending.
    ///
    /// ```
    /// assert_eq!(simjoin::intersect(&[2, 3, 5], &[3, 5, 7]).elements()?, [3, 5]);
    /// # Ok::<(), simjoin::Error>(())
    /// ```
    pub fn elements(&self) -> Result<Vec<u32>> {
        let [left, right] = self.checked()?;
        let mut common = Vec::new();
        self.work.elements(left, right, |some| {
            common.extend_from_slice(some);
            ControlFlow::Continue(())
        })?;
        Ok(common)
    }

    fn checked(&self) -> Result<[&[u32]; 2]> {
        for (set, name) in self.sets.iter().zip(["the left set", "the right set"]) {
            if let Some(at) = set.par_windows(2).position_first(|pair| pair[0] >= pair[1]) {
                let place = format!("element {} (counting from 0)", at + 1);
                let message = "not above the one before; expected numbers that ascend";
                return Err(Error::input(name, place, message));
            }
        }
        Ok(self.sets)
    }
}
