//! Joins sets of integers by several measures: baskets of articles, which may be of any integer type.

use simjoin::Sets;

pub(crate) fn main() -> simjoin::Result<()> {
    let baskets: Vec<Vec<u32>> =
        vec![vec![1, 2, 3, 4], vec![2, 3, 4, 1, 5], vec![9, 8], vec![8, 9, 10, 11, 12]];
    let baskets = Sets::new(&baskets);
    // A threshold is the number that is written: 0.8 is exactly 4/5, and 4 of 5 articles reach it.
    let alike = simjoin::self_join(&baskets).jaccard(0.8).count()?;
    let three = simjoin::self_join(&baskets).overlap(3).count()?;
    let contained = simjoin::self_join(&baskets).containment(1).count()?;
    println!("{alike} pair is alike, {three} has three common articles, {contained} are contained");
    assert_eq!((alike, three, contained), (1, 1, 2));
    Ok(())
}
