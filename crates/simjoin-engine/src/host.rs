//! Which processors does this machine have, and what can they do?
//!
//! The engine itself contains no technique and no device: the library on top of it provides a [`Host`].

use crate::costs::Ratios;
use crate::overlaps::{OverlapSurvey, Overlaps};
use crate::sets::{CandidateFilter, SetTask, Sets};
use crate::technique::{Technique, Techniques};
use crate::vectors::{Fit, VectorSurvey, VectorTask, Vectors};
use simjoin_core::Result;
use simjoin_kernels::intersect::Method;
use simjoin_kernels::tier::Tier;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;

/// The processors of a machine.
pub trait Host: Sync {
    /// Returns every technique for sets on CPU cores.
    fn set_techniques(&self) -> Techniques<Sets>;

    /// Returns the techniques for sets on CPU cores that can leave the verification of candidates to a device.
    fn filters(&self) -> Vec<&'static dyn CandidateFilter>;

    /// Estimates the number of pairs of rows from a sample of about `sets` sets; `None` if the signatures for it do not
    /// fit the memory.
    fn estimate_rows(&self, task: &SetTask<'_>, sets: usize, memory: u64) -> Option<f64>;

    /// Returns the techniques for vectors on CPU cores, and a survey of the join from a sample.
    fn vector_techniques(&self, task: &VectorTask<'_>) -> VectorTechniques;

    /// Returns the techniques for vectors on CPU cores without looking at the rows, so that none has a cost.
    fn vector_techniques_unseen(&self) -> Techniques<Vectors>;

    /// Returns every technique for overlaps on CPU cores.
    fn overlap_techniques(&self, survey: &OverlapSurvey) -> Techniques<Overlaps>;

    /// Returns a nested loop on CPU cores that joins any range of probes, in pieces of `stripe` probes.
    fn striped_loop(&self, stripe: usize) -> Box<dyn Technique<Vectors>>;

    /// Intersects two ascending sets on CPU cores, by a certain method or by the one that suits each part, and hands
    /// the elements to `take` if they are wanted.
    fn intersect(
        &self,
        a: &[u32],
        b: &[u32],
        method: Option<Method>,
        take: Option<TakeElements<'_>>,
    ) -> CpuIntersection;

    /// Wakes up a device that intersects sets, or returns why there is none.
    fn device(&self) -> Result<()>;

    /// Intersects two ascending sets on a device, by the technique of this name or by the one that suits.
    fn intersect_on_device(
        &self,
        a: &[u32],
        b: &[u32],
        technique: Option<&str>,
        elements: bool,
    ) -> Result<DeviceIntersection>;

    /// Measures the machine, which takes a few milliseconds.
    fn calibrate(&self) -> Ratios;

    /// Returns the devices. The first call wakes them up, which may take a second.
    fn devices(&self) -> Result<&dyn Device>;

    /// Returns whether devices are awake.
    fn awake(&self) -> bool;

    /// Returns the names of the devices of this machine; none where they cannot be used.
    fn device_names(&self) -> Vec<String>;
}

impl fmt::Debug for dyn Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Host")
    }
}

/// The devices of a machine, which work together.
pub trait Device: Sync {
    /// Returns every technique for sets; `filters` are those of the CPU that find candidates for a device.
    fn set_techniques(&self, filters: &[&'static dyn CandidateFilter]) -> Techniques<Sets>;

    /// Returns every technique for vectors.
    fn vector_techniques(&self, how: DeviceVectors) -> Techniques<Vectors>;

    /// Returns every technique for overlaps.
    fn overlap_techniques(&self) -> Techniques<Overlaps>;

    /// Returns the bytes that are free on each device.
    fn free_memory(&self) -> u64;
}

/// The conditions under which devices join vectors.
#[derive(Clone)]
pub struct DeviceVectors {
    /// How vectors become images, if that is known.
    pub fit: Option<Arc<Fit>>,
    /// The most bytes to take on each device.
    pub memory: u64,
    /// Whether CPU cores work too. If so, the techniques join any range of stripes, and their threads sleep while they wait
    /// for a device.
    pub shared: bool,
}

/// The techniques for a join of vectors, and what a sample says about it.
pub struct VectorTechniques {
    /// Every technique.
    pub all: Techniques<Vectors>,
    /// The facts from which they estimate their costs.
    pub survey: VectorSurvey,
    /// How their images are made.
    pub fit: Arc<Fit>,
}

/// A function that takes elements, in ascending batches.
pub type TakeElements<'t> = &'t mut (dyn FnMut(&[u32]) -> ControlFlow<()> + Send);

/// The intersection of two sets, found by CPU cores.
#[derive(Clone, Debug, PartialEq)]
pub struct CpuIntersection {
    /// The number of common elements; if the caller ended early, of those handed on.
    pub size: u64,
    /// The methods that were used.
    pub used: Vec<Method>,
    /// The vector instructions that were used.
    pub tier: Tier,
}

/// The intersection of two sets, found by a device.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceIntersection {
    /// The number of common elements.
    pub size: u64,
    /// The elements, if they were asked for.
    pub elements: Option<Vec<u32>>,
    /// The technique that ran.
    pub technique: &'static str,
    /// Seconds of sending the sets and fetching elements, and seconds of kernels.
    pub seconds: (f64, f64),
}
