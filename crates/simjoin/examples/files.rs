//! Joins a column of a file with itself and writes the pairs to another file, which appears when it is complete.

use simjoin::Text;

pub(crate) fn main() -> simjoin::Result<()> {
    let input = concat!(env!("CARGO_MANIFEST_DIR"), "/../../samples/books.csv");
    let output = std::env::temp_dir().join(format!("simjoin-example-{}.csv", std::process::id()));
    // CSV, TSV, JSONL, Parquet, Arrow and lines are read, also compressed; the ending tells which it is.
    let books = Text::from_file(input).column("title").id("id");
    let report = simjoin::self_join(&books).jaccard(0.8).write(&output)?;
    println!("{} pairs by {}:", report.pairs, report.technique);
    let written = std::fs::read_to_string(&output).expect("the file was written");
    println!("{written}");
    assert_eq!(written.lines().count() as u64, report.pairs + 1);
    let _ = std::fs::remove_file(output);
    Ok(())
}
