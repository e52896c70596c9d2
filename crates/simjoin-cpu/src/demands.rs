//! What do the bounds require of the current probe, and of each size of set that it may meet?
//!
//! Probes come by rising size, and many have the same size. Values that depend only on the probe's size
//! are computed when the size changes; the required overlap for each partner size is computed on first
//! use.

use simjoin_core::SetId;
use simjoin_engine::{Order, SetTask};
use std::ops::Range;

pub(crate) struct Demands<'a> {
    task: SetTask<'a>,
    builds: Range<SetId>,
    size: u32,
    prefix: usize,
    /// The partners by length filter and order; in a self-join the probe itself is the end.
    partners: Range<SetId>,
    /// The required overlap by build class; 0 if not yet computed.
    required: Vec<u32>,
    index_prefix: Vec<u32>,
}

impl<'a> Demands<'a> {
    /// Makes the demands of probes on a range of build sets.
    pub(crate) fn new(task: &SetTask<'a>, builds: Range<SetId>) -> Self {
        Demands {
            task: *task,
            builds,
            size: 0,
            prefix: 0,
            partners: 0..0,
            required: vec![0; task.build.classes().len()],
            index_prefix: index_prefixes(task),
        }
    }

    /// Moves on to a probe and returns the build sets that it must meet within this index.
    #[inline]
    pub(crate) fn turn_to(&mut self, probe: SetId) -> Range<SetId> {
        let size = self.task.probe.size(probe);
        if size != self.size {
            self.size = size;
            self.prefix = self.task.predicate.probe_prefix(size) as usize;
            let partners = self.task.partners(probe);
            self.partners =
                partners.start.max(self.builds.start)..partners.end.min(self.builds.end);
            self.required.fill(0);
        }
        let end = match self.task.order {
            Order::Before => probe.min(self.builds.end),
            _ => self.partners.end,
        };
        self.partners.start.min(end)..end
    }

    /// Returns the length of the probe's prefix.
    #[inline]
    pub(crate) fn probe_prefix(&self) -> usize {
        self.prefix
    }

    /// Returns the length of the index prefix of sets in a build class.
    #[inline]
    pub(crate) fn index_prefix(&self, class: u32) -> usize {
        self.index_prefix[class as usize] as usize
    }

    /// Returns the overlap that the probe must have with sets of a build class.
    #[inline]
    pub(crate) fn required(&mut self, class: u32) -> u32 {
        let known = self.required[class as usize];
        if known != 0 { known } else { self.compute(class) }
    }

    #[cold]
    fn compute(&mut self, class: u32) -> u32 {
        let size = self.task.build.classes()[class as usize].size;
        let required = self.task.predicate.required_overlap(self.size, size);
        self.required[class as usize] = required;
        required
    }
}

/// Returns the index prefix length of each build class.
pub(crate) fn index_prefixes(task: &SetTask<'_>) -> Vec<u32> {
    task.build.classes().iter().map(|class| task.predicate.index_prefix(class.size)).collect()
}
