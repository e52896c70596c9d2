//! How does a record travel to a task?
//!
//! Records of one task and side travel in blocks of bytes; nothing is shuffled row by row. A block
//! begins with a byte that holds its side and the type of its ids. Records follow, each as
//!
//! ```text
//! row − previous row │ id │ unique tokens │ light tokens │ table tokens │ light: 8 bytes each │ table: gaps
//! ```
//!
//! Numbers are written in groups of seven bits. Integer ids are folded so that small negative numbers
//! are short; text ids are written as length and bytes. Frequent tokens are close to each other in the
//! table, so most gaps take one or two bytes.

use crate::order::{Place, TABLE};
use simjoin_core::{Error, Result, Side};

/// The id of a row in the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Id<'a> {
    /// The number of the row.
    Row,
    /// An integer.
    Integer(i64),
    /// A text.
    Text(&'a str),
}

impl Id<'_> {
    fn kind(self) -> u8 {
        match self {
            Id::Row => 0,
            Id::Integer(_) => 1,
            Id::Text(_) => 2,
        }
    }
}

/// A record in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Its row.
    pub row: u64,
    /// Its id.
    pub id: Id<'a>,
    /// The number of its tokens that occur in no other record.
    pub unique: u32,
    /// The places of its other tokens, ascending.
    pub places: &'a [Place],
}

/// Writes a record without its row.
pub fn body(record: &Record<'_>, out: &mut Vec<u8>) {
    match record.id {
        Id::Row => {}
        Id::Integer(id) => number(((id << 1) ^ (id >> 63)) as u64, out),
        Id::Text(id) => {
            number(id.len() as u64, out);
            out.extend_from_slice(id.as_bytes());
        }
    }
    let light = record.places.partition_point(|&place| place < TABLE);
    number(u64::from(record.unique), out);
    number(light as u64, out);
    number((record.places.len() - light) as u64, out);
    for place in &record.places[..light] {
        out.extend_from_slice(&place.to_le_bytes());
    }
    let mut next = TABLE;
    for &place in &record.places[light..] {
        number(place - next, out);
        next = place + 1;
    }
}

/// A block that is being written.
#[derive(Default)]
pub struct Block {
    bytes: Vec<u8>,
    row: u64,
}

impl Block {
    /// Adds a record by its [body]. The rows of a block must not descend.
    pub fn push(&mut self, side: Side, id: Id<'_>, row: u64, body: &[u8]) {
        if self.bytes.is_empty() {
            self.bytes.push(u8::from(side == Side::Right) | id.kind() << 1);
            self.row = 0;
        }
        number(row - self.row, &mut self.bytes);
        self.row = row;
        self.bytes.extend_from_slice(body);
    }

    /// Returns the length in bytes.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns whether it holds no record.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Returns the bytes and empties the block.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }
}

/// Reads a block and calls `receive` with the side of each record and the record.
pub fn read(
    block: &[u8],
    places: &mut Vec<Place>,
    mut receive: impl FnMut(Side, Record<'_>) -> Result<()>,
) -> Result<()> {
    let broken = || Error::Internal("a block of records is damaged".into());
    let Some((&head, mut rest)) = block.split_first() else {
        return Ok(());
    };
    let side = if head & 1 == 1 { Side::Right } else { Side::Left };
    let mut row = 0u64;
    while !rest.is_empty() {
        let mut next = || -> Option<u64> { read_number(&mut rest) };
        row = row.checked_add(next().ok_or_else(broken)?).ok_or_else(broken)?;
        let id = match head >> 1 {
            0 => Id::Row,
            1 => {
                let folded = next().ok_or_else(broken)?;
                Id::Integer((folded >> 1) as i64 ^ -((folded & 1) as i64))
            }
            2 => {
                let length = next().ok_or_else(broken)? as usize;
                let (text, more) = rest.split_at_checked(length).ok_or_else(broken)?;
                rest = more;
                Id::Text(std::str::from_utf8(text).map_err(|_| broken())?)
            }
            _ => return Err(broken()),
        };
        let mut next = || -> Option<u64> { read_number(&mut rest) };
        let unique = u32::try_from(next().ok_or_else(broken)?).map_err(|_| broken())?;
        let light = next().ok_or_else(broken)? as usize;
        let table = next().ok_or_else(broken)?;
        places.clear();
        let bytes = light.checked_mul(8).ok_or_else(broken)?;
        let (eights, more) = rest.split_at_checked(bytes).ok_or_else(broken)?;
        rest = more;
        places.extend(eights.as_chunks::<8>().0.iter().map(|eight| u64::from_le_bytes(*eight)));
        let mut place = TABLE;
        for _ in 0..table {
            let gap = read_number(&mut rest).filter(|&gap| gap <= u64::from(u32::MAX));
            place = place.checked_add(gap.ok_or_else(broken)?).ok_or_else(broken)?;
            places.push(place);
            place = place.checked_add(1).ok_or_else(broken)?;
        }
        receive(side, Record { row, id, unique, places })?;
    }
    Ok(())
}

/// Writes a number, seven bits to a byte, the lowest bits first.
fn number(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn read_number(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for (at, &byte) in rest.iter().enumerate().take(10) {
        value |= u64::from(byte & 0x7f) << (7 * at);
        if byte < 0x80 {
            *rest = &rest[at + 1..];
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Debug, PartialEq)]
    struct Owned {
        row: u64,
        integer: i64,
        text: String,
        unique: u32,
        places: Vec<Place>,
    }

    fn owned() -> impl Strategy<Value = Owned> {
        let light = prop::collection::btree_set(0..TABLE, 0..4);
        let table = prop::collection::btree_set(TABLE..TABLE + (1 << 32), 0..6);
        (0..u64::MAX / 64, any::<i64>(), ".{0,6}", any::<u32>(), light, table).prop_map(
            |(row, integer, text, unique, light, table)| Owned {
                row,
                integer,
                text,
                unique,
                places: light.into_iter().chain(table).collect(),
            },
        )
    }

    proptest! {
        #[test]
        fn records_survive_a_round_trip(
            mut records in prop::collection::vec(owned(), 0..20),
            kind in 0..3,
            right in any::<bool>(),
        ) {
            records.sort_by_key(|record| record.row);
            let side = if right { Side::Right } else { Side::Left };
            let id = |record: &Owned| -> Id<'static> {
                match kind {
                    0 => Id::Row,
                    1 => Id::Integer(record.integer),
                    _ => Id::Text(String::leak(record.text.clone())),
                }
            };
            let mut block = Block::default();
            let mut bytes = Vec::new();
            for record in &records {
                let Owned { row, unique, .. } = *record;
                let travelling = Record { row, id: id(record), unique, places: &record.places };
                bytes.clear();
                body(&travelling, &mut bytes);
                block.push(side, travelling.id, row, &bytes);
            }
            let block = block.take();
            let mut at = 0;
            read(&block, &mut Vec::new(), |found_side, found| {
                let record = &records[at];
                assert_eq!(found_side, side);
                let Owned { row, unique, .. } = *record;
                assert_eq!(found, Record { row, id: id(record), unique, places: &record.places });
                at += 1;
                Ok(())
            }).unwrap();
            prop_assert_eq!(at, records.len());
            // A block that is cut off gives an error or other records, never a panic.
            for end in 0..block.len() {
                let _ = read(&block[..end], &mut Vec::new(), |_, _| Ok(()));
            }
        }

        #[test]
        fn random_bytes_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = read(&bytes, &mut Vec::new(), |_, _| Ok(()));
        }
    }
}
