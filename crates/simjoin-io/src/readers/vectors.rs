//! How are vectors stored in each format?
//!
//! `.npy` holds the numbers as they are in memory, row by row or, in Fortran order, column by column; both are read
//! directly into the collection, block by block. `.fvecs` and `.bvecs` have the dimension before every vector. CSV has
//! one number per field, or all numbers of a vector in one field (a column), separated by white space, commas or
//! semicolons, with or without brackets. [`has_header`] decides whether the first record is a header.

use super::csv::RecordSplitter;
use super::{Columns, name_list};
use crate::block::BlockIds;
use crate::dictionary::Place;
use crate::npy::Header;
use crate::path::{display_name, is_standard};
use crate::source::{self, ErrorContext, Source, read_full};
use simjoin_core::{Elements, Error, Result, VectorCollection, refusal};
use simjoin_kernels::pages::ask_for_large_anyway;
use std::io::BufReader;
use std::path::Path;
use std::sync::atomic::AtomicU64;

/// Collects vectors of one dimension. They are f32 as long as all added ones are.
#[derive(Default)]
pub(crate) struct VectorRows {
    dimension: Option<usize>,
    elements: Option<Elements>,
}

impl VectorRows {
    fn check(&mut self, found: usize) -> std::result::Result<(), String> {
        match *self.dimension.get_or_insert(found) {
            0 => Err("a vector without numbers; at least one was expected".into()),
            first if first != found => Err(format!(
                "a vector of dimension {found}; the first has {first}, and all must have the same"
            )),
            _ => Ok(()),
        }
    }

    pub(crate) fn add_f32(&mut self, row: &[f32]) -> std::result::Result<(), String> {
        self.check(row.len())?;
        match self.elements.get_or_insert_with(|| Elements::F32(Vec::new())) {
            Elements::F32(all) => all.extend_from_slice(row),
            Elements::F64(all) => all.extend(row.iter().map(|&x| f64::from(x))),
        }
        Ok(())
    }

    pub(crate) fn add_f64(&mut self, row: &[f64]) -> std::result::Result<(), String> {
        self.check(row.len())?;
        let elements = self.elements.get_or_insert_with(|| Elements::F64(Vec::new()));
        if let Elements::F32(all) = elements {
            *elements = Elements::F64(all.iter().map(|&x| f64::from(x)).collect());
        }
        if let Elements::F64(all) = elements {
            all.extend_from_slice(row);
        }
        Ok(())
    }

    /// Returns the collection. No vectors are an error, because the dimension is unknown.
    pub(crate) fn finish(self, name: &str) -> Result<VectorCollection> {
        match (self.dimension, self.elements) {
            (Some(dimension), Some(elements)) => VectorCollection::new(name, dimension, elements),
            _ => Err(Error::input(name, "", "no vectors: the input is empty")),
        }
    }
}

/// Reads vectors in the formats `.fvecs` and, if `bytes` is true, `.bvecs`.
pub(crate) fn vecs(source: Source<'_>, bytes: bool, rows: &mut VectorRows) -> Result<()> {
    /// The largest dimension that is accepted. A larger one means that the file has another format.
    const MOST: i32 = 1 << 20;
    let context = source.context();
    let mut input = BufReader::with_capacity(1 << 20, source);
    let (mut buffer, mut row) = (Vec::new(), Vec::new());
    for number in 0u64.. {
        let wrong =
            |message: String| Error::input(context.name(), Place::Row.text(number), message);
        let mut dimension = [0; 4];
        match read_full(&mut input, &mut dimension).map_err(|error| context.error(error))? {
            0 => return Ok(()),
            4 => {}
            _ => return Err(wrong("the file ends within a dimension: truncated file".into())),
        }
        let dimension = i32::from_le_bytes(dimension);
        if !(1..=MOST).contains(&dimension) {
            return Err(wrong(format!(
                "the vector has dimension {dimension}; expected 1 to {MOST}"
            )));
        }
        let size = dimension as usize * if bytes { 1 } else { 4 };
        buffer.resize(size, 0);
        if read_full(&mut input, &mut buffer).map_err(|error| context.error(error))? < size {
            return Err(wrong(format!("fewer than {dimension} elements: truncated file")));
        }
        row.clear();
        if bytes {
            row.extend(buffer.iter().map(|&byte| f32::from(byte)));
        } else {
            let four = |four: &[u8]| f32::from_le_bytes([four[0], four[1], four[2], four[3]]);
            row.extend(buffer.chunks_exact(4).map(four));
        }
        rows.add_f32(&row).map_err(wrong)?;
    }
    Ok(())
}

