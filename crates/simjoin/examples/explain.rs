//! Limits memory and threads, shows the plan before the join runs, and tells how it went.

use simjoin::{Engine, Sets};

pub(crate) fn main() -> simjoin::Result<()> {
    let sets = Sets::new((0..5000u32).map(|row| [row / 4, row / 3 + 10_000, row / 2 + 20_000]));
    let join =
        simjoin::self_join(&sets).jaccard(0.5).engine(Engine::Cpu).threads(2).memory(64 << 20);
    // Sets are prepared once, for the plan and for the join.
    print!("{}", join.explain()?);
    let report = join.report()?;
    println!(
        "found: {} pairs of {} candidates by {} on {} threads",
        report.pairs, report.candidates, report.technique, report.threads
    );
    assert!(report.pairs > 0 && report.threads == 2);

    // What cannot be done is an error that says what was expected.
    let error = join.technique("magic").count().unwrap_err();
    println!("{error}");
    Ok(())
}
