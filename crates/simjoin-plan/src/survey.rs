//! What is there to know about a join before it is run?
//!
//! A [`Survey`] holds what costs are computed from. Numbers of sets, of pairs that the length filter
//! leaves and of prefix tokens are exact. How often sets meet under a common prefix token, and how
//! many pairs survive a comparison of signatures, is found from samples:
//!
//! * some build sets, by which the lengths of the prefix lists are estimated; each token remembers
//!   one set that has it;
//! * some prefix tokens of probes, each meeting the set that its token remembers: list pairs;
//! * some pairs that the length filter leaves.
//!
//! The samples depend on the sets alone, so the same join is planned the same way every time.

use crate::{Join, Order, Reach, Tile, build_prefixes, reaches};
use simjoin_core::SetId;
use simjoin_kernels::bitmap::Kernels;

/// Signature widths, in words, for which survival is estimated.
pub const WIDTHS: [usize; 4] = [1, 2, 4, 8];

/// Statistics of a tile.
#[derive(Clone, Debug)]
pub struct Survey<'a> {
    /// The join.
    pub join: Join<'a>,
    /// The part of it.
    pub tile: Tile,
    /// What each probe class reaches.
    pub reaches: Vec<Reach>,
    /// Pairs that the length filter leaves.
    pub pairs: u64,
    /// Sets that are in such a pair, as far as their size tells.
    pub sets: u64,
    /// Tokens of those sets.
    pub tokens: u64,
    /// Tokens in the prefixes of probes.
    pub probe_entries: u64,
    /// Tokens in the prefixes of build sets.
    pub build_entries: u64,
    /// Pairs of sets under a common prefix token; a pair counts once for each.
    pub list_pairs: f64,
    /// The part of the pairs whose signatures of [`WIDTHS`] words are close enough.
    pub survival: [f64; 4],
    /// The part of the list pairs whose signatures of the first three [`WIDTHS`] are close enough.
    pub list_survival: [f64; 3],
    /// The part of the list pairs that the position filter leaves.
    pub list_position: f64,
    /// The mean size of the sets of a pair.
    pub mean_size: f64,
}

/// How many samples of each kind a survey takes.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Build sets.
    pub sets: usize,
    /// List pairs, and as many pairs.
    pub pairs: usize,
}

impl<'a> Survey<'a> {
    /// Surveys a tile.
    pub fn new(join: &Join<'a>, tile: &Tile, effort: Effort) -> Self {
        let reaches = reaches(join, tile);
        let prefixes = build_prefixes(join, tile, &reaches);
        let mut survey = Survey {
            join: *join,
            tile: tile.clone(),
            pairs: reaches.iter().map(|reach| reach.pairs).sum(),
            reaches,
            sets: 0,
            tokens: 0,
            probe_entries: 0,
            build_entries: 0,
            list_pairs: 0.0,
            survival: [1.0; 4],
            list_survival: [1.0; 3],
            list_position: 1.0,
            mean_size: 0.0,
        };
        let mut size_pairs = 0.0;
        for (class, reach) in join.probe.classes().iter().zip(&survey.reaches) {
            let probes = reach.probes.len() as u64;
            if reach.pairs > 0 {
                survey.sets += probes;
                survey.tokens += probes * u64::from(class.size);
                survey.probe_entries += probes * u64::from(reach.prefix);
                size_pairs += reach.pairs as f64 * f64::from(class.size);
            }
        }
        for (class, &prefix) in join.build.classes().iter().zip(&prefixes) {
            let start = class.start.max(tile.builds.start);
            let builds = u64::from(class.end.min(tile.builds.end).saturating_sub(start));
            survey.build_entries += builds * u64::from(prefix);
            if prefix > 0 && join.order != Order::Before {
                survey.sets += builds;
                survey.tokens += builds * u64::from(class.size);
            }
        }
        survey.mean_size = size_pairs / (survey.pairs.max(1)) as f64;
        if survey.pairs > 0 && effort.pairs > 0 {
            survey.sample_pairs(effort.pairs);
            survey.sample_lists(&prefixes, effort);
        }
        survey
    }

