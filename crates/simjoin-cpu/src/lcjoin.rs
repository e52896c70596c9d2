//! `lcjoin`: which sets hold all tokens of a set?
//!
//! LCJoin (Deng, Yang, Shang, Zhu, Liu, Shao 2019) supports only containment 1: a set is contained in those
//! probes that are in the inverted lists of all its tokens. All lists are intersected at once: if a list does
//! not hold the current probe, it returns its next probe, and all other lists jump there. Sets with a common
//! beginning share this work in a prefix tree. Each node remembers the next probe at which a set below it may
//! be found.
//!
//! # Flow
//!
//! ```text
//! build sets ─► sorted, cut by first token ─► prefix tree of a part ─┐
//!                                                                    ▼
//! probes ─► inverted lists ───────────────────────────► walk, probe by probe ─► sink
//!                                                       (each node's lists agree, or name the next probe)
//! ```
//!
//! A node holds a run of tokens (a chain is one node), a cursor for each token, and perhaps a set that ends
//! with it. A visit at a probe moves the cursors up to this probe. If a cursor finds a later probe, the node
//! and everything below it continue there. If all cursors find this probe, it contains the node's set, if there
//! is one, and the visit goes on to those children that do not continue at a later probe. Then the node
//! continues where its first child does, but not before all of its own lists do.
//!
//! # Exactness
//!
//! A node is skipped at a probe only if every set that ends at the node or below it has a list without that
//! probe, on the path from the root to the end of the set. So each set is visited at every probe that all its
//! lists hold, and these are exactly the probes that contain it. No pair needs verification.
//!
//! A set with a unique token is contained in no other set.
//!
//! # Memory
//!
//! The technique needs the inverted lists of the probes, the order of the build sets, and for each worker the
//! tree of a part: up to 40 bytes a set and 4 a token.

use crate::heavy::TokenLists;
use crate::verify::Emitter;
use rayon::prelude::*;
use simjoin_core::{Bounds, Error, Measure, Result, SetId, SetPair, Sink, TokenId};
use simjoin_engine::{
    Budget, Cost, CostTable, Order, Prepared, SetTask, Sets, Survey, Technique, Tile, Worker,
};
use std::ops::{ControlFlow, Range};

/// The technique with a prefix tree and lists that are intersected at once.
pub struct LcJoin;

impl Technique<Sets> for LcJoin {
    fn name(&self) -> &'static str {
        "lcjoin"
    }

    fn unsupported(&self, bounds: &Bounds) -> Option<&'static str> {
        let (measure, p, q) = bounds.parts();
        let supported = measure == Measure::Containment && p == q;
        (!supported).then_some("only supports containment 1")
    }

    fn cost(&self, survey: &Survey<'_>, costs: &CostTable) -> Option<Cost> {
        if self.unsupported(&survey.task.predicate).is_some() {
            return None;
        }
        let SetTask { probe, build, .. } = survey.task;
        let probes = probe.tokens_in(&survey.tile.probes) as f64;
        let builds = build.tokens_in(&survey.tile.builds) as f64;
        Some(Cost {
            serial: costs.start
                + 2.0 * f64::from(build.universe()) * costs.pass
                + 0.4 * probes * costs.index,
            parallel: survey.tile.builds.len() as f64 * 10.0 * costs.lookup
                + builds * costs.lookup
                // A set is searched in several lists, each by a jump.
                + survey.list_pairs * 6.0 * costs.walk,
        })
    }

    fn memory_bytes(&self, task: &SetTask<'_>, tile: &Tile, threads: usize) -> u64 {
        let sets = tile.builds.len() as u64;
        let tree = 40 * sets + 4 * task.build.tokens_in(&tile.builds) as u64;
        TokenLists::memory_bytes(task.probe, task.probe.tokens_in(&tile.probes) as u64)
            + 4 * sets
            + tree * threads.min(2) as u64
    }

    fn prepare<'a>(
        &self,
        task: &SetTask<'a>,
        tile: &Tile,
        room: &Budget,
    ) -> Result<Box<dyn Prepared<Sets> + 'a>> {
        if self.unsupported(&task.predicate).is_some() {
            return Err(Error::Internal("lcjoin was given a join of another kind".into()));
        }
        let build = task.build;
        let unique = build.unique_tokens();
        let mut order: Vec<SetId> =
            tile.builds.clone().filter(|&set| build.set(set)[0] >= unique).collect();
        order.par_sort_unstable_by(|&a, &b| build.set(a).cmp(build.set(b)));
        let offsets = task.probe.offsets();
        let range = &tile.probes;
        let tokens = offsets[range.end as usize] - offsets[range.start as usize];
        if tokens > u32::MAX as usize {
            return Err(Error::Memory {
                what: "lcjoin".into(),
                needed: 4 * tokens as u64,
                limit: 4 * u64::from(u32::MAX),
                device: false,
            });
        }
        let lists = TokenLists::new(task.probe, range.clone(), task.probe.universe(), SetId::MAX);
        let pieces = parts(task, &order, room.piece_tokens);
        Ok(Box::new(Crosscut { task: *task, first: range.start, order, lists, pieces }))
    }
}