/// Reads vectors from delimited text.
pub(crate) fn csv(
    source: Source<'_>,
    delimiter: u8,
    columns: &Columns,
    rows: &mut VectorRows,
    ids: &mut BlockIds,
) -> Result<()> {
    let context = source.context();
    let mut records = RecordSplitter::new(source, delimiter);
    let Some(first) = records.next()? else {
        return Err(Error::input(context.name(), "", "no vectors: the input is empty"));
    };
    let text = |records: &RecordSplitter<'_>, at: usize, line: u64| -> Result<String> {
        String::from_utf8(records.field(at).to_vec()).map_err(|_| {
            let message = format!("field {} is not UTF-8", at + 1);
            Error::input(context.name(), Place::Line.text(line), message)
        })
    };
    let width = records.width();
    let fields = (0..width).map(|at| text(&records, at, first)).collect::<Result<Vec<_>>>()?;
    let named = columns.given().next();
    let is_header = has_header(&fields, named.is_some())
        .map_err(|message| Error::input(context.name(), Place::Line.text(first), message))?;
    if let Some(parameter) = named.filter(|_| !is_header) {
        let place = Place::Line.text(first);
        let message = "needs a header row, and the first record holds only numbers";
        return Err(Error::input_needs(context.name(), place, parameter, message));
    }
    let find = |wanted: &Option<String>| -> Result<Option<usize>> {
        let Some(wanted) = wanted else { return Ok(None) };
        fields.iter().position(|name| name == wanted).map(Some).ok_or_else(|| {
            let names = name_list(&fields);
            let message = format!("no column `{wanted}`; the columns are {names}");
            Error::input(context.name(), "", message)
        })
    };
    let (column, id) = (find(&columns.column)?, find(&columns.id)?);
    let mut row = Vec::new();
    let mut line = if is_header { records.next()? } else { Some(first) };
    while let Some(at_line) = line {
        let wrong =
            |message: String| Error::input(context.name(), Place::Line.text(at_line), message);
        if records.width() != width {
            return Err(wrong(format!("{} fields; the first record has {width}", records.width())));
        }
        let number = |text: &str, what: &dyn Fn() -> String| -> Result<f64> {
            text.trim()
                .parse()
                .map_err(|_| wrong(format!("`{text}` in {} is not a number", what())))
        };
        row.clear();
        match column {
            Some(at) => {
                let all = text(&records, at, at_line)?;
                let inner = all.trim().trim_start_matches(['[', '(']).trim_end_matches([']', ')']);
                let separator = |c: char| c.is_whitespace() || c == ',' || c == ';';
                for part in inner.split(separator).filter(|part| !part.is_empty()) {
                    row.push(number(part, &|| format!("column `{}`", fields[at]))?);
                }
            }
            None => {
                for at in (0..width).filter(|&at| Some(at) != id) {
                    let what = || match is_header {
                        true => format!("column `{}`", fields[at]),
                        false => format!("field {}", at + 1),
                    };
                    row.push(number(&text(&records, at, at_line)?, &what)?);
                }
            }
        }
        rows.add_f64(&row).map_err(wrong)?;
        if let Some(at) = id {
            let value = text(&records, at, at_line)?;
            if value.is_empty() {
                return Err(wrong(format!("the id in column `{}` is empty", fields[at])));
            }
            ids.text.push_str(&value);
            ids.ends.push(ids.text.len());
            ids.places.push(at_line);
            // Text has no types, so ids are strings.
            ids.integers = false;
        }
        line = records.next()?;
    }
    Ok(())
}

