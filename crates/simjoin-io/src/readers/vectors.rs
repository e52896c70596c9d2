//! Where do a vector's numbers stand?
//!
//! `.npy` holds them as they lie in memory, row after row or, in Fortran's order, column after column;
//! both are read straight into the collection, block by block. `.fvecs` and `.bvecs` say the dimension before every
//! vector. CSV has a number in each field, or all numbers of a vector in one field (a column), separated
//! by white space, commas or semicolons, in brackets or not. A first record that holds anything but
//! numbers is a header.

use super::csv::Records;
use super::{Columns, name_list};
use crate::block::BlockIds;
use crate::dictionary::Place;
use crate::source::{self, Explain, Source, display_name};
use simjoin_core::{Elements, Error, Result, VectorCollection, refusal};
use std::io::{self, BufReader, Read};
use std::sync::atomic::AtomicU64;

/// Vectors of one dimension, one after the other. f32 as long as all are.
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

    /// The collection; no vector at all is an error, as nobody knows the dimension.
    pub(crate) fn finish(self, name: &str) -> Result<VectorCollection> {
        match (self.dimension, self.elements) {
            (Some(dimension), Some(elements)) => VectorCollection::new(name, dimension, elements),
            _ => Err(Error::input(name, "", "no vectors: the input is empty")),
        }
    }
}