/// Cuts the sets into parts of about equal numbers of tokens. Sets with the same first token stay together.
fn parts(task: &SetTask<'_>, order: &[SetId], piece_tokens: usize) -> Vec<Range<usize>> {
    let mut parts = Vec::new();
    let (mut start, mut tokens, mut last) = (0, 0, None);
    for (at, &set) in order.iter().enumerate() {
        let first = Some(task.build.set(set)[0]);
        if tokens >= piece_tokens.max(1) && first != last {
            parts.push(start..at);
            (start, tokens) = (at, 0);
        }
        tokens += task.build.size(set) as usize;
        last = first;
    }
    if start < order.len() {
        parts.push(start..order.len());
    }
    parts
}

struct Crosscut<'a> {
    task: SetTask<'a>,
    /// The first probe; lists count probes from it.
    first: SetId,
    /// Build sets in the order of their tokens.
    order: Vec<SetId>,
    lists: TokenLists,
    pieces: Vec<Range<usize>>,
}

impl Prepared<Sets> for Crosscut<'_> {
    fn pieces(&self) -> usize {
        self.pieces.len()
    }

    fn worker<'a>(&'a self) -> Result<Box<dyn Worker<Sets> + 'a>> {
        Ok(Box::new(CrosscutWorker { crosscut: self, tree: Tree::default(), found: 0 }))
    }
}

/// The number that stands for no probe or no set.
const NONE: u32 = u32::MAX;

/// A run of tokens that sets with the same beginning share.
#[derive(Clone, Copy)]
struct Node {
    /// A set that holds the tokens.
    of: SetId,
    from: u32,
    to: u32,
    /// The set that ends here, or [`NONE`].
    set: SetId,
    /// The range of the children.
    children: (u32, u32),
    /// The place of the first token's cursor.
    cursors: u32,
}

/// A prefix tree and the state of a walk over the probes.
#[derive(Default)]
struct Tree {
    nodes: Vec<Node>,
    /// For each node, the next probe at which there may be a pair.
    next: Vec<u32>,
    cursors: Vec<u32>,
    /// The sets of nodes whose children are not made yet.
    open: Vec<(u32, u32)>,
    stack: Vec<Frame>,
}

/// A node that is being visited.
struct Frame {
    node: u32,
    child: u32,
    /// The first probe at which a child, or the node's own set, continues.
    least: u32,
    /// The first probe at which all of the node's lists may continue.
    gap: u32,
}

impl Tree {
    /// Makes the tree of sets in the order of their tokens, and returns the number of roots, which come first.
    fn make(&mut self, task: &SetTask<'_>, order: &[SetId]) -> u32 {
        let set = |at: u32| task.build.set(order[at as usize]);
        self.nodes.clear();
        self.open.clear();
        self.cursors.clear();
        self.add_children(&set, order, 0..order.len() as u32, 0);
        let roots = self.nodes.len() as u32;
        let mut node = 0;
        // Breadth first, so that children are neighbours.
        while node < self.nodes.len() {
            let (start, end) = self.open[node];
            let begin = self.nodes.len() as u32;
            let depth = self.nodes[node].to;
            self.add_children(&set, order, start..end, depth as usize);
            self.nodes[node].children = (begin, self.nodes.len() as u32);
            node += 1;
        }
        self.next.clear();
        self.next.resize(self.nodes.len(), 0);
        roots
    }

    /// Adds a node for each token that these sets have at a depth.
    fn add_children<'s>(
        &mut self,
        set: &impl Fn(u32) -> &'s [TokenId],
        order: &[SetId],
        range: Range<u32>,
        depth: usize,
    ) {
        let mut start = range.start;
        while start < range.end {
            let first = set(start);
            let mut end = start + 1;
            while end < range.end && set(end)[depth] == first[depth] {
                end += 1;
            }
            // All sets between the first and the last share the tokens that these two share.
            let last = set(end - 1);
            let common =
                first[depth..].iter().zip(&last[depth..]).take_while(|(a, b)| a == b).count();
            let to = depth + common;
            let ends = first.len() == to;
            self.nodes.push(Node {
                of: order[start as usize],
                from: depth as u32,
                to: to as u32,
                set: if ends { order[start as usize] } else { NONE },
                children: (0, 0),
                cursors: self.cursors.len() as u32,
            });
            self.cursors.resize(self.cursors.len() + common, 0);
            self.open.push((start + u32::from(ends), end));
            start = end;
        }
    }
}

