//! Who takes the next tile?
//!
//! The queue of HySet: the probes of a join lie in it as many small tiles, in rising order of size. The
//! CPU takes from the front, devices from the back, where the sets are large, until they meet. A take is
//! no more than half of what is left in proportion to how fast the taker has been, so takes become
//! smaller towards the end and neither side waits long for the other. Two numbers in one atomic word say
//! what is left; nobody locks.

use simjoin_plan::{Join, Part, Tile, sides, split_at};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// Tiles of each part of a join, of about equally many pairs.
const TILES: usize = 64;

/// A range of probes that either side may do.
pub(crate) struct Queued<'a> {
    pub(crate) join: Join<'a>,
    pub(crate) part: Part,
    pub(crate) tile: Tile,
}

/// From which end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Front,
    Back,
}

/// The tiles of a join that nobody has taken yet.
pub(crate) struct Queue<'a> {
    tiles: Vec<Queued<'a>>,
    /// The first tile that is left, and above it the end of those that are.
    left: AtomicU64,
    /// Tiles that each end has done a second, as the bits of a number; 0 while unknown.
    rates: [AtomicU64; 2],
}

impl<'a> Queue<'a> {
    pub(crate) fn new(parts: &[(Join<'a>, Part)]) -> Self {
        let mut tiles = Vec::new();
        for &(join, part) in parts {
            let mut start = 0;
            for tile in 1..=TILES {
                let end = split_at(&join, tile as f64 / TILES as f64);
                if end > start {
                    let [_, from] = sides(&join, start);
                    let tile = Tile { probes: start..end, ..from };
                    tiles.push(Queued { join, part, tile });
                    start = end;
                }
            }
        }
        let left = AtomicU64::new(pack(&(0..tiles.len())));
        Queue { tiles, left, rates: [AtomicU64::new(0), AtomicU64::new(0)] }
    }

    /// Takes some of the tiles at one end, neighbours of one part, and makes one of them.
    pub(crate) fn take(&self, end: End) -> Option<(Queued<'a>, usize)> {
        let [own, other] = self.rates_of(end);
        let share = if own > 0.0 && other > 0.0 { own / (own + other) } else { 0.25 };
        let taken = self.left.fetch_update(Ordering::AcqRel, Ordering::Acquire, |left| {
            let left = unpack(left);
            if left.is_empty() {
                return None;
            }
            let count = ((left.len() as f64 * share / 2.0) as usize).clamp(1, left.len());
            let taken = self.neighbours(&left, end, count);
            Some(pack(&match end {
                End::Front => taken.end..left.end,
                End::Back => left.start..taken.start,
            }))
        });
        let left = unpack(taken.ok()?);
        let after = unpack(self.left.load(Ordering::Acquire));
        // Only this side moves this end.
        let taken = match end {
            End::Front => left.start..after.start,
            End::Back => after.end..left.end,
        };
        let tiles = &self.tiles[taken.clone()];
        let first = &tiles[0];
        let probes = first.tile.probes.start..tiles[tiles.len() - 1].tile.probes.end;
        let tile = Tile { probes, ..first.tile.clone() };
        Some((Queued { join: first.join, part: first.part, tile }, taken.len()))
    }

    /// At most so many tiles at one end, of one part.
    fn neighbours(&self, left: &Range<usize>, end: End, count: usize) -> Range<usize> {
        let alike = |a: usize, b: usize| self.tiles[a].part == self.tiles[b].part;
        match end {
            End::Front => {
                let more = (left.start..left.start + count).take_while(|&at| alike(at, left.start));
                left.start..left.start + more.count()
            }
            End::Back => {
                let last = left.end - 1;
                let more = (left.end - count..left.end).rev().take_while(|&at| alike(at, last));
                left.end - more.count()..left.end
            }
        }
    }

    /// How many tiles a side has done in how many seconds.
    pub(crate) fn done(&self, end: End, tiles: usize, seconds: f64) {
        let rate = tiles as f64 / seconds.max(1e-9);
        self.rates[end as usize].store(rate.to_bits(), Ordering::Relaxed);
    }

    /// Those of this side and of the other.
    fn rates_of(&self, end: End) -> [f64; 2] {
        let rate = |at: usize| f64::from_bits(self.rates[at].load(Ordering::Relaxed));
        let at = end as usize;
        [rate(at), rate(1 - at)]
    }
}

fn pack(range: &Range<usize>) -> u64 {
    (range.end as u64) << 32 | range.start as u64
}

fn unpack(both: u64) -> Range<usize> {
    (both & 0xffff_ffff) as usize..(both >> 32) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use simjoin_core::{Bounds, Measure, Predicate, RawSets, prepare};
    use std::sync::Mutex;

    #[test]
    fn two_sides_take_every_probe_once() {
        let rows = |count: u32| {
            let mut raw = RawSets::default();
            for row in 0..count {
                raw.push(&(row..row + 3 + row % 40).collect::<Vec<_>>());
            }
            raw
        };
        let (left, right) = prepare(rows(900), Some(rows(300)), 1000).unwrap();
        let bounds = Bounds::new(Predicate::parse(Measure::Jaccard, "0.3").unwrap());
        let parts = Join::parts(&left, right.as_ref(), true, bounds);
        for rates in [[1.0, 1.0], [1.0, 50.0], [20.0, 0.5]] {
            let queue = Queue::new(&parts);
            let taken = Mutex::new(Vec::new());
            std::thread::scope(|scope| {
                for (end, rate) in [End::Front, End::Back].into_iter().zip(rates) {
                    let (queue, taken) = (&queue, &taken);
                    scope.spawn(move || {
                        while let Some((queued, tiles)) = queue.take(end) {
                            queue.done(end, tiles, tiles as f64 / rate);
                            taken.lock().unwrap().push((queued.part, queued.tile));
                            std::thread::yield_now();
                        }
                    });
                }
            });
            let taken = taken.into_inner().unwrap();
            for (join, part) in &parts {
                let of = taken.iter().filter(|(of, _)| of == part);
                let mut probes: Vec<_> = of.map(|(_, tile)| tile.probes.clone()).collect();
                probes.sort_by_key(|range| range.start);
                let mut next = 0;
                for range in probes {
                    assert_eq!(range.start, next);
                    next = range.end;
                }
                assert_eq!(next as usize, join.probe.len());
            }
        }
    }
}
