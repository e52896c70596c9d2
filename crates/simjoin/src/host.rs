//! Which techniques does the engine get, and on which processors?

#[cfg(not(feature = "gpu"))]
use crate::no_gpu as gpu;
use simjoin_core::{Bounds, Predicate, Result, VectorPredicate};
use simjoin_cpu::{Intersection, StripedLoop};
use simjoin_engine::{
    CandidateFilter, CpuIntersection, Device, DeviceIntersection, Host, Intersect, Join,
    OverlapSurvey, Overlaps, Processor, Ratios, SetTask, Sets, Subject, TakeElements, Technique,
    Techniques, VectorTask, VectorTechniques, Vectors, WantedOverlaps, names,
};
#[cfg(feature = "gpu")]
use simjoin_gpu as gpu;
use simjoin_kernels::intersect::Method;

/// Makes a join of sets, with the default technique on all cores.
pub fn join(predicate: Predicate) -> Join<Sets> {
    Join::new(predicate, &ThisMachine)
}

/// Returns the names of those techniques for sets on the CPU that can join by a predicate.
///
/// ```
/// use simjoin::engine::{Measure, Predicate, techniques_for};
///
/// let jaccard = techniques_for(Predicate::parse(Measure::Jaccard, "0.8")?);
/// assert!(jaccard.contains(&"ppjoin") && !jaccard.contains(&"lcjoin"));
/// # Ok::<(), simjoin::Error>(())
/// ```
pub fn techniques_for(predicate: Predicate) -> Vec<&'static str> {
    let (bounds, all) = (Bounds::new(predicate), simjoin_cpu::techniques());
    let can = |name: &&str| {
        all.iter().any(|one| one.name() == *name && one.unsupported(&bounds).is_none())
    };
    names(Subject::Sets, Processor::Cpu).filter(can).collect()
}

/// Makes a join of vectors, with the default technique on all cores.
///
/// ```
/// use simjoin::engine::{Control, Elements, VectorCollection, VectorPredicate};
///
/// let points = Elements::F32(vec![0.0, 0.0, 3.0, 4.0, 0.0, 1.0]);
/// let points = VectorCollection::new("points", 2, points)?;
/// let join = simjoin::engine::vector_join(VectorPredicate::within("5")?);
/// let mut found = Vec::new();
/// join.pairs(&points, None, &Control::default(), |pairs| {
///     found.extend(pairs.iter().map(|pair| (pair.left, pair.right, pair.similarity)));
///     std::ops::ControlFlow::Continue(())
/// })?;
/// found.sort_by_key(|pair| (pair.0, pair.1));
/// assert_eq!(found, [(0, 1, 5.0), (0, 2, 1.0), (1, 2, 18f64.sqrt())]);
/// # Ok::<(), simjoin::Error>(())
/// ```
pub fn vector_join(predicate: VectorPredicate) -> Join<Vectors> {
    Join::new(predicate, &ThisMachine)
}

/// Makes a join without a threshold, which counts what rows have in common, with the default technique on all cores.
///
/// Rows come as [`RowPair`](crate::engine::RowPair)s whose similarity is the overlap. One collection is compared with itself,
/// each pair once; two that were [prepared](crate::engine::prepare) together are compared left with right. One processor does
/// it alone: there is no hybrid engine, and there are no groups.
///
/// ```
/// use simjoin::engine::{Control, RawSets, WantedOverlaps, prepare};
/// use std::ops::ControlFlow;
///
/// let mut rows = RawSets::default();
/// rows.push(&[0, 1, 2]);
/// rows.push(&[1, 2, 3]);
/// rows.push(&[4]);
/// let (sets, _) = prepare(rows, None, 5)?;
/// let mut found = Vec::new();
/// simjoin::engine::overlaps(WantedOverlaps::Positive).pairs(&sets, None, &Control::default(), |pairs| {
///     found.extend(pairs.iter().map(|pair| (pair.left, pair.right, pair.overlap)));
///     ControlFlow::Continue(())
/// })?;
/// assert_eq!(found, [(0, 1, 2)]);
/// let all = simjoin::engine::overlaps(WantedOverlaps::All);
/// assert_eq!(all.count(&sets, None, &Control::default())?.pairs, 3);
/// # Ok::<(), simjoin::Error>(())
/// ```
pub fn overlaps(wanted: WantedOverlaps) -> Join<Overlaps> {
    Join::new(wanted, &ThisMachine)
}