struct CrosscutWorker<'a> {
    crosscut: &'a Crosscut<'a>,
    tree: Tree,
    found: u64,
}

impl CrosscutWorker<'_> {
    /// Moves a node's cursors up to a probe. Returns `Ok` if all of its lists hold the probe, with the next
    /// probe that all of them may hold; otherwise `Err` with the next probe of one list.
    #[inline]
    fn enter(&mut self, node: u32, probe: u32) -> std::result::Result<u32, u32> {
        let Crosscut { task, lists, .. } = self.crosscut;
        let Node { of, from, to, cursors, .. } = self.tree.nodes[node as usize];
        let tokens = &task.build.set(of)[from as usize..to as usize];
        let cursors = &mut self.tree.cursors[cursors as usize..][..tokens.len()];
        let mut gap = probe + 1;
        for (&token, cursor) in tokens.iter().zip(cursors) {
            let list = lists.of(token);
            let at = seek(list, *cursor as usize, probe);
            *cursor = at as u32;
            match list.get(at) {
                Some(&found) if found == probe => {
                    gap = gap.max(list.get(at + 1).copied().unwrap_or(NONE));
                }
                Some(&later) => return Err(later),
                None => return Err(NONE),
            }
        }
        Ok(gap)
    }

    /// Visits a root and its descendants at a probe, and returns the probe at which the root continues.
    fn visit(&mut self, root: u32, probe: u32, emitter: &mut Emitter<'_>) -> u32 {
        let mut entered = Some(root);
        loop {
            if let Some(node) = entered.take() {
                let value = match self.enter(node, probe) {
                    Ok(gap) => {
                        let Node { set, children, .. } = self.tree.nodes[node as usize];
                        let least = if set == NONE { NONE } else { gap };
                        self.answer(set, probe, emitter);
                        self.tree.stack.push(Frame { node, child: children.0, least, gap });
                        continue;
                    }
                    Err(later) => later,
                };
                self.tree.next[node as usize] = value;
                match self.tree.stack.last_mut() {
                    Some(parent) => parent.least = parent.least.min(value),
                    None => return value,
                }
            }
            let Some(frame) = self.tree.stack.last_mut() else { return NONE };
            let end = self.tree.nodes[frame.node as usize].children.1;
            while frame.child < end {
                let child = frame.child;
                frame.child += 1;
                let next = self.tree.next[child as usize];
                if next <= probe {
                    entered = Some(child);
                    break;
                }
                frame.least = frame.least.min(next);
            }
            if entered.is_some() {
                continue;
            }
            let Some(Frame { node, least, gap, .. }) = self.tree.stack.pop() else { return NONE };
            let value = least.max(gap);
            self.tree.next[node as usize] = value;
            match self.tree.stack.last_mut() {
                Some(parent) => parent.least = parent.least.min(value),
                None => return value,
            }
        }
    }

    /// Pushes a set and a probe that contains it, if the join's order allows the pair.
    #[inline]
    fn answer(&mut self, set: SetId, probe: u32, emitter: &mut Emitter<'_>) {
        if set == NONE {
            return;
        }
        let SetTask { probe: probes, build, order, .. } = self.crosscut.task;
        let probe = self.crosscut.first + probe;
        let size = build.size(set);
        let meets = match order {
            Order::Before => set < probe,
            Order::NotLarger => true,
            Order::Smaller => size < probes.size(probe),
        };
        if meets {
            self.found += 1;
            emitter.push(probe, set, size);
        }
    }

    fn join(&mut self, piece: usize, sink: &mut dyn Sink<SetPair>) -> ControlFlow<()> {
        let Crosscut { task, order, pieces, .. } = self.crosscut;
        let mut emitter = Emitter::new(sink);
        let roots = self.tree.make(task, &order[pieces[piece].clone()]);
        let mut visits = 0u32;
        for root in 0..roots {
            let mut probe = 0;
            while probe != NONE {
                probe = self.visit(root, probe, &mut emitter);
                visits = visits.wrapping_add(1);
                if visits.is_multiple_of(256) {
                    emitter.flow()?;
                }
            }
        }
        emitter.finish()
    }
}

