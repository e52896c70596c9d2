//! Are the overlaps of all pairs those of the oracle?

use crate::{brief, sized, some};
use libtest_mimic::Failed;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use simjoin_core::{Bounds, Error, Measure, Predicate, SetCollection, SetPair};
use simjoin_engine::Budget;
use simjoin_gpu::{Device, OverlapTechnique, Overlaps};
use simjoin_testing::{Rows, collections};
use simjoin_testing::{near_duplicates, predicate, rows};
use std::ops::ControlFlow;
use std::sync::Arc;

/// Returns the overlap of two ascending slices, one token after the other.
fn overlap(a: &[u32], b: &[u32]) -> u32 {
    a.iter().filter(|token| b.binary_search(token).is_ok()).count() as u32
}

/// Returns the overlaps of each row with all columns.
fn matrix(rows: &SetCollection, columns: &SetCollection) -> Vec<Vec<u32>> {
    let row = |row: u32| {
        let column = |column: u32| overlap(rows.set(row), columns.set(column));
        (0..columns.len() as u32).map(column).collect()
    };
    (0..rows.len() as u32).map(row).collect()
}

struct Case<'a> {
    device: &'a Arc<Device>,
    rows: &'a SetCollection,
    columns: Option<&'a SetCollection>,
    expected: &'a [Vec<u32>],
}

