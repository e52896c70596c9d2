//! Who does what?
//!
//! A [`Plan`] knows the techniques of the CPU and those of the devices. For one of the two alone the
//! planner cuts each part of the join into tiles and names a technique for each. For both at once the
//! work is divided first: at a point given by hand, where estimates say that both end together, or tile by
//! tile as they go. [`Mode::Auto`] begins with the CPU alone, and looks for a device only where the join
//! takes longer than waking one up.

use super::executor::Ran;
use super::queue::{Queue, Rule};
use super::staging::Stage;
use crate::clock::Clock;
use crate::costs::CostTable;
use crate::host::Host;
use crate::kind::Sets;
use crate::machine::Machine;
use crate::plan::{Choice, Chosen, Division, Line, Resources, Sides, choose_for};
use crate::report::{Engine, Report, StepPlan};
use crate::sets::{Direction, Effort, SetTask, Survey, Tile};
use crate::technique::{Technique, Techniques};
use rayon::{ThreadPool, ThreadPoolBuilder};
use simjoin_core::{Error, Result, SetCollection, SetId};
use std::ops::Range;

/// Joins estimated to take longer than this many seconds are worth measuring the machine for, which
/// takes a thirtieth of that.
const CALIBRATE: f64 = 0.6;

/// Joins estimated to take longer than this many seconds on the CPU are worth looking for a device: as
/// long again as it takes to wake one up.
const WAKE_UP: f64 = 0.6;

/// Joins that may take one core less than this many seconds, as far as exact counts tell, are the CPU's:
/// planning them would take as long, and a device that is awake several times as long to begin.
const SOON: f64 = 0.05e-3;

/// Joins that are divided and estimated to take longer than this many seconds keep some of the work for
/// the side that is done first.
const LONG: f64 = 0.03;

/// Coming back for more is cheap if it costs no more than this part of the time, and dear if it costs more than that.
const CHEAP: f64 = 0.02;
const DEAR: f64 = 0.1;

/// The part of each side's work that is kept back for whoever is done first: more where coming back is cheap for both,
/// and of the CPU's alone where it is not for the device, since sets are sent anew. Where it is dear for the device,
/// nothing is: the CPU, which would have to do most of it, takes longer to come back than estimates are wrong by (H200
/// beside 16 cores, 2026-11-18: of a join of 1 million sets at 0.8, what the CPU does at once in 51 ms takes it 61 ms in
/// four takes, and all of the join 61 to 64 ms instead of 54; a start is estimated at a fifth of that). Where a start
/// costs 3 to 8 % of the time and estimates are off by a quarter (sigma), a model of 600 joins has nine of ten within
/// 1.14 to 1.17 times the best split, for 1.30 to 1.32 if nothing is kept back, and 1.11 to 1.20 if both sides keep a
/// quarter.
const KEPT_BACK: [f64; 2] = [0.25; 2];
const KEPT_IF_CHEAP: [f64; 2] = [0.5; 2];
const KEPT_OF_CPU: [f64; 2] = [0.25, 0.0];

/// What is kept back of a join of so many seconds, of which each take costs each side so many, if that is known.
fn kept_back(seconds: f64, starts: Option<[f64; 2]>) -> [f64; 2] {
    if seconds < LONG {
        return [0.0; 2];
    }
    match starts.map(|starts| starts.map(|start| start / seconds)) {
        Some([cpu, device]) if cpu.max(device) < CHEAP => KEPT_IF_CHEAP,
        Some([_, device]) if device > DEAR => [0.0; 2],
        Some([_, device]) if device > CHEAP => KEPT_OF_CPU,
        _ => KEPT_BACK,
    }
}

/// In how many units the rest is given out.
const REST_UNITS: u32 = 1 << 12;

/// Collections of more tokens than this are looked at by all threads.
const MUCH: usize = 1 << 16;

/// List pairs that virtual time looks at for a step of which nothing was estimated.
const SIMULATED_EFFORT: usize = 200;

/// Threads beside those of the pool that attend to devices.
pub(crate) const ATTENDANTS: usize = 3;

