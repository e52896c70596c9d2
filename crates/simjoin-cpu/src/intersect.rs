//! How are two large sets intersected on all cores?
//!
//! # Flow
//!
//! ```text
//! two ascending slices ─► diagonals of the merge path ─► parts of equal length ─► a kernel each ─► sum,
//!                         (found by halving)              (threads take them)      (Method::of)    or take
//! ```
//!
//! Each part chooses its own kernel: if one of the two sets is sparse in a part, its tokens are looked up in
//! the other set there.
//!
//! # Exactness
//!
//! A cut never separates two equal tokens (see [`split()`]), so each common token is in exactly one part,
//! and parts are independent.
//!
//! # Memory
//!
//! Counting needs no memory. Elements need room for the common tokens of a few parts, whatever the size of
//! the sets.

use rayon::prelude::*;
use simjoin_kernels::intersect::{Intersect, Method, split};
use simjoin_kernels::tier::Tier;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU8, Ordering};

/// The smallest number of tokens of both sets for a thread.
const LEAST: usize = 1 << 15;

/// The number of parts for each thread, so that no thread waits long for another.
const PARTS: usize = 8;

/// The tokens of both sets in a part whose elements are written.
const WRITTEN: usize = 1 << 18;

/// The intersection of two ascending slices, on the current rayon pool.
pub struct Intersection {
    kernel: Intersect,
    method: Option<Method>,
    used: AtomicU8,
}

impl Intersection {
    /// Uses one method, or the best one for each part if there is none.
    pub fn new(method: Option<Method>) -> Self {
        Intersection { kernel: Intersect::best(), method, used: AtomicU8::new(0) }
    }

    /// Returns the tier that runs.
    pub fn tier(&self) -> Tier {
        self.kernel.tier()
    }

    /// Returns the methods that have been used so far.
    pub fn used(&self) -> Vec<Method> {
        let used = self.used.load(Ordering::Relaxed);
        Method::ALL.into_iter().filter(|&method| used & 1 << method as u8 != 0).collect()
    }

    /// Returns the number of common tokens.
    pub fn size(&self, a: &[u32], b: &[u32]) -> u64 {
        let tokens = a.len() + b.len();
        let threads = rayon::current_num_threads();
        let parts = if threads == 1 { 1 } else { (tokens / LEAST).clamp(1, PARTS * threads) };
        let size = |part: usize| {
            let (a, b) = between(a, b, tokens / parts * part, end(tokens, parts, part));
            self.kernel.size_by(self.method(a, b), a, b)
        };
        if parts == 1 { size(0) } else { (0..parts).into_par_iter().map(size).sum() }
    }

    /// Calls `take` with the common tokens, in ascending batches, until it returns `Break`. Returns the number
    /// of tokens that it got.
    pub fn elements(
        &self,
        a: &[u32],
        b: &[u32],
        mut take: impl FnMut(&[u32]) -> ControlFlow<()>,
    ) -> u64 {
        let tokens = a.len() + b.len();
        let parts = tokens.div_ceil(WRITTEN).max(1);
        let together = 2 * rayon::current_num_threads();
        let mut rooms: Vec<Vec<u32>> = vec![Vec::new(); together.min(parts)];
        let mut size = 0;
        for first in (0..parts).step_by(together) {
            let rooms = &mut rooms[..together.min(parts - first)];
            rooms.par_iter_mut().zip(first..parts).for_each(|(room, part)| {
                let (a, b) = between(a, b, tokens / parts * part, end(tokens, parts, part));
                room.resize(a.len().min(b.len()), 0);
                let found = self.kernel.elements_by(self.method(a, b), a, b, room);
                room.truncate(found);
            });
            for room in rooms.iter().filter(|room| !room.is_empty()) {
                size += room.len() as u64;
                if take(room).is_break() {
                    return size;
                }
            }
        }
        size
    }

    fn method(&self, a: &[u32], b: &[u32]) -> Method {
        let method = self.method.unwrap_or_else(|| Method::of(self.kernel.tier(), a, b));
        if !a.is_empty() && !b.is_empty() {
            self.used.fetch_or(1 << method as u8, Ordering::Relaxed);
        }
        method
    }
}

