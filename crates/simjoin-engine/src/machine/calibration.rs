//! What do steps cost on this machine?
//!
//! The machine is measured once, for a few milliseconds, when a join is first planned that is worth
//! it; the result is kept in the user's cache folder (`cache.rs`). Until then, and where there is no such folder, the
//! built-in cost table is used. A busy machine looks slow but never fast, so a measurement that is more than a day old
//! is repeated and the faster one is kept. The cost table decides how a join is done, never what it finds.

use crate::cache::{cache_file, keep};
use crate::costs::{CostTable, Ratios};
use crate::host::Host;
use parking_lot::RwLock;
use simjoin_kernels::tier::Tier;
use std::time::Duration;

/// The name of the file in the cache folder.
const FILE: &str = "calibration";

/// The age after which a measurement is repeated.
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The state of the calibration: not looked up yet, looked up and not found, or measured.
static RATIOS: RwLock<Known> = RwLock::new(Known::Nothing);

#[derive(Clone, Copy)]
enum Known {
    Nothing,
    Missing,
    Measured { ratios: Ratios, lately: bool },
}

fn known() -> Known {
    let known = *RATIOS.read();
    match known {
        Known::Nothing => remember(load().unwrap_or(Known::Missing)),
        known => known,
    }
}

/// Returns the cost table of this machine, or the built-in one, and whether it was measured recently.
pub(crate) fn costs() -> (CostTable, bool) {
    match known() {
        Known::Measured { ratios, lately } => (CostTable::default().scaled(ratios), lately),
        _ => (CostTable::default(), false),
    }
}

/// Measures this machine, caches the result, and returns the cost table.
pub(crate) fn calibrated(host: &dyn Host) -> CostTable {
    let mut ratios = host.calibrate();
    if let Known::Measured { ratios: before, .. } = known() {
        ratios = better(ratios, before);
    }
    if let Some(file) = cache_file(FILE) {
        keep(&file, format(ratios).as_bytes());
    }
    remember(Known::Measured { ratios, lately: true });
    CostTable::default().scaled(ratios)
}

fn better(a: Ratios, b: Ratios) -> Ratios {
    Ratios {
        vector: a.vector.min(b.vector),
        lists: a.lists.min(b.lists),
        scalar: a.scalar.min(b.scalar),
        memory: a.memory.min(b.memory),
    }
}

fn remember(known: Known) -> Known {
    *RATIOS.write() = known;
    known
}

fn load() -> Option<Known> {
    let file = cache_file(FILE)?;
    let ratios = parse(&std::fs::read_to_string(&file).ok()?)?;
    let written = std::fs::metadata(&file).and_then(|data| data.modified()).ok();
    let age = written.and_then(|written| written.elapsed().ok());
    Some(Known::Measured { ratios, lately: age.is_none_or(|age| age < DAY) })
}

/// Identifies the version and the instruction set of a calibration; others are ignored.
fn header() -> String {
    format!("simjoin {} {}", env!("CARGO_PKG_VERSION"), Tier::best())
}

fn format(ratios: Ratios) -> String {
    let Ratios { vector, lists, scalar, memory } = ratios;
    format!(
        "{}\nvector {vector:.4}\nlists {lists:.4}\nscalar {scalar:.4}\nmemory {memory:.4}\n",
        header()
    )
}

fn parse(text: &str) -> Option<Ratios> {
    let mut lines = text.lines();
    if lines.next()? != header() {
        return None;
    }
    let mut ratio = |name: &str| -> Option<f64> {
        let value: f64 = lines.next()?.strip_prefix(name)?.trim().parse().ok()?;
        (0.01..=1000.0).contains(&value).then_some(value)
    };
    Some(Ratios {
        vector: ratio("vector ")?,
        lists: ratio("lists ")?,
        scalar: ratio("scalar ")?,
        memory: ratio("memory ")?,
    })
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
        assert_eq!(better(busy, quiet), both);
        assert_eq!(better(quiet, busy), both);
    }

    #[test]
    fn anything_else_is_not_a_calibration() {
        let good = format(Ratios { vector: 1.0, lists: 1.0, scalar: 1.0, memory: 1.0 });
        for bad in [
            String::new(),
            good.replace("simjoin", "other"),
            good.replace("scalar 1.0", "scalar x"),
            good.replace("memory 1.0000", "memory -1"),
            good.replace("vector 1.0000", "vector NaN"),
            good.lines().take(3).collect::<Vec<_>>().join("\n"),
        ] {
            assert_eq!(parse(&bad), None, "{bad:?}");
        }
    }
}