/// Decides whether the first record of delimited text is a header; `named` says whether the user named columns.
///
/// * If the user named columns, a record is a header unless it holds only numbers. Numbers that count the columns, such
///   as `0,1,2`, are a header too, because pandas writes them.
/// * Otherwise, a record without any number is a header, and a record of only numbers is a vector.
/// * A record that holds both is an error: it may be a vector with an empty or mistyped field.
/// * Two or more numbers that count the columns are an error too: they may be either.
///
/// So a vector is never mistaken for a header, nor a header that pandas writes for a vector.
fn has_header(fields: &[String], named: bool) -> std::result::Result<bool, String> {
    let is_number = |field: &&String| field.trim().parse::<f64>().is_ok();
    let numbers = fields.iter().filter(is_number).count();
    let counts_columns = fields.len() > 1
        && fields.iter().enumerate().all(|(at, field)| field.trim() == at.to_string());
    if named {
        return Ok(counts_columns || numbers < fields.len());
    }
    if counts_columns {
        return Err(format!(
            "the numbers from 0 to {} may be a header that pandas wrote, or a vector; remove the line if it is a \
             header, or write 0.0 instead of 0 if it is a vector",
            fields.len() - 1
        ));
    }
    match fields.iter().position(|field| !is_number(&field)) {
        None => Ok(false),
        Some(_) if numbers == 0 && fields.iter().any(|field| !field.trim().is_empty()) => Ok(true),
        Some(at) => Err(format!(
            "`{}` in field {} is not a number; expected a vector of numbers, or a header without numbers",
            fields[at],
            at + 1
        )),
    }
}

/// Reads a NumPy array.
pub(crate) fn npy(path: &Path, bytes_read: &AtomicU64) -> Result<VectorCollection> {
    let name = display_name(path);
    // The length of a plain file is compared with its header before memory is allocated.
    let file = if is_standard(path) { None } else { std::fs::metadata(path).ok() };
    let length = file.filter(std::fs::Metadata::is_file).map(|file| file.len());
    let mut source = source::open(path, bytes_read)?;
    let context = source.context();
    let header = Header::read(&mut source, &context)?;
    let wrong = |message: String| Error::input(&name, "", message);
    let [rows, columns] = header.shape[..] else {
        let shape = header.shape_text();
        return Err(wrong(format!(
            "the array has shape {shape}; two dimensions, vectors × elements, were expected"
        )));
    };
    let size = match header.kind.as_str() {
        "f4" => 4,
        "f8" => 8,
        kind => {
            return Err(wrong(format!(
                "the array has numbers of type `{kind}`; f4 or f8 (floating-point numbers) was expected"
            )));
        }
    };
    let count = rows.checked_mul(columns).filter(|&count| count < 1 << 48);
    let count = count.ok_or_else(|| {
        wrong(format!("the array has shape {}, which no memory can hold", header.shape_text()))
    })?;
    let plain = length.filter(|_| !context.is_compressed());
    if let Some(length) = plain {
        let expected = header.bytes + (count * size) as u64;
        if length != expected {
            return Err(wrong(format!(
                "{rows} × {columns} numbers of {size} bytes and the header are {expected} bytes, but the file has \
                 {length}"
            )));
        }
    }
    let array = Array {
        rows: if header.fortran { columns } else { rows },
        columns: if header.fortran { rows } else { columns },
        transposed: header.fortran,
        swap_bytes: header.big_endian != cfg!(target_endian = "big"),
        length_checked: plain.is_some(),
    };
    let elements = match size {
        8 => Elements::F64(array.read(&mut source, &context)?),
        _ => Elements::F32(array.read(&mut source, &context)?),
    };
    let mut more = [0; 1];
    if read_full(&mut source, &mut more).map_err(|error| context.error(error))? > 0 {
        return Err(wrong(format!(
            "the file holds more than the {count} numbers that its header announces"
        )));
    }
    if columns == 0 {
        return Err(wrong("the vectors have dimension 0; expected at least 1".into()));
    }
    VectorCollection::new(&name, columns, elements)
}

