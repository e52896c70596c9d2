//! Which techniques does the engine get, and on which processors?

use simjoin_core::{Bounds, Predicate, Result, VectorPredicate};
use simjoin_cpu::StripedLoop;
use simjoin_engine::{
    Device, DeviceVectors, Host, Join, OverlapSurvey, Overlaps, Processor, Ratios, SetTask, Sets,
    Subject, Technique, Techniques, VectorTask, VectorTechniques, Vectors, WantedOverlaps, names,
};
use simjoin_gpu::{GpuVectors, VectorWay};

/// Makes a join of sets, with the default technique on all cores.
pub fn join(predicate: Predicate) -> Join<Sets> {
    Join::new(predicate, &ThisMachine)
}

/// Returns the names of those techniques for sets on the CPU that can join by a predicate.
pub fn techniques_for(predicate: Predicate) -> Vec<&'static str> {
    let (bounds, all) = (Bounds::new(predicate), simjoin_cpu::techniques());
    let can = |name: &&str| all.iter().any(|one| one.name() == *name && one.can(&bounds));
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
/// Rows come as [`RowPair`](crate::RowPair)s whose similarity is the overlap. One collection is compared with itself,
/// each pair once; two that were [prepared](crate::prepare) together are compared left with right. One processor does
/// it alone: there is no hybrid engine, and there are no groups.
///
/// ```
/// use simjoin::{Control, RawSets, WantedOverlaps, prepare};
/// use std::ops::ControlFlow;
///
/// let mut rows = RawSets::default();
/// rows.push(&[0, 1, 2]);
/// rows.push(&[1, 2, 3]);
/// rows.push(&[4]);
/// let (sets, _) = prepare(rows, None, 5)?;
/// let mut found = Vec::new();
/// simjoin::overlaps(WantedOverlaps::Positive).pairs(&sets, None, &Control::default(), |pairs| {
///     found.extend(pairs.iter().map(|pair| (pair.left, pair.right, pair.overlap)));
///     ControlFlow::Continue(())
/// })?;
/// assert_eq!(found, [(0, 1, 2)]);
/// let all = simjoin::overlaps(WantedOverlaps::All);
/// assert_eq!(all.count(&sets, None, &Control::default())?.pairs, 3);
/// # Ok::<(), simjoin::Error>(())
/// ```
pub fn overlaps(wanted: WantedOverlaps) -> Join<Overlaps> {
    Join::new(wanted, &ThisMachine)
}

/// Returns the version of NVRTC, which compiles for GPUs, or says why it cannot.
pub fn compiler() -> Result<(i32, i32)> {
    simjoin_gpu::Nvrtc::get().map(simjoin_gpu::Nvrtc::version)
}

/// The CPU and the NVIDIA GPUs of this machine.
struct ThisMachine;

impl Host for ThisMachine {
    fn set_techniques(&self) -> Techniques<Sets> {
        simjoin_cpu::techniques()
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

    fn devices(&self) -> Result<&dyn Device> {
        simjoin_gpu::devices()?;
        simjoin_gpu::Nvrtc::get()?;
        Ok(&Gpus)
    }

    fn awake(&self) -> bool {
        simjoin_gpu::opened()
    }

    fn device_names(&self) -> Vec<String> {
        let devices = simjoin_gpu::devices().unwrap_or_default();
        devices.iter().map(|device| device.info.name.clone()).collect()
    }
}

/// All NVIDIA GPUs that can be used.
struct Gpus;

impl Device for Gpus {
    fn set_techniques(&self) -> Techniques<Sets> {
        let devices = simjoin_gpu::devices().unwrap_or_default();
        simjoin_gpu::techniques(devices, &simjoin_cpu::filters())
    }

    fn vector_techniques(&self, how: DeviceVectors) -> Techniques<Vectors> {
        let DeviceVectors { fit, memory, shared } = how;
        let fit = fit.and_then(|fit| fit.downcast().ok());
        let devices = simjoin_gpu::devices().unwrap_or_default();
        let technique = |way| -> Box<dyn Technique<Vectors>> {
            Box::new(GpuVectors {
                fit: fit.clone(),
                memory,
                stripes: shared,
                patient: shared,
                ..GpuVectors::new(devices, way)
            })
        };
        VectorWay::ALL.into_iter().map(technique).collect()
    }

    fn overlap_techniques(&self) -> Techniques<Overlaps> {
        let devices = simjoin_gpu::devices().unwrap_or_default();
        devices.first().map(simjoin_gpu::overlap_techniques).unwrap_or_default()
    }

    fn free_memory(&self) -> u64 {
        let devices = simjoin_gpu::devices().unwrap_or_default();
        // A device that has failed fails at what it is given as well, which the CPU then does.
        let free = devices.iter().map(|device| device.free_memory().unwrap_or(u64::MAX));
        free.min().unwrap_or(u64::MAX)
    }
}