/// What a plan is made from, beside the techniques.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Threads to run on; 0 is the pool that the caller is in.
    pub(crate) threads: usize,
    /// Bytes for everything beside the collections.
    pub(crate) memory: u64,
    /// Bytes on each device.
    pub(crate) device_memory: u64,
    /// Bytes of the memory for the sink.
    pub(crate) sink: u64,
    /// Probe tokens in a piece.
    pub(crate) tile_tokens: usize,
}

/// How a hybrid join is split.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Split {
    /// Where both sides are estimated to end at the same time.
    Auto,
    /// The device gets this share of the work.
    Share(f64),
    /// Both take tiles from the ends of a queue, of so many at first.
    Queue(u32),
}

/// Who works.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Mode {
    Cpu,
    Device,
    Both(Split),
    /// Whoever is fastest.
    Auto,
}

/// Techniques to choose from, and threads to run them.
pub(crate) struct Plan {
    pub(crate) mode: Mode,
    /// Where only a device was asked for, these do the tiles of one that has failed.
    cpu: Techniques<Sets>,
    device: Techniques<Sets>,
    pub(crate) limits: Limits,
    explain: bool,
    pub(crate) timeline: bool,
    /// `None`: the pool that the caller is in.
    pub(crate) pool: Option<ThreadPool>,
    /// How many threads it has.
    threads: usize,
    pub(crate) machine: Machine,
    pub(crate) host: &'static dyn Host,
}

/// A part of the join, and what is to be done with it.
pub(crate) struct Step<'a> {
    pub(crate) join: SetTask<'a>,
    pub(crate) part: Direction,
    pub(crate) choice: Choice,
    /// Whether the CPU does it.
    pub(crate) on_cpu: bool,
}

/// What is to be done by whom.
#[derive(Default)]
pub(crate) struct Work<'a> {
    pub(crate) cpu: Vec<Step<'a>>,
    pub(crate) device: Vec<Step<'a>>,
    /// Both work at once; otherwise there are steps of one side only.
    pub(crate) both: bool,
    /// For whoever comes first.
    pub(crate) rest: Option<Queue<'a>>,
    /// The device's part of the work, as planned.
    pub(crate) share: Option<f64>,
}

impl<'a> Work<'a> {
    fn alone(steps: Vec<Step<'a>>) -> Self {
        let (cpu, device) = steps.into_iter().partition(|step: &Step<'_>| step.on_cpu);
        Work { cpu, device, ..Work::default() }
    }
}

impl Plan {
    pub(crate) fn new(
        mode: Mode,
        cpu: Techniques<Sets>,
        device: Techniques<Sets>,
        limits: Limits,
        (explain, timeline): (bool, bool),
        machine: Machine,
        host: &'static dyn Host,
    ) -> Result<Self> {
        let pool =
            match limits.threads {
                0 => None,
                threads => Some(ThreadPoolBuilder::new().num_threads(threads).build().map_err(
                    |error| Error::Unavailable(format!("cannot start threads: {error}")),
                )?),
            };
        let threads =
            pool.as_ref().map_or_else(rayon::current_num_threads, ThreadPool::current_num_threads);
        Ok(Plan { mode, cpu, device, limits, explain, timeline, pool, threads, machine, host })
    }

    pub(crate) fn threads(&self) -> usize {
        self.threads
    }

    /// Runs `work` on the threads of the join.
    pub(crate) fn install<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        match &self.pool {
            Some(pool) => pool.install(work),
            None => work(),
        }
    }

    pub(crate) fn techniques(&self, on_cpu: bool) -> &[Box<dyn Technique<Sets>>] {
        if on_cpu { &self.cpu } else { &self.device }
    }

    fn refs(&self, on_cpu: bool) -> Vec<&dyn Technique<Sets>> {
        self.techniques(on_cpu).iter().map(|technique| &**technique).collect()
    }

    /// Bytes for a technique. Where both sides work, two of them run at once.
    pub(crate) fn memory(&self, both: bool) -> u64 {
        match self.limits.memory {
            u64::MAX => u64::MAX,
            all => all.saturating_sub(self.limits.sink) / if both { 2 } else { 1 },
        }
    }

