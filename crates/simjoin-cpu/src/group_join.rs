//! `group-join`: which groups of sets with one prefix could match?
//!
//! GroupJoin (Bouros, Ge, Mamoulis 2012) extends PPJoin. Every prefix filter treats sets of one size with
//! the same prefix alike, so they are filtered as one group. Build sets are grouped by their index prefix,
//! probe sets by their probe prefix. The lists hold groups, and a group of probes walks them once. Only
//! surviving pairs of groups are expanded to pairs of sets.
//!
//! # Flow
//!
//! ```text
//! probe group ─► inverted lists of groups ─► position test ─► groups met ─┐
//!                                                                          ▼
//!                       sink ◄─ merge after the prefix ◄─ expand to pairs of sets
//! ```
//!
//! Sets are ordered by size, then lexicographically, so a group is a range of neighbours.
//!
//! # Exactness
//!
//! The filters of `ppjoin` use only the size and the prefix, which are the same for every member. So a
//! pair of groups is dropped only if every pair of members would be dropped. In a self-join a group may
//! meet itself or its neighbours; the expansion keeps the pairs that the order allows.
//!
//! # Memory
//!
//! The technique needs the index with positions over groups, 4 bytes per group, and 8 bytes per group
//! and worker.

use crate::demands::{Demands, index_prefixes};
use crate::prefix_index::{Cursors, PrefixIndex};
use crate::set_join;
use crate::verify::{AHEAD, Emitter, verify};
use simjoin_core::{Error, Result, SetId, SetPair, Sink};
use simjoin_engine::{
    Budget, CandidateFilter, CandidateFinder, CandidateSink, CandidateSource, Cost, CostTable,
    Order, Prepared, SetTask, Sets, Survey, Technique, Tile, Worker, cut,
};
use simjoin_kernels::prefetch::prefetch;
use std::cell::{Cell, RefCell};
use std::ops::{ControlFlow, Range};

/// The technique with prefix, length and positional filter over groups of sets with one prefix.
pub struct GroupJoin;

impl Technique<Sets> for GroupJoin {
    fn name(&self) -> &'static str {
        "group-join"
    }

    fn cost(&self, survey: &Survey<'_>, costs: &CostTable) -> Option<Cost> {
        // The cost of ppjoin, plus the upkeep of groups; few sets share a prefix.
        let cost = set_join::cost(survey, costs, 0.35 * survey.list_position);
        Some(Cost { serial: 1.3 * cost.serial, parallel: 1.1 * cost.parallel })
    }

    fn memory_bytes(&self, task: &SetTask<'_>, tile: &Tile, threads: usize) -> u64 {
        set_join::memory_bytes(task, tile, threads, true) + 4 * tile.builds.len() as u64
    }

    fn prepare<'a>(
        &self,
        task: &SetTask<'a>,
        tile: &Tile,
        room: &Budget,
    ) -> Result<Box<dyn Prepared<Sets> + 'a>> {
        Ok(Box::new(PreparedGroups::new(task, tile, room.piece_tokens)))
    }
}

impl CandidateFilter for GroupJoin {
    fn filter_cost(&self, survey: &Survey<'_>, costs: &CostTable) -> Cost {
        set_join::cost(survey, costs, 0.0)
    }

    fn source<'a>(
        &self,
        task: &SetTask<'a>,
        tile: &Tile,
        piece_tokens: usize,
    ) -> Box<dyn CandidateSource + 'a> {
        Box::new(PreparedGroups::new(task, tile, piece_tokens))
    }
}

impl<'a> PreparedGroups<'a> {
    fn new(task: &SetTask<'a>, tile: &Tile, piece_tokens: usize) -> Self {
        let builds = tile.builds.clone();
        let build = task.build;
        let lengths = index_prefixes(task);
        let prefix = |id: SetId| &build.set(id)[..lengths[build.class_of(id) as usize] as usize];
        let mut starts = Vec::new();
        for id in builds.clone() {
            let joins_group = id > builds.start
                && build.class_of(id) == build.class_of(id - 1)
                && prefix(id) == prefix(id - 1);
            if !joins_group {
                starts.push(id);
            }
        }
        let units = (0..).zip(&starts).map(|(group, &id)| (group, prefix(id)));
        let index = PrefixIndex::new(build, true, units, |_| true);
        let class_ends = build
            .classes()
            .iter()
            .map(|class| starts.partition_point(|&start| start < class.end) as u32)
            .collect();
        starts.push(builds.end);
        let pieces = cut(task, tile, piece_tokens);
        PreparedGroups { task: *task, builds, starts, class_ends, index, pieces }
    }
}

