//! How are CSV and TSV split into fields?
//!
//! The format is CSV as in RFC 4180, or the same with tabs: a header row, and fields that may be in double quotes, which
//! may contain delimiters, newlines and doubled quotes. Empty lines between records are skipped. The reader splits
//! fields and keeps the wanted ones; the workers tokenize them.
//!
//! This module calls the low-level parser `csv_core`, because users need the exact line on which a record starts, and
//! an error for a quote that is never closed.

use super::Columns;
use crate::block::BlockBuilder;
use crate::dictionary::Place;
use crate::pipeline::{Block, BlockReader};
use crate::source::{ErrorContext, Source};
use csv_core::ReadRecordResult;
use simjoin_core::{Error, Result};
use std::io::{BufRead, BufReader};
use std::sync::Arc;

/// Reads records with the wanted columns.
pub(crate) struct Reader<'a> {
    records: RecordSplitter<'a>,
    wanted: Arc<Wanted>,
    width: usize,
    block_bytes: usize,
    error: Option<Error>,
}

/// The columns to read, each with its position and its name.
struct Wanted {
    context: ErrorContext,
    column: (usize, String),
    id: Option<(usize, String)>,
}

impl Wanted {
    fn error(&self, line: u64, message: String) -> Error {
        Error::input(self.context.name(), Place::Line.text(line), message)
    }
}

/// The wanted fields of some records.
struct CsvBlock {
    wanted: Arc<Wanted>,
    lines: Vec<u64>,
    text: Vec<u8>,
    text_ends: Vec<usize>,
    ids: Vec<u8>,
    id_ends: Vec<usize>,
}

impl<'a> Reader<'a> {
    /// Reads the header and finds the columns.
    pub(crate) fn new(
        source: Source<'a>,
        delimiter: u8,
        columns: &Columns,
        block_bytes: usize,
    ) -> Result<Self> {
        let context = source.context();
        let mut records = RecordSplitter::new(source, delimiter);
        let Some(line) = records.next()? else {
            return Err(Error::input(
                context.name(),
                "",
                "no records: the input is empty; a header row was expected",
            ));
        };
        let mut names = Vec::new();
        for field in 0..records.width() {
            let name = std::str::from_utf8(records.field(field)).map_err(|_| {
                let message = format!("column name {} is not UTF-8", field + 1);
                Error::input(context.name(), Place::Line.text(line), message)
            })?;
            names.push(name.to_owned());
        }
        let (column, id) = columns.find(context.name(), &names)?;
        let wanted = Arc::new(Wanted {
            context,
            column: (column, names[column].clone()),
            id: id.map(|id| (id, names[id].clone())),
        });
        Ok(Reader { records, wanted, width: names.len(), block_bytes, error: None })
    }

    /// Adds the next record to the block. Returns false at the end.
    fn add_record(&mut self, block: &mut CsvBlock) -> Result<bool> {
        let Some(line) = self.records.next()? else { return Ok(false) };
        let width = self.records.width();
        if width != self.width {
            let message = format!(
                "{width} field{} found; the header has {}",
                if width == 1 { "" } else { "s" },
                self.width
            );
            return Err(self.wanted.error(line, message));
        }
        block.lines.push(line);
        block.text.extend_from_slice(self.records.field(self.wanted.column.0));
        block.text_ends.push(block.text.len());
        if let Some((id, _)) = self.wanted.id {
            block.ids.extend_from_slice(self.records.field(id));
            block.id_ends.push(block.ids.len());
        }
        Ok(true)
    }
}

impl BlockReader for Reader<'_> {
    fn next_block(&mut self) -> Result<Option<Box<dyn Block>>> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        let mut block = CsvBlock {
            wanted: self.wanted.clone(),
            lines: Vec::new(),
            text: Vec::with_capacity(self.block_bytes + 4096),
            text_ends: Vec::new(),
            ids: Vec::new(),
            id_ends: Vec::new(),
        };
        // Each record counts as its text and a few bytes more, so that empty records fill a block too.
        while block.text.len() + block.ids.len() + 8 * block.lines.len() < self.block_bytes {
            match self.add_record(&mut block) {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) if block.lines.is_empty() => return Err(error),
                Err(error) => {
                    self.error = Some(error);
                    break;
                }
            }
        }
        Ok((!block.lines.is_empty()).then(|| Box::new(block) as _))
    }

    fn place(&self) -> Place {
        Place::Line
    }
}

