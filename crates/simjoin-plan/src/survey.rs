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

use crate::{Join, Order, Reach, Tile, Units, build_prefixes, reaches};
use simjoin_core::{SetId, TokenId};
use simjoin_kernels::bitmap::Kernels;
use std::collections::HashMap;
use std::ops::Range;

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
    /// How many tokens a build set of each class has in its prefix.
    pub(crate) prefixes: Vec<u32>,
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
    /// The part of the prefix tokens that stand in more than one row.
    pub live: f64,
    /// Pairs of sets under a common prefix token; a pair counts once for each.
    pub list_pairs: f64,
    /// The part of the pairs whose signatures of [`WIDTHS`] words are close enough.
    pub survival: [f64; 4],
    /// The part of the list pairs whose signatures of the first three [`WIDTHS`] are close enough.
    pub list_survival: [f64; 3],
    /// The part of the list pairs with close signatures of 64 bits whose tokens just before the common
    /// one differ, so that they are looked at more closely.
    pub list_open: f64,
    /// Tokens that come before the common one in a list pair with close signatures, unless the token
    /// just before is common as well: what must be looked at to know whether the pair has met before.
    pub list_before: f64,
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
    /// List pairs, and four times as many pairs.
    pub pairs: usize,
}

impl Effort {
    /// About as much as can be done in so many seconds, but no fewer than some list pairs.
    pub fn of(survey: &Survey<'_>, seconds: f64, few: usize) -> Self {
        // With all that belongs to it, a sample of sets of ten tokens takes about two microseconds.
        let each = 2e-6 * (survey.mean_size / 10.0).max(1.0);
        let samples = ((seconds / each) as usize).clamp(few, 4_000);
        Effort { sets: 8 * samples, pairs: samples }
    }
}

impl<'a> Survey<'a> {
    /// What a tile shows without a look at its sets.
    pub fn new(join: &Join<'a>, tile: &Tile) -> Self {
        let reaches = reaches(join, tile);
        let prefixes = build_prefixes(join, tile, &reaches);
        let mut survey = Survey {
            join: *join,
            tile: tile.clone(),
            pairs: reaches.iter().map(|reach| reach.pairs).sum(),
            reaches,
            prefixes,
            sets: 0,
            tokens: 0,
            probe_entries: 0,
            build_entries: 0,
            live: 1.0,
            list_pairs: 0.0,
            survival: [1.0; 4],
            list_survival: [1.0; 3],
            list_open: 1.0,
            list_before: 0.0,
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
        for (class, &prefix) in join.build.classes().iter().zip(&survey.prefixes) {
            let start = class.start.max(tile.builds.start);
            let builds = u64::from(class.end.min(tile.builds.end).saturating_sub(start));
            survey.build_entries += builds * u64::from(prefix);
            if prefix > 0 && join.order != Order::Before {
                survey.sets += builds;
                survey.tokens += builds * u64::from(class.size);
            }
        }
        survey.mean_size = size_pairs / (survey.pairs.max(1)) as f64;
        survey
    }

    /// What the tile takes one core at least, as far as exact counts tell: making lists, or comparing
    /// signatures.
    pub fn least_seconds(&self, units: &Units) -> f64 {
        let entries = self.probe_entries.max(self.build_entries) as f64;
        (entries * units.entry).min(self.pairs as f64 * units.scan[0])
    }

    /// Looks at some of the sets.
    pub fn sample(mut self, effort: Effort) -> Self {
        if self.pairs > 0 {
            self.sample_pairs(4 * effort.pairs);
            self.sample_lists(effort);
        }
        self
    }

    fn sample_pairs(&mut self, count: usize) {
        let Join { probe, build, bounds, order } = self.join;
        let top = build.universe().saturating_sub(1);
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
                distance::<1>(r, s, top),
                distance::<2>(r, s, top),
                distance::<4>(r, s, top),
                distance::<8>(r, s, top),
            ];
            taken += 1;
            for (survived, distance) in survived.iter_mut().zip(distances) {
                *survived += u32::from(distance as i64 <= budget);
            }
        }
        // A tenth of a pair more: what was not seen may still be there.
        self.survival = survived.map(|count| (f64::from(count) + 0.1) / f64::from(taken + 1));
    }

    fn sample_lists(&mut self, effort: Effort) {
        let prefixes = &self.prefixes;
        let Join { probe, build, bounds, order } = self.join;
        let lonely = build.lonely_tokens();
        let top = build.universe().saturating_sub(1);
        let mut random = Random::default();
        // The sampled build sets: how many have each token in their prefix, and one that does.
        let mut lists = Lists::new((build.universe() - lonely) as usize);
        let mut builds = 0u64;
        for set in every(&self.tile.builds, effort.sets, &mut random) {
            let prefix = prefixes[build.class_of(set) as usize] as usize;
            for (position, &token) in (0..).zip(&build.set(set)[..prefix]) {
                if token >= lonely {
                    let list = lists.get_mut(token - lonely);
                    list.count += 1;
                    if random.below(u64::from(list.count)) == 0 {
                        (list.set, list.position) = (set, position);
                    }
                }
            }
            builds += 1;
        }
        // The prefix tokens of sampled probes, each with all the sampled sets that it meets.
        let mut entries: Vec<(SetId, u32)> = Vec::new();
        let mut met = Vec::new();
        let (mut probes, mut prefix_tokens, mut live) = (0u64, 0u64, 0u64);
        for set in every(&self.tile.probes, effort.sets, &mut random) {
            let reach = &self.reaches[probe.class_of(set) as usize];
            prefix_tokens += u64::from(reach.prefix);
            for (position, &token) in (0..).zip(&probe.set(set)[..reach.prefix as usize]) {
                if token >= lonely {
                    live += 1;
                    let list = lists.get(token - lonely);
                    // A set does not meet itself.
                    let itself = order == Order::Before && list.set == set;
                    if list.count > u32::from(itself) {
                        entries.push((set, position));
                        met.push(u64::from(list.count) - u64::from(itself));
                    }
                }
            }
            probes += 1;
        }
        self.live = live as f64 / prefix_tokens.max(1) as f64;
        let total: u64 = met.iter().sum();
        if total == 0 {
            return;
        }
        let pick = Pick::new(met.into_iter());
        let (mut reached, mut survived, mut placed) = (0u32, [0u32; 3], 0u32);
        let (mut open, mut before) = (0u32, 0u64);
        for _ in 0..effort.pairs {
            let (r, i) = entries[pick.one(&mut random)];
            let token = probe.set(r)[i as usize];
            let List { set: s, position: j, .. } = lists.get(token - lonely);
            let reach = &self.reaches[probe.class_of(r) as usize];
            if !reach.of(order, r).contains(&s) {
                continue;
            }
            reached += 1;
            let (r, s) = (probe.set(r), build.set(s));
            let (i, j) = (i as usize, j as usize);
            let required = bounds.required_overlap(r.len() as u32, s.len() as u32) as usize;
            placed += u32::from(r.len() - i >= required && s.len() - j >= required);
            let budget = bounds.budget(r.len() as u32, s.len() as u32) - (i + j) as i64;
            let first = i == 0 || j == 0 || r[i - 1] != s[j - 1];
            let (r, s) = (&r[i..], &s[j..]);
            let distances =
                [distance::<1>(r, s, top), distance::<2>(r, s, top), distance::<4>(r, s, top)];
            if first && distances[0] as i64 <= budget {
                open += 1;
                before += (i + j) as u64;
            }
            for (survived, distance) in survived.iter_mut().zip(distances) {
                *survived += u32::from(distance as i64 <= budget);
            }
        }
        let scale = |range: &Range<SetId>, taken: u64| range.len() as f64 / taken.max(1) as f64;
        let all =
            total as f64 * scale(&self.tile.builds, builds) * scale(&self.tile.probes, probes);
        self.list_pairs = all * f64::from(reached) / effort.pairs as f64;
        let part = |count: u32| f64::from(count) / f64::from(reached.max(1));
        self.list_survival = survived.map(part);
        self.list_position = part(placed);
        self.list_open = part(open);
        self.list_before = before as f64 / f64::from(reached.max(1));
    }
}

