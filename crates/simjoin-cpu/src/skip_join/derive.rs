//! Which probes form a group, and how do followers get their answers from its leader?

use super::worker::{SkipWorker, after};
use super::{Answers, DIFFERENCE, LEAST_PREFIX, PER_LIST, PreparedSkip, RELAXED_PERCENT};
use crate::verify::Emitter;
use simjoin_core::{SetId, TokenId};
use simjoin_engine::{Order, SetTask};
use simjoin_kernels::overlap;
use std::ops::Range;

/// Neighbouring probes of one size.
pub(super) struct Group {
    pub(super) probes: Range<SetId>,
    /// The largest number of tokens by which the others differ from the first; 0 if each probe is joined separately.
    pub(super) difference: u32,
}

impl SkipWorker<'_> {
    /// Returns the group that begins with `start`.
    #[inline(always)]
    pub(super) fn group(&mut self, start: SetId, limit: SetId) -> Group {
        let probes = self.prepared.task.probe;
        let most = match self.prepared.answers {
            Answers::Estimated if self.demands.probe_prefix() < LEAST_PREFIX => {
                return Group { probes: start..start + 1, difference: 0 };
            }
            Answers::Estimated => DIFFERENCE,
            Answers::Derived(difference) => difference,
        };
        let x = probes.set(start);
        let size = x.len() as u32;
        let limit = probes.classes()[probes.class_of(start) as usize].end.min(limit);
        let alike = size.saturating_sub(most).max(1);
        let (mut end, mut difference) = (start + 1, 0);
        while end < limit {
            let y = probes.set(end);
            // Sets that differ in one token agree at one end, or nearly always.
            if most == 1 && x[0] != y[0] && x[x.len() - 1] != y[x.len() - 1] {
                break;
            }
            let Some(common) = overlap::verify::<true>(x, y, 0, alike) else { break };
            difference = difference.max(size - common);
            end += 1;
        }
        let group = Group { probes: start..end, difference };
        let derive = match self.prepared.answers {
            Answers::Estimated => difference > 0 && self.is_worthwhile(&group),
            Answers::Derived(_) => true,
        };
        Group { difference: if derive { difference } else { 0 }, ..group }
    }

    /// Returns whether followers probably save more than a leader costs. Both are measured in sets on lists. The
    /// estimate only depends on the index and the group, not on earlier tiles.
    #[inline(never)]
    fn is_worthwhile(&mut self, group: &Group) -> bool {
        let PreparedSkip { task: SetTask { probe: probes, build, .. }, index, .. } = self.prepared;
        let sets = self.demands.turn_to(group.probes.end - 1);
        if sets.is_empty() {
            return false;
        }
        let prefix = self.demands.probe_prefix();
        let first_class = build.class_of(sets.start);
        let x = probes.set(group.probes.start);
        let longer = (prefix + group.difference as usize).min(x.len());
        let mut sum = |tokens: &[TokenId]| -> u64 {
            let tokens = index.shared(tokens).1;
            let lengths =
                tokens.iter().map(|&token| index.length(&mut self.fronts, token, first_class));
            lengths.map(|length| PER_LIST + u64::from(length)).sum()
        };
        let (own, further) = (sum(&x[..prefix]), sum(&x[prefix..longer]));
        let followers = group.probes.len() as u64 - 1;
        let leader = further + RELAXED_PERCENT * (own + further) / 100;
        // Most groups end here: the tokens gained can only make it worse.
        if followers * own <= leader {
            return false;
        }
        let mut gained = 0;
        for y in group.probes.start + 1..group.probes.end {
            differences(x, probes.set(y), &mut self.lost, &mut self.gained);
            for &(position, token) in &self.gained {
                if position < prefix {
                    gained += sum(&[token]);
                }
            }
        }
        followers * own > leader + gained
    }

    /// Pushes the answers of a group: those of the leader, then those of each follower.
    #[inline(never)]
    pub(super) fn derive<const EXACT: bool>(&mut self, group: &Group, emitter: &mut Emitter<'_>) {
        let probes = self.prepared.task.probe;
        // The last member meets all that any member meets.
        let sets = self.demands.turn_to(group.probes.end - 1);
        if sets.is_empty() {
            return;
        }
        let leader = group.probes.start;
        let kept = self.lead(leader, group.difference, &sets, emitter);
        for follower in leader + 1..group.probes.end {
            differences(probes.set(leader), probes.set(follower), &mut self.lost, &mut self.gained);
            let sets = self.demands.turn_to(follower);
            if !sets.is_empty() {
                self.follow::<EXACT>(follower, kept, &sets, emitter);
            }
        }
        for at in 0..kept {
            self.found[self.candidates[at] as usize] = 0;
        }
    }

    /// Pushes the answers of a leader, and keeps every set of a range that a follower could match,
    /// with its overlap, at the front of `candidates` and in `found`; returns their number.
    fn lead(
        &mut self,
        leader: SetId,
        difference: u32,
        sets: &Range<SetId>,
        emitter: &mut Emitter<'_>,
    ) -> usize {
        let PreparedSkip { task, builds, .. } = self.prepared;
        let SetTask { probe: probes, build, order, .. } = *task;
        let own_end = self.demands.turn_to(leader).end;
        let partners = self.partners(sets);
        let x = probes.set(leader);
        let unique = self.meet_all(x, difference, &partners);
        let count = self.met.last().map_or(0, |&count| count as usize);
        self.verified += count as u64;
        let (mut at, mut kept) = (0, 0);
        for (i, segment) in (unique..).zip(0..self.met.len()) {
            while at < self.met[segment] as usize {
                self.look_ahead(at, count);
                let unit = self.candidates[at];
                let found = std::mem::take(&mut self.found[unit as usize]);
                let id = builds.start + unit;
                let s = build.set(id);
                let required = self.demands.required(build.class_of(id));
                let relaxed = required.saturating_sub(difference).max(1);
                let overlap = if order == Order::Before && id == leader {
                    // Tokens without a list are common to no two sets, but to a set and itself.
                    Some(x.len() as u32)
                } else {
                    let (a, b) = after((x, relaxed, i), (s, required), found);
                    overlap::verify::<true>(a, b, found, relaxed)
                };
                if let Some(overlap) = overlap {
                    if overlap >= required && id < own_end {
                        emitter.push(leader, id, overlap);
                    }
                    self.found[unit as usize] = overlap;
                    self.candidates[kept] = unit;
                    kept += 1;
                }
                at += 1;
            }
        }
        kept
    }

    /// Pushes the answers of a follower whose differences from its leader are at hand.
    fn follow<const EXACT: bool>(
        &mut self,
        follower: SetId,
        kept: usize,
        sets: &Range<SetId>,
        emitter: &mut Emitter<'_>,
    ) {
        let PreparedSkip { task: SetTask { probe: probes, build, .. }, builds, index, .. } =
            self.prepared;
        let y = probes.set(follower);
        let (lost, gained) = (self.lost.len() as u32, self.gained.len() as u32);
        for at in 0..kept {
            let unit = self.candidates[at];
            let id = builds.start + unit;
            let with_leader = self.found[unit as usize];
            let required = self.demands.required(build.class_of(id));
            if id >= sets.end || with_leader + gained < required {
                continue;
            }
            self.verified += 1;
            if !EXACT && with_leader >= required + lost {
                emitter.push(follower, id, with_leader - lost);
                continue;
            }
            let s = build.set(id);
            let holds = |token: &TokenId| u32::from(s.binary_search(token).is_ok());
            let more: u32 = self.gained.iter().map(|(_, token)| holds(token)).sum();
            let less: u32 = self.lost.iter().map(holds).sum();
            let overlap = with_leader + more - less;
            if overlap >= required {
                emitter.push(follower, id, overlap);
            }
        }
        // Sets that only the tokens gained lead to.
        let partners = self.partners(sets);
        let mut count = kept;
        for at in 0..self.gained.len() {
            let (position, token) = self.gained[at];
            if position < self.demands.probe_prefix() && !index.shared(&[token]).1.is_empty() {
                count = self.meet::<false>(token, (y.len() - position) as u32, &partners, count);
            }
        }
        self.verified += (count - kept) as u64;
        for at in kept..count {
            let unit = self.candidates[at];
            self.found[unit as usize] = 0;
            let id = builds.start + unit;
            let required = self.demands.required(build.class_of(id));
            if let Some(overlap) = overlap::verify::<EXACT>(y, build.set(id), 0, required) {
                emitter.push(follower, id, overlap);
            }
        }
    }
}

/// Writes the tokens of `x` that `y` lacks to `lost`, and those of `y` that `x` lacks to `gained`.
pub(super) fn differences(
    x: &[TokenId],
    y: &[TokenId],
    lost: &mut Vec<TokenId>,
    gained: &mut Vec<(usize, TokenId)>,
) {
    lost.clear();
    gained.clear();
    let mut at = 0;
    for (position, &token) in y.iter().enumerate() {
        while at < x.len() && x[at] < token {
            lost.push(x[at]);
            at += 1;
        }
        if at < x.len() && x[at] == token {
            at += 1;
        } else {
            gained.push((position, token));
        }
    }
    lost.extend_from_slice(&x[at..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_written_in_order() {
        let (mut lost, mut gained) = (vec![9], vec![(9, 9)]);
        differences(&[1, 2, 5, 7], &[2, 3, 5, 9], &mut lost, &mut gained);
        assert_eq!((lost, gained), (vec![1, 7], vec![(1, 3), (3, 9)]));
    }
}