/// The arrangement of the numbers of an array in a file, row by row.
struct Array {
    rows: usize,
    columns: usize,
    /// Whether the vectors are the columns of these rows.
    transposed: bool,
    /// Whether the bytes of each number are in the opposite order.
    swap_bytes: bool,
    /// Whether the length of the file agrees with its header.
    length_checked: bool,
}

impl Array {
    /// Reads all numbers, vector by vector.
    ///
    /// # Memory
    ///
    /// The numbers and a block. If the length of the file could not be checked, memory grows while numbers are read, and
    /// numbers that have to be transposed are briefly held twice.
    fn read<T: bytemuck::Pod>(
        &self,
        source: &mut Source<'_>,
        context: &ErrorContext,
    ) -> Result<Vec<T>> {
        // Small enough to stay in the cache, so that copying the numbers costs little.
        const BLOCK: usize = 1 << 15;
        let count = self.rows * self.columns;
        let reserve = |all: &mut Vec<T>, more: usize| {
            refusal::handled(|| all.try_reserve(more)).map_err(|_| Error::Memory {
                what: context.name().to_owned(),
                needed: (count * size_of::<T>()) as u64,
                limit: u64::MAX,
                device: false,
            })
        };
        let scattered = self.transposed && self.length_checked;
        let mut all: Vec<T> = Vec::new();
        if self.length_checked {
            reserve(&mut all, count)?;
            ask_for_large_anyway(all.spare_capacity_mut());
        }
        if scattered {
            all.resize(count, T::zeroed());
        }
        let mut block = vec![T::zeroed(); BLOCK.min(count)];
        let mut at = 0;
        while at < count {
            let block = &mut block[..BLOCK.min(count - at)];
            let bytes: &mut [u8] = bytemuck::cast_slice_mut(block);
            let wanted = bytes.len();
            if read_full(source, bytes).map_err(|error| context.error(error))? < wanted {
                let message = format!("fewer than {count} numbers: truncated file");
                return Err(Error::input(context.name(), "", message));
            }
            if self.swap_bytes {
                bytes.chunks_exact_mut(size_of::<T>()).for_each(<[u8]>::reverse);
            }
            if scattered {
                for (place, &x) in (at..).zip(&*block) {
                    all[place % self.columns * self.rows + place / self.columns] = x;
                }
            } else {
                reserve(&mut all, block.len())?;
                all.extend_from_slice(block);
            }
            at += block.len();
        }
        if !self.transposed || scattered || all.is_empty() {
            return Ok(all);
        }
        let mut vectors = Vec::new();
        reserve(&mut vectors, count)?;
        for column in 0..self.columns {
            vectors.extend(all.iter().skip(column).step_by(self.columns).copied());
        }
        Ok(vectors)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_first_record_is_a_header_a_vector_or_refused() {
        let decide = |text: &str, named| {
            has_header(&text.split(',').map(Into::into).collect::<Vec<_>>(), named)
        };
        for (text, expected) in [
            ("x,y", Ok(true)),
            (",x,y", Ok(true)),
            ("1,2", Ok(false)),
            ("0", Ok(false)),
            ("0,2", Ok(false)),
            ("0.0,1", Ok(false)),
            ("nan,inf", Ok(false)),
            ("2020,2021", Ok(false)),
            ("1,,2", Err("`` in field 2 is not a number")),
            ("1.5x,2,3", Err("`1.5x` in field 1 is not a number")),
            (",", Err("`` in field 1 is not a number")),
            (",0,1", Err("`` in field 1 is not a number")),
            ("0,1", Err("from 0 to 1 may be a header")),
            ("0, 1,2", Err("from 0 to 2 may be a header")),
        ] {
            match (decide(text, false), expected) {
                (Err(found), Err(part)) => assert!(found.contains(part), "{text}: {found}"),
                (found, expected) => assert_eq!(found, expected.map_err(Into::into), "{text}"),
            }
        }
        for text in ["x,y", "id,0,1", ",0,1", "0,1,2"] {
            assert_eq!(decide(text, true), Ok(true), "{text}");
        }
        assert_eq!(decide("1,2", true), Ok(false));
    }
}
