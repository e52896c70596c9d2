//! Which vectors have a direction?

use super::VectorTask;
use rayon::prelude::*;
use simjoin_core::{Elements, Error, Result, VectorCollection, VectorMeasure, VectorPredicate};
use simjoin_kernels::distance::{Element, Exact};

/// Returns `a·a` of each entry, as the predicate computes it, or an error about the first row without a direction.
pub fn squared_lengths(vectors: &VectorCollection) -> Result<Vec<f64>> {
    let (d, exact) = (vectors.dimension(), &Exact::best());
    fn of<T: Element>(all: &[T], d: usize, exact: &Exact) -> Vec<f64> {
        all.par_chunks_exact(d).map(|row| T::product(exact, row, row)).collect()
    }
    let squares = match vectors.elements() {
        Elements::F32(all) => of(all, d, exact),
        Elements::F64(all) => of(all, d, exact),
    };
    match squares.iter().position(|&square| !VectorPredicate::has_direction(square)) {
        None => Ok(squares),
        Some(row) => Err(no_direction(vectors, row, squares[row])),
    }
}

/// Returns the error about an entry that has no direction, given its product with itself.
pub fn no_direction(vectors: &VectorCollection, entry: usize, square: f64) -> Error {
    let what = match square {
        0.0 => "the vector is zero and has no direction".to_owned(),
        _ => format!(
            "the vector's length, the root of {square:e}, is beyond what a cosine can be told of"
        ),
    };
    let place = format!("row {} (counting from 0)", vectors.rows(&(entry as u32))[0]);
    let message = format!("{what}; a cosine expects vectors that are not");
    Error::input(vectors.name(), place, message)
}

/// Checks that every row has a direction, if the measure is the cosine.
pub fn check_directions(task: &VectorTask<'_>) -> Result<()> {
    if task.predicate.measure() == VectorMeasure::Cosine {
        task.sides().try_for_each(|side| squared_lengths(side).map(drop))?;
    }
    Ok(())
}
