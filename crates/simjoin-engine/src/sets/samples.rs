//! What does a small sample tell about a join?
//!
//! The samples of a tile are:
//!
//! * some build sets, from which the lengths of the prefix lists are estimated; for each token, a few sets that
//!   contain it are kept;
//! * some prefix tokens of probes, each paired with one of the sets kept for the token: list pairs, and
//!   in a self-join those that meet only as probes;
//! * some pairs that pass the length filter.
//!
//! They depend on the sets alone, so the same join is planned the same way every time.
//!
//! Sampled sets are far apart in memory, so most of the time is spent waiting for it. Samples are drawn
//! first and then examined, by all threads if there are many.

use crate::{Order, SetTask, Survey, WIDTHS};
use foldhash::HashMap;
use rayon::prelude::*;
use simjoin_core::{Bounds, Random, SetCollection, SetId, TokenId};
use simjoin_kernels::bitmap::toggle;
use std::ops::Range;

/// The smallest number of tokens merged before a pair is rejected.
const LEAST_MERGED: u32 = 8;

/// The number of tokens before the shared one up to which bits usually show that none of them is common.
const FEW_BEFORE: u32 = 64;

/// The largest number of list pairs to examine.
pub(crate) const MANY: usize = 10_000;

/// The number of tokens up to which a prefix counts as short.
const SHORT_PREFIX: f64 = 8.0;

/// The seconds of sampling: for a list pair, for each prefix token read for it, and for each token of a set that is
/// signed. A 2-core EPYC, 2026-11-15.
const SAMPLE: f64 = 1e-6;
const SAMPLE_TOKEN: f64 = 0.2e-6;
const SAMPLE_BIT: f64 = 0.02e-6;

/// The numbers of samples of a survey.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Build sets.
    pub sets: usize,
    /// List pairs, and four times as many pairs.
    pub pairs: usize,
}

impl Effort {
    /// Returns the effort that takes about `seconds`, but no fewer than `few` list pairs.
    pub fn of(survey: &Survey<'_>, seconds: f64, few: usize) -> Self {
        let prefix = (survey.probe_entries as f64 / survey.sets.max(1) as f64).max(1.0);
        // A few sets with long prefixes have as many tokens as many sets with short ones.
        let long = (prefix / SHORT_PREFIX).max(1.0);
        let each = SAMPLE + prefix / long * SAMPLE_TOKEN + survey.mean_size * SAMPLE_BIT;
        let pairs = ((seconds / each) as usize).clamp(few, MANY);
        Effort { sets: (8.0 * pairs as f64 / long) as usize + 1, pairs }
    }

    /// Returns the effort for a number of list pairs.
    pub fn pairs(pairs: usize) -> Self {
        Effort { sets: 8 * pairs, pairs }
    }
}

/// A probe, a build set, and the positions of a shared token in the two: probe, position, build, position.
type Met = (SetId, u32, SetId, u32);

/// Samples a tile, and completes its survey with the estimates.
pub(super) fn sample(of: &mut Survey<'_>, effort: Effort) {
    if of.pairs > 0 {
        let by_pairs = sample_pairs(of, 4 * effort.pairs);
        let by_list_pairs = sample_list_pairs(of, effort);
        // Two estimates of the same number: the one whose samples represent fewer pairs each is better.
        let finer = if by_list_pairs.each < by_pairs.each { by_list_pairs } else { by_pairs };
        of.similar = (finer.each * f64::from(finer.count) / of.pairs as f64).min(1.0);
    }
}

/// The samples that are in the answer.
struct Similar {
    count: u32,
    /// The number of pairs that each sample represents.
    each: f64,
}

