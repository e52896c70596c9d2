//! Finds all pairs of points within a distance, and all vectors of about the same direction.

use simjoin::Vectors;

pub(crate) fn main() -> simjoin::Result<()> {
    let points = Vectors::from_rows([[0.0f32, 0.0], [0.3, 0.3], [3.0, 4.0], [3.0, 4.2]])?;
    let mut near = simjoin::self_join(&points).within(0.5).collect()?;
    near.sort_by_key(|pair| pair.left);
    for pair in &near {
        println!("{} and {} are {:.2} apart", pair.left, pair.right, pair.distance);
    }
    assert_eq!(near.len(), 2);

    // Elements may also come in one list, with their dimension.
    let arrows = Vectors::new([1.0, 0.0, 5.0, 0.1, 0.0, 1.0], 2)?;
    let same_direction = simjoin::self_join(&arrows).cosine(0.99).count()?;
    println!("{same_direction} pair has a cosine of at least 0.99");
    assert_eq!(same_direction, 1);
    Ok(())
}
