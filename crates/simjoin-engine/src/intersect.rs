//! What do two large sets have in common?

use crate::host::{DeviceIntersection, Host, TakeElements};
use crate::machine::Machine;
use crate::processor::Processor;
use crate::registry::{AUTO, Subject, chosen};
use crate::report::{Engine, did_its_work};
use crate::run::{pool, threads};
use simjoin_core::{Error, Result};
use simjoin_kernels::intersect::Method;
use simjoin_kernels::tier::Tier;
use std::ops::ControlFlow;
use std::time::Instant;

/// The intersection of two sets of numbers: their size, their elements, and the degree to which the smaller
/// one is contained in the other.
///
/// Sets are slices that ascend and hold no number twice. What does not ascend has no meaningful intersection.
#[derive(Clone, Debug)]
pub struct Intersect {
    technique: String,
    engine: Engine,
    threads: usize,
    machine: Option<Machine>,
    host: &'static dyn Host,
}

/// Where two sets are intersected, and how if that was asked for.
#[derive(Clone, Copy, Debug)]
enum Way {
    Cpu(Option<Method>),
    Gpu(Option<&'static str>),
}

/// Elements of a GPU that are handed on at once.
const BATCH: usize = 1 << 16;

/// The result of an intersection.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct IntersectReport {
    /// The number of elements that both sets have, or that were handed on before the end of an early stop.
    pub size: u64,
    /// How many elements each set has.
    pub sets: (u64, u64),
    /// The technique that ran; several are joined by `+`.
    pub technique: String,
    /// Where it ran: on the CPU or on a GPU, which may be a simulated one.
    pub engine: Engine,
    /// The vector instructions that were used; none on a GPU.
    pub tier: &'static str,
    /// The number of threads that ran.
    pub threads: usize,
    /// Seconds from begin to end.
    pub seconds: f64,
    /// Of a GPU: seconds of sending the sets and fetching elements, and seconds of its kernels.
    pub device: Option<(f64, f64)>,
    /// What went wrong and was put right: a GPU that failed and whose work the CPU did.
    pub warnings: Vec<String>,
}

impl IntersectReport {
    /// Returns the degree to which the smaller set is contained in the other: 1 for a subset. Nothing is contained
    /// of an empty set: 0.
    pub fn containment(&self) -> f64 {
        let smaller = self.sets.0.min(self.sets.1);
        if smaller == 0 { 0.0 } else { self.size as f64 / smaller as f64 }
    }
}

impl Intersect {
    /// Makes an intersection with the technique that suits, on all cores.
    pub fn new(host: &'static dyn Host) -> Self {
        Intersect { technique: AUTO.into(), engine: Engine::Auto, threads: 0, machine: None, host }
    }

    /// Chooses where to run. [`Engine::Auto`] is the CPU, unless a technique of the GPU is asked for: sets
    /// that are in memory are intersected sooner than they reach a GPU. The CPU does the work of a GPU that fails.
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

    /// Uses the device of this machine, which may be a simulated one, instead of the one that the environment asks for
    /// ([`Machine::from_environment`]).
    pub fn machine(mut self, machine: Machine) -> Self {
        self.machine = Some(machine);
        self
    }

    /// Says what is wrong with the choice of technique, before any work is done.
    pub fn check(&self) -> Result<()> {
        Tier::asked_for().map_err(Error::Config)?;
        self.way().map(drop)
    }

