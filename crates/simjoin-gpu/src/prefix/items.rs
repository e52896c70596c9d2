//! How are prefixes cut into items of work?

use super::ITEM;
use crate::device::failed;
use cudarc::driver::{CudaSlice, CudaStream, DevicePtr, DeviceRepr, sys};
use simjoin_core::{Result, SetId};
use std::ops::Range;
use std::sync::Arc;

/// The sets of one size, in the layout of the kernels. An item is a set and a part of its prefix.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct ItemClass {
    /// Its first item.
    item: u64,
    /// Its first set.
    set: u32,
    /// The number of items of each set.
    each: u32,
    prefix: u32,
    /// The range of build sets that the sets meet, if they are probes.
    begin: u32,
    end: u32,
}

// SAFETY: numbers, laid out as in the kernels.
unsafe impl DeviceRepr for ItemClass {}

/// The size classes of probes or build sets that have items.
pub(super) struct Items {
    /// The classes, in ascending order of their first items.
    pub(super) classes: Vec<ItemClass>,
    pub(super) count: u64,
}

impl Items {
    /// Creates the items of size classes, each given as its sets, their prefix length and the build sets that
    /// they meet.
    pub(super) fn new(of: impl Iterator<Item = (Range<SetId>, u32, Range<SetId>)>) -> Self {
        let mut items = Items { classes: Vec::new(), count: 0 };
        for (sets, prefix, met) in of {
            if sets.is_empty() || prefix == 0 {
                continue;
            }
            let each = prefix.div_ceil(ITEM);
            items.classes.push(ItemClass {
                item: items.count,
                set: sets.start,
                each,
                prefix,
                begin: met.start,
                end: met.end,
            });
            items.count += sets.len() as u64 * u64::from(each);
        }
        items
    }

    /// Returns the first item of a set or, if it has none, of the next set that has one.
    pub(super) fn first_of(&self, set: SetId) -> u64 {
        let after = self.classes.partition_point(|class| class.set <= set);
        let end = self.classes.get(after).map_or(self.count, |class| class.item);
        let Some(class) = after.checked_sub(1).map(|at| &self.classes[at]) else { return end };
        end.min(class.item + u64::from(set - class.set) * u64::from(class.each))
    }

    /// Returns the items with sets numbered as on a device whose first set and first build set are given.
    pub(super) fn on_device(&self, first: SetId, first_build: SetId) -> Items {
        let class = |class: &ItemClass| ItemClass {
            set: class.set - first,
            begin: class.begin.saturating_sub(first_build),
            end: class.end.saturating_sub(first_build),
            ..*class
        };
        Items { classes: self.classes.iter().map(class).collect(), count: self.count }
    }

    pub(super) fn send(&self, stream: &Arc<CudaStream>) -> Result<CudaSlice<ItemClass>> {
        // An array on the device has at least one element.
        let none = [ItemClass { item: 0, set: 0, each: 1, prefix: 0, begin: 0, end: 0 }];
        let classes = if self.classes.is_empty() { &none } else { &self.classes[..] };
        stream.clone_htod(classes).map_err(failed("sending sets to the device"))
    }
}

/// Size classes as an argument of a kernel.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct ClassesArgument {
    all: sys::CUdeviceptr,
    count: u32,
}

// SAFETY: a number and an address, laid out as in the kernels.
unsafe impl DeviceRepr for ClassesArgument {}

impl ClassesArgument {
    pub(super) fn new(classes: &CudaSlice<ItemClass>, stream: &CudaStream) -> Self {
        ClassesArgument { all: classes.device_ptr(stream).0, count: classes.len() as u32 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_of_returns_the_first_item_of_a_set() {
        // Size classes with their prefix lengths, some without items.
        let classes = [(0..3, 1), (3..3, 9), (3..5, 0), (5..9, 256), (9..11, 257), (11..12, 700)];
        let items = Items::new(classes.iter().map(|(sets, prefix)| (sets.clone(), *prefix, 0..0)));
        assert_eq!(items.count, 3 + 4 + 2 * 2 + 3);
        let mut next = 0;
        for (sets, prefix) in classes {
            for set in sets {
                assert_eq!(items.first_of(set), next, "set {set}");
                next += u64::from(prefix.div_ceil(ITEM));
            }
        }
        assert_eq!(items.first_of(12), items.count);
        assert_eq!(Items::new(std::iter::empty()).first_of(7), 0);
    }
}