/// Reads vectors that each say their dimension.
pub(crate) fn vecs(source: Source<'_>, bytes: bool, rows: &mut VectorRows) -> Result<()> {
    /// More is a file of another kind.
    const MOST: i32 = 1 << 20;
    let explain = source.explain();
    let mut input = BufReader::with_capacity(1 << 20, source);
    let (mut buffer, mut row) = (Vec::new(), Vec::new());
    for number in 0u64.. {
        let wrong =
            |message: String| Error::input(explain.name(), Place::Row.text(number), message);
        let mut dimension = [0; 4];
        match read_full(&mut input, &mut dimension).map_err(|error| explain.error(error))? {
            0 => return Ok(()),
            4 => {}
            _ => return Err(wrong("the file ends within a dimension: truncated file".into())),
        }
        let dimension = i32::from_le_bytes(dimension);
        if !(1..=MOST).contains(&dimension) {
            return Err(wrong(format!(
                "a dimension of {dimension}; expected one from 1 to {MOST}"
            )));
        }
        let size = dimension as usize * if bytes { 1 } else { 4 };
        buffer.resize(size, 0);
        if read_full(&mut input, &mut buffer).map_err(|error| explain.error(error))? < size {
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

/// Fills a buffer, less only at the end of the input.
fn read_full(input: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match input.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Reads vectors from delimited text.
pub(crate) fn csv(
    source: Source<'_>,
    delimiter: u8,
    columns: &Columns,
    rows: &mut VectorRows,
    ids: &mut BlockIds,
) -> Result<()> {
    let explain = source.explain();
    let mut records = Records::new(source, delimiter);
    let Some(first) = records.next()? else {
        return Err(Error::input(explain.name(), "", "no vectors: the input is empty"));
    };
    let text = |records: &Records<'_>, at: usize, line: u64| -> Result<String> {
        String::from_utf8(records.field(at).to_vec()).map_err(|_| {
            let message = format!("field {} is not UTF-8", at + 1);
            Error::input(explain.name(), Place::Line.text(line), message)
        })
    };
    let width = records.width();
    let fields = (0..width).map(|at| text(&records, at, first)).collect::<Result<Vec<_>>>()?;
    let is_header = !fields.iter().all(|field| field.trim().parse::<f64>().is_ok());
    if let Some(parameter) = columns.given().next().filter(|_| !is_header) {
        let message = "needs a header row, and the first record holds only numbers";
        return Err(Error::input_needs(
            explain.name(),
            Place::Line.text(first),
            parameter,
            message,
        ));
    }
    let find = |wanted: &Option<String>| -> Result<Option<usize>> {
        let Some(wanted) = wanted else { return Ok(None) };
        fields.iter().position(|name| name == wanted).map(Some).ok_or_else(|| {
            let names = name_list(&fields);
            let message = format!("no column `{wanted}`; the columns are {names}");
            Error::input(explain.name(), "", message)
        })
    };
    let (column, id) = (find(&columns.column)?, find(&columns.id)?);
    let mut row = Vec::new();
    let mut line = if is_header { records.next()? } else { Some(first) };
    while let Some(at_line) = line {
        let wrong =
            |message: String| Error::input(explain.name(), Place::Line.text(at_line), message);
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
            // Text has no types.
            ids.integers = false;
        }
        line = records.next()?;
    }
    Ok(())
}

/// What the header of an `.npy` file says.
#[derive(Debug, PartialEq)]
struct Header {
    wide: bool,
    big_endian: bool,
    fortran: bool,
    rows: usize,
    columns: usize,
}

/// Reads an array of NumPy's.
pub(crate) fn npy(path: &str, bytes_read: &AtomicU64) -> Result<VectorCollection> {
    let name = display_name(path);
    // Of a file that is not compressed the length is known, and so whether memory is worth asking for.
    let length =
        std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file).map(|file| file.len());
    let mut source = source::open(path, bytes_read)?;
    let explain = source.explain();
    let (header, before) = npy_header(&mut source, &explain)?;
    let count = header.rows.checked_mul(header.columns).filter(|&count| count < 1 << 48);
    let Some(count) = count else {
        return Err(Error::input(name, "", "its shape is larger than any memory"));
    };
    let size = if header.wide { 8 } else { 4 };
    let plain = length.filter(|_| !explain.is_compressed());
    if let Some(length) = plain {
        let expected = before + (count * size) as u64;
        if length != expected {
            let message = format!(
                "{} × {} numbers of {size} bytes and the header are {expected} bytes, but the file has \
                 {length}",
                header.rows, header.columns
            );
            return Err(Error::input(name, "", message));
        }
    }
    let elements = if header.wide {
        Elements::F64(numbers(&mut source, &explain, &header, count, f64::swap)?)
    } else {
        Elements::F32(numbers(&mut source, &explain, &header, count, f32::swap)?)
    };
    let mut more = [0; 1];
    if read_full(&mut source, &mut more).map_err(|error| explain.error(error))? > 0 {
        return Err(Error::input(name, "", "there is more in the file than its header says"));
    }
    if header.columns == 0 {
        return Err(Error::input(name, "", "the vectors have no dimension; expected at least 1"));
    }
    VectorCollection::new(name, header.columns, elements)
}

trait Swap {
    fn swap(self) -> Self;
}

impl Swap for f32 {
    fn swap(self) -> Self {
        f32::from_bits(self.to_bits().swap_bytes())
    }
}

impl Swap for f64 {
    fn swap(self) -> Self {
        f64::from_bits(self.to_bits().swap_bytes())
    }
}

/// Reads so many numbers into the order of rows.
fn numbers<T: bytemuck::Pod>(
    source: &mut Source<'_>,
    explain: &Explain,
    header: &Header,
    count: usize,
    swap: fn(T) -> T,
) -> Result<Vec<T>> {
    const BLOCK: usize = 1 << 20;
    let name = explain.name();
    let mut all: Vec<T> = Vec::new();
    let no_memory = |_| {
        let needed = (count * size_of::<T>()) as u64;
        Error::Memory { what: name.to_owned(), needed, limit: u64::MAX, device: false }
    };
    // A file that is not compressed is as long as its header says. Others might lie.
    let trusted = !explain.is_compressed() && name != "standard input";
    let mut block = vec![T::zeroed(); if header.fortran { BLOCK.min(count) } else { 0 }];
    if header.fortran || trusted {
        refusal::handled(|| all.try_reserve_exact(count)).map_err(no_memory)?;
    }
    if header.fortran {
        all.resize(count, T::zeroed());
    }
    let foreign = header.big_endian != cfg!(target_endian = "big");
    let mut at = 0;
    while at < count {
        let now = BLOCK.min(count - at);
        let target = if header.fortran {
            &mut block[..now]
        } else {
            all.resize(at + now, T::zeroed());
            &mut all[at..]
        };
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut *target);
        let wanted = bytes.len();
        if read_full(source, bytes).map_err(|error| explain.error(error))? < wanted {
            let message = format!("fewer than {count} numbers: truncated file");
            return Err(Error::input(name, "", message));
        }
        if foreign {
            target.iter_mut().for_each(|x| *x = swap(*x));
        }
        if header.fortran {
            for (offset, &x) in block[..now].iter().enumerate() {
                let (row, column) = ((at + offset) % header.rows, (at + offset) / header.rows);
                all[row * header.columns + column] = x;
            }
        }
        at += now;
    }
    Ok(all)
}