    fn sample_pairs(&mut self, count: usize) {
        let Join { probe, build, bounds, order } = self.join;
        let top = build.universe().saturating_sub(1);
        let kernels = (
            Kernels::<1>::best(),
            Kernels::<2>::best(),
            Kernels::<4>::best(),
            Kernels::<8>::best(),
        );
        let pick = Pick::new(self.reaches.iter().map(|reach| reach.pairs));
        let mut random = Random::default();
        let mut survived = [0u32; 4];
        let mut taken = 0u32;
        for _ in 0..count {
            let reach = &self.reaches[pick.one(&mut random)];
            let r = reach.probes.start + random.below(reach.probes.len() as u64) as SetId;
            let met = reach.of(order, r);
            if met.is_empty() {
                continue;
            }
            let s = met.start + random.below(met.len() as u64) as SetId;
            let (r, s) = (probe.set(r), build.set(s));
            let budget = bounds.budget(r.len() as u32, s.len() as u32);
            let distances = [
                kernels.0.distance(&kernels.0.signature(r, top), &kernels.0.signature(s, top)),
                kernels.1.distance(&kernels.1.signature(r, top), &kernels.1.signature(s, top)),
                kernels.2.distance(&kernels.2.signature(r, top), &kernels.2.signature(s, top)),
                kernels.3.distance(&kernels.3.signature(r, top), &kernels.3.signature(s, top)),
            ];
            taken += 1;
            for (survived, distance) in survived.iter_mut().zip(distances) {
                *survived += u32::from(distance as i64 <= budget);
            }
        }
        self.survival = survived.map(|count| f64::from(count) / f64::from(taken.max(1)));
    }

    fn sample_lists(&mut self, prefixes: &[u32], effort: Effort) {
        let Join { probe, build, bounds, order } = self.join;
        let lonely = build.lonely_tokens();
        let top = build.universe().saturating_sub(1);
        // The sampled build sets: how many have each token in their prefix, and one that does.
        let mut lists: Vec<(u32, SetId, u32)> =
            vec![(0, 0, 0); (build.universe() - lonely) as usize];
        let builds = &self.tile.builds;
        let step = (builds.len() / effort.sets.max(1)).max(1) as u64;
        let mut random = Random::default();
        let (mut taken, mut at) = (0u64, u64::from(builds.start) + random.below(step));
        while at < u64::from(builds.end) {
            let set = at as SetId;
            let prefix = prefixes[build.class_of(set) as usize] as usize;
            for (position, &token) in (0..).zip(&build.set(set)[..prefix]) {
                if token >= lonely {
                    let list = &mut lists[(token - lonely) as usize];
                    *list = (list.0 + 1, set, position);
                }
            }
            taken += 1;
            at += if step == 1 { 1 } else { 1 + random.below(2 * step - 1) };
        }
        let scale = builds.len() as f64 / taken.max(1) as f64;
        let kernels = (Kernels::<1>::best(), Kernels::<2>::best(), Kernels::<4>::best());
        let entries = |reach: &Reach| reach.probes.len() as u64 * u64::from(reach.prefix);
        let pick = Pick::new(self.reaches.iter().map(entries));
        let (mut met, mut survived, mut placed) = (0.0, [0.0; 3], 0.0);
        for _ in 0..effort.pairs {
            let reach = &self.reaches[pick.one(&mut random)];
            let r = reach.probes.start + random.below(reach.probes.len() as u64) as SetId;
            let i = random.below(u64::from(reach.prefix)) as usize;
            let token = probe.set(r)[i];
            if token < lonely {
                continue;
            }
            let (count, s, j) = lists[(token - lonely) as usize];
            if count == 0 || !reach.of(order, r).contains(&s) {
                continue;
            }
            let weight = f64::from(count) * scale;
            met += weight;
            let (r, s) = (probe.set(r), build.set(s));
            let required = bounds.required_overlap(r.len() as u32, s.len() as u32) as usize;
            if r.len() - i >= required && s.len() - j as usize >= required {
                placed += weight;
            }
            let budget = bounds.budget(r.len() as u32, s.len() as u32) - i as i64 - i64::from(j);
            let (r, s) = (&r[i..], &s[j as usize..]);
            let distances = [
                kernels.0.distance(&kernels.0.signature(r, top), &kernels.0.signature(s, top)),
                kernels.1.distance(&kernels.1.signature(r, top), &kernels.1.signature(s, top)),
                kernels.2.distance(&kernels.2.signature(r, top), &kernels.2.signature(s, top)),
            ];
            for (survived, distance) in survived.iter_mut().zip(distances) {
                if distance as i64 <= budget {
                    *survived += weight;
                }
            }
        }
        self.list_pairs = self.probe_entries as f64 * met / effort.pairs as f64;
        if met > 0.0 {
            self.list_survival = survived.map(|weight| weight / met);
            self.list_position = placed / met;
        }
    }
}

/// Picks a number with a probability that follows its weight.
struct Pick(Vec<u64>);

impl Pick {
    fn new(weights: impl Iterator<Item = u64>) -> Self {
        let mut sum = 0;
        Pick(
            weights
                .map(|weight| {
                    sum += weight;
                    sum
                })
                .collect(),
        )
    }

    fn one(&self, random: &mut Random) -> usize {
        let total = self.0.last().copied().unwrap_or(0);
        let ticket = random.below(total.max(1));
        self.0.partition_point(|&sum| sum <= ticket)
    }
}

/// The same numbers every time (splitmix64), for samples.
#[derive(Debug, Default)]
pub struct Random(u64);

impl Random {
    /// A number below a limit.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let z = z ^ (z >> 31);
        ((u128::from(z) * u128::from(limit)) >> 64) as u64
    }
}
