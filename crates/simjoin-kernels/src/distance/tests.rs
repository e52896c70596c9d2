//! Do all tiers agree with plain loops?

use super::*;
use proptest::prelude::*;

/// Returns the sum of the terms in the predicate's order.
fn in_order(terms: impl Iterator<Item = f64>) -> f64 {
    let mut sums = [0.0; 16];
    for (i, term) in terms.enumerate() {
        sums[i % 16] += term;
    }
    for half in [8, 4, 2, 1] {
        for j in 0..half {
            sums[j] += sums[j + half];
        }
    }
    sums[0]
}

fn squares<T: Element>(a: &[T], b: &[T]) -> f64 {
    in_order(a.iter().zip(b).map(|(&x, &y)| {
        let d: f64 = x.into() - y.into();
        d * d
    }))
}

fn check_exact<T: Element>(a: &[T], b: &[T]) {
    let square = squares(a, b);
    let product = in_order(a.iter().zip(b).map(|(&x, &y)| x.into() * y.into()));
    for tier in Tier::available() {
        let exact = Exact::of(tier);
        assert_eq!(exact.tier(), tier);
        let bits = |limit| T::squared(&exact, a, b, limit).map(f64::to_bits);
        assert_eq!(bits(f64::MAX), (square <= f64::MAX).then_some(square.to_bits()), "{tier}");
        assert_eq!(bits(square), Some(square.to_bits()), "{tier}");
        if square > 0.0 && square.is_finite() {
            assert_eq!(bits(square.next_down()), None, "{tier}");
        }
        assert_eq!(T::product(&exact, a, b).to_bits(), product.to_bits(), "{tier}");
    }
}

fn row(lengths: std::ops::Range<usize>) -> impl Strategy<Value = (Vec<f64>, Vec<f64>)> {
    let number = prop_oneof![
        4 => -10.0..10.0,
        2 => (-3i32..4).prop_map(f64::from),
        1 => Just(0.0),
        1 => -1e30..1e30,
        1 => -1e-30..1e-30,
    ];
    prop::collection::vec((number.clone(), number), lengths)
        .prop_map(|pairs| pairs.into_iter().unzip())
}