/// Samples pairs that pass the length filter, and estimates how many survive a comparison of signatures.
fn sample_pairs(of: &mut Survey<'_>, count: usize) -> Similar {
    let SetTask { probe, build, predicate: bounds, order } = of.task;
    let top = build.universe().saturating_sub(1);
    let pick = Pick::new(of.reaches.iter().map(|reach| reach.pairs));
    let mut random = Random::default();
    let mut drawn = Vec::with_capacity(count);
    for _ in 0..count {
        let reach = &of.reaches[pick.one(&mut random)];
        let r = reach.probes.start + random.below(reach.probes.len() as u64) as SetId;
        let met = reach.of(order, r);
        if !met.is_empty() {
            drawn.push((r, met.start + random.below(met.len() as u64) as SetId));
        }
    }
    let seen = look(&drawn, |&(r, s)| {
        let (probe, build) = (probe.set(r), build.set(s));
        let budget = bounds.budget(probe.len() as u32, build.len() as u32);
        let close = close(probe, build, top, budget);
        let similar = close[WIDTHS.len() - 1] && first_if_similar(&bounds, probe, build).is_some();
        (close, similar)
    });
    let (mut close, mut similar) = ([0u32; WIDTHS.len()], 0);
    for (one, is_similar) in &seen {
        add(&mut close, *one);
        similar += u32::from(*is_similar);
    }
    // A tenth of one more pair is added: an outcome that was not sampled may still occur.
    let all = (seen.len() + 1) as f64;
    of.survival = close.map(|count| (f64::from(count) + 0.1) / all);
    Similar { count: similar, each: of.pairs as f64 / count as f64 }
}

/// What a pair of sets under a common prefix token shows.
struct ListPair {
    /// Whether the signatures of the tokens after it are close enough, for the first three widths.
    close: [bool; 3],
    /// Whether it passes the position filter.
    placed: bool,
    /// The number of tokens that verification merges, if the pair must be verified: signatures of 64 bits are close
    /// but do not give the overlap, and the tokens just before the shared one differ. All tokens that follow are merged
    /// if the pair is in the answer, otherwise about as many as may lack a partner; in addition, all but a few of the
    /// tokens before, which are searched for a common one.
    merged: Option<u32>,
    /// Whether it is in the answer, and the token is the first that the two share.
    similar: bool,
}

/// Samples pairs of sets under a common prefix token.
fn sample_list_pairs(of: &mut Survey<'_>, effort: Effort) -> Similar {
    let SetTask { probe, build, predicate: bounds, order } = of.task;
    let unique = build.unique_tokens();
    let top = build.universe().saturating_sub(1);
    let mut random = Random::default();
    // The sampled build sets: how many have each token in their prefix, and some that do. In a self-join, `idle` are
    // those in whose prefix it is only as probes.
    let universe = (build.universe() - unique) as usize;
    let (mut lists, mut idle) = (Lists::new(universe), Lists::new(universe));
    let builds: Vec<SetId> = every(&of.tile.builds, effort.sets, &mut random).collect();
    let as_probe = |class: u32| of.reaches[class as usize].prefix;
    let as_build = |class: u32| of.prefixes[class as usize];
    let longer = |class: u32| match order {
        Order::Before => as_build(class).max(as_probe(class)),
        _ => as_build(class),
    };
    for (set, position, token) in entries(build, &builds, longer) {
        let listed = position < as_build(build.class_of(set));
        let lists = if listed { &mut lists } else { &mut idle };
        lists.add(token - unique, (set, position), &mut random);
    }
    // The prefix tokens of sampled probes, each with all the sampled sets that it meets.
    let probes: Vec<SetId> = every(&of.tile.probes, effort.sets, &mut random).collect();
    let meeting = entries(probe, &probes, as_probe);
    let prefix_tokens: u64 =
        probes.iter().map(|&set| u64::from(as_probe(probe.class_of(set)))).sum();
    let live = meeting.len() as f64 / prefix_tokens.max(1) as f64;
    let scale =
        |range: &Range<SetId>, taken: &[SetId]| range.len() as f64 / taken.len().max(1) as f64;
    let scale = scale(&of.tile.builds, &builds) * scale(&of.tile.probes, &probes);
    // Some of the pairs in those lists that are in reach, and the number that each stands for.
    let mut draw = |lists: &Lists| -> (Vec<Met>, f64) {
        let count = |token: TokenId| u64::from(lists.get(token - unique).count);
        let pick = Pick::new(meeting.iter().map(|&(_, _, token)| count(token)));
        let total = pick.total();
        if total == 0 {
            return (Vec::new(), 0.0);
        }
        let mut drawn = Vec::with_capacity(effort.pairs);
        for _ in 0..effort.pairs {
            let (r, i, token) = meeting[pick.one(&mut random)];
            let (s, j) = lists.one(token - unique, &mut random);
            let reach = &of.reaches[probe.class_of(r) as usize];
            // Otherwise out of reach; and a set does not meet itself.
            if reach.of(order, r).contains(&s) {
                drawn.push((r, i, s, j));
            }
        }
        (drawn, total as f64 * scale / effort.pairs as f64)
    };
    let (drawn, each) = draw(&lists);
    let (only_probes, each_idle) = draw(&idle);
    let seen = look(&drawn, |&(r, i, s, j)| {
        list_pair(&bounds, (probe.set(r), i as usize), (build.set(s), j as usize), top)
    });
    let (mut close, mut placed, mut open, mut similar) = ([0u32; 3], 0, 0, 0);
    let mut merged = Sum::default();
    for pair in &seen {
        add(&mut close, pair.close);
        placed += u32::from(pair.placed);
        similar += u32::from(pair.similar);
        if let Some(tokens) = pair.merged {
            open += 1;
            merged.add(tokens);
        }
    }
    let met = (seen.len() as f64).max(1.0);
    let part = |count: u32| f64::from(count) / met;
    // A set outside the tile's probes is in no list as a probe.
    let only_probes = only_probes.iter().filter(|(_, _, s, _)| of.tile.probes.contains(s));
    of.list_idle = each_idle * only_probes.count() as f64;
    of.live = live;
    of.list_pairs = each * seen.len() as f64;
    of.list_survival = close.map(part);
    of.list_position = part(placed);
    of.list_open = part(open);
    of.list_merged = merged.sober() / met;
    Similar { count: similar, each }
}

