//! Where does a field begin and end?
//!
//! CSV as RFC 4180 has it, or the same with tabs: a header row, fields optionally in double quotes,
//! in which delimiters, newlines and doubled quotes stand for themselves. Lines that are empty
//! between records are skipped. The reader splits fields and keeps the wanted ones; the workers
//! tokenize them.
//!
//! The parser is driven here rather than through a higher layer for two things users need: the
//! exact line on which a record starts, and an error for a quote that is never closed.

use super::Columns;
use crate::block::BlockBuilder;
use crate::dictionary::Place;
use crate::pipeline::{Block, BlockReader};
use crate::source::{Explain, Source};
use csv_core::ReadRecordResult;
use simjoin_core::{Error, Result};
use std::io::{BufRead, BufReader};
use std::sync::Arc;

/// Reads records with the wanted columns.
pub(crate) struct Reader<'a> {
    records: Records<'a>,
    wanted: Arc<Wanted>,
    width: usize,
    block_bytes: usize,
    error: Option<Error>,
}

struct Wanted {
    explain: Explain,
    column: (usize, String),
    id: Option<(usize, String)>,
}

impl Wanted {
    fn error(&self, line: u64, message: String) -> Error {
        Error::input(self.explain.name(), Place::Line.text(line), message)
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
        let explain = source.explain();
        let mut records = Records::new(source, delimiter);
        let Some(line) = records.next()? else {
            return Err(Error::input(
                explain.name(),
                "",
                "no records: the input is empty; a header row was expected",
            ));
        };
        let mut names = Vec::new();
        for field in 0..records.width() {
            let name = std::str::from_utf8(records.field(field)).map_err(|_| {
                let message = format!("column name {} is not UTF-8", field + 1);
                Error::input(explain.name(), Place::Line.text(line), message)
            })?;
            names.push(name.to_owned());
        }
        let (column, id) = columns.find(explain.name(), &names)?;
        let wanted = Arc::new(Wanted {
            explain,
            column: (column, names[column].clone()),
            id: id.map(|id| (id, names[id].clone())),
        });
        Ok(Reader { records, wanted, width: names.len(), block_bytes, error: None })
    }

    /// Adds the next record to the block; false at the end.
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
        // Each record counts a few bytes beside its text, so that empty ones fill a block too.
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

/// Splits text into records, one after another into the same buffers.
pub(crate) struct Records<'a> {
    input: BufReader<Source<'a>>,
    explain: Explain,
    core: csv_core::Reader,
    fields: Vec<u8>,
    ends: Vec<usize>,
    width: usize,
    at_start: bool,
}

impl<'a> Records<'a> {
    pub(crate) fn new(source: Source<'a>, delimiter: u8) -> Self {
        let explain = source.explain();
        Records {
            input: BufReader::with_capacity(256 * 1024, source),
            explain,
            core: csv_core::ReaderBuilder::new().delimiter(delimiter).build(),
            fields: vec![0; 4096],
            ends: vec![0; 64],
            width: 0,
            at_start: true,
        }
    }

    /// How many fields the record has.
    pub(crate) fn width(&self) -> usize {
        self.width
    }

    /// A field of the record.
    pub(crate) fn field(&self, at: usize) -> &[u8] {
        let start = if at == 0 { 0 } else { self.ends[at - 1] };
        &self.fields[start..self.ends[at]]
    }

    /// Moves to the next record: the line it starts on, or nothing at the end.
    pub(crate) fn next(&mut self) -> Result<Option<u64>> {
        if !self.skip_line_ends()? {
            return Ok(None);
        }
        let line = self.core.line();
        let (mut out, mut fields) = (0, 0);
        let mut ended = false;
        loop {
            let input = fill(&mut self.input, &self.explain)?;
            // At the end a newline closes the last record, unless a quote is open.
            let at_end = input.is_empty();
            let input = if at_end { b"\n" } else { input };
            let (result, read, written, ends) =
                self.core.read_record(input, &mut self.fields[out..], &mut self.ends[fields..]);
            if !at_end {
                self.input.consume(read);
            } else if read > 0 {
                if ended || matches!(result, ReadRecordResult::InputEmpty) {
                    return Err(Error::input(
                        self.explain.name(),
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

    /// Skips empty lines, and a byte order mark at the very start; false at the end of the input.
    fn skip_line_ends(&mut self) -> Result<bool> {
        if std::mem::take(&mut self.at_start) {
            let input = fill(&mut self.input, &self.explain)?;
            if input.starts_with(b"\xEF\xBB\xBF") {
                self.input.consume(3);
            }
        }
        loop {
            let input = fill(&mut self.input, &self.explain)?;
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

/// The bytes at hand, more of them read when there are none.
fn fill<'i>(input: &'i mut BufReader<Source<'_>>, explain: &Explain) -> Result<&'i [u8]> {
    loop {
        match input.fill_buf() {
            Ok(_) => break,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(explain.error(error)),
        }
    }
    Ok(input.buffer())
}
