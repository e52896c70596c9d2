//! Is every pair of the answer exactly once among the candidates of a filter?

use proptest::prelude::*;
use simjoin_core::{Bounds, Result, SetId, SetPair};
use simjoin_cpu::{Naive, filters};
use simjoin_engine::{Budget, CandidateSink, SetTask, Tile};
use simjoin_testing::{collections, predicate, rows, run};
use std::ops::ControlFlow;

/// Verifies by looking every token up.
struct Check<'a> {
    task: SetTask<'a>,
    pairs: Vec<SetPair>,
}

impl CandidateSink for Check<'_> {
    fn wants_value(&self) -> bool {
        true
    }

    fn stopped(&self) -> bool {
        false
    }

    fn candidates(&mut self, probe: SetId, builds: &[SetId]) -> Result<ControlFlow<()>> {
        let SetTask { probe: probes, build, predicate: bounds, .. } = self.task;
        let r = probes.set(probe);
        for &candidate in builds {
            let s = build.set(candidate);
            let overlap = r.iter().filter(|token| s.contains(token)).count() as u32;
            if bounds.accepts(r.len() as u32, s.len() as u32, overlap) {
                self.pairs.push(SetPair { probe, build: candidate, overlap });
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn answers(&mut self, pairs: &[SetPair]) -> Result<ControlFlow<()>> {
        self.pairs.extend_from_slice(pairs);
        Ok(ControlFlow::Continue(()))
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn candidates_of_every_filter_hold_the_answer_once(
        left in rows(),
        right in prop::option::of(rows()),
        predicate in predicate(),
    ) {
        let (left, right) = collections(&left, right.as_ref());
        for (task, _) in SetTask::directions(&left, right.as_ref(), true, Bounds::new(predicate)) {
            let tile = Tile::whole(&task);
            let (mut wanted, _) = run(&Naive, &task, &tile, &Budget::unlimited(1000, 1), true);
            wanted.sort_unstable();
            for filter in filters() {
                let source = filter.source(&task, &tile, 100);
                let mut check = Check { task, pairs: Vec::new() };
                let mut finder = source.finder();
                for piece in 0..source.pieces() {
                    prop_assert!(finder.find(piece, &mut check).unwrap().is_continue());
                }
                check.pairs.sort_unstable();
                prop_assert_eq!(&check.pairs, &wanted, "{}", filter.name());
            }
        }
    }
}
