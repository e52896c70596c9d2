//! How do many threads read one file and number its tokens?
//!
//! # Flow
//!
//! ```text
//!   reader thread             workers                     calling thread
//!   cut block 0, 1, 2 … ──>   tokenize, number locally ──>  put in order, merge into the dictionary
//!        ^                                                       │
//!        └────────────── a permit for each merged block <───────┘
//! ```
//!
//! Blocks are merged in file order, so token numbers, rows and the reported error are the same as with one thread. Rows
//! before a faulty record are merged first, because they may hold an earlier error (a repeated id).
//!
//! If the system refuses to start some threads, there are fewer workers; if it refuses the reader or all workers, the
//! calling thread does everything.
//!
//! # Memory
//!
//! At most `2 × threads + 2` blocks exist at a time: the reader waits for a permit before it cuts the next block.

use crate::block::{BlockBuilder, BlockSets};
use crate::dictionary::{Dictionary, Hasher, Place};
use crate::ids::IdsBuilder;
use crate::options::Table;
use crate::tokenize::Tokenizer;
use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use simjoin_core::{Error, RawSets, Result};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread::Builder;

/// Cuts an input into blocks, in order, on one thread.
pub(crate) trait BlockReader: Send {
    /// Returns the next block. It is not called again after an error or the end.
    fn next_block(&mut self) -> Result<Option<Box<dyn Block>>>;

    /// Returns the unit in which errors count places.
    fn place(&self) -> Place;
}

/// A part of an input that consists of whole records.
pub(crate) trait Block: Send {
    /// Adds the records to the builder, up to the first faulty one.
    fn tokenize(&self, builder: &mut BlockBuilder) -> Result<()>;
}

/// The options that all threads share.
pub(crate) struct PipelineOptions {
    pub(crate) tokenizer: Tokenizer,
    pub(crate) multiset: bool,
    pub(crate) with_ids: bool,
    /// Whether an input may have no records, or only empty ones.
    pub(crate) may_be_empty: bool,
    pub(crate) threads: usize,
    pub(crate) hasher: Hasher,
}

impl PipelineOptions {
    fn builder(&self) -> BlockBuilder {
        BlockBuilder::new(self.tokenizer, self.multiset, self.hasher.clone())
    }
}

/// Reads a whole input; messages call it `name`.
pub(crate) fn run(
    mut reader: Box<dyn BlockReader + '_>,
    name: &str,
    options: &PipelineOptions,
    dictionary: &mut Dictionary,
) -> Result<Table> {
    let threads = options.threads.max(1);
    let permits = 2 * threads + 2;
    let mut merger = Merger {
        name,
        sets: RawSets::default(),
        ids: options.with_ids.then(|| IdsBuilder::new(name, reader.place())),
        numbers: Vec::new(),
        dictionary,
        hasher: &options.hasher,
    };
    std::thread::scope(|scope| {
        let (permit_send, permit_receive) = bounded::<()>(permits);
        for _ in 0..permits {
            let _ = permit_send.send(());
        }
        // The permits bound both queues.
        let (block_send, block_receive) = unbounded::<(u64, Box<dyn Block>)>();
        let (done_send, done_receive) = unbounded::<(u64, Result<BlockSets>)>();

        let reader_done = done_send.clone();
        let (start, begin) = bounded::<Box<dyn BlockReader + '_>>(1);
        let cut_blocks = move || {
            let Ok(mut reader) = begin.recv() else { return };
            for number in 0.. {
                if permit_receive.recv().is_err() {
                    return;
                }
                match reader.next_block() {
                    Ok(Some(block)) => {
                        if block_send.send((number, block)).is_err() {
                            return;
                        }
                    }
                    Ok(None) => return,
                    Err(error) => {
                        let _ = reader_done.send((number, Err(error)));
                        return;
                    }
                }
            }
        };
        let mut workers = 0;
        if Builder::new().spawn_scoped(scope, cut_blocks).is_ok() {
            let worker = || {
                let (blocks, done) = (block_receive.clone(), done_send.clone());
                let work = move || tokenize(options, &blocks, &done);
                Builder::new().spawn_scoped(scope, work).is_ok()
            };
            workers = (0..threads).take_while(|_| worker()).count();
        }
        drop((done_send, block_receive));
        if workers == 0 {
            drop(start);
            return run_on_calling_thread(&mut *reader, options, merger);
        }
        let _ = start.send(reader);

        // If this closure returns early, the ends of the channels are dropped and the threads stop.
        let mut waiting = BTreeMap::new();
        let mut next = 0;
        while let Ok((number, block)) = done_receive.recv() {
            waiting.insert(number, block);
            while let Some(block) = waiting.remove(&next) {
                merger.append(block?)?;
                next += 1;
                let _ = permit_send.send(());
            }
        }
        merger.finish(options.may_be_empty)
    })
}

