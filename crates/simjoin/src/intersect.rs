//! What do two large sets of numbers have in common?

use crate::engine::{self, Engine, IntersectReport};
use rayon::prelude::*;
use simjoin_core::{Error, Result};
use std::ops::ControlFlow;

/// Begins the intersection of two sets of numbers, which must ascend: [`ascending`](engine::ascending) makes such sets.
///
/// ```
/// let common = simjoin::intersect(&[2, 3, 5, 7], &[1, 2, 3]);
/// assert_eq!(common.size()?.size, 2);
/// assert_eq!(common.elements()?, [2, 3]);
/// assert!(simjoin::intersect(&[3, 2], &[1]).size().is_err());
/// # Ok::<(), simjoin::Error>(())
/// ```
pub fn intersect<'s>(left: &'s [u32], right: &'s [u32]) -> Intersection<'s> {
    Intersection { sets: [left, right], work: engine::intersect() }
}

/// The intersection of two sets of numbers.
#[derive(Clone, Debug)]
#[must_use = "an intersection does nothing until it is asked for an answer"]
pub struct Intersection<'s> {
    sets: [&'s [u32]; 2],
    work: engine::Intersect,
}

impl Intersection<'_> {
    /// Chooses where it runs: by default on the CPU, because sending the sets to a GPU takes longer.
    pub fn engine(mut self, engine: Engine) -> Self {
        self.work = self.work.engine(engine);
        self
    }

    /// Chooses the technique by name; by default the one that suits.
    pub fn technique(mut self, name: &str) -> Self {
        self.work = self.work.technique(name);
        self
    }

    /// Runs on a pool of this many threads; 0 for the rayon pool that the caller is in.
    pub fn threads(mut self, threads: usize) -> Self {
        self.work = self.work.threads(threads);
        self
    }

    /// Counts the common elements.
    pub fn size(&self) -> Result<IntersectReport> {
        let [left, right] = self.checked()?;
        self.work.size(left, right)
    }

    /// Returns the common elements, ascending.
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
