//! How far off have estimates been here?
//!
//! What each technique took beside what was estimated is kept in the user's cache folder
//! (`simjoin/rates` beside the calibration), for each number of threads and for these devices. It decides
//! how work is divided between CPU and devices, never what is found. Where there is no device nothing is
//! kept, nor where `SIMJOIN_LEARN=no` asks for the same plans every time.

use super::calibration::{cache_file, keep};
use crate::host::Host;
use crate::plan::Rates;
use crate::report::StepReport;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The environment variable that can say no.
const VARIABLE: &str = "SIMJOIN_LEARN";

/// What is known, by number of threads; `None` until it was looked up.
static KNOWN: Mutex<Option<BTreeMap<usize, Rates>>> = Mutex::new(None);

fn known(host: &dyn Host) -> MutexGuard<'static, Option<BTreeMap<usize, Rates>>> {
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if known.is_none() {
        let text = cache_file("rates").and_then(|file| std::fs::read_to_string(file).ok());
        *known = Some(text.and_then(|text| parse(&header(host), &text)).unwrap_or_default());
    }
    known
}

/// Those of joins on so many threads.
pub(crate) fn rates(host: &dyn Host, threads: usize) -> Rates {
    known(host)
        .as_ref()
        .and_then(|all| all.get(&threads).cloned())
        .unwrap_or_else(Rates::of_neighbours)
}

/// Remembers what techniques took, one after the other or at once.
pub(crate) fn learn(host: &dyn Host, threads: usize, at_once: bool, steps: &[StepReport]) {
    if std::env::var_os(VARIABLE).is_some_and(|value| value == "no") {
        return;
    }
    let mut known = known(host);
    let all = known.get_or_insert_default();
    let rates = all.entry(threads).or_insert_with(Rates::of_neighbours);
    let (mut friction, mut lost) = (1.0f64, 0.0f64);
    for step in steps.iter().filter(|_| at_once) {
        friction = friction.max(rates.friction(step.technique));
        lost = lost.max(rates.lost_beside(step.technique, step.tokens as usize));
    }
    let mut changed = false;
    for &StepReport { technique, estimated, seconds, on_device, .. } in steps {
        let Some(estimated) = estimated else { continue };
        let seconds = if on_device { seconds } else { (seconds - lost).max(seconds / 2.0) };
        changed |= rates.learn(technique, friction, estimated, seconds);
    }
    if changed {
        keep("rates", &format(&header(host), all));
    }
}

/// What was learned with other devices says nothing of these.
fn header(host: &dyn Host) -> String {
    format!("simjoin {} {}", env!("CARGO_PKG_VERSION"), host.device_names().join(", "))
}

fn format(header: &str, all: &BTreeMap<usize, Rates>) -> String {
    let mut text = format!("{header}\n");
    for (threads, rates) in all {
        for (technique, scale, ratio, times) in rates.iter() {
            text += &format!("{threads} {technique} {scale} {ratio:.4} {times}\n");
        }
    }
    text
}

fn parse(header: &str, text: &str) -> Option<BTreeMap<usize, Rates>> {
    let mut lines = text.lines();
    if lines.next()? != header {
        return None;
    }
    let mut all: BTreeMap<usize, Rates> = BTreeMap::new();
    for line in lines {
        let words: Vec<&str> = line.split(' ').collect();
        let [threads, technique, scale, ratio, times] = words[..] else { return None };
        let rates = all.entry(threads.parse().ok()?).or_insert_with(Rates::of_neighbours);
        rates.set(technique, scale.parse().ok()?, ratio.parse().ok()?, times.parse().ok()?);
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let mut all: BTreeMap<usize, Rates> = BTreeMap::new();
        for (threads, technique, scale, ratio, times) in
            [(16, "bitmap", -6, 0.5, 1), (16, "bitmap", 0, 1.25, 7), (2, "gpu-prefix", 1, 2.0, 30)]
        {
            let rates = all.entry(threads).or_insert_with(Rates::of_neighbours);
            rates.set(technique, scale, ratio, times);
        }
        assert_eq!(parse("simjoin", &format("simjoin", &all)), Some(all));
        assert_eq!(parse("simjoin", "something else\n"), None);
        assert_eq!(parse("simjoin", "simjoin\n16 bitmap 0 1.0\n"), None);
    }
}