/// Examines a pair of sets under the token at these positions of them.
fn list_pair(
    bounds: &Bounds,
    (probe, i): (&[TokenId], usize),
    (build, j): (&[TokenId], usize),
    top: TokenId,
) -> ListPair {
    let sizes = [probe.len() as u32, build.len() as u32];
    let required = bounds.required_overlap(sizes[0], sizes[1]) as usize;
    let placed = probe.len() - i >= required && build.len() - j >= required;
    let budget = bounds.budget(sizes[0], sizes[1]) - (i + j) as i64;
    let first = i == 0 || j == 0 || probe[i - 1] != build[j - 1];
    let close = close(&probe[i..], &build[j..], top, budget);
    let similar =
        close[WIDTHS.len() - 1] && first && first_if_similar(bounds, probe, build) == Some((i, j));
    let merged = (close[0] && first && top - probe[i] >= 64).then(|| {
        let rest = (probe.len() - i + build.len() - j) as u32;
        let merged = if similar { rest } else { rest.min(budget.max(0) as u32 + LEAST_MERGED) };
        let before = steps_before(&probe[..i], &build[..j]).saturating_sub(FEW_BEFORE);
        merged.saturating_add(before)
    });
    ListPair { close: [close[0], close[1], close[2]], placed, merged, similar }
}

/// A sum of numbers. A few of them may be far larger than the others.
#[derive(Clone, Copy, Default)]
struct Sum {
    all: u64,
    largest: u32,
    count: u32,
}

impl Sum {
    fn add(&mut self, value: u32) {
        self.all += u64::from(value);
        self.largest = self.largest.max(value);
        self.count += 1;
    }

    /// Returns the sum, in which the largest number counts for no more than all others together: among a few hundred
    /// pairs, one pair of two huge sets could be most of the sum, which it is not among all pairs.
    fn sober(&self) -> f64 {
        let others = self.all - u64::from(self.largest);
        if self.count > 1 {
            (others + others.min(u64::from(self.largest))) as f64
        } else {
            self.all as f64
        }
    }
}

/// The smallest number of samples that a thread examines.
const LOOK: usize = 64;

/// Examines each sample.
fn look<T: Sync, U: Send>(drawn: &[T], at: impl Fn(&T) -> U + Sync + Send) -> Vec<U> {
    if drawn.len() < 4 * LOOK {
        return drawn.iter().map(at).collect();
    }
    drawn.par_iter().with_min_len(LOOK).map(at).collect()
}

/// The prefix tokens of some sets that stand in more than one row: set, position and token. How long a
/// prefix is follows the set's class.
fn entries(
    sets: &SetCollection,
    drawn: &[SetId],
    prefix: impl Fn(u32) -> u32 + Sync,
) -> Vec<(SetId, u32, TokenId)> {
    let unique = sets.unique_tokens();
    let of_set = |&set: &SetId| {
        let prefix = prefix(sets.class_of(set)) as usize;
        let tokens = (0..).zip(&sets.set(set)[..prefix]);
        tokens.filter(move |&(_, &token)| token >= unique).map(move |(at, &token)| (set, at, token))
    };
    if drawn.len() < 4 * LOOK {
        return drawn.iter().flat_map(of_set).collect();
    }
    drawn.par_iter().with_min_len(LOOK).flat_map_iter(of_set).collect()
}