/// Tokenizes blocks until there are no more.
fn tokenize(
    options: &PipelineOptions,
    blocks: &Receiver<(u64, Box<dyn Block>)>,
    done: &Sender<(u64, Result<BlockSets>)>,
) {
    let mut builder = options.builder();
    while let Ok((number, block)) = blocks.recv() {
        // The merger would wait forever for a block that is never sent.
        let tokenized = catch_unwind(AssertUnwindSafe(|| block.tokenize(&mut builder)))
            .unwrap_or_else(|_| Err(Error::Internal("a block panicked".into())));
        drop(block);
        if done.send((number, Ok(builder.finish(tokenized.err())))).is_err() {
            return;
        }
    }
}

/// Reads, tokenizes and merges on the calling thread.
fn run_on_calling_thread(
    reader: &mut dyn BlockReader,
    options: &PipelineOptions,
    mut merger: Merger<'_>,
) -> Result<Table> {
    let mut builder = options.builder();
    while let Some(block) = reader.next_block()? {
        let tokenized = block.tokenize(&mut builder);
        merger.append(builder.finish(tokenized.err()))?;
    }
    merger.finish(options.may_be_empty)
}

/// Merges blocks, in file order, into the rows of an input.
struct Merger<'a> {
    name: &'a str,
    sets: RawSets,
    ids: Option<IdsBuilder<'a>>,
    numbers: Vec<u32>,
    dictionary: &'a mut Dictionary,
    hasher: &'a Hasher,
}

impl Merger<'_> {
    fn append(&mut self, block: BlockSets) -> Result<()> {
        if self.sets.rows() + block.ends.len() > u32::MAX as usize {
            return Err(Error::input(
                self.name,
                "",
                format!(
                    "the input has more than {} records, the largest supported number",
                    u32::MAX
                ),
            ));
        }
        if let Some(ids) = &mut self.ids {
            ids.append(&block.ids, self.hasher)?;
        }
        self.dictionary.append(&block.tokens, &mut self.numbers)?;
        let base = self.sets.tokens.len();
        let numbers = &self.numbers;
        self.sets.tokens.extend(block.rows.iter().map(|&local| numbers[local as usize]));
        self.sets.offsets.extend(block.ends.iter().map(|&end| base + end));
        match block.error {
            None => Ok(()),
            Some(error) => Err(error),
        }
    }

    fn finish(mut self, may_be_empty: bool) -> Result<Table> {
        let rows = self.sets.rows();
        if rows == 0 && !may_be_empty {
            return Err(Error::input(self.name, "", "no records: the input is empty"));
        }
        if self.sets.tokens.is_empty() && !may_be_empty {
            return Err(Error::input(
                self.name,
                "",
                format!("no tokens: every record is empty ({rows} read)"),
            ));
        }
        self.sets.tokens.shrink_to_fit();
        self.sets.offsets.shrink_to_fit();
        Ok(Table { sets: self.sets, ids: self.ids.map(IdsBuilder::finish) })
    }
}
