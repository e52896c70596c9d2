//! How far off were the estimates of past runs on this machine?
//!
//! The measured time of each technique divided by its estimate is cached in the user's cache folder
//! (`simjoin/rates`, next to the calibration), for each number of threads and for these devices. It decides
//! how work is divided between CPU and devices, never which pairs are found. Nothing is cached if there is no
//! device, or if `SIMJOIN_LEARN=no` asks for the same plans every time.

use super::Corrections;
use crate::cache::{cache_file, keep};
use crate::host::Host;
use crate::report::StepReport;
use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;

/// The environment variable that turns learning off.
const VARIABLE: &str = "SIMJOIN_LEARN";

/// The name of the file in the cache folder.
const FILE: &str = "rates";

/// The known corrections by number of threads; `None` until they were looked up.
static KNOWN: Mutex<Option<BTreeMap<usize, Corrections>>> = Mutex::new(None);

fn known(host: &dyn Host) -> MutexGuard<'static, Option<BTreeMap<usize, Corrections>>> {
    let mut known = KNOWN.lock();
    if known.is_none() {
        let text = cache_file(FILE).and_then(|file| std::fs::read_to_string(file).ok());
        *known = Some(text.and_then(|text| parse(&header(host), &text)).unwrap_or_default());
    }
    known
}

/// Returns the corrections for joins on a number of threads.
pub(crate) fn corrections(host: &dyn Host, threads: usize) -> Corrections {
    known(host).as_ref().and_then(|all| all.get(&threads).cloned()).unwrap_or_default()
}

/// Records the times of techniques that ran one after the other, or at the same time.
pub(crate) fn learn(host: &dyn Host, threads: usize, shared: bool, steps: &[StepReport]) {
    if std::env::var_os(VARIABLE).is_some_and(|value| value == "no") {
        return;
    }
    let mut known = known(host);
    let all = known.get_or_insert_default();
    let corrections = all.entry(threads).or_default();
    let mut changed = false;
    for &StepReport { technique, estimated, seconds, .. } in steps {
        if let Some(estimated) = estimated {
            changed |= corrections.learn(technique, shared, estimated, seconds);
        }
    }
    if changed && let Some(file) = cache_file(FILE) {
        keep(&file, format(&header(host), all).as_bytes());
    }
}

/// Identifies the devices: corrections learned with other devices are ignored.
fn header(host: &dyn Host) -> String {
    format!("simjoin {} {}", env!("CARGO_PKG_VERSION"), host.device_names().join(", "))
}

fn format(header: &str, all: &BTreeMap<usize, Corrections>) -> String {
    let mut text = format!("{header}\n");
    for (threads, corrections) in all {
        for (technique, scale, ratio, times) in corrections.iter() {
            text += &format!("{threads} {technique} {scale} {ratio:.4} {times}\n");
        }
    }
    text
}

fn parse(header: &str, text: &str) -> Option<BTreeMap<usize, Corrections>> {
    let mut lines = text.lines();
    if lines.next()? != header {
        return None;
    }
    let mut all: BTreeMap<usize, Corrections> = BTreeMap::new();
    for line in lines {
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
        let mut all: BTreeMap<usize, Corrections> = BTreeMap::new();
        for (threads, technique, scale, ratio, times) in
            [(16, "bitmap", -6, 0.5, 1), (16, "bitmap", 0, 1.25, 7), (2, "gpu-prefix", 1, 2.0, 30)]
        {
            let corrections = all.entry(threads).or_default();
            corrections.set(technique, scale, ratio, times);
        }
        assert_eq!(parse("simjoin", &format("simjoin", &all)), Some(all));
        assert_eq!(parse("simjoin", "something else\n"), None);
        assert_eq!(parse("simjoin", "simjoin\n16 bitmap 0 1.0\n"), None);
    }
}