fn add<const N: usize>(counts: &mut [u32; N], found: [bool; N]) {
    for (count, found) in counts.iter_mut().zip(found) {
        *count += u32::from(found);
    }
}

/// Whether signatures of each of the widths differ in no more bits than allowed.
fn close(r: &[TokenId], s: &[TokenId], top: TokenId, budget: i64) -> [bool; WIDTHS.len()] {
    const WIDEST: usize = WIDTHS[WIDTHS.len() - 1];
    const { assert!(WIDTHS[0] == 1 && WIDEST == 1 << (WIDTHS.len() - 1)) };
    // There are no more bits than that.
    if budget >= 64 * WIDEST as i64 {
        return [true; WIDTHS.len()];
    }
    let mut words = [0u64; WIDEST];
    for &token in r.iter().chain(s) {
        toggle(&mut words, top - token);
    }
    let mut close = [false; WIDTHS.len()];
    // A width is twice the one before, and so one half of the words upon the other makes the narrower
    // signature.
    for (&width, close) in WIDTHS.iter().zip(&mut close).rev() {
        let distance: u32 = words[..width].iter().map(|word| word.count_ones()).sum();
        *close = i64::from(distance) <= budget;
        for at in 0..width / 2 {
            words[at] ^= words[at + width / 2];
        }
    }
    close
}

/// Steps in which one looks for a common token from the end of both, or those of one in the other.
fn steps_before(r: &[TokenId], s: &[TokenId]) -> u32 {
    let (mut i, mut j, mut steps) = (r.len(), s.len(), 0);
    let few = i.min(j);
    let searching = (few as u32).saturating_add(1).saturating_mul(i.max(j).max(1).ilog2() + 1);
    while i > 0 && j > 0 && steps < searching {
        steps += 1;
        match r[i - 1].cmp(&s[j - 1]) {
            std::cmp::Ordering::Equal => return steps,
            std::cmp::Ordering::Greater => i -= 1,
            std::cmp::Ordering::Less => j -= 1,
        }
    }
    steps
}

/// Returns the positions of the first token that two sets share; `None` if the pair is not in the answer.
fn first_if_similar(
    bounds: &Bounds,
    probe: &[TokenId],
    build: &[TokenId],
) -> Option<(usize, usize)> {
    let required = bounds.required_overlap(probe.len() as u32, build.len() as u32) as usize;
    let (mut i, mut j, mut overlap, mut first) = (0, 0, 0, None);
    while i < probe.len() && j < build.len() {
        if overlap + (probe.len() - i).min(build.len() - j) < required {
            return None;
        }
        let (r, s) = (probe[i], build[j]);
        if r == s {
            first = first.or(Some((i, j)));
            overlap += 1;
        }
        i += usize::from(r <= s);
        j += usize::from(s <= r);
    }
    first.filter(|_| overlap >= required)
}

/// What the sampled build sets show of the list of a token.
#[derive(Clone, Copy, Default)]
struct List {
    count: u32,
    /// Where some of its sets are remembered.
    place: u32,
}

/// The largest number of sets kept for a token, each chosen with the same probability.
const REMEMBERED: usize = 8;

/// Lists by token.
struct Lists {
    by_token: ByToken,
    /// The sets, and the positions of the token in them.
    remembered: Vec<[(SetId, u32); REMEMBERED]>,
}

/// Of a large universe most tokens have no list, and room for all would take longer to make than the
/// samples.
enum ByToken {
    All(Vec<List>),
    Some(HashMap<TokenId, List>),
}

impl Lists {
    const LARGE: usize = 1 << 17;

    fn new(tokens: usize) -> Self {
        let by_token = if tokens > Self::LARGE {
            ByToken::Some(HashMap::default())
        } else {
            ByToken::All(vec![List::default(); tokens])
        };
        Lists { by_token, remembered: Vec::new() }
    }

    fn add(&mut self, token: TokenId, entry: (SetId, u32), random: &mut Random) {
        let list = match &mut self.by_token {
            ByToken::All(lists) => &mut lists[token as usize],
            ByToken::Some(lists) => lists.entry(token).or_default(),
        };
        if list.count == 0 {
            list.place = self.remembered.len() as u32;
            self.remembered.push([entry; REMEMBERED]);
        }
        let at = match list.count as usize {
            early if early < REMEMBERED => early,
            later => random.below(later as u64 + 1) as usize,
        };
        list.count += 1;
        if let Some(place) = self.remembered[list.place as usize].get_mut(at) {
            *place = entry;
        }
    }

