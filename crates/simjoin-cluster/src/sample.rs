//! What would a layout cost?
//!
//! A sample of the records is routed by the layout itself. The records at each task show how many bytes
//! are shuffled, how evenly tasks are loaded, and the number of compared pairs. All numbers are those of
//! the sample; the planner scales records and bytes by N/n and pairs by (N/n)².

use crate::block::{self, Id, Record};
use crate::layout::Layout;
use crate::order::{Place, TokenOrder};
use hashbrown::HashMap;
use rayon::prelude::*;
use simjoin_core::{Bounds, Error, Result, Side};

/// The work of a task if the sample were the input.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Load {
    /// Records on the left, or all of them.
    pub left: u64,
    /// Records on the right.
    pub right: u64,
    /// Bytes that are sent to it, without ids.
    pub bytes: u64,
    /// Tokens in its records.
    pub tokens: u64,
    /// Tokens in the prefixes of its records, without unique ones.
    pub lookups: u64,
    /// Pairs that the length filter leaves.
    pub reach: f64,
    /// Pairs with a common prefix token, once for each such token.
    pub postings: f64,
}

struct One {
    side: usize,
    size: u32,
    unique: u32,
    start: usize,
    end: usize,
    bytes: u32,
}

/// A sample of the records.
#[derive(Default)]
pub struct Sample {
    records: Vec<One>,
    places: Vec<Place>,
}

impl Sample {
    /// Adds a record of one side (0 or 1). `keys` are the keys of its tokens, eight bytes each, as
    /// [`TokenCounter`](crate::TokenCounter) returns them.
    pub fn push(&mut self, order: &TokenOrder, side: usize, keys: &[u8]) -> Result<()> {
        let (eights, rest) = keys.as_chunks::<8>();
        if !rest.is_empty() || side > 1 {
            return Err(Error::Internal("a record of the sample is damaged".into()));
        }
        let keys: Vec<u64> = eights.iter().map(|eight| u64::from_le_bytes(*eight)).collect();
        let mut places = Vec::new();
        let unique = order.places(&keys, &mut places);
        let mut body = Vec::new();
        block::body(&Record { row: 0, id: Id::Row, unique, places: &places }, &mut body);
        let start = self.places.len();
        self.places.extend_from_slice(&places);
        self.records.push(One {
            side,
            size: keys.len() as u32,
            unique,
            start,
            end: self.places.len(),
            // The row takes one or two bytes more.
            bytes: body.len() as u32 + 2,
        });
        Ok(())
    }

    /// Returns the number of records.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Returns whether there is none.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Returns the bytes of all records, without ids.
    pub fn bytes(&self) -> u64 {
        self.records.iter().map(|one| u64::from(one.bytes)).sum()
    }

    /// Returns the number of prefixes that hold each token, by its place in the order.
    pub fn prefix_counts(&self, layout: &Layout) -> Vec<(Place, u64)> {
        let mut counts: HashMap<Place, u64, foldhash::fast::FixedState> = HashMap::default();
        for one in &self.records {
            for place in self.prefix(layout, one) {
                *counts.entry(*place).or_default() += 1;
            }
        }
        let mut counts: Vec<_> = counts.into_iter().collect();
        counts.sort_unstable();
        counts
    }

    /// Returns the (size, hash) of all records that have a token of a group in their prefix,
    /// ascending, from which its ranges can be cut. `None` means all records.
    pub fn cuts(&self, layout: &Layout, group: Option<u32>) -> Vec<(u32, u32)> {
        let within = |one: &&One| {
            group.is_none_or(|group| {
                self.prefix(layout, one).iter().any(|&place| layout.group_of(place) == group)
            })
        };
        let cut = |one: &One| (one.size, crate::layout::tie(&self.places[one.start..one.end]));
        let mut cuts: Vec<_> = self.records.iter().filter(within).map(cut).collect();
        cuts.sort_unstable();
        cuts
    }

