//! How is text split into lines?
//!
//! Lines end with `\n` or `\r\n`, which is optional for the last line. A byte order mark at the start is not part of the
//! first line. [`LineCutter`] cuts text at newlines into [`LineBlock`]s, which know the number of their first line; the
//! lines of a block are the records.

use crate::block::BlockBuilder;
use crate::dictionary::Place;
use crate::pipeline::{Block, BlockReader};
use crate::source::{self, ErrorContext, Source};
use memchr::{memchr_iter, memrchr};
use simjoin_core::{Error, Result};
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// Cuts text into blocks of whole lines.
pub(crate) struct LineCutter<'a> {
    source: Source<'a>,
    context: Arc<ErrorContext>,
    block_bytes: usize,
    /// The bytes that were read after the last newline.
    rest: Vec<u8>,
    line: u64,
    at_start: bool,
    ended: bool,
    error: Option<Error>,
}

/// Whole lines.
pub(crate) struct LineBlock {
    bytes: Vec<u8>,
    first_line: u64,
    context: Arc<ErrorContext>,
}

impl<'a> LineCutter<'a> {
    pub(crate) fn new(source: Source<'a>, block_bytes: usize) -> Self {
        let context = Arc::new(source.context());
        LineCutter {
            source,
            context,
            block_bytes: block_bytes.max(1),
            rest: Vec::new(),
            line: 1,
            at_start: true,
            ended: false,
            error: None,
        }
    }

    /// Returns the next lines. If reading fails, the whole lines before the error are returned first.
    pub(crate) fn next(&mut self) -> Result<Option<LineBlock>> {
        let mut bytes = Vec::with_capacity(self.rest.len().max(self.block_bytes) + 4096);
        bytes.append(&mut self.rest);
        // There are no newlines before this position.
        let mut searched = 0;
        while !self.ended {
            // A line longer than a block makes the block grow.
            let missing = self.block_bytes.saturating_sub(bytes.len());
            let wanted = if missing == 0 { self.block_bytes } else { missing };
            match (&mut self.source).take(wanted as u64).read_to_end(&mut bytes) {
                Ok(read) => self.ended = read < wanted,
                Err(error) => {
                    self.ended = true;
                    self.error = Some(self.context.error(error));
                }
            }
            if self.ended && self.error.is_none() {
                break;
            }
            if bytes.len() < self.block_bytes && !self.ended {
                continue;
            }
            if let Some(at) = memrchr(b'\n', &bytes[searched..]) {
                let end = searched + at + 1;
                // An unfinished line before a reading error is never returned.
                self.rest.extend_from_slice(&bytes[end..]);
                bytes.truncate(end);
                return Ok(Some(self.block(bytes)));
            }
            searched = bytes.len();
        }
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        let block = self.block(bytes);
        Ok((!block.bytes.is_empty()).then_some(block))
    }

    fn block(&mut self, mut bytes: Vec<u8>) -> LineBlock {
        if self.at_start && bytes.starts_with(b"\xEF\xBB\xBF") {
            bytes.drain(..3);
        }
        self.at_start = false;
        let first_line = self.line;
        self.line += memchr_iter(b'\n', &bytes).count() as u64;
        LineBlock { bytes, first_line, context: self.context.clone() }
    }
}

impl LineBlock {
    /// Returns the name of the input in messages.
    pub(crate) fn name(&self) -> &str {
        self.context.name()
    }

    /// Makes an error in a line.
    pub(crate) fn error(&self, line: u64, message: impl Into<String>) -> Error {
        Error::input(self.name(), Place::Line.text(line), message)
    }

    /// Calls `visit` with each line, without its end, and its number. Stops at the first error. Lines before invalid
    /// UTF-8 are visited.
    #[inline]
    pub(crate) fn for_each(&self, mut visit: impl FnMut(&str, u64) -> Result<()>) -> Result<()> {
        let (text, invalid) = match std::str::from_utf8(&self.bytes) {
            Ok(text) => (text, None),
            Err(error) => {
                let valid = &self.bytes[..error.valid_up_to()];
                let start = memrchr(b'\n', valid).map_or(0, |at| at + 1);
                let text = std::str::from_utf8(&self.bytes[..start]).unwrap_or_default();
                (text, Some(error.valid_up_to() - start))
            }
        };
        let mut number = self.first_line;
        let mut start = 0;
        for end in memchr_iter(b'\n', text.as_bytes()) {
            let line = &text[start..end];
            visit(line.strip_suffix('\r').unwrap_or(line), number)?;
            start = end + 1;
            number += 1;
        }
        if let Some(at) = invalid {
            let message =
                format!("byte {} of the line is not UTF-8; UTF-8 text was expected", at + 1);
            return Err(self.error(number, message));
        }
        if start < text.len() {
            let line = &text[start..];
            visit(line.strip_suffix('\r').unwrap_or(line), number)?;
        }
        Ok(())
    }

    /// Returns the first line, if it is UTF-8.
    pub(crate) fn first(&self) -> Option<&str> {
        let end = memchr::memchr(b'\n', &self.bytes).unwrap_or(self.bytes.len());
        let line = std::str::from_utf8(&self.bytes[..end]).ok()?;
        Some(line.strip_suffix('\r').unwrap_or(line))
    }
}

/// Calls `visit` with each line of an input, without its end, and its number from 1. Stops at the first error.
///
/// The path `-` is standard input; gzip and zstd are decompressed. Adds the number of bytes read to `bytes_read`.
pub fn read_lines<P: AsRef<Path> + ?Sized>(
    path: &P,
    bytes_read: &AtomicU64,
    mut visit: impl FnMut(&str, u64) -> Result<()>,
) -> Result<()> {
    let mut cutter = LineCutter::new(source::open(path.as_ref(), bytes_read)?, 1 << 20);
    while let Some(block) = cutter.next()? {
        block.for_each(&mut visit)?;
    }
    Ok(())
}

/// Reads one record per line.
pub(crate) struct Reader<'a>(LineCutter<'a>);

impl<'a> Reader<'a> {
    pub(crate) fn new(source: Source<'a>, block_bytes: usize) -> Self {
        Reader(LineCutter::new(source, block_bytes))
    }
}

impl BlockReader for Reader<'_> {
    fn next_block(&mut self) -> Result<Option<Box<dyn Block>>> {
        Ok(self.0.next()?.map(|block| Box::new(block) as _))
    }

    fn place(&self) -> Place {
        Place::Line
    }
}

impl Block for LineBlock {
    fn tokenize(&self, builder: &mut BlockBuilder) -> Result<()> {
        self.for_each(|line, _| {
            builder.record(line);
            builder.end_row();
            Ok(())
        })
    }
}