/// Returns the end of a part. The last part also gets the remainder of the division.
fn end(tokens: usize, parts: usize, part: usize) -> usize {
    if part + 1 == parts { tokens } else { tokens / parts * (part + 1) }
}

/// Returns the parts of both slices between two diagonals.
fn between<'t>(a: &'t [u32], b: &'t [u32], from: usize, to: usize) -> (&'t [u32], &'t [u32]) {
    let (first, last) = (split(a, b, from), split(a, b, to));
    (&a[first.0..last.0], &b[first.1..last.1])
}

/// Sorts numbers and removes repeated ones, on the current rayon pool. An ascending vector stays as it is.
pub fn ascending(mut numbers: Vec<u32>) -> Vec<u32> {
    if !numbers.par_windows(2).all(|pair| pair[0] < pair[1]) {
        numbers.par_sort_unstable();
        numbers.dedup();
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn check(a: &[u32], b: &[u32]) {
        let in_b: BTreeSet<u32> = b.iter().copied().collect();
        let expected: Vec<u32> = a.iter().copied().filter(|token| in_b.contains(token)).collect();
        let methods = Method::ALL.into_iter().map(Some).chain([None]);
        for (method, threads) in methods.flat_map(|method| [(method, 1), (method, 3)]) {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| {
                for (a, b) in [(a, b), (b, a)] {
                    let intersection = Intersection::new(method);
                    assert_eq!(intersection.size(a, b), expected.len() as u64, "{method:?}");
                    let mut found = Vec::new();
                    let size = intersection.elements(a, b, |tokens| {
                        found.extend_from_slice(tokens);
                        ControlFlow::Continue(())
                    });
                    assert_eq!((size, &found), (expected.len() as u64, &expected), "{method:?}");
                    let used = intersection.used();
                    assert!(method.is_none_or(|method| used.iter().all(|&one| one == method)));
                }
            });
        }
    }

    #[test]
    fn parts_are_intersected_as_a_whole_is() {
        let all: Vec<u32> = (0..300_000).collect();
        let thirds: Vec<u32> = (0..300_000).map(|at| 3 * at).collect();
        let one = [150_000];
        let far: Vec<u32> = (0..400).map(|at| at * 10_000_000).collect();
        let runs: Vec<u32> = (0..500u32).flat_map(|run| 3000 * run..3000 * run + run).collect();
        // One set is sparse at the beginning and dense at the end.
        let mixed: Vec<u32> = (0..100u32).map(|at| at * 2000).chain(200_000..500_000).collect();
        let sets: [&[u32]; 7] = [&[], &one, &all, &thirds, &far, &runs, &mixed];
        for (at, a) in sets.iter().enumerate() {
            for b in &sets[at..] {
                check(a, b);
            }
        }
    }

    #[test]
    fn elements_stop_when_the_receiver_breaks() {
        let all: Vec<u32> = (0..2_000_000).collect();
        let mut batches = 0;
        let size = Intersection::new(None).elements(&all, &all, |_| {
            batches += 1;
            ControlFlow::Break(())
        });
        assert!(batches == 1 && size > 0 && size < 2_000_000);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20))]

        #[test]
        fn any_numbers_become_a_set(numbers in prop::collection::vec(0..5000u32, 0..3000)) {
            let expected: Vec<u32> =
                numbers.iter().copied().collect::<BTreeSet<_>>().into_iter().collect();
            prop_assert_eq!(ascending(numbers), expected);
        }

        /// Each number of a range is present with the same probability.
        #[test]
        fn any_two_sets(seed in any::<u64>(), every in prop::array::uniform2(1u64..2000)) {
            let mut random = simjoin_engine::Random::default();
            let start = seed as u32 >> 1;
            let mut set = |every: u64| -> Vec<u32> {
                (start..start + 150_000).filter(|_| random.below(every) == 0).collect()
            };
            check(&set(every[0].min(3)), &set(every[1]));
        }
    }
}