/// Makes an intersection of two sets of numbers, with the technique that suits, on all cores.
///
/// Sets are slices that ascend and hold no number twice; [`ascending`](crate::engine::ascending) makes one of any
/// numbers. [`intersect`](crate::intersect()) checks that they are.
///
/// ```
/// use simjoin::engine::ascending;
/// use std::ops::ControlFlow;
///
/// let a = ascending(vec![7, 3, 5, 3, 11]);
/// let b = ascending(vec![2, 3, 5, 7, 11, 13]);
/// let intersect = simjoin::engine::intersect();
/// let report = intersect.size(&a, &b)?;
/// assert_eq!((report.size, report.containment()), (4, 1.0));
///
/// let mut common = Vec::new();
/// intersect.elements(&a, &b, |some| {
///     common.extend_from_slice(some);
///     ControlFlow::Continue(())
/// })?;
/// assert_eq!(common, [3, 5, 7, 11]);
/// # Ok::<(), simjoin::Error>(())
/// ```
pub fn intersect() -> Intersect {
    Intersect::new(&ThisMachine)
}

/// Returns the version of NVRTC, which compiles for GPUs, or says why it cannot.
///
/// ```
/// match simjoin::engine::compiler() {
///     Ok((major, minor)) => println!("NVRTC {major}.{minor}"),
///     Err(why) => println!("nothing can be compiled for a GPU: {why}"),
/// }
/// ```
#[cfg(feature = "gpu")]
pub fn compiler() -> Result<(i32, i32)> {
    gpu::Nvrtc::get().map(gpu::Nvrtc::version)
}

/// The CPU and the NVIDIA GPUs of this machine.
struct ThisMachine;

impl Host for ThisMachine {
    fn set_techniques(&self) -> Techniques<Sets> {
        simjoin_cpu::techniques()
    }

    fn filters(&self) -> Vec<&'static dyn CandidateFilter> {
        simjoin_cpu::filters().to_vec()
    }

    fn estimate_rows(&self, task: &SetTask<'_>, sets: usize, memory: u64) -> Option<f64> {
        simjoin_cpu::estimate_rows(task, sets, memory)
    }

    fn vector_techniques(&self, task: &VectorTask<'_>) -> VectorTechniques {
        simjoin_cpu::vector_techniques(task)
    }

    fn vector_techniques_unseen(&self) -> Techniques<Vectors> {
        simjoin_cpu::vector_techniques_unseen()
    }

    fn overlap_techniques(&self, survey: &OverlapSurvey) -> Techniques<Overlaps> {
        simjoin_cpu::overlap_techniques(survey)
    }

    fn striped_loop(&self, stripe: usize) -> Box<dyn Technique<Vectors>> {
        Box::new(StripedLoop { stripe })
    }

    fn calibrate(&self) -> Ratios {
        simjoin_cpu::calibrate()
    }

    fn intersect(
        &self,
        a: &[u32],
        b: &[u32],
        method: Option<Method>,
        take: Option<TakeElements<'_>>,
    ) -> CpuIntersection {
        let work = Intersection::new(method);
        let size = take.map_or_else(|| work.size(a, b), |take| work.elements(a, b, take));
        CpuIntersection { size, used: work.used(), tier: work.tier() }
    }

    fn device(&self) -> Result<()> {
        gpu::open_first()
    }

    fn intersect_on_device(
        &self,
        a: &[u32],
        b: &[u32],
        technique: Option<&str>,
        elements: bool,
    ) -> Result<DeviceIntersection> {
        gpu::intersect_on_first(a, b, technique, elements)
    }

    fn devices(&self) -> Result<&dyn Device> {
        gpu::gpus()
    }

    fn awake(&self) -> bool {
        gpu::opened()
    }

    fn device_names(&self) -> Vec<String> {
        gpu::gpu_names()
    }
}
