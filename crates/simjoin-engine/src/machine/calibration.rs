//! What do steps cost on this machine?
//!
//! The machine is measured once, for a few milliseconds, when a join is first planned that is worth
//! it; the result is kept in the user's cache folder (`cache.rs`). Until then, and where there is no such folder, the
//! built-in cost table is used. A busy machine looks slow but never fast, so a measurement that is more than a day old
//! is repeated and the faster one is kept. The cost table decides how a join is done, never what it finds.

use crate::cache::{cache_file, recall, remember};
use crate::costs::{CostTable, Ratios};
use crate::host::Host;
use parking_lot::RwLock;
use simjoin_kernels::tier::Tier;
use std::sync::LazyLock;
use std::time::Duration;

/// The name of the file in the cache folder.
const FILE: &str = "calibration";

/// The age after which a measurement is repeated.
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The measured ratios, and whether they are recent; `None` until the machine is measured.
static MEASURED: LazyLock<RwLock<Option<(Ratios, bool)>>> = LazyLock::new(|| RwLock::new(load()));

/// Returns the cost table of this machine, or the built-in one, and whether it was measured recently.
pub(crate) fn costs() -> (CostTable, bool) {
    match *MEASURED.read() {
        Some((ratios, recent)) => (CostTable::default().scaled(ratios), recent),
        None => (CostTable::default(), false),
    }
}

/// Measures this machine, caches the result, and returns the cost table.
pub(crate) fn calibrated(host: &dyn Host) -> CostTable {
    let measured = host.calibrate();
    let mut known = MEASURED.write();
    let ratios = known.map_or(measured, |(before, _)| faster(measured, before));
    *known = Some((ratios, true));
    remember(FILE, &header(), &format(ratios));
    CostTable::default().scaled(ratios)
}

fn faster(a: Ratios, b: Ratios) -> Ratios {
    Ratios {
        vector: a.vector.min(b.vector),
        lists: a.lists.min(b.lists),
        scalar: a.scalar.min(b.scalar),
        memory: a.memory.min(b.memory),
    }
}

fn load() -> Option<(Ratios, bool)> {
    let ratios = parse(&recall(FILE, &header())?)?;
    let written = std::fs::metadata(cache_file(FILE)?).and_then(|data| data.modified()).ok();
    let age = written.and_then(|written| written.elapsed().ok());
    Some((ratios, age.is_none_or(|age| age < DAY)))
}

/// Identifies the version and the instruction set of a calibration; others are ignored.
fn header() -> String {
    format!("simjoin {} {}", env!("CARGO_PKG_VERSION"), Tier::best())
}

fn format(Ratios { vector, lists, scalar, memory }: Ratios) -> String {
    format!("{vector:.4} {lists:.4} {scalar:.4} {memory:.4}\n")
}

fn parse(text: &str) -> Option<Ratios> {
    let numbers: Option<Vec<f64>> = text.split_whitespace().map(|word| word.parse().ok()).collect();
    let [vector, lists, scalar, memory] = numbers?[..] else { return None };
    let plausible = |ratio| (0.01..=1000.0).contains(&ratio);
    let all = [vector, lists, scalar, memory].into_iter().all(plausible);
    all.then_some(Ratios { vector, lists, scalar, memory })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let ratios = Ratios { vector: 1.25, lists: 2.5, scalar: 0.5, memory: 3.0 };
        assert_eq!(parse(&format(ratios)), Some(ratios));
    }

    #[test]
    fn of_two_measurements_the_faster_counts() {
        let busy = Ratios { vector: 2.0, lists: 1.0, scalar: 1.9, memory: 1.0 };
        let quiet = Ratios { vector: 1.0, lists: 1.2, scalar: 1.0, memory: 1.1 };
        let both = Ratios { vector: 1.0, lists: 1.0, scalar: 1.0, memory: 1.0 };
        assert_eq!(faster(busy, quiet), both);
        assert_eq!(faster(quiet, busy), both);
    }

    #[test]
    fn anything_else_is_not_a_calibration() {
        for bad in ["", "1 1 1", "1 1 1 1 1", "1 1 x 1", "1 1 1 -1", "NaN 1 1 1", "vector 1 1 1"] {
            assert_eq!(parse(bad), None, "{bad:?}");
        }
    }
}