impl Block for CsvBlock {
    fn tokenize(&self, builder: &mut BlockBuilder) -> Result<()> {
        let text = |bytes, line, column: &str| {
            std::str::from_utf8(bytes).map_err(|_| {
                let message = format!("column `{column}` is not UTF-8; UTF-8 text was expected");
                self.wanted.error(line, message)
            })
        };
        let (mut start, mut id_start) = (0, 0);
        for (row, &line) in self.lines.iter().enumerate() {
            let end = self.text_ends[row];
            builder.record(text(&self.text[start..end], line, &self.wanted.column.1)?);
            start = end;
            if let Some((_, name)) = &self.wanted.id {
                let end = self.id_ends[row];
                let id = text(&self.ids[id_start..end], line, name)?;
                if id.is_empty() {
                    let message = format!("the id in column `{name}` is empty");
                    return Err(self.wanted.error(line, message));
                }
                builder.id(id, false, line);
                id_start = end;
            }
            builder.end_row();
        }
        Ok(())
    }
}

/// Splits text into records. Each record replaces the one before in the same buffers.
pub(crate) struct RecordSplitter<'a> {
    input: BufReader<Source<'a>>,
    context: ErrorContext,
    core: csv_core::Reader,
    fields: Vec<u8>,
    ends: Vec<usize>,
    width: usize,
    at_start: bool,
}

impl<'a> RecordSplitter<'a> {
    pub(crate) fn new(source: Source<'a>, delimiter: u8) -> Self {
        let context = source.context();
        RecordSplitter {
            input: BufReader::with_capacity(256 * 1024, source),
            context,
            core: csv_core::ReaderBuilder::new().delimiter(delimiter).build(),
            fields: vec![0; 4096],
            ends: vec![0; 64],
            width: 0,
            at_start: true,
        }
    }

    /// Returns the number of fields of the current record.
    pub(crate) fn width(&self) -> usize {
        self.width
    }

    /// Returns a field of the current record.
    pub(crate) fn field(&self, at: usize) -> &[u8] {
        let start = if at == 0 { 0 } else { self.ends[at - 1] };
        &self.fields[start..self.ends[at]]
    }

    /// Moves to the next record. Returns the line that it starts on, or nothing at the end.
    pub(crate) fn next(&mut self) -> Result<Option<u64>> {
        if !self.skip_line_ends()? {
            return Ok(None);
        }
        let line = self.core.line();
        let (mut out, mut fields) = (0, 0);
        let mut ended = false;
        loop {
            let input = fill(&mut self.input, &self.context)?;
            // At the end of the input, a newline ends the last record unless a quote is open.
            let at_end = input.is_empty();
            let input = if at_end { b"\n" } else { input };
            let (result, read, written, ends) =
                self.core.read_record(input, &mut self.fields[out..], &mut self.ends[fields..]);
            if !at_end {
                self.input.consume(read);
            } else if read > 0 {
                if ended || matches!(result, ReadRecordResult::InputEmpty) {
                    return Err(Error::input(
                        self.context.name(),
                        Place::Line.text(line),
                        "a quoted field that starts in this record is never closed",
                    ));
                }
                ended = true;
            }
            out += written;
            fields += ends;
            match result {
                ReadRecordResult::InputEmpty => {}
                ReadRecordResult::OutputFull => self.fields.resize(2 * self.fields.len(), 0),
                ReadRecordResult::OutputEndsFull => self.ends.resize(2 * self.ends.len(), 0),
                ReadRecordResult::Record => {
                    self.width = fields;
                    return Ok(Some(line));
                }
                ReadRecordResult::End => return Ok(None),
            }
        }
    }

    /// Skips empty lines, and a byte order mark at the very start. Returns false at the end of the input.
    fn skip_line_ends(&mut self) -> Result<bool> {
        if std::mem::take(&mut self.at_start) {
            let input = fill(&mut self.input, &self.context)?;
            if input.starts_with(b"\xEF\xBB\xBF") {
                self.input.consume(3);
            }
        }
        loop {
            let input = fill(&mut self.input, &self.context)?;
            if input.is_empty() {
                return Ok(false);
            }
            let ends = input.iter().take_while(|&&byte| byte == b'\n' || byte == b'\r').count();
            let lines = input[..ends].iter().filter(|&&byte| byte == b'\n').count() as u64;
            let all = ends == input.len();
            self.core.set_line(self.core.line() + lines);
            self.input.consume(ends);
            if !all {
                return Ok(true);
            }
        }
    }
}

/// Returns the bytes in the buffer, which is filled first if it is empty.
fn fill<'i>(input: &'i mut BufReader<Source<'_>>, context: &ErrorContext) -> Result<&'i [u8]> {
    loop {
        match input.fill_buf() {
            Ok(_) => break,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(context.error(error)),
        }
    }
    Ok(input.buffer())
}