impl Case<'_> {
    /// Returns the number of columns that a row meets if each pair is met once.
    fn met(&self, row: u32) -> u32 {
        if self.columns.is_some() { self.columns.map_or(0, |c| c.len() as u32) } else { row }
    }

    fn counts(&self, overlaps: &mut Overlaps<'_>) -> Result<(), String> {
        let mut next = 0;
        let mut wrong = None;
        let flow = overlaps.counts(|tile| {
            for row in 0..tile.rows {
                let mut seen = 0;
                tile.each(row, |column, count| {
                    seen += 1;
                    let expected = self.expected[next][column as usize];
                    if count != expected && wrong.is_none() {
                        wrong =
                            Some(format!("row {next}, column {column}: {count}, not {expected}"));
                    }
                });
                if tile.first + row != next as u32 || seen != self.met(next as u32) {
                    wrong.get_or_insert(format!("row {next} has {seen} columns"));
                }
                next += 1;
            }
            ControlFlow::Continue(())
        });
        if flow.map_err(|error| error.to_string())?.is_break() {
            return Err("stopped early".into());
        }
        if next != self.rows.len() && self.columns.is_none_or(|columns| !columns.is_empty()) {
            return Err(format!("{next} of {} rows", self.rows.len()));
        }
        wrong.map_or(Ok(()), Err)
    }

    fn selected(&self, overlaps: &mut Overlaps<'_>, predicate: Predicate) -> Result<(), String> {
        let columns = self.columns.unwrap_or(self.rows);
        let bounds = Bounds::new(predicate);
        let mut expected = Vec::new();
        for probe in 0..self.rows.len() as u32 {
            for build in 0..self.met(probe) {
                let overlap = self.expected[probe as usize][build as usize];
                let (n, m) = (self.rows.size(probe), columns.size(build));
                if overlap > 0 && bounds.accepts(n, m, overlap) {
                    expected.push(SetPair { probe, build, overlap });
                }
            }
        }
        let weight = |pair: &SetPair| {
            u64::from(self.rows.weight(pair.probe)) * u64::from(columns.weight(pair.build))
        };
        let rows: u64 = expected.iter().map(weight).sum();
        let counted = overlaps.count(predicate).map_err(|error| error.to_string())?;
        if counted != rows {
            return Err(format!("{counted} of {rows} rows at {predicate}"));
        }
        let mut found = Vec::new();
        let flow = overlaps.selected(predicate, |pairs| {
            found.extend_from_slice(pairs);
            ControlFlow::Continue(())
        });
        if flow.map_err(|error| error.to_string())?.is_break() {
            return Err("stopped early".into());
        }
        if found != expected {
            let (found, expected) = (found.len(), expected.len());
            return Err(format!("{found} of {expected} pairs at {predicate}, or different ones"));
        }
        Ok(())
    }

    fn top(
        &self,
        overlaps: &mut Overlaps<'_>,
        most: u32,
        ranks: Option<&[u32]>,
    ) -> Result<(), String> {
        let mut next = 0;
        let mut wrong = None;
        let flow = overlaps.top(most, ranks, |row, pairs| {
            let rank = |column: u32| ranks.map_or(column, |ranks| ranks[column as usize]);
            let counts = (0..).zip(&self.expected[row as usize]);
            let mut expected: Vec<SetPair> = counts
                .filter(|&(column, &count)| count > 0 && (self.columns.is_some() || column != row))
                .map(|(build, &overlap)| SetPair { probe: row, build, overlap })
                .collect();
            expected.sort_by_key(|pair| (std::cmp::Reverse(pair.overlap), rank(pair.build)));
            expected.truncate(most as usize);
            if row != next || pairs != expected {
                wrong
                    .get_or_insert(format!("top {most} of row {row}: {pairs:?}, not {expected:?}"));
            }
            next += 1;
            ControlFlow::Continue(())
        });
        if flow.map_err(|error| error.to_string())?.is_break() {
            return Err("stopped early".into());
        }
        if next != self.rows.len() as u32 && self.columns.is_none_or(|c| !c.is_empty()) && most > 0
        {
            return Err(format!("top {most}: {next} of {} rows", self.rows.len()));
        }
        wrong.map_or(Ok(()), Err)
    }

    /// Checks a technique, with unlimited memory or with as little as possible.
    fn check(
        &self,
        technique: OverlapTechnique,
        predicate: Predicate,
        tight: bool,
    ) -> Result<(), String> {
        let mut budget = Budget::unlimited(1000, 2);
        if tight {
            budget.device_bytes = 1;
            budget.bytes = 1 << 20;
        }
        // Raise the limit until it suffices.
        let mut overlaps = loop {
            match Overlaps::new(self.device, self.rows, self.columns, technique, &budget) {
                Ok(overlaps) => break overlaps,
                Err(Error::Memory { needed, limit, device: true, .. })
                    if tight && needed > limit && limit == budget.device_bytes =>
                {
                    budget.device_bytes = needed;
                }
                Err(error) => return Err(error.to_string()),
            }
        };
        self.counts(&mut overlaps)?;
        // The following needs a little more memory.
        if tight {
            budget.device_bytes += 1 << 20;
            overlaps = Overlaps::new(self.device, self.rows, self.columns, technique, &budget)
                .map_err(|error| error.to_string())?;
        }
        self.selected(&mut overlaps, Predicate::parse(Measure::Overlap, "1").unwrap())?;
        self.selected(&mut overlaps, predicate)?;
        let columns = self.columns.unwrap_or(self.rows).len() as u32;
        let ranks: Vec<u32> =
            (0..columns).map(|column| column.wrapping_mul(2_654_435_761).rotate_left(9)).collect();
        for most in some([0, 1, 3, columns / 2, columns + 5], sized(1, 1, 2)) {
            self.top(&mut overlaps, most, None)?;
            self.top(&mut overlaps, most, Some(&ranks))?;
        }
        Ok(())
    }
}

fn techniques() -> Vec<OverlapTechnique> {
    let mut techniques = OverlapTechnique::ALL.to_vec();
    for &frequent in sized::<&[u32]>(&[0, 3, 512, 700], &[0, 3, 512, 700], &[3, 512]) {
        techniques.push(OverlapTechnique::Combined(Some(frequent)));
    }
    techniques
}

fn check(
    device: &Arc<Device>,
    predicate: Predicate,
    left: &Rows,
    right: Option<&Rows>,
    tight: bool,
) -> Result<(), String> {
    let (rows, columns) = collections(left, right);
    let expected = matrix(&rows, columns.as_ref().unwrap_or(&rows));
    let case = Case { device, rows: &rows, columns: columns.as_ref(), expected: &expected };
    for technique in techniques() {
        case.check(technique, predicate, tight)
            .map_err(|why| format!("{technique:?} {}: {why}", if tight { "tight" } else { "" }))?;
    }
    Ok(())
}

