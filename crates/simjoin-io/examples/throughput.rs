//! How fast are files read, and pairs written?
//!
//! `throughput FILE [sets|words|qgrams:Q] [THREADS] [COLUMN]` reads a file five times;
//! `throughput --write OUTPUT ROWS` writes invented pairs.

use simjoin_core::{RowPair, Side};
use simjoin_io::{PairWriter, ReadOptions, Tokenizer, read_sets};
use std::sync::atomic::AtomicU64;
use std::time::Instant;

fn main() -> simjoin_core::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let argument = |at: usize| arguments.get(at).map(String::as_str);
    if argument(0) == Some("--write") {
        return write(argument(1), argument(2).and_then(|n| n.parse().ok()).unwrap_or(10_000_000));
    }
    let path = argument(0).unwrap_or("-");
    let tokenizer = match argument(1).unwrap_or("sets") {
        "sets" => Tokenizer::Whitespace,
        other => other.parse()?,
    };
    let threads = argument(2).and_then(|n| n.parse().ok()).unwrap_or(2);
    let options = ReadOptions {
        tokenizer,
        threads,
        column: argument(3).map(str::to_owned),
        ..ReadOptions::default()
    };
    for _ in 0..5 {
        let start = Instant::now();
        let read = read_sets(path, None, &options, &AtomicU64::new(0))?;
        println!(
            "{:.3} s: {} rows, {} tokens, {} distinct",
            start.elapsed().as_secs_f64(),
            read.left.sets.rows(),
            read.left.sets.tokens.len(),
            read.universe
        );
    }
    Ok(())
}

fn write(path: Option<&str>, count: u32) -> simjoin_core::Result<()> {
    let rows: Vec<RowPair> = (0..count)
        .map(|at| {
            let overlap = 5 + at % 37;
            let similarity = f64::from(overlap) / f64::from(overlap + at % 11);
            RowPair {
                left: at / 16,
                right: at.wrapping_mul(2_654_435_761) >> 12,
                overlap,
                similarity,
                left_input: Side::Left,
            }
        })
        .collect();
    let start = Instant::now();
    let mut writer = PairWriter::create(path, None, None)?;
    rows.chunks(4096).try_for_each(|chunk| writer.write(chunk))?;
    let bytes = writer.finish()?;
    let seconds = start.elapsed().as_secs_f64();
    eprintln!(
        "{seconds:.3} s: {count} rows, {bytes} bytes, {:.1} million rows/s",
        f64::from(count) / seconds / 1e6
    );
    Ok(())
}
