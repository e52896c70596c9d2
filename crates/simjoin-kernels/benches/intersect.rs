//! How fast does one core intersect two sorted slices?
//!
//! `cargo bench -p simjoin-kernels --bench intersect` prints milliseconds, and tokens of both slices a
//! second, of each method and tier, for slices of equal length and of different ones, drawn at random from
//! universes of several sizes.

use simjoin_core::Random;
use simjoin_kernels::intersect::{Intersect, Method, Size, merge};
use simjoin_kernels::tier::Tier;
use std::hint::black_box;
use std::time::{Duration, Instant};

fn main() {
    println!(
        "{:>10} {:>10} {:>10} {:>9} {:>8} {:>10} {:>10} {:>7}",
        "universe", "a", "b", "common", "kernel", "ms", "tokens/s", "merge/"
    );
    for (universe, sizes) in [
        (1_000_000_000, [10_000_000, 10_000_000]),
        (100_000_000, [10_000_000, 10_000_000]),
        (20_000_000, [10_000_000, 10_000_000]),
        (20_000_000, [18_000_000, 18_000_000]),
        (1_000_000_000, [1_000_000, 10_000_000]),
        (1_000_000_000, [100_000, 10_000_000]),
        (1_000_000_000, [10_000, 10_000_000]),
        (1_000_000_000, [2_000, 10_000_000]),
    ] {
        let [a, b] = [1u64, 2].map(|seed| sorted(sizes[seed as usize - 1], universe, seed));
        let mut common = Size::default();
        merge(&a, &b, &mut common);
        let tokens = (a.len() + b.len()) as f64;
        let plain = seconds(|| {
            let mut size = Size::default();
            merge(black_box(&a), black_box(&b), &mut size);
            size.0
        });
        let show = |kernel: &str, seconds: f64| {
            println!(
                "{universe:>10} {:>10} {:>10} {:>9} {kernel:>8} {:>10.2} {:>10.2e} {:>6.1}×",
                a.len(),
                b.len(),
                common.0,
                1e3 * seconds,
                tokens / seconds,
                plain / seconds,
            );
        };
        show("merge", plain);
        let mut out = vec![0; a.len().min(b.len())];
        for method in [Method::Gallop, Method::Bitmap] {
            let intersect = Intersect::of(Tier::Scalar);
            assert_eq!(intersect.size_by(method, &a, &b), common.0);
            let seconds = seconds(|| intersect.size_by(method, black_box(&a), black_box(&b)));
            show(method.name(), seconds);
        }
        for tier in Tier::available().into_iter().filter(|&tier| tier != Tier::Scalar) {
            let intersect = Intersect::of(tier);
            let by = Method::Blocks;
            assert_eq!(intersect.size_by(by, &a, &b), common.0);
            show(tier.name(), seconds(|| intersect.size_by(by, black_box(&a), black_box(&b))));
            let elements = seconds(|| {
                intersect.elements_by(by, black_box(&a), black_box(&b), &mut out) as u64
            });
            show("elements", elements);
        }
    }
}

/// Returns about `count` tokens of a universe, ascending, at random distances.
fn sorted(count: u64, universe: u64, seed: u64) -> Vec<u32> {
    let mut random = Random::new(seed);
    let mut random = || random.bits() as f64 / u64::MAX as f64;
    // If every token is present with the same probability, the distances are geometric.
    let absent = (1.0 - count as f64 / universe as f64).ln();
    let mut tokens = Vec::with_capacity(count as usize + count as usize / 8);
    let mut at = -1.0;
    loop {
        at += 1.0 + (random().max(f64::MIN_POSITIVE).ln() / absent).floor();
        if at >= universe as f64 {
            return tokens;
        }
        tokens.push(at as u32);
    }
}

/// Returns the seconds of a run: the mean of the runs that fit a tenth of a second, and the least of three
/// such means. On Linux only the time counts in which this thread had a core (in ticks of some milliseconds).
fn seconds(run: impl FnMut() -> u64) -> f64 {
    let mut run = run;
    let mut shortest = f64::INFINITY;
    for _ in 0..3 {
        let (start, before) = (Instant::now(), on_core());
        let mut runs = 0;
        while start.elapsed() < Duration::from_millis(100) {
            black_box(run());
            runs += 1;
        }
        let elapsed = before.zip(on_core()).map_or(start.elapsed(), |(before, now)| now - before);
        shortest = shortest.min(elapsed.as_secs_f64() / f64::from(runs));
    }
    shortest
}

/// Returns the time in which this thread had a core so far (Linux).
fn on_core() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    Some(Duration::from_nanos(text.split(' ').next()?.parse().ok()?))
}
