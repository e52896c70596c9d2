//! Reads pairs one by one while the join runs, and stops it early: no more than a few batches are ever in memory.

use simjoin::Sets;

pub(crate) fn main() -> simjoin::Result<()> {
    // All of these rows are similar to each other: 200 million pairs.
    let sets = Sets::new((0..20_000u32).map(|row| [1, 2, 3, 4, 5, 6, 7, 8, 9, row]));
    let mut largest = 0;
    for pair in simjoin::self_join(&sets).jaccard(0.8).iter().take(10_000) {
        largest = largest.max(pair?.right);
    }
    // The iterator is gone, and with it the join.
    println!("the largest row among 10,000 pairs is {largest}");
    assert!(largest < 20_000);
    Ok(())
}