    /// Returns the technique for two sets as a whole, and why. Parts of them may be done otherwise.
    pub fn explain(&self, a: &[u32], b: &[u32]) -> Result<(&'static str, &'static str)> {
        let tier = Tier::best();
        let method = match self.way()? {
            Way::Cpu(Some(method)) => return Ok((method.name(), "asked for")),
            Way::Gpu(Some(kernel)) => return Ok((kernel, "asked for")),
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

    /// Counts the elements that both sets have.
    pub fn size(&self, a: &[u32], b: &[u32]) -> Result<IntersectReport> {
        self.run(a, b, None)
    }

    /// Hands the elements that both sets have to `take`, in ascending batches. `take` may answer `Break` to
    /// end early. On the CPU, memory is needed for a few batches, whatever the size.
    pub fn elements(
        &self,
        a: &[u32],
        b: &[u32],
        mut take: impl FnMut(&[u32]) -> ControlFlow<()> + Send,
    ) -> Result<IntersectReport> {
        self.run(a, b, Some(&mut take))
    }

    fn way(&self) -> Result<Way> {
        match chosen(Subject::Intersections, &self.technique, self.engine)? {
            Some((Processor::Device, name)) => Ok(Way::Gpu((name != AUTO).then_some(name))),
            Some((Processor::Cpu, name)) => {
                Ok(Way::Cpu(Method::ALL.into_iter().find(|method| method.name() == name)))
            }
            None => Ok(Way::Cpu(None)),
        }
    }

    fn run(&self, a: &[u32], b: &[u32], take: Option<TakeElements<'_>>) -> Result<IntersectReport> {
        self.check()?;
        let technique = match self.way()? {
            Way::Cpu(method) => return self.run_on_cpu(a, b, method, take),
            Way::Gpu(technique) => technique,
        };
        let begin = Instant::now();
        let machine = self.machine.map_or_else(Machine::from_environment, Ok)?;
        let found = match machine.simulated() {
            Some(device) => device.intersect(self.host, (a, b), technique, take.is_some()),
            None => {
                self.host.device()?;
                self.host.intersect_on_device(a, b, technique, take.is_some())
            }
        };
        match found {
            Ok(found) => Ok(on_device(a, b, &found, take, begin)),
            Err(error) => {
                let mut report = self.run_on_cpu(a, b, None, take)?;
                report.warnings.push(did_its_work(&error));
                Ok(report)
            }
        }
    }

    fn run_on_cpu(
        &self,
        a: &[u32],
        b: &[u32],
        method: Option<Method>,
        take: Option<TakeElements<'_>>,
    ) -> Result<IntersectReport> {
        let begin = Instant::now();
        let work = || (self.host.intersect(a, b, method, take), rayon::current_num_threads());
        let (found, threads) = if self.threads == 0 {
            work()
        } else {
            pool(threads(Some(self.threads))?)?.install(work)
        };
        let used: Vec<&str> = found.used.into_iter().map(Method::name).collect();
        Ok(IntersectReport {
            size: found.size,
            sets: (a.len() as u64, b.len() as u64),
            technique: if used.is_empty() { "none".into() } else { used.join("+") },
            engine: Engine::Cpu,
            tier: found.tier.name(),
            threads,
            seconds: begin.elapsed().as_secs_f64(),
            device: None,
            warnings: Vec::new(),
        })
    }
}

/// Hands on what a device found, and reports it.
fn on_device(
    a: &[u32],
    b: &[u32],
    found: &DeviceIntersection,
    take: Option<TakeElements<'_>>,
    begin: Instant,
) -> IntersectReport {
    if let (Some(take), Some(elements)) = (take, &found.elements) {
        let _ = elements.chunks(BATCH).try_for_each(take);
    }
    IntersectReport {
        size: found.size,
        sets: (a.len() as u64, b.len() as u64),
        technique: found.technique.into(),
        engine: Engine::Gpu,
        tier: "none",
        threads: 1,
        seconds: begin.elapsed().as_secs_f64(),
        device: Some(found.seconds),
        warnings: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::costs::Ratios;
    use crate::host::{CpuIntersection, Device, VectorTechniques};
    use crate::overlaps::{OverlapSurvey, Overlaps};
    use crate::sets::{CandidateFilter, SetTask, Sets};
    use crate::technique::{Technique, Techniques};
    use crate::vectors::{VectorTask, Vectors};
    use simjoin_kernels::tier::Tier;

    /// A machine whose device fails, or is not there.
    struct Broken {
        there: bool,
    }

    impl Host for Broken {
        fn intersect(
            &self,
            a: &[u32],
            b: &[u32],
            method: Option<Method>,
            take: Option<TakeElements<'_>>,
        ) -> CpuIntersection {
            assert_eq!(method, None, "the technique was named for a device");
            let common: Vec<u32> = a.iter().copied().filter(|one| b.contains(one)).collect();
            if let Some(take) = take {
                let _ = take(&common);
            }
            let (size, used) = (common.len() as u64, vec![Method::Merge]);
            CpuIntersection { size, used, tier: Tier::Scalar }
        }

        fn device(&self) -> Result<()> {
            if self.there { Ok(()) } else { Err(Error::Unavailable("no device".into())) }
        }

        fn intersect_on_device(
            &self,
            _: &[u32],
            _: &[u32],
            _: Option<&str>,
            _: bool,
        ) -> Result<DeviceIntersection> {
            Err(Error::Unavailable("the GPU failed".into()))
        }

        fn set_techniques(&self) -> Techniques<Sets> {
            Vec::new()
        }

        fn filters(&self) -> Vec<&'static dyn CandidateFilter> {
            Vec::new()
        }

        fn estimate_rows(&self, _: &SetTask<'_>, _: usize, _: u64) -> Option<f64> {
            None
        }

        fn vector_techniques(&self, _: &VectorTask<'_>) -> VectorTechniques {
            unreachable!("no vectors are joined")
        }

        fn vector_techniques_unseen(&self) -> Techniques<Vectors> {
            Vec::new()
        }

        fn striped_loop(&self, _: usize) -> Box<dyn Technique<Vectors>> {
            unreachable!("no vectors are joined")
        }

        fn overlap_techniques(&self, _: &OverlapSurvey) -> Techniques<Overlaps> {
            Vec::new()
        }

        fn calibrate(&self) -> Ratios {
            unreachable!("no join is planned")
        }

        fn devices(&self) -> Result<&dyn Device> {
            Err(Error::Unavailable("no device".into()))
        }

        fn awake(&self) -> bool {
            false
        }

        fn device_names(&self) -> Vec<String> {
            Vec::new()
        }
    }

    #[test]
    fn cpu_does_the_work_of_a_device_that_fails() {
        for technique in [AUTO, "ip"] {
            let broken = Intersect::new(&Broken { there: true }).engine(Engine::Gpu);
            let broken = broken.technique(technique);
            let mut found = Vec::new();
            let report = broken.elements(&[1, 3, 5], &[3, 4, 5], |some| {
                found.extend_from_slice(some);
                ControlFlow::Continue(())
            });
            let report = report.unwrap();
            assert_eq!((found, report.size, report.engine), (vec![3, 5], 2, Engine::Cpu));
            assert_eq!(report.warnings, ["the GPU failed; the CPU did its work"]);
            assert_eq!(broken.size(&[1, 3, 5], &[3, 4, 5]).unwrap().size, 2);
        }
    }

    #[test]
    fn simulated_device_intersects_or_fails() {
        // A simulated device needs no real one.
        let on = |device: &str| {
            let machine = Machine::fixed().simulating(device).unwrap();
            Intersect::new(&Broken { there: false }).engine(Engine::Gpu).machine(machine)
        };
        let mut found = Vec::new();
        let report = on("speed=2,latency=3").elements(&[1, 3, 5], &[3, 4, 5], |some| {
            found.extend_from_slice(some);
            ControlFlow::Continue(())
        });
        let report = report.unwrap();
        assert_eq!((found, report.size, report.engine), (vec![3, 5], 2, Engine::Gpu));
        assert_eq!((&*report.technique, report.warnings.len()), ("ip", 0));
        assert_eq!(report.device.unwrap().0, 0.003);
        let report = on("speed=2").technique("ip-hash").size(&[1, 3, 5], &[3]).unwrap();
        assert_eq!((report.size, &*report.technique), (1, "ip-hash"));
        for (device, why) in [
            ("fail=1", "the simulated GPU failed"),
            ("fail=@1", "the simulated GPU failed"),
            ("memory=23", "the simulated GPU has too little memory: 24 bytes are needed"),
        ] {
            let report = on(device).size(&[1, 3, 5], &[3, 4, 5]).unwrap();
            assert_eq!((report.size, report.engine), (2, Engine::Cpu));
            assert_eq!(report.warnings, [format!("{why}; the CPU did its work")]);
        }
    }

    #[test]
    fn a_device_that_is_not_there_is_an_error() {
        let none = Intersect::new(&Broken { there: false }).engine(Engine::Gpu);
        assert!(matches!(none.size(&[1], &[1]), Err(Error::Unavailable(_))));
    }
}
