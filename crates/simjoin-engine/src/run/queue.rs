//! Who takes the next tile?
//!
//! The queue of HySet: what is to be done lies in a line, in rising order of set sizes. The CPU takes from
//! the front, devices from the back, where the sets are large, until they meet. Two numbers in one atomic
//! word say what is left; nobody locks. How much is taken follows one of two rules:
//!
//! * [`Rule::Halves`]: half of what is left, in proportion to how fast the taker has been. Takes become
//!   smaller towards the end, so neither side waits long for the other.
//! * [`Rule::Balance`]: half of what makes both sides end at the same time, by what each has shown so far and by
//!   what was expected of it before, as long as the other half is worth coming back for. This corrects a split that
//!   was planned: the plan leaves some of the work to whoever comes first. What a side has shown of one part of the
//!   line says only so much of another, which is why what came before its last take counts half, and why nobody
//!   takes all of its due while that is much.

use crate::plan::{Chosen, Line};
use crate::sets::{Direction, SetTask, Tile};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// From which end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The CPU's.
    Front,
    /// The devices'.
    Back,
}

impl End {
    fn other(self) -> End {
        match self {
            End::Front => End::Back,
            End::Back => End::Front,
        }
    }
}

/// How much to take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Rule {
    /// Half of one's share.
    Halves,
    /// As much as lets both end together. For each end: the seconds expected of it for what lies outside the
    /// queue, for everything in it, and for each take beside.
    Balance { outside: [f64; 2], inside: [f64; 2], starts: [f64; 2] },
}

/// How many starts half of a take must be worth for the other half to wait; and which part of the time of the whole
/// join counts as a start at least. In a model of 600 joins whose estimates are off by two fifths (sigma), here more
/// and there less, and whose starts take 0.3 or 1.5 % of the time and are not known of, nine of ten end within 1.05
/// and 1.11 times the best split; 1.19 and 1.21 if half is taken only until both sides have been seen (2026-11-18).
const WORTH_STARTS: f64 = 1.5;
const LEAST_START: f64 = 0.05;

/// What came before the last take counts so much, and what came before that so much of it.
const BEFORE: f64 = 0.5;

/// A part of what is left that is not worth taking, or leaving.
const LITTLE: f64 = 0.05;

/// Something that is to be done.
pub(crate) type Queued<'a> = (SetTask<'a>, Direction, Tile);

/// What was taken.
pub(crate) struct Taken<'a> {
    pub(crate) tiles: Vec<Queued<'a>>,
    /// How much it is.
    pub(crate) work: f64,
    /// What had best do it, as far as is known.
    pub(crate) technique: Option<usize>,
}

/// Work that nobody has taken yet.
pub(crate) struct Queue<'a> {
    line: Line<'a>,
    /// The part of the line that it holds, in units of which there are so many.
    from: f64,
    to: f64,
    units: u32,
    rule: Rule,
    /// What each side had best do parts of it with.
    techniques: [Vec<Chosen>; 2],
    /// The first unit that is left, and above it the end of those that are.
    left: AtomicU64,
    sides: [Side; 2],
}

/// What is known of a side, in numbers as their bits.
#[derive(Default)]
struct Side {
    /// Work that it has done, as a part of all or in seconds expected of it, and the seconds that it took; what was
    /// done before the last take counts less.
    done: AtomicU64,
    busy: AtomicU64,
    /// What it is at, and since when; 0 while it is idle.
    taken: AtomicU64,
    since: AtomicU64,
    /// It takes nothing more.
    ended: AtomicBool,
}

fn load(bits: &AtomicU64) -> f64 {
    f64::from_bits(bits.load(Ordering::SeqCst))
}

fn store(bits: &AtomicU64, value: f64) {
    bits.store(value.to_bits(), Ordering::SeqCst);
}

impl<'a> Queue<'a> {
    /// What lies between two points of a line.
    pub(crate) fn new(line: Line<'a>, from: f64, to: f64, units: u32, rule: Rule) -> Self {
        let left = AtomicU64::new(pack(&(0..units)));
        let (techniques, sides) = Default::default();
        Queue { line, from, to, units, rule, techniques, left, sides }
    }

    /// It is known what each side had best do parts of it with.
    pub(crate) fn by(self, techniques: [Vec<Chosen>; 2]) -> Self {
        Queue { techniques, ..self }
    }

    fn side(&self, end: End) -> &Side {
        &self.sides[end as usize]
    }

