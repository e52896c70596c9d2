//! What do steps cost on this machine?
//!
//! The machine is measured once, for a few milliseconds, when a join is first planned that is worth
//! it; the result is kept in the user's cache folder (`simjoin/calibration` under
//! `$XDG_CACHE_HOME` or `~/.cache`). Until then, and where there is no such folder, the built-in cost
//! table is used. A busy machine looks slow but never fast, so a measurement that is more than a day
//! old is repeated and the faster one is kept. The cost table decides how a join is done, never what it
//! finds.

use crate::costs::{CostTable, Ratios};
use crate::host::Host;
use parking_lot::RwLock;
use simjoin_kernels::tier::Tier;
use std::path::PathBuf;
use std::time::Duration;

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
    keep("calibration", &format(ratios));
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

/// A file in the user's cache folder.
pub(crate) fn cache_file(name: &str) -> Option<PathBuf> {
    let folder = |name: &str| std::env::var_os(name).filter(|path| !path.is_empty());
    let cache = folder("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| folder("HOME").map(|home| PathBuf::from(home).join(".cache")))?;
    Some(cache.join("simjoin").join(name))
}

fn load() -> Option<Known> {
    let file = cache_file("calibration")?;
    let ratios = parse(&std::fs::read_to_string(&file).ok()?)?;
    let written = std::fs::metadata(&file).and_then(|data| data.modified()).ok();
    let age = written.and_then(|written| written.elapsed().ok());
    Some(Known::Measured { ratios, lately: age.is_none_or(|age| age < DAY) })
}

/// Writes a text to the cache folder. A failure is ignored: the text is then computed again next time.
pub(crate) fn keep(name: &str, text: &str) {
    let Some(file) = cache_file(name) else { return };
    let Some(folder) = file.parent() else { return };
    let part = folder.join(format!("{name}.{}", std::process::id()));
    let kept = std::fs::create_dir_all(folder)
        .and_then(|()| std::fs::write(&part, text))
        .and_then(|()| std::fs::rename(&part, &file));
    if kept.is_err() {
        let _ = std::fs::remove_file(&part);
    }
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
