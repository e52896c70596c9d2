use super::*;
use proptest::prelude::*;

fn check<const W: usize>(words: &[[u64; 8]], weights: &[i32], limit: u64) {
    let planes_owned: [Vec<u64>; W] =
        std::array::from_fn(|w| words.iter().map(|set| set[w]).collect());
    let planes: [&[u64]; W] = std::array::from_fn(|w| planes_owned[w].as_slice());
    let signature = |i: usize| -> [u64; W] { std::array::from_fn(|w| words[i][w]) };
    let distance = |a: &[u64; W], b: &[u64; W]| -> u64 {
        a.iter().zip(b).map(|(a, b)| u64::from((a ^ b).count_ones())).sum()
    };
    let probes: [[u64; W]; PROBES] = std::array::from_fn(|p| signature(p % words.len()));
    let limits: [u64; PROBES] = std::array::from_fn(|p| limit + p as u64);
    let mut wanted: Vec<u32> = Vec::new();
    for set in 0..words.len() {
        for p in 0..PROBES {
            if distance(&signature(set), &probes[p]) <= limits[p] {
                wanted.push((p as u32) << 16 | set as u32);
            }
        }
    }
    wanted.sort_unstable();
    // Lists: every set i is a probe that meets the sets from i / 3 to i.
    let list_limit = (limit as i32) * WEIGHT_UNIT;
    let ranges: Vec<Range<u32>> = (0..words.len() as u32).map(|i| i / 3..i).collect();
    let list_limits: Vec<i32> = (0..words.len() as i32).map(|i| list_limit - i).collect();
    let mut listed: Vec<(u32, u32)> = Vec::new();
    for (probe, range) in ranges.iter().enumerate() {
        for set in range.clone() {
            let distance = distance(&signature(set as usize), &signature(probe)) as i32;
            if distance * WEIGHT_UNIT + weights[set as usize] <= list_limits[probe] {
                listed.push((probe as u32, set));
            }
        }
    }
    let slack = std::iter::repeat_n(u64::MAX, SLACK);
    let padded: [Vec<u64>; W] =
        std::array::from_fn(|w| planes[w].iter().copied().chain(slack.clone()).collect());
    let padded: [&[u64]; W] = std::array::from_fn(|w| padded[w].as_slice());
    let mut padded_weights = weights.to_vec();
    padded_weights.extend([i32::MIN; SLACK]);
    let all = Probes { planes, ranges: &ranges, limits: &list_limits };
    for tier in Tier::available() {
        let kernels = Kernels::<W>::of(tier);
        assert_eq!(kernels.tier(), tier);
        let last = signature(words.len() - 1);
        assert_eq!(kernels.distance(&last, &probes[0]), distance(&last, &probes[0]));
        let mut out = vec![0; PROBES * words.len() + SLACK];
        let found = kernels.scan_run(&planes, &probes, &limits, &mut out);
        let mut run = out[..found].to_vec();
        run.sort_unstable();
        assert_eq!(run, wanted, "{tier}, {W} words");
        // With room for one probe, and with room for all.
        for room in [words.len() + SLACK, words.len() * words.len() + SLACK] {
            let mut survivors = Survivors { places: vec![0; room], ..Survivors::default() };
            let (mut next, mut found) = (0, Vec::new());
            while next < words.len() {
                next = kernels.scan_lists(&padded, &padded_weights, &all, next, &mut survivors);
                survivors.for_each(|probe, places| {
                    found.extend(places.iter().map(|&place| (probe, place)));
                });
            }
            assert_eq!(found, listed, "{tier}, {W} words");
        }
    }
}

fn check_signature<const W: usize>(tokens: &[u32]) {
    let top = 100_000;
    let mut wanted = [0u64; W];
    for &token in tokens {
        let bit = (top - token) as usize % (64 * W);
        wanted[bit / 64] ^= 1 << (bit % 64);
    }
    for tier in Tier::available() {
        assert_eq!(Kernels::<W>::of(tier).signature(tokens, top), wanted, "{tier}, {W} words");
    }
}

proptest! {
    #[test]
    fn every_tier_makes_the_same_signature(
        tokens in prop::collection::vec(0..=100_000u32, 0..60),
    ) {
        check_signature::<1>(&tokens);
        check_signature::<2>(&tokens);
        check_signature::<4>(&tokens);
        check_signature::<8>(&tokens);
        check_signature::<32>(&tokens);
    }

    #[test]
    fn every_tier_finds_the_pairs_of_the_definition(
        sets in prop::collection::vec((any::<[u64; 8]>(), any::<bool>(), -400..400i32), 1..150),
        near in any::<[u64; 8]>(),
        limit in 0..300u64,
    ) {
        // Half of the signatures are close to each other; otherwise none would survive.
        let words: Vec<[u64; 8]> = sets
            .iter()
            .map(|(set, close, _)| {
                if *close { std::array::from_fn(|w| near[w] ^ (set[w] & 0x11)) } else { *set }
            })
            .collect();
        let weights: Vec<i32> = sets.iter().map(|&(_, _, weight)| weight).collect();
        check::<1>(&words, &weights, limit / 8);
        check::<2>(&words, &weights, limit / 4);
        check::<4>(&words, &weights, limit / 2);
        check::<8>(&words, &weights, limit);
    }
}

#[test]
fn all_pairs_or_no_pairs_survive() {
    let words = vec![[0u64; 8]; 23];
    check::<1>(&words, &[0; 23], 0);
    check::<4>(&words, &[i32::MAX / 2; 23], 0);
    let many = vec![[7u64; 8]; 200];
    check::<1>(&many, &[0; 200], 20);
    check::<2>(&many, &[i32::MAX / 2; 200], 0);
    check::<8>(&vec![[u64::MAX; 8]; 16], &[-5; 16], 512);
}
