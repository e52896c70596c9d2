//! How far off were the estimates of past runs on this machine?
//!
//! The measured time of each technique divided by its estimate is cached in the user's cache folder
//! (`simjoin/rates`, next to the calibration), for each number of threads and for these devices. It decides
//! how work is divided between CPU and devices, never which pairs are found. Nothing is cached if there is no
//! device, or if `SIMJOIN_LEARN=no` asks for the same plans every time.

use super::Corrections;
use crate::cache::{recall, remember};
use crate::host::Host;
use crate::report::StepReport;
use parking_lot::{MappedMutexGuard, Mutex, MutexGuard};
use std::collections::BTreeMap;

/// The environment variable that turns learning off.
const VARIABLE: &str = "SIMJOIN_LEARN";

/// The name of the file in the cache folder.
const FILE: &str = "rates";

/// The corrections of this machine, by number of threads.
type Known = BTreeMap<usize, Corrections>;

/// `None` until they were looked up.
static KNOWN: Mutex<Option<Known>> = Mutex::new(None);

fn known(host: &dyn Host) -> MappedMutexGuard<'static, Known> {
    let load = || recall(FILE, &header(host)).and_then(|text| parse(&text)).unwrap_or_default();
    MutexGuard::map(KNOWN.lock(), |known| known.get_or_insert_with(load))
}

/// Returns the corrections for joins on a number of threads.
pub(crate) fn corrections(host: &dyn Host, threads: usize) -> Corrections {
    known(host).get(&threads).cloned().unwrap_or_default()
}

/// Records the times of techniques that ran one after the other, or at the same time.
pub(crate) fn learn(host: &dyn Host, threads: usize, shared: bool, steps: &[StepReport]) {
    if std::env::var_os(VARIABLE).is_some_and(|value| value == "no") {
        return;
    }
    let mut all = known(host);
    let corrections = all.entry(threads).or_default();
    let mut changed = false;
    for &StepReport { technique, estimated, seconds, .. } in steps {
        if let Some(estimated) = estimated {
            changed |= corrections.learn(technique, shared, estimated, seconds);
        }
    }
    if changed {
        remember(FILE, &header(host), &format(&all));
    }
}

/// Identifies the devices: corrections learned with other devices are ignored.
fn header(host: &dyn Host) -> String {
    format!("simjoin {} {}", env!("CARGO_PKG_VERSION"), host.device_names().join(", "))
}

fn format(all: &Known) -> String {
    let mut text = String::new();
    for (threads, corrections) in all {
        for (technique, scale, ratio, times) in corrections.iter() {
            text += &format!("{threads} {technique} {scale} {ratio:.4} {times}\n");
        }
    }
    text
}

fn parse(text: &str) -> Option<Known> {
    let mut all = Known::default();
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [threads, technique, scale, ratio, times] = words[..] else { return None };
        let corrections = all.entry(threads.parse().ok()?).or_default();
        corrections.set(technique, scale.parse().ok()?, ratio.parse().ok()?, times.parse().ok()?);
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let mut all = Known::default();
        for (threads, technique, scale, ratio, times) in
            [(16, "bitmap", -6, 0.5, 1), (16, "bitmap", 0, 1.25, 7), (2, "gpu-prefix", 1, 2.0, 30)]
        {
            let corrections = all.entry(threads).or_default();
            corrections.set(technique, scale, ratio, times);
        }
        assert_eq!(parse(&format(&all)), Some(all));
        assert_eq!(parse("something else\n"), None);
        assert_eq!(parse("16 bitmap 0 1.0\n"), None);
    }
}