/// In how many bits the signatures of two sets differ.
fn distance<const W: usize>(r: &[TokenId], s: &[TokenId], top: TokenId) -> u64 {
    let kernels = Kernels::<W>::best();
    kernels.distance(&kernels.signature(r, top), &kernels.signature(s, top))
}

/// What the sampled build sets show of the list of a token.
#[derive(Clone, Copy, Default)]
struct List {
    count: u32,
    /// One of its sets, each as likely as the others, and where the token stands in it.
    set: SetId,
    position: u32,
}

/// Lists by token. Of a large universe most have none, and room for all would take longer to make than the
/// samples.
enum Lists {
    OfAll(Vec<List>),
    OfSome(HashMap<TokenId, List>),
}

impl Lists {
    const LARGE: usize = 1 << 17;

    fn new(tokens: usize) -> Self {
        if tokens > Self::LARGE {
            return Lists::OfSome(HashMap::new());
        }
        Lists::OfAll(vec![List::default(); tokens])
    }

    fn get_mut(&mut self, token: TokenId) -> &mut List {
        match self {
            Lists::OfAll(lists) => &mut lists[token as usize],
            Lists::OfSome(lists) => lists.entry(token).or_default(),
        }
    }

    fn get(&self, token: TokenId) -> List {
        match self {
            Lists::OfAll(lists) => lists[token as usize],
            Lists::OfSome(lists) => lists.get(&token).copied().unwrap_or_default(),
        }
    }
}

/// About so many sets of a range, in order, at random distances.
fn every<'r>(
    range: &Range<SetId>,
    count: usize,
    random: &mut Random,
) -> impl Iterator<Item = SetId> + 'r {
    let step = (range.len() / count.max(1)).max(1) as u64;
    let mut random = Random(random.below(u64::MAX));
    let end = u64::from(range.end);
    let mut at = u64::from(range.start) + random.below(step);
    std::iter::from_fn(move || {
        let set = at;
        at += if step == 1 { 1 } else { 1 + random.below(2 * step - 1) };
        (set < end).then_some(set as SetId)
    })
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