    /// The work that lies before it, which was given to the front, or after it.
    pub(crate) fn outside(&self, end: End) -> f64 {
        match (self.rule, end) {
            (Rule::Balance { outside, .. }, _) => outside[end as usize],
            (Rule::Halves, End::Front) => self.from,
            (Rule::Halves, End::Back) => 1.0 - self.to,
        }
    }

    /// The work in so many units of it.
    fn inside(&self, end: End, units: u32) -> f64 {
        let all = match self.rule {
            Rule::Balance { inside, .. } => inside[end as usize],
            Rule::Halves => self.to - self.from,
        };
        all * f64::from(units) / f64::from(self.units)
    }

    /// A side takes nothing more.
    pub(crate) fn end(&self, end: End) {
        self.side(end).ended.store(true, Ordering::SeqCst);
    }

    /// A side begins with some work, at a time in seconds since the join began.
    pub(crate) fn begin(&self, end: End, work: f64, now: f64) {
        store(&self.side(end).since, now);
        store(&self.side(end).taken, work);
    }

    /// It has done what it began with.
    pub(crate) fn done(&self, end: End, now: f64) {
        let side = self.side(end);
        let taken = load(&side.taken);
        store(&side.taken, 0.0);
        store(&side.done, BEFORE * load(&side.done) + taken);
        let seconds = now - load(&side.since);
        store(&side.busy, BEFORE * load(&side.busy) + seconds);
    }

    /// Takes some of the work at one end. A side that gets nothing has ended.
    pub(crate) fn take(&self, end: End, now: f64) -> Option<Taken<'a>> {
        let mut taken = self.take_units(end, |left| self.amount(end, left, now));
        if taken.is_none() {
            self.side(end).ended.store(true, Ordering::SeqCst);
            // Where each side thought the other would do it.
            if self.side(end.other()).ended.load(Ordering::SeqCst) {
                taken = self.take_units(end, |left| left);
            }
        }
        let taken = taken?;
        // The ends are those that others know, to the bit.
        let point = |unit: u32| match unit {
            0 => self.from,
            unit if unit == self.units => self.to,
            unit => self.from + (self.to - self.from) * f64::from(unit) / f64::from(self.units),
        };
        let (from, to) = (point(taken.start), point(taken.end));
        let middle = f64::midpoint(from, to);
        let there = |chosen: &&Chosen| chosen.from <= middle && middle <= chosen.to;
        let technique = self.techniques[end as usize].iter().find(there);
        let start = match self.rule {
            Rule::Balance { starts, .. } => starts[end as usize],
            Rule::Halves => 0.0,
        };
        Some(Taken {
            tiles: self.line.between(from, to),
            work: start + self.inside(end, taken.len() as u32),
            technique: technique.map(|chosen| chosen.technique),
        })
    }

    fn take_units(&self, end: End, amount: impl Fn(u32) -> u32) -> Option<Range<u32>> {
        let mut before = self.left.load(Ordering::SeqCst);
        loop {
            let left = unpack(before);
            let count = amount(left.len() as u32).min(left.len() as u32);
            if count == 0 {
                return None;
            }
            let (taken, rest) = match end {
                End::Front => (left.start..left.start + count, left.start + count..left.end),
                End::Back => (left.end - count..left.end, left.start..left.end - count),
            };
            let order = Ordering::SeqCst;
            match self.left.compare_exchange_weak(before, pack(&rest), order, order) {
                Ok(_) => return Some(taken),
                Err(now) => before = now,
            }
        }
    }

    /// How many of the units that are left to take.
    fn amount(&self, end: End, left: u32, now: f64) -> u32 {
        if left == 0 {
            return 0;
        }
        let (own, other) = (self.side(end), self.side(end.other()));
        if other.ended.load(Ordering::SeqCst) {
            return left;
        }
        let measured = |side: &Side| {
            let (done, busy) = (load(&side.done), load(&side.busy));
            (done > 0.0 && busy > 0.0).then(|| done / busy)
        };
        let starts = match self.rule {
            Rule::Halves => {
                let share = match (measured(own), measured(other)) {
                    (Some(own), Some(other)) => own / (own + other),
                    _ => 0.25,
                };
                return ((f64::from(left) * share / 2.0) as u32).clamp(1, left);
            }
            Rule::Balance { starts, .. } => starts,
        };
        // Seconds of work that are done in a second; one, unless something else was seen.
        let own_speed = measured(own).unwrap_or(1.0);
        let mut other_speed = measured(other).unwrap_or(1.0);
        // The other side may be slower than expected, and not have ended anything yet.
        let (taken, since) = (load(&other.taken), load(&other.since));
        let elapsed = (now - since).max(1e-9);
        let mut wait = 0.0;
        if taken > 0.0 {
            if elapsed > taken / other_speed {
                // As far as can be told, it is almost there.
                other_speed = taken / (1.25 * elapsed);
            }
            wait = (taken / other_speed - elapsed).max(0.0);
        }
        // own start + x * own unit = wait + other start + (all - x) * other unit
        let all = f64::from(left);
        let own_unit = self.inside(end, 1) / own_speed;
        let other_unit = self.inside(end.other(), 1) / other_speed;
        let own_start = starts[end as usize] / own_speed;
        let other_start = starts[end.other() as usize] / other_speed;
        let together = wait + other_start - own_start + all * other_unit;
        let mut amount = together / (own_unit + other_unit);
        if amount < LITTLE * all {
            return 0;
        }
        let half = amount.min(all) / 2.0;
        let least_start = LEAST_START * (now + 2.0 * half * own_unit);
        if half * own_unit > WORTH_STARTS * own_start.max(least_start) {
            // Either side may be faster than expected: what this one takes too much of would make it the last to
            // end. It comes back when half is done, unless that is soon.
            amount = half;
        }
        // A little that is left over is not worth another start.
        let others = (all - amount).max(0.0) * other_unit;
        let little = amount > 0.85 * all && others < WORTH_STARTS * other_start.max(least_start);
        if little || amount > (1.0 - LITTLE) * all { left } else { (amount as u32).max(1) }
    }
}