    fn means<'m>(&self, units: &'m CostTable, threads: usize, both: bool) -> Resources<'m> {
        Resources {
            units,
            threads,
            memory: self.memory(both),
            device_memory: self.limits.device_memory,
            explain: self.explain,
        }
    }

    /// What a side has: beside the CPU a device has a few threads, which attend to it.
    fn means_of<'m>(&self, units: &'m CostTable, on_cpu: bool, both: bool) -> Resources<'m> {
        let threads = if both && !on_cpu { ATTENDANTS } else { self.threads() };
        self.means(units, threads, both)
    }

    /// An error about memory speaks of all of it.
    fn with_sink(&self, error: Error, both: bool) -> Error {
        match error {
            Error::Memory { what, needed, device: false, .. } => Error::Memory {
                what,
                needed: needed * if both { 2 } else { 1 } + self.limits.sink,
                limit: self.limits.memory,
                device: false,
            },
            other => other,
        }
    }

    /// What the CPU or a device is to do with tiles.
    pub(crate) fn steps<'a>(
        &self,
        tiles: impl IntoIterator<Item = (SetTask<'a>, Direction, Tile)>,
        on_cpu: bool,
        both: bool,
    ) -> Result<Vec<Step<'a>>> {
        let (units, _) = self.machine.units();
        self.steps_with(tiles, on_cpu, both, &units)
    }

    /// What one side is to do with tiles beside those that it has done by a technique. A small tile shows
    /// too little of itself for another choice.
    pub(crate) fn steps_beside<'a>(
        &self,
        tiles: impl IntoIterator<Item = (SetTask<'a>, Direction, Tile)>,
        on_cpu: bool,
        technique: Option<usize>,
    ) -> Result<Vec<Step<'a>>> {
        match technique {
            Some(technique) => self.steps_by(tiles, (technique, None), on_cpu, true),
            None => self.steps(tiles, on_cpu, true),
        }
    }

    fn steps_with<'a>(
        &self,
        tiles: impl IntoIterator<Item = (SetTask<'a>, Direction, Tile)>,
        on_cpu: bool,
        both: bool,
        units: &CostTable,
    ) -> Result<Vec<Step<'a>>> {
        let means = self.means_of(units, on_cpu, both);
        let offered = self.refs(on_cpu);
        let mut steps = Vec::new();
        for (join, part, tile) in tiles {
            let choose = || choose_for(&join, &tile, &offered, &means);
            // Where there is much to look at, all threads do.
            let much = join.probe.total_tokens() > MUCH;
            let choices = if much { self.install(choose) } else { choose() };
            let choices = choices.map_err(|error| self.with_sink(error, both))?;
            steps.extend(choices.into_iter().map(|choice| Step { join, part, choice, on_cpu }));
        }
        Ok(steps)
    }

    /// What one side is to do with everything.
    fn all_steps<'a>(
        &self,
        parts: &[(SetTask<'a>, Direction)],
        on_cpu: bool,
    ) -> Result<Vec<Step<'a>>> {
        let whole = || parts.iter().map(|&(join, part)| (join, part, Tile::whole(&join)));
        let (units, measured) = self.machine.units();
        let steps = self.steps_with(whole(), on_cpu, false, &units)?;
        // Where a choice matters, it is made with the units of this machine.
        let estimated: f64 = steps.iter().filter_map(|step| step.choice.seconds()).sum();
        let several = self.techniques(on_cpu).len() > 1;
        if measured || !(self.explain || (several && estimated > CALIBRATE)) {
            return Ok(steps);
        }
        self.steps_with(whole(), on_cpu, false, &self.machine.measured_units(self.host))
    }

    /// What one side is to do with tiles by a technique that is known already, and with it the seconds that
    /// each of them takes, if they are.
    fn steps_by<'a>(
        &self,
        tiles: impl IntoIterator<Item = (SetTask<'a>, Direction, Tile)>,
        (technique, seconds): (usize, Option<f64>),
        on_cpu: bool,
        both: bool,
    ) -> Result<Vec<Step<'a>>> {
        let (units, _) = self.machine.units();
        let means = self.means_of(&units, on_cpu, both);
        let offered = self.techniques(on_cpu);
        let mut steps = Vec::new();
        for (join, part, tile) in tiles {
            let choices = choose_for(&join, &tile, &[&*offered[technique]], &means)
                .map_err(|error| self.with_sink(error, both))?;
            let each = seconds.map(|seconds| seconds / choices.len().max(1) as f64);
            steps.extend(choices.into_iter().map(|choice| {
                let mut considered = vec![None; offered.len()];
                considered[technique] = each.or(choice.considered[0]);
                Step { join, part, choice: Choice { technique, considered, ..choice }, on_cpu }
            }));
        }
        Ok(steps)
    }

    /// Says who does what. `at_once`: everything, with nothing left for later.
    pub(crate) fn decide<'a>(
        &mut self,
        parts: &[(SetTask<'a>, Direction)],
        at_once: bool,
    ) -> Result<Work<'a>> {
        match self.mode {
            Mode::Cpu => Ok(Work::alone(self.all_steps(parts, true)?)),
            Mode::Device => self.on_device(parts).map(Work::alone),
            Mode::Both(Split::Auto) => self.divided(parts, Line::new(parts), at_once),
            Mode::Both(Split::Share(share)) => {
                let (line, point) = (Line::new(parts), 1.0 - share);
                // What is to be explained is looked at more closely.
                let chosen = match self.explain {
                    true => Default::default(),
                    false => {
                        let (units, _) = self.machine.units();
                        self.with_sides(&units, |sides| sides.choose_at(&line, point))
                    }
                };
                self.split(&line, [point; 2], &chosen)
            }
            // What a queue comes to is known only afterwards.
            Mode::Both(Split::Queue(_)) if at_once => {
                self.divided(parts, Line::new(parts), at_once)
            }
            Mode::Both(Split::Queue(tiles)) => {
                let rest = Queue::new(Line::new(parts), 0.0, 1.0, tiles, Rule::Halves);
                Ok(Work { both: true, rest: Some(rest), ..Work::default() })
            }
            Mode::Auto => {
                // What is soon done is not worth a thought; what takes longer is worth waking a device up.
                let awake = self.host.awake() || self.is_simulated();
                let line = Line::new(parts);
                let (units, _) = self.machine.units();
                if line.least_seconds(&units) < SOON {
                    return Ok(Work::alone(self.all_steps(parts, true)?));
                }
                if !awake {
                    let steps = self.all_steps(parts, true)?;
                    let seconds: f64 = steps.iter().filter_map(|step| step.choice.seconds()).sum();
                    if seconds < WAKE_UP || !self.wake_up() {
                        return Ok(Work::alone(steps));
                    }
                } else if !self.wake_up() {
                    return Ok(Work::alone(self.all_steps(parts, true)?));
                }
                self.divided(parts, line, at_once)
            }
        }
    }

    fn is_simulated(&self) -> bool {
        self.machine.simulated().is_some()
    }

    /// Looks for devices, where none have been given. Whatever is wrong with them, there is the CPU.
    fn wake_up(&mut self) -> bool {
        if self.device.is_empty()
            && let Ok(found) = self.machine.device_side(self.host)
            && let Ok(memory) = self.machine.device_memory(self.host, self.limits.device_memory)
        {
            self.limits.device_memory = memory;
            self.beside(found);
        }
        !self.device.is_empty()
    }

    /// Sets devices beside the CPU.
    pub(crate) fn beside(&mut self, device: Techniques<Sets>) {
        self.device = device;
        // What a device has found waits for its tile to be complete.
        if self.limits.memory != u64::MAX {
            self.limits.sink += Stage::bytes(self.limits.memory);
        }
    }

    /// What a device is to do with everything, with a closer look only where that takes a small part of the time.
    fn on_device<'a>(&self, parts: &[(SetTask<'a>, Direction)]) -> Result<Vec<Step<'a>>> {
        // Of one technique there is nothing to choose; what is to be explained is looked at more closely.
        if self.device.len() > 1 && !self.explain {
            let (units, _) = self.machine.units();
            let line = Line::new(parts);
            let chosen = self.with_sides(&units, |sides| sides.choose_device(&line));
            let steps = self.steps_of(&line, &chosen, false, false);
            // Where it does not fit, another technique may need less.
            if !chosen.is_empty() && !matches!(steps, Err(Error::Memory { .. })) {
                return steps;
            }
        }
        self.all_steps(parts, false)
    }

    /// Divides the work where both sides are expected to end together, or leaves it to one of them.
    fn divided<'a>(
        &self,
        parts: &[(SetTask<'a>, Direction)],
        line: Line<'a>,
        at_once: bool,
    ) -> Result<Work<'a>> {
        let (mut units, measured) = self.machine.units();
        // Beside a device, which takes longer than that to wake up, what the CPU can do must be known.
        if !measured {
            units = self.machine.measured_units(self.host);
        }
        let asked_for = self.machine.simulated().and_then(|device| device.rest);
        let keep_back = |seconds: f64, starts: Option<[f64; 2]>| {
            if at_once {
                return [0.0; 2];
            }
            if let Some(part) = asked_for {
                return [part; 2];
            }
            kept_back(seconds, starts)
        };
        let division = self.with_sides(&units, |sides| sides.divide(&line, keep_back));
        let Division { share, kept, outside, inside, starts, techniques_inside, .. } = division;
        // What is to be explained is looked at more closely.
        let chosen = if self.explain { Default::default() } else { division.techniques };
        let alone = |on_cpu: bool| match &chosen[usize::from(!on_cpu)][..] {
            [] => self.all_steps(parts, on_cpu),
            chosen => self.steps_of(&line, chosen, on_cpu, false),
        };
        let work = if share == 0.0 {
            alone(true).map(Work::alone)
        } else if share == 1.0 {
            alone(false).map(Work::alone)
        } else {
            let [from, to] = kept;
            self.split(&line, kept, &chosen).map(|work| {
                let rule = Rule::Balance { outside, inside, starts };
                let queue = || Queue::new(line, from, to, REST_UNITS, rule).by(techniques_inside);
                Work { rest: (from < to).then(queue), ..work }
            })
        };
        let mut work = match work {
            // Something does not fit the device.
            Err(Error::Memory { .. }) if share > 0.0 => Work::alone(self.all_steps(parts, true)?),
            work => work?,
        };
        work.share = Some(if work.device.is_empty() { 0.0 } else { share });
        Ok(work)
    }

    /// Asks what both sides had best do, on all threads.
    fn with_sides<T: Send>(
        &self,
        units: &CostTable,
        ask: impl FnOnce(&Sides<'_>) -> T + Send,
    ) -> T {
        let rates = self.machine.rates(self.host, self.threads());
        let means = self.means(units, self.threads(), true);
        let (cpu, device) = (self.refs(true), self.refs(false));
        let sides = Sides { cpu: &cpu, device: &device, means: &means, rates: &rates };
        self.install(|| ask(&sides))
    }

    /// What one side is to do with parts of a line.
    fn steps_of<'a>(
        &self,
        line: &Line<'a>,
        chosen: &[Chosen],
        on_cpu: bool,
        both: bool,
    ) -> Result<Vec<Step<'a>>> {
        let mut steps = Vec::new();
        for &Chosen { from, to, technique, seconds } in chosen {
            let how = (technique, Some(seconds));
            steps.extend(self.steps_by(line.between(from, to), how, on_cpu, both)?);
        }
        Ok(steps)
    }

    /// Gives the CPU what lies before a point, and the device what comes after one, by the techniques that
    /// are known already.
    fn split<'a>(
        &self,
        line: &Line<'a>,
        [before, after]: [f64; 2],
        known: &[Vec<Chosen>; 2],
    ) -> Result<Work<'a>> {
        let side = |from, to, on_cpu: bool| match &known[usize::from(!on_cpu)][..] {
            [] => self.steps(line.between(from, to), on_cpu, true),
            known => self.steps_of(line, known, on_cpu, true),
        };
        let (cpu, device) = (side(0.0, before, true), side(after, 1.0, false));
        Ok(Work { cpu: cpu?, device: device?, both: true, rest: None, share: Some(1.0 - after) })
    }

    /// A clock for the CPU and the devices, in this order.
    pub(crate) fn clock(&self) -> Clock {
        self.machine.clock(2)
    }

    /// The seconds that a step takes in virtual time: as many as were estimated, or, where none were, as a look at a
    /// few of its sets tells; a simulated device may be faster or slower than that.
    pub(crate) fn virtual_seconds(&self, step: &Step<'_>) -> f64 {
        let Step { join, choice, on_cpu, .. } = step;
        let looked_at = || {
            let (units, _) = self.machine.units();
            let survey = Survey::new(join, &choice.tile).sample(Effort::pairs(SIMULATED_EFFORT));
            let cost = self.techniques(*on_cpu)[choice.technique].cost(&survey, &units);
            let seconds = cost.map(|cost| cost.seconds(self.threads()));
            seconds.filter(|seconds| seconds.is_finite()).unwrap_or(survey.least_seconds(&units))
        };
        let expected = choice.seconds().filter(|one| one.is_finite()).unwrap_or_else(looked_at);
        match self.machine.simulated().filter(|_| !on_cpu) {
            Some(device) => device.actual_seconds(expected),
            None => expected,
        }
    }

    /// What would be done, and what else was considered.
    pub(crate) fn explain(&mut self, parts: &[(SetTask<'_>, Direction)]) -> Result<Vec<StepPlan>> {
        let Work { cpu, device, .. } = self.decide(parts, true)?;
        let describe = |step: Step<'_>| {
            let Choice { tile, technique, considered, pairs } = step.choice;
            let offered = self.techniques(step.on_cpu);
            let label = |at: usize| (offered[at].name(), offered[at].variant());
            StepPlan {
                on_device: !step.on_cpu,
                probes: sizes(step.join.probe, &tile.probes),
                builds: sizes(step.join.build, &tile.builds),
                pairs,
                tokens: step.join.probe.tokens_in(&tile.probes) as u64,
                technique: label(technique),
                seconds: considered[technique],
                considered: (0..considered.len())
                    .map(|at| (label(at).0, label(at).1, considered[at]))
                    .collect(),
            }
        };
        Ok(cpu.into_iter().chain(device).map(describe).collect())
    }

    pub(crate) fn report(&self, pairs: u64, ran: Ran) -> Report {
        let mut names: Vec<&str> = Vec::new();
        for step in &ran.steps {
            if !names.contains(&step.technique) {
                names.push(step.technique);
            }
        }
        let offered = self.techniques(self.mode != Mode::Device);
        if names.is_empty() {
            // Nothing could meet, so nothing was run.
            let first = offered[0].name();
            let alone = offered.iter().all(|technique| technique.name() == first);
            names.push(if alone { first } else { "auto" });
        }
        let ran_on = |device: bool| ran.steps.iter().any(|step| step.on_device == device);
        let engine = match self.mode {
            Mode::Both(_) => Engine::Hybrid,
            Mode::Device => Engine::Gpu,
            Mode::Cpu => Engine::Cpu,
            Mode::Auto => match (ran_on(false), ran_on(true)) {
                (_, false) => Engine::Cpu,
                (false, true) => Engine::Gpu,
                (true, true) => Engine::Hybrid,
            },
        };
        // A join that was cut short says nothing of what it would have taken.
        if ran.complete {
            self.machine.learn(self.host, self.threads(), ran.both, &ran.steps);
        }
        Report {
            pairs,
            candidates: ran.candidates,
            technique: names.join("+"),
            engine,
            threads: self.threads(),
            planned_share: ran.share,
            seconds: ran.seconds,
            virtual_seconds: ran.virtual_seconds,
            steps: ran.steps,
            warnings: ran.warnings,
            timeline: ran.timeline,
        }
    }
}