impl Worker<Sets> for CrosscutWorker<'_> {
    fn run(&mut self, piece: usize, sink: &mut dyn Sink<SetPair>) -> Result<ControlFlow<()>> {
        Ok(self.join(piece, sink))
    }

    fn candidates(&self) -> u64 {
        self.found
    }
}

/// Returns the first place from `at` on with a probe that is not smaller. Searches by doubling steps and
/// bisection.
#[inline]
fn seek(list: &[u32], at: usize, probe: u32) -> usize {
    if list.get(at).is_none_or(|&found| found >= probe) {
        return at;
    }
    let rest = &list[at + 1..];
    let mut step = 1;
    while step < rest.len() && rest[step] < probe {
        step *= 2;
    }
    let (from, to) = (step / 2, rest.len().min(step + 1));
    at + 1 + from + rest[from..to].partition_point(|&found| found < probe)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Naive;
    use proptest::prelude::*;
    use simjoin_core::Predicate;
    use simjoin_testing::{Rows, collections, run};

    fn check(left: &Rows, right: Option<&Rows>) -> usize {
        let bounds = Bounds::new(Predicate::parse(Measure::Containment, "1").unwrap());
        assert!(LcJoin.unsupported(&bounds).is_none());
        let (left, right) = collections(left, right);
        let mut pairs = 0;
        for (task, _) in SetTask::directions(&left, right.as_ref(), true, bounds) {
            let whole = Tile::whole(&task);
            let (probes, builds) = (whole.probes.end, whole.builds.end);
            let part = Tile { probes: probes / 3..probes, builds: builds / 4..builds - builds / 5 };
            for tile in [whole, part] {
                let sorted = |technique: &dyn Technique<Sets>, piece, threads| {
                    let room = Budget::unlimited(piece, threads);
                    let mut found = run(technique, &task, &tile, &room, true).0;
                    found.sort_unstable();
                    found
                };
                let expected = sorted(&Naive, 100, 1);
                assert_eq!(sorted(&LcJoin, 1, 3), expected);
                assert_eq!(sorted(&LcJoin, 100_000, 1), expected);
                pairs += expected.len();
            }
        }
        pairs
    }

    #[test]
    fn extreme_collections_agree_with_naive() {
        // Each set within the next; all tokens; disjoint sets; one token; runs.
        let nested: Rows = (1..60).map(|size| (0..size).collect()).collect();
        let tails: Rows = (1..60).map(|size| (60 - size..60).collect()).collect();
        let apart: Rows = (0..40).map(|row| (row * 3..row * 3 + 3).collect()).collect();
        let ones: Rows = (0..60).map(|token| [token].into()).collect();
        let runs: Rows =
            (0..50).flat_map(|at| (1..8).map(move |n| (at..at + n).collect())).collect();
        let empty: Rows = vec![Default::default(); 3];
        for left in [&nested, &tails, &apart, &ones, &runs, &empty] {
            check(left, None);
            for right in [&nested, &tails, &apart, &ones, &runs, &empty] {
                check(left, Some(right));
            }
        }
        assert!(check(&runs, None) > 1000);
    }

    /// Makes the deepest possible tree: nothing may depend on the size of a stack.
    #[test]
    fn deep_trees_do_not_overflow_the_stack() {
        let nested: Rows = (1..1500).map(|size| (0..size).collect()).collect();
        let (sets, _) = collections(&nested, None);
        let bounds = Bounds::new(Predicate::parse(Measure::Containment, "1").unwrap());
        let (task, _) = SetTask::directions(&sets, None, false, bounds)[0];
        let room = Budget::unlimited(1 << 20, 1);
        let (found, _) = run(&LcJoin, &task, &Tile::whole(&task), &room, true);
        assert_eq!(found.len(), 1499 * 1498 / 2);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        #[test]
        fn equals_naive(
            left in simjoin_testing::rows(),
            small in prop::collection::vec(prop::collection::btree_set(0..25u32, 0..9), 1..60),
            right in prop::option::of(simjoin_testing::rows()),
        ) {
            check(&left, right.as_ref());
            check(&small, None);
            check(&small, Some(&left));
        }

        #[test]
        fn seeking_is_searching(list in prop::collection::btree_set(0..300u32, 0..80), at in 0..80usize, probe in 0..310u32) {
            let list: Vec<u32> = list.into_iter().collect();
            let at = at.min(list.len());
            let expected = at + list[at..].partition_point(|&found| found < probe);
            prop_assert_eq!(seek(&list, at, probe), expected);
        }
    }
}
