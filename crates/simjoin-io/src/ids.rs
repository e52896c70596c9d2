//! Which ids do users give their rows?
//!
//! The values of the id column are held in one string, with the end of each. They are unique within a file, so that an
//! id in the output identifies one row of the input.

use crate::block::BlockIds;
use crate::dictionary::{Hasher, Place};
use hashbrown::HashTable;
use simjoin_core::{Error, Result};
use std::borrow::Cow;

/// The ids of a file's rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ids {
    text: String,
    ends: Vec<usize>,
    integers: bool,
}

impl Ids {
    /// Returns the id of a row.
    ///
    /// # Panics
    ///
    /// Panics if there is no such row.
    #[inline]
    pub fn get(&self, row: usize) -> &str {
        let start = if row == 0 { 0 } else { self.ends[row - 1] };
        &self.text[start..self.ends[row]]
    }

    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns whether every id had an integer type (JSON number, integer column) and fits a signed 64-bit integer.
    /// Text formats have no types: their ids are strings.
    pub fn are_integers(&self) -> bool {
        self.integers
    }

    /// Returns all ids in one string.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }
}

/// Collects ids and refuses repeated ones.
///
/// # Memory
///
/// In addition to the ids, 20 bytes a row while a file is read: hash, place and table entry.
pub(crate) struct IdsBuilder<'a> {
    ids: Ids,
    hashes: Vec<u64>,
    places: Vec<u64>,
    table: HashTable<u32>,
    path: &'a str,
    place: Place,
}

impl<'a> IdsBuilder<'a> {
    pub(crate) fn new(path: &'a str, place: Place) -> Self {
        IdsBuilder {
            ids: Ids { integers: true, ..Ids::default() },
            hashes: Vec::new(),
            places: Vec::new(),
            table: HashTable::new(),
            path,
            place,
        }
    }

    /// Adds the ids of a block. A repeated id is an error that names both places.
    pub(crate) fn append(&mut self, block: &BlockIds, hasher: &Hasher) -> Result<()> {
        self.ids.integers &= block.integers;
        let mut start = 0;
        for (&end, &place) in block.ends.iter().zip(&block.places) {
            let id = &block.text[start..end];
            start = end;
            let hash = hasher.hash(id.as_bytes());
            let ids = &self.ids;
            if let Some(&first) = self.table.find(hash, |&row| ids.get(row as usize) == id) {
                return Err(Error::input(
                    self.path,
                    self.place.text(place),
                    format!(
                        "the id `{}` was already used at {}; ids must be unique",
                        shown(id),
                        self.place.text(self.places[first as usize])
                    ),
                ));
            }
            let row = self.ids.ends.len() as u32;
            self.ids.text.push_str(id);
            self.ids.ends.push(self.ids.text.len());
            self.hashes.push(hash);
            self.places.push(place);
            let hashes = &self.hashes;
            self.table.insert_unique(hash, row, |&row| hashes[row as usize]);
        }
        Ok(())
    }

    pub(crate) fn finish(mut self) -> Ids {
        self.ids.text.shrink_to_fit();
        self.ids.ends.shrink_to_fit();
        self.ids
    }
}

/// Returns an id for a message, shortened if it is very long.
fn shown(id: &str) -> Cow<'_, str> {
    match id.char_indices().nth(100) {
        None => Cow::Borrowed(id),
        Some((end, _)) => Cow::Owned(format!("{}…", &id[..end])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(ids: &[(&str, u64)], integers: bool) -> BlockIds {
        let mut block = BlockIds { integers, ..BlockIds::default() };
        for (id, place) in ids {
            block.text.push_str(id);
            block.ends.push(block.text.len());
            block.places.push(*place);
        }
        block
    }

    #[test]
    fn ids_keep_their_order_and_are_integers_only_if_all_are() {
        let hasher = Hasher::default();
        let mut builder = IdsBuilder::new("f", Place::Line);
        builder.append(&block(&[("7", 2), ("", 3)], true), &hasher).unwrap();
        builder.append(&block(&[("é", 5)], false), &hasher).unwrap();
        let ids = builder.finish();
        assert_eq!((0..ids.len()).map(|row| ids.get(row)).collect::<Vec<_>>(), ["7", "", "é"]);
        assert!(!ids.are_integers() && !ids.is_empty());
    }

    #[test]
    fn repeated_ids_are_errors_that_name_both_places() {
        let hasher = Hasher::default();
        let mut builder = IdsBuilder::new("f", Place::Line);
        builder.append(&block(&[("a", 2), ("b", 4)], true), &hasher).unwrap();
        let error = builder.append(&block(&[("c", 5), ("b", 9)], true), &hasher).unwrap_err();
        assert_eq!(
            error.to_string(),
            "f: line 9: the id `b` was already used at line 4; ids must be unique"
        );
    }
}