fn pack(range: &Range<u32>) -> u64 {
    u64::from(range.end) << 32 | u64::from(range.start)
}

fn unpack(both: u64) -> Range<u32> {
    both as u32..(both >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use simjoin_core::{Bounds, Measure, Predicate, RawSets, SetCollection, prepare};
    use std::sync::Mutex;

    fn sets() -> (SetCollection, Option<SetCollection>) {
        let rows = |count: u32| {
            let mut raw = RawSets::default();
            for row in 0..count {
                raw.push(&(row..row + 3 + row % 40).collect::<Vec<_>>());
            }
            raw
        };
        prepare(rows(900), Some(rows(300)), 1000).unwrap()
    }

    #[test]
    fn two_sides_take_everything_once() {
        let (left, right) = sets();
        let bounds = Bounds::new(Predicate::parse(Measure::Jaccard, "0.3").unwrap());
        let parts = SetTask::parts(&left, right.as_ref(), true, bounds);
        let line = Line::new(&parts);
        let balance = |cpu, device| Rule::Balance {
            outside: [0.0; 2],
            inside: [cpu, device],
            starts: [0.0, 1e-4],
        };
        for rule in [Rule::Halves, balance(1.0, 1.0), balance(1e-3, 1e3), balance(1e3, 1e-3)] {
            // As the threads come, by virtual time, and in the end of it with one side far slower than expected.
            let simulated = |speeds| (1000, Clock::simulated(2), speeds);
            for (units, clock, speeds) in [
                (64, Clock::real(), [1.0; 2]),
                (1, Clock::real(), [1.0; 2]),
                simulated([1.0; 2]),
                simulated([0.03, 1.0]),
                simulated([1.0, 0.03]),
            ] {
                let queue = Queue::new(line.clone(), 0.0, 1.0, units, rule);
                let taken = Mutex::new(Vec::new());
                std::thread::scope(|scope| {
                    for (end, speed) in [End::Front, End::Back].into_iter().zip(speeds) {
                        let (queue, taken, clock) = (&queue, &taken, &clock);
                        scope.spawn(move || {
                            let _ending = clock.ending(end as usize);
                            let mut now = clock.turn(end as usize);
                            while let Some(Taken { tiles, work, .. }) = queue.take(end, now) {
                                queue.begin(end, work, now);
                                clock.busy(end as usize, work / speed);
                                taken.lock().unwrap().extend(tiles);
                                now = clock.turn(end as usize);
                                queue.done(end, now);
                            }
                        });
                    }
                });
                let taken = taken.into_inner().unwrap();
                let pairs = |join: &SetTask<'_>, tile: &Tile| -> u64 {
                    crate::sets::reaches(join, tile).iter().map(|reach| reach.pairs).sum()
                };
                for (join, part) in &parts {
                    let of = || taken.iter().filter(|(_, of, _)| of == part);
                    let met: u64 = of().map(|(join, _, tile)| pairs(join, tile)).sum();
                    assert_eq!(met, pairs(join, &Tile::whole(join)), "{rule:?} {units}");
                    let mut probes: Vec<_> = of().map(|(_, _, tile)| tile.probes.clone()).collect();
                    probes.sort_unstable_by_key(|probes| probes.start);
                    assert!(probes.windows(2).all(|two| two[0].end <= two[1].start), "{probes:?}");
                }
            }
        }
    }

    #[test]
    fn what_is_taken_is_done_by_what_does_it_best_where_it_lies() {
        let (left, _) = sets();
        let bounds = Bounds::new(Predicate::parse(Measure::Jaccard, "0.3").unwrap());
        let line = Line::new(&SetTask::parts(&left, None, false, bounds));
        let rule = Rule::Balance { outside: [0.0; 2], inside: [0.2; 2], starts: [0.0; 2] };
        let chosen = |from, to, technique| Chosen { from, to, technique, seconds: 0.1 };
        let queue = || Queue::new(line.clone(), 0.2, 0.8, 1000, rule);
        let technique =
            |queue: &Queue<'_>, end| queue.take(end, 0.0).and_then(|taken| taken.technique);
        assert_eq!(technique(&queue(), End::Front), None);
        // Each takes a quarter at first.
        let cpu = vec![chosen(0.2, 0.4, 5), chosen(0.4, 0.8, 3)];
        let queue = queue().by([cpu, vec![chosen(0.2, 0.8, 1)]]);
        assert_eq!(technique(&queue, End::Back), Some(1));
        assert_eq!(technique(&queue, End::Front), Some(5));
        queue.end(End::Back);
        assert_eq!(technique(&queue, End::Front), Some(3));
    }

    #[test]
    fn what_is_left_is_divided_so_that_both_end_together() {
        let (left, _) = sets();
        let bounds = Bounds::new(Predicate::parse(Measure::Jaccard, "0.3").unwrap());
        let line = Line::new(&SetTask::parts(&left, None, false, bounds));
        let queue = |inside, start| {
            let rule = Rule::Balance { outside: [0.8; 2], inside, starts: start };
            Queue::new(line.clone(), 0.4, 0.6, 1000, rule)
        };
        let amount = |inside, start, cpu_at: f64| {
            let queue = queue(inside, start);
            if cpu_at > 0.0 {
                queue.begin(End::Front, cpu_at, 0.0);
            }
            queue.amount(End::Back, 1000, 0.0)
        };
        // As fast as each other, and both free: half. Three times as fast: three quarters. Half of that is taken at
        // once.
        assert!((240..=260).contains(&amount([0.2, 0.2], [0.0; 2], 0.0)));
        assert!((365..=385).contains(&amount([0.6, 0.2], [0.0; 2], 0.0)));
        // The other one is busy for as long as this one would take for everything, or a start costs more.
        assert_eq!(amount([0.2, 0.2], [0.0; 2], 0.3), 500);
        assert_eq!(amount([0.2, 0.2], [0.0, 1.0], 0.0), 0);
        // A slow one whose due is little comes back too, unless that is next to nothing.
        assert_eq!(queue([2.3, 0.2], [0.0; 2]).amount(End::Front, 1000, 0.0), 40);
        assert_eq!(queue([4.8, 0.2], [0.0; 2]).amount(End::Front, 1000, 0.0), 0);
        // Coming back would cost a good part of what is taken: all of its due at once.
        assert!((240..=260).contains(&amount([0.2, 0.2], [0.0, 0.01], 0.01)));
        assert!((415..=430).contains(&amount([0.2, 0.2], [0.0, 0.04], 0.01)));
        // So it is when both have shown what they can do, here what was expected.
        let seen = queue([0.2, 0.2], [0.0; 2]);
        for side in &seen.sides {
            store(&side.done, 1.0);
            store(&side.busy, 1.0);
        }
        assert!((240..=260).contains(&seen.amount(End::Back, 1000, 0.0)));
        // Towards the end, when the join has gone on for so long that little is left beside, all of it.
        let late = queue([0.002, 0.002], [0.0; 2]);
        assert!((480..=520).contains(&late.amount(End::Back, 1000, 0.02)));
        late.begin(End::Front, 0.003, 0.02);
        assert_eq!(late.amount(End::Back, 1000, 0.02), 1000);
        // What took three times as long as expected is expected to do so again.
        let slow = queue([0.2, 0.2], [0.0; 2]);
        slow.begin(End::Back, 0.01, 0.0);
        slow.done(End::Back, 0.03);
        assert!((115..=135).contains(&slow.amount(End::Back, 1000, 0.03)));
        // Nobody else is there.
        let queue = queue([0.2, 0.2], [0.0, 1.0]);
        assert!(queue.take(End::Back, 0.0).is_none());
        assert!(queue.take(End::Front, 0.0).is_some_and(|taken| taken.work == 0.2));
    }
}