    fn get(&self, token: TokenId) -> List {
        match &self.by_token {
            ByToken::All(lists) => lists[token as usize],
            ByToken::Some(lists) => lists.get(&token).copied().unwrap_or_default(),
        }
    }

    /// One of the sets of a list that has some.
    fn one(&self, token: TokenId, random: &mut Random) -> (SetId, u32) {
        let List { count, place } = self.get(token);
        let known = (count as usize).min(REMEMBERED);
        self.remembered[place as usize][random.below(known as u64) as usize]
    }
}

/// Returns about `count` sets of a range, in order, at random distances.
fn every<'r>(
    range: &Range<SetId>,
    count: usize,
    random: &mut Random,
) -> impl Iterator<Item = SetId> + 'r {
    let step = (range.len() / count.max(1)).max(1) as u64;
    let mut random = Random::new(random.below(u64::MAX));
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

    fn total(&self) -> u64 {
        self.0.last().copied().unwrap_or(0)
    }

    fn one(&self, random: &mut Random) -> usize {
        let ticket = random.below(self.total().max(1));
        self.0.partition_point(|&sum| sum <= ticket)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Tile, build_prefixes, reaches};
    use simjoin_core::{Bounds, Measure, Predicate, RawSets, prepare};
    use std::collections::BTreeSet;

    /// Pairs of a tile under each common prefix token, one by one; and those that meet only as probes.
    fn list_pairs(task: &SetTask<'_>, tile: &Tile) -> [u64; 2] {
        let reaches = reaches(task, tile);
        let prefixes = build_prefixes(task, tile, &reaches);
        let mut met = [0; 2];
        for r in tile.probes.clone() {
            let reach = &reaches[task.probe.class_of(r) as usize];
            for s in reach.of(task.order, r) {
                let class = task.build.class_of(s) as usize;
                let prefix = prefixes[class] as usize;
                let both = task.order == Order::Before && tile.probes.contains(&s);
                let longer = if both { prefix.max(reaches[class].prefix as usize) } else { prefix };
                let build = task.build.set(s);
                for token in &task.probe.set(r)[..reach.prefix as usize] {
                    met[0] += u64::from(build[..prefix].contains(token));
                    met[1] += u64::from(build[prefix..longer].contains(token));
                }
            }
        }
        met
    }

    #[test]
    fn list_pairs_of_a_tile_are_estimated() {
        let mut random = Random::default();
        let mut rows = |count: u32| {
            let mut raw = RawSets::default();
            for row in 0..count {
                let tokens = (0..6 + row % 13).map(|_| {
                    let [a, b] = [0; 2].map(|_| random.below(60) as u32);
                    a * b / 8
                });
                raw.push(&tokens.collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>());
            }
            raw
        };
        let (left, right) = prepare(rows(900), Some(rows(700)), 1000).unwrap();
        let bounds = Bounds::new(Predicate::parse(Measure::Jaccard, "0.6").unwrap());
        let mut parts = SetTask::directions(&left, right.as_ref(), true, bounds);
        parts.extend(SetTask::directions(&left, None, true, bounds));
        for (task, _) in parts {
            let whole = Tile::whole(&task);
            let (probes, builds) = (task.probe.len() as SetId, task.build.len() as SetId);
            let front = Tile { probes: 0..probes / 2, builds: whole.builds.clone() };
            let back = Tile { probes: probes / 2..probes, builds: builds / 4..builds };
            for tile in [whole, front, back] {
                let survey = Survey::new(&task, &tile).sample(Effort::pairs(20_000));
                let [listed, idle] = list_pairs(&task, &tile).map(|count| count as f64);
                assert!(listed > 1000.0 && (idle > 1000.0) == (task.order == Order::Before));
                let ratio = survey.list_pairs / listed;
                assert!((0.9..1.1).contains(&ratio), "{tile:?}: {ratio}");
                let more = survey.list_idle - idle;
                assert!(more.abs() <= 0.1 * idle, "{tile:?}: {} {idle}", survey.list_idle);
                assert!(survey.survival.is_sorted_by(|wide, narrow| wide >= narrow));
            }
        }
    }
}