struct PreparedGroups<'a> {
    task: SetTask<'a>,
    builds: Range<SetId>,
    /// The first set of each build group, and the end of the last group.
    starts: Vec<SetId>,
    /// The group after the last of each size class; groups do not cross classes.
    class_ends: Vec<u32>,
    index: PrefixIndex,
    pieces: Vec<Tile>,
}

impl Prepared<Sets> for PreparedGroups<'_> {
    fn pieces(&self) -> usize {
        self.pieces.len()
    }

    fn worker<'a>(&'a self) -> Result<Box<dyn Worker<Sets> + 'a>> {
        Ok(Box::new(self.group_worker()))
    }
}

impl CandidateSource for PreparedGroups<'_> {
    fn pieces(&self) -> usize {
        self.pieces.len()
    }

    fn finder<'a>(&'a self) -> Box<dyn CandidateFinder + 'a> {
        Box::new(self.group_worker())
    }
}

impl PreparedGroups<'_> {
    fn group_worker(&self) -> GroupJoinWorker<'_> {
        let groups = self.starts.len() - 1;
        GroupJoinWorker {
            prepared: self,
            demands: Demands::new(&self.task, self.builds.clone()),
            cursors: self.index.cursors(),
            first: 0,
            end: 0,
            found: vec![0; groups],
            candidates: vec![0; groups + 1],
            verified: 0,
        }
    }
}

/// Takes the candidates of a probe.
type TakeFirsts<'t> = dyn FnMut(SetId, &[SetId]) -> ControlFlow<()> + 't;

struct GroupJoinWorker<'a> {
    prepared: &'a PreparedGroups<'a>,
    demands: Demands<'a>,
    cursors: Cursors,
    /// The range of build groups that the current probe group may meet. Both ends only rise.
    first: u32,
    end: u32,
    /// The number of common prefix tokens of the current probe group and each build group; 0 if they did
    /// not meet or were dropped. Between probes all numbers are 0.
    found: Vec<u32>,
    /// The build groups met by the current probe group, at the front; some dropped since.
    candidates: Vec<u32>,
    verified: u64,
}

