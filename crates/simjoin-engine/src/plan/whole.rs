//! How is a join planned whose techniques are estimated once, for all of it?
//!
//! Of vectors and overlaps a first look at the rows says what all of a join takes; a part of it takes its share.

use super::Setup;
use super::assign::{Assignment, Planned};
use super::axis::Part;
use crate::kind::{Kind, Task};
use crate::processor::Processor;
use crate::technique::Technique;
use simjoin_core::{Error, Result};
use std::ops::Range;

/// Seconds for a pair where nothing was estimated.
const UNKNOWN_PAIR: f64 = 1e-9;

/// A kind of rows whose techniques are estimated for a whole task.
pub(crate) trait Whole: Planned + Kind<Range = Range<u32>> {
    /// Estimates the cost of a technique for some probes, in seconds of one processor.
    fn seconds(
        setup: &Setup<Self>,
        technique: &dyn Technique<Self>,
        task: &Task<'_, Self>,
        probes: &Range<u32>,
    ) -> Option<f64>;

    /// Names, for an error, what does not fit the memory.
    fn needs_memory(task: &Task<'_, Self>) -> &'static str;

    /// Names the techniques by which CPU and devices can share a join.
    fn sharing_names() -> &'static str;
}

impl<K: Whole> Setup<K> {
    /// Returns the bytes that a technique needs and that exceed a limit, and whether on a device.
    fn excess(
        &self,
        technique: &dyn Technique<K>,
        task: &Task<'_, K>,
        probes: &Range<u32>,
        both_work: bool,
    ) -> Option<(u64, bool)> {
        let needed = technique.memory_bytes(task, probes, self.threads);
        let on_device = technique.device_bytes(task, probes, self.threads);
        if needed > self.memory(both_work) {
            Some((needed, false))
        } else if on_device > self.limits.device_memory {
            Some((on_device, true))
        } else {
            None
        }
    }
}

/// Chooses what a processor does parts with: the cheapest technique that fits the memory, or the given one.
pub(super) fn assign<'a, K: Whole>(
    setup: &Setup<K>,
    parts: Vec<Part<'a, K>>,
    processor: Processor,
    technique: Option<usize>,
    both_work: bool,
) -> Result<Vec<Assignment<'a, K>>> {
    let mut assigned = Vec::new();
    for part in parts.into_iter().filter(|part| !part.range.is_empty()) {
        let Part { task, range, .. } = &part;
        let work = K::work(task, range);
        let striped = both_work || *range != K::whole(task);
        let (mut considered, mut least) = (Vec::new(), None::<(u64, bool)>);
        let mut best: Option<(f64, usize)> = None;
        for (at, one) in setup.techniques[processor].iter().enumerate() {
            let excess = setup.excess(&**one, task, range, both_work);
            let able = (!striped || one.joins_any_range()) && excess.is_none();
            let seconds = K::seconds(setup, &**one, task, range).filter(|_| able);
            considered.push(seconds);
            // A technique that has no estimate is the last choice.
            let judged = seconds.unwrap_or(f64::INFINITY);
            if able && best.is_none_or(|(before, _)| judged < before) {
                best = Some((judged, at));
            }
            if let Some(excess) = excess {
                least = Some(least.map_or(excess, |before| before.min(excess)));
            }
        }
        let Some(technique) = technique.or(best.map(|(_, at)| at)) else {
            let Some((needed, device)) = least else {
                return Err(Error::Config(format!(
                    "the technique does a join only as a whole; expected one that CPU and GPU can share: {}",
                    K::sharing_names(),
                )));
            };
            let limit = if device { setup.limits.device_memory } else { setup.memory(both_work) };
            let error = Error::Memory { what: K::needs_memory(task).into(), needed, limit, device };
            return Err(setup.with_answer(error, both_work));
        };
        let Part { task, direction, range } = part;
        assigned.push(Assignment {
            task,
            direction,
            range,
            work,
            processor,
            technique,
            considered,
        });
    }
    Ok(assigned)
}

/// Estimates the seconds of an assignment that was not estimated.
pub(super) fn glance<K: Whole>(setup: &Setup<K>, assignment: &Assignment<'_, K>) -> f64 {
    let Assignment { task, range, work, .. } = assignment;
    K::seconds(setup, setup.technique(assignment), task, range).unwrap_or_else(|| {
        UNKNOWN_PAIR * setup.machine.scale() * work.pairs as f64 / setup.threads as f64
    })
}
