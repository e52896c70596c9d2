//! How often does each token occur, how large are the sets, and which records are in the sample?
//!
//! A [`TokenCounter`] reads one partition of the input and returns rows `kind, key, token, count`.
//! The caller sums `count` by the first three columns over all partitions:
//!
//! | kind | key | token | count |
//! | --- | --- | --- | --- |
//! | [`TOKEN`] | the token's key | its bytes | records that hold it |
//! | [`ROWS`] | the partition | | its rows |
//! | [`SIZES`] | a size | | records of this size |
//! | [`SAMPLE`] | its random number, with the partition's lowest bit | the keys of a record | 1 |
//! | [`LIMIT`] | the partition | | the sample holds every record whose random number is below this one |
//!
//! Each record has a random number, and these numbers are uniform over all records of the input. So the
//! records below the least limit of all partitions are a uniform sample, however unequal the partitions
//! are.
//!
//! Two rows of kind [`TOKEN`] with one key and different tokens show a collision of keys; see [`Keys`].
//!
//! # Memory
//!
//! A different token takes its bytes and about 30 more. At 64 MiB the counts are passed on and counting
//! begins anew; the sum over all rows is still right.

use crate::keys::Keys;
use crate::records::Records;
use arrow_array::{Array, BinaryArray, Int32Array, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use hashbrown::HashTable;
use simjoin_core::{Error, Result, mix64};
use simjoin_io::Tokenizer;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;

/// A row about a token.
pub const TOKEN: i32 = 0;
/// A row about the number of rows of a partition.
pub const ROWS: i32 = 1;
/// A row about records of one size.
pub const SIZES: i32 = 2;
/// A row with a record of the sample.
pub const SAMPLE: i32 = 3;
/// A row with the limit of the random numbers in the sample of a partition.
pub const LIMIT: i32 = 4;

/// The bytes of tokens that are held before they are passed on.
const HELD: usize = 64 << 20;
/// The largest number of rows in a batch, and of bytes of the tokens in it.
const BATCH: (usize, usize) = (1 << 16, 16 << 20);
/// The bytes of keys that the sample of a partition may hold.
const SAMPLE_BYTES: usize = 4 << 20;

struct Counted {
    key: u64,
    start: usize,
    end: usize,
    count: u64,
}

/// Counts the tokens of a partition.
pub struct TokenCounter {
    records: Records,
    partition: u32,
    table: HashTable<Counted>,
    bytes: Vec<u8>,
    sizes: BTreeMap<u32, u64>,
    rows: u64,
    wanted: usize,
    sample: BinaryHeap<(u64, Vec<u64>)>,
    sample_bytes: usize,
    limit: u64,
}

impl TokenCounter {
    /// Makes a counter for a partition. It also draws a sample of up to `wanted` records.
    pub fn new(
        keys: Keys,
        tokenizer: Tokenizer,
        multiset: bool,
        partition: u32,
        wanted: usize,
    ) -> Self {
        TokenCounter {
            records: Records::new(keys, tokenizer, multiset),
            partition,
            table: HashTable::new(),
            bytes: Vec::new(),
            sizes: BTreeMap::new(),
            rows: 0,
            wanted,
            sample: BinaryHeap::new(),
            sample_bytes: 0,
            limit: i64::MAX as u64,
        }
    }

    /// Counts the records of a column and returns the batches that are full; usually there are none.
    pub fn add(&mut self, name: &str, column: &dyn Array) -> Result<Vec<RecordBatch>> {
        let TokenCounter { records, table, bytes, sizes, sample, sample_bytes, limit, .. } = self;
        let (wanted, partition) = (self.wanted, u64::from(self.partition));
        let mut drawn = Vec::new();
        records.tokens_of(column, (name, self.rows), |row, tokens| {
            let size = u32::try_from(tokens.len())
                .map_err(|_| Error::Config("a record has more than 2³² tokens".into()))?;
            *sizes.entry(size).or_default() += 1;
            // The sample holds the records with the smallest random numbers.
            // The lowest bit is the lowest bit of the partition's number.
            let lot = (mix64(mix64(partition + 1) ^ row) >> 1) & !1 | (partition & 1);
            let draw = size > 0 && lot < *limit;
            drawn.clear();
            for (key, token) in tokens {
                if draw {
                    drawn.push(key);
                }
                let found = table.find_mut(mix64(key), |one| {
                    one.key == key && bytes[one.start..one.end] == *token
                });
                match found {
                    Some(one) => one.count += 1,
                    None => {
                        let start = bytes.len();
                        bytes.extend_from_slice(token);
                        let one = Counted { key, start, end: bytes.len(), count: 1 };
                        table.insert_unique(mix64(key), one, |one| mix64(one.key));
                    }
                }
            }
            if draw {
                drawn.sort_unstable();
                *sample_bytes += drawn.len() * 8;
                sample.push((lot, drawn.clone()));
                while sample.len() > wanted || (*sample_bytes > SAMPLE_BYTES && sample.len() > 1) {
                    if let Some((lot, keys)) = sample.pop() {
                        *sample_bytes -= keys.len() * 8;
                        *limit = lot;
                    }
                }
            }
            Ok(())
        })?;
        self.rows += column.len() as u64;
        if self.bytes.len() + 32 * self.table.len() < HELD {
            return Ok(Vec::new());
        }
        self.tokens()
    }

    /// Returns the rest of the batches.
    pub fn finish(mut self) -> Result<Vec<RecordBatch>> {
        let mut batches = self.tokens()?;
        let partition = i64::from(self.partition);
        let mut rows = Rows::default();
        rows.push(ROWS, partition, b"", self.rows);
        for (&size, &count) in &self.sizes {
            rows.push(SIZES, i64::from(size), b"", count);
        }
        rows.push(LIMIT, partition, b"", self.limit);
        let mut blob = Vec::new();
        for (lot, keys) in &self.sample {
            blob.clear();
            keys.iter().for_each(|key| blob.extend_from_slice(&key.to_le_bytes()));
            rows.push(SAMPLE, *lot as i64, &blob, 1);
            if rows.full() {
                batches.push(std::mem::take(&mut rows).batch()?);
            }
        }
        batches.push(rows.batch()?);
        Ok(batches)
    }

    fn tokens(&mut self) -> Result<Vec<RecordBatch>> {
        let mut batches = Vec::new();
        let mut rows = Rows::default();
        for one in self.table.drain() {
            // Keys are below 2⁶³.
            rows.push(TOKEN, one.key as i64, &self.bytes[one.start..one.end], one.count);
            if rows.full() {
                batches.push(std::mem::take(&mut rows).batch()?);
            }
        }
        batches.push(rows.batch()?);
        self.bytes.clear();
        Ok(batches)
    }
}

/// Returns the schema of the batches.
pub fn schema() -> Arc<Schema> {
    Arc::new(Schema::new(vec![
        Field::new("kind", DataType::Int32, false),
        Field::new("key", DataType::Int64, false),
        Field::new("token", DataType::Binary, false),
        Field::new("count", DataType::Int64, false),
    ]))
}

#[derive(Default)]
struct Rows {
    kinds: Vec<i32>,
    keys: Vec<i64>,
    tokens: Vec<u8>,
    ends: Vec<usize>,
    counts: Vec<i64>,
}

impl Rows {
    fn push(&mut self, kind: i32, key: i64, token: &[u8], count: u64) {
        self.kinds.push(kind);
        self.keys.push(key);
        self.tokens.extend_from_slice(token);
        self.ends.push(self.tokens.len());
        self.counts.push(i64::try_from(count).unwrap_or(i64::MAX));
    }

    fn full(&self) -> bool {
        self.kinds.len() >= BATCH.0 || self.tokens.len() >= BATCH.1
    }

    fn batch(self) -> Result<RecordBatch> {
        let mut start = 0;
        let tokens = self.ends.iter().map(|&end| {
            let token = &self.tokens[start..end];
            start = end;
            token
        });
        let tokens = BinaryArray::from_iter_values(tokens);
        RecordBatch::try_new(
            schema(),
            vec![
                Arc::new(Int32Array::from(self.kinds)),
                Arc::new(Int64Array::from(self.keys)),
                Arc::new(tokens),
                Arc::new(Int64Array::from(self.counts)),
            ],
        )
        .map_err(|error| Error::Internal(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::StringArray;
    use arrow_array::cast::AsArray;
    use arrow_array::types::{Int32Type, Int64Type};

    fn rows(batches: &[RecordBatch]) -> Vec<(i32, i64, Vec<u8>, i64)> {
        let of = |batch: &RecordBatch| -> Vec<_> {
            let kinds = batch.column(0).as_primitive::<Int32Type>();
            let keys = batch.column(1).as_primitive::<Int64Type>();
            let counts = batch.column(3).as_primitive::<Int64Type>();
            let tokens = batch.column(2).as_binary::<i32>();
            let row =
                |at| (kinds.value(at), keys.value(at), tokens.value(at).to_vec(), counts.value(at));
            (0..batch.num_rows()).map(row).collect()
        };
        batches.iter().flat_map(of).collect()
    }

    #[test]
    fn sample_holds_every_record_below_its_limit() {
        let texts: Vec<String> = (0..1000).map(|n| format!("a b{n} c{}", n % 7)).collect();
        let count = |wanted| {
            let keys = Keys::new(0, 63).unwrap();
            let mut counter = TokenCounter::new(keys, Tokenizer::Whitespace, false, 3, wanted);
            let mut batches = Vec::new();
            for part in texts.chunks(300) {
                let part = StringArray::from(part.iter().map(String::as_str).collect::<Vec<_>>());
                batches.extend(counter.add("c", &part).unwrap());
            }
            batches.extend(counter.finish().unwrap());
            rows(&batches)
        };
        let (all, some) = (count(5000), count(50));
        let of = |rows: &[(i32, i64, Vec<u8>, i64)], kind| -> Vec<_> {
            let mut of: Vec<_> = rows.iter().filter(|row| row.0 == kind).cloned().collect();
            of.sort();
            of
        };
        assert_eq!(of(&all, LIMIT), [(LIMIT, 3, vec![], i64::MAX)]);
        let limit = of(&some, LIMIT)[0].3;
        let below: Vec<_> = of(&all, SAMPLE).into_iter().filter(|row| row.1 < limit).collect();
        assert_eq!((of(&some, SAMPLE), below.len()), (below, 50));
        assert_eq!(of(&all, SAMPLE).len(), 1000);
        assert_eq!(of(&some, ROWS), [(ROWS, 3, vec![], 1000)]);
        assert_eq!(of(&some, SIZES), [(SIZES, 3, vec![], 1000)]);
        let tokens = of(&some, TOKEN);
        assert_eq!(tokens.len(), 1008);
        assert!(tokens.iter().any(|row| row.2 == b"a" && row.3 == 1000));
        assert!(tokens.iter().any(|row| row.2 == b"c6" && row.3 == 142));
        assert!(count(0).iter().all(|row| row.0 != SAMPLE));
    }
}