    /// Returns the load of each task of a layout.
    pub fn loads(&self, layout: &Layout) -> Vec<Load> {
        let mut sent: Vec<Vec<(u32, Side)>> = vec![Vec::new(); layout.tasks().len()];
        let mut groups = Vec::new();
        for (at, one) in (0u32..).zip(&self.records) {
            let places = &self.places[one.start..one.end];
            layout.route((one.size, one.unique, places), one.side, &mut groups, |task, side| {
                sent[task as usize].push((at, side));
            });
        }
        let load = |(task, sent): (usize, &Vec<(u32, Side)>)| {
            let spec = layout.tasks()[task];
            self.load(layout, sent, layout.is_self_join() && spec.left == spec.right)
        };
        sent.par_iter().enumerate().map(load).collect()
    }

    fn prefix(&self, layout: &Layout, one: &One) -> &[Place] {
        let places = &self.places[one.start..one.end];
        &places[..layout.prefix(one.size, one.unique).min(places.len())]
    }

    fn load(&self, layout: &Layout, sent: &[(u32, Side)], alone: bool) -> Load {
        let mut load = Load::default();
        let mut sizes: [Vec<u32>; 2] = [Vec::new(), Vec::new()];
        let mut lists: HashMap<Place, [u64; 2], foldhash::fast::FixedState> = HashMap::default();
        for &(at, side) in sent {
            let one = &self.records[at as usize];
            let side = usize::from(side == Side::Right);
            *[&mut load.left, &mut load.right][side] += 1;
            load.bytes += u64::from(one.bytes);
            load.tokens += u64::from(one.size);
            sizes[side].push(one.size);
            for place in self.prefix(layout, one) {
                load.lookups += 1;
                lists.entry(*place).or_default()[side] += 1;
            }
        }
        sizes.iter_mut().for_each(|sizes| sizes.sort_unstable());
        load.reach = reach(layout.bounds(), &sizes[0], (!alone).then_some(&sizes[1]));
        let meet = |&[left, right]: &[u64; 2]| {
            let (left, right) = (left as f64, right as f64);
            if alone { left * (left - 1.0) / 2.0 } else { left * right }
        };
        load.postings = lists.values().map(meet).sum();
        load
    }
}

/// Returns the number of pairs that the length filter leaves within one ascending list of sizes, or
/// between two.
fn reach(bounds: &Bounds, left: &[u32], right: Option<&Vec<u32>>) -> f64 {
    let between = |sizes: &[u32], low: u32, high: u32| {
        let first = sizes.partition_point(|&size| size < low);
        sizes.partition_point(|&size| size <= high).saturating_sub(first) as f64
    };
    let Some(right) = right else {
        // Each set meets those before it.
        let smaller = |(at, &size): (usize, &u32)| {
            let low = bounds.min_size(size);
            if low > size { 0.0 } else { at as f64 - left.partition_point(|&s| s < low) as f64 }
        };
        return left.iter().enumerate().map(smaller).sum();
    };
    let partners = |&size: &u32| between(right, bounds.min_size(size), bounds.max_size(size));
    left.iter().map(partners).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use simjoin_core::{Measure, Predicate};

    #[test]
    fn reach_counts_the_pairs_that_the_length_filter_leaves() {
        let bounds = Bounds::new(Predicate::parse(Measure::Jaccard, "0.8").unwrap());
        let naive = |left: &[u32], right: &[u32]| {
            let near = |a: u32, b: u32| bounds.min_size(a.max(b)) <= a.min(b);
            let partners = |&a: &u32| right.iter().filter(|&&b| near(a, b)).count();
            left.iter().map(partners).sum::<usize>() as f64
        };
        let left = vec![1, 1, 4, 5, 6, 8, 10, 10, 13];
        let right = vec![2, 5, 5, 9, 12];
        assert_eq!(reach(&bounds, &left, Some(&right)), naive(&left, &right));
        let own = (naive(&left, &left) - left.len() as f64) / 2.0;
        assert_eq!(reach(&bounds, &left, None), own);
    }
}