/// The header, and how many bytes it takes.
fn npy_header(source: &mut Source<'_>, explain: &Explain) -> Result<(Header, u64)> {
    let name = explain.name().to_owned();
    let wrong = |message: &str| Error::input(name.as_str(), "", message);
    let mut read = |size: usize| -> Result<Vec<u8>> {
        let mut bytes = vec![0; size];
        let filled = read_full(source, &mut bytes).map_err(|error| explain.error(error))?;
        bytes.truncate(filled);
        Ok(bytes)
    };
    let start = read(8)?;
    if start.len() < 8 || !start.starts_with(b"\x93NUMPY") {
        return Err(wrong("not an npy file: it does not begin with \\x93NUMPY"));
    }
    let wide = match start[6] {
        1 => false,
        2 | 3 => true,
        version => return Err(wrong(&format!("npy version {version}; 1, 2 or 3 was expected"))),
    };
    let size = read(if wide { 4 } else { 2 })?;
    let length = size.iter().rev().fold(0usize, |all, &byte| all << 8 | usize::from(byte));
    if size.len() < if wide { 4 } else { 2 } || length > 1 << 20 {
        return Err(wrong("its header is damaged"));
    }
    let bytes = read(length)?;
    if bytes.len() < length {
        return Err(wrong("the file ends within its header: truncated file"));
    }
    let text = String::from_utf8_lossy(&bytes);
    let header = parse_header(&text).map_err(|message| wrong(&message))?;
    Ok((header, (8 + size.len() + length) as u64))
}

/// Reads the dictionary of a header, such as `{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }`.
fn parse_header(text: &str) -> std::result::Result<Header, String> {
    let value = |key: &str| -> std::result::Result<&str, String> {
        let missing = || format!("its header does not say `{key}`");
        [format!("'{key}'"), format!("\"{key}\"")]
            .iter()
            .find_map(|quoted| text.split_once(quoted.as_str()))
            .and_then(|(_, after)| after.trim_start().strip_prefix(':'))
            .map(str::trim_start)
            .ok_or_else(missing)
    };
    let kind = value("descr")?;
    let kind = kind
        .strip_prefix(['\'', '"'])
        .and_then(|rest| rest.split(['\'', '"']).next())
        .ok_or("its numbers are records; f32 or f64 was expected")?;
    let (big_endian, wide) = match kind {
        "<f4" => (false, false),
        "<f8" => (false, true),
        ">f4" => (true, false),
        ">f8" => (true, true),
        other => {
            return Err(format!(
                "its numbers are of type {other}; f32 or f64 (<f4, <f8, >f4 or >f8) was expected"
            ));
        }
    };
    let fortran = match value("fortran_order")? {
        order if order.starts_with("True") => true,
        order if order.starts_with("False") => false,
        _ => return Err("its header does not say `fortran_order`".into()),
    };
    let shape = value("shape")?
        .strip_prefix('(')
        .and_then(|rest| rest.split_once(')'))
        .ok_or("its header does not say `shape`")?
        .0;
    let sizes: Vec<usize> = shape
        .split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .map(|part| part.trim_end_matches('L').parse())
        .collect::<std::result::Result<_, _>>()
        .map_err(|_| format!("its shape ({shape}) is not one of whole numbers"))?;
    match sizes[..] {
        [rows, columns] => Ok(Header { wide, big_endian, fortran, rows, columns }),
        _ => Err(format!(
            "an array of {} dimensions, shape ({shape}); one of two, vectors × elements, was expected",
            sizes.len()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_read_or_refused() {
        let header =
            parse_header("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }").unwrap();
        let expected =
            Header { wide: false, big_endian: false, fortran: false, rows: 3, columns: 4 };
        assert_eq!(header, expected);
        let header = parse_header("{\"shape\":(5,2),'descr':'>f8','fortran_order':True}").unwrap();
        let expected = Header { wide: true, big_endian: true, fortran: true, rows: 5, columns: 2 };
        assert_eq!(header, expected);
        for (text, message) in [
            ("", "does not say `descr`"),
            (
                "{'descr': '<i4', 'fortran_order': False, 'shape': (3, 4)}",
                "of type <i4; f32 or f64",
            ),
            ("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (3,)}", "are records"),
            ("{'descr': '<f4', 'shape': (3, 4)}", "`fortran_order`"),
            ("{'descr': '<f4', 'fortran_order': False, 'shape': (3,)}", "1 dimensions, shape (3,)"),
            ("{'descr': '<f4', 'fortran_order': False, 'shape': ()}", "0 dimensions"),
            ("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3, 4)}", "3 dimensions"),
            ("{'descr': '<f4', 'fortran_order': False, 'shape': (2, -3)}", "whole numbers"),
            ("{'descr': '<f4', 'fortran_order': False, 'shape': 3}", "`shape`"),
        ] {
            let error = parse_header(text).unwrap_err();
            assert!(error.contains(message), "{text}: {error}");
        }
    }
}