impl GroupJoinWorker<'_> {
    /// Returns the set after the last of the probe group that begins with `start`.
    fn group_end(&self, start: SetId, limit: SetId) -> SetId {
        let probes = self.prepared.task.probe;
        let length = self.demands.probe_prefix();
        let prefix = &probes.set(start)[..length];
        let class_end = probes.classes()[probes.class_of(start) as usize].end;
        let mut end = start + 1;
        while end < limit.min(class_end) && &probes.set(end)[..length] == prefix {
            end += 1;
        }
        end
    }

    /// Fills `candidates` with every build group that passes the position test.
    fn filter(&mut self, probe: SetId, partners: &Range<SetId>) -> usize {
        let PreparedGroups { task, starts, class_ends, index, .. } = self.prepared;
        let build = task.build;
        while starts[self.first as usize] < partners.start {
            self.first += 1;
        }
        self.end = self.end.max(self.first);
        while starts[self.end as usize] < partners.end {
            self.end += 1;
        }
        let r = task.probe.set(probe);
        let (unique, tokens) = index.shared(&r[..self.demands.probe_prefix()]);
        let mut count = 0;
        for (i, &token) in (unique..).zip(tokens) {
            let (groups, range) = index.units(&mut self.cursors, token, self.first, self.end);
            let positions = index.positions(range);
            let rest = (r.len() - i) as u32;
            let mut at = 0;
            while at < groups.len() {
                // Handle one run of groups of one size.
                let class = build.class_of(starts[groups[at] as usize]);
                let required = self.demands.required(class);
                let run_end = class_ends[class as usize];
                let size = build.classes()[class as usize].size;
                while at < groups.len() && groups[at] < run_end {
                    let group = groups[at];
                    let found = &mut self.found[group as usize];
                    let passes = *found + rest.min(size - positions[at]) >= required;
                    self.candidates[count] = group;
                    count += usize::from(passes & (*found == 0));
                    *found = if passes { *found + 1 } else { 0 };
                    at += 1;
                }
            }
        }
        count
    }

    /// Joins a piece. If there is a `take`, it gets the pairs of the first set of each probe group with the
    /// first sets of the groups that it meets, probe by probe.
    fn join<const EXACT: bool>(
        &mut self,
        piece: usize,
        sink: &mut dyn Sink<SetPair>,
        mut take: Option<&mut TakeFirsts<'_>>,
    ) -> ControlFlow<()> {
        let tile = &self.prepared.pieces[piece];
        let SetTask { probe: probes, build, order, .. } = self.prepared.task;
        let mut emitter = Emitter::new(sink);
        let mut firsts: Vec<SetId> = Vec::new();
        let mut start = tile.probes.start;
        while start < tile.probes.end {
            self.demands.turn_to(start);
            let end = self.group_end(start, tile.probes.end);
            // The last member meets every set that any member meets.
            let partners = self.demands.turn_to(end - 1);
            let group = start..end;
            start = end;
            if partners.is_empty() {
                continue;
            }
            let count = self.filter(group.start, &partners);
            for at in 0..count {
                if at + AHEAD < count {
                    let ahead = self.candidates[at + AHEAD] as usize;
                    prefetch(build.set(self.prepared.starts[ahead]));
                }
                let candidate = self.candidates[at] as usize;
                let found = std::mem::take(&mut self.found[candidate]);
                if found == 0 {
                    continue;
                }
                let members = self.prepared.starts[candidate]..self.prepared.starts[candidate + 1];
                let class = build.class_of(members.start);
                let required = self.demands.required(class);
                let (probe_prefix, index_prefix) =
                    (self.demands.probe_prefix(), self.demands.index_prefix(class));
                for probe in group.clone() {
                    let r = probes.set(probe);
                    let end = match order {
                        Order::Before => members.end.min(probe),
                        _ => members.end.min(partners.end),
                    };
                    let mut members = members.start..end;
                    if take.is_some() && probe == group.start {
                        firsts.extend(members.next());
                    }
                    for member in members {
                        self.verified += 1;
                        let s = build.set(member);
                        if let Some(overlap) =
                            verify::<EXACT>(r, probe_prefix, s, index_prefix, found, required)
                        {
                            emitter.push(probe, member, overlap);
                        }
                    }
                }
            }
            if let Some(take) = &mut take
                && !firsts.is_empty()
            {
                take(group.start, &firsts)?;
                firsts.clear();
            }
            emitter.flow()?;
        }
        emitter.finish()
    }
}

impl Worker<Sets> for GroupJoinWorker<'_> {
    fn run(&mut self, piece: usize, sink: &mut dyn Sink<SetPair>) -> Result<ControlFlow<()>> {
        Ok(if sink.wants_value() {
            self.join::<true>(piece, sink, None)
        } else {
            self.join::<false>(piece, sink, None)
        })
    }

    fn candidates(&self) -> u64 {
        self.verified
    }
}

impl CandidateFinder for GroupJoinWorker<'_> {
    fn find(&mut self, piece: usize, sink: &mut dyn CandidateSink) -> Result<ControlFlow<()>> {
        let exact = sink.wants_value();
        let split = Split { sink: RefCell::new(sink), failure: Cell::new(None) };
        let take = &mut |probe, firsts: &[SetId]| {
            split.flow(split.sink.borrow_mut().candidates(probe, firsts))
        };
        let flow = if exact {
            self.join::<true>(piece, &mut &split, Some(take))
        } else {
            self.join::<false>(piece, &mut &split, Some(take))
        };
        split.failure.into_inner().map_or(Ok(flow), Err)
    }

    fn verified(&self) -> u64 {
        self.verified
    }
}

/// A sink of candidates that also receives the pairs of the other members.
struct Split<'s> {
    sink: RefCell<&'s mut dyn CandidateSink>,
    failure: Cell<Option<Error>>,
}

impl Split<'_> {
    fn flow(&self, flow: Result<ControlFlow<()>>) -> ControlFlow<()> {
        flow.unwrap_or_else(|error| {
            self.failure.set(Some(error));
            ControlFlow::Break(())
        })
    }
}

impl Sink<SetPair> for &Split<'_> {
    fn wants_value(&self) -> bool {
        self.sink.borrow().wants_value()
    }

    fn stopped(&self) -> bool {
        self.sink.borrow().stopped()
    }

    fn push(&mut self, pairs: &[SetPair]) -> ControlFlow<()> {
        self.flow(self.sink.borrow_mut().answers(pairs))
    }
}