pub(crate) fn random(device: &Arc<Device>) -> Result<(), Failed> {
    let config = Config {
        cases: if brief() { 2 } else { 40 },
        failure_persistence: None,
        ..Config::default()
    };
    let input = (rows(), prop::option::of(rows()), predicate(), any::<bool>());
    let result = TestRunner::new(config).run(&input, |(left, right, predicate, tight)| {
        check(device, predicate, &left, right.as_ref(), tight).map_err(TestCaseError::fail)
    });
    result.map_err(|error| error.to_string().into())
}

/// Tests enough sets for many blocks, and for several tiles and pieces if memory is short.
pub(crate) fn many(device: &Arc<Device>) -> Result<(), Failed> {
    let (seeds, rows, others) =
        sized((400, 0..2100, 1000..1700), (60, 0..160, 100..230), (40, 0..90, 60..100));
    let (left, right) = (near_duplicates(seeds, rows), near_duplicates(seeds, others));
    let predicate = Predicate::parse(Measure::Containment, "0.8").unwrap();
    for tight in [false, true] {
        check(device, predicate, &left, None, tight)?;
        check(device, predicate, &left, Some(&right), tight)?;
    }
    Ok(())
}

/// Tests disjoint sets, sets that differ in one token, one inside the other, one token, all tokens, runs, and
/// sizes for counts of one, two and four bytes.
pub(crate) fn adversarial(device: &Arc<Device>) -> Result<(), Failed> {
    let predicate = Predicate::parse(Measure::Containment, "1").unwrap();
    let most: &[u32] = if brief() { &[300] } else { &[255, 256, 257, 5_000, 100_000] };
    for &large in most {
        let mut rows: Rows = (0..40u32).map(|row| [row].into()).collect();
        rows.push((0..large).collect());
        rows.push((1..large + 1).collect());
        rows.push((0..large).step_by(2).collect());
        rows.push((1..large).step_by(2).collect());
        rows.push((0..large).filter(|token| token / 64 % 2 == 0).collect());
        rows.push((0..large / 2).collect());
        rows.push((large..2 * large).collect());
        rows.extend((0..100u32).map(|row| (row * 3..row * 3 + 7).collect()));
        check(device, predicate, &rows, None, false)?;
        let others: Rows = rows.iter().step_by(3).cloned().collect();
        check(device, predicate, &rows, Some(&others), false)?;
        check(device, predicate, &others, Some(&rows), true)?;
    }
    // No sets on either side, or one set.
    let one: Rows = vec![[5].into()];
    check(device, predicate, &vec![], None, false)?;
    check(device, predicate, &one, None, false)?;
    check(device, predicate, &one, Some(&vec![]), false)?;
    check(device, predicate, &vec![], Some(&one), false)?;
    Ok(())
}

/// Tests that a consumer that breaks is not called again.
pub(crate) fn stopped(device: &Arc<Device>) -> Result<(), Failed> {
    let (rows, _) = collections(&near_duplicates(60, 0..700), None);
    let budget = Budget { bytes: 1 << 16, ..Budget::unlimited(1000, 2) };
    let technique = OverlapTechnique::Combined(None);
    let mut overlaps = Overlaps::new(device, &rows, None, technique, &budget)?;
    let mut calls = [0; 3];
    let positive = Predicate::parse(Measure::Overlap, "1").unwrap();
    let flows = [
        overlaps.counts(|_| {
            calls[0] += 1;
            ControlFlow::Break(())
        })?,
        overlaps.selected(positive, |_| {
            calls[1] += 1;
            ControlFlow::Break(())
        })?,
        overlaps.top(2, None, |_, _| {
            calls[2] += 1;
            ControlFlow::Break(())
        })?,
    ];
    if calls == [1; 3] && flows.iter().all(ControlFlow::is_break) {
        return Ok(());
    }
    Err(format!("called {calls:?} times: {flows:?}").into())
}