/// Returns a panel of 16 points with `m` coordinates each.
fn panel(m: usize, values: &[f32], shift: usize) -> Vec<f32> {
    (0..m * LANES).map(|at| values[(at + shift) % values.len()]).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn every_tier_computes_the_predicate_to_the_last_bit((a, b) in row(0..300)) {
        check_exact(&a, &b);
        let narrow = |row: &[f64]| row.iter().map(|&x| x as f32).collect::<Vec<_>>();
        check_exact(&narrow(&a), &narrow(&b));
    }

    #[test]
    fn differences_stay_within_their_error_bound(
        values in prop::collection::vec(prop_oneof![-4f32..4.0, (-2i8..3).prop_map(f32::from)], 1..500),
        (m, shift) in (1usize..70, 0usize..1000),
        chosen in prop::collection::btree_set(0u32..16, 0..17),
        strided in any::<bool>(),
    ) {
        let (probes, points) = (panel(m, &values, 0), panel(m, &values, shift));
        let chosen: Vec<u32> = chosen.into_iter().collect();
        let true_square = |probe: usize, point: usize| -> f64 {
            (0..m).map(|i| {
                let d = f64::from(probes[LANES * i + probe]) - f64::from(points[LANES * i + point]);
                d * d
            }).sum()
        };
        // The limit is the distance of one of the pairs.
        let limit = true_square(shift % 16, shift / 16 % 16) as f32;
        let error = relative_error(m);
        // The same points with another stride.
        let stride = if strided { 21 } else { LANES };
        let mut apart = vec![f32::NAN; m * stride];
        for i in 0..m {
            apart[i * stride..][..LANES].copy_from_slice(&points[LANES * i..][..LANES]);
        }
        for tier in Tier::available() {
            let screen = Screen::of(tier);
            let mut hits = Hits::default();
            let found =
                screen.direct(&probes, LANES, &chosen, &apart, stride, m, limit, &mut hits);
            let mut bits = 0;
            for (at, &probe) in chosen.iter().enumerate() {
                bits += hits.masks[at].count_ones();
                for point in 0..LANES {
                    let square = true_square(probe as usize, point);
                    let hit = hits.masks[at] >> point & 1 == 1;
                    if square > f64::from(limit) * (1.0 + error) { prop_assert!(!hit, "{tier}"); }
                    if square * (1.0 + error) < f64::from(limit) { prop_assert!(hit, "{tier}"); }
                    if hit {
                        let wrong = (f64::from(hits.squares[at][point]) - square).abs();
                        prop_assert!(wrong <= error * square, "{tier}");
                    }
                }
            }
            prop_assert_eq!(found, bits);
        }
    }

    #[test]
    fn rest_of_a_row_adds_its_squares(
        values in prop::collection::vec(-4f32..4.0, 1..100),
        (blocks, shift) in (0usize..12, 0usize..50),
        before in 0f32..10.0,
        part in 0f32..1.5,
    ) {
        let m = blocks * LANES;
        let (a, b) = (panel(blocks, &values, 0), panel(blocks, &values, shift));
        let square = f64::from(before) + squares(&a, &b);
        let limit = square as f32 * part;
        for tier in Tier::available() {
            match Screen::of(tier).rest(&a, &b, before, limit) {
                Some(found) => {
                    prop_assert!((f64::from(found) - square).abs() <= relative_error(m + 1) * square);
                }
                None => prop_assert!(square * (1.0 + relative_error(m + 1)) >= f64::from(limit)),
            }
        }
    }

    #[test]
    fn products_stay_within_their_error_bound(
        values in prop::collection::vec(-4f32..4.0, 1..500),
        (m, shift) in (1usize..70, 0usize..1000),
    ) {
        let (probes, points) = (panel(m, &values, 0), panel(m, &values, shift));
        let coordinate = |panel: &[f32], i: usize, l: usize| f64::from(panel[LANES * i + l]);
        let norm = |panel: &[f32], l: usize| -> f64 {
            (0..m).map(|i| coordinate(panel, i, l).powi(2)).sum()
        };
        let square = |probe: usize, point: usize| -> f64 {
            (0..m).map(|i| (coordinate(&probes, i, probe) - coordinate(&points, i, point)).powi(2)).sum()
        };
        let limit = square(shift % 16, shift / 16 % 16);
        let error = product_error(m);
        // x·y ≥ least(x) + least(y) exactly where |x|²+|y|²−2x·y ≤ limit + error·(|x|²+|y|²).
        let least = |norm: f64| (norm * (0.5 - 0.5 * error) - limit / 4.0) as f32;
        let of = |panel: &[f32]| std::array::from_fn(|l| least(norm(panel, l)));
        for tier in Tier::available() {
            let mut hits = Hits::default();
            let found =
                Screen::of(tier).products(&probes, &points, m, &of(&probes), &of(&points), &mut hits);
            prop_assert_eq!(found, hits.masks.iter().map(|mask| mask.count_ones()).sum::<u32>());
            for probe in 0..LANES {
                for point in 0..LANES {
                    let both = norm(&probes, probe) + norm(&points, point);
                    let hit = hits.masks[probe] >> point & 1 == 1;
                    if square(probe, point) <= limit { prop_assert!(hit, "{tier}"); }
                    if square(probe, point) > limit + 2.0 * error * both { prop_assert!(!hit, "{tier}"); }
                }
            }
        }
    }

    #[test]
    fn boxes_are_no_farther_than_their_points(
        values in prop::collection::vec((-8i8..8).prop_map(f32::from), 1..300),
        (m, shift) in (1usize..20, 0usize..300),
        limit in 0f32..200.0,
    ) {
        let (one, other) = (panel(m, &values, 0), panel(m, &values, shift));
        let lows: Vec<f32> = one.iter().zip(&other).map(|(a, b)| a.min(*b)).collect();
        let highs: Vec<f32> = one.iter().zip(&other).map(|(a, b)| a.max(*b)).collect();
        let low: Vec<f32> = (0..m).map(|i| values[(7 * i) % values.len()]).collect();
        let high: Vec<f32> = (0..m).map(|i| low[i] + values[(5 * i) % values.len()].abs()).collect();
        for tier in Tier::available() {
            let screen = Screen::of(tier);
            let (boxes, within) = (
                screen.boxes(&lows, &highs, &low, &high, limit),
                screen.within(&lows, &highs, (&low, 0, 1), m, limit),
            );
            for l in 0..LANES {
                // All numbers are small integers, so nothing is rounded.
                let gap = |low: f32, high: f32, i: usize| {
                    (lows[LANES * i + l] - high).max(low - highs[LANES * i + l]).max(0.0).powi(2)
                };
                let box_square: f32 = (0..m).map(|i| gap(low[i], high[i], i)).sum();
                let point_square: f32 = (0..m).map(|i| gap(low[i], low[i], i)).sum();
                prop_assert_eq!(boxes >> l & 1 == 1, box_square <= limit, "{}", tier);
                prop_assert_eq!(within >> l & 1 == 1, point_square <= limit, "{}", tier);
            }
        }
    }
}

#[test]
fn long_rows_and_large_numbers_are_exact() {
    let a: Vec<f64> = (0..5000).map(|i| f64::from(i).sin() * 1e160).collect();
    let b: Vec<f64> = (0..5000).map(|i| f64::from(i).cos()).collect();
    check_exact(&a, &b);
    check_exact(&a[..4096], &a[1..4097]);
    check_exact(&b[..4095], &b[5..4100]);
    check_exact::<f64>(&[], &[]);
    check_exact(&[f64::MAX], &[-f64::MAX]);
}

#[test]
fn empty_places_are_near_no_point() {
    let probes = vec![-(FARTHEST as f32); 3 * LANES];
    let points = vec![NOWHERE; 3 * LANES];
    for tier in Tier::available() {
        let mut hits = Hits::default();
        let chosen: Vec<u32> = (0..16).collect();
        let found = Screen::of(tier).direct(&probes, 16, &chosen, &points, 16, 3, 1e30, &mut hits);
        assert_eq!(found, 0);
    }
}