/// Returns the techniques that `auto` chooses from on the CPU.
pub(crate) fn cpu_techniques(host: &dyn Host) -> Techniques<Sets> {
    host.set_techniques().into_iter().filter(|technique| technique.name() != "naive").collect()
}

/// The smallest and the largest size in a range of sets.
pub(crate) fn sizes(sets: &SetCollection, range: &Range<SetId>) -> (u32, u32) {
    if range.is_empty() { (0, 0) } else { (sets.size(range.start), sets.size(range.end - 1)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_less_coming_back_costs_the_more_is_kept_back() {
        let of = |seconds: f64, cpu: f64, device: f64| {
            kept_back(seconds, Some([cpu * seconds, device * seconds]))
        };
        assert_eq!(of(0.2, 0.01, 0.01), KEPT_IF_CHEAP);
        assert_eq!(of(0.2, 0.05, 0.01), KEPT_BACK);
        assert_eq!(of(0.2, 0.01, 0.06), KEPT_OF_CPU);
        assert_eq!(of(0.2, 0.01, 0.2), [0.0; 2]);
        // Nor is anything of a short one.
        assert_eq!(of(0.02, 0.01, 0.01), [0.0; 2]);
        assert_eq!((kept_back(0.2, None), kept_back(0.02, None)), (KEPT_BACK, [0.0; 2]));
    }
}
